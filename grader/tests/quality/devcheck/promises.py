"""Every sentence that a learner is promised, beside the known mistake that breaks it.

tests/promises/CHAPTER.toml has a table for each exercise, and one named `chapter` for what is the same in all of them.
A key is the beginning of a sentence; its value lists known mistakes that break it, or is the reason why it is no
promise:

    [softmax]
    "Scores around 10000" = ["softmax_nothing_subtracted"]
    "Compute float64 input" = "..."
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache

from grader.course.known_mistakes import CatalogueProblem, misconceptions
from grader.course.source import find_definition
from grader.course.stubs import reference_stub
from grader.course.syllabus import TESTS, Exercise

COMMON = "chapter"
SENTENCE_END = re.compile(r"(?<=[.?!:])\s+(?=[A-Z`\"(…-])")
Answer = list[str] | str


def unproved_promises(exercise: Exercise) -> list[str]:
    """The sentences beside which no known mistake is listed."""
    tables = _tables(exercise.module)
    keys = [*tables.get(exercise.name, {}), *tables.get(COMMON, {})]
    return [sentence for sentence in _promises(exercise) if not any(sentence.startswith(key) for key in keys)]


def unproved_and_stale_promises(exercise: Exercise) -> Iterator[str]:
    """Sentences beside which nothing is listed; and what is listed and is not there: a sentence or a known mistake."""
    file = f"tests/promises/{exercise.module}.toml"
    sentences = _promises(exercise)
    try:
        tables = _tables(exercise.module)
        known = {mistake.id for mistake in misconceptions(exercise.module, exercise.name)}
    except tomllib.TOMLDecodeError as problem:
        yield f"{file}: {problem}"
        return
    except CatalogueProblem:  # reported for the chapter
        return
    for sentence in unproved_promises(exercise):
        yield f"{file} names no known mistake that breaks `{sentence}`"
    for key, answer in tables.get(exercise.name, {}).items():
        if not any(sentence.startswith(key) for sentence in sentences):
            yield f"{file}: no sentence of its docstring or of the rules begins with `{key}`"
        if missing := ", ".join(sorted(set(answer) - known)) if isinstance(answer, list) else "":
            yield f"{file}: `{key}` names {missing}, which is no known mistake of it"
        if not answer:
            yield f"{file}: `{key}` has neither a known mistake nor a reason"


def _promises(exercise: Exercise) -> list[str]:
    return [*sentences_of(exercise), *rules_of(exercise.module)]


def sentences_of(exercise: Exercise) -> list[str]:
    """The sentences of the docstrings of the exercise and its methods."""
    segment = find_definition(reference_stub(exercise.module), exercise.name)
    nodes = ast.walk(ast.parse(segment.text)) if segment else ()
    documented = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [sentence for node in documented for sentence in _split(ast.get_docstring(node) or "")]


@cache
def rules_of(module: str) -> tuple[str, ...]:
    """The sentences of the rules at the head of the chapter's stub."""
    head = ast.get_docstring(ast.parse(reference_stub(module))) or ""
    rules = head.partition("Rules for all exercises")[2].partition("\n\n")[0].split("\n- ")[1:]
    return tuple(sentence for rule in rules for sentence in _split(rule))


def _split(text: str) -> list[str]:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return [sentence for paragraph in paragraphs for sentence in SENTENCE_END.split(paragraph) if sentence]


@cache
def _tables(module: str) -> dict[str, dict[str, Answer]]:
    path = TESTS / "promises" / f"{module}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
