"""The engine of `headway play`: what it writes, and what it shows of the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from grader.models.checkpoint import Loaded
from grader.models.design import Design
from grader.models.play.engine import Ending, Engine, PlayProblem, Settings
from grader.models.tokenizers import BpeModelTokenizer
from grader.tests.models.own_models import GPT, MOE, TINY, TRANSLATOR
from grader.tests.models.page_engines import engine_of, written
from torch import nn

DESIGNS = {positions: Design(positions=positions, **TINY) for positions in ("learned", "sinusoidal", "rope", "alibi")}
OTHERS = {"experts": MOE, "post-norm": Design(norm="post", **TINY)}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("settings", [Settings(length=8, top_k=9, top_p=0.9, seed=4), Settings(length=8, temperature=0)], ids=["drawn", "greedy"])
def test_a_text_is_what_generate_gives_with_and_without_cache(parts, words, design, settings):
    without, cached = (engine_of(parts, words, design, with_cache) for with_cache in (False, True))
    assert without.cached is None and cached.cached is not None
    ids = cached.read("the cat sat", settings.length).ids
    generator = torch.Generator().manual_seed(settings.seed)
    expected = parts.generate(without.model, torch.tensor([ids]), 8, words.end_id, settings.temperature, settings.top_k, settings.top_p, generator)
    expected = [i for i in expected[0, len(ids) :].tolist() if i != words.end_id]
    assert written(without, "the cat sat", settings) == written(cached, "the cat sat", settings) == expected


@pytest.mark.parametrize("design", OTHERS.values(), ids=OTHERS)
def test_a_model_that_no_cache_is_made_for_writes_without(parts, words, design):
    engine = engine_of(parts, words, design)
    assert engine.cached is None
    settings = Settings(length=6, temperature=0)
    ids = engine.read("a dog", 6).ids
    assert written(engine, "a dog", settings) == parts.generate(engine.model, torch.tensor([ids]), 6, temperature=0)[0, len(ids) :].tolist()
    for look in (engine.attention, engine.lens):
        with pytest.raises(PlayProblem, match="works with a GPT of pre-norm blocks"):
            look(ids)


def test_probabilities_are_the_models_and_chances_are_the_settings(parts, words):
    engine = engine_of(parts, words)
    ids = engine.read("the dog", 9).ids
    probabilities = torch.softmax(engine.model(torch.tensor([ids]))[0][0, -1], dim=-1)
    settings = Settings(temperature=0.5, top_k=3, length=1)
    best = engine.likeliest(ids, settings, 5)
    torch.testing.assert_close([candidate.probability for candidate in best], probabilities.topk(5).values.tolist())
    assert sum(candidate.drawn for candidate in best) == pytest.approx(1) and best[3].drawn == best[4].drawn == 0
    assert [candidate.drawn for candidate in engine.likeliest(ids, replace(settings, temperature=0), 3)] == [1, 0, 0]
    piece = next(iter(engine.write(ids, settings)))
    assert piece.probability == pytest.approx(probabilities[piece.id].item()) and piece.likeliest == best


def test_min_p_leaves_out_what_is_far_less_likely_than_the_likeliest(parts, words):
    engine = engine_of(parts, words)
    best = engine.likeliest(engine.read("the dog", 9).ids, Settings(temperature=1, length=1), 2)
    limit = (best[0].probability + best[1].probability) / 2 / best[0].probability
    only = [written(engine, "the dog", Settings(temperature=1, min_p=limit, length=1, seed=seed)) for seed in range(20)]
    assert only == [[best[0].id]] * 20
    assert len({tuple(written(engine, "the dog", Settings(temperature=1, min_p=0, length=1, seed=seed))) for seed in range(20)}) > 1


class Recited(nn.Module):
    """A model that writes these ids, whatever it reads."""

    def __init__(self, ids: list[int], begins: int, vocab_size: int) -> None:
        super().__init__()
        self.ids, self.begins, self.vocab_size = ids, begins, vocab_size

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = torch.full((*ids.shape, self.vocab_size), -50.0)
        logits[..., self.ids[ids.size(1) - self.begins]] = 50.0
        return logits


def test_a_character_of_several_tokens_appears_when_it_is_complete(parts):
    tokenizer = BpeModelTokenizer(parts, {})
    text = "aé 😀 मैं\ufffd!"
    begins = len(tokenizer.start_ids) + 1
    recited = Recited([*tokenizer.encode(text), tokenizer.end_id], begins, tokenizer.vocab_size)
    design = Design(kind="moe", d_model=8, max_len=99)
    engine = Engine(Loaded(recited, tokenizer, design, {}, Path("recited")), parts)
    pieces = list(engine.write(engine.read("x", 50).ids, Settings(length=50)))
    assert pieces[-1] == Ending("end") and len(pieces) == len(text.encode()) + 1
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.text for piece in pieces[:7]] == ["a", "", "é", " ", "", "", ""]
    cut = list(engine.write(engine.read("x", 2).ids, Settings(length=2)))
    assert [piece.text for piece in cut] == ["a", "", "\ufffd"] and cut[-1].reason == "length"


def test_a_beginning_that_is_too_long_loses_its_first_tokens_and_a_text_ends_where_the_table_ends(parts, words):
    engine = engine_of(parts, words)
    long = " ".join(["the", "cat", "sat"] * 20)
    prompt = engine.read(long, 5)
    assert (len(prompt.ids), prompt.left_out) == (19, 42) and prompt.ids == words.encode(long)[-19:]
    assert engine.read(long, 1000).left_out == 61 - 12  # half of the table is left for the text
    pieces = list(engine.write(prompt.ids, Settings(length=50)))
    assert pieces[-1].reason in ("full", "end") and len(pieces) <= 6
    free = engine_of(parts, words, DESIGNS["rope"])
    assert free.read(long, 5).left_out == 0 and len(written(free, long, Settings(length=40))) > 5


def test_looking_inside_gives_what_chapter_12_gives(parts, words):
    engine = engine_of(parts, words)
    ids = engine.read("the cat sat on the mat", 9).ids
    batch = torch.tensor([ids])
    torch.testing.assert_close(engine.attention(ids), parts.attention_patterns(engine.model, batch)[:, 0])
    layers = engine.lens(ids)
    assert len(layers) == GPT.n_layers + 1
    assert [candidate.id for candidate in layers[-1]] == [candidate.id for candidate in engine.likeliest(ids, Settings(), 3)]
    first = parts.logit_lens(engine.model, batch)[0, 0, -1].topk(3).indices.tolist()
    assert [candidate.id for candidate in layers[0]] == first
    assert engine.tokens(ids) == ["<start>", "The", "cat", "sat", "on", "the", "mat"]


def test_a_translator_translates(parts, words):
    engine = engine_of(parts, words, TRANSLATOR)
    start, end = words.start_ids[0], words.end_id
    expected = parts.translate(engine.model, torch.tensor([words.encode("the cat sat")]), start, end, 10)[0, 1:].tolist()
    assert engine.translate("the cat sat", 10) == words.decode(expected[: expected.index(end)] if end in expected else expected)
    with pytest.raises(PlayProblem, match="has 25 tokens, and tiny reads at most 24; type a shorter one"):
        engine.translate("the " * 25, 10)
    with pytest.raises(PlayProblem, match="/why needs a model that goes on with a text, and tiny is a translator"):
        engine.likeliest([1], Settings())


def test_unknown_words_are_named_with_the_nearest_known_one(parts, words):
    engine = engine_of(parts, words)
    assert engine.read("the kiten sat", 5).unknown == ("kiten",)
    assert engine.nearest_words("kiten") == "kitten" and engine.nearest_words("xylophone") is None


def test_a_model_of_a_users_text_begins_without_a_mark(parts, words):
    """Because the windows of such a text begin anywhere."""
    assert engine_of(parts, words, record={"corpus": {"kind": "text"}}).read("the cat", 5).ids == words.encode("the cat")
    assert engine_of(parts, words, record={"corpus": {"kind": "stories"}}).read("the cat", 5).ids == [*words.start_ids, *words.encode("the cat")]


def test_a_model_whose_training_failed_is_named(parts, words):
    engine = engine_of(parts, words, with_cache=False)
    with torch.no_grad():
        engine.model.ln_f.weight.fill_(torch.nan)
    with pytest.raises(PlayProblem, match="the model tiny gives scores that are not numbers, so its training has failed"):
        list(engine.write([3], Settings()))
