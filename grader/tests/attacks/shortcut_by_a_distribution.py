# in process: yes
"""Hopes that a distribution computes it inside."""

import torch


def softmax(x, dim=-1):
    return torch.distributions.Categorical(logits=x.movedim(dim, -1), validate_args=False).probs.movedim(-1, dim).nan_to_num()
