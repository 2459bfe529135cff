# variant: answer by answer
import torch


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    losses = []
    for now, old, worth, kept in zip(log_probs, old_log_probs, advantages.tolist(), mask):
        if kept.any():
            ratio = torch.exp((now[kept] - old[kept].detach()).mean())
            losses.append(-worth * (ratio.clamp(max=1 + high) if worth > 0 else ratio.clamp(min=1 - low)))
    if not losses:
        return log_probs.masked_fill(~mask, 0.0).sum() * 0
    return torch.stack(losses).mean()


# variant: only the answers that have a token
import torch


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    rows = mask.any(dim=1)
    mask, advantage = mask[rows], advantages.detach()[rows]
    change = torch.where(mask, log_probs[rows] - old_log_probs.detach()[rows], 0.0)
    ratio = (change.sum(-1) / mask.sum(-1)).exp()
    loss = torch.max(-advantage * ratio, -advantage * ratio.clip(1 - low, 1 + high))
    return loss.sum() / max(len(loss), 1)


# variant: as roots of products, with a weight for each answer
import torch


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    ratios = (log_probs.masked_fill(~mask, 0) - old_log_probs.detach().masked_fill(~mask, 0)).exp()
    tokens = mask.count_nonzero(dim=1)
    ratio = ratios.log().sum(dim=1).div(tokens.clamp(min=1)).exp()
    with torch.no_grad():
        weight = advantages * (tokens > 0) / (tokens > 0).sum().clamp(min=1)
    return -torch.where(weight >= 0, ratio.clamp(max=1 + high), ratio.clamp(min=1 - low)).mul(weight).sum()


# variant: the mean of the logs by a weighted sum
import torch


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    n = mask.sum(dim=1, keepdim=True)
    share = mask.to(log_probs.dtype) / n.clamp(min=1)
    new = torch.nan_to_num(log_probs.masked_fill(~mask, 0.0))
    old = torch.nan_to_num(old_log_probs.masked_fill(~mask, 0.0)).detach()
    ratio = torch.exp(torch.einsum("bt,bt->b", share, new - old))
    gain = advantages.detach()
    objective = torch.stack([ratio * gain, ratio.clamp(1 - low, 1 + high) * gain]).amin(dim=0)
    has_token = (n[:, 0] > 0).to(objective.dtype)
    return -(objective * has_token).sum() / has_token.sum().clamp(min=1)
