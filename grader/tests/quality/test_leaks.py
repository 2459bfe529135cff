"""The proof of leaks: it cuts code out of texts as a learner's assistant could, tries it, and finds a planted solution."""

import ast

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.stubs import reference_stub
from grader.course.syllabus import load_syllabus
from grader.tests.quality.devcheck.subjects import mistakes, solution_of
from grader.tests.quality.proof import leaks
from grader.tests.quality.proof.candidates import blocks, bodies, pieces
from grader.tests.quality.proof.leaks import STUB, candidates_of, run, texts_of

LINES = "move the axes back with `y = x.transpose(1, 2)`"


def code_in(text):
    return [ast.unparse(statement) for piece in pieces(text) for statement in piece]


def bodies_of(text, name="merge_heads"):
    exercise = load_syllabus().exercise(name)
    found = blocks(solution_of(exercise), reference_stub(exercise.module), name)
    return [body for block in found for body in bodies(pieces(text), block, name)]


@pytest.mark.parametrize(
    "text, code",
    [
        (f"First {LINES}. Then stop.", ["y = x.transpose(1, 2)"]),
        ("Return x * 2 · y − 1, or wait.", ["(x * 2 * y - 1,)", "x * 2 * y - 1"]),
        ("Read this:\n\n    a = f(x)\n    if a:\n        a = g(a)\n\nand write it.", ["a = f(x)", "if a:\n    a = g(a)"]),
        ("```python\nfor i in x:\n    f(i)\n```", ["for i in x:\n    f(i)"]),
        (">>> y = f(x)\n>>> y.sum()", ["y = f(x)", "y.sum()"]),
        ("| step | x @ y | z |", ["x @ y"]),
        ("The mean of softmax, 1 or 2 at a time, is 3.5.", ["(softmax, 1 or 2)", "1 or 2"]),
        ("These are only names, such as x.", []),
    ],
)
def test_code_is_found_in_prose_blocks_and_tables(text, code):
    assert code_in(text) == code


def test_pieces_are_tried_alone_with_what_they_need_and_joined():
    assert bodies_of("`x.flatten(2)`") == ["return x.flatten(2)"]
    both = bodies_of(f"{LINES}, then `y.flatten(2)`.")
    assert "return x.transpose(1, 2)" in both and "y = x.transpose(1, 2)\nreturn y.flatten(2)" in both
    assert "return heads.flatten(2)" not in bodies_of("`heads.flatten(2)`") and bodies_of("`heads + 1`") == ["return x + 1"]
    assert bodies_of("def merge_heads(x):\n    return x.flatten(2)") == ["return x.flatten(2)"]


@pytest.mark.parametrize("text", ["`x`", "`2 * 3`", "`merge_heads(x)`", "`unknown(x)`", "`a @ b`", "`x = [1.0, 2.0]`", "heads and tails"])
def test_code_that_cannot_work_is_dropped(text):
    assert bodies_of(text) == []


def test_each_function_of_a_class_is_filled_alone():
    exercise = load_syllabus().exercise("SelfAttentionHead")
    solution = solution_of(exercise)
    found = blocks(solution, reference_stub(exercise.module), exercise.name)
    assert [block.function for block in found] == ["__init__", "forward"]
    assert "d_head" in found[0].known and "d_head" not in found[1].known
    filled = found[1].filled(solution, "return x * 2")
    assert filled.count("return x * 2") == 1 and "self.qkv = nn.Linear" in filled
    ast.parse(filled)


def test_the_texts_of_an_exercise_have_its_hints_its_mistakes_and_its_lesson():
    exercise = load_syllabus().exercise("merge_heads")
    known = misconceptions(exercise.module, exercise.name)
    texts = texts_of(exercise, ["row 1 is wrong", "row 2 is wrong", "another"])
    assert texts["hints"] == list(exercise.hints) and texts["failures"] == ["row 1 is wrong", "another"]
    assert all(text in texts["diagnoses"] for mistake in known for text in (mistake.says, mistake.hint))
    assert len(texts["lesson"]) == 2 and all("merge_heads" in text for text in texts["lesson"])
    assert {each.kind for each in candidates_of(exercise, {})} == {STUB}


def test_a_planted_solution_is_found(monkeypatch, capsys):
    """In a hint, and divided between a diagnosis and a message of the tests."""
    one = ["--exercise", "merge_heads", "-j", "1"]
    monkeypatch.setattr(leaks, "mistakes", lambda exercise: mistakes(exercise)[:1])
    monkeypatch.setattr(leaks, "lesson", lambda name: "")
    assert run(one) == 0
    assert "✗" not in capsys.readouterr().out

    def planted(exercise, failures):
        texts = texts_of(exercise, failures)
        return {**texts, "diagnoses": [*texts["diagnoses"], f"Please {LINES}."], "failures": ["Join: `y.flatten(2)`"]}

    monkeypatch.setattr(leaks, "texts_of", planted)
    assert run(one) == 1
    out = capsys.readouterr().out
    assert "✗ merge_heads: 5 of 5 points as the body of merge_heads, from all together:" in out, out
    assert "y = x.transpose(1, 2)\nreturn y.flatten(2)" in out
