"""Chapter 6 of the reference against torch's own encoder and decoder layers, and against Hugging Face's GPT-2 block."""

from __future__ import annotations

import os

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn

B, H, T, S, D_HEAD, D_FF = 3, 4, 6, 7, 5, 13
D = H * D_HEAD


@pytest.fixture(scope="module")
def ch06():
    chapter = load_syllabus().chapter("ch06_blocks")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(17)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def randomised(module: nn.Module) -> nn.Module:
    """In double precision, every parameter random at a healthy scale, in train mode: without dropout the mode must not matter."""
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return module


def padding(width: int) -> Tensor:
    """(B, width), True at real keys: padding on the left, on the right, on both sides."""
    real = torch.ones(B, width, dtype=torch.bool)
    real[0, :2] = real[1, -3:] = real[2, :1] = real[2, -1:] = False
    return real


def causal(width: int) -> Tensor:
    return torch.ones(width, width, dtype=torch.bool).tril()


def poured(attention: nn.Module, into: nn.MultiheadAttention) -> list[tuple[list[Tensor], Tensor]]:
    """Our four maps in torch's fused layout; returns which of our parameters make up which of torch's."""
    separate = (attention.W_q, attention.W_k, attention.W_v)
    return [
        ([part.weight for part in separate], into.in_proj_weight),
        ([part.bias for part in separate], into.in_proj_bias),
        ([attention.W_out.weight], into.out_proj.weight),
        ([attention.W_out.bias], into.out_proj.bias),
    ]


def simple(ours: nn.Module, theirs: nn.Module) -> list[tuple[list[Tensor], Tensor]]:
    return [([ours.weight], theirs.weight), ([ours.bias], theirs.bias)]


def copied(pairs: list[tuple[list[Tensor], Tensor]]) -> list[tuple[list[Tensor], Tensor]]:
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(torch.cat(ours))
    return pairs


def torchs_encoder_layer(ours: nn.Module, activation: str, norm_first: bool) -> tuple[nn.Module, list]:
    theirs = nn.TransformerEncoderLayer(D, H, D_FF, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first).double()
    pairs = poured(ours.attn, theirs.self_attn) + simple(ours.ln1, theirs.norm1) + simple(ours.ln2, theirs.norm2)
    return theirs, copied(pairs + simple(ours.ffn.up, theirs.linear1) + simple(ours.ffn.down, theirs.linear2))


def torchs_decoder_layer(ours: nn.Module, norm_first: bool = False) -> tuple[nn.Module, list]:
    theirs = nn.TransformerDecoderLayer(D, H, D_FF, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first).double()
    pairs = poured(ours.self_attn, theirs.self_attn) + poured(ours.cross_attn, theirs.multihead_attn)
    for mine, torchs in ((ours.ln1, theirs.norm1), (ours.ln2, theirs.norm2), (ours.ln3, theirs.norm3), (ours.ffn.up, theirs.linear1), (ours.ffn.down, theirs.linear2)):
        pairs += simple(mine, torchs)
    return theirs, copied(pairs)


def same(got: Tensor, expected: Tensor, tol: float = 1e-9) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol)


def same_with_gradients(got: Tensor, expected: Tensor, pairs: list, *leaves: Tensor) -> None:
    """Values, the gradients of the inputs, and those of every parameter, in torch's layout."""
    same(got, expected)
    cotangent = torch.randn_like(expected)
    mine = [parameter for ours, _ in pairs for parameter in ours]
    ours = torch.autograd.grad(got, [*leaves, *mine], cotangent)
    theirs = torch.autograd.grad(expected, [*leaves, *(parameter for _, parameter in pairs)], cotangent)
    for one, other in zip(ours[: len(leaves)], theirs[: len(leaves)]):
        same(one, other)
    found = iter(ours[len(leaves) :])
    for (parts, _), gradient in zip(pairs, theirs[len(leaves) :], strict=True):
        assert gradient.any()
        same(torch.cat([next(found) for _ in parts]), gradient)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("kind, norm_first", [("PreNormBlock", True), ("PostNormBlock", False)])
def test_causal_blocks_are_torchs_encoder_layer_under_a_causal_mask(ch06, kind, norm_first, activation):
    """Torch's boolean masks are True where a key is *blocked*."""
    ours = randomised(getattr(ch06, kind)(D, H, D_FF, activation=activation))
    theirs, pairs = torchs_encoder_layer(ours, activation, norm_first)
    x = normal(B, T, D)
    same_with_gradients(ours(x), theirs(x, src_mask=~causal(T)), pairs, x)
    ours.eval(), theirs.eval()
    with torch.no_grad():  # torch may take its fused path here
        same(ours(x), theirs(x, src_mask=~causal(T), is_causal=True))


@pytest.mark.parametrize("kind, norm_first", [("PreNormBlock", True), ("PostNormBlock", False)])
def test_the_norm_orders_are_two_different_machines(ch06, kind, norm_first):
    ours = randomised(getattr(ch06, kind)(D, H, D_FF))
    theirs, _ = torchs_encoder_layer(ours, "gelu", not norm_first)
    x = normal(B, T, D)
    assert (ours(x) - theirs(x, src_mask=~causal(T))).abs().max() > 0.1


@pytest.mark.parametrize("masked", ["no mask", "padding", "one for all", "one a head", "both"])
def test_the_encoder_block_is_torchs(ch06, masked):
    ours = randomised(ch06.EncoderBlock(D, H, D_FF))
    theirs, pairs = torchs_encoder_layer(ours, "relu", norm_first=False)
    x, real = normal(B, S, D), padding(S)
    one, each = torch.rand(S, S) > 0.4, torch.rand(B, H, S, S) > 0.4
    one[:, 3] = each[..., 3] = True  # a real key for every query: without one torch's layer gives NaN, and ours does not
    mask, options = {
        "no mask": (None, {}),
        "padding": (real[:, None, None, :], {"src_key_padding_mask": ~real}),
        "one for all": (one, {"src_mask": ~one}),
        "one a head": (each, {"src_mask": ~each.flatten(0, 1)}),
        "both": (one & real[:, None, None, :], {"src_mask": ~one, "src_key_padding_mask": ~real}),
    }[masked]
    same_with_gradients(ours(x, mask), theirs(x, **options), pairs, x)


@pytest.mark.parametrize("causally", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_decoder_block_is_torchs(ch06, causally, padded):
    ours = randomised(ch06.DecoderBlock(D, H, D_FF))
    theirs, pairs = torchs_decoder_layer(ours)
    x, memory, real, target = normal(B, T, D), normal(B, S, D), padding(S), padding(T)
    target[:, 0] = True  # the first position attends to nothing else under a causal mask
    self_mask = causal(T) if causally else None
    options = {"tgt_mask": ~self_mask} if causally else {}
    if padded:
        self_mask = target[:, None, None, :] & (causal(T) if causally else torch.ones(T, T, dtype=torch.bool))
        options |= {"tgt_key_padding_mask": ~target, "memory_key_padding_mask": ~real}
    got = ours(x, memory, self_mask, real[:, None, None, :] if padded else None)
    same_with_gradients(got, theirs(x, memory, **options), pairs, x, memory)


def test_the_decoder_blocks_masks_a_head_are_torchs(ch06):
    ours = randomised(ch06.DecoderBlock(D, H, D_FF))
    theirs, pairs = torchs_decoder_layer(ours)
    x, memory = normal(B, T, D), normal(B, S, D)
    self_mask, memory_mask = torch.rand(B, H, T, T) > 0.4, torch.rand(B, H, T, S) > 0.4
    self_mask[..., 2] = memory_mask[..., 4] = True
    got = ours(x, memory, self_mask=self_mask, memory_mask=memory_mask)
    expected = theirs(x, memory, tgt_mask=~self_mask.flatten(0, 1), memory_mask=~memory_mask.flatten(0, 1))
    same_with_gradients(got, expected, pairs, x, memory)


def test_the_decoders_parts_in_pre_norm_order_are_torchs_too(ch06):
    ours = randomised(ch06.DecoderBlock(D, H, D_FF))
    theirs, pairs = torchs_decoder_layer(ours, norm_first=True)
    x, memory, real = normal(B, T, D), normal(B, S, D), padding(S)
    h = x + ours.self_attn(ours.ln1(x), mask=causal(T))
    h = h + ours.cross_attn(ours.ln2(h), context=memory, mask=real[:, None, None, :])
    got = h + ours.ffn(ours.ln3(h))
    same_with_gradients(got, theirs(x, memory, tgt_mask=~causal(T), memory_key_padding_mask=~real), pairs, x, memory)


def test_a_pre_norm_block_is_hugging_faces_gpt2_block(ch06):
    """With the tanh form of GELU. Conv1D stores its weights as (in, out), and c_attn has q, k, v side by side."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    config = transformers.GPT2Config(n_embd=D, n_head=H, n_inner=D_FF, n_positions=T, resid_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    assert config.activation_function == "gelu_new"
    theirs = randomised(GPT2Block(config, layer_idx=0))
    ours = ch06.PreNormBlock(D, H, D_FF, activation="gelu_tanh").double()
    conv = [(theirs.attn.c_proj, ours.attn.W_out), (theirs.mlp.c_fc, ours.ffn.up), (theirs.mlp.c_proj, ours.ffn.down)]
    found = {}
    for name, part in zip(("W_q", "W_k", "W_v"), (ours.attn.W_q, ours.attn.W_k, ours.attn.W_v)):
        i = ("W_q", "W_k", "W_v").index(name) * D
        found[part] = (theirs.attn.c_attn.weight[:, i : i + D].T, theirs.attn.c_attn.bias[i : i + D])
    found |= {mine: (hf.weight.T, hf.bias) for hf, mine in conv}
    found |= {ours.ln1: (theirs.ln_1.weight, theirs.ln_1.bias), ours.ln2: (theirs.ln_2.weight, theirs.ln_2.bias)}
    with torch.no_grad():
        for part, (weight, bias) in found.items():
            part.weight.copy_(weight), part.bias.copy_(bias)
    x = normal(B, T, D)
    past = torch.zeros(1, 1, T, T, dtype=torch.float64).masked_fill(~causal(T), torch.finfo(torch.float64).min)
    expected = theirs(x, attention_mask=past)
    expected = expected[0] if isinstance(expected, tuple) else expected
    got = ours(x)
    same(got, expected)
    cotangent = torch.randn_like(got)
    got.backward(cotangent)
    from_ours, x.grad = x.grad, None
    expected.backward(cotangent)
    same(from_ours, x.grad)
    same(torch.cat([part.weight.grad for part in (ours.attn.W_q, ours.attn.W_k, ours.attn.W_v)]), theirs.attn.c_attn.weight.grad.T)
    for hf, mine in conv:
        same(mine.weight.grad, hf.weight.grad.T)
        same(mine.bias.grad, hf.bias.grad)
    for hf, mine in ((theirs.ln_1, ours.ln1), (theirs.ln_2, ours.ln2)):
        same(mine.weight.grad, hf.weight.grad)
        same(mine.bias.grad, hf.bias.grad)
