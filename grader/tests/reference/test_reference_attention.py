"""Chapter 3 of the reference against torch's own attention: the same numbers, the same weights, the same gradients."""

from __future__ import annotations

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F

B, H, T, S, D_HEAD = 3, 4, 6, 7, 5
D = H * D_HEAD


@pytest.fixture(scope="module")
def ch03():
    chapter = load_syllabus().chapter("ch03_attention")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(11)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def some(*shape: int) -> Tensor:
    """A mask with both True and False in every row."""
    x = torch.randn(*shape)
    return ((x > 0) | (x == x.amax(-1, keepdim=True))) & (x != x.amin(-1, keepdim=True))


def padding() -> Tensor:
    """(B, S), True at real keys: padding on the left, on the right, on both sides."""
    real = torch.ones(B, S, dtype=torch.bool)
    real[0, :2] = real[1, -3:] = real[2, :1] = real[2, -1:] = False
    return real


def same(got, expected, **options) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11, **options)


def same_gradients(got: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    cotangent = torch.randn_like(expected)
    ours = torch.autograd.grad(got, leaves, cotangent, retain_graph=True)
    theirs = torch.autograd.grad(expected, leaves, cotangent, retain_graph=True)
    for mine, torchs in zip(ours, theirs):
        same(mine, torchs)


def randomise(module: nn.Module) -> nn.Module:
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return module


def torchs_attention(ours: nn.Module, bias: bool) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with the same numbers: it stores q, k and v in one fused matrix."""
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).double()
    parts = (ours.W_q, ours.W_k, ours.W_v)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.out_proj.weight.copy_(ours.W_out.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            theirs.out_proj.bias.copy_(ours.W_out.bias)
    return theirs


def masks(kind: str, queries: int) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Our mask, and torch's options with the same meaning: they are True where a key is *blocked*."""
    real, each, one = padding(), some(B, H, queries, S), some(queries, S)
    each[..., 3] = one[:, 3] = True  # a real key for every query: without one torch's module gives NaN, and ours zeros
    if kind == "padding":
        return real[:, None, None, :], {"key_padding_mask": ~real}
    if kind == "one mask for all":
        return one, {"attn_mask": ~one}
    if kind == "one mask a head":
        return each, {"attn_mask": ~each.flatten(0, 1)}
    if kind == "both":
        return one & real[:, None, None, :], {"attn_mask": ~one, "key_padding_mask": ~real}
    return None, {}


@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_softmax_is_torchs(ch03, dim, scale):
    x = normal(3, 4, 5)
    got, expected = ch03.softmax(x * scale, dim=dim), torch.softmax(x * scale, dim=dim)
    same(got, expected)
    same_gradients(got, expected, x)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_is_torchs(ch03, masked, biased):
    q, k, v, bias = normal(B, H, T, D_HEAD), normal(B, H, S, D_HEAD), normal(B, H, S, 3), normal(H, T, S)
    mask = some(B, 1, T, S) if masked else None
    numbers = bias.masked_fill(~mask, -torch.inf) if masked and biased else bias if biased else mask
    got, weights = ch03.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias if biased else None)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=numbers)
    same(got, expected)
    same(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    same_gradients(got, expected, q, k, v, *([bias] if biased else []))


def test_a_row_that_may_attend_to_nothing_is_torchs(ch03):
    q, k, v = normal(B, H, T, D_HEAD), normal(B, H, S, D_HEAD), normal(B, H, S, 3)
    mask = some(B, 1, T, S)
    mask[0, :, 2], mask[1] = False, False
    got, weights = ch03.scaled_dot_product_attention(q, k, v, mask)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    same(got, expected)
    assert not got[1].any() and not weights[1].any()
    same_gradients(got, expected, q, k, v)


def test_the_causal_mask_is_torchs(ch03):
    q, k, v = normal(B, H, T, D_HEAD), normal(B, H, T, D_HEAD), normal(B, H, T, 3)
    got, _ = ch03.scaled_dot_product_attention(q, k, v, ch03.causal_mask(T))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    same(got, expected)
    same_gradients(got, expected, q, k, v)


def test_fewer_queries_than_keys_are_the_last_positions(ch03):
    q, k, v = normal(S, D_HEAD), normal(S, D_HEAD), normal(S, 3)
    full = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    for last in (1, 3, S):
        got, _ = ch03.scaled_dot_product_attention(q[-last:], k, v, ch03.causal_mask(last, S))
        same(got, full[-last:])


def test_the_padding_mask_agrees_with_torchs(ch03):
    real = padding()
    ids = torch.where(real, 5, 9)
    same(ch03.padding_mask(ids, 9), real[:, None, None, :])


def test_one_head_is_torchs(ch03):
    head = randomise(ch03.SelfAttentionHead(D, D_HEAD))
    x = normal(B, T, D)
    q, k, v = F.linear(x, head.qkv.weight).split(D_HEAD, dim=-1)
    got, expected = head(x), F.scaled_dot_product_attention(q, k, v)
    same(got, expected)
    same_gradients(got, expected, x, head.qkv.weight)


@pytest.mark.parametrize("kind", ["no mask", "padding", "one mask for all", "one mask a head", "both"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_attention_is_torchs(ch03, kind, bias, cross):
    ours = randomise(ch03.MultiHeadAttention(D, H, bias=bias))
    theirs = torchs_attention(ours, bias)
    x, context = normal(B, T if cross else S, D), normal(B, S, D)
    source = context if cross else x
    mask, options = masks(kind, x.size(1))
    got, weights = ours(x, context=context if cross else None, mask=mask, return_weights=True)
    expected, torchs_weights = theirs(x, source, source, average_attn_weights=False, **options)
    same(got, expected)
    same(weights, torchs_weights)
    same(ours(x, context if cross else None, mask), got)
    same_gradients(got, expected, x, *([context] if cross else []))
    cotangent = torch.randn_like(got)
    got.backward(cotangent)
    expected.backward(cotangent)
    for part, name in (("weight", "in_proj_weight"), ("bias", "in_proj_bias"))[: 2 if bias else 1]:
        stacked = torch.cat([getattr(m, part).grad for m in (ours.W_q, ours.W_k, ours.W_v)])
        same(stacked, getattr(theirs, name).grad)
        same(getattr(ours.W_out, part).grad, getattr(theirs.out_proj, part).grad)


@pytest.mark.parametrize("bias", [False, True])
def test_fused_attention_is_torchs(ch03, bias):
    fused = randomise(ch03.FusedSelfAttention(D, H, max_len=9, bias=bias))
    x = normal(B, T, D)
    q, k, v = (part.unflatten(-1, (H, D_HEAD)).transpose(1, 2) for part in fused.c_attn(x).split(D, dim=-1))
    expected = fused.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
    got = fused(x)
    same(got, expected)
    same_gradients(got, expected, x, *fused.parameters())


@pytest.mark.parametrize("bias", [False, True])
def test_there_and_back_through_torchs_layout(ch03, bias):
    """nn.MultiheadAttention's in_proj is c_attn: it has the rows of q, k and v in the same order."""
    attention = randomise(ch03.MultiHeadAttention(D, H, bias=bias))
    fused = ch03.fuse_qkv(attention, max_len=T)
    theirs = torchs_attention(ch03.split_qkv(fused), bias)
    same(theirs.in_proj_weight, fused.c_attn.weight)
    x = normal(B, T, D)
    expected, _ = theirs(x, x, x, attn_mask=~ch03.causal_mask(T))
    same(fused(x), expected)
