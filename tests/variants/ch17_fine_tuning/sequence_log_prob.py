# variant: cross entropy with a minus
import torch.nn.functional as F


def sequence_log_prob(logits, targets, ignore_index=-100):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=ignore_index, reduction="none")
    return -losses.sum(dim=1)


# variant: text by text, with logsumexp
import torch


def sequence_log_prob(logits, targets, ignore_index=-100):
    sums = []
    for scores, wanted in zip(logits, targets):
        place = (wanted != ignore_index).nonzero()[:, 0]
        kept = scores[place]
        sums.append((kept[torch.arange(len(place)), wanted[place]] - kept.logsumexp(dim=1)).sum())
    return torch.stack(sums)


# variant: one-hot targets, where
import torch
import torch.nn.functional as F


def sequence_log_prob(logits, targets, ignore_index=-100):
    ignored = targets.eq(ignore_index)
    picked = F.one_hot(torch.where(ignored, 0, targets), logits.size(-1)).bool()
    picked &= ~ignored.unsqueeze(-1)
    return torch.where(picked, logits.log_softmax(2), 0).sum((1, 2))
