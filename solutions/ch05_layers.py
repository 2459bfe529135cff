"""Chapter 5: the small parts that make depth possible.

D = d_model. Every layer here processes each position separately: (..., D) -> (..., D).
"""

import math

import torch
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal number is below x, element by element, for any shape.

    Exact: x / 2 * (1 + erf(x / sqrt(2))). With approximate=True the tanh form, with which GPT-2 was trained:
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    The result has the dtype of x; float64 input is computed in float64.
    """
    # TODO 1: with approximate=True, return the tanh form
    # TODO 2: otherwise return the exact form, with torch.erf
    ### BEGIN SOLUTION
    if approximate:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    ### END SOLUTION


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """In training, set each number to 0 with probability p and divide the others by 1 - p; on average the mean is unchanged.

    The choice is independent for each number, and new in each call. Without `training` x is returned unchanged. With p = 1 the
    result is all zeros. The gradient is set to zero and scaled in the same way. The result has the dtype of x;
    float64 input is computed in float64.
    """
    # TODO 1: without training, or with p = 0, return x
    # TODO 2: draw one random number for each entry of x, on x's device; an entry remains with probability 1 - p
    # TODO 3: set the others to 0, and divide those that remain by 1 - p; treat p = 1 separately
    ### BEGIN SOLUTION
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    stays = torch.rand(x.shape, device=x.device) >= p
    return x * stays / (1 - p)
    ### END SOLUTION


class LayerNorm(nn.Module):
    """Give each vector mean 0 and variance 1, then scale and shift each feature by learned amounts: (..., D) -> (..., D).

    Parameters: `weight`, initialised to ones, and `bias`, initialised to zeros, both (D,).
    The variance is the mean of the squared deviations (divided by D, not D - 1); eps is added to it before the square root.
    The result has the dtype of x. Half-precision input is computed in float32, float64 input in float64. A constant vector
    (all its numbers are equal) gives `bias`, with a finite gradient.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        # TODO 1: create the parameters `weight` and `bias`, and store eps
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: convert x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: compute mean and biased variance of each vector; keepdim=True keeps the axis, (..., 1)
        # TODO 4: subtract the mean, divide by sqrt(variance + eps), multiply by weight, and add bias
        # TODO 5: return the result in the dtype of x
        ### BEGIN SOLUTION
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = exact - exact.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normed = centred / torch.sqrt(variance + self.eps)
        return (normed * self.weight + self.bias).to(x.dtype)
        ### END SOLUTION


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each feature by a learned amount: (..., D) -> (..., D).

    The parameter `weight`, (D,), is initialised to ones. No mean is subtracted, and there is no bias. eps is added to the mean
    square before the square root. The result has the dtype of x. Half-precision input is computed in float32, float64 input in
    float64. A vector of zeros gives zeros, with a finite gradient.
    """

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        # TODO 1: create the parameter `weight`, and store eps
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: convert x to at least float32: torch.promote_types(x.dtype, torch.float32)
        # TODO 3: compute the mean of the squares of each vector; keepdim=True keeps the axis, (..., 1)
        # TODO 4: divide by sqrt(mean square + eps), and multiply by weight
        # TODO 5: return the result in the dtype of x
        ### BEGIN SOLUTION
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = exact.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normed = exact / torch.sqrt(mean_square + self.eps)
        return (normed * self.weight).to(x.dtype)
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        if activation not in ("gelu", "gelu_tanh", "relu"):
            raise ValueError(f"activation = {activation!r} is not one of 'gelu', 'gelu_tanh', 'relu'")
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.activation = activation
        self.p = dropout
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: apply `up`, the activation function, and `down`
        # TODO 4: apply your `dropout` to the result; self.training is True in training
        ### BEGIN SOLUTION
        wide = self.up(x)  # (..., d_ff)
        bent = torch.relu(wide) if self.activation == "relu" else gelu(wide, approximate=self.activation == "gelu_tanh")
        return dropout(self.down(bent), self.p, self.training)  # (..., D)
        ### END SOLUTION


class SwiGLU(nn.Module):
    """A feed-forward layer with a gate, as in Llama: down(silu(gate(x)) * up(x)), (..., D) -> (..., D).

    Parameters: the linear maps `gate` and `up`, D -> d_ff, and `down`, d_ff -> D, all without a bias. silu(z) = z * sigmoid(z).
    Large inputs give no NaN. The result has the dtype of x; float64 input is computed in float64.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        # TODO 1: create `gate`, `up` and `down`, without biases
        ### BEGIN SOLUTION
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply silu to the gate, multiply by the output of `up`, and apply `down`
        ### BEGIN SOLUTION
        gate = self.gate(x)  # (..., d_ff)
        return self.down(gate * torch.sigmoid(gate) * self.up(x))  # (..., D)
        ### END SOLUTION
