# Style: typed and defensive.

from __future__ import annotations

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def _require_top_k(top_k: int, n_experts: int) -> None:
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"top_k must lie between 1 and the number of experts, got {top_k} of {n_experts}")


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    if router_logits.dim() < 1:
        raise ValueError("router_logits must be (..., N)")
    _require_top_k(top_k, router_logits.size(-1))
    probs: Tensor = torch.softmax(router_logits, dim=-1)
    best, experts = probs.topk(top_k, dim=-1, sorted=True)
    weights: Tensor = best / best.sum(dim=-1, keepdim=True)
    assert weights.shape == experts.shape == (*router_logits.shape[:-1], top_k)
    return weights, experts


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    if router_probs.shape[:-1] != experts.shape[:-1]:
        raise ValueError(f"probabilities and choices must be of the same tokens, got {tuple(router_probs.shape)} and {tuple(experts.shape)}")
    n_experts: int = router_probs.size(-1)
    choices: Tensor = experts.flatten().to(torch.int64)
    if choices.numel() == 0:
        raise ValueError("without a choice there is no share of the choices")
    if bool(((choices < 0) | (choices >= n_experts)).any()):
        raise ValueError(f"experts must lie between 0 and {n_experts - 1}")
    shares: Tensor = torch.bincount(choices, minlength=n_experts).to(router_probs.dtype) / choices.numel()
    mean_probs: Tensor = router_probs.reshape(-1, n_experts).mean(dim=0)
    assert shares.shape == mean_probs.shape == (n_experts,)
    return n_experts * (shares * mean_probs).sum()


class MoELayer(nn.Module):
    top_k: int
    router: nn.Linear
    experts: nn.ModuleList

    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2) -> None:
        super().__init__()
        _require_top_k(top_k, n_experts)
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))

    @property
    def n_experts(self) -> int:
        return len(self.experts)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        d_model: int = self.router.in_features
        if x.dim() != 3 or x.size(-1) != d_model:
            raise ValueError(f"x must be (B, T, {d_model}), got {tuple(x.shape)}")
        tokens: Tensor = x.reshape(-1, d_model)
        logits: Tensor = self.router(tokens)
        weights, chosen = route(logits, self.top_k)
        output: Tensor = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == number)
            if rows.numel() > 0:
                found: Tensor = expert(tokens[rows]) * weights[rows, slots].unsqueeze(-1)
                output = output.index_add(0, rows, found)
        aux_loss: Tensor = load_balancing_loss(torch.softmax(logits, dim=-1), chosen)
        assert aux_loss.dim() == 0
        return output.reshape(x.shape), aux_loss


class MoEBlock(nn.Module):
    ln1: LayerNorm
    attn: CausalSelfAttention
    ln2: LayerNorm
    moe: MoELayer

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2) -> None:
        super().__init__()
        self.ln1 = LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, positions="none")
        self.ln2 = LayerNorm(d_model)
        self.moe = MoELayer(d_model, d_ff=d_ff, n_experts=n_experts, top_k=top_k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        talked: Tensor = x + self.attn(self.ln1(x))
        found, aux_loss = self.moe(self.ln2(talked))
        assert found.shape == x.shape
        return talked + found, aux_loss


def _left_out(layer: MoELayer) -> int:
    """How many parameters of the layer's experts one token does not meet; all experts are of one size."""
    return (layer.n_experts - layer.top_k) * count_parameters(layer.experts[0])


def active_parameters(model: nn.Module) -> int:
    return count_parameters(model) - sum(_left_out(module) for module in model.modules() if isinstance(module, MoELayer))
