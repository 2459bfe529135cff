"""Chapter 5: the small parts that make depth possible.

D = d_model. Every layer here processes each position separately: (..., D) -> (..., D).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch05_layers.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import math

import torch
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal number is below x, element by element, for any shape.

    Exact: x / 2 * (1 + erf(x / sqrt(2))). With approximate=True the tanh form, with which GPT-2 was trained:
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    The result has the dtype of x; float64 input is computed in float64.

    Write it yourself, without `F.gelu`, `nn.GELU` and torch's other smooth activation functions.
    """
    # TODO 1: with approximate=True, return the tanh form
    # TODO 2: otherwise return the exact form, with torch.erf
    raise NotImplementedError


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """In training, set each number to 0 with probability p and divide the others by 1 - p; on average the mean is unchanged.

    The choice is independent for each number, and new in each call. Without `training` x is returned unchanged. With p = 1 the
    result is all zeros. The gradient is set to zero and scaled in the same way. The result has the dtype of x;
    float64 input is computed in float64.

    Write it yourself, without `F.dropout`, `nn.Dropout` and torch's other dropout functions.
    """
    # TODO 1: without training, or with p = 0, return x
    # TODO 2: draw one random number for each entry of x, on x's device; an entry remains with probability 1 - p
    # TODO 3: set the others to 0, and divide those that remain by 1 - p; treat p = 1 separately
    raise NotImplementedError


class LayerNorm(nn.Module):
    """Give each vector mean 0 and variance 1, then scale and shift each feature by learned amounts: (..., D) -> (..., D).

    Parameters: `weight`, initialised to ones, and `bias`, initialised to zeros, both (D,).
    The variance is the mean of the squared deviations (divided by D, not D - 1); eps is added to it before the square root.
    The result has the dtype of x. Half-precision input is computed in float32, float64 input in float64. A constant vector
    (all its numbers are equal) gives `bias`, with a finite gradient.

    Write it yourself, without `F.layer_norm`, `F.rms_norm`, `nn.LayerNorm`, `nn.RMSNorm` and torch's other
    normalization layers.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        # TODO 1: create the parameters `weight` and `bias`, and store eps
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: convert x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: compute mean and biased variance of each vector; keepdim=True keeps the axis, (..., 1)
        # TODO 4: subtract the mean, divide by sqrt(variance + eps), multiply by weight, and add bias
        # TODO 5: return the result in the dtype of x
        raise NotImplementedError


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each feature by a learned amount: (..., D) -> (..., D).

    The parameter `weight`, (D,), is initialised to ones. No mean is subtracted, and there is no bias. eps is added to the mean
    square before the square root. The result has the dtype of x. Half-precision input is computed in float32, float64 input in
    float64. A vector of zeros gives zeros, with a finite gradient.

    Write it yourself, without `F.layer_norm`, `F.rms_norm`, `nn.LayerNorm`, `nn.RMSNorm` and torch's other
    normalization layers.
    """

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        # TODO 1: create the parameter `weight`, and store eps
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: convert x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: compute the mean of the squares of each vector; keepdim=True keeps the axis, (..., 1)
        # TODO 4: divide by sqrt(mean square + eps), and multiply by weight
        # TODO 5: return the result in the dtype of x
        raise NotImplementedError


class FeedForward(nn.Module):
    """Widen each vector, apply a nonlinear activation function, narrow it again, position by position: (..., D) -> (..., D).

    Parameters: the linear maps `up`, D -> d_ff, and `down`, d_ff -> D, both with a bias; d_ff is 4 * D unless given.
    `activation`, applied between the two, is "gelu", "gelu_tanh" or "relu"; any other raises a ValueError that names it. It is
    stored under this name.
    Dropout acts on the output, in training only. The result has the dtype of x; float64 input is computed in float64.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        # TODO 1: check `activation`, and name it in the error
        # TODO 2: store the activation and the dropout probability; create `up` and `down`
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: apply `up`, the activation function, and `down`
        # TODO 4: apply your `dropout` to the result; self.training is True in training
        raise NotImplementedError


class SwiGLU(nn.Module):
    """A feed-forward layer with a gate, as in Llama: down(silu(gate(x)) * up(x)), (..., D) -> (..., D).

    Parameters: the linear maps `gate` and `up`, D -> d_ff, and `down`, d_ff -> D, all without a bias. silu(z) = z * sigmoid(z).
    Large inputs give no NaN. The result has the dtype of x; float64 input is computed in float64.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        # TODO 1: create `gate`, `up` and `down`, without biases
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply silu to the gate, multiply by the output of `up`, and apply `down`
        raise NotImplementedError
