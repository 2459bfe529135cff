"""Chapter 11: many experts, few at a time.

B batch, T positions, D = d_model, N = n_experts, k = top_k. Router logits are (..., N): one score for every expert.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch11_moe.md explains why, and `headway check` tests what you have written.

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

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Choose the top_k experts of each token, best first: (..., N) -> weights (..., k) and experts (..., k).

    The weights are the chosen experts' probabilities, from a softmax over all N, divided by their sum, so that they add to 1.
    They have the dtype of the logits. The softmax may be computed in float32. Very large logits must not overflow. Raises a
    ValueError that names top_k and N when top_k is below 1 or above N.
    """
    # TODO 1: check top_k; name the numbers in the error
    # TODO 2: turn the logits into probabilities over all experts, (..., N)
    # TODO 3: take the k greatest probabilities of each token, and the experts that they belong to
    # TODO 4: divide by their sum
    raise NotImplementedError


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    """Return N * sum of f_i * P_i, a scalar that measures how unevenly the experts are used; 1 if all are used equally.

    `router_probs` (..., N) are probabilities over all experts, `experts` (..., k) the chosen ones, for the same tokens. f_i
    is expert i's share of all choices, so the f_i sum to 1; P_i is its mean probability over the tokens. With k = 1, and one
    expert that all tokens choose with probability 1, the loss is N. The choices are integers and have no gradient; the
    gradient flows through P. The loss has the dtype of the probabilities; for half precision it may be float32.
    """
    # TODO 1: count how often each expert is chosen, in all slots of all tokens, and divide by the number of choices, (N,)
    # TODO 2: take the mean probability of each expert over all tokens, (N,)
    # TODO 3: multiply them, add up, and multiply by N
    raise NotImplementedError


class MoELayer(nn.Module):
    """A feed-forward layer with many experts; each token goes to top_k of them: (B, T, D) -> (B, T, D) and the balance loss.

    Its parts: `router`, a linear map D -> N without a bias, and `experts`, a ModuleList of N FeedForward(d_model, d_ff). A
    token's output is the sum of its chosen experts' outputs, each times its weight from `route`; the other experts never
    process the token. With fewer tokens than experts no gradient is NaN. Raises a ValueError that names top_k and n_experts
    when top_k is below 1 or above n_experts.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        # TODO 1: check top_k; name the numbers in the error
        # TODO 2: keep top_k; make the router and the experts
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (output, aux_loss): (B, T, D), and the load-balancing loss of this batch, a scalar."""
        # TODO 3: flatten all tokens into one axis, (B, T, D) -> (B * T, D), and route them
        # TODO 4: for each expert, find the tokens that chose it, and in which of their k slots; skip the expert if there are none
        # TODO 5: apply the expert to those tokens only, multiply by their weights, and add the result to their output
        # TODO 6: reshape the output to (B, T, D); compute the balance loss from the probabilities over all experts
        raise NotImplementedError


class MoEBlock(nn.Module):
    """A pre-norm block whose feed-forward is an MoELayer: (B, T, D) -> (B, T, D) and the balance loss.

    Its parts: `ln1`, `attn` (a CausalSelfAttention without positions), `ln2`, `moe` (an MoELayer). Raises the ValueErrors of
    its parts, which name d_model and n_heads, or top_k and n_experts.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        # TODO 1: make ln1, attn, ln2 and moe
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x, aux_loss): the residual stream after both parts, (B, T, D), and the balance loss, a scalar."""
        # TODO 2: add the attention's output for the normalised stream to the stream
        # TODO 3: add the experts' output for the normalised stream to the stream, and return their loss too
        raise NotImplementedError


def active_parameters(model: nn.Module) -> int:
    """Return how many of the model's parameters one token uses: all except those of the experts that do not process it.

    `model` may contain any number of MoELayers, be one itself, or have none; a matrix used in two places counts once.
    """
    # TODO 1: count all parameters
    # TODO 2: for each MoELayer in the model, subtract the experts that one token does not use
    raise NotImplementedError
