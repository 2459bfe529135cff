"""`headway capstone` in small: every stage is interrupted and goes on, its numbers and their intervals, damaged files, rows of several runs."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from browser import Browser, needs_chromium
from grader.chapters.ch17_fine_tuning.capstone import model_card, record, stages
from grader.chapters.ch17_fine_tuning.capstone.record import CapstoneProblem, Record, bootstrap
from grader.chapters.ch17_fine_tuning.tuning import evaluation, tasks
from grader.chapters.ch17_fine_tuning.tuning.base import TUNING, stories_base
from grader.console.output import hide_progress
from grader.course.source import read_source
from grader.course.syllabus import ROOT
from grader.models import checkpoint, design
from grader.models.checkpoint import CheckpointProblem
from grader.models.own_parts import CodeProblem
from grader.models.training import corpora, training_run
from own_models import solved
from page_layout import misfits
from trainings import SMALL, Silent
from tunings import Tunings


class Runs:
    """Sittings in the folder of these trainings, with their parts."""

    def __init__(self, monkeypatch, trainings) -> None:
        self.trainings = trainings
        self._made = []
        monkeypatch.setattr(stages, "find_own_parts", trainings._own)
        monkeypatch.setitem(design.PRESETS, "tiny", replace(SMALL, max_len=128))  # a sentence has more tokens of bytes than words

    def sit(self, run: Record, most_steps: float = math.inf):
        """Go on with this run, and press Control-C after so many steps; what `stages.run` returns."""
        own = stages.find_parts(run, hide_progress)
        self._made.append(own)
        asked = iter(range(10_000))
        run.save()
        sitting = stages.Sitting(run, own, hide_progress, lambda stage: None, Silent, lambda: next(asked) >= most_steps, time.monotonic())
        return stages.run(sitting)

    def finish(self, name: str, steps: int | None = 3, **more) -> model_card.Finished:
        return self.sit(stages.begin(name, more.get("seed", 0), more.get("minutes", 1.0), steps))

    def close(self) -> None:
        for own in self._made:
            own.close()


@pytest.fixture
def runs(trainings):
    with pytest.MonkeyPatch.context() as monkeypatch:  # it ends before that of `trainings`, whose preset it replaces
        made, tunings = Runs(monkeypatch, trainings), Tunings(monkeypatch, trainings)
        yield made
        made.close()
        tunings.close()


def test_a_run_that_was_interrupted_in_every_stage_has_the_row_of_an_uninterrupted_one(runs):
    whole = runs.finish("whole").record
    begun, sittings = stages.begin("stopped", 0, 1.0, 3), 0
    finished = runs.sit(begun, most_steps=1)
    while finished is None:
        sittings += 1
        assert sittings < 60
        again = record.find("stopped")
        assert not again.right
        finished = runs.sit(again, most_steps=1 + sittings % 6)  # a test of the tuning begins again if it is interrupted
    stopped = record.find("stopped")
    assert finished.record.name == "stopped" and stages.ANSWERS not in begun.spent and sittings > 4
    for name in ("tokens", "characters", "right", "learner", "reference", "changed"):
        assert getattr(stopped, name) == getattr(whole, name), name
    for model, nats in whole.nats.items():
        assert stopped.nats[model] == pytest.approx(nats, rel=1e-6), model
    parts = {path.name for path in stopped.folder.iterdir()}
    assert parts == {"stories", "answers", record.FILE, model_card.PAGE, checkpoint.RECORD, checkpoint.MODEL}
    assert set(stopped.spent) == set(stages.STAGES) and all(seconds > 0 for seconds, _ in stopped.spent.values())


def test_the_final_model_is_the_tuned_one_and_the_numbers_are_measured_on_whole_stories(runs):
    finished = runs.finish("one")
    run, parts = finished.record, runs._made[-1].parts
    loaded = checkpoint.load(run.folder, parts)
    nats, tokens, characters = stages.measure_stories(parts, loaded)
    assert nats == pytest.approx(run.nats[record.TUNED], rel=1e-5) and (tokens, characters) == (run.tokens, run.characters)
    assert run.nats[record.TUNED] != pytest.approx(run.nats[record.PRETRAINED], rel=1e-5)
    assert loaded.record["name"] == "one" and loaded.record["corpus"]["kind"] == "stories"
    validation = finished.training.trainer.history.validation
    for model, (_, loss) in ((record.UNTRAINED, validation[0]), (record.PRETRAINED, validation[-1])):
        assert run.loss(model)[0] == pytest.approx(loss, rel=1e-4), model
    bits = run.loss(record.PRETRAINED)[0] * sum(tokens) / sum(characters) / math.log(2)
    assert run.bits(record.PRETRAINED)[0] == pytest.approx(bits)
    said = (run.folder / model_card.PAGE).read_text()
    for text in ("after pretraining", f"{run.loss(record.PRETRAINED)[0]:.3f}", "The pretraining was short: 3 steps", "0 of 4, 0%", "headway play one"):
        assert text in said, text
    assert "none of the 4" in said and not re.search(r"\[(NAME|CONTENT|CURVES)\]|[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)


@pytest.mark.parametrize("tokens", ["words", "bpe"])
def test_an_answer_continues_the_prompt_as_a_sentence_of_a_story_does(runs, tokens):
    training = runs.trainings.begin("stories", steps=1, tokens=tokens)
    trainer = training.trainer
    loaded = checkpoint.Loaded(trainer.model, trainer.corpus.tokenizer, trainer.design, {}, training.folder)
    base = stories_base("stories", loaded, training.own)
    prompt, answer = "Mia had a red ball.", "Then she saw the big dog again."
    assert base.prompt_ids(prompt) + base.answer_ids(answer) == base.prompt_ids(f"{prompt} {answer}")
    assert base.decode(base.answer_ids("Mia had a ball.")) == "Mia had a ball."


def test_whose_parts_ran_is_said_also_if_it_changed_between_two_sittings(runs):
    chapter = "ch17_fine_tuning"
    begun = stages.begin("one", 0, 1.0, 2)
    assert runs.sit(begun, most_steps=1) is None and begun.learner == [] and not begun.changed
    runs.trainings.chapters[chapter] = solved(chapter)
    run = runs.sit(record.find("one")).record
    assert "LoRALinear" in run.learner and "LoRALinear" in run.changed and "GPT" in run.reference and "GPT" not in run.changed
    said = (run.folder / model_card.PAGE).read_text()
    assert "After an interruption other code ran for" in said and f"Yours: {', '.join(run.learner)}." in said


def test_a_crash_in_the_learners_code_leaves_what_was_saved(runs):
    """It works while the model answers, and not in training."""
    old = "        return self.linear(x) + self.scale * (x @ self.A.T) @ self.B.T"
    crashing = f"        assert not torch.is_grad_enabled(), 'gradients'\n{old}"
    runs.trainings.chapters["ch17_fine_tuning"] = solved("ch17_fine_tuning", (old, crashing))
    with pytest.raises(CodeProblem, match="your LoRALinear raised AssertionError: gradients"):
        runs.finish("one")
    runs.trainings.chapters["ch17_fine_tuning"] = solved("ch17_fine_tuning")
    pretrained = (runs.trainings.folder / "one" / "stories" / checkpoint.MODEL).read_bytes()
    assert runs.sit(record.find("one")).record.right
    assert (runs.trainings.folder / "one" / "stories" / checkpoint.MODEL).read_bytes() == pretrained


def test_a_damaged_stage_is_a_sentence_and_is_done_again_without_its_folder(runs):
    whole = runs.finish("whole").record
    begun = stages.begin("one", 0, 1.0, 3)
    assert runs.sit(begun, most_steps=12) is None and (begun.folder / "answers").is_dir()
    for stage, file in (("answers", "adapters.safetensors"), ("stories", checkpoint.MODEL)):
        path = begun.folder / stage / file
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises((CheckpointProblem, stages.adapters.TuneProblem), match="is damaged"):
            runs.sit(record.find("one"))
        for each in path.parent.iterdir():
            each.unlink()
        path.parent.rmdir()
        if stage == "answers":
            assert runs.sit(record.find("one"), most_steps=6) is None and path.is_file()
    again = runs.sit(record.find("one")).record
    assert again.right == whole.right and again.nats[record.TUNED] == pytest.approx(whole.nats[record.TUNED], rel=1e-6)


def test_the_time_is_divided_and_a_training_that_becomes_slower_has_fewer_steps(runs, monkeypatch):
    run = Record("one", 0, 10.0, None, spent={"tokenizer": (60.0, 1.0)})
    sitting = stages.Sitting(run, None, hide_progress, lambda stage: None, Silent, lambda: False, time.monotonic())
    sitting.stage = stages.STORIES
    reserved = min(stages.EVALUATION_SHARE * 600, stages.EVALUATION_SECONDS)
    stories = stages.STORIES_SHARE * (540 - reserved)
    assert 60 * sitting.minutes_left(stages.STORIES_SHARE) == pytest.approx(stories, abs=1)
    run.spent[stages.STORIES] = (100.0, 1.0)
    assert 60 * sitting.minutes_left(stages.STORIES_SHARE) == pytest.approx(stories - 100, abs=1)
    sitting.stage = stages.ANSWERS
    assert 60 * sitting.minutes_left(1.0) == pytest.approx(440 - reserved, abs=1)
    run.spent[stages.STORIES] = (9000.0, 1.0)
    assert sitting.minutes_left(1.0) == stages.LEAST_MINUTES

    training = runs.trainings.begin("slow", steps=None, minutes=0.1)
    training.keeps_minutes, step, planned = True, training.trainer.step, []

    def slower(total):
        began = time.perf_counter()
        step(total)
        if total is not None:
            planned.append(total)
            time.sleep(10 * (time.perf_counter() - began))

    monkeypatch.setattr(training.trainer, "step", slower)
    assert training_run.run(training, Silent()) and training.trainer.steps_done == training.total
    assert training.total < planned[0] / 2 or planned[0] < 60, "60 steps are few: then the machine is too busy for this test"


def test_a_run_with_minutes_finishes_all_stages(runs):
    finished = runs.finish("short", steps=None, minutes=0.3)
    run, progress = finished.record, finished.tuning.progress
    assert run.right and finished.training.trainer.steps_done > 2 and progress.rewards and progress.losses
    drawn = 2 * 3 * len(progress.rewards)  # two questions, three answers to each
    assert f"on {drawn:,} of its own answers in {len(progress.rewards):,} step" in model_card._describe_cost(finished)


# ---- intervals


def test_the_interval_is_that_of_the_mean_over_texts():
    torch.manual_seed(3)
    tokens = torch.randint(50, 150, (400,)).tolist()
    each = (torch.randn(400) + 2).tolist()
    values = [loss * count for loss, count in zip(each, tokens)]
    mean, low, high = bootstrap(values, tokens)
    assert mean == pytest.approx(sum(values) / sum(tokens)) and low < mean < high
    residuals = torch.tensor([value - mean * count for value, count in zip(values, tokens)])
    spread = 1.96 * float(residuals.square().sum().sqrt()) / sum(tokens)  # of a ratio of sums, to first order
    assert high - low == pytest.approx(2 * spread, rel=0.15)
    assert bootstrap([3.0] * 5, [2.0] * 5) == (1.5, 1.5, 1.5)
    half, whole = (bootstrap(values[:count], tokens[:count]) for count in (100, 400))
    assert (half[2] - half[1]) / (whole[2] - whole[1]) == pytest.approx(2, rel=0.3), "four times the texts, half the interval"
    assert bootstrap(values, tokens) == bootstrap(values, tokens)


# ---- rows of several runs


def row(folder: Path, name: str, losses: list[float], count: int, asked: int = 40, file: str = record.FILE, **changes) -> Path:
    """A finished run, as its file."""
    answers = {test: [k < count for k in range(asked)] for test in record.TESTS}
    nats = dict.fromkeys(record.MODELS, losses)
    run = Record(name, 0, 1.0, None, {"evaluation": (60.0, 9.0)}, ["GPT"], ["AdamW"], [], nats, [10] * len(losses), [30] * len(losses), answers)
    data = {key: value for key, value in vars(replace(run, **changes)).items() if key in record.VALUES}
    path = folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def test_runs_are_compared_on_the_same_stories_and_questions(trainings, tmp_path):
    base = [10.0 + k % 7 for k in range(60)]
    row(trainings.folder, "mine", base, 5)
    others = tmp_path / "class"
    row(others, "alpha", [loss - 1 for loss in base], 20)
    row(others, "beta", [loss - 1 + (0.2 if k % 2 else -0.19) for k, loss in enumerate(base)], 24, 44)
    row(others, "gamma", base, 1, characters=[31] * 60)
    row(others, ".", base, 5, file="delta.json")
    rows, left_out = record.read_rows([others])
    assert list(rows) == ["mine", "alpha", "beta", "delta", "gamma"] and left_out == []
    said = list(record.describe_rows(rows))
    assert said[0] == "alpha predicts the held-out stories best. The difference from beta may be chance."
    assert said[1] == "Measured on other stories, so not compared there: gamma."
    assert said[2] == "beta has the largest share of right answers after the rewards. The difference from alpha may be chance."
    again, _ = record.read_rows([others / "alpha" / record.FILE, others / "alpha"])
    assert list(again) == ["mine", "alpha"]


def test_files_that_are_no_rows_are_left_out_with_a_sentence(trainings, tmp_path):
    whole = json.loads(row(trainings.folder, "mine", [1.0, 2.0], 3).read_text())
    wrong = {
        "empty": "", "other": "[]", "table": "{}", "binary": "\x00", "deep": "[" * 100_000,
        "seed": json.dumps(whole | {"seed": -1}), "right": json.dumps(whole | {"right": {"before": []}}),
        "lengths": json.dumps(whole | {"tokens": [1]}), "infinite": json.dumps(whole | {"nats": {"tuned": [math.inf]}}),
        "missing": json.dumps({key: value for key, value in whole.items() if key != "nats"}), "open": json.dumps(whole | {"right": {}}),
    }  # fmt: skip
    paths = [tmp_path / f"{name}.json" for name in wrong]
    for path, text in zip(paths, wrong.values()):
        path.write_text(text)
    row(trainings.folder, "still running", [1.0, 2.0], 3, right={})
    rows, left_out = record.read_rows([*paths, tmp_path / "nowhere.json"])
    assert list(rows) == ["mine"] and len(left_out) == len(wrong) + 1
    assert "is of a run that is not finished" in left_out[-2] and "could not read" in left_out[-1]
    for path, sentence in zip(paths[:-1], left_out):
        assert path.name in sentence and "record of `headway capstone`" in sentence, sentence


def test_names_that_are_taken_unknown_or_damaged_are_sentences(trainings):
    with pytest.raises(CapstoneProblem, match="there is no capstone yet; `headway capstone` makes one"):
        record.find(None)
    path = row(trainings.folder, "mine", [1.0, 2.0], 3)
    with pytest.raises(CapstoneProblem, match="there is no capstone 'yours'; you have mine"):
        record.find("yours")
    with pytest.raises(CheckpointProblem, match="there is a checkpoint mine already"):
        stages.begin("mine", 0, 1.0, None)
    assert stages.begin(None, 0, 1.0, None).name == "capstone"
    assert record.find(None).name == "mine"
    open_one = row(trainings.folder, "open", [1.0, 2.0], 3, right={})
    assert record.find(None).name == "open"
    open_one.unlink()
    path.write_text(path.read_text()[:50])
    with pytest.raises(CapstoneProblem, match="mine.capstone.json is not JSON"):
        record.find("mine")


# ---- the page


@pytest.mark.thorough
@needs_chromium
def test_the_page_opens_without_errors_and_fits_every_width(runs, tmp_path):
    for steps in (1, 3):
        run = runs.finish(f"run-{steps}", steps=steps).record
        with Browser(tmp_path) as browser:
            for dark, colours in ((False, ["rgb(255, 255, 255)", "rgb(31, 35, 40)"]), (True, ["rgb(16, 19, 22)", "rgb(227, 231, 235)"])):
                page = browser.open(run.folder / model_card.PAGE, dark=dark)
                assert page.errors == [] and len(page.requests) == 1 and misfits(page) == []
                assert page.js("document.querySelectorAll('svg').length") == 4 and page.js("document.title") == f"{run.name}: model card"
                assert [page.js(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")] == colours


def test_the_page_of_the_book_says_what_the_command_does():
    """Its numbers are those of the code."""
    pages = ROOT / "grader" / "teaching" / "book" / "pages"
    said, train = (" ".join(read_source(pages / f"{name}.md").split()) for name in ("capstone", "train"))
    settings = stages.settings_of(Record("one", 0, stages.MINUTES, None))
    exercises = training_run.training_exercises(settings.design(), settings.recipe(), settings.token_kind())
    low, high = evaluation.wilson_interval(10, evaluation.HELD_OUT_QUESTIONS)
    task = tasks.TASKS["stories"]["format"]
    for part in (
        f"tests the {len(exercises | set(TUNING))} exercises", f"from {corpora.BPE_SAMPLE:,} characters", f"about {stages.MINUTES:g} minutes",
        f"{100 * stages.STORIES_SHARE:g} % of the time is for the pretraining", f"{record.RESAMPLES:,} random choices of {corpora.VALIDATION_STORIES} stories",
        f"10 of {evaluation.HELD_OUT_QUESTIONS} right answers the share is 10 %, and the interval goes from {100 * low:.0f} % to {100 * high:.0f} %",
        f"a test with {evaluation.HELD_OUT_QUESTIONS} questions", f"after {model_card.ENOUGH_STEPS} steps, and the tuning usually needs {task.enough[0]} steps",
        *(f"`{name}" for name in ("stories/`", "answers/`", model_card.PAGE, record.FILE)),
    ):  # fmt: skip
        assert part in said, part
    assert task.group == 8 and "draws eight answers" in said and f"headway train --steps {model_card.ENOUGH_STEPS}" in train
    assert len(set(task.enough)) == 1, "as many of rewards"
