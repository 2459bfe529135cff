"""Style: einsum. b batch, t position, n expert, k one of a token's choices, m a token that chose this expert, d model width."""

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm
from .ch07_models import count_parameters


def check_top_k(top_k: int, n_experts: int) -> None:
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"top_k={top_k} is not between 1 and the number of experts, {n_experts}")


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    check_top_k(top_k, router_logits.shape[-1])
    best, experts = router_logits.topk(top_k, dim=-1)
    return torch.softmax(best, dim=-1), experts  # those left out cancel when the probabilities are divided by their sum


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    n_experts = router_probs.shape[-1]
    probs = router_probs.to(torch.promote_types(router_probs.dtype, torch.float32))
    chosen = (experts[..., None] == torch.arange(n_experts, device=experts.device)).to(probs.dtype)
    share = torch.einsum("...kn->n", chosen) / max(experts.numel(), 1)
    mean_prob = torch.einsum("...n->n", probs) / max(probs[..., 0].numel(), 1)
    return (n_experts * torch.einsum("n,n->", share, mean_prob)).to(router_probs.dtype)


class LinearMap(nn.Module):
    """weight (out, in), no bias: "...d,nd->...n"."""

    def __init__(self, d_in: int, d_out: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...d,nd->...n", x, self.weight)


class MoELayer(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        check_top_k(top_k, n_experts)
        self.top_k = top_k
        self.router = LinearMap(d_model, n_experts)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.router(x)
        weights, chosen = route(logits, self.top_k)
        output = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            b, t, k = torch.where(chosen == i)
            if len(b):
                answer = torch.einsum("m,md->md", weights[b, t, k], expert(x[b, t]))
                output = output.index_put((b, t), answer, accumulate=True)
        return output, load_balancing_loss(torch.softmax(logits, dim=-1), chosen)


class MoEBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        self.ln1 = LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads)
        self.ln2 = LayerNorm(d_model)
        self.moe = MoELayer(d_model, d_ff, n_experts, top_k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.attn(self.ln1(x))
        found, aux_loss = self.moe(self.ln2(x))
        return x + found, aux_loss


def active_parameters(model: nn.Module) -> int:
    layers = [module for module in model.modules() if isinstance(module, MoELayer)]
    idle = sum((len(layer.experts) - layer.top_k) * count_parameters(layer.experts[0]) for layer in layers)
    return count_parameters(model) - idle
