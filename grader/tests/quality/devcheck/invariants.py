"""What can be checked without running code. Each sentence says what is wrong and what to do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grader.course.chapter_source import Definition
from grader.course.known_mistakes import CatalogueProblem, misconceptions, variants
from grader.course.source import SourceProblem, definition, find_definition
from grader.course.stubs import check_chapter_table, check_stubs, reference_stub
from grader.course.syllabus import EXERCISES, ROOT, Chapter, Exercise, load_syllabus, suites_of, tests_in
from grader.execution.target import reference_of
from grader.runner.graded_tests import SIDES
from grader.teaching.pictures import stale_lesson_pictures
from grader.tests.quality.devcheck.hint_code import code_in_hints
from grader.tests.quality.devcheck.promises import unproved_and_stale_promises
from grader.tests.quality.devcheck.subjects import solution_of

SECTIONS = ("## The idea", "## A worked example", "## Shapes", "## A picture", "## Now build it", "## What goes wrong")
MIN_MISTAKES, USUAL_VARIANTS = 3, 3
PROMISED_ERROR = re.compile(r"(ValueError|KeyError)s?[^.]*\bnam(e|es|ing)\b")


def of_kit() -> Iterator[str]:
    for name, count in Counter(exercise.name for exercise in load_syllabus().exercises).items():
        if count > 1:
            yield f"{name}: {count} exercises have this name; names must be unique, because everything is found by name"
    yield from check_stubs()
    yield from check_chapter_table()
    for name in stale_lesson_pictures():
        yield f"exercises/pictures/{name} is not what the reference draws today; `headway stubs` draws it again"


# ---- a chapter


def of_chapter(chapter: Chapter) -> Iterator[str]:
    for check in (_points_are_positive, _lesson_is_whole, _catalogue_names_exercises, _suites_keep_the_rules):
        yield from (f"{chapter.id}: {sentence}" for sentence in check(chapter))


def _points_are_positive(chapter: Chapter) -> Iterator[str]:
    """Points are an exercise's share of its chapter, so they may add to any number."""
    for exercise in chapter.exercises:
        if exercise.points <= 0:
            yield f"{exercise.name} has {exercise.points:g} points, and needs more than 0"


def _lesson_is_whole(chapter: Chapter) -> Iterator[str]:
    path = EXERCISES / f"{chapter.name}.md"
    if not path.is_file():
        yield f"there is no lesson exercises/{path.name}"
        return
    text = path.read_text(encoding="utf-8")
    for section in SECTIONS:
        if section not in text.splitlines():
            yield f"exercises/{path.name} has no section `{section}`"
    for exercise in chapter.exercises:
        if not re.search(rf"^\*\*`{exercise.name}\b", text, re.MULTILINE):
            yield f"no paragraph of exercises/{path.name} begins with **`{exercise.name}`**"
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        if not (EXERCISES / picture).is_file():
            yield f"exercises/{path.name} shows {picture}, which is not there"


def _catalogue_names_exercises(chapter: Chapter) -> Iterator[str]:
    known = {exercise.name for exercise in chapter.exercises}
    file = f"tests/misconceptions/{chapter.name}.toml"
    try:
        for mistake in misconceptions(chapter.name):
            if mistake.exercise not in known:
                yield f"[{mistake.exercise}.{mistake.id}] in {file}: this chapter has no exercise {mistake.exercise}"
    except CatalogueProblem as problem:
        yield str(problem)


def _suites_keep_the_rules(chapter: Chapter) -> Iterator[str]:
    """A suite uses no later exercise, calls nothing within `with check`, and each test has its promise."""
    later = {e.name for c in load_syllabus().chapters if c.number > chapter.number for e in c.exercises}
    for path in suites_of(chapter.id):
        for node in ast.walk(_tree(path)):
            match node:
                case ast.Attribute(value=ast.Name(id=side), attr=name) if side in SIDES and name in later:
                    yield f"{path.name}, line {node.lineno} uses {name}, which is taught later"
                case ast.With() if any("'check'" in ast.dump(item.context_expr) for item in node.items):
                    if any(isinstance(inner, ast.Name) and inner.id in SIDES for inner in ast.walk(node)):
                        where = f"{path.name}, line {node.lineno}"
                        yield f"{where} calls code within `with check`; make the call before it"
                case ast.FunctionDef() if node.name.startswith("test_") and not ast.get_docstring(node):
                    where = f"{path.name}, line {node.lineno}"
                    yield f"{where}: {node.name} has no docstring, which is what learners read as its promise"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# ---- an exercise


def of_exercise(exercise: Exercise) -> Iterator[str]:
    missing = list(missing_files(exercise))
    checks = [_words_are_there, _mistakes_are_known]
    checks += [] if missing else [code_in_hints, _todos_are_numbered, _errors_are_promised, unproved_and_stale_promises]
    for sentence in [*missing, *(sentence for check in checks for sentence in check(exercise))]:
        yield f"{exercise.name}: {sentence}"


def missing_files(exercise: Exercise) -> Iterator[str]:
    """What an exercise lacks without which it cannot be tried: the reference and the tests."""
    reference = reference_of(exercise.module)
    tests = [marked for suite in suites_of(exercise.chapter) for marked in tests_in(suite).values()]
    if reference is None or find_definition(reference.text, exercise.name) is None:
        yield f"solutions/{exercise.module}.py does not define it; write it, then run `headway stubs`"
    if exercise.name not in {name for name, _ in tests}:
        yield f'no test in tests/test_{exercise.module}_SUBJECT.py is marked @exercise("{exercise.name}")'


def _words_are_there(exercise: Exercise) -> Iterator[str]:
    if len(exercise.hints) != 3 or not all(hint.strip() for hint in exercise.hints):
        yield f"it has {len(exercise.hints)} hints; it should have three: a question, the idea, how to write it"
    for field in ("promise", "why", "unlocks"):
        if not getattr(exercise, field).strip():
            yield f"its `{field}` in the syllabus is empty"


def _todos_are_numbered(exercise: Exercise) -> Iterator[str]:
    try:
        text = definition(reference_stub(exercise.module), exercise.name).text
    except (SourceProblem, ValueError) as problem:
        yield str(problem)
        return
    numbers, blocks = len(re.findall(r"#\s*TODO\s+\d+", text)), text.count("raise NotImplementedError")
    if not numbers or not blocks:
        yield f"its stub has {numbers} numbered TODOs and {blocks} places to fill in"


def _errors_are_promised(exercise: Exercise) -> Iterator[str]:
    """The solution has a docstring. If a test expects an error to name something, the docstring promises that."""
    segment = find_definition(solution_of(exercise), exercise.name)
    nodes = list(ast.walk(ast.parse(segment.text))) if segment else []
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, Definition)]
    if not docstrings or not docstrings[0]:
        yield "the solution has no docstring, which is where its promises are"
    if not any(exercise.name in _expecting_names(suite) for suite in suites_of(exercise.chapter)):
        return
    if not PROMISED_ERROR.search(" ".join(" ".join(docstrings).split())):
        say = "write `raises a ValueError that names ...`"
        yield f"a test expects an error to name a value, but the docstring does not promise it; {say}"


@cache
def _expecting_names(suite: Path) -> set[str]:
    """The exercises with a test in this file that calls `refuses` with `naming`, itself or through other functions."""
    calls: dict[str, set[str]] = {}  # function → the names that it calls, and "naming"
    for function in _tree(suite).body:
        if isinstance(function, ast.FunctionDef):
            called = calls[function.name] = set()
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Name(id=name), keywords=keywords):
                        called.add(name)
                        if name == "refuses" and "naming" in {each.arg for each in keywords}:
                            called.add("naming")
    for _ in calls:  # until nothing is added: a chain of calls is no longer than this
        for called in calls.values():
            called.update(*(calls[name] for name in called & calls.keys()))
    return {exercise for test, (exercise, _) in tests_in(suite).items() if "naming" in calls[test]}


def _mistakes_are_known(exercise: Exercise) -> Iterator[str]:
    try:
        count = len(misconceptions(exercise.module, exercise.name))
    except CatalogueProblem:  # reported for the chapter
        return
    if count < MIN_MISTAKES:
        yield f"{count} known mistakes in tests/misconceptions/{exercise.module}.toml; at least {MIN_MISTAKES}"


def missing_extras(exercise: Exercise) -> Iterator[str]:
    """What the exercise may have later: variants, and wrong code for the field test."""
    name, module = exercise.name, exercise.module
    if (count := len(variants(exercise.module, exercise.name))) < USUAL_VARIANTS:
        where = f"tests/variants/{module}/{name}.py"
        yield f"{name} has {count} variants in {where}; {USUAL_VARIANTS} are usual, and may follow"
    path = ROOT / "grader" / "tests" / "field" / f"{exercise.chapter}.toml"
    if not path.is_file() or f'exercise = "{name}"\n' not in path.read_text(encoding="utf-8"):
        yield f"{name} has no attempts in grader/tests/field/{path.name}; they may follow"
