"""Chapter 9's generate against Hugging Face's own, on a GPT-2 with weights made at random, and translate against Marian and nn.Transformer."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

V, MAX_LEN, D, H, LAYERS = 41, 24, 24, 4, 2


@pytest.fixture(scope="module")
def course():
    """Chapters 7 and 9 of the reference, in one package."""
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch09_sampling"), whole=True), "tested")
    yield package.module("ch07_models"), package.module("ch09_sampling")
    package.close()


@pytest.fixture(autouse=True)
def _quiet():
    torch.manual_seed(11)
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(before)


@torch.no_grad()
def fluent(model: nn.Module, scale: float = 1.5) -> nn.Module:
    """Weights with which a greedy text varies: no bias favours one token for ever."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=scale / math.sqrt(D))
        else:
            parameter.fill_(float("ln" in name and name.endswith("weight")))
    return model


@pytest.fixture
def pair(course):
    """Hugging Face's GPT-2, and ours with its weights."""
    ch07, _ = course
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_layer=LAYERS, n_head=H, tie_word_embeddings=False, attn_implementation="eager"))
    theirs = fluent(theirs).double().eval()
    config = ch07.GPTConfig(V, MAX_LEN, D, H, LAYERS, tie_weights=False, activation="gelu_tanh", dropout=0.3)
    ours = ch07.GPT(config).double()
    ch07.load_gpt2(ours, theirs.state_dict())
    return theirs, ours


def hugging_face(model: nn.Module, ids: Tensor, new: int, eos_id: int | None = None, **options) -> Tensor:
    """Its `generate`, with each of its defaults that ours does not have turned off."""
    options = {"do_sample": False} | options
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, eos_token_id=eos_id, pad_token_id=eos_id or 0, **options)


# ---- generate


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (5, 9)], ids=str)
def test_greedy_text_is_hugging_faces(course, pair, shape):
    theirs, ours = pair
    ids = torch.randint(V, shape)
    text = course[1].generate(ours, ids, MAX_LEN - shape[1], temperature=0.0)
    assert torch.equal(text, hugging_face(theirs, ids, MAX_LEN - shape[1]))
    assert text[:, shape[1] :].unique().numel() > 4, "a text of one word proves nothing"
    assert all(module.training for module in ours.modules())


def test_finished_rows_are_hugging_faces(course, pair):
    """Every token that some row writes, used as the end of a text: rows finish early, late, together, and never."""
    theirs, ours = pair
    ids = torch.randint(V, (4, 5))
    free = course[1].generate(ours, ids, 14, temperature=0.0)[:, 5:]
    lengths, with_filling = set(), 0
    for eos_id in free.unique().tolist():
        if eos_id:  # Hugging Face also takes a pad_token_id; ours fills with eos_id, 0 or not
            text = course[1].generate(ours, ids, 14, eos_id=eos_id, temperature=0.0)
            assert torch.equal(text, hugging_face(theirs, ids, 14, eos_id)), f"eos_id = {eos_id}"
            lengths.add(text.size(1))
            with_filling += bool((text[:, 5:-1] == eos_id).any())
    assert with_filling > 2


def test_a_batch_that_ends_early_ends_where_hugging_face_ends(course, pair):
    theirs, ours = pair
    ids, ended = torch.randint(V, (12, 3)), 0
    for row in ids.split(1):
        free = course[1].generate(ours, row, 16, temperature=0.0)[0, 3:].tolist()
        for place, eos_id in enumerate(free):
            if free.index(eos_id) == place > 2 and eos_id:
                text = course[1].generate(ours, row, 16, eos_id=eos_id, temperature=0.0)
                assert torch.equal(text, hugging_face(theirs, row, 16, eos_id))
                assert text.size(1) == 3 + place + 1
                ended += 1
    assert ended > 10


def test_eos_in_the_prompt_finishes_nothing_there_either(course, pair):
    theirs, ours = pair
    ids = torch.randint(V, (3, 6))
    ids[0, 2] = ids[1, -1] = ids[2, 0] = 7
    assert torch.equal(course[1].generate(ours, ids, 9, eos_id=7, temperature=0.0), hugging_face(theirs, ids, 9, 7))


SAMPLED = [{}, {"temperature": 0.6}, {"temperature": 1.7}, {"top_k": 5}, {"top_p": 0.8}, {"temperature": 0.8, "top_k": 9, "top_p": 0.7}]


@pytest.mark.parametrize("options", SAMPLED, ids=str)
def test_sampled_text_is_hugging_faces(course, pair, options):
    """Both draw with torch.multinomial from (B, V) probabilities, row by row and step by step: the same random numbers give the same text."""
    theirs, ours = pair
    ids = torch.randint(V, (4, 5))
    torch.manual_seed(23)
    expected = hugging_face(theirs, ids, 15, do_sample=True, **{"top_k": 0} | options)
    torch.manual_seed(23)
    text = course[1].generate(ours, ids, 15, **options)
    assert torch.equal(text, expected)
    generators = [torch.Generator().manual_seed(23) for _ in range(2)]
    again = [course[1].generate(ours, ids, 15, generator=generator, **options) for generator in generators]
    assert torch.equal(again[0], again[1])
    assert torch.equal(again[0], text)


def test_sampled_rows_finish_as_hugging_faces(course, pair):
    theirs, ours = pair
    ids = torch.randint(V, (6, 4))
    for eos_id in range(1, 12):
        torch.manual_seed(eos_id)
        expected = hugging_face(theirs, ids, 18, eos_id, do_sample=True, top_k=8)
        torch.manual_seed(eos_id)
        assert torch.equal(course[1].generate(ours, ids, 18, eos_id=eos_id, top_k=8), expected), f"eos_id = {eos_id}"


def test_past_the_table_the_last_tokens_are_used(course, pair):
    """Hugging Face's GPT-2 refuses a text longer than its table; given the last MAX_LEN tokens of our text, it agrees with each choice."""
    theirs, ours = pair
    text = course[1].generate(ours, torch.randint(V, (3, MAX_LEN - 2)), 9, temperature=0.0)
    for end in range(MAX_LEN, text.size(1)):
        assert torch.equal(theirs(text[:, end - MAX_LEN : end]).logits[:, -1].argmax(-1), text[:, end])


# ---- translate

S, W, SOS, PAD = 7, 37, 1, 3


def sources() -> Tensor:
    src = torch.randint(V - 1, (6, S))
    src += src >= PAD
    for row in range(1, 6):
        src[row, S - row :] = PAD
    return src


@torch.no_grad()
def torchs(model: nn.Module) -> nn.Transformer:
    """nn.Transformer with the weights of our Seq2Seq."""
    theirs = nn.Transformer(D, H, 2, 2, 29, dropout=0.0, activation="relu", batch_first=True).double()
    theirs.encoder.norm = theirs.decoder.norm = None

    def linear(target: nn.Module, source: nn.Module) -> None:
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)

    def attention(target: nn.MultiheadAttention, source: nn.Module) -> None:
        target.in_proj_weight.copy_(torch.cat([source.W_q.weight, source.W_k.weight, source.W_v.weight]))
        target.in_proj_bias.copy_(torch.cat([source.W_q.bias, source.W_k.bias, source.W_v.bias]))
        linear(target.out_proj, source.W_out)

    for layer, block in [*zip(theirs.encoder.layers, model.encoder_blocks), *zip(theirs.decoder.layers, model.decoder_blocks)]:
        attention(layer.self_attn, block.attn if hasattr(block, "attn") else block.self_attn)
        if hasattr(layer, "multihead_attn"):
            attention(layer.multihead_attn, block.cross_attn)
            linear(layer.norm3, block.ln3)
        for name, ours in (("linear1", block.ffn.up), ("linear2", block.ffn.down), ("norm1", block.ln1), ("norm2", block.ln2)):
            linear(getattr(layer, name), ours)
    return theirs.eval()


@torch.no_grad()
def slowly(model: nn.Module, theirs: nn.Transformer, source: Tensor, eos_id: int, new: int) -> list[int]:
    """One sentence without its padding, encoded again for each word by torch's own layers."""
    source, words = source[source != PAD][None], [SOS]

    def embedded(table: nn.Module, ids: Tensor) -> Tensor:
        place, column = torch.arange(ids.size(1), dtype=torch.float64)[:, None], torch.arange(D)
        angle = place / 10000 ** (column // 2 * 2 / D)
        return table.weight[ids] * math.sqrt(D) + torch.where(column % 2 == 0, angle.sin(), angle.cos())

    while len(words) <= new and eos_id not in words[1:]:
        tgt = torch.tensor([words])
        hidden = torch.ones(len(words), len(words), dtype=torch.bool).triu(1)
        output = theirs(embedded(model.src_emb, source), embedded(model.tgt_emb, tgt), tgt_mask=hidden)
        words.append(int(model.lm_head(output)[0, -1].argmax()))
    return words


def test_a_translation_is_the_one_of_torchs_layers(course):
    """Every word that some row writes, used as the end of a sentence; padded rows give what they give alone."""
    ch07, ch09 = course
    config = ch07.Seq2SeqConfig(V, W, 20, D, H, 29, 2, 2, dropout=0.3, pad_id=PAD)
    model = fluent(ch07.Seq2Seq(config), scale=1.0).double()
    with torch.no_grad():
        model.lm_head.bias[PAD] = -1e3  # a model that writes padding inside a sentence cannot be distinguished from one that has ended
    theirs, src = torchs(model), sources()
    free = ch09.translate(model, src, SOS, W, 12)
    assert free.shape == (6, 13)
    assert free.unique().numel() > 6
    lengths = set()
    for eos_id in [W, *free[:, 1:].unique().tolist()]:
        text = ch09.translate(model, src, SOS, eos_id, 12).tolist()
        expected = [slowly(model, theirs, row, eos_id, 12) for row in src]
        longest = max(map(len, expected))
        assert text == [row + [PAD] * (longest - len(row)) for row in expected], f"eos_id = {eos_id}"
        lengths |= {len(row) for row in expected}
    assert len(lengths) > 3
    assert all(module.training for module in model.modules())
