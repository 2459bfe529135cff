"""The reference's own analysis finds an induction head in a model whose weights make one, and none in a new model."""

from __future__ import annotations

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.circuits import induction_circuit


@pytest.fixture(scope="module")
def chapters():
    sources = package_sources(resolve("solutions"), load_syllabus().chapter("ch12"), whole=True)
    package = ChapterPackage(sources, "tested")
    yield package.module("ch07_models"), package.module("ch12_interpretability")
    package.close()


def made(models, vocab_size, max_len):
    config, values = induction_circuit(vocab_size, max_len)
    model = models.GPT(models.GPTConfig(**config))
    model.load_state_dict(values | {"lm_head.weight": values["token_emb.weight"]})  # every parameter, and no other
    return model


@pytest.mark.parametrize(("vocab_size", "period"), [(8, 6), (12, 4), (9, 9), (13, 3)])
def test_the_circuit_made_by_hand_is_found_where_it_is(chapters, vocab_size, period):
    models, looking = chapters
    scores = looking.find_induction_heads(made(models, vocab_size, 2 * period), period, 16)
    assert scores.shape == (2, 2) and scores[1, 1] > 0.99
    assert scores.flatten()[:3].max() < 0.3
    assert scores[0, 0] < 0.01 or period == 2  # it attends to the position before


def test_the_circuit_predicts_repetitions(chapters):
    models, looking = chapters
    model, period = made(models, 12, 16), 8
    half = torch.randperm(12)[:period]
    ids = half.repeat(2)[None]
    logits, _ = model(ids)
    assert torch.equal(logits[0, period:-1].argmax(-1), ids[0, period + 1 :])
    assert looking.classify_head(looking.attention_patterns(model, ids)[0, 0, 0]) == "previous"
    patterns = looking.attention_patterns(model, ids)[:, 0]
    scores = [[looking.induction_score(head, period) for head in layer] for layer in patterns]
    assert torch.tensor(scores).argmax() == 3


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope"])
def test_in_a_new_model_every_head_is_near_chance(chapters, positions):
    models, looking = chapters
    period = 10
    model = models.GPT(models.GPTConfig(30, 2 * period, n_layers=2, positions=positions))
    even = sum(1 / (i + 1) for i in range(period, 2 * period)) / period
    scores = looking.find_induction_heads(model, period, 4)
    assert scores.shape == (2, 4) and 1 / (2 * period) < even < 2 / (2 * period)
    assert (scores - even).abs().max() < 0.03
