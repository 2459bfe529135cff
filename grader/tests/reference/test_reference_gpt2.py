"""Chapter 7's GPT and load_gpt2 against Hugging Face's own GPT-2, with weights made at random: nothing is downloaded."""

from __future__ import annotations

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

SIZES = {
    "narrow": dict(vocab_size=23, n_positions=9, n_embd=12, n_head=3, n_layer=2),
    "one head": dict(vocab_size=31, n_positions=17, n_embd=10, n_head=1, n_layer=1),
    "another feed-forward width": dict(vocab_size=29, n_positions=11, n_embd=8, n_head=4, n_layer=3, n_inner=19),
    "deep": dict(vocab_size=101, n_positions=33, n_embd=48, n_head=6, n_layer=12),
}
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.fixture(scope="module")
def ch07():
    chapter = load_syllabus().chapter("ch07_models")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(7)


@torch.no_grad()
def randomised(model: nn.Module) -> nn.Module:
    """Healthy weights, in which attention is sharp and every bias and gain counts."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.size(0) ** -0.5)
        else:
            parameter.normal_(mean=0.3)
    return model


def hugging_face(size: str, kind: type = GPT2LMHeadModel, tied: bool = True, dtype: torch.dtype = torch.float64) -> nn.Module:
    config = GPT2Config(**SIZES[size], tie_word_embeddings=tied, attn_implementation="eager")
    return randomised(kind(config)).eval().to(dtype)


def ours(ch07, config: GPT2Config, dtype: torch.dtype = torch.float64, **others) -> nn.Module:
    sizes = dict(vocab_size=config.vocab_size, max_len=config.n_positions, d_model=config.n_embd, n_heads=config.n_head)
    sizes |= dict(n_layers=config.n_layer, d_ff=config.n_inner, activation="gelu_tanh")
    return randomised(ch07.GPT(ch07.GPTConfig(**sizes | others))).eval().to(dtype)


def ids_for(config: GPT2Config, rows: int = 3) -> Tensor:
    return torch.randint(config.vocab_size, (rows, config.n_positions))


def same(got: Tensor, expected: Tensor, tol: float = 1e-12) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol * float(expected.detach().abs().max()))


def shifted(labels: Tensor) -> Tensor:
    """Hugging Face moves labels by one itself; our targets are moved already, and nothing follows the last token."""
    return F.pad(labels[:, 1:], (0, 1), value=-100)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("size", SIZES)
def test_logits_and_loss_are_hugging_faces(ch07, size, tied, dtype):
    theirs = hugging_face(size, tied=tied, dtype=dtype)
    mine = ours(ch07, theirs.config, dtype, tie_weights=tied)
    assert torch.equal(theirs.lm_head.weight, theirs.transformer.wte.weight) == tied
    ch07.load_gpt2(mine, theirs.state_dict())
    ids = ids_for(theirs.config)
    labels = ids.clone()
    labels[0, -3:] = labels[1, 2] = -100
    expected = theirs(ids, labels=labels)
    logits, loss = mine(ids, shifted(labels))
    same(logits, expected.logits, DTYPES[dtype])
    same(loss.float(), expected.loss, 1e-6)  # theirs is computed in float32, whatever the model
    same(mine(ids[:, :4])[0], expected.logits[:, :4], DTYPES[dtype])


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_names_without_prefix_and_without_head(ch07, tied):
    """GPT2Model has no head and no prefix: an untied model's head is then wte."""
    theirs = hugging_face("narrow", GPT2Model)
    assert not any(name.startswith(("transformer.", "lm_head")) for name in theirs.state_dict())
    mine = ours(ch07, theirs.config, tie_weights=tied)
    ch07.load_gpt2(mine, theirs.state_dict())
    ids = ids_for(theirs.config)
    same(mine(ids)[0], theirs(ids).last_hidden_state @ theirs.wte.weight.T)


@pytest.mark.parametrize("size", SIZES)
def test_gradients_are_hugging_faces(ch07, size):
    theirs = hugging_face(size)
    mine = ours(ch07, theirs.config)
    ch07.load_gpt2(mine, theirs.state_dict())
    ids = ids_for(theirs.config)
    logits, expected = mine(ids)[0], theirs(ids).logits
    cotangent = torch.randn_like(logits)
    logits.backward(cotangent)
    expected.backward(cotangent)
    same(mine.token_emb.weight.grad, theirs.transformer.wte.weight.grad, 1e-10)
    same(mine.pos_emb.weight.grad, theirs.transformer.wpe.weight.grad, 1e-10)
    for block, h in zip(mine.blocks, theirs.transformer.h):
        attn = block.attn
        same(torch.cat([attn.W_q.weight.grad, attn.W_k.weight.grad, attn.W_v.weight.grad]), h.attn.c_attn.weight.grad.T, 1e-10)
        same(block.ffn.down.weight.grad, h.mlp.c_proj.weight.grad.T, 1e-10)
        same(block.ln1.weight.grad, h.ln_1.weight.grad, 1e-10)


def test_a_saved_state_dict_with_old_masks_and_in_half_precision(ch07):
    """The files that were once published contain masks (`attn.bias`, `attn.masked_bias`); a float32 model accepts half-precision numbers."""
    theirs = hugging_face("narrow", dtype=torch.float32)
    stored = {name: value.half() for name, value in theirs.state_dict().items()}
    for i in range(theirs.config.n_layer):
        stored[f"transformer.h.{i}.attn.bias"] = torch.ones(1, 1, 9, 9).tril()
        stored[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    mine = ours(ch07, theirs.config, torch.float32)
    ch07.load_gpt2(mine, stored)
    theirs.half().float()
    ids = ids_for(theirs.config)
    same(mine(ids)[0], theirs(ids).logits, 1e-5)


def test_training_goes_the_same_way(ch07):
    """Five steps of the same optimizer from the same weights: a copy that shared memory, or was tied wrongly, would drift."""
    theirs = hugging_face("narrow")
    mine = ours(ch07, theirs.config)
    ch07.load_gpt2(mine, theirs.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (theirs, mine)]
    for _ in range(5):
        ids = ids_for(theirs.config)
        losses = theirs(ids, labels=ids).loss, mine(ids, shifted(ids))[1]
        same(losses[1].float(), losses[0], 1e-5)
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert mine.lm_head.weight is mine.token_emb.weight
    same(mine.token_emb.weight, theirs.transformer.wte.weight, 1e-5)


def spoiled(kind: str, state: dict[str, Tensor]) -> tuple[dict[str, Tensor], str]:
    """A state dict that cannot be loaded, and what the error should name."""
    prefix = "transformer."
    if kind == "missing":
        del state[prefix + "h.1.mlp.c_fc.bias"]
        return state, "h.1.mlp.c_fc.bias"
    if kind == "last missing":
        del state[prefix + "ln_f.bias"]
        return state, "ln_f.bias"
    if kind == "stretched":
        state[prefix + "h.1.mlp.c_proj.bias"] = torch.ones(1)
        return state, "h.1.mlp.c_proj.bias"
    if kind == "already transposed":
        state[prefix + "h.1.mlp.c_fc.weight"] = state[prefix + "h.1.mlp.c_fc.weight"].T
        return state, "h.1.mlp.c_fc.weight"
    if kind == "more words":
        state[prefix + "wte.weight"] = torch.cat([state[prefix + "wte.weight"]] * 2)
        return state, "wte.weight"
    if kind == "more positions":
        state[prefix + "wpe.weight"] = torch.cat([state[prefix + "wpe.weight"]] * 2)
        return state, "wpe.weight"
    added = {name.replace("h.1.", "h.2."): value for name, value in state.items() if "h.1." in name}
    if kind == "more layers":
        return state | added, "3"
    assert kind == "fewer layers"
    return {name: value for name, value in state.items() if "h.1." not in name}, "1"


@pytest.mark.parametrize("kind", ["missing", "last missing", "stretched", "already transposed", "more words", "more positions", "more layers", "fewer layers"])
def test_what_does_not_fit_is_named_and_changes_nothing(ch07, kind):
    theirs = hugging_face("narrow")
    mine = ours(ch07, theirs.config)
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    state, named = spoiled(kind, dict(theirs.state_dict()))
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        ch07.load_gpt2(mine, state)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())


@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "alibi"])
def test_an_unknown_kind_of_positions_raises_an_error(ch07, positions):
    theirs = hugging_face("narrow")
    mine = ours(ch07, theirs.config, positions=positions)
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    with pytest.raises(ValueError, match=positions):
        ch07.load_gpt2(mine, theirs.state_dict())
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
