"""Grouped-query attention of the reference against torch's own (enable_gqa) and Hugging Face's Llama."""

from __future__ import annotations

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

B, H, T, D_HEAD = 3, 12, 7, 8
D = H * D_HEAD
KV_HEADS = (1, 2, 3, 4, 6, 12)


@pytest.fixture(scope="module")
def ch10():
    chapter = load_syllabus().chapter("ch10_kv_cache")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(13)


def same(got: Tensor, expected: Tensor, tol: float = 1e-9) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol / 10)


def randomise(module: nn.Module) -> nn.Module:
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return module


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def cut(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, D_HEAD)).transpose(1, 2)


def same_gradients(got: Tensor, expected: Tensor, leaves: list[Tensor], theirs: list[Tensor] | None = None, tol: float = 1e-8) -> None:
    cotangent = torch.randn_like(expected)
    ours = torch.autograd.grad(got, leaves, cotangent, retain_graph=True)
    for mine, other in zip(ours, torch.autograd.grad(expected, theirs or leaves, cotangent)):
        same(mine, other, tol)


@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("positions", ["none", "alibi"])
def test_groups_are_torchs(ch10, positions, kv_heads):
    """F.scaled_dot_product_attention(enable_gqa=True) shares key heads among query heads; with alibi BLOOM's own tensor is its additive mask."""
    module, x = randomise(ch10.GroupedQueryAttention(D, H, kv_heads, positions)), normal(B, T, D)
    options = {"is_causal": True}
    if positions == "alibi":
        bias = build_alibi_tensor(torch.ones(B, T, dtype=torch.long), H, torch.float64).reshape(B, H, 1, T)
        options = {"attn_mask": bias.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)}
    q, k, v = cut(module.W_q(x)), cut(module.W_k(x)), cut(module.W_v(x))
    assert k.shape == v.shape == (B, kv_heads, T, D_HEAD)
    expected = module.W_out(F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options).transpose(1, 2).flatten(2))
    tol = 1e-9 if positions == "none" else 1e-5  # their slopes are rounded to float32 in another order
    same(module(x), expected, tol)
    same_gradients(module(x), expected, [x, *module.parameters()], tol=tol)


def in_llamas_order(weight: Tensor) -> Tensor:
    """Rows of W_q or W_k for Llama: in each head the first members of all pairs come first, then the second ones."""
    heads = weight.unflatten(0, (-1, D_HEAD))
    return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)


def llama(module: nn.Module, kv_heads: int, length: int = T) -> tuple[LlamaAttention, tuple[Tensor, Tensor]]:
    """Hugging Face's attention with our numbers, and its sines and cosines."""
    config = LlamaConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=kv_heads, attention_bias=True, max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="sdpa",
    )  # fmt: skip
    theirs = LlamaAttention(config, layer_idx=0).double().eval()
    names = {"q_proj": module.W_q, "k_proj": module.W_k, "v_proj": module.W_v, "o_proj": module.W_out}
    with torch.no_grad():
        for name, ours in names.items():
            turned = in_llamas_order if name in ("q_proj", "k_proj") else lambda weight: weight
            getattr(theirs, name).weight.copy_(turned(ours.weight))
            getattr(theirs, name).bias.copy_(turned(ours.bias))
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=torch.float64), torch.arange(length)[None])
    return theirs, (cos, sin)


@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_with_rope_it_is_llamas(ch10, kv_heads):
    """The same weights, rows of queries and keys in Llama's order of features: the same output and gradients."""
    module, x = randomise(ch10.GroupedQueryAttention(D, H, kv_heads, "rope")), normal(B, T, D)
    theirs, places = llama(module, kv_heads)
    expected, _ = theirs(x, position_embeddings=places, attention_mask=None)
    same(module(x), expected, 1e-5)
    ours = [x, module.W_v.weight, module.W_v.bias, module.W_out.weight, module.W_out.bias]
    same_gradients(module(x), expected, ours, [x, theirs.v_proj.weight, theirs.v_proj.bias, theirs.o_proj.weight, theirs.o_proj.bias], 1e-4)


@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
def test_heads_that_are_copies_share_nothing_new(ch10, positions):
    """CausalSelfAttention whose key heads are copies within each group gives what the grouped one gives."""
    kv_heads = 3
    module, x = randomise(ch10.GroupedQueryAttention(D, H, kv_heads, positions)), normal(B, T, D)
    plain = ch10.CausalSelfAttention(D, H, positions).double()
    state = module.state_dict()
    for name in ("W_k", "W_v"):
        for part in ("weight", "bias"):
            heads = state[f"{name}.{part}"].unflatten(0, (kv_heads, D_HEAD))
            state[f"{name}.{part}"] = heads.repeat_interleave(H // kv_heads, dim=0).flatten(0, 1)
    plain.load_state_dict(state)
    same(module(x), plain(x))


@pytest.mark.parametrize("kv_heads", [1, 4, 12])
def test_bytes_are_those_of_hugging_faces_cache(ch10, kv_heads):
    """The bytes of the tensors in Llama's own cache after a pass."""
    layers, cache = 3, DynamicCache()
    for layer in range(layers):
        keys = torch.zeros(B, kv_heads, T, D_HEAD, dtype=torch.bfloat16)
        cache.update(keys, keys.clone(), layer)
    size = sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values))
    assert ch10.kv_cache_bytes(layers, kv_heads, D_HEAD, T, batch=B) == size


def test_bytes_of_models_people_know(ch10):
    """Llama 2 7B: half a mebibyte a token. Llama 3 8B, with 8 key heads for 32 query heads: a quarter of that."""
    assert ch10.kv_cache_bytes(32, 32, 128, 2048) == 2**30
    assert ch10.kv_cache_bytes(32, 32, 128, 1) == 2**19
    assert ch10.kv_cache_bytes(32, 8, 128, 1) == 2**17
    assert ch10.kv_cache_bytes(32, 32, 128, 4096, batch=8, bytes_per_value=4) == 32 * 2**30
