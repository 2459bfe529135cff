# variant: positions compared
def causal_mask(q_len, k_len=None):
    if k_len is None:
        k_len = q_len
    queries = torch.arange(k_len - q_len, k_len)[:, None]
    return torch.arange(k_len)[None, :] <= queries


# variant: the upper triangle, inverted
def causal_mask(q_len, k_len=None):
    k_len = k_len or q_len
    return ~torch.triu(torch.ones((q_len, k_len), dtype=torch.bool), diagonal=1 + k_len - q_len)


# variant: the last rows of the square mask, made of floats first
def causal_mask(q_len, k_len=None):
    n = q_len if k_len is None else k_len
    return torch.tril(torch.ones(n, n))[n - q_len :].bool()


# variant: filled row by row
def causal_mask(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        mask[i, : k_len - q_len + i + 1] = True
    return mask


# variant: a list of lists
def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    k_len = q_len if k_len is None else k_len
    return torch.tensor([[j - i <= k_len - q_len for j in range(k_len)] for i in range(q_len)])
