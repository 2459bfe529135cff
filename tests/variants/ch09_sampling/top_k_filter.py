# variant: the threshold from a full sort, and where
def top_k_filter(logits, k):
    if k <= 0:
        raise ValueError(f"top k with k = {k}")
    V = logits.shape[-1]
    if k >= V:
        return logits
    threshold = torch.sort(logits, dim=-1, descending=True)[0][..., k - 1 : k]
    return torch.where(logits >= threshold, logits, float("-inf"))


# variant: kthvalue counts from below
def top_k_filter(logits, k):
    assert k >= 1, f"k is {k}"
    V = logits.size(-1)
    kth = logits.kthvalue(max(V - k + 1, 1), dim=-1, keepdim=True).values
    return torch.where(logits < kth, torch.full_like(logits, -float("inf")), logits)


# variant: how many are greater than each
def top_k_filter(logits, k):
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    greater = (logits.unsqueeze(-2) > logits.unsqueeze(-1)).sum(dim=-1)
    out = logits.clone()
    out[greater >= k] = -torch.inf
    return out


# variant: row by row in plain Python
def top_k_filter(logits, k):
    if k < 1:
        raise ValueError(f"k = {k}")
    rows = logits.reshape(-1, logits.shape[-1])
    kept = []
    for row in rows:
        kth = sorted(row.tolist(), reverse=True)[min(k, len(row)) - 1]
        kept.append(torch.stack([x if x.item() >= kth else torch.full_like(x, -math.inf) for x in row]))
    return torch.stack(kept).reshape(logits.shape)


# variant: the smallest of the k, expanded to a penalty that is added
def top_k_filter(logits, k):
    if k < 1:
        raise ValueError(f"cannot keep {k} tokens")
    smallest = torch.topk(logits, k=min(k, logits.shape[-1]))[0].min(dim=-1, keepdim=True)[0]
    penalty = torch.zeros_like(logits)
    penalty[logits < smallest] = -math.inf
    return logits + penalty
