# variant: torch's softmax, one_hot, and division where something is kept
def cross_entropy_backward(logits, targets, ignore_index=-100):
    import torch.nn.functional as F

    keep = targets.ne(ignore_index)
    count = int(keep.sum())
    if count == 0:
        return torch.zeros_like(logits)
    hot = F.one_hot(torch.where(keep, targets, 0), logits.shape[-1]).to(logits.dtype)
    return (logits.softmax(-1) - hot) * keep.unsqueeze(-1) / count


# variant: rows flattened, 1 subtracted by index from a copy, kept rows only
def cross_entropy_backward(logits, targets, ignore_index=-100):
    flat, wanted = logits.reshape(-1, logits.size(-1)), targets.reshape(-1)
    rows = (wanted != ignore_index).nonzero().flatten()
    grad = torch.zeros_like(flat)
    probs = torch.softmax(flat[rows], dim=1)
    probs[torch.arange(len(rows)), wanted[rows]] -= 1
    grad[rows] = probs / max(len(rows), 1)
    return grad.reshape(logits.shape)


# variant: exp of log_softmax, scatter_add of minus one
def cross_entropy_backward(logits, targets, ignore_index=-100):
    kept = (targets != ignore_index)[..., None]
    safe = torch.where(kept[..., 0], targets, torch.zeros_like(targets))[..., None]
    grad = torch.log_softmax(logits, -1).exp()
    grad = grad.scatter_add(-1, safe, -torch.ones_like(grad[..., :1]))
    return torch.where(kept, grad, 0.0) / kept.sum().clamp(min=1)


# variant: row by row, with the gradient of softmax
def cross_entropy_backward(logits, targets, ignore_index=-100):
    grad, n = [], max(1, int((targets != ignore_index).sum()))
    for row, target in zip(logits.reshape(-1, logits.size(-1)), targets.reshape(-1).tolist()):
        if target == ignore_index:
            grad.append(torch.zeros_like(row))
            continue
        p = softmax(row)
        hot = torch.zeros_like(row)
        hot[target] = 1
        grad.append((p - hot) / n)
    return torch.stack(grad).reshape(logits.shape)
