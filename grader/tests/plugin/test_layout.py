"""What is printed about one exercise: at most 25 lines, and every part of it that fits."""

from grader.course.syllabus import load_syllabus
from grader.runner.graded_run import mark_leading_test
from grader.runner.layout import MAX_EXERCISE_LINES, Page, print_result
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult

ROWS = "\n".join(f"[{number}.0, {number}.5, 0.25, 0.125]," for number in range(12))
DIAGNOSIS = Diagnosis("twice", "A long sentence about what went wrong here. " * 4, "A question about it, long enough for two lines of the page? " * 2)


def page_of(details, diagnosis=None, tests=9, width=80, **options):
    named = [TestResult(f"test_number_{number}", "failed", 0.0, 1.0, "p", "m", "", details if number == 0 else None) for number in range(tests)]
    result = ExerciseResult(load_syllabus().exercise("softmax"), named, diagnosis)
    mark_leading_test(result)
    lines = []
    print_result(Page(lambda text, **_: lines.append(text), width), result, **options)
    return lines


def test_the_longest_page_has_25_lines():
    tall = Failure(
        "A promise of three lines. " * 8, "B=2 T=3", ["softmax(\n" + ROWS, "argument 1 =\n" + ROWS], "A problem. " * 30, ROWS, ROWS, "at [0]", "It is twice. " * 9,
        "ch03_attention.py, line 3:  x", "printed\n" * 40,
    )  # fmt: skip
    assert len(page_of(tall, DIAGNOSIS, tests=3)) <= MAX_EXERCISE_LINES == 25
    assert len(page_of(tall, width=60)) <= MAX_EXERCISE_LINES
    verbose = page_of(tall, DIAGNOSIS, verbose=True)
    assert len(verbose) > 60 and "  called    softmax(" in verbose and not any(line.endswith("…") for line in verbose[:20])


def test_a_short_page_is_not_shortened():
    lines = page_of(Failure("A promise.", "T=3", ["softmax(x)", "x = 1", "y = 2", "z = 3"], "A problem.", "1", "2"), tests=4)
    assert [line.strip() for line in lines if "= " in line] == ["x = 1", "y = 2", "z = 3"] and not any("…" in line for line in lines)
    assert sum("also failed" in line for line in lines) == 3 and any("headway show softmax" in line for line in lines)


def test_a_relation_that_only_locates_is_left_out_beside_a_diagnosis():
    details = Failure("p", explanation="Each row should sum to one; here the whole tensor does. Only row 1 is wrong.")
    assert any("Only row 1" in line for line in page_of(details))
    beside = "\n".join(page_of(details, DIAGNOSIS))
    assert "the whole tensor does." in beside and "Only row 1" not in beside
