"""Models and optimizers as the learner's training functions expect them: `model(inputs)` gives logits,
`optimizer.step()` updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

BALANCE = 0.01  # the weight of the balance loss beside the cross-entropy


class _AddLoss(torch.autograd.Function):
    """Returns its first argument; going backward, the second one gets the gradient of a loss that is added with a
    weight."""

    @staticmethod
    def forward(context: Any, logits: Tensor, loss: Tensor, weight: float) -> Tensor:
        context.weight, context.loss = weight, (loss.shape, loss.dtype, loss.device)
        return logits.view_as(logits)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        shape, dtype, device = context.loss
        return gradients[0], torch.full(shape, context.weight, dtype=dtype, device=device), None


class WithBalanceLoss(nn.Module):
    """A model with experts whose gradient includes that of the balance loss, whatever loss is computed from the logits.

    A batch in `pieces` parts goes backward once for each part, so each adds its share.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.pieces = model, 1
        self.last_balance = 0.0

    def forward(self, ids: Tensor) -> Tensor:
        logits, balance = self.model(ids)
        self.last_balance = float(balance.detach())
        if not (self.training and torch.is_grad_enabled()):
            return logits
        return _AddLoss.apply(logits, balance, BALANCE / self.pieces)  # type: ignore[no-any-return]


class ClippingOptimizer:
    """The learner's optimizer, which clips with the learner's `clip_gradients` before each update and records the
    norm."""

    def __init__(
        self, optimizer: Any, parameters: Sequence[nn.Parameter], clip_gradients: Any, max_norm: float
    ) -> None:
        self.optimizer, self.parameters, self.clip_gradients, self.max_norm = (
            optimizer,
            parameters,
            clip_gradients,
            max_norm,
        )
        self.norm = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def step(self, *arguments: Any) -> Any:
        self.norm = float(self.clip_gradients(self.parameters, self.max_norm))
        return self.optimizer.step(*arguments)
