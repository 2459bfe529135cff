"""Chapter 4 of the reference against Llama's rotary embedding, BLOOM's ALiBi and torch's own attention."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

B, H, T, D_HEAD = 3, 5, 7, 8
D = H * D_HEAD


@pytest.fixture(scope="module")
def ch04():
    chapter = load_syllabus().chapter("ch04_positions_in_attention")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(13)


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def same(got: Tensor, expected: Tensor, tol: float = 1e-9) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol / 10)


def same_gradients(got: Tensor, expected: Tensor, *leaves: Tensor, tol: float = 1e-9) -> None:
    cotangent = torch.randn_like(expected)
    ours = torch.autograd.grad(got, leaves, cotangent, retain_graph=True)
    theirs = torch.autograd.grad(expected, leaves, cotangent, retain_graph=True)
    for mine, other in zip(ours, theirs):
        same(mine, other, tol)


def randomise(module: nn.Module) -> nn.Module:
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return module


def halves(x: Tensor) -> Tensor:
    """Our layout in Llama's: the first members of all pairs, then the second ones."""
    return torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)


def llamas(d_head: int, base: float) -> LlamaRotaryEmbedding:
    parameters = {"rope_type": "default", "rope_theta": base}
    config = LlamaConfig(hidden_size=H * d_head, num_attention_heads=H, max_position_embeddings=4096, rope_parameters=parameters)
    return LlamaRotaryEmbedding(config)


PLACES = {"from 0": torch.arange(T), "later": torch.arange(90, 90 + T), "in any order": torch.tensor([5, 2, 9, 0, 31, 1000, 7])}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotation_is_llamas_in_another_order_of_features(ch04, where, base):
    q, k, positions = normal(B, H, T, D_HEAD, dtype=torch.float32), normal(B, H, T, D_HEAD, dtype=torch.float32), PLACES[where]
    cos, sin = llamas(D_HEAD, base)(q, positions[None].expand(B, -1))
    theirs = apply_rotary_pos_emb(halves(q), halves(k), cos, sin)
    ours = ch04.apply_rope(q, positions, base), ch04.apply_rope(k, positions, base)
    for mine, other, x in zip(ours, theirs, (q, k)):
        same(halves(mine), other, tol=1e-5)
        same_gradients(halves(mine), other, x, tol=1e-5)
    same(ours[0] @ ours[1].mT, theirs[0] @ theirs[1].mT, tol=1e-4)


def test_angles_are_llamas(ch04):
    """At large positions too, at which an additional rounding would show."""
    positions = torch.tensor([0, 1, 17, 1000, 4000])
    for d_head in (2, 6, 64, 128):
        cos, sin = llamas(d_head, 10000.0)(torch.zeros(1), positions[None])
        angles = ch04.rope_angles(positions, d_head)
        assert angles.dtype == torch.float32 and angles.shape == (5, d_head // 2)
        same(angles.cos(), cos[0, :, : d_head // 2], tol=2e-3)
        same(angles.sin(), sin[0, :, : d_head // 2], tol=2e-3)


def test_rotation_is_a_complex_product(ch04):
    x, positions = normal(B, H, T, D_HEAD), PLACES["in any order"]
    frequencies = 10000.0 ** (-torch.arange(0, D_HEAD, 2, dtype=torch.float64) / D_HEAD)
    turns = torch.polar(torch.ones(T, D_HEAD // 2, dtype=torch.float64), positions[:, None] * frequencies)
    expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)
    same(ch04.apply_rope(x, positions), expected, tol=1e-3)
    same_gradients(ch04.apply_rope(x, positions), expected, x, tol=1e-3)


def test_bfloat16_is_rounded_once(ch04):
    """Llama's own code rounds sines and cosines to bfloat16 first, and so is less accurate than ours."""
    positions = torch.arange(900, 1100)
    x = torch.randn(200, 64).bfloat16()
    exact = ch04.apply_rope(x.double(), positions)
    cos, sin = llamas(64, 10000.0)(x, positions[None])
    theirs, _ = apply_rotary_pos_emb(halves(x)[None, None], halves(x)[None, None], cos, sin)
    ours = ch04.apply_rope(x, positions)
    assert ours.dtype == torch.bfloat16
    assert (ours != exact.bfloat16()).float().mean() < 0.02
    assert (ours - exact).square().mean() < (theirs[0, 0] - halves(exact)).square().mean()


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 8, 12, 16, 20, 25, 32, 71, 112])
def test_slopes_and_biases_are_blooms(ch04, heads):
    """BLOOM adds slope * j, which differs from our -slope * (i - j) by the same number in a whole row."""
    length = 9
    theirs = build_alibi_tensor(torch.ones(2, length, dtype=torch.long), heads, torch.float32).reshape(2, heads, 1, length)
    same(ch04.alibi_slopes(heads), theirs[0, :, 0, 1], tol=1e-6)
    past = ch04.causal_mask(length)
    ours = ch04.alibi_bias(heads, length, length)
    apart = (theirs[1] - ours).masked_fill(~past, 0.0)
    same(apart, (apart[..., :1]).expand_as(apart).masked_fill(~past, 0.0), tol=1e-5)
    weights = [torch.softmax(bias.masked_fill(~past, -torch.inf), dim=-1) for bias in (ours, theirs[0].expand(-1, length, -1))]
    same(*weights, tol=1e-5)


def test_slopes_are_the_papers(ch04):
    """Eight heads: 1/2, 1/4, ... 1/256. Sixteen: the same with their geometric means between."""
    same(ch04.alibi_slopes(8), torch.tensor([2.0**-h for h in range(1, 9)]))
    same(ch04.alibi_slopes(16), torch.tensor([2.0 ** (-h / 2) for h in range(1, 17)]), tol=1e-6)


@pytest.mark.parametrize("rows", [1, 3, T])
def test_a_biased_chunk_is_the_end_of_the_whole(ch04, rows):
    q, k, v = normal(B, H, T, D_HEAD), normal(B, H, T, D_HEAD), normal(B, H, T, D_HEAD)
    whole, _ = ch04.scaled_dot_product_attention(q, k, v, ch04.causal_mask(T), ch04.alibi_bias(H, T, T).double())
    part, _ = ch04.scaled_dot_product_attention(q[:, :, -rows:], k, v, ch04.causal_mask(rows, T), ch04.alibi_bias(H, rows, T).double())
    same(part, whole[:, :, -rows:])


def cut(x: Tensor) -> Tensor:
    return x.unflatten(-1, (H, D_HEAD)).transpose(1, 2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
def test_causal_self_attention_is_torchs(ch04, positions, bias):
    module, x = randomise(ch04.CausalSelfAttention(D, H, positions, bias=bias)), normal(B, T, D)
    q, k, v = cut(module.W_q(x)), cut(module.W_k(x)), cut(module.W_v(x))
    options = {"is_causal": True}
    if positions == "rope":
        cos, sin = llamas(D_HEAD, 10000.0)(x, torch.arange(T)[None])
        q, k = apply_rotary_pos_emb(halves(q), halves(k), cos, sin)  # q and k in another order of features: the same scores
    if positions == "alibi":
        options = {"attn_mask": ch04.alibi_bias(H, T, T).double().masked_fill(~ch04.causal_mask(T), -torch.inf)}
    expected = module.W_out(F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2))
    got, weights = module(x, return_weights=True)
    tol = 1e-5 if positions == "rope" else 1e-9
    same(got, expected, tol)
    same(module(x), got)
    same(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    same_gradients(got, expected, x, *module.parameters(), tol=tol)
    assert sorted(module.state_dict()) == sorted(f"{name}.{part}" for name in ("W_q", "W_k", "W_v", "W_out") for part in ("weight", "bias")[: 1 + bias])


def test_alibi_is_blooms_in_attention(ch04):
    """torch's attention with BLOOM's own tensor as its additive mask."""
    module, x = randomise(ch04.CausalSelfAttention(D, H, "alibi")), normal(B, T, D)
    theirs = build_alibi_tensor(torch.ones(B, T, dtype=torch.long), H, torch.float64).reshape(B, H, 1, T)
    mask = theirs.masked_fill(~ch04.causal_mask(T), -torch.inf)
    mixed = F.scaled_dot_product_attention(cut(module.W_q(x)), cut(module.W_k(x)), cut(module.W_v(x)), attn_mask=mask)
    same(module(x), module.W_out(mixed.transpose(1, 2).flatten(2)), tol=1e-7)


def test_without_positions_it_is_chapter_three(ch04):
    """The same numbers in MultiHeadAttention under a causal mask."""
    module, x = randomise(ch04.CausalSelfAttention(D, H)), normal(B, T, D)
    torchs = nn.MultiheadAttention(D, H, batch_first=True).double()
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([part.weight for part in (module.W_q, module.W_k, module.W_v)]))
        torchs.in_proj_bias.copy_(torch.cat([part.bias for part in (module.W_q, module.W_k, module.W_v)]))
        torchs.out_proj.load_state_dict(module.W_out.state_dict())
    expected, weights = torchs(x, x, x, attn_mask=~ch04.causal_mask(T), average_attn_weights=False)
    got = module(x, return_weights=True)
    same(got[0], expected)
    same(got[1], weights)


@pytest.mark.parametrize("positions", ["rope", "alibi"])
def test_a_shifted_text_shares_its_attention_alike(ch04, positions):
    module, x = randomise(ch04.CausalSelfAttention(D, H, positions)), normal(1, T, D)
    longer = torch.cat([normal(1, 30, D), x], dim=1)
    _, here = module(x, return_weights=True)
    _, there = module(longer, return_weights=True)
    among = there[:, :, 30:, 30:]
    same(among / among.sum(-1, keepdim=True), here, tol=1e-4)


def test_a_turn_and_its_opposite_cancel(ch04):
    x, positions = normal(B, H, T, D_HEAD), PLACES["in any order"]
    same(ch04.apply_rope(ch04.apply_rope(x, positions), -positions), x, tol=1e-6)
    quarter = ch04.apply_rope(torch.tensor([[1.0, 0.0]]), torch.tensor([math.pi / 2]))
    same(quarter, torch.tensor([[0.0, 1.0]]), tol=1e-6)
