"""The parts of chapter 20 in a GPT and in its training.

`design` is a Design of design.py, which imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

MUON_PEAK = 0.02  # learning rate; AdamW has that of the recipe


# ---- attention


def modern_attention(parts: Any, design: Any) -> nn.Module:
    """Causal self-attention of the kind that the design names, (B, T, D) -> (B, T, D)."""
    if design.attention == "latent":
        return parts.LatentAttention(design.d_model, design.n_heads, *latent_sizes(design))
    if design.attention == "qk_norm":
        inside = design.positions if design.positions in ("rope", "alibi") else "none"
        return parts.QKNormAttention(design.d_model, design.n_heads, inside)
    return (SinkAttention if design.attention == "sink" else GatedAttention)(parts, design)


def latent_sizes(design: Any) -> tuple[int, int]:
    """d_latent and d_rope: half of what all heads are wide together, and about half of one head, as in DeepSeek-V2."""
    d_head = design.d_model // design.n_heads
    return max(design.d_model // 2, 1), max(d_head // 4 * 2, 2)


class _ByHeads(nn.Module):
    """CausalSelfAttention, but a subclass says how the heads attend."""

    def __init__(self, parts: Any, design: Any) -> None:
        super().__init__()
        self.parts, self.n_heads, self.rotates = parts, design.n_heads, design.positions == "rope"
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(design.d_model, design.d_model) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        T = x.size(1)
        q, k, v = (self.parts.split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        if self.rotates:
            places = torch.arange(T, device=x.device)
            q, k = self.parts.apply_rope(q, places), self.parts.apply_rope(k, places)
        mixed = self.attend(x, q, k, v, self.parts.causal_mask(T).to(x.device))  # (B, H, T, d_head)
        return self.W_out(self.parts.merge_heads(mixed))

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


class SinkAttention(_ByHeads):
    """Each head may look at nothing: its sink is a learned score."""

    def __init__(self, parts: Any, design: Any) -> None:
        super().__init__(parts, design)
        self.sink = nn.Parameter(torch.zeros(design.n_heads))

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return self.parts.attention_with_sink(q, k, v, self.sink, mask)[0]


class GatedAttention(_ByHeads):
    """Each feature of each head has a gate, computed from the input."""

    def __init__(self, parts: Any, design: Any) -> None:
        super().__init__(parts, design)
        self.W_gate = nn.Linear(design.d_model, design.d_model, bias=False)

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return self.parts.gated_attention(q, k, v, self.parts.split_heads(self.W_gate(x), self.n_heads), mask)


# ---- several tokens at once


def logits_of_all_heads(parts: Any, design: Any, model: Any, ids: Tensor) -> Tensor:
    """The logits of lm_head and of the further heads, which are for training only: (B, T) -> (K, B, T, V)."""
    x = model.token_emb(ids)  # (B, T, D)
    if model.pos_emb is not None:
        x = model.pos_emb(x)
    for block in model.blocks:
        x = block(x)
    x = model.ln_f(x)
    logits = torch.stack([head(x) for head in (model.lm_head, *model.further_heads)])
    return logits if design.soft_cap is None else parts.soft_cap(logits, design.soft_cap)


# ---- Muon


class MuonAndAdamW:
    """One optimizer for all parameters: Muon for the matrices inside the blocks, AdamW for all others."""

    def __init__(self, parts: Any, parameters: Mapping[str, nn.Parameter], weight_decay: float, **adamw: Any) -> None:
        matrices = [p for name, p in parameters.items() if "blocks." in name and p.dim() == 2]
        chosen = set(map(id, matrices))
        others = [p for p in parameters.values() if id(p) not in chosen]
        muon = parts.Muon(matrices, lr=MUON_PEAK, weight_decay=weight_decay)
        self.both = [muon, parts.AdamW(others, weight_decay=weight_decay, **adamw)]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.both for group in optimizer.param_groups]

    def step(self) -> None:
        for optimizer in self.both:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.both:
            optimizer.zero_grad()
