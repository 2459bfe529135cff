"""`headway hunt --training`: a run is shown, five further looks are counted, and an exercise is named."""

import json
import re

import pytest
from grader.chapters.training_runs.cases import CASES, in_hunt_order
from grader.chapters.training_runs.drawing import LOOKS, draw_page
from grader.chapters.training_runs.records import read_records, usual_record
from grader.chapters.training_runs.setups import SETUPS
from grader.cli.commands.hunt_training import ANSWERS, BUDGET, NOTHING

ORDER = in_hunt_order(CASES)
FIRST = next(case for case in ORDER if case.symptom and not SETUPS[case.setup].experts)
WRONG = ("kv_cache_bytes", "build_vocab", "minhash")  # exercises that no case is about


def hunt(kit, *arguments, **more):
    return kit.run("hunt", "--training", *arguments, **more)


def sentences(text):
    return " ".join(text.split())


def state_file(kit):
    return kit.exercises / ".headway" / "hunts" / "training.json"


def saved(kit):
    return json.loads(state_file(kit).read_text())


def open_case(kit, case, **more):
    """Write the state of a learner who has this case before them, and had all others."""
    state_file(kit).parent.mkdir(parents=True, exist_ok=True)
    over = [other.mistake for other in ORDER if other is not case]
    state_file(kit).write_text(json.dumps({"over": over, "found": over, "case": case.mistake} | more))


def test_a_run_is_shown_and_shown_again_until_it_is_named(kit):
    first = hunt(kit)
    assert f"Run 1 of {len(CASES)}" in first and "loss in training" in first and "Samples of this run" in first
    assert "You may ask for 5 of these looks" in first and "headway hunt --training --look NAME" in first
    assert ORDER[0].mistake not in first and ORDER[0].exercise not in first
    assert hunt(kit) == first
    assert saved(kit)["case"] == ORDER[0].mistake
    assert sentences(hunt(kit, "--name", ORDER[0].exercise)).startswith("Right: it is")
    assert f"Run 2 of {len(CASES)}" in hunt(kit)


def test_looks_are_counted_once_each_and_end_with_the_budget(kit):
    open_case(kit, FIRST)
    names = list(LOOKS)
    assert "You may ask for 4 of these looks" in hunt(kit, "--look", names[0])
    assert "You may ask for 4 of these looks" in hunt(kit, "--look", names[0])
    for name in names[1:BUDGET]:
        hunt(kit, "--look", name)
    assert saved(kit)["looks"] == names[:BUDGET]
    assert "all 5 looks are used" in hunt(kit, "--look", names[BUDGET], status=1)
    assert "You have had all looks" in hunt(kit, "--look", names[1]), "what was seen may be seen again"
    assert "You used 5 looks of 5." in sentences(hunt(kit, "--name", FIRST.exercise))


def test_every_look_is_shown_and_experts_have_no_cache(kit):
    for case in (FIRST, next(case for case in CASES if SETUPS[case.setup].experts)):
        for name in LOOKS:
            open_case(kit, case)
            if name == "cache" and SETUPS[case.setup].experts:
                assert "its code has no cache; the look was not counted" in hunt(kit, "--look", name, status=2)
                assert saved(kit).get("looks", []) == []
            else:
                assert "You may ask for 4 of these looks" in hunt(kit, "--look", name)


def test_a_wrong_answer_says_so_and_the_last_one_tells_what_it_was(kit):
    open_case(kit, FIRST)
    first = sentences(hunt(kit, "--name", WRONG[0], status=1))
    assert f"No: {WRONG[0]} is right in this run. You can answer 2 more times." in first and FIRST.exercise not in first
    assert "You can answer 2 more times." in sentences(hunt(kit, "--name", WRONG[0], status=1)), "the same answer counts once"
    nothing = sentences(hunt(kit, "--name", NOTHING, status=1))
    assert "No: a look at this run shows that something is wrong. You can answer 1 more time." in nothing
    last = sentences(hunt(kit, "--name", WRONG[1], status=1))
    assert f"It is {FIRST.exercise}." in last and sentences(FIRST.shows) in last and ANSWERS == 3
    assert saved(kit)["case"] == "" and FIRST.mistake in saved(kit)["over"] and FIRST.mistake not in saved(kit)["found"]


def test_a_right_answer_says_what_was_wrong_and_what_shows_it(kit):
    open_case(kit, FIRST)
    said = sentences(hunt(kit, "--name", FIRST.exercise))
    assert f"Right: it is {FIRST.exercise}." in said and sentences(FIRST.find_mistake().says) in said
    assert sentences(FIRST.shows) in said and "You used 0 looks of 5." in said
    assert f"There are no more runs. You found {len(CASES)} of {len(CASES)}." in sentences(hunt(kit))


def test_an_exercise_with_the_same_symptom_counts(kit):
    case = next(case for case in CASES if case.also)
    open_case(kit, case)
    said = sentences(hunt(kit, "--name", case.also[0]))
    assert f"Right: a mistake in {case.also[0]} could look the same, so this counts. Here it is in {case.exercise}." in said


def test_nothing_is_the_answer_to_a_silent_run_and_only_a_test_finds_it(kit):
    for case in (case for case in CASES if not case.symptom):
        open_case(kit, case)
        said = sentences(hunt(kit, "--name", "Nothing"))
        assert "Right: this run shows nothing wrong." in said and "A test finds it at once." in said
        assert case.exercise in said and sentences(case.find_mistake().says) in said
        open_case(kit, case, wrong=list(WRONG[:2]))
        said = sentences(hunt(kit, "--name", WRONG[2], status=1))
        assert f"The answer is `{NOTHING}`. {case.exercise} is wrong all the same, but what shows is too little to notice." in said


def test_a_misspelt_look_or_exercise_gets_one_sentence_with_a_suggestion(kit):
    open_case(kit, FIRST)
    before = state_file(kit).read_bytes()
    assert sentences(hunt(kit, "--look", "atention", status=2)) == "headway: there is no look called 'atention'; did you mean attention?"
    assert "did you mean softmax?" in sentences(hunt(kit, "--name", "sofmax", status=2))
    assert state_file(kit).read_bytes() == before


@pytest.mark.parametrize("option", [("--look", "batch"), ("--name", "softmax")])
def test_without_an_open_run_there_is_nothing_to_look_at(kit, option):
    assert "no training run is open" in hunt(kit, *option, status=2)
    assert not state_file(kit).exists()


DAMAGED = ["", "{", "[]", "3", '{"over": 3}', '{"unknown": 1}', '{"case": "no_such_mistake"}', '{"looks": [1]}', json.dumps({"case": FIRST.mistake, "live": {"curves": 3}}), "\0" * 9, "[" * 10**5]


def test_a_damaged_file_is_an_empty_one(kit):
    state_file(kit).parent.mkdir(parents=True)
    for text in DAMAGED:
        state_file(kit).write_text(text)
        assert f"Run 1 of {len(CASES)}" in hunt(kit), text[:60]
        assert saved(kit)["case"] == ORDER[0].mistake


def test_the_learners_code_and_points_stay_as_they_are(kit):
    kit.record(softmax=1)
    before = {path: path.read_bytes() for path in kit.exercises.glob("*.*") if path.is_file()}
    hunt(kit)
    hunt(kit, "--name", ORDER[0].exercise)
    assert {path: path.read_bytes() for path in before} == before and state_file(kit).is_file()


@pytest.mark.thorough
def test_a_live_run_trains_and_its_looks_are_its_own(kit):
    case = next(case for case in CASES if case.mistake == "gpt_tied_by_copy")
    open_case(kit, case)
    recorded = hunt(kit)
    live = hunt(kit, "--live")
    assert "training a small GPT" in live and live != recorded and saved(kit)["live"]["curves"]
    assert case.symptom(saved(kit)["live"], {"figures": {"weights": 287_000}})
    assert "loss in training" in hunt(kit) and hunt(kit) in live, "later commands show the live run"


def test_what_is_seen_at_once_is_a_page_too(kit):
    open_case(kit, FIRST)
    assert "The same as a page, with larger curves: exercises/hunts/training.html" in sentences(hunt(kit))
    page = (kit.exercises / "hunts" / "training.html").read_text()
    assert page.count("<svg") == 3 and "samples that end" in page and "this run" in page and "last week" in page
    assert not re.search(r"https?:|<script|<image|@import", page.replace("http://www.w3.org/2000/svg", ""))


def test_every_run_has_a_page_also_one_that_becomes_nan():
    for case in CASES:
        for run in read_records(case.mistake):
            assert draw_page(run, usual_record(case.setup)).count("<svg") == 3
