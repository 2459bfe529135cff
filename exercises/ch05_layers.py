"""Chapter 5: the small parts that make depth possible.

D = d_model. Every layer here treats each position alone: (..., D) -> (..., D).

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch05_layers.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import math

import torch
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the chance that a standard normal number lies below x, element by element, any shape.

    Exact: x / 2 * (1 + erf(x / sqrt(2))). With approximate=True the tanh form that GPT-2 was trained with:
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    The result has the dtype of x; float64 input is computed in float64.

    Write it yourself, without `F.gelu`, `nn.GELU` and torch's other smooth activation functions.
    """
    # TODO 1: with approximate=True, the tanh form
    # TODO 2: else the exact one; torch.erf is there
    raise NotImplementedError


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each number to 0 with chance p, and divide those that stay by 1 - p, so that the mean stays as it was.

    Each number is drawn independently, and each call draws new numbers. Without `training` nothing changes. With p = 1 the
    result is all zeros. The gradient is zeroed and scaled like the numbers. The result has the dtype of x.

    Write it yourself, without `F.dropout`, `nn.Dropout` and torch's other dropout functions.
    """
    # TODO 1: without training, and with p = 0, give x back
    # TODO 2: draw for each number of x, on its device, whether it stays: with chance 1 - p
    # TODO 3: zero the others, and scale those that stay; mind p = 1
    raise NotImplementedError


class LayerNorm(nn.Module):
    """Give each vector mean 0 and variance 1, then stretch and shift each feature by learned amounts: (..., D) -> (..., D).

    Parameters: `weight`, which starts at ones, and `bias`, which starts at zeros, both (D,).
    The variance is the mean of the squared deviations (divided by D, not D - 1); eps is added to it before the root is taken.
    The result has the dtype of x. Half-precision input is computed in float32, float64 input in float64. A vector of equal
    numbers gives `bias`, with a finite gradient.

    Write it yourself, without `F.layer_norm`, `F.rms_norm`, `nn.LayerNorm`, `nn.RMSNorm` and torch's other
    normalization layers.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        # TODO 1: make the parameters `weight` and `bias`, and keep eps
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: bring x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: take mean and biased variance of each vector, keeping the axis, (..., 1)
        # TODO 4: centre, divide by sqrt(variance + eps), then weight and bias
        # TODO 5: give the result in the dtype of x
        raise NotImplementedError


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then stretch each feature by a learned amount: (..., D) -> (..., D).

    The parameter `weight`, (D,), starts at ones. No mean is subtracted, and there is no bias. eps is added to the mean square
    before the root is taken. The result has the dtype of x. Half-precision input is computed in float32, float64 input in
    float64. A vector of zeros gives zeros, with a finite gradient.

    Write it yourself, without `F.layer_norm`, `F.rms_norm`, `nn.LayerNorm`, `nn.RMSNorm` and torch's other
    normalization layers.
    """

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        # TODO 1: make the parameter `weight`, and keep eps
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: bring x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: take the mean of the squares of each vector, keeping the axis, (..., 1)
        # TODO 4: divide by sqrt(mean square + eps), then weight
        # TODO 5: give the result in the dtype of x
        raise NotImplementedError


class FeedForward(nn.Module):
    """Widen each vector, apply a nonlinear activation, narrow it again, position by position: (..., D) -> (..., D).

    Parameters: the linear maps `up`, D -> d_ff, and `down`, d_ff -> D, both with a bias; d_ff is 4 * D unless given.
    `activation`, between the two, is "gelu", "gelu_tanh" or "relu"; any other raises a ValueError that names it. Dropout acts
    on the output, in training only. The result has the dtype of x; float64 input is computed in float64.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        # TODO 1: check the activation; name it in the error
        # TODO 2: keep the activation and the chance of dropout; make `up` and `down`
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: go up, through the activation, and down again
        # TODO 4: drop out, as your `dropout` does; self.training says whether this is training
        raise NotImplementedError


class SwiGLU(nn.Module):
    """A feed-forward with a gate, as in Llama: down(silu(gate(x)) * up(x)), (..., D) -> (..., D).

    Parameters: the linear maps `gate` and `up`, D -> d_ff, and `down`, d_ff -> D, all without a bias. silu(z) = z * sigmoid(z).
    Large numbers give no NaN. The result has the dtype of x; float64 input is computed in float64.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        # TODO 1: make `gate`, `up` and `down`, without biases
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: bend the gate with silu, multiply it by `up`, and go down
        raise NotImplementedError
