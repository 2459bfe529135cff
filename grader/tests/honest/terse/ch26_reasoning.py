"""Chapter 26 in the terse style: as short as it can be read."""

import torch


def rows(r, n, least):
    assert n >= least and not len(r) % n, f"no groups of {n}"
    return r.view(-1, n)


def leave_one_out_advantages(rewards, group_size):
    g = rows(rewards, group_size, 2)
    return ((g - g.mean(1, True)) * (group_size / (group_size - 1))).flatten()


def informative_groups(rewards, group_size):
    g = rows(rewards, group_size, 1)
    return (g != g[:, :1]).any(1, True).expand_as(g).flatten()


def long_answer_penalty(lengths, soft, hard):
    assert soft < hard, f"{soft} >= {hard}"
    return -((lengths.float() - soft) / (hard - soft)).clamp(0, 1)


def kl_loss(log_probs, reference_log_probs, mask):
    p = log_probs[mask]
    return ((p - reference_log_probs[mask]).detach() * p).sum() / max(len(p), 1)


def clipped(ratio, a, low, high):
    return torch.maximum(-a * ratio, -a * ratio.clamp(1 - low, 1 + high))


def asymmetric_policy_loss(
    log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None
):
    assert average in ("token", "sequence", "fixed"), f"no average {average}"
    assert average != "fixed" or length and length > 0, f"length {length}"
    ratio = (log_probs - old_log_probs.detach()).where(mask, 0).exp()
    loss = clipped(ratio, advantages.detach()[:, None], low, high).where(mask, 0)
    if average == "fixed":
        return loss.sum(1).mean() / length
    n = mask.sum(1, keepdim=True) if average == "sequence" else mask.sum()
    return (loss / n.clamp(min=1)).sum() / (n > 0).sum().clamp(min=1)


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    n = mask.sum(1)
    ratio = ((log_probs - old_log_probs.detach()).where(mask, 0).sum(1) / n.clamp(min=1)).exp()
    return clipped(ratio, advantages.detach(), low, high)[n > 0].sum() / (n > 0).sum().clamp(min=1)


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    assert cap > 0, f"cap {cap}"
    return (train_log_probs - rollout_log_probs).detach().exp().clamp_max(cap)
