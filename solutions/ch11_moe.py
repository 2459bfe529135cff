"""Chapter 11: many experts, few at a time.

B batch, T positions, D = d_model, N = n_experts, k = top_k. Router logits are (..., N): one score for every expert.
"""

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Choose the top_k experts of each token, best first: (..., N) -> weights (..., k) and experts (..., k).

    The weights are the chosen experts' probabilities, from a softmax over all N, divided by their sum: they add to 1. They have
    the dtype of the logits, and logits of any size are safe. Raises a ValueError that names top_k and N when top_k is below 1 or
    above N.
    """
    # TODO 1: check top_k; name the numbers in the error
    # TODO 2: turn the logits into probabilities over all experts, (..., N)
    # TODO 3: take the k greatest of each token, and which experts they belong to
    # TODO 4: divide by their sum
    ### BEGIN SOLUTION
    n_experts = router_logits.size(-1)
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"top_k = {top_k}, but there are {n_experts} experts to choose from")
    probs = torch.softmax(router_logits, dim=-1)  # (..., N)
    weights, experts = probs.topk(top_k, dim=-1)  # each (..., k), best first
    return weights / weights.sum(dim=-1, keepdim=True), experts
    ### END SOLUTION


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    """How unevenly the experts are used: N * sum of f_i * P_i, a scalar; 1 when all are used alike, N when one does it all.

    `router_probs` (..., N) are probabilities over all experts, `experts` (..., k) the chosen ones, for the same tokens. f_i is
    expert i's share of all the choices made, so that they sum to 1; P_i is its mean probability over the tokens. The choices
    are integers and have no gradient: the gradient goes through P. The loss has the dtype of the probabilities; for half
    precision it may be float32.
    """
    # TODO 1: count how often each expert is chosen, in all slots of all tokens, and divide by the number of choices, (N,)
    # TODO 2: take each expert's mean probability over all tokens, (N,)
    # TODO 3: multiply them, add up, and multiply by N
    ### BEGIN SOLUTION
    n_experts = router_probs.size(-1)
    everyone = torch.arange(n_experts, device=experts.device)
    chosen = (experts.flatten()[:, None] == everyone).to(router_probs.dtype)  # (choices, N), a single 1 in each row
    share = chosen.mean(dim=0)  # (N,)
    mean_prob = router_probs.reshape(-1, n_experts).mean(dim=0)  # (N,)
    return n_experts * (share * mean_prob).sum()
    ### END SOLUTION


class MoELayer(nn.Module):
    """A feed-forward layer of many experts, of which each token meets its top_k: (B, T, D) -> (B, T, D) and the balance loss.

    Its parts: `router`, a linear map D -> N without a bias, and `experts`, a ModuleList of N FeedForward(d_model, d_ff). A
    token's output is the sum of its chosen experts' outputs, each times its weight from `route`; the other experts never see the
    token. With fewer tokens than experts no gradient is NaN. Raises a ValueError that names top_k and n_experts when top_k is
    below 1 or above n_experts.
    """

    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        # TODO 1: check top_k; name the numbers in the error
        # TODO 2: keep top_k; make the router and the experts
        ### BEGIN SOLUTION
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"top_k = {top_k}, but there are {n_experts} experts to choose from")
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give (output, aux_loss): (B, T, D), and the load-balancing loss of this batch, a scalar."""
        # TODO 3: lay all tokens in one row, (B, T, D) -> (B * T, D), and route them
        # TODO 4: for each expert, find the tokens that chose it, and in which of their k slots; skip it when there are none
        # TODO 5: let it work on those tokens only, weigh the result, and add it to their output
        # TODO 6: bring the output back to (B, T, D); take the balance loss from the probabilities over all experts
        ### BEGIN SOLUTION
        tokens = x.flatten(0, -2)  # (B * T, D)
        logits = self.router(tokens)  # (B * T, N)
        weights, experts = route(logits, self.top_k)  # each (B * T, k)
        output = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, slot = (experts == i).nonzero(as_tuple=True)  # each (n,), n tokens chose expert i
            if len(token) > 0:
                output[token] += weights[token, slot][:, None] * expert(tokens[token])  # (n, 1) * (n, D)
        aux_loss = load_balancing_loss(torch.softmax(logits, dim=-1), experts)
        return output.view(x.shape), aux_loss
        ### END SOLUTION


class MoEBlock(nn.Module):
    """A pre-norm block whose feed-forward is an MoELayer: (B, T, D) -> (B, T, D) and the balance loss.

    Its parts: `ln1`, `attn` (a CausalSelfAttention without positions), `ln2`, `moe` (an MoELayer). Raises the ValueErrors of its
    parts, which name d_model and n_heads, or top_k and n_experts.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        # TODO 1: make ln1, attn, ln2 and moe
        ### BEGIN SOLUTION
        self.ln1 = LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads)
        self.ln2 = LayerNorm(d_model)
        self.moe = MoELayer(d_model, d_ff, n_experts, top_k)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give (x, aux_loss): the stream after both parts, (B, T, D), and the balance loss of the experts, a scalar."""
        # TODO 2: add to the stream what attention finds in the normalised stream
        # TODO 3: add to the result what the experts make of the normalised result, and hand on their loss
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln1(x))
        found, aux_loss = self.moe(self.ln2(x))
        return x + found, aux_loss
        ### END SOLUTION


def active_parameters(model: nn.Module) -> int:
    """How many of the model's parameters one token uses: all but those of the experts it is not sent to.

    `model` may hold any number of MoELayers, itself be one, or have none; a matrix used in two places counts once.
    """
    # TODO 1: count all parameters
    # TODO 2: for each MoELayer in the model, take away those of the experts that one token leaves out
    ### BEGIN SOLUTION
    active = count_parameters(model)
    for module in model.modules():
        if isinstance(module, MoELayer):
            idle = len(module.experts) - module.top_k
            active -= idle * count_parameters(module.experts[0])
    return active
    ### END SOLUTION
