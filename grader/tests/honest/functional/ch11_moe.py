"""Written in the functional style: the experts' answers are folded into the output, each by an out-of-place index_add."""

from functools import reduce

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def check_top_k(top_k: int, n_experts: int) -> None:
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"top_k is {top_k}, and should be from 1 to the number of experts, {n_experts}")


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Chosen probabilities divided by their sum are the softmax over the chosen logits alone."""
    check_top_k(top_k, router_logits.size(-1))
    logits, experts = router_logits.topk(top_k, dim=-1)
    return logits.softmax(dim=-1), experts


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    n_experts = router_probs.size(-1)
    share = torch.bincount(experts.flatten(), minlength=n_experts) / experts.numel()
    return n_experts * torch.dot(share.to(router_probs.dtype), router_probs.reshape(-1, n_experts).mean(dim=0))


class MoELayer(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        check_top_k(top_k, n_experts)
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.flatten(0, -2)
        logits = self.router(tokens)
        weights, chosen = route(logits, self.top_k)

        def add_answers(output: Tensor, numbered: tuple[int, nn.Module]) -> Tensor:
            i, expert = numbered
            token, slot = (chosen == i).nonzero(as_tuple=True)
            return output.index_add(0, token, weights[token, slot, None] * expert(tokens[token])) if len(token) else output

        output = reduce(add_answers, enumerate(self.experts), torch.zeros_like(tokens))
        return output.reshape(x.shape), load_balancing_loss(logits.softmax(dim=-1), chosen)


class MoEBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads)
        self.moe = MoELayer(d_model, d_ff, n_experts, top_k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        heard = x + self.attn(self.ln1(x))
        thought, aux_loss = self.moe(self.ln2(heard))
        return heard + thought, aux_loss


def left_out(layer: MoELayer) -> int:
    return (len(layer.experts) - layer.top_k) * count_parameters(layer.experts[0])


def active_parameters(model: nn.Module) -> int:
    return count_parameters(model) - sum(left_out(module) for module in model.modules() if isinstance(module, MoELayer))
