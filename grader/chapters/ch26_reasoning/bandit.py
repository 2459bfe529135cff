"""A policy without a network: a table with a logit for each answer to each question. An answer is one token.

Such a table shows what a loss does in seconds, and its expectations can be computed exactly. Labs of lesson 26 use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Table:
    """The answer 0 of each question is right; with `also_right`, so is the answer 1."""

    logits: nn.Parameter  # (Q, A)
    also_right: bool = False

    @classmethod
    def of(cls, probabilities: Sequence[float], questions: int, also_right: bool = False) -> Table:
        """Each question has these probabilities of its answers."""
        logits = torch.tensor(probabilities).log().repeat(questions, 1)
        return cls(nn.Parameter(logits), also_right)

    def log_probs(self, answers: Tensor) -> Tensor:
        """Those of answers (Q, G), as a loss takes them: (Q * G, 1)."""
        return torch.log_softmax(self.logits, -1).gather(1, answers).reshape(-1, 1)

    @torch.no_grad()
    def draw(self, group: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Answers (Q, G), and their rewards (Q * G,)."""
        answers = torch.multinomial(torch.softmax(self.logits, -1), group, replacement=True, generator=generator)
        return answers, (answers <= int(self.also_right)).float().flatten()

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        """Of each answer, on average over the questions: (A,)."""
        return torch.softmax(self.logits, -1).mean(0)

    def right(self) -> float:
        """The mean probability of a right answer."""
        return float(self.probabilities()[: 1 + int(self.also_right)].sum())
