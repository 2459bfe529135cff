"""`headway features` in one process: what it measures is what it says, a stopped run goes on, and damaged files are a sentence."""

from __future__ import annotations

import json

import pytest
import torch
from grader.chapters.ch16_published_model.published import opening
from grader.chapters.ch16_published_model.published.source import PublishedProblem
from grader.chapters.ch23_features.features import (
    dictionary,
    examining,
    features_progress,
    features_run,
    opened,
    probing,
    readings,
    state_cache,
    summary,
)
from grader.chapters.ch23_features.features.opened import FeaturesProblem, HeldOut
from grader.chapters.ch23_features.features.report_page import draw
from grader.chapters.ch23_features.features.subjects import heroine, mood
from grader.cli.interruptible_run import run_and_conclude
from grader.console.output import hide_progress
from grader.models.checkpoint import CheckpointProblem
from grader.models.training import training_run
from safetensors import safe_open
from torch.nn import functional as F
from trainings import Silent

STEPS = 6


@pytest.fixture
def looks(monkeypatch, trainings, tmp_path):
    """Begins and resumes small runs on a tiny model of the stories, without SmolLM2."""
    training = trainings.begin("stories", steps=2)
    assert training_run.run(training, Silent())
    monkeypatch.setattr(opened, "find_own_parts", trainings._own)
    monkeypatch.setattr(state_cache, "FOLDER", tmp_path / "states")
    monkeypatch.setattr(features_progress, "MOST_STEPS", STEPS)
    monkeypatch.setattr(features_run, "MOST_STATES", 2500)
    monkeypatch.setattr(features_run, "PLAIN_STORIES", 3)
    monkeypatch.setattr(examining, "MOST_STORIES", 24)
    monkeypatch.setattr(dictionary, "BATCH_STATES", 64)
    made = Looks(monkeypatch)
    made.hide_published()
    yield made
    made.close()


class Looks:
    def __init__(self, monkeypatch) -> None:
        self._monkeypatch, self._made = monkeypatch, []

    def hide_published(self) -> None:
        def missing():
            raise PublishedProblem("the weights of SmolLM2 are not installed")

        self._monkeypatch.setattr(opening, "installed_file", missing)

    def use_published(self, gguf: str) -> None:
        from pathlib import Path

        self._monkeypatch.setattr(opening, "installed_file", lambda: Path(gguf))
        self._monkeypatch.setattr(probing, "FEWEST_SENTENCES", 16)

    def begin(self, name: str = "one", layer=None, n_features=24, k=4, seed=0, minutes=600.0) -> features_run.Run:
        self._made.append(features_run.begin("stories", layer, n_features, k, name, seed, minutes, hide_progress))
        return self._made[-1]

    def resume(self, name: str | None = "one") -> features_run.Run:
        self._made.append(features_run.resume(name, hide_progress))
        return self._made[-1]

    def finished(self, run: features_run.Run) -> features_run.Run:
        assert features_run.run_to_end(run, Silent())
        return run

    def close(self) -> None:
        for run in self._made:
            run.close()


def without_times(run: features_run.Run) -> str:
    return json.dumps([run.progress.losses, run.progress.examined, run.progress.probed, run.progress.story_batches, run.progress.scale])


@pytest.mark.parametrize("stage", ["states", "training", "examining", "sentences", "probes", "steering"])
def test_a_run_that_was_stopped_in_any_part_ends_like_one_that_was_not(looks, stage):
    whole = looks.finished(looks.begin("whole"))
    run = looks.begin()
    view = {}

    class Page(Silent):
        def moment(self, shown) -> None:
            view["stage"], view["steps"] = shown.stage, len(run.progress.losses)

    def interrupted() -> bool:
        return view["stage"] == stage and (stage != "training" or len(run.progress.losses) == 3)

    assert not features_run.run_to_end(run, Page(), interrupted)
    assert not run.progress.is_finished
    again = looks.finished(looks.resume())
    assert without_times(again) == without_times(whole)
    with safe_open(again.folder / dictionary.FILE, framework="pt") as file:
        assert sorted(file.keys()) == ["W_dec", "W_enc", "b_dec", "b_enc"]  # a finished run needs no optimizer


def test_another_seed_gives_another_autoencoder(looks):
    assert looks.finished(looks.begin("one")).progress.losses != looks.finished(looks.begin("two", seed=1)).progress.losses


def test_time_limits_every_part_and_the_least_of_each_is_done(looks, monkeypatch):
    monkeypatch.setattr(features_progress, "MOST_STEPS", 10**9)
    progress = looks.finished(looks.begin(minutes=1e-9)).progress
    assert (len(progress.losses), progress.story_batches) == (features_run.FEWEST_STEPS, features_run.FEWEST_BATCHES)
    assert progress.examined["stories"] >= examining.FEWEST_STORIES and progress.probed["sentences"] == probing.FEWEST_SENTENCES
    assert len(progress.probed["steered"]) == probing.FEWEST_STRENGTHS
    assert "It took" in " ".join(summary.sentences_about_length(progress)) and summary.minutes_that_help(progress) >= 1


def test_an_untrained_autoencoder_is_said_to_have_learned_nothing(looks, monkeypatch):
    monkeypatch.setattr(dictionary, "PEAK", 0.0)
    run = looks.finished(looks.begin())
    said = " ".join(summary.sentences_about_dictionary(run.progress))
    assert "nothing was learned. Give it more time." in said and "reading" not in said
    assert "nothing was learned" in draw(run.progress)


def test_a_loss_that_is_no_number_is_a_sentence_and_the_checkpoint_stays(looks, monkeypatch):
    monkeypatch.setattr(dictionary, "PEAK", float("inf"))
    with pytest.raises(CheckpointProblem, match="the loss of step 2 is nan; the last checkpoint stays, and another --seed may go better"):
        run_and_conclude("features", looks.begin(), (), features_run.run_to_end, print)
    assert looks.resume().progress.story_batches > 0


@pytest.mark.parametrize(("wrong", "says"), [({"layer": 1}, "has the layers 0 to 0, so there is no layer 1"), ({"k": 25}, "k is 25, but there are 24 features")])
def test_what_the_model_does_not_have_is_a_sentence(looks, wrong, says):
    with pytest.raises(FeaturesProblem, match=says):
        looks.begin(**wrong)


def test_a_taken_name_and_a_missing_run_are_sentences(looks, trainings):
    with pytest.raises(FeaturesProblem, match="there are no features yet"):
        looks.resume(None)
    looks.finished(looks.begin())
    with pytest.raises(CheckpointProblem, match="there is a checkpoint one already"):
        looks.begin()
    with pytest.raises(FeaturesProblem, match="there are no features 'two'; you have one"):
        looks.resume("two")


@pytest.mark.parametrize("damage", ["cut", "foreign", "record", "numbers"])
def test_a_damaged_file_is_a_sentence(looks, damage):
    path = looks.finished(looks.begin()).folder / dictionary.FILE
    saved = dictionary.read("one")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "foreign":
        from safetensors.torch import save_file

        save_file({"x": torch.zeros(2)}, path)
    elif damage == "record":
        dictionary.save(path.parent, dictionary.Saved("one", saved.record | {"layer": -1}, saved.parameters, {}))
    else:
        dictionary.save(path.parent, dictionary.Saved("one", saved.record, {name: t * float("nan") for name, t in saved.parameters.items()}, {}))
    with pytest.raises(FeaturesProblem, match="run `headway features` again"):
        looks.resume()


# ---- what is measured


def test_a_feature_that_follows_a_rule_gets_it_and_random_numbers_do_not():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(20, (40, 50), generator=generator)
    texts = HeldOut(inputs[:, :-1], inputs[:, 1:])
    tokens = readings.tokens_at(texts)
    current, following = tokens["this token"], tokens["the next token"]
    active = torch.stack([((current == 3) | (current == 7)).float(), (following == 5) * 2.0, torch.rand(len(current), generator=generator)], 1)
    active[:, 0] += 0.2 * (torch.rand(len(current), generator=generator) < 0.5)  # weak activations do not count
    one, two, noise = readings.find_readings(active, tokens, 20)
    assert (one.place, sorted(one.tokens), one.score) == ("this token", [3, 7], pytest.approx(1.0))
    assert (two.place, two.tokens, two.score) == ("the next token", [5], pytest.approx(1.0))
    assert noise.score < 0.4


def test_random_directions_are_active_as_often_as_the_features():
    states = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
    active = readings.random_directions(states, torch.tensor([0.01, 0.1, 0.5]), 0)
    assert (active > 0).sum(0).tolist() == [5, 50, 250]


def test_the_losses_are_those_of_the_changed_model(looks):
    run = looks.begin()
    models = run.models
    texts = opened.held_out_stories(models, 12)
    states = opened.story_states(models, 0, 0)
    scale = dictionary.find_scale(states)
    autoencoder = dictionary.make_autoencoder(models.parts, states, scale, 24, 4, 0)
    examiner = examining.Examiner(models, autoencoder, scale, 0, texts, 0)
    summary_ = examiner.summary()
    logits = models.stories.logits(texts.inputs)
    plain = F.cross_entropy(logits.transpose(1, 2), texts.targets, ignore_index=-100)
    assert summary_["losses"]["model"] == pytest.approx(float(plain), rel=1e-4)
    assert len({round(loss, 5) for loss in summary_["losses"].values()}) == 3
    assert torch.equal(models.stories.logits(texts.inputs), logits)  # no hook stays
    examiner.readings()
    feature = examiner.alive[0]
    without = examiner.describe(feature)["without"]
    with torch.no_grad():
        autoencoder.W_dec[feature] = 0.0
    assert examiner._loss_without(feature)["after"] == pytest.approx(without["before"], rel=1e-5)  # nothing is taken away


def test_the_contexts_show_where_the_feature_is_most_active(looks):
    run = looks.finished(looks.begin())
    for feature in run.progress.examined["shown"]:
        for context in feature["contexts"]:
            assert max(share for _, share in context) > 0 and len(context) <= examining.BEFORE + 1 + examining.AFTER
            assert all(0 <= share <= 1 for _, share in context)
        if feature["contexts"]:
            assert max(share for _, share in feature["contexts"][0]) == pytest.approx(1.0)


def test_sentences_end_alike_and_each_class_has_half():
    for subject in (mood(), heroine(0)):
        labels = [label for _, label in subject.sentences]
        assert labels == [1, 0] * (len(labels) // 2) and all(text.endswith(".") for text, _ in subject.sentences)
    words = (mood().words[0], mood().words[1])
    for text, label in mood().sentences:
        assert any(word in text for word in words[1 - label]) and not any(f" {word}." in text for word in words[label])


def test_states_of_sentences_do_not_depend_on_the_rows_beside_them(looks, tiny_gguf):
    looks.use_published(tiny_gguf)
    run = looks.begin()
    sentences = [text for text, _ in mood().sentences[:3]]
    together = probing.sentence_states(run.models.parts, run.models.published, sentences)
    alone = torch.cat([probing.sentence_states(run.models.parts, run.models.published, [one]) for one in sentences])
    assert together.allclose(alone, atol=1e-5)


# ---- the cache of states


def test_states_are_computed_once_and_a_damaged_or_foreign_cache_is_made_again(looks, tiny_gguf, monkeypatch):
    looks.use_published(tiny_gguf)
    read: list[int] = []
    real = probing.sentence_states
    monkeypatch.setattr(probing, "sentence_states", lambda parts, model, texts: read.append(len(texts)) or real(parts, model, texts))
    first = looks.finished(looks.begin("one"))
    count = len(mood().sentences)
    assert sum(read) == count and not first.progress.notes
    path = state_cache.path_of(first.models.published)
    assert 0 < path.stat().st_size <= state_cache.MOST_BYTES
    second = looks.finished(looks.begin("two"))
    assert sum(read) == count and second.progress.probed == first.progress.probed
    data = bytearray(path.read_bytes())
    data[-40] ^= 255
    path.write_bytes(data)
    third = looks.finished(looks.begin("three"))
    assert sum(read) == 2 * count and "is damaged, so the states of" in third.progress.notes[0]
    assert third.progress.probed == first.progress.probed
    _, sentences = None, [f"{text} " for text, _ in mood().sentences]
    assert state_cache.read(first.models.published, sentences) == (None, None)


def test_a_cache_that_cannot_be_written_is_a_note(looks, tiny_gguf, tmp_path):
    looks.use_published(tiny_gguf)
    (tmp_path / "states").write_text("a file where the folder should be")
    run = looks.finished(looks.begin())
    assert len(run.progress.notes) == 1 and "could not write" in run.progress.notes[0] and "the next run computes" in run.progress.notes[0]


def test_a_published_model_is_probed_and_steered(looks, tiny_gguf):
    looks.use_published(tiny_gguf)
    run = looks.finished(looks.begin())
    probed = run.progress.probed
    assert probed["kind"] == "published" and [row[0] for row in probed["layers"]] == list(range(run.models.published.n_layers + 1))
    assert probed["layers"][0][1] < 0.75  # the full stop's embedding says nothing
    assert [one["strength"] for one in probed["steered"]] == sorted(mood().strengths)
    page = draw(run.progress)
    assert run.models.published.name in page and "<script" not in page and "http" not in page.replace("http://www.w3.org", "")
