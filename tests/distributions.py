"""Logits that have given probabilities."""

from __future__ import annotations

import torch
from torch import Tensor


def logits_of(*probabilities: float) -> Tensor:
    """Logits whose softmax these are; -inf where it is 0."""
    return torch.tensor(probabilities, dtype=torch.float64).log().float()
