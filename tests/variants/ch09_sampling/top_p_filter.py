# variant: as Hugging Face does, from the tail up
def top_p_filter(logits, p):
    if p <= 0 or p > 1:
        raise ValueError(f"p must be in (0, 1], got {p}")
    if p >= 1:
        return logits
    ascending, order = torch.sort(logits, descending=False)
    tail = ascending.softmax(dim=-1).cumsum(dim=-1)
    goes = tail <= 1 - p
    goes[..., -1:] = False
    return logits.masked_fill(goes.scatter(-1, order, goes.clone()), -math.inf)


# variant: the mask moved by one, and undone with argsort of argsort
def top_p_filter(logits, p):
    assert 0 < p <= 1, f"p = {p} must lie above 0 and not above 1"
    order = logits.argsort(dim=-1, descending=True)
    sums = logits.softmax(dim=-1).gather(-1, order).cumsum(dim=-1)
    goes = sums > p
    goes[..., 1:] = goes[..., :-1].clone()
    goes[..., 0] = False
    if p == 1:
        goes = torch.zeros_like(goes)
    back = order.argsort(dim=-1)
    return torch.where(goes.gather(-1, back), -torch.inf, logits)


# variant: sorted logits are filtered and scattered back, in double precision inside
def top_p_filter(logits, p):
    if not (p > 0 and p <= 1):
        raise ValueError(f"p is {p}")
    if p == 1.0:
        return logits.clone()
    values, order = logits.sort(dim=-1, descending=True)
    probs = torch.softmax(values.double(), dim=-1)
    before = torch.cat([torch.zeros_like(probs[..., :1]), probs.cumsum(dim=-1)[..., :-1]], dim=-1)
    values = values.masked_fill(before >= p, -math.inf)
    return torch.empty_like(values).scatter_(-1, order, values)


# variant: how many tokens are needed, then a loop over the rows
def top_p_filter(logits, p):
    if p <= 0 or p > 1:
        raise ValueError(f"{p} is no probability to reach")
    if p == 1:
        return logits + 0.0
    rows = []
    for row in logits.reshape(-1, logits.size(-1)):
        probs, order = row.softmax(-1).sort(descending=True)
        reached, kept = 0.0, []
        for q, token in zip(probs.tolist(), order.tolist()):
            kept.append(token)
            reached += q
            if reached >= p:
                break
        out = torch.full_like(row, float("-inf"))
        out[kept] = row[kept]
        rows.append(out)
    return torch.stack(rows).view(logits.shape)


# variant: searchsorted counts what is needed
def top_p_filter(logits, p):
    if not 0.0 < p <= 1.0:
        raise ValueError(f"top_p_filter: p={p}")
    if p == 1:
        return logits
    order = torch.argsort(logits, dim=-1, descending=True, stable=True)
    wide = torch.promote_types(logits.dtype, torch.float32)
    sums = torch.cumsum(torch.softmax(torch.gather(logits, -1, order).to(wide), -1), -1).contiguous()
    needed = torch.searchsorted(sums, torch.full_like(sums[..., :1], p)) + 1
    rank = torch.empty_like(order).scatter_(-1, order, torch.arange(logits.size(-1), device=logits.device).expand_as(order))
    return logits.masked_fill(rank >= needed, -float("inf"))
