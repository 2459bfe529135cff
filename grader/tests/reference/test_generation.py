"""Text that is written token by token, against Hugging Face's GPT-2; and translate against nn.Transformer."""

from __future__ import annotations

import math

import pytest
import torch
from agreement import embedded, same, torchs_seq2seq
from torch import Tensor, nn
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

V, MAX_LEN, D, H, LAYERS = 41, 24, 24, 4, 2


@torch.no_grad()
def fluent(model: nn.Module, scale: float = 1.5) -> nn.Module:
    """Weights with which a greedy text varies: no bias favours one token for ever."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=scale / math.sqrt(D))
        else:
            parameter.fill_(float("ln" in name and name.endswith("weight")))
    return model


def pair(ours, kind: str = "GPT", layers: int = LAYERS, dropout: float = 0.0) -> tuple[nn.Module, nn.Module]:
    """Hugging Face's GPT-2, and one of our models with its weights."""
    sizes = dict(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_layer=layers, n_head=H, tie_word_embeddings=False)
    theirs = fluent(GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager"))).double().eval()
    config = ours.GPTConfig(V, MAX_LEN, D, H, layers, tie_weights=False, activation="gelu_tanh", dropout=dropout)
    mine = getattr(ours, kind)(config).double()
    ours.load_gpt2(mine, theirs.state_dict())
    return theirs, mine


def hugging_face(model: nn.Module, ids: Tensor, new: int, eos_id: int | None = None, **options) -> Tensor:
    """Its `generate`, with each of its defaults that ours does not have turned off."""
    options = {"do_sample": False, "attention_mask": torch.ones_like(ids), "pad_token_id": eos_id or 0} | options
    return model.generate(ids, max_new_tokens=new, eos_token_id=eos_id, **options)


# ---- generate


def test_greedy_text_and_finished_rows_are_hugging_faces(ours):
    """Without an end, and with every token that some row writes as the end: rows finish early, late, together, and never."""
    theirs, mine = pair(ours, dropout=0.3)
    ids = torch.randint(V, (4, 5))
    ids[0, 2] = 7  # an end in the prompt ends nothing
    with_filling = 0
    for eos_id in {None, 7, *ours.generate(mine, ids, 14, temperature=0.0)[:, 5:].unique().tolist()} - {0}:
        text = ours.generate(mine, ids, 14, eos_id=eos_id, temperature=0.0)
        assert torch.equal(text, hugging_face(theirs, ids, 14, eos_id)), f"eos_id = {eos_id}"
        with_filling += eos_id is not None and bool((text[:, 5:-1] == eos_id).any())
    assert with_filling > 2
    assert all(module.training for module in mine.modules())


SAMPLED = [{}, {"temperature": 0.6}, {"temperature": 1.7}, {"top_k": 5}, {"top_p": 0.8}]
SAMPLED += [{"temperature": 0.8, "top_k": 9, "top_p": 0.7}]


@pytest.mark.parametrize("options, eos_id", zip(SAMPLED, [None, 3, 8] * 2), ids=str)
def test_sampled_text_is_hugging_faces(ours, options, eos_id):
    """Both draw with torch.multinomial, row by row and step by step: the same random numbers give the same text."""
    theirs, mine = pair(ours)
    ids = torch.randint(V, (4, 5))
    torch.manual_seed(23)
    expected = hugging_face(theirs, ids, 15, eos_id, do_sample=True, **{"top_k": 0} | options)
    torch.manual_seed(23)
    assert torch.equal(ours.generate(mine, ids, 15, eos_id=eos_id, **options), expected)
    generator = torch.Generator().manual_seed(23)
    assert torch.equal(ours.generate(mine, ids, 15, eos_id=eos_id, generator=generator, **options), expected)


def test_past_the_table_the_last_tokens_are_used(ours):
    """Hugging Face's GPT-2 refuses longer texts; given the last MAX_LEN tokens of ours, it agrees with each choice."""
    theirs, mine = pair(ours)
    text = ours.generate(mine, torch.randint(V, (3, MAX_LEN - 2)), 9, temperature=0.0)
    for end in range(MAX_LEN, text.size(1)):
        assert torch.equal(theirs(text[:, end - MAX_LEN : end]).logits[:, -1].argmax(-1), text[:, end])


# ---- translate


SOS, PAD, WORDS = 1, 3, 37


@torch.no_grad()
def translated_slowly(model: nn.Module, theirs: nn.Transformer, source: Tensor, eos_id: int, new: int) -> list[int]:
    """One sentence without its padding, encoded again for each word by torch's own layers."""
    source, words = source[source != PAD][None], [SOS]
    while len(words) <= new and eos_id not in words[1:]:
        hidden = torch.ones(len(words), len(words), dtype=torch.bool).triu(1)
        target = embedded(model.tgt_emb.weight, torch.tensor([words]))
        output = theirs(embedded(model.src_emb.weight, source), target, tgt_mask=hidden)
        words.append(int(model.lm_head(output)[0, -1].argmax()))
    return words


def test_a_translation_is_the_one_of_torchs_layers(ours):
    """Some words that rows write, used as the end of a sentence; padded rows give what they give alone."""
    torch.manual_seed(11)
    config = ours.Seq2SeqConfig(V, WORDS, 20, D, H, 29, 2, 2, dropout=0.3, pad_id=PAD)
    model = fluent(ours.Seq2Seq(config), scale=1.0).double()
    with torch.no_grad():
        model.lm_head.bias[PAD] = -1e3  # padding inside a sentence could not be distinguished from its end
    theirs = torchs_seq2seq(model, config)[0].eval()
    src = torch.randint(V - 1, (6, 7))
    src += src >= PAD
    for row in range(1, 6):
        src[row, 7 - row :] = PAD
    lengths = set()
    for eos_id in [WORDS, *ours.translate(model, src, SOS, WORDS, 12)[:, 1:].unique()[:6].tolist()]:
        text = ours.translate(model, src, SOS, eos_id, 12).tolist()
        expected = [translated_slowly(model, theirs, row, eos_id, 12) for row in src]
        longest = max(map(len, expected))
        assert text == [row + [PAD] * (longest - len(row)) for row in expected], f"eos_id = {eos_id}"
        lengths |= {len(row) for row in expected}
    assert len(lengths) > 3
    assert all(module.training for module in model.modules())


# ---- caches


@pytest.mark.parametrize("lengths", [[20], 20 * [1], [8, 1, 1, 1, 4, 5]], ids=str)
def test_chunk_by_chunk_it_is_hugging_face_with_its_own_cache(ours, lengths):
    theirs, mine = pair(ours, "CachedGPT")
    ids, caches, their_cache = torch.randint(V, (3, 20)), mine.new_caches(), DynamicCache(config=theirs.config)
    with torch.no_grad():
        for part in ids.split(lengths, dim=1):
            same(mine(part, caches), theirs(part, past_key_values=their_cache, use_cache=True).logits, 1e-10)
            assert [cache.length for cache in caches] == LAYERS * [their_cache.get_seq_length()]
    same(caches[-1].k[:, :, :20], their_cache.layers[-1].keys, 1e-10)
    same(caches[-1].v[:, :, :20], their_cache.layers[-1].values, 1e-10)


# ---- serving


@pytest.mark.parametrize("n_beams", [2, 5])
def test_beams_are_hugging_faces(ours, n_beams):
    """Without an end of text both keep the n best sums. (Hugging Face sets finished texts aside, ours compete.)"""
    theirs, mine = pair(ours, "PaddedGPT")
    different = 0
    for ids in torch.randint(V, (4, 1, 4)):
        options = dict(num_beams=n_beams, num_return_sequences=n_beams, length_penalty=0.0, output_scores=True)
        found = hugging_face(theirs, ids, 9, return_dict_in_generate=True, **options)
        beams = ours.beam_search(mine, ids, 9, n_beams)
        assert [text for text, _ in beams] == found.sequences[:, 4:].tolist()
        same(torch.tensor([score for _, score in beams]), found.sequences_scores.float(), 1e-4)
        different += beams[0][0] != ours.beam_search(mine, ids, 9, 1)[0][0]
    assert different, "the best beam should sometimes differ from the greedy text"


@pytest.mark.parametrize("with_eos", [False, True])
def test_left_padded_batches_are_hugging_faces(ours, with_eos):
    theirs, mine = pair(ours, "PaddedGPT")
    ids, n_pad = torch.randint(V, (4, 9)), torch.tensor([0, 3, 8, 5])
    real = torch.arange(9) >= n_pad[:, None]
    places = (torch.arange(9) - n_pad[:, None]).clamp(min=0)
    with torch.no_grad():
        expected = theirs(ids, attention_mask=real.long(), position_ids=places).logits
        same(mine(ids, n_pad)[real], expected[real])
    prompts = [torch.randint(1, V, (length,)).tolist() for length in (3, 8, 1, 5)]
    eos = ours.generate_batch(mine, prompts, 12)[0][3 + 4] if with_eos else None
    ids = torch.tensor([[0] * (8 - len(prompt)) + prompt for prompt in prompts])
    real = torch.tensor([[0] * (8 - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    found = hugging_face(theirs, ids, 12, eos, attention_mask=real, pad_token_id=0)[:, 8:].tolist()
    expected = [prompt + (new[: new.index(eos) + 1] if eos in new else new) for prompt, new in zip(prompts, found)]
    assert ours.generate_batch(mine, prompts, 12, eos) == expected
    assert len({token for text in expected for token in text}) > 5


def test_speculative_and_assisted_generation_write_the_same_greedy_text(ours):
    """Both let a smaller model draft. Greedy text does not depend on the draft."""
    (theirs, mine), (their_draft, our_draft) = pair(ours, "PaddedGPT"), pair(ours, "PaddedGPT", 1)
    for ids in torch.randint(V, (2, 1, 5)):
        plain = hugging_face(theirs, ids, 15)
        for n_draft in (1, 4):
            assert torch.equal(ours.generate_speculative(mine, our_draft, ids, 15, n_draft, temperature=0.0), plain)
        assert torch.equal(hugging_face(theirs, ids, 15, assistant_model=their_draft), plain)
