"""Exercises that are defined below `if` or `try`, or bound by an assignment, are judged as those at the left margin."""

from __future__ import annotations

import ast
import textwrap

import pytest
from grader.course.source import find_definition, replace_definition, split_lines
from grader.course.stubs import reference_stub
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.runner.judging import run_exercise
from grader.tests.quality.benchmarks.workplace import solved_chapter
from grader.verdict.results import NOT_IMPLEMENTED

CHAPTER, NAME = "ch03_attention", "MultiHeadAttention"
STUB = find_definition(reference_stub(CHAPTER), NAME).text


def below(outer: str, text: str) -> str:
    """The code below this line, with what comes after it in a `try`; docstring and `__future__` stay at the top."""
    body = ast.parse(text).body
    first = next(node for node in body if not isinstance(node, ast.Expr) and getattr(node, "module", "") != "__future__")
    lines, inside = split_lines(text), strings_in(text)
    code = [line if number in inside or not line.strip() else "    " + line for number, line in enumerate(lines, 1) if number >= first.lineno]
    after = "except ImportError:\n    raise\n" if outer == "try:" else ""
    return "".join([*lines[: first.lineno - 1], outer + "\n", *code]) + after


def strings_in(text: str) -> set[int]:
    strings = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant | ast.JoinedStr)]
    return {line for node in strings for line in range(node.lineno + 1, node.end_lineno + 1)}


def chapter_with(own: str) -> str:
    """Chapter 3 with this definition of MultiHeadAttention, whose method `sizes` only its own `fuse_qkv` calls."""
    text = solved_chapter(CHAPTER)
    written = find_definition(text, NAME).text.rstrip() + "\n\n    def sizes(self):\n        return self.W_out.in_features, self.n_heads\n"
    text = text.replace("out.in_features, attention.n_heads, max_len", "*attention.sizes(), max_len")
    assert "*attention.sizes()" in text
    other = written.replace(f"class {NAME}", "class _Attention").replace("super().__init__()", "nn.Module.__init__(self)")
    indented = textwrap.indent(written, "    ")
    return replace_definition(text, NAME, own.format(written=written, indented=indented, other=other, stub=STUB))


WAYS = {
    "below if": "if True:\n{indented}",
    "else": "if torch.__version__ < '0':\n    pass\nelse:\n{indented}",
    "below try": "try:\n{indented}except ImportError:\n    raise\n",
    "below with": "with torch.no_grad():\n{indented}",
    "in a loop": "for _ in range(1):\n{indented}",
    "redefined": "{stub}\n\nif True:\n{indented}",
    "an alias": "{other}\n\n" + NAME + " = _Attention\n",
    "a class by type": "{other}\n\n" + NAME + f" = type('{NAME}', (_Attention,), {{{{}}}})\n",
    "globals": "{stub}\n\n{other}\n\nglobals()['" + NAME + "'] = _Attention\n",
    "a name that no text shows": "{stub}\n\n{other}\n\nglobals()['Multi' + 'HeadAttention'] = _Attention\n",
    "a line that never runs": "{written}\n    def more(self):\n        return 1\n        raise NotImplementedError\n",
    "an abstract method": "{written}\n    def later(self):\n        raise NotImplementedError\n",
}


@pytest.mark.parametrize("in_worker", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_later_exercise_uses_the_learners_own_definition(way, in_worker):
    """The reference's MultiHeadAttention has no `sizes`: with it, `fuse_qkv` would lose its points."""
    if in_worker and way not in ("below if", "below try", "a name that no text shows"):
        pytest.skip("the same in process")
    target = Target("target", None, {CHAPTER: chapter_with(WAYS[way])})
    result = run_exercise(load_syllabus().exercise("fuse_qkv"), target, in_worker=in_worker)
    assert result.outcome == "passed" and result.earned == result.exercise.points, result.failures
    assert not result.replaced


@pytest.mark.parametrize("outer", ["if True:", "try:"])
@pytest.mark.parametrize("name", [NAME, "fuse_qkv", "split_qkv"])
def test_a_whole_file_below_if_or_try_gets_all_points(outer, name):
    target = Target("target", None, {CHAPTER: below(outer, chapter_with("{written}"))})
    result = run_exercise(load_syllabus().exercise(name), target)
    assert result.outcome == "passed" and not result.replaced


@pytest.mark.thorough
@pytest.mark.parametrize(("outer", "whole", "in_worker"), [("if True:", False, True), ("try:", True, False)])
@pytest.mark.parametrize("chapter", [chapter.id for chapter in load_syllabus().chapters])
def test_each_chapter_below_if_or_try_gets_all_points(chapter, outer, whole, in_worker):
    chapters = [one for one in load_syllabus().chapters if one.id <= chapter]
    target = Target("target", None, {one.name: below(outer, solved_chapter(one.name)) for one in chapters})
    for exercise in chapters[-1].exercises:
        result = run_exercise(exercise, target, in_worker=in_worker, whole=whole)
        assert result.outcome == "passed" and not result.replaced, exercise.name


@pytest.mark.parametrize("outer", ["if True:", "try:"])
def test_stubs_below_if_or_try_are_not_implemented_and_the_references_are_used_for_them(outer):
    stub, text = reference_stub(CHAPTER), solved_chapter(CHAPTER)
    target = Target("target", None, {CHAPTER: below(outer, stub)})
    result = run_exercise(load_syllabus().exercise("softmax"), target)
    assert result.outcome == "todo" and {test.message for test in result.tests} == {NOT_IMPLEMENTED} and result.earned == 0
    begun = below(outer, replace_definition(text, "softmax", find_definition(stub, "softmax").text))
    result = run_exercise(load_syllabus().exercise("SelfAttentionHead"), Target("target", None, {CHAPTER: begun}))
    assert result.outcome == "passed" and result.replaced == {"softmax": "not written"}


@pytest.mark.parametrize("in_worker", [False, True])
@pytest.mark.parametrize("outer", ["if True:", "try:"])
def test_a_wrong_definition_below_if_or_try_is_replaced_for_later_exercises(outer, in_worker):
    wrong = replace_definition(solved_chapter(CHAPTER), "softmax", "def softmax(x, dim=-1):\n    return x\n")
    target = Target("target", None, {CHAPTER: below(outer, wrong)})
    result = run_exercise(load_syllabus().exercise("SelfAttentionHead"), target, in_worker=in_worker)
    assert result.outcome == "passed" and result.replaced == {"softmax": "failed"}
