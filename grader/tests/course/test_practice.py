"""`headway again`: a passed exercise is written once more in a scratch file, and comes back after 3, 10, 30 and 90 days."""

import json
import re
from datetime import date, timedelta

import pytest
from grader.course.practice import stub_alone
from grader.course.progress import Score
from grader.course.source import definition, read_source, replace_definition
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.target import Target
from grader.runner.judging import run_exercise

EXERCISES = load_syllabus().exercises
NAMED_IN_A_DEFINITION = ("load_gpt2", "generate_cached", "generate_batch")  # other exercises of the chapter, in annotations
SAMPLE = [*EXERCISES[::20], *map(load_syllabus().exercise, NAMED_IN_A_DEFINITION)]


@pytest.fixture
def passed(kit):
    """A kit in which chapter 4 is right and recorded; and a function that says what practice.json has."""
    kit.solve("ch04_positions_in_attention")
    kit.pass_chapter("ch04")
    return kit


def saved(kit):
    return json.loads((kit.exercises / ".headway" / "again" / "practice.json").read_text())


def scratch(kit, name):
    return kit.exercises / ".headway" / "again" / name / "ch04_positions_in_attention.py"


def write_right(kit, name):
    """The reference's code, in the scratch file."""
    path = scratch(kit, name)
    code = definition(read_source(SOLUTIONS / path.name), name).text
    path.write_text(replace_definition(read_source(path), name, code), encoding="utf-8")


@pytest.mark.parametrize("exercise", [pytest.param(each, marks=() if each in SAMPLE else pytest.mark.thorough, id=each.name) for each in EXERCISES])
def test_a_scratch_file_has_one_stub_and_passes_when_it_is_written(exercise):
    text = stub_alone(exercise)
    assert text.count("raise NotImplementedError") == definition(text, exercise.name).text.count("raise NotImplementedError") > 0
    code = definition(read_source(SOLUTIONS / f"{exercise.module}.py"), exercise.name).text
    assert run_exercise(exercise, Target("scratch", texts={exercise.module: replace_definition(text, exercise.name, code)})).outcome == "passed"


def test_an_exercise_is_written_again_without_touching_the_learners_chapters(passed):
    before = passed.file("ch04_positions_in_attention").read_bytes(), (passed.exercises / "progress.txt").read_bytes()
    said = passed.run("again", "alibi_slopes")
    assert re.search(r"exercises[/\\]\.headway[/\\]again[/\\]alibi_slopes[/\\]ch04_positions_in_attention\.py:\d+", said)
    assert "alibi_slopes is still the stub." in passed.run("again", status=1)
    assert "try it first without hints" in " ".join(passed.run("hint", "alibi_slopes", status=1).split())
    file = scratch(passed, "alibi_slopes")
    file.write_text(file.read_text().replace("raise NotImplementedError", "return torch.ones(n_heads)"), encoding="utf-8")
    wrong = passed.run("again", status=1)
    assert "FAILED" in wrong and "points" not in wrong and "headway again alibi_slopes" in wrong
    assert "hint 1 of 3" in passed.run("hint", "alibi_slopes")
    assert "For a hint: headway hint alibi_slopes" in wrong and "headway show" not in wrong
    file.write_text(file.read_text().replace("(n_heads)", "(n_heads"), encoding="utf-8")
    assert "Fix this first, then run again:" in passed.run("again", status=1), "it is not counted as a test"
    file.write_text(stub_alone(load_syllabus().exercise("alibi_slopes")), encoding="utf-8")
    write_right(passed, "alibi_slopes")
    due = (date.today() + timedelta(days=10)).isoformat()
    assert f"alibi_slopes works again, after 2 test runs. It is due next on {due}." in " ".join(passed.run("again").split())
    assert (passed.file("ch04_positions_in_attention").read_bytes(), (passed.exercises / "progress.txt").read_bytes()) == before
    assert not file.exists()
    [kept] = (passed.exercises / ".headway" / "kept").glob("*alibi_slopes.again*")
    assert "raise NotImplementedError" not in kept.read_text()


def test_what_is_due_comes_back_after_3_10_30_and_90_days_and_two_a_day(passed):
    from grader.course import practice

    scores = {exercise.name: Score(exercise.points, exercise.points) for exercise in load_syllabus().chapter("ch04").exercises}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(practice, "FOLDER", passed.exercises / ".headway" / "again")
        patch.setattr(practice, "keep", lambda stem, data: "")
        today = date(2030, 1, 1)
        assert practice.Practices(scores, today).due() == []
        for waited, done in ((3, 10), (10, 30), (30, 90), (90, 90)):
            assert all(each.name != "apply_rope" for each in practice.Practices(scores, today + timedelta(days=waited - 1)).due())
            today += timedelta(days=waited)
            practices = practice.Practices(scores, today)
            [apply_rope] = [each for each in practices.passed if each.name == "apply_rope"]
            assert len(practices.due()) == 2
            practices.begin(apply_rope, timed=False)
            assert practices.begun() == [apply_rope]
            practices.tested(apply_rope, passed=True)
            assert practices.by_name["apply_rope"].due == (today + timedelta(days=done)).isoformat()
            assert len(practice.Practices(scores, today).due()) == 1, "one of today's two is done"


def test_a_timed_run_keeps_its_time_and_its_tests_in_a_table(passed):
    assert "The clock runs." in passed.run("again", "rope_angles", "--timed")
    write_right(passed, "rope_angles")
    assert re.search(r"rope_angles +\d{4}-\d\d-\d\d +\d+\.\d +1 *\n", passed.run("again"))
    assert re.search(r"rope_angles +\d{4}-\d\d-\d\d +\d+\.\d +1 *\n", passed.run("again"))
    assert saved(passed)["rope_angles"]["times"] == 1


def test_the_status_page_names_what_is_due(passed):
    passed.run("again")
    data = saved(passed)
    for name in ("apply_rope", "alibi_bias"):
        data[name]["due"] = date.today().isoformat()
    (passed.exercises / ".headway" / "again" / "practice.json").write_text(json.dumps(data))
    assert "apply_rope and alibi_bias are due to be written once more: headway again" in " ".join(passed.run().split())
    assert "Write apply_rope once more" in passed.run("again")


def test_what_is_not_passed_is_refused_and_a_damaged_file_begins_again(passed):
    assert "You have not passed softmax yet" in passed.run("again", "softmax", status=1)
    folder = passed.exercises / ".headway" / "again"
    for damaged in ("{", "[]", '{"apply_rope": {"due": 3}}', '{"apply_rope": {"due": "2030-01-01", "rows": [["x"]]}}', "[" * 100_000):
        (folder / "practice.json").write_text(damaged)
        assert "Nothing is due today." in passed.run("again")
