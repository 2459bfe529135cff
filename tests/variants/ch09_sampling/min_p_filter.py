# variant: the limit in logits, the greatest plus log(min_p)
def min_p_filter(logits, min_p):
    if min_p < 0 or min_p > 1:
        raise ValueError(f"min_p must be in [0, 1], got {min_p}")
    if min_p == 0:
        return logits
    return torch.where(logits >= logits.amax(dim=-1, keepdim=True) + math.log(min_p), logits, -torch.inf)


# variant: in log-probabilities, with torch's log, which gives -inf for 0
def min_p_filter(logits, min_p):
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p = {min_p}")
    log_probs = logits.log_softmax(dim=-1)
    limit = log_probs.max(dim=-1, keepdim=True).values + torch.tensor(min_p, dtype=torch.float32, device=logits.device).log()
    out = logits.clone()
    out[log_probs < limit] = float("-inf")
    return out


# variant: the probability of the likeliest by max, which gives its place too
def min_p_filter(logits, min_p):
    assert 0.0 <= min_p <= 1.0, f"a share lies between 0 and 1, and min_p is {min_p}"
    probs = torch.softmax(logits, dim=-1)
    top, _ = probs.max(dim=-1, keepdim=True)
    return logits.masked_fill(probs < top * min_p, -float("inf"))


# variant: the ratio to the likeliest is e to the difference of the logits
def min_p_filter(logits, min_p):
    if min_p > 1:
        raise ValueError(f"min_p={min_p} is above 1")
    if min_p < 0:
        raise ValueError(f"min_p={min_p} is below 0")
    ratio = (logits - logits.max(dim=-1, keepdim=True).values).exp()
    return logits.where(ratio >= min_p, logits.new_tensor(-math.inf))


# variant: probabilities divided by the greatest, in double precision, and the log of the mask added
def min_p_filter(logits, min_p):
    if not (min_p >= 0 and min_p <= 1):
        raise ValueError(f"{min_p} is not a share")
    probs = torch.softmax(logits.double(), dim=-1)
    keep = probs / probs.amax(-1, keepdim=True) >= min_p
    return logits + keep.to(logits.dtype).log()


# variant: sorted, how many stay counted, then a loop over the rows
def min_p_filter(logits, min_p):
    if min_p < 0 or min_p > 1:
        raise ValueError(f"min_p_filter: min_p = {min_p}")
    rows = []
    for row in logits.reshape(-1, logits.size(-1)):
        probs, order = row.softmax(-1).sort(descending=True)
        stays = order[: sum(p >= min_p * probs[0].item() for p in probs.tolist())]
        out = torch.full_like(row, -math.inf)
        out[stays] = row[stays]
        rows.append(out)
    return torch.stack(rows).view(logits.shape)
