# variant: the running maximum and sum of the paper, divided once at the end
def tiled_attention(q, k, v, block, causal=False):
    if block < 1:
        raise ValueError(f"block must be at least 1, got {block}")
    Tq, Tk = q.size(-2), k.size(-2)
    q = q / math.sqrt(q.size(-1))
    m = q.new_full((*q.shape[:-1], 1), -math.inf)
    s = q.new_zeros(*q.shape[:-1], 1)
    acc = q.new_zeros(*q.shape[:-1], v.size(-1))
    for a in range(0, Tk, block):
        scores = q @ k[..., a : a + block, :].mT
        if causal:
            later = torch.arange(a, a + scores.size(-1), device=q.device)[None] > torch.arange(Tk - Tq, Tk, device=q.device)[:, None]
            scores.masked_fill_(later, -math.inf)
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        base = new.clamp(min=torch.finfo(q.dtype).min)
        fade = (m - base).exp()
        e = scores.sub_(base).exp_()
        s = s * fade + e.sum(-1, keepdim=True)
        acc = acc * fade + e @ v[..., a : a + block, :]
        m = new
    out = acc / s.clamp(min=torch.finfo(q.dtype).tiny)
    return out, (m + s.log()).squeeze(-1) if Tk else m.squeeze(-1)


# variant: tiles over queries and keys, and strips wholly in the future skipped
def tiled_attention(q, k, v, block, causal=False):
    assert block >= 1, f"block = {block}"
    Tq, Tk = q.shape[-2], k.shape[-2]
    output = q.new_empty(*q.shape[:-1], v.shape[-1])
    lse = q.new_empty(q.shape[:-1])
    size = max(block, 16)
    for i in range(0, Tq, size):
        rows = q[..., i : i + size, :]
        last = Tk - Tq + min(i + size, Tq)
        out, l = torch.zeros_like(output[..., i : i + size, :]), torch.full_like(lse[..., i : i + size], -math.inf)
        for j in range(0, last if causal else Tk, block):
            mask = None
            if causal and j + block > Tk - Tq + i:
                at = torch.arange(rows.size(-2), device=q.device)[:, None] + Tk - Tq + i
                mask = torch.arange(j, min(j + block, Tk), device=q.device)[None, :] <= at
            out, l = merge_attention(out, l, *attention_with_lse(rows, k[..., j : j + block, :], v[..., j : j + block, :], mask))
        output[..., i : i + size, :] = out
        lse[..., i : i + size] = l
    return output, lse


# variant: split into strips, from the last to the first, with logaddexp
def tiled_attention(q, k, v, block, causal=False):
    if block <= 0:
        raise ValueError(f"a strip of {block} keys is not possible")
    Tq, Tk = q.size(-2), k.size(-2)
    out, lse = torch.zeros(*q.shape[:-1], v.size(-1), dtype=q.dtype, device=q.device), torch.full(q.shape[:-1], float("-inf"), dtype=q.dtype, device=q.device)
    here = torch.arange(Tq, device=q.device) + (Tk - Tq)
    begin = Tk
    for keys, values in reversed(list(zip(k.split(block, dim=-2), v.split(block, dim=-2)))):
        begin -= keys.size(-2)
        mask = None
        if causal:
            mask = (torch.arange(keys.size(-2), device=q.device) + begin)[None, :] <= here[:, None]
        part, part_lse = attention_with_lse(q, keys, values, mask)
        both = torch.logaddexp(lse, part_lse)
        base = both.nan_to_num(nan=0.0, neginf=0.0)
        out = out * (lse - base).exp()[..., None] + part * (part_lse - base).exp()[..., None]
        lse = both
    return out, lse


# variant: one query at a time
def tiled_attention(q, k, v, block, causal=False):
    if block < 1:
        raise ValueError(f"block = {block}")
    Tq, Tk = q.shape[-2], k.shape[-2]
    outputs, lses = [], []
    for i in range(Tq):
        row = q[..., i : i + 1, :]
        end = Tk - Tq + i + 1 if causal else Tk
        state = q.new_zeros(*row.shape[:-1], v.shape[-1]), q.new_full(row.shape[:-1], -math.inf)
        for j in range(0, end, block):
            stop = min(j + block, end)
            state = merge_attention(*state, *attention_with_lse(row, k[..., j:stop, :], v[..., j:stop, :]))
        outputs.append(state[0])
        lses.append(state[1])
    return torch.cat(outputs, -2), torch.cat(lses, -1)
