# variant: flat, with the valid positions selected
def cross_entropy(logits, targets, ignore_index=-100):
    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    keep = targets != ignore_index
    logits, targets = logits[keep], targets[keep]
    if len(targets) == 0:
        return torch.zeros((), dtype=logits.dtype)
    log_p = logits.log_softmax(-1)
    return -log_p[torch.arange(len(targets)), targets].mean()


# variant: logsumexp minus the target's logit
def cross_entropy(logits, targets, ignore_index=-100):
    mask = (targets != ignore_index).to(logits.dtype)
    safe = torch.where(targets == ignore_index, torch.zeros_like(targets), targets)
    per_token = torch.logsumexp(logits, dim=-1) - torch.gather(logits, -1, safe.unsqueeze(-1)).squeeze(-1)
    return (per_token * mask).sum() / mask.sum().clamp_min(1)


# variant: one-hot targets
def cross_entropy(logits, targets, ignore_index=-100):
    kept = targets.ne(ignore_index)
    rows = nn.functional.one_hot(targets.where(kept, torch.tensor(0)), logits.size(-1)) * kept.unsqueeze(-1)
    total = -(nn.functional.log_softmax(logits, dim=-1) * rows).sum()
    return total / max(int(kept.sum()), 1)


# variant: log_softmax by hand, in float32 inside
def cross_entropy(logits, targets, ignore_index=-100):
    x = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    x = x - x.max(dim=-1, keepdim=True).values
    log_probs = x - x.exp().sum(dim=-1, keepdim=True).log()
    keep = targets != ignore_index
    if not keep.any():
        return (logits * 0).sum()
    picked = log_probs[keep].gather(1, targets[keep].unsqueeze(1))
    return (-picked).mean().to(logits.dtype)


# variant: place by place
def cross_entropy(logits, targets, ignore_index=-100):
    V = logits.size(-1)
    losses = []
    for row, target in zip(logits.reshape(-1, V), targets.reshape(-1).tolist()):
        if target != ignore_index:
            losses.append(torch.logsumexp(row, 0) - row[target])
    return torch.stack(losses).mean() if losses else logits.new_zeros(())


# variant: log_softmax twice, which changes nothing
def cross_entropy(logits, targets, ignore_index=-100):
    keep = targets != ignore_index
    log_probs = torch.log_softmax(torch.log_softmax(logits, -1), -1)
    nll = -torch.take_along_dim(log_probs, targets.clamp(min=0).unsqueeze(-1), -1).squeeze(-1)
    nll = torch.where(keep, nll, torch.zeros_like(nll))
    return nll.sum() / keep.sum().clamp(min=1).to(nll.dtype)
