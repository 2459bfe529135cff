"""Chapter 11's mixture of experts against Mixtral."""

from __future__ import annotations

import pytest
import torch
from agreement import agree, copied, randomised, same
from torch import nn
from transformers import MixtralConfig
from transformers.models.mixtral import modeling_mixtral as mixtral

B, T, D, D_FF, N = 3, 7, 10, 13, 6


def twins(ours, top_k: int) -> tuple[nn.Module, nn.Module]:
    """Our layer with chapter 5's SwiGLU as experts, like Mixtral's, and Hugging Face's block with the same numbers.

    They store the experts in two tensors: gate and up of each stacked, and down.
    """
    mine = ours.MoELayer(D, D_FF, N, top_k)
    mine.experts = nn.ModuleList(ours.SwiGLU(D, D_FF) for _ in range(N))
    randomised(mine, dtype=torch.float32)
    sizes = dict(hidden_size=D, intermediate_size=D_FF, num_local_experts=N, num_experts_per_tok=top_k)
    config = MixtralConfig(**sizes, router_jitter_noise=0.0)
    config._experts_implementation = "eager"
    theirs = mixtral.MixtralSparseMoeBlock(config)
    copied([([mine.router.weight], theirs.gate.weight)])
    with torch.no_grad():
        theirs.experts.gate_up_proj.copy_(torch.stack([torch.cat([e.gate.weight, e.up.weight]) for e in mine.experts]))
        theirs.experts.down_proj.copy_(torch.stack([e.down.weight for e in mine.experts]))
    return mine, theirs


@pytest.mark.parametrize("top_k", [1, 2, N])
def test_the_layer_is_mixtrals_block(ours, top_k):
    """Values, choices, the balance loss, and the gradients of the input, the router and every expert."""
    mine, theirs = twins(ours, top_k)
    x = (1.5 * torch.randn(B, T, D)).requires_grad_()
    agree(mine(x)[0], theirs(x), x, pairs=[([mine.router.weight], theirs.gate.weight)], tol=1e-5)
    cotangent = torch.randn(B, T, D)
    mine(x)[0].backward(cotangent)
    theirs(x).backward(cotangent)
    for i, expert in enumerate(mine.experts):
        gate_up, down = theirs.experts.gate_up_proj.grad[i], theirs.experts.down_proj.grad[i]
        if expert.gate.weight.grad is None:  # no token chose the expert: ours has no gradient, and theirs zeros
            assert not gate_up.any() and not down.any()
        else:
            same(torch.cat([expert.gate.weight.grad, expert.up.weight.grad]), gate_up, 1e-5)
            same(expert.down.weight.grad, down, 1e-5)
    _, weights, experts = theirs.gate(x.flatten(0, 1))
    got = ours.route(mine.router(x.flatten(0, 1)), top_k)
    same(got[0], weights, 1e-5)
    assert torch.equal(got[1], experts)
    # ours uses the share of all choices, which sum to 1; theirs the choices per token, which sum to top_k
    balance = mixtral.load_balancing_loss_func((mine.router(x.flatten(0, 1)),), N, top_k)
    agree(top_k * mine(x)[1], balance, mine.router.weight, tol=1e-5)
