# variant: unfold gives each query a view of its own keys
def windowed_attention(q, k, v, window):
    if window < 1:
        raise ValueError(f"window = {window}")
    Tq, Tk = q.size(-2), k.size(-2)
    window = min(window, Tk)
    pad = [torch.cat([x.new_zeros(*x.shape[:-2], window - 1, x.size(-1)), x], -2) for x in (k, v)]
    keys, values = (x.unfold(-2, window, 1)[..., Tk - Tq :, :, :] for x in pad)  # (..., Tq, d, window)
    scores = (q.unsqueeze(-2) @ keys).squeeze(-2) / math.sqrt(q.size(-1))
    at = torch.arange(Tk - Tq, Tk, device=q.device)[:, None] + torch.arange(1 - window, 1, device=q.device)
    weights = scores.masked_fill(at < 0, -math.inf).softmax(-1)
    return (values @ weights.unsqueeze(-1)).squeeze(-1)


# variant: one query at a time
def windowed_attention(q, k, v, window):
    assert window >= 1, f"window = {window}"
    past = k.size(-2) - q.size(-2)
    rows = []
    for i in range(q.size(-2)):
        first = max(0, past + i + 1 - window)
        scores = (k[..., first : past + i + 1, :] * q[..., i : i + 1, :]).sum(-1) / q.size(-1) ** 0.5
        rows.append((scores.softmax(-1).unsqueeze(-1) * v[..., first : past + i + 1, :]).sum(-2))
    return torch.stack(rows, dim=-2)


# variant: chunks of a fixed size, each merged from two tiles with lse
def windowed_attention(q, k, v, window):
    if window <= 0:
        raise ValueError(f"a window of {window} sees nothing")
    Tq, Tk = q.shape[-2:][0], k.shape[-2]
    out, size = [], max(window, 16)
    for a in range(0, Tq, size):
        b = min(a + size, Tq)
        at = torch.arange(a, b, device=q.device)[:, None] + Tk - Tq
        low, high = max(0, Tk - Tq + a - window + 1), Tk - Tq + b
        key = torch.arange(low, high, device=q.device)[None]
        mask = (key <= at) & (key > at - window)
        out.append(attention_with_lse(q[..., a:b, :], k[..., low:high, :], v[..., low:high, :], mask)[0])
    return torch.cat(out, -2)
