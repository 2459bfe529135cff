"""The measurements of lesson 25's labs: what they compute is what they say, and their findings at three seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from grader.chapters.ch25_structured_output import forms, masking
from grader.chapters.ch25_structured_output.forms import FORMS, KEYS, SCHEMA, Tally, read_form
from grader.chapters.ch25_structured_output.masking import END, TableModel, compare, draw_texts, enumerate_texts
from grader.chapters.ch25_structured_output.writing.token_guide import compute
from grader.chapters.small_models import names_of
from grader.teaching.measurements import open_chapters
from lab_tables import is_near, missing_rows, printed

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def package():
    package = open_chapters()
    yield package
    package.close()


@pytest.fixture(scope="module")
def parts(package):
    return names_of(package.module("ch25_structured_output"))


# ---- the distribution


def all_texts(model, text=b"", chance=1.0):
    """Every text that the model can write, with its probability; another way than the lab's."""
    chances = model.log_probs(text).exp().tolist()
    if chances[END]:
        yield text, chance * chances[END]
    for token, share in list(zip(model.tokens, chances))[1:]:
        if share:
            yield from all_texts(model, text + token, chance * share)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_texts_of_the_model_alone_have_their_own_probabilities(parts, seed):
    model = TableModel.random(torch.Generator().manual_seed(seed))
    every = dict(all_texts(model))
    assert sum(every.values()) == pytest.approx(1, abs=1e-5) and len(every) == sum(4**n for n in range(masking.LENGTH + 1))
    alone, masked = enumerate_texts(parts, model, "(ab|cd)+")
    assert set(alone) == {b"ab", b"cd", b"abab", b"abcd", b"cdab", b"cdcd"} and sum(masked.values()) == pytest.approx(1, abs=1e-5)
    assert alone == pytest.approx({text: every[text] for text in alone}, rel=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_generate_matching_draws_what_was_enumerated(parts, seed):
    model = TableModel.of(masking.TOKENS, masking.NOT_SURE)
    _, masked = enumerate_texts(parts, model, masking.ASKED)
    drawn = draw_texts(parts, model, masking.ASKED, 600, torch.Generator().manual_seed(seed))
    assert set(drawn) <= set(masked) and all(abs(drawn[text] / 600 - chance) < 0.08 for text, chance in masked.items())


def test_the_unsure_model_says_no_with_the_mask_and_yes_where_its_own_texts_match(parts):
    model = TableModel.of(masking.TOKENS, masking.NOT_SURE)
    alone, masked = enumerate_texts(parts, model, masking.ASKED)
    assert alone[b"yes"] == pytest.approx(0.3 * 0.7) and alone[b"no!"] == pytest.approx(0.6 * 0.02)
    assert masked[b"no"] + masked[b"no!"] == pytest.approx(2 / 3)
    assert masking.greedy_text(parts, model, masking.ASKED) == b"no" and max(alone, key=alone.get) == b"yes"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mask_changes_nothing_where_only_the_first_choice_is_cut(parts, seed):
    """Without the empty text, all goes on as before; other patterns forbid what comes later."""
    model = TableModel.random(torch.Generator().manual_seed(seed))
    assert compare(parts, model, "(a|b|c|d)+")[1] == pytest.approx(0, abs=1e-5)
    assert compare(parts, model, "(ab|cd)+")[1] > 0.01


def test_the_report_repeats_by_its_seed_and_has_its_findings():
    one, again, other = (printed("structured_distribution", "--draws", "50", "--seed", seed) for seed in "001")
    assert one == again != other  # the drawn shares and the random models
    assert "The likeliest text that matches is 'yes', and the greedy one is 'no'." in one and "a.*b" in one


# ---- the forms


def test_the_forms_say_what_is_expected():
    for text, name, age, city, pet in FORMS:
        assert all(str(value) in text for value in (name, age, city)) and (pet == "none" or pet in text)
        assert read_form(json.dumps(dict(zip(KEYS, (name, age, city, pet)))))


def test_answers_are_counted():
    expected = dict(zip(KEYS, FORMS[0][1:]))
    right = json.dumps(expected)
    tally = Tally()
    for text in (right, f"Here: ```json\n{right}\n```", right.replace("31", "13"), "Anna", right[:-1], right.replace("31", '"31"'), right.replace("dog", "cow")):
        tally.count(text, expected)
    assert (tally.answers, tally.valid, tally.inside, tally.fields, tally.right) == (7, 2, 3, 11, 2)
    assert tally.row() == ["29%", "43%", "39%", "29%"]


def test_each_constrained_answer_is_valid_whatever_the_model_is(parts, published):
    """The small model writes bytes at random; freely it writes no form."""

    tokens = parts.token_bytes(published.tokenizer)
    guide = compute(parts, SCHEMA, tokens, 2)
    everything = SimpleNamespace(**{name: getattr(parts, name) for name in ("constrain", "token_bytes")})
    for name in ("stream_answer", "chat_ids", "sample_next_token"):
        setattr(everything, name, getattr(published.own.parts, name))
    model = replace(published, own=SimpleNamespace(parts=everything))
    for instruction in forms.INSTRUCTIONS.values():
        assert read_form(forms.answer(model, instruction, FORMS[0][0], guide))
        assert read_form(forms.answer(model, instruction, FORMS[0][0], None)) is None


def test_without_the_weights_a_sentence_says_so(package, monkeypatch):
    monkeypatch.setattr("grader.chapters.ch16_published_model.published.opening.PACKAGE", "a_package_that_is_not_there")
    [said] = forms.report_structured_accuracy(package, 0)
    assert said.startswith("Not measured: the weights of SmolLM2 are not installed")


def test_the_tables_of_lab_distribution_are_nearly_what_its_command_prints():
    assert missing_rows("ch25", "distribution", "structured_distribution", is_near) == []
