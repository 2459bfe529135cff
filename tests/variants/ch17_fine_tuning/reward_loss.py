# variant: softplus
import torch.nn.functional as F


def reward_loss(chosen, rejected, margin=0.0):
    return F.softplus(margin + rejected - chosen).mean()


# variant: a classifier of two answers
import torch


def reward_loss(chosen, rejected, margin=0.0):
    both = torch.stack([chosen - margin, rejected])
    return -torch.log_softmax(both, dim=0)[0].sum() / len(chosen)


# variant: logaddexp
import torch


def reward_loss(chosen, rejected, margin=0.0):
    behind = rejected - (chosen - margin)
    return torch.mean(torch.logaddexp(behind, torch.zeros_like(behind)))
