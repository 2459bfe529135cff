# variant: the difference as a plain number, times log p
import torch


def kl_loss(log_probs, reference_log_probs, mask):
    now = torch.where(mask, log_probs, torch.zeros_like(log_probs))
    fixed = torch.where(mask, reference_log_probs, torch.zeros_like(log_probs)).detach()
    weight = (now - fixed).detach()
    return (weight * now).sum() / max(int(mask.sum()), 1)


# variant: k3 with the ratio that makes its gradient right
def kl_loss(log_probs, reference_log_probs, mask):
    now = log_probs.masked_fill(~mask, 0)
    d = now - reference_log_probs.detach().masked_fill(~mask, 0)
    k3 = (-d).exp() - 1 + d
    ratio = (now - now.detach()).exp()
    return (ratio * k3).sum() / mask.sum().clamp(min=1)


# variant: k1 with the ratio
def kl_loss(log_probs, reference_log_probs, mask):
    if not mask.any():
        return 0.0 * log_probs.masked_fill(~mask, 0).sum()
    now, fixed = log_probs[mask], reference_log_probs[mask].detach()
    d = now - fixed
    return ((now - now.detach()).exp() * d).mean()


# variant: the value of k1, the gradient of k2
def kl_loss(log_probs, reference_log_probs, mask):
    d = log_probs[mask] - reference_log_probs[mask].detach()
    count = max(d.numel(), 1)
    k1, k2 = d.sum() / count, 0.5 * (d * d).sum() / count
    return k1.detach() + k2 - k2.detach()


# variant: answer by answer
import torch


def kl_loss(log_probs, reference_log_probs, mask):
    total, count = torch.zeros_like(log_probs[0, 0]), 0
    for now, fixed, kept in zip(log_probs, reference_log_probs, mask):
        for t in kept.nonzero().flatten().tolist():
            total = total + torch.square(now[t] - fixed[t].detach()) / 2
            count += 1
    return total / count if count else (log_probs.masked_fill(~mask, 0.0) * 0).sum()


# variant: the mean of the other tokens as a baseline
import torch


def kl_loss(log_probs, reference_log_probs, mask):
    now = log_probs[mask]
    with torch.no_grad():
        weight = now - reference_log_probs[mask]
        n = len(weight)
        if n > 1:
            weight = weight - (weight.sum() - weight) / (n - 1)
    return (weight * now).sum() / max(n, 1)
