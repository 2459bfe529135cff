"""What is printed about one exercise: what a terminal has room for, and elsewhere every part of it."""

from grader.course.syllabus import load_syllabus
from grader.runner.graded_run import mark_leading_test
from grader.runner.run_page import LINES_AROUND, MAX_EXERCISE_LINES, Page, print_result
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult

ROWS = "\n".join(f"[{number}.0, {number}.5, 0.25, 0.125]," for number in range(12))
DIAGNOSIS = Diagnosis("twice", "A long sentence about what went wrong here. " * 4, "A question about it, long enough for two lines of the page? " * 2)


def page_of(details, diagnosis=None, tests=9, width=80, height=24, **options):
    named = [TestResult(f"test_number_{number}", "failed", 0.0, 1.0, "p", "m", "", details if number == 0 else None) for number in range(tests)]
    result = ExerciseResult(load_syllabus().exercise("softmax"), named, diagnosis)
    mark_leading_test(result)
    lines = []
    print_result(Page(lambda text, **_: lines.append(text), width, height), result, **options)
    return lines


OTHER = ROWS.replace("7.0", "7.1")
TALL = Failure(
    "A promise of three lines. " * 8, "B=2 T=3", ["softmax(\n" + ROWS, "argument 1 =\n" + ROWS], "A problem. " * 30, ROWS, OTHER, "at [0]", "It is twice. " * 9,
    "ch03_attention.py, line 3:  x", "printed\n" * 40,
)  # fmt: skip


def test_a_page_fits_into_its_terminal():
    assert len(page_of(TALL, DIAGNOSIS, tests=3)) <= MAX_EXERCISE_LINES == 25
    assert len(page_of(TALL, width=60)) <= MAX_EXERCISE_LINES
    higher = page_of(TALL, DIAGNOSIS, height=50)
    assert MAX_EXERCISE_LINES < len(higher) <= 50 - LINES_AROUND
    everything = page_of(TALL, DIAGNOSIS, tests=3, height=0)  # a pipe or a file
    assert [line.split()[0] for line in everything if line.startswith("            [7.")] == ["[7.0,"] * 3 + ["[7.1,"]  # two arguments, got, expected
    assert not any(line.endswith(" …") and "printed" not in line for line in everything)


def test_what_is_left_of_two_values_differs():
    for height in (24, 30, 40):
        lines = page_of(TALL, DIAGNOSIS, height=height)
        got, expected = (next(line[12:] for line in lines if line.startswith(f"  {label}")) for label in ("got     ", "expected"))
        assert got != expected and "7.0" in got and "7.1" in expected, lines


def test_a_long_page_is_whole_with_verbose():
    verbose = page_of(TALL, DIAGNOSIS, verbose=True)
    assert len(verbose) > 60 and "  called    softmax(" in verbose and not any(line.endswith("…") for line in verbose[:20])


def test_a_short_page_is_not_shortened():
    lines = page_of(Failure("A promise.", "T=3", ["softmax(x)", "x = 1", "y = 2", "z = 3"], "A problem.", "1", "2"), tests=4)
    assert [line.strip() for line in lines if "= " in line] == ["x = 1", "y = 2", "z = 3"] and not any("…" in line for line in lines)
    assert sum("also failed" in line for line in lines) == 3 and any("headway show softmax" in line for line in lines)


def test_a_relation_that_only_locates_is_left_out_beside_a_diagnosis():
    said = ["Each row should sum to one; here the whole tensor does.", "Only row 1 is wrong."]
    details = Failure("p", explanation=" ".join(said), only_locates=said[1])
    assert any("Only row 1" in line for line in page_of(details))
    beside = "\n".join(page_of(details, DIAGNOSIS))
    assert "the whole tensor does." in beside and "Only row 1" not in beside
    for both in (said, said[::-1]):
        assert Failure("p", explanation=" ".join(both), only_locates=said[1]).without_places().explanation == said[0]
    assert Failure("p", explanation=said[1], only_locates=said[1]).without_places().explanation == ""


def problem_of(outcomes, **options):
    """What is shown as the problem of the first failed test."""
    named = [TestResult(test, outcome, 0.0, 1.0, "p", "m", "", Failure("p", message="It is wrong.") if outcome == "failed" else None) for test, outcome in outcomes.items()]
    result = ExerciseResult(load_syllabus().exercise("softmax"), named, **options)
    mark_leading_test(result)
    return result.failures[0].details.message


def test_where_one_thing_is_wrong_the_page_says_that_the_rest_is_right():
    right = "It is wrong. Everything else is right: the other 2 tests pass."
    assert problem_of({"test_a": "passed", "test_b": "failed", "test_c": "passed"}) == right
    assert problem_of({"test_a": "passed", "test_an_error": "failed", "test_c": "passed", "test_a_dtype": "failed"}) == right
    for outcomes in (
        {"test_a": "passed", "test_b": "failed", "test_c": "passed", "test_d": "failed"},
        {"test_a": "passed", "test_b": "failed", "test_c": "todo"},
        {"test_a": "failed", "test_b": "passed"},
    ):
        assert problem_of(outcomes) == "It is wrong."
    assert problem_of({"test_a": "passed", "test_b": "failed", "test_c": "passed"}, partial=True) == "It is wrong."
