# in process: yes
# exercise: Scalar
"""Hopes that a tensor with one entry may do the work."""

import math

import torch


class Scalar:
    def __init__(self, value, inner=None):
        self.inner = inner if inner is not None else torch.tensor(float(value), dtype=torch.float64, requires_grad=True)
        self.inner.retain_grad()

    value = property(lambda self: self.inner.item())
    grad = property(lambda self: 0.0 if self.inner.grad is None else self.inner.grad.item())

    def _of(self, other):
        return other.inner if isinstance(other, Scalar) else other

    def __add__(self, other):
        return Scalar(0, self.inner + self._of(other))

    def __mul__(self, other):
        return Scalar(0, self.inner * self._of(other))

    def backward(self):
        self.inner.backward(retain_graph=True)
