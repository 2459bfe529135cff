# variant: only the places that count, by boolean index
import torch


def entropy(logits, mask):
    kept = logits[mask]
    log_p = kept.log_softmax(-1)
    p = log_p.exp()
    terms = torch.where(kept.isneginf(), torch.zeros_like(log_p), log_p) * p
    return -terms.sum() / max(kept.shape[0], 1)


# variant: the normaliser minus the expected logit
import torch


def entropy(logits, mask):
    safe = torch.where(mask.unsqueeze(-1), logits, 0)
    possible = safe > float("-inf")
    p = safe.softmax(dim=-1)
    expected = (p * torch.where(possible, safe, 0)).sum(-1)
    each = torch.where(mask, safe.logsumexp(-1) - expected, 0)
    return each.sum() / mask.sum().clamp(min=1)


# variant: cross-entropy of a distribution with itself
import torch.nn.functional as F


def entropy(logits, mask):
    if not mask.any():
        return logits.nan_to_num(0, 0, 0).sum() * 0
    kept = logits[mask].clamp(min=-1e30)
    return F.cross_entropy(kept, kept.softmax(-1))


# variant: place by place
import torch


def entropy(logits, mask):
    each = []
    for row, kept in zip(logits, mask):
        for place, counts in zip(row, kept):
            if counts:
                place = place[place != -torch.inf]
                place = place - place.max()
                total = place.exp().sum()
                each.append(total.log() - (place.exp() * place).sum() / total)
    if not each:
        return (logits * 0).nan_to_num().sum() * 0
    return torch.stack(each).mean()
