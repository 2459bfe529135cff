"""Chapter 11 of the reference against Hugging Face's Mixtral, torch's own count of operations, and chapter 6's block."""

from __future__ import annotations

import os

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
mixtral = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
from transformers import MixtralConfig  # noqa: E402

B, T, D, D_FF, N = 3, 7, 10, 13, 6


@pytest.fixture(scope="module")
def course():
    """Chapters 5, 6 and 11."""
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch11_moe"), whole=True), "tested")
    yield tuple(package.module(name) for name in ("ch05_layers", "ch06_blocks", "ch11_moe"))
    package.close()


@pytest.fixture(scope="module")
def ch11(course):
    return course[2]


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(23)


def randomised(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return module


def same(got: Tensor, expected: Tensor, tol: float = 1e-5) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol)


def twins(course, top_k: int) -> tuple[nn.Module, nn.Module]:
    """Our layer with chapter 5's SwiGLU as experts, like Mixtral's, and Hugging Face's block with the same numbers.

    They store the experts in two tensors: gate and up of each stacked, and down.
    """
    ch05, _, ch11 = course
    ours = ch11.MoELayer(D, D_FF, N, top_k)
    ours.experts = nn.ModuleList(ch05.SwiGLU(D, D_FF) for _ in range(N))
    randomised(ours)
    config = MixtralConfig(hidden_size=D, intermediate_size=D_FF, num_local_experts=N, num_experts_per_tok=top_k, router_jitter_noise=0.0)
    config._experts_implementation = "eager"
    theirs = mixtral.MixtralSparseMoeBlock(config)
    assert config.hidden_act == "silu"
    with torch.no_grad():
        theirs.gate.weight.copy_(ours.router.weight)
        theirs.experts.gate_up_proj.copy_(torch.stack([torch.cat([e.gate.weight, e.up.weight]) for e in ours.experts]))
        theirs.experts.down_proj.copy_(torch.stack([e.down.weight for e in ours.experts]))
    return ours, theirs


@pytest.mark.parametrize("top_k", [1, 2, 3, N])
def test_the_layer_is_mixtrals_block(course, top_k):
    """Values, and the gradients of the input, the router and every expert."""
    ours, theirs = twins(course, top_k)
    x = (1.5 * torch.randn(B, T, D)).requires_grad_()
    (got, _), expected = ours(x), theirs(x)
    same(got, expected)
    cotangent = torch.randn_like(got)
    got.backward(cotangent)
    from_ours, x.grad = x.grad, None
    expected.backward(cotangent)
    same(from_ours, x.grad)
    same(ours.router.weight.grad, theirs.gate.weight.grad)
    if top_k == 1:
        assert float(ours.router.weight.grad.abs().max()) < 1e-5
    for i, expert in enumerate(ours.experts):
        has_gradient = expert.gate.weight.grad is not None  # if no token chose the expert, ours have none, and theirs zeros
        gate_up, down = theirs.experts.gate_up_proj.grad[i], theirs.experts.down_proj.grad[i]
        same(torch.cat([expert.gate.weight.grad, expert.up.weight.grad]) if has_gradient else torch.zeros_like(gate_up), gate_up)
        same(expert.down.weight.grad if has_gradient else torch.zeros_like(down), down)


@pytest.mark.parametrize("top_k", [1, 2, 3, N])
def test_the_weights_and_choices_are_those_of_mixtrals_router(course, top_k):
    ours, theirs = twins(course, top_k)
    x = torch.randn(B * T, D)
    logits, weights, experts = theirs.gate(x)
    got = course[2].route(ours.router(x), top_k)
    same(ours.router(x), logits)
    same(got[0], weights)
    assert torch.equal(got[1], experts)


@pytest.mark.parametrize("top_k", [1, 2, 3, N])
def test_mixtrals_balance_loss_is_top_k_times_ours(course, top_k):
    """Ours uses the share of all choices, which sum to 1; theirs the choices per token, which sum to top_k. Gradients differ by the same factor."""
    ours, _ = twins(course, top_k)
    x = torch.randn(B, T, D)
    _, aux_loss = ours(x)
    theirs = mixtral.load_balancing_loss_func((ours.router(x.flatten(0, 1)),), N, top_k)
    same(top_k * aux_loss, theirs)
    mine = torch.autograd.grad(aux_loss, ours.router.weight)[0]
    same(top_k * mine, torch.autograd.grad(theirs, ours.router.weight)[0])
    assert mine.abs().max() > (1e-3 if top_k < N else -1.0)


def test_at_perfect_balance_ours_is_1_and_theirs_top_k(ch11):
    logits = 20 * torch.eye(4).roll(1, 0) + 10 * torch.eye(4)
    experts = ch11.route(logits, 2)[1]
    same(ch11.load_balancing_loss(logits.softmax(-1), experts), torch.tensor(1.0))
    same(mixtral.load_balancing_loss_func((logits,), 4, 2), torch.tensor(2.0))


def test_over_several_layers_theirs_is_taken_once_over_all_tokens(ch11):
    """Two layers that have collapsed on different experts: each of our losses shows it; theirs, computed over both at once, shows half of it."""
    first, second = torch.full((9, 2), -9.0), torch.full((9, 2), -9.0)
    first[:, 0] = second[:, 1] = 9.0
    each = [ch11.load_balancing_loss(logits.softmax(-1), ch11.route(logits, 1)[1]) for logits in (first, second)]
    same(torch.stack(each), torch.tensor([2.0, 2.0]))
    same(mixtral.load_balancing_loss_func((first, second), 2, 1), torch.tensor(1.0))


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_torch_counts_the_multiply_adds_of_top_k_experts(ch11, top_k):
    from torch.utils.flop_counter import FlopCounterMode

    layer = randomised(ch11.MoELayer(D, D_FF, N, top_k))
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        layer(torch.randn(B, T, D))
    router, one_expert = B * T * D * N, B * T * 2 * D * D_FF
    assert counted.get_total_flops() == 2 * (router + top_k * one_expert)


def test_a_block_of_one_expert_is_a_pre_norm_block(course):
    _, ch06, ch11 = course
    ours, plain = randomised(ch11.MoEBlock(D, 2, D_FF, n_experts=1, top_k=1)), ch06.PreNormBlock(D, 2, D_FF)
    state = {name.replace("moe.experts.0.", "ffn."): value for name, value in ours.state_dict().items() if name != "moe.router.weight"}
    plain.load_state_dict(state)
    x = torch.randn(B, T, D)
    got, aux_loss = ours(x)
    same(got, plain(x))
    same(aux_loss, torch.tensor(1.0))
