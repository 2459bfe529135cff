"""Exercises that have a published counterpart: the same values and gradients as torch's or Hugging Face's functions.

Each row of the tables is an exercise, our call of it, the published call, and what makes their inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from agreement import agree, copied, normal, randomised, same, some
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, LlamaConfig, get_cosine_schedule_with_warmup
from transformers.generation import logits_process as warpers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
)

B, H, T, S, D_HEAD, V = 3, 4, 6, 7, 8, 11
D = H * D_HEAD
PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]


@dataclass(frozen=True)
class Row:
    exercise: str
    where: str  # in words, for the name of the test
    ours: Callable
    published: Callable
    inputs: Callable[[], list]
    tol: float = 1e-9


def qkv() -> list[Tensor]:
    return [normal(B, H, T, D_HEAD), normal(B, H, S, D_HEAD), normal(B, H, S, 3)]


def hidden_rows() -> Tensor:
    """A mask in which one query, and one whole text, may attend to nothing."""
    mask = some(B, 1, T, S)
    mask[0, :, 2], mask[1] = False, False
    return mask


def blooms_weights(heads: int) -> Tensor:
    """BLOOM adds slope * j, which differs from -slope * (i - j) by the same number in a whole row."""
    bias = build_alibi_tensor(torch.ones(1, 20, dtype=torch.long), heads, torch.float32).reshape(heads, 1, 20)
    return torch.softmax(bias.expand(-1, 20, -1).masked_fill(torch.ones(20, 20).triu(1) > 0, -torch.inf), -1)


def our_alibi_weights(bias: Tensor) -> Tensor:
    return torch.softmax(bias.masked_fill(torch.ones(20, 20).triu(1) > 0, -torch.inf), -1)


def gaps(ignored: int = -100) -> Tensor:
    return torch.randint(V, (B, T)).masked_fill(torch.rand(B, T) < 0.3, ignored)


def torchs_loss(logits: Tensor, targets: Tensor, ignored: int = -100) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=ignored)


def cosine(warmup: int, total: int) -> Tensor:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler, rates = get_cosine_schedule_with_warmup(optimizer, warmup, total), []
    for _ in range(total + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return torch.tensor(rates, dtype=torch.float64)


def windowed() -> list[Tensor]:
    return [normal(2, 3, 37, 8), normal(2, 3, 37, 8), normal(2, 3, 37, 6)]


def window_mask(window: int) -> Tensor:
    ones = torch.ones(37, 37, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - window)


def linear_loss_inputs() -> list[Tensor]:
    targets = torch.randint(60, (40,))
    targets[::4] = -100
    return [normal(40, 8), normal(60, 8), targets]


attend = F.scaled_dot_product_attention
FUNCTIONS = [
    *(
        Row("softmax", f"dim {dim}, scores {scale:g} times as large", lambda f, x, dim=dim, s=scale: f(x * s, dim),
            lambda x, dim=dim, s=scale: torch.softmax(x * s, dim), lambda: [normal(3, 4, 5)])
        for dim, scale in ((-1, 1e3), (0, 1.0), (1, 1.0))
    ),
    Row("scaled_dot_product_attention", "without a mask", lambda f, *x: f(*x)[0], attend, qkv),
    Row("scaled_dot_product_attention", "masked", lambda f, q, k, v, mask: f(q, k, v, mask)[0],
        lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), lambda: [*qkv(), some(B, 1, T, S)]),
    Row("scaled_dot_product_attention", "rows that may attend to nothing", lambda f, q, k, v, mask: f(q, k, v, mask)[0],
        lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), lambda: [*qkv(), hidden_rows()]),
    Row("scaled_dot_product_attention", "biased", lambda f, q, k, v, bias: f(q, k, v, bias=bias)[0],
        lambda q, k, v, bias: attend(q, k, v, attn_mask=bias), lambda: [*qkv(), normal(H, T, S)]),
    Row("scaled_dot_product_attention", "masked and biased", lambda f, q, k, v, mask, bias: f(q, k, v, mask, bias)[0],
        lambda q, k, v, mask, bias: attend(q, k, v, attn_mask=bias.masked_fill(~mask, -torch.inf)),
        lambda: [*qkv(), some(B, 1, T, S), normal(H, T, S)]),
    *(
        Row("alibi_bias", f"BLOOM's, {heads} heads", lambda f, h=heads: our_alibi_weights(f(h, 20, 20)),
            lambda h=heads: blooms_weights(h), lambda: [], 1e-5)
        for heads in (1, 3, 8, 12, 71)
    ),
    *(
        Row("gelu", f"torch's, {form}", lambda f, x, a=form == "tanh": f(x, approximate=a),
            lambda x, form=form: F.gelu(x, approximate=form),
            lambda dtype=dtype: [normal(B, T, D, dtype=dtype, scale=2.0)], tol)
        for form in ("none", "tanh") for dtype, tol in PRECISIONS
    ),
    *(
        Row("cross_entropy", f"{dtype}, scores {scale:g} times as large, ignore {ignored}",
            lambda f, x, y, i=ignored: f(x, y, ignore_index=i), lambda x, y, i=ignored: torchs_loss(x, y, i),
            lambda dtype=dtype, s=scale, i=ignored: [normal(B, T, V, dtype=dtype, scale=s), gaps(i)], tol)
        for dtype, tol in ((torch.float64, 1e-12), (torch.float32, 1e-6), (torch.bfloat16, 2e-2))
        for scale in (0.1, 1e4) for ignored in (-100, 5)
    ),
    Row("cross_entropy", "one row", lambda f, x, y: f(x, y), F.cross_entropy, lambda: [normal(V), torch.tensor(3)]),
    Row("cross_entropy", "more axes", lambda f, x, y: f(x, y), torchs_loss,
        lambda: [normal(2, 3, T, V), torch.randint(V, (2, 3, T))]),
    *(
        Row("warmup_cosine", f"Hugging Face's, {warmup} of {total} steps warm up",
            lambda f, w=warmup, t=total: torch.tensor([f(i, w, t, 0.3) for i in range(t + 1)], dtype=torch.float64),
            lambda w=warmup, t=total: cosine(w, t), lambda: [])
        for warmup, total in ((0, 20), (1, 10), (10, 37))
    ),
    *(
        Row("efficient_attention", f"blocks of {block}", lambda f, q, k, v, b=block: f(q, k, v, b, True),
            lambda q, k, v: attend(q, k, v, is_causal=True), windowed)
        for block in (1, 7)
    ),
    Row("efficient_attention", "fewer queries than keys", lambda f, q, k, v: f(q[:, :, -9:], k, v, 7, True),
        lambda q, k, v: attend(q, k, v, is_causal=True)[:, :, -9:], windowed),
    Row("efficient_attention", "not causal", lambda f, q, k, v: f(q, k, v, 7), attend, windowed),
    *(
        Row("windowed_attention", f"window {window}", lambda f, q, k, v, w=window: f(q, k, v, w),
            lambda q, k, v, w=window: attend(q, k, v, attn_mask=window_mask(w)), windowed)
        for window in (1, 5, 100)
    ),
    *(
        Row("chunked_cross_entropy", f"chunks of {chunk}", lambda f, x, w, y, c=chunk: f(x, w, y, c),
            F.linear_cross_entropy, linear_loss_inputs)
        for chunk in (1, 7)
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: f"{row.exercise}: {row.where}")
def test_an_exercise_gives_the_values_and_gradients_of_the_published_function(ours, row):
    inputs = row.inputs()
    got, expected = row.ours(getattr(ours, row.exercise), *inputs), row.published(*inputs)
    leaves = [x for x in inputs if x.requires_grad]
    agree(got, expected, *leaves, tol=row.tol) if leaves else same(got, expected, row.tol)


@dataclass(frozen=True)
class Layer:
    exercise: str
    published: Callable[[], nn.Module]
    arguments: tuple = (D,)
    names: dict[str, str] | None = None  # our parameter -> theirs; without it the names are equal


def feed_forward(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(D, 4 * D), activation, nn.Linear(4 * D, D))


IN_A_ROW = {"up.weight": "0.weight", "up.bias": "0.bias", "down.weight": "2.weight", "down.bias": "2.bias"}
LAYERS = {
    "LayerNorm: torch's": Layer("LayerNorm", lambda: nn.LayerNorm(D)),
    "LayerNorm: a large eps": Layer("LayerNorm", lambda: nn.LayerNorm(D, eps=1e-2), (D, 1e-2)),
    "RMSNorm: torch's": Layer("RMSNorm", lambda: nn.RMSNorm(D, eps=1e-6)),
    "RMSNorm: a large eps": Layer("RMSNorm", lambda: nn.RMSNorm(D, eps=1e-2), (D, 1e-2)),
    "RMSNorm: Llama's": Layer("RMSNorm", lambda: LlamaRMSNorm(D)),
    "FeedForward: gelu": Layer("FeedForward", lambda: feed_forward(nn.GELU()), (D,), IN_A_ROW),
    "FeedForward: tanh": Layer("FeedForward", lambda: feed_forward(nn.GELU("tanh")), (D, None, "gelu_tanh"), IN_A_ROW),
    "FeedForward: relu": Layer("FeedForward", lambda: feed_forward(nn.ReLU()), (D, None, "relu"), IN_A_ROW),
    "SwiGLU": Layer(
        "SwiGLU", lambda: LlamaMLP(LlamaConfig(hidden_size=D, intermediate_size=11, num_attention_heads=1)), (D, 11),
        {f"{name}.weight": f"{name}_proj.weight" for name in ("gate", "up", "down")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype, tol", PRECISIONS, ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_gives_the_values_and_gradients_of_the_published_one(ours, layer, dtype, tol):
    row = LAYERS[layer]
    if layer == "RMSNorm: Llama's" and dtype == torch.float64:
        pytest.skip("it computes in float32")
    mine, theirs = randomised(getattr(ours, row.exercise)(*row.arguments), dtype=dtype), row.published().to(dtype)
    own, other = dict(mine.named_parameters()), dict(theirs.named_parameters())
    names = row.names or {name: name for name in own}
    assert {names[name] for name in own} == set(other)
    x = normal(B, T, D, dtype=dtype, scale=2.0, mean=3.0)
    pairs = copied([([own[name]], other[names[name]]) for name in own])
    agree(mine(x), theirs(x), x, pairs=pairs, tol=tol)


def test_collate_is_torchs_padding(ours):
    pairs = [(torch.randint(0, 9, (n,)).tolist(), torch.randint(0, 9, (n,)).tolist()) for n in (3, 6, 1, 5)]
    inputs, targets = ours.collate(pairs, pad_id=7)
    pad = nn.utils.rnn.pad_sequence
    assert torch.equal(inputs, pad([torch.tensor(x) for x, _ in pairs], batch_first=True, padding_value=7))
    assert torch.equal(targets, pad([torch.tensor(y) for _, y in pairs], batch_first=True, padding_value=-100))


# ---- sampling: exactly what Hugging Face's warpers leave


def clear_of_sums(logits: Tensor, p: float) -> float:
    """p or a little more, away from every running sum, where rounding decides and both answers would be right."""
    sums = torch.softmax(logits.double(), -1).sort(dim=-1, descending=True).values.cumsum(-1)
    return next(q for q in (p + 0.00037 * i for i in range(2000)) if (sums - q).abs().min() > 1e-5)


def impossible_tokens() -> Tensor:
    logits = torch.where(torch.rand(6, 20) < 0.4, -torch.inf, torch.randn(6, 20))
    return logits.index_fill(1, torch.tensor([3]), 0.7)


LOGITS = {
    "words": lambda: torch.randn(7, 31) * 3,
    "hesitant": lambda: torch.randn(5, 400) * 0.3,
    "sure": lambda: torch.randn(5, 13) * 30,
    "one token": lambda: torch.randn(3, 1),
    "impossible tokens": impossible_tokens,
    "a thousand words": lambda: torch.randn(2, 1000) * 2.5,
    "far from zero": lambda: torch.stack([torch.randperm(300)[:17] for _ in range(4)]) / 64 - 300,
}


@pytest.mark.parametrize("kind", LOGITS)
def test_filters_are_hugging_faces_with_ties_too(ours, kind):
    logits = LOGITS[kind]()
    for temperature in (0.2, 0.7, 1.0, 1.9, 10.0):
        warped = warpers.TemperatureLogitsWarper(temperature)(None, logits)
        assert torch.equal(ours.apply_temperature(logits, temperature), warped)
    for scores in (logits, logits.round(), torch.zeros_like(logits)):
        for k in (1, 2, 5, scores.size(-1), 10**6):
            assert torch.equal(ours.top_k_filter(scores, k), warpers.TopKLogitsWarper(k)(None, scores))
        for min_p in (0.0, 0.02, 0.1, 0.37, 0.9, 1.0):
            assert torch.equal(ours.min_p_filter(scores, min_p), warpers.MinPLogitsWarper(min_p)(None, scores))
    for p in (0.01, 0.3, 0.5, 0.9, 0.95):
        p = clear_of_sums(logits, p)
        assert torch.equal(ours.top_p_filter(logits, p), warpers.TopPLogitsWarper(p)(None, logits))


# ---- caches and codes


@pytest.mark.parametrize("kv_heads", [1, 4, 12])
def test_bytes_are_those_of_hugging_faces_cache(ours, kv_heads):
    layers, cache = 3, DynamicCache()
    for layer in range(layers):
        keys = torch.zeros(B, kv_heads, T, D_HEAD, dtype=torch.bfloat16)
        cache.update(keys, keys.clone(), layer)
    size = sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values))
    assert ours.kv_cache_bytes(layers, kv_heads, D_HEAD, T, batch=B) == size
    assert ours.kv_cache_bytes(32, 32, 128, 2048) == 2**30  # Llama 2 7B


def test_codes_are_those_of_torchs_quantization(ours):
    weight = torch.randn(9, 14) * torch.logspace(-3, 2, 9)[:, None]
    codes, scale = ours.quantize_int8(weight)
    theirs = torch.quantize_per_channel(weight, scale.double(), torch.zeros(9, dtype=torch.long), 0, torch.qint8)
    assert torch.equal(theirs.int_repr(), codes)
    layer, x = nn.Linear(14, 9), torch.randn(5, 14)
    with torch.no_grad():
        layer.weight.copy_(weight)
        same(ours.QuantizedLinear(layer)(x), F.linear(x, theirs.dequantize(), layer.bias), 1e-5)


def test_lse_is_the_one_that_torchs_flash_attention_returns(ours):
    q, k, v = (torch.randn(2, 3, 40, 6) for _ in range(3))
    output, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    got = ours.tiled_attention(q, k, v, 16)
    same(got[0], output, 1e-5)
    same(got[1], lse.reshape(got[1].shape), 1e-5)


def test_the_power_0_of_0_has_the_slope_0(ours):
    x = ours.Scalar(0.0)
    y = x**0 + x**1
    y.backward()
    assert (y.value, x.grad) == (1.0, 1.0)
