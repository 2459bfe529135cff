"""In explicit loops: token by token, and for each token expert by expert."""

import torch
from torch import Tensor, nn

from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm


def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    n_experts = router_logits.size(-1)
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"top_k is {top_k}, and there are {n_experts} experts")
    probs = torch.softmax(router_logits, dim=-1).reshape(-1, n_experts)
    all_weights = []
    all_experts = []
    for of_token in probs:
        numbers = of_token.tolist()
        chosen = []
        for _ in range(top_k):
            best = None
            for expert in range(n_experts):
                if expert in chosen:
                    continue
                if best is None or numbers[expert] > numbers[best]:
                    best = expert
            chosen.append(best)
        picked = []
        for expert in chosen:
            picked.append(of_token[expert])
        weights = torch.stack(picked)
        all_weights.append(weights / weights.sum())
        all_experts.append(chosen)
    shape = (*router_logits.shape[:-1], top_k)
    experts = torch.tensor(all_experts, dtype=torch.int64, device=router_logits.device)
    return torch.stack(all_weights).reshape(shape), experts.reshape(shape)


def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    n_experts = router_probs.size(-1)
    counts = [0] * n_experts
    choices = 0
    for expert in experts.reshape(-1).tolist():
        counts[expert] += 1
        choices += 1
    products = []
    for i in range(n_experts):
        products.append(counts[i] / choices * router_probs[..., i].mean())
    return n_experts * torch.stack(products).sum()


class MoELayer(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"top_k is {top_k}, and there are {n_experts} experts")
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList()
        for _ in range(n_experts):
            self.experts.append(FeedForward(d_model, d_ff))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.reshape(-1, x.size(-1))
        logits = self.router(tokens)
        weights, experts = route(logits, self.top_k)
        outputs = []
        for n, chosen in enumerate(experts.tolist()):
            output = torch.zeros_like(tokens[n : n + 1])
            for slot, expert in enumerate(chosen):
                output = output + weights[n, slot] * self.experts[expert](tokens[n : n + 1])
            outputs.append(output)
        loss = load_balancing_loss(torch.softmax(logits, dim=-1), experts)
        return torch.cat(outputs).reshape(x.shape), loss


class MoEBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2):
        super().__init__()
        for name in ("ln1", "ln2"):
            setattr(self, name, LayerNorm(d_model))
        self.attn = CausalSelfAttention(d_model, n_heads)
        self.moe = MoELayer(d_model, d_ff, n_experts, top_k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.attn(self.ln1(x))
        found, loss = self.moe(self.ln2(x))
        return x + found, loss


def active_parameters(model: nn.Module) -> int:
    left_out = set()
    asked = set()
    for layer in model.modules():
        if isinstance(layer, MoELayer):
            for number, expert in enumerate(layer.experts):
                for part in expert.modules():
                    if number < layer.top_k:
                        asked.add(part)
                    else:
                        left_out.add(part)
    counted = set()
    total = 0
    for part in model.modules():
        if part in left_out and part not in asked:
            continue
        for parameter in part.parameters(recurse=False):
            if parameter not in counted:
                counted.add(parameter)
                total += parameter.numel()
    return total
