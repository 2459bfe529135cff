"""A hint says how to write the line; it does not contain the line: what dev-check finds in hints."""

import pytest
from grader.course.syllabus import load_syllabus
from grader.tests.quality.devcheck.hint_code import longest_code, reference_code
from grader.tests.quality.devcheck.subjects import solution_of

COURSE = load_syllabus()
SOFTMAX = reference_code(solution_of(COURSE.exercise("softmax")), "softmax")


@pytest.mark.parametrize(
    "hint",
    [
        "exps = torch.exp(x - largest)",
        "then take `exp( scores-m )` and divide",
        "return e / s.masked_fill(s == 0, 1)",
        "at the end z.masked_fill(z==-math.inf, 0.0)",
        "use x.amax(axis, keepdim=True).detach().",
    ],
)
def test_a_line_with_other_names_and_spaces_is_still_the_line(hint):
    assert longest_code(hint, SOFTMAX)


@pytest.mark.parametrize(
    "hint",
    [
        "Subtract the largest score first: use amax along dim, with keepdim=True. Then exp, sum and a division.",
        "masked_fill(condition, value) replaces entries; the condition is that the sum is 0.",
        "The shapes are (B, T, D), then (B, T, 1).",
    ],
)
def test_a_hint_may_name_functions_their_order_and_the_shapes(hint):
    assert longest_code(hint, SOFTMAX) is None


def test_a_long_part_of_a_statement_is_found():
    hint = "The longer part of a statement: b''.join(table[i] for i in ids), then decode it."
    assert longest_code(hint, reference_code(solution_of(COURSE.exercise("BPETokenizer")), "BPETokenizer"))


def test_every_exercise_has_code_that_a_hint_could_contain():
    for exercise in COURSE.exercises:
        assert reference_code(solution_of(exercise), exercise.name), exercise.name
