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

    The weights are the chosen experts' probabilities, from a softmax over all N, divided by their sum, so that they add to 1.
    They have the dtype of the logits. The softmax may be computed in float32. Very large logits must not overflow. Raises a
    ValueError that names top_k and N when top_k is below 1 or above N.
    """
    # TODO 1: check top_k; name the numbers in the error
    # TODO 2: turn the logits into probabilities over all experts, (..., N)
    # TODO 3: take the k greatest probabilities of each token, and the experts that they belong to
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
    """Return N * sum of f_i * P_i, a scalar that measures how unevenly the experts are used; 1 if all are used equally.

    `router_probs` (..., N) are probabilities over all experts, `experts` (..., k) the chosen ones, for the same tokens. f_i
    is expert i's share of all choices, so the f_i sum to 1; P_i is its mean probability over the tokens. With k = 1, and one
    expert that all tokens choose with probability 1, the loss is N. The choices are integers and have no gradient; the
    gradient flows through P. The loss has the dtype of the probabilities; for half precision it may be float32.
    """
    # TODO 1: count how often each expert is chosen, in all slots of all tokens, and divide by the number of choices, (N,)
    # TODO 2: take the mean probability of each expert over all tokens, (N,)
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
        ### BEGIN SOLUTION
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"top_k = {top_k}, but there are {n_experts} experts to choose from")
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (output, aux_loss): (B, T, D), and the load-balancing loss of this batch, a scalar."""
        # TODO 3: flatten all tokens into one axis, (B, T, D) -> (B * T, D), and route them
        # TODO 4: for each expert, find the tokens that chose it, and in which of their k slots; skip the expert if there are none
        # TODO 5: apply the expert to those tokens only, multiply by their weights, and add the result to their output
        # TODO 6: reshape the output to (B, T, D); compute the balance loss from the probabilities over all experts
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

    Its parts: `ln1`, `attn` (a CausalSelfAttention without positions), `ln2`, `moe` (an MoELayer). Raises the ValueErrors of
    its parts, which name d_model and n_heads, or top_k and n_experts.
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
        """Return (x, aux_loss): the residual stream after both parts, (B, T, D), and the balance loss, a scalar."""
        # TODO 2: add the attention's output for the normalised stream to the stream
        # TODO 3: add the experts' output for the normalised stream to the stream, and return their loss too
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln1(x))
        found, aux_loss = self.moe(self.ln2(x))
        return x + found, aux_loss
        ### END SOLUTION


def active_parameters(model: nn.Module) -> int:
    """Return how many of the model's parameters one token uses: all except those of the experts that do not process it.

    `model` may contain any number of MoELayers, be one itself, or have none; a matrix used in two places counts once.
    """
    # TODO 1: count all parameters
    # TODO 2: for each MoELayer in the model, subtract the experts that one token does not use
    ### BEGIN SOLUTION
    active = count_parameters(model)
    for module in model.modules():
        if isinstance(module, MoELayer):
            idle = len(module.experts) - module.top_k
            active -= idle * count_parameters(module.experts[0])
    return active
    ### END SOLUTION
