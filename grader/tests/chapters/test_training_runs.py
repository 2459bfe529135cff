"""The training runs of `headway hunt --training`: each symptom is in the recordings at three seeds and in no right run."""

import json
import math

import pytest
from grader.chapters.training_runs.cases import AT_ONCE, CASES, uniform
from grader.chapters.training_runs.drawing import LOOKS, draw_at_once
from grader.chapters.training_runs.records import FOLDER, SEEDS, USUAL, read_records, usual_record
from grader.chapters.training_runs.setups import SETUPS
from grader.chapters.training_runs.training import train_and_look
from grader.course.known_mistakes import misconceptions
from grader.course.source import read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus
from rich.text import Text

WITH_SYMPTOM = [case for case in CASES if case.symptom]
SILENT = [case for case in CASES if not case.symptom]
USED_SETUPS = sorted({case.setup for case in CASES})
MOST_BYTES = 800_000
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.mistake)
each_symptom = pytest.mark.parametrize("case", WITH_SYMPTOM, ids=lambda case: case.mistake)


def plain(block):
    return "\n".join(part.plain if isinstance(part, Text) else part for part in block)


# ---- the cases


def test_there_are_more_than_twenty_cases_and_three_silent_ones():
    assert len(WITH_SYMPTOM) >= 20 and len(SILENT) == 3
    assert len({case.mistake for case in CASES}) == len(CASES)


@each_case
def test_a_case_is_a_known_mistake_whose_edit_fits(case):
    exercise = load_syllabus().exercise(case.exercise)
    assert exercise.module == case.module and case.setup in SETUPS and case.look in {AT_ONCE, *LOOKS}
    assert case.mistake in {mistake.id for mistake in misconceptions(case.module, case.exercise)}
    text = read_source(SOLUTIONS / f"{case.module}.py")
    changed = case.find_mistake().applied_to_chapter(text)
    assert changed != text and compile(changed, case.module, "exec")
    names = {exercise.name for exercise in load_syllabus().exercises}
    assert case.exercise not in case.also and {*case.also} <= names


def test_the_cases_are_about_many_exercises_and_are_seen_in_all_looks():
    assert len({case.exercise for case in CASES}) >= 18
    assert {case.look for case in WITH_SYMPTOM} == {AT_ONCE, *LOOKS}


# ---- the recordings


def test_the_recordings_are_those_of_the_cases_and_setups_and_small():
    assert {path.stem for path in FOLDER.iterdir()} == {f"right_{name}" for name in USED_SETUPS} | {case.mistake for case in CASES}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", [*(f"right_{setup}" for setup in USED_SETUPS), *(case.mistake for case in CASES)])
def test_a_recording_is_whole_and_can_be_drawn_in_80_columns(name):
    setup = SETUPS[name.removeprefix("right_") if name.startswith("right_") else next(case.setup for case in CASES if case.mistake == name)]
    runs = read_records(name)
    assert len(runs) == len(SEEDS) + (name == f"right_{setup.name}")
    assert len({json.dumps(run) for run in runs}) == len(runs), "the seeds give different runs"
    for run in runs:
        curves = run["curves"]
        assert len({len(curves[each]) for each in ("step", "train", "norm", "rate", "moved")}) == 1
        assert len(curves["check"]) == len(curves["validation"]) > 10
        assert ("experts" in run) == setup.experts
        looks = [draw for look, (_, draw) in LOOKS.items() if look != "cache" or not setup.experts]
        for draw in (draw_at_once, *looks):
            block = draw(run, usual_record(setup.name))
            assert plain(block) and all(part.cell_len <= 80 for part in block if isinstance(part, Text))


@each_symptom
def test_a_symptom_is_there_at_three_seeds_and_in_no_right_run(case):
    for run in read_records(case.mistake):
        assert case.symptom(run, usual_record(case.setup))
    for setup in USED_SETUPS:
        for run in read_records(f"right_{setup}")[:USUAL]:
            assert not case.symptom(run, usual_record(setup)), setup


@each_symptom
def test_the_number_of_a_case_is_outside_of_the_right_runs(case):
    """By a tenth of it or more, because another machine computes other losses."""
    right = [case.number.of(run) for run in read_records(f"right_{case.setup}")]
    mine = [case.number.of(run) for run in read_records(case.mistake)]
    below, above = max(mine) < min(right) * 0.9, min(mine) > max(right) * 1.1
    assert below or above, (mine, right)


@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.mistake)
def test_a_silent_case_shows_no_symptom(case):
    for run in read_records(case.mistake):
        assert [other.mistake for other in WITH_SYMPTOM if other.symptom(run, usual_record(case.setup))] == []
        right = [other["curves"]["validation"][-1] for other in read_records(f"right_{case.setup}")]
        assert min(right) - 0.1 < run["curves"]["validation"][-1] < max(right) + 0.1


def test_what_is_said_of_other_numbers_than_the_shown_one_is_true():
    usual = usual_record("plain")
    for run in read_records("step_no_zero_grad"):
        assert run["activations"]["end"]["block 2"] > 2.5 * usual["activations"]["end"]["block 2"]
    for run in read_records("adam_decay_without_lr"):
        assert min(run["curves"]["validation"]) + 1 < run["curves"]["validation"][-1] < uniform(run)
    for run in read_records("gpt_begins_with_std_one"):
        assert run["curves"]["norm"][0] > 5 * usual["curves"]["norm"][0]
    for run in read_records("gpt_no_table_added"):
        assert run["cache"]["apart"] > 1 and abs(run["curves"]["validation"][-1] - usual["curves"]["validation"][-1]) < 0.2
    for run in read_records("balance_cut_off"):
        assert min(map(min, run["experts"])) < 0.15
    for name in ("causal_sees_the_next", "softmax_over_queries", "batch_targets_filled_with_pad_id", "merge_not_swapped"):
        assert all(run["curves"]["validation"][-1] < right["curves"]["validation"][-1] for run, right in zip(read_records(name), read_records("right_plain")))


# ---- training again


@pytest.mark.thorough
@each_case
def test_a_training_shows_the_symptom_again(case):
    run = train_and_look(SETUPS[case.setup], case.find_mistake(), SEEDS[0])
    shown = [other.mistake for other in WITH_SYMPTOM if other.symptom(run, usual_record(case.setup))]
    assert case.mistake in shown if case.symptom else shown == []


@pytest.mark.thorough
@pytest.mark.parametrize("setup", USED_SETUPS)
def test_a_right_training_shows_no_symptom(setup):
    run = train_and_look(SETUPS[setup], None, SEEDS[0])
    assert [case.mistake for case in WITH_SYMPTOM if case.symptom(run, usual_record(setup))] == []
    assert math.isfinite(run["samples"]["loss"])
