"""Exercises that have a published counterpart: the same values and gradients as torch's or Hugging Face's functions.

Each row of the tables is an exercise, our call of it, the published call, and what makes their inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from agreement import agree, copied, normal, padding, randomised, same, some
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, LlamaConfig, get_cosine_schedule_with_warmup
from transformers.activations import ACT2FN
from transformers.generation import logits_process as warpers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

B, H, T, S, D_HEAD, V = 3, 4, 6, 7, 8, 11
D = H * D_HEAD
PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
PLACES = torch.tensor([5, 2, 9, 0, 31, 1000])


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


def square() -> list[Tensor]:
    return [normal(B, H, T, D_HEAD), normal(B, H, T, D_HEAD), normal(B, H, T, 3)]


def hidden_rows() -> Tensor:
    """A mask in which one query, and one whole text, may attend to nothing."""
    mask = some(B, 1, T, S)
    mask[0, :, 2], mask[1] = False, False
    return mask


def halves(x: Tensor) -> Tensor:
    """Our order of features in Llama's: the first members of all pairs, then the second ones."""
    return torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)


def llamas_angles(d_head: int, base: float, positions: Tensor, dtype: torch.dtype = torch.float32):
    parameters = {"rope_type": "default", "rope_theta": base}
    config = LlamaConfig(hidden_size=H * d_head, num_attention_heads=H, rope_parameters=parameters)
    return LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=dtype), positions[None])


def llamas_rotation(x: Tensor, base: float) -> Tensor:
    return apply_rotary_pos_emb(halves(x), halves(x), *llamas_angles(D_HEAD, base, PLACES))[0]


def complex_rotation(x: Tensor) -> Tensor:
    frequencies = 10000.0 ** (-torch.arange(0, D_HEAD, 2, dtype=torch.float64) / D_HEAD)
    turns = torch.polar(torch.ones(T, D_HEAD // 2, dtype=torch.float64), PLACES[:, None] * frequencies)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)


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


def torchs_cosine_with_a_floor() -> Tensor:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler, rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30, eta_min=0.04), []
    for _ in range(31):
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
exponents = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
FUNCTIONS = [
    *(
        Row("softmax", f"dim {dim}, scores {scale:g} times as large", lambda f, x, dim=dim, s=scale: f(x * s, dim),
            lambda x, dim=dim, s=scale: torch.softmax(x * s, dim), lambda: [normal(3, 4, 5)])
        for dim in (-1, 0, 1) for scale in (1.0, 1e3)
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
    Row("causal_mask", "in torch's attention", lambda f, q, k, v: attend(q, k, v, attn_mask=f(T)),
        lambda q, k, v: attend(q, k, v, is_causal=True), square),
    Row("causal_mask", "fewer queries than keys", lambda f, q, k, v: attend(q[:, :, -2:], k, v, attn_mask=f(2, T)),
        lambda q, k, v: attend(q, k, v, is_causal=True)[:, :, -2:], square),
    Row("padding_mask", "against the ids", lambda f, ids: f(ids, 9), lambda ids: (ids != 9)[:, None, None, :],
        lambda: [torch.where(padding(B, S), 5, 9)]),
    *(
        Row("apply_rope", f"Llama's, base {base:g}", lambda f, x, base=base: halves(f(x, PLACES, base)),
            lambda x, base=base: llamas_rotation(x, base), lambda: [normal(B, H, T, D_HEAD, dtype=torch.float32)], 1e-5)
        for base in (10_000.0, 500_000.0)
    ),
    Row("apply_rope", "a product of complex numbers", lambda f, x: f(x, PLACES), complex_rotation,
        lambda: [normal(B, H, T, D_HEAD)], 1e-3),
    Row("apply_rope", "turned back", lambda f, x: f(f(x, PLACES), -PLACES), lambda x: x,
        lambda: [normal(B, H, T, D_HEAD)], 1e-6),
    *(
        Row("rope_angles", f"Llama's, {d_head} features",
            lambda f, d=d_head: torch.stack([f(PLACES, d).cos(), f(PLACES, d).sin()]),
            lambda d=d_head: torch.stack(llamas_angles(d, 10_000.0, PLACES))[:, 0, :, : d // 2], lambda: [], 2e-3)
        for d_head in (2, 6, 64, 128)
    ),
    *(
        Row("alibi_bias", f"BLOOM's, {heads} heads", lambda f, h=heads: our_alibi_weights(f(h, 20, 20)),
            lambda h=heads: blooms_weights(h), lambda: [], 1e-5)
        for heads in (1, 2, 3, 5, 6, 8, 12, 16, 20, 71, 112)
    ),
    Row("alibi_slopes", "the paper's for 16 heads", lambda f: f(16),
        lambda: torch.tensor([2.0 ** (-h / 2) for h in range(1, 17)]), lambda: [], 1e-6),
    *(
        Row("gelu", f"torch's, {form}", lambda f, x, a=form == "tanh": f(x, approximate=a),
            lambda x, form=form: F.gelu(x, approximate=form),
            lambda dtype=dtype: [normal(B, T, D, dtype=dtype, scale=2.0)], tol)
        for form in ("none", "tanh") for dtype, tol in PRECISIONS
    ),
    Row("gelu", "along the line", lambda f, x: f(x), F.gelu, lambda: [exponents]),
    Row("gelu", "the tanh form is GPT-2's", lambda f, x: f(x, approximate=True), ACT2FN["gelu_new"],
        lambda: [exponents]),
    *(
        Row("dropout", f"p = {p}, training = {training}", lambda f, x, p=p, t=training: f(x, p, t),
            lambda x, p=p, t=training: F.dropout(x, p, t), lambda: [normal(B, T, D)])
        for p, training in ((0.0, True), (1.0, True), (0.5, False), (1.0, False))
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
    Row("warmup_cosine", "torch's, with a floor",
        lambda f: torch.tensor([f(i, 0, 30, 0.3, 0.04) for i in range(31)], dtype=torch.float64),
        torchs_cosine_with_a_floor, lambda: []),
    *(
        Row("efficient_attention", f"blocks of {block}", lambda f, q, k, v, b=block: f(q, k, v, b, True),
            lambda q, k, v: attend(q, k, v, is_causal=True), windowed)
        for block in (1, 7, 64)
    ),
    Row("efficient_attention", "fewer queries than keys", lambda f, q, k, v: f(q[:, :, -9:], k, v, 7, True),
        lambda q, k, v: attend(q, k, v, is_causal=True)[:, :, -9:], windowed),
    Row("efficient_attention", "not causal", lambda f, q, k, v: f(q, k, v, 7), attend, windowed),
    *(
        Row("windowed_attention", f"window {window}", lambda f, q, k, v, w=window: f(q, k, v, w),
            lambda q, k, v, w=window: attend(q, k, v, attn_mask=window_mask(w)), windowed)
        for window in (1, 5, 37, 100)
    ),
    *(
        Row("chunked_cross_entropy", f"chunks of {chunk}", lambda f, x, w, y, c=chunk: f(x, w, y, c),
            F.linear_cross_entropy, linear_loss_inputs)
        for chunk in (1, 7, 64)
    ),
    *(
        Row("sinusoidal_positions", f"the formula for {length} x {d}", lambda f, n=length, d=d: f(n, d).double(),
            lambda n=length, d=d: formula(n, d), lambda: [], tol)
        for length, d, tol in ((1, 1, 1e-6), (16, 7, 2e-6), (64, 512, 1e-5), (2048, 33, 4e-4))
    ),
]  # fmt: skip


def formula(length: int, d_model: int) -> Tensor:
    """Sines and cosines in double precision; a float32 angle of 2,048 radians is exact to about 1e-4."""
    columns = torch.arange(d_model, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10_000) * (columns - columns % 2) / d_model)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    return torch.where(columns % 2 > 0, angles.cos(), angles.sin())


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: f"{row.exercise}: {row.where}")
def test_an_exercise_gives_the_values_and_gradients_of_the_published_function(ours, row):
    inputs = row.inputs()
    got, expected = row.ours(getattr(ours, row.exercise), *inputs), row.published(*inputs)
    agree_or_same(got, expected, [x for x in inputs if x.requires_grad], row.tol)


def agree_or_same(got: Tensor, expected: Tensor, leaves: list[Tensor], tol: float) -> None:
    if leaves:
        agree(got, expected, *leaves, tol=tol)
    elif got.dtype == torch.bool:
        assert torch.equal(got, expected)
    else:
        same(got, expected, tol)


@dataclass(frozen=True)
class Layer:
    exercise: str
    published: Callable[[], nn.Module]
    arguments: tuple = (D,)
    names: dict[str, str] | None = None  # our parameter -> theirs; without it the names are equal


class SiluGate(nn.Module):
    """SwiGLU in torch's own words."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(D, 11, False), nn.Linear(D, 11, False), nn.Linear(11, D, False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


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
    "SwiGLU: torch's": Layer("SwiGLU", SiluGate, (D, 11)),
    "SwiGLU: Llama's": Layer(
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


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 0.0])
def test_norms_of_vectors_near_zero_are_torchs(ours, scale):
    x = normal(B, T, D, scale=scale)
    agree(ours.LayerNorm(D).double()(x), F.layer_norm(x, (D,)), x, tol=1e-8)
    agree(ours.RMSNorm(D).double()(x), F.rms_norm(x, (D,), eps=1e-6), x, tol=1e-8)


def test_norms_far_from_zero_are_no_worse_than_torchs(ours):
    x = torch.randn(200, 16) + 1000
    exact = F.layer_norm(x.double(), (16,))
    assert (ours.LayerNorm(16)(x) - exact).abs().max() <= 2 * (F.layer_norm(x, (16,)) - exact).abs().max() + 1e-6
    large = (torch.randn(B, T, D).sign() * 300 + torch.randn(B, T, D)).half()
    torch.testing.assert_close(ours.LayerNorm(D)(large), F.layer_norm(large, (D,)), rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(ours.RMSNorm(D)(large), F.rms_norm(large, (D,), eps=1e-6), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_has_torchs_statistics(ours, p):
    x = torch.linspace(1, 2, 200_000, dtype=torch.float64).requires_grad_()
    for drop in (ours.dropout, F.dropout):
        result = drop(x, p, training=True)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        survived = result != 0
        assert abs(survived.double().mean().item() - (1 - p)) < 0.01
        same(result[survived], (x / (1 - p))[survived])
        same(gradient, survived.double() / (1 - p))


def test_rope_in_bfloat16_is_rounded_once(ours):
    """Llama's own code rounds sines and cosines to bfloat16 first, and so is less accurate than ours."""
    positions, x = torch.arange(900, 1100), torch.randn(200, 64).bfloat16()
    exact, got = ours.apply_rope(x.double(), positions), ours.apply_rope(x, positions)
    cos, sin = llamas_angles(64, 10_000.0, positions, torch.bfloat16)
    theirs, _ = apply_rotary_pos_emb(halves(x)[None, None], halves(x)[None, None], cos, sin)
    assert got.dtype == torch.bfloat16
    assert (got != exact.bfloat16()).float().mean() < 0.02
    assert (got - exact).square().mean() < (theirs[0, 0] - halves(exact)).square().mean()


@pytest.mark.parametrize("scale", [False, True])
def test_embeddings_are_torchs(ours, scale):
    ids, x = torch.tensor([[3, 10, 0, 3], [3, 7, 7, 1]]), normal(2, 4, 6, dtype=torch.float32)
    token, table = ours.TokenEmbedding(11, 6, scale), nn.Embedding(11, 6)
    table.load_state_dict(token.state_dict())
    factor = math.sqrt(6) if scale else 1.0
    agree(token(ids), table(ids) * factor, pairs=[([token.weight], table.weight)], tol=1e-6)
    positions = ours.LearnedPositions(11, 6)
    table.load_state_dict(positions.state_dict())
    for start in (0, 5):
        expected = x + table(torch.arange(start, start + 4))
        agree(positions(x, start=start), expected, x, pairs=[([positions.weight], table.weight)], tol=1e-6)


def test_sinusoidal_positions_at_a_distance_are_one_rotation(ours):
    """A matrix that depends only on the distance maps each row to the row k positions later."""
    table = ours.sinusoidal_positions(200, 16).double()
    for k in (1, 17, 90):
        angles = [k * 10000 ** (-2 * i / 16) for i in range(8)]
        blocks = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]).double() for a in angles]
        same(table[:-k] @ torch.block_diag(*blocks).T, table[k:], 5e-5)


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


@pytest.mark.parametrize("p", [0.05, 0.5, 0.75, 0.9, 0.999])
def test_with_ties_the_nucleus_is_as_large_as_hugging_faces(ours, p):
    scores = torch.randint(0, 4, (50, 11)).float()
    q = clear_of_sums(scores, p)
    got, theirs = ours.top_p_filter(scores, q), warpers.TopPLogitsWarper(q)(None, scores)
    assert torch.equal(got.sort(dim=-1).values, theirs.sort(dim=-1).values)


@pytest.mark.parametrize("p", [0.1, 0.4, 0.7, 0.95, 0.9999, 1.0])
def test_the_nucleus_is_the_smallest_set_found_by_trying_all(ours, p):
    """For seven tokens all 127 sets are tried: the smallest that reaches p, and of those the likeliest, stays."""
    logits = normal(7, scale=2.0).detach()
    chances = torch.softmax(logits, -1).tolist()
    sets = [[i for i in range(7) if code >> i & 1] for code in range(1, 128)]
    reach = [s for s in sets if sum(chances[i] for i in s) >= min(p, 1 - 1e-12)]
    best = min(reach, key=lambda s: (len(s), -sum(chances[i] for i in s)))
    assert (ours.top_p_filter(logits, p) > -torch.inf).nonzero().flatten().tolist() == best


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("temperature, k, p", [(1.0, None, None), (0.6, None, None), (2.0, 4, None), (1.5, 5, 0.8)])
def test_hundreds_of_thousands_of_draws(ours, dtype, temperature, k, p):
    """Chernoff: a token of probability q is drawn a share f of n times, with n KL(f, q) > 20, in less than
    2 exp(-20) of all runs.

    About 100 tokens are compared here: the test is wrong in fewer than one of two million runs.
    """
    logits = (torch.randn(8) * 1.5).to(dtype)
    n = 300_000 if dtype in (torch.float32, torch.float64) else 30_000  # half precision adds its own rounding
    left = ours.top_k_filter(logits.double() / temperature, k or 8)
    p = None if p is None else clear_of_sums(left, p)
    chances = torch.softmax(left if p is None else ours.top_p_filter(left, p), -1)
    ids = ours.sample_next_token(logits.expand(n, 8), temperature, k, p, torch.Generator().manual_seed(1))
    shares = torch.bincount(ids, minlength=8).double() / n
    assert not shares[chances == 0].any()
    xlogy = torch.special.xlogy
    strays = xlogy(shares, shares / chances) + xlogy(1 - shares, (1 - shares) / (1 - chances))
    assert n * strays[chances > 0].max() < 20


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


# ---- far from zero, where most correct code overflows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("approximate", [False, True])
def test_far_from_zero_the_slope_of_gelu_is_0_or_1(ours, approximate, dtype):
    far = torch.tensor([100.0, 1e20, torch.finfo(dtype).max, math.inf], dtype=dtype)
    slope = ours.gelu_backward(torch.cat([far, -far]), torch.ones(8, dtype=dtype), approximate)
    assert slope.tolist() == [1.0] * 4 + [0.0] * 4


def test_the_power_0_of_0_has_the_slope_0(ours):
    x = ours.Scalar(0.0)
    y = x**0 + x**1
    y.backward()
    assert (y.value, x.grad) == (1.0, 1.0)
