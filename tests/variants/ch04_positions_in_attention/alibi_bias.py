# variant: einsum, positions counted back from the end
def alibi_bias(n_heads, q_len, k_len):
    assert q_len <= k_len, f"q_len={q_len} > k_len={k_len}"
    back_q, back_k = torch.arange(q_len).flip(0), torch.arange(k_len).flip(0)
    distance = torch.abs(back_q.unsqueeze(1) - back_k.unsqueeze(0)).float()
    return torch.einsum("h,qk->hqk", alibi_slopes(n_heads), -distance)


# variant: the last rows of the square bias
def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    if k_len < q_len:
        raise ValueError(f"more queries ({q_len}) than keys ({k_len})")
    positions = torch.arange(k_len, dtype=torch.float32)
    whole = -(positions.view(1, -1, 1) - positions.view(1, 1, -1)).abs() * alibi_slopes(n_heads).view(-1, 1, 1)
    return whole[:, -q_len:]


# variant: filled entry by entry
def alibi_bias(n_heads, q_len, k_len):
    if q_len > k_len:
        raise ValueError("q_len %d, k_len %d" % (q_len, k_len))
    bias = torch.zeros(n_heads, q_len, k_len)
    for i in range(q_len):
        for j in range(k_len):
            bias[:, i, j] = -abs(k_len - q_len + i - j)
    return bias * alibi_slopes(n_heads).reshape(n_heads, 1, 1)


# variant: one table a head, stacked
def alibi_bias(n_heads, q_len, k_len):
    first = k_len - q_len
    if first < 0:
        raise ValueError(f"{q_len} queries do not fit among {k_len} keys")
    distance = torch.cdist(torch.arange(first, k_len).float()[:, None], torch.arange(k_len).float()[:, None], p=1)
    return torch.stack([distance.mul(-slope) for slope in alibi_slopes(n_heads).tolist()])
