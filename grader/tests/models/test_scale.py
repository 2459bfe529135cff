"""`headway scale`: a planted law goes through the code of the real experiment; small real trainings; the sentences."""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from grader.chapters.ch19_data_and_scale.scaling import experiment
from grader.chapters.ch19_data_and_scale.scaling import trainings as trainings_module
from grader.chapters.ch19_data_and_scale.scaling.experiment import EXERCISES, run
from grader.chapters.ch19_data_and_scale.scaling.plan import (
    SMALLEST_BUDGET_FLOPS,
    TRIED_SIZES,
    ScaleProblem,
    Size,
    make_plan,
    middle,
)
from grader.chapters.ch19_data_and_scale.scaling.record import Trained, path_of
from grader.chapters.ch19_data_and_scale.scaling.report import describe, draw
from grader.chapters.ch19_data_and_scale.scaling.trainings import Trainings
from grader.console.output import hide_progress
from grader.course.syllabus import load_syllabus
from grader.files import UserProblem
from grader.models import checkpoint
from grader.models.training import corpora
from grader.teaching.walks.parts import MixedChapters
from rich.table import Table

SPEED = (2e-5, 5e-11)  # seconds a token and a FLOP, of one processor


@pytest.fixture(scope="module")
def parts():
    parts = MixedChapters(EXERCISES, ())
    yield parts
    parts.close()


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "CHECKPOINTS", tmp_path)
    return tmp_path / "scale"


class Planted:
    """Trains nothing: the loss is a law of parameters and tokens, with a little noise of the seed."""

    def __init__(self, parts, law=lambda n, d: 1.2 + 20 / n**0.4 + 87 / d**0.4, fails_after=10**9) -> None:
        self.parts, self.law, self.seed, self.fails_after, self.made = parts, law, 0, fails_after, []
        self.sizes = [Size(width, 600 * width + 24 * width**2, 6 * (600 * width + 24 * width**2)) for width in range(4, 257)]

    def measure_speed(self):
        return SPEED

    def train(self, run, report_progress):
        if len(self.made) == self.fails_after:
            raise KeyboardInterrupt
        self.made.append(run)
        tokens, noise = round(run.tokens), 0.004 * (run.seed % 3)
        seconds = run.tokens * SPEED[0] + run.budget * SPEED[1]
        loss = self.law(run.size.parameters, tokens) + noise
        return Trained(run.budget, run.size.parameters, run.seed, tokens, loss, seconds)


def said(found) -> str:
    parts = list(describe(found, lambda loss: loss / math.log(2) / 4))
    assert sum(isinstance(part, Table) for part in parts) == 3
    return " ".join(part for part in parts if isinstance(part, str))


# ---- a planted law


def test_a_planted_law_is_found_predicted_and_confirmed(parts):
    """At equal powers, the loss at C = 6 N D is least where 20 / N^0.4 = 87 / D^0.4; N and D grow like C^0.5."""
    planted = Planted(parts)
    found = run(planted, 15, hide_progress)
    assert len(planted.made) == 2 * 15 + 2 == len(set(planted.made))  # the last one does not fit into the time
    budget = planted.made[-1].budget
    best = math.sqrt(budget / 6 * (20 / 87) ** (1 / 0.4))
    lowest = planted.law(best, budget / 6 / best)
    assert found.exponents == pytest.approx((0.5, 0.5), abs=0.03)
    assert found.parameters == pytest.approx(best, rel=0.1) and found.tokens == pytest.approx(budget / 6 / best, rel=0.1)
    assert found.loss == pytest.approx(lowest, abs=0.01)
    test, *beside = found.tests
    assert test.parameters == pytest.approx(best, rel=0.15) and all(one.loss > test.loss + 0.01 for one in beside)
    assert re.search(r"parameters grows like C\^0\.(49|5\d), that of tokens like C\^0\.(4\d|5\d)", said(found))
    assert said(found).count("worse") == 1 and "standard deviation of 0.003" in said(found)
    assert "outside" not in said(found)


def test_a_law_that_breaks_beyond_the_budgets_is_reported_as_it_is(parts):
    planted = Planted(parts)
    planted.law = lambda n, d, law=planted.law: law(n, d) + 0.3 * (n * d * 6 > 1.1 * made_plan.budgets[2])
    made_plan = make_plan(15, 0, SPEED, planted.sizes)
    text = said(run(planted, 15, hide_progress))
    assert re.search(r"is 0\.(29|30|31)\d above the prediction", text)


def test_the_plan_fits_into_the_time_and_uses_it(parts):
    planted = Planted(parts)
    plans = [make_plan(minutes, 0, SPEED, planted.sizes) for minutes in (10, 15, 60)]
    assert plans[0].first < plans[1].first < plans[2].first
    for minutes, plan in zip((10, 15, 60), plans):
        runs = [*chain(*plan.curves()), *plan.tests(middle(plan.budgets[3]))[:2]]
        assert 0.75 * minutes < plan.seconds(runs) / 60 < minutes
        assert len({(one.budget, one.size) for one, _ in plan.curves()}) == 3 * len(TRIED_SIZES)
    slower = make_plan(60, 0, (4 * SPEED[0], 4 * SPEED[1]), planted.sizes)
    assert slower.first == plans[1].first, "a quarter of the speed needs four times as long"


def test_the_last_trainings_are_left_out_if_no_time_is_left(parts, monkeypatch):
    planted = Planted(parts)
    true = planted.train
    monkeypatch.setattr(planted, "train", lambda *given: Trained(**vars(true(*given)) | {"seconds": 100.0}))
    found = run(planted, 15, hide_progress)
    assert len(found.tests) == 1 and "times as many" not in said(found)


# ---- interrupted, and run again


def test_an_interrupted_experiment_goes_on_and_ends_alike(parts, folder):
    whole = said(run(Planted(parts), 15, hide_progress))
    path_of(15, 0).unlink()
    stopped = Planted(parts, fails_after=5)
    with pytest.raises(KeyboardInterrupt):
        run(stopped, 15, hide_progress)
    assert len(json.loads(path_of(15, 0).read_text())["trained"]) == 5
    rest = Planted(parts)
    assert said(run(rest, 15, hide_progress)) == whole and len(rest.made) == 32 - 5
    again = Planted(parts)
    assert said(run(again, 15, hide_progress)) == whole and again.made == []
    assert [path.name for path in folder.iterdir()] == ["minutes-15-seed-0.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"first": 1e10, "speed": [1], "trained": []}', '{"first": 1, "speed": [1, 1], "trained": [{}]}'])
def test_a_damaged_record_is_a_sentence(parts, folder, content):
    folder.mkdir()
    path_of(15, 0).write_text(content)
    with pytest.raises(ScaleProblem, match="(is damaged|it must be|does not say).*; delete it"):
        run(Planted(parts), 15, hide_progress)


def test_too_little_time_is_a_sentence_with_a_command_that_works(parts, folder):
    planted = Planted(parts)
    for minutes, says in ((0.5, "0.5 minutes are too short"), (1, "1 minute is too short")):
        with pytest.raises(ScaleProblem, match=rf"^{says} at the present speed of this machine: .* about \d+ minutes; give more time: `headway scale --minutes (\d+)`$") as problem:
            run(planted, minutes, hide_progress)
    advised = int(re.search(r"--minutes (\d+)`", str(problem.value))[1])
    assert make_plan(advised, 0, SPEED, planted.sizes).first >= SMALLEST_BUDGET_FLOPS and not folder.exists()
    with pytest.raises(ScaleProblem, match="`headway scale --seed 3 --minutes"):
        make_plan(0.5, 3, SPEED, planted.sizes)


def test_the_default_is_accepted_on_a_slow_machine(parts, folder):
    planted, announced = Planted(parts), []
    planted.measure_speed = lambda: (40 * SPEED[0], 40 * SPEED[1])
    run(planted, None, hide_progress, announced.append)
    assert re.fullmatch(r"At its present speed, this machine needs about \d+ minutes instead of 15, because even the smallest trainings take so long.", *announced)
    assert planted.made[0].budget == SMALLEST_BUDGET_FLOPS and [path.name for path in folder.iterdir()] == ["minutes-15-seed-0.json"]
    (folder / "minutes-15-seed-0.json").unlink()
    run(Planted(parts), None, hide_progress, announced.append)
    assert re.fullmatch(r"At its present speed, this machine needs about 1[0-5] minutes\.", announced[1])



def test_losses_without_a_lowest_point_are_a_sentence(parts):
    with pytest.raises(ScaleProblem, match=r"the losses of the budget \S+ have no lowest point; try another --seed or more --minutes"):
        run(Planted(parts, lambda n, d: 3 - 0.1 * math.log(n) ** 2 / 100), 15, hide_progress)


# ---- the picture


def test_the_picture_has_every_training_as_a_dot(parts):
    svg = draw(run(Planted(parts), 15, hide_progress))
    assert svg.count("<circle") == 15 + 1 + 2 + 5  # and one for each name of dots
    assert svg.count("<polyline") == 2 * 4 and "prefers-color-scheme:dark" in svg


# ---- real trainings


@pytest.fixture(scope="module")
def trainings(parts):
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("VOCABULARY_STORIES", 300), ("VALIDATION_STORIES", 8)):
            patch.setattr(corpora, name, size)
        patch.setattr(trainings_module, "WIDTHS", (4, 8, 16, 32, 64))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield Trainings(parts, 0)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)


def test_a_real_training_costs_its_budget_and_repeats_with_its_seed(parts, trainings):
    plan = experiment.Plan(1e8, 0, SPEED, trainings.sizes)
    planned, other = plan.run(3e8, 20_000), plan.run(3e8, 20_000, repeat=1)
    one, again, changed = (trainings.train(each, hide_progress) for each in (planned, planned, other))
    assert one.tokens * planned.size.flops == pytest.approx(3e8, rel=0.15)
    assert one.loss == again.loss != changed.loss and one.tokens == again.tokens
    assert 3 < one.loss < math.log(trainings.corpus.tokenizer.vocab_size)
    model = trainings.make_trainer(planned.size, 0).model
    assert planned.size.parameters == parts.count_parameters(model)
    a_token, a_flop = trainings.measure_speed()
    assert a_token >= 0 and a_flop >= 0 and a_token + a_flop > 0


def test_bits_a_byte_count_the_bytes_of_the_held_out_stories(parts, trainings):
    texts = corpora.held_out_stories(parts, 0)
    tokens = sum(len(trainings.corpus.tokenizer.encode(text)) + 1 for text in texts)  # and the end of each
    bits = trainings.bits_per_byte(math.log(2)) * sum(len(text.encode()) for text in texts)
    assert bits == pytest.approx(tokens)


def test_a_handout_without_the_chapter_is_a_sentence(monkeypatch):
    from grader.models import own_parts

    course = load_syllabus()
    exercises = tuple(exercise for exercise in course.exercises if exercise.module < "ch19")
    monkeypatch.setattr(own_parts, "load_syllabus", lambda: SimpleNamespace(exercises=exercises))
    with pytest.raises(UserProblem, match="this needs bits_per_byte, .* are not in this handout"):
        own_parts.find_own_parts(EXERCISES, hide_progress)
