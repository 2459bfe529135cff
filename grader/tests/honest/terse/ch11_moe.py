"""Chapter 11 in the terse style: as short as it can be read."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def check(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"top_k {k} is not from 1 to {n} experts")


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    check(top_k, router_logits.size(-1))
    best, experts = router_logits.topk(top_k)
    return best.softmax(-1), experts


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    n = router_probs.size(-1)
    return n * F.one_hot(experts, n).to(router_probs).flatten(0, -2).mean(0) @ router_probs.reshape(-1, n).mean(0)


class MoELayer(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        check(top_k, n_experts)
        self.top_k, self.router = top_k, nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights, experts = route(logits := self.router(tokens := x.flatten(0, -2)), self.top_k)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            row, slot = (experts == i).nonzero(as_tuple=True)
            if len(row):
                out.index_add_(0, row, expert(tokens[row]) * weights[row, slot, None])
        return out.view_as(x), load_balancing_loss(logits.softmax(-1), experts)


class MoEBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attn, self.moe = CausalSelfAttention(d_model, n_heads), MoELayer(d_model, d_ff, n_experts, top_k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, aux = self.moe(self.ln2(x := x + self.attn(self.ln1(x))))
        return x + y, aux


def active_parameters(model: nn.Module) -> int:
    idle = ((len(m.experts) - m.top_k) * count_parameters(m.experts[0]) for m in model.modules() if isinstance(m, MoELayer))
    return count_parameters(model) - sum(idle)
