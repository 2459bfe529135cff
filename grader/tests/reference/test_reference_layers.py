"""Chapter 5 of the reference against torch's own layers and Hugging Face's Llama: the same numbers, the same gradients."""

from __future__ import annotations

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F

B, T, D, D_FF = 3, 5, 8, 11
PRECISIONS = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}
dtypes = pytest.mark.parametrize("dtype", PRECISIONS, ids=lambda dtype: str(dtype).removeprefix("torch."))


@pytest.fixture(scope="module")
def ch05():
    chapter = load_syllabus().chapter("ch05_layers")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(5)


def normal(*shape: int, dtype: torch.dtype = torch.float64, scale: float = 2.0, mean: float = 0.0) -> Tensor:
    return (torch.randn(*shape) * scale + mean).to(dtype).requires_grad_(True)


def same(got: Tensor, expected: Tensor) -> None:
    assert got.dtype == expected.dtype
    tol = PRECISIONS[got.dtype]
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol * max(1.0, float(expected.detach().abs().max())))


def same_gradients(got: Tensor, expected: Tensor, *pairs: tuple[Tensor, Tensor]) -> None:
    """Both have the same gradients; `pairs` are the leaves that ours and theirs were computed from."""
    cotangent = torch.randn_like(expected)
    ours = torch.autograd.grad(got, [mine for mine, _ in pairs], cotangent)
    theirs = torch.autograd.grad(expected, [other for _, other in pairs], cotangent)
    for mine, other in zip(ours, theirs):
        same(mine, other)


def shared(ours: nn.Module, theirs: nn.Module, names: dict[str, str], dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    """Both modules with the same random parameters (`names` gives the other module's names), in pairs."""
    own = dict(ours.to(dtype).named_parameters())
    other = dict(theirs.to(dtype).named_parameters())
    assert {names[name] for name in own} == set(other)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
            other[names[name]].copy_(parameter)
    return [(own[name], other[names[name]]) for name in own]


# ---- activations


@dtypes
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_is_torchs(ch05, dtype, approximate):
    x = normal(B, T, D, dtype=dtype)
    got, expected = ch05.gelu(x, approximate=approximate), F.gelu(x, approximate="tanh" if approximate else "none")
    same(got, expected)
    same_gradients(got, expected, (x, x))


def test_gelu_is_torchs_all_along_the_line(ch05):
    x = torch.linspace(-9, 9, 20001, dtype=torch.float64)
    same(ch05.gelu(x), F.gelu(x))
    same(ch05.gelu(x, approximate=True), F.gelu(x, approximate="tanh"))


def test_the_tanh_form_is_the_one_of_gpt2(ch05):
    from transformers.activations import ACT2FN

    x = normal(B, T, D)
    same(ch05.gelu(x, approximate=True), ACT2FN["gelu_new"](x))
    same(ch05.gelu(x), ACT2FN["gelu"](x))


# ---- dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_has_torchs_statistics(ch05, p):
    x = torch.linspace(1, 2, 200_000, dtype=torch.float64).requires_grad_(True)
    for drop in (ch05.dropout, F.dropout):
        result = drop(x, p, training=True)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        survived = result != 0
        assert abs(survived.double().mean().item() - (1 - p)) < 0.01
        assert abs(result.mean().item() - 1.5) < 0.03
        same(result[survived], (x / (1 - p))[survived])
        same(gradient, survived.double() / (1 - p))


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (1.0, True), (0.5, False), (1.0, False)])
def test_dropout_with_probability_0_is_torchs(ch05, p, training):
    x = normal(B, T, D)
    got, expected = ch05.dropout(x, p, training), F.dropout(x, p, training)
    same(got, expected)
    same_gradients(got, expected, (x, x))


# ---- norms


@dtypes
@pytest.mark.parametrize("eps", [None, 1e-5, 1e-2])
def test_layer_norm_is_torchs(ch05, dtype, eps):
    options = {} if eps is None else {"eps": eps}
    ours, theirs = ch05.LayerNorm(D, **options), nn.LayerNorm(D, **options)
    pairs = shared(ours, theirs, {"weight": "weight", "bias": "bias"}, dtype)
    x = normal(B, T, D, dtype=dtype, mean=3.0)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)


@dtypes
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_rms_norm_is_torchs(ch05, dtype, eps):
    ours, theirs = ch05.RMSNorm(D, eps=eps), nn.RMSNorm(D, eps=eps)
    pairs = shared(ours, theirs, {"weight": "weight"}, dtype)
    x = normal(B, T, D, dtype=dtype, mean=1.0)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_is_llamas(ch05, dtype):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    ours, theirs = ch05.RMSNorm(D), LlamaRMSNorm(D)
    assert ours.eps == theirs.variance_epsilon
    pairs = shared(ours, theirs, {"weight": "weight"}, dtype)
    x = normal(B, T, D, dtype=dtype, mean=1.0)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 0.0])
def test_norms_of_vectors_near_zero_are_torchs(ch05, scale):
    x = normal(B, T, D, scale=scale)
    for ours, theirs in ((ch05.LayerNorm(D), nn.LayerNorm(D)), (ch05.RMSNorm(D), nn.RMSNorm(D, eps=1e-6))):
        ours.double(), theirs.double()
        got, expected = ours(x), theirs(x)
        same(got, expected)
        same_gradients(got, expected, (x, x))


def test_norms_far_from_zero_are_no_worse_than_torchs(ch05):
    x = torch.randn(200, 16) + 1000
    exact = F.layer_norm(x.double(), (16,))
    torchs = (F.layer_norm(x, (16,)) - exact).abs().max()
    assert (ch05.LayerNorm(16)(x) - exact).abs().max() <= 2 * torchs + 1e-6


def test_norms_of_large_float16_numbers_are_torchs(ch05):
    x = (torch.randn(B, T, D).sign() * 300 + torch.randn(B, T, D)).half()
    for ours, expected in ((ch05.LayerNorm(D), F.layer_norm(x, (D,))), (ch05.RMSNorm(D), F.rms_norm(x, (D,), eps=1e-6))):
        torch.testing.assert_close(ours(x), expected, rtol=2e-3, atol=2e-3)


# ---- feed-forwards


@dtypes
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_feed_forward_is_torchs_layers_in_a_row(ch05, dtype, activation):
    bend = {"gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "relu": nn.ReLU()}[activation]
    ours, theirs = ch05.FeedForward(D, activation=activation), nn.Sequential(nn.Linear(D, 4 * D), bend, nn.Linear(4 * D, D))
    names = {"up.weight": "0.weight", "up.bias": "0.bias", "down.weight": "2.weight", "down.bias": "2.bias"}
    pairs = shared(ours, theirs, names, dtype)
    x = normal(B, T, D, dtype=dtype)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)


@dtypes
def test_feed_forward_is_that_of_hugging_faces_gpt2(ch05, dtype):
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP

    theirs = GPT2MLP(4 * D, GPT2Config(n_embd=D, resid_pdrop=0.0)).to(dtype)
    ours = ch05.FeedForward(D, activation="gelu_tanh").to(dtype)
    with torch.no_grad():
        for mine, conv in ((ours.up, theirs.c_fc), (ours.down, theirs.c_proj)):
            conv.weight.normal_(std=conv.weight.size(0) ** -0.5)
            conv.bias.normal_()
            mine.weight.copy_(conv.weight.T)
            mine.bias.copy_(conv.bias)
    x = normal(B, T, D, dtype=dtype)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), (ours.up.bias, theirs.c_fc.bias), (ours.down.bias, theirs.c_proj.bias))


@dtypes
def test_swiglu_is_silu_times_up(ch05, dtype):
    ours = ch05.SwiGLU(D, D_FF)
    pairs = shared(ours, ch05.SwiGLU(D, D_FF), {f"{name}.weight": f"{name}.weight" for name in ("gate", "up", "down")}, dtype)
    weights = {name: other for (name, _), (_, other) in zip(ours.named_parameters(), pairs)}
    x = normal(B, T, D, dtype=dtype)
    wide = F.silu(x @ weights["gate.weight"].T) * (x @ weights["up.weight"].T)
    got, expected = ours(x), wide @ weights["down.weight"].T
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)


@dtypes
def test_swiglu_is_llamas(ch05, dtype):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    ours, theirs = ch05.SwiGLU(D, D_FF), LlamaMLP(LlamaConfig(hidden_size=D, intermediate_size=D_FF, num_attention_heads=1))
    pairs = shared(ours, theirs, {f"{name}.weight": f"{name}_proj.weight" for name in ("gate", "up", "down")}, dtype)
    x = normal(B, T, D, dtype=dtype)
    got, expected = ours(x), theirs(x)
    same(got, expected)
    same_gradients(got, expected, (x, x), *pairs)
