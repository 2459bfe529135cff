"""What can be checked without running code: one function for each invariant; each sentence says what is wrong and what to do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grader.course.known_mistakes import CatalogueProblem, misconceptions
from grader.course.readme_table import check_readme_table
from grader.course.source import Definition, SourceProblem, definition, find_definition
from grader.course.stubs import check_stubs, reference_stub
from grader.course.syllabus import EXERCISES, TESTS, Chapter, Exercise, load_syllabus
from grader.quality.devcheck.hint_code import code_in_hints
from grader.quality.devcheck.subjects import solution_of, variants
from grader.runner.graded_tests import SIDES
from grader.teaching.pictures import stale_lesson_pictures

SECTIONS = ("## The idea", "## A worked example", "## Shapes", "## A picture", "## What goes wrong", "## Now build it")
LEAST_MISTAKES, LEAST_VARIANTS = 8, 3
PROMISED_ERROR = re.compile(r"(ValueError|KeyError)s?[^.]*\bnam(e|es|ing)\b")


def names_are_unique() -> Iterator[str]:
    for name, count in Counter(exercise.name for exercise in load_syllabus().exercises).items():
        if count > 1:
            yield f"{name}: {count} exercises have this name; names must be unique, because everything is found by name"


def stubs_are_in_step() -> Iterator[str]:
    yield from check_stubs()


def readme_table_is_in_step() -> Iterator[str]:
    yield from check_readme_table()


def pictures_are_in_step() -> Iterator[str]:
    for name in stale_lesson_pictures():
        yield f"exercises/pictures/{name} is not what the reference draws today; `headway stubs` draws it again"


def points_are_positive(chapter: Chapter) -> Iterator[str]:
    """Points are an exercise's share of its chapter, so they may add to any number."""
    for exercise in chapter.exercises:
        if exercise.points <= 0:
            yield f"{exercise.name}: it has {exercise.points:g} points, and needs more than 0"


def lesson_is_whole(chapter: Chapter) -> Iterator[str]:
    path = EXERCISES / f"{chapter.name}.md"
    if not path.is_file():
        yield f"{chapter.id}: there is no lesson exercises/{path.name}"
        return
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for section in SECTIONS:
        if section not in lines:
            yield f"{chapter.id}: exercises/{path.name} has no section `{section}`"
    for exercise in chapter.exercises:
        if not re.search(rf"^\*\*`{exercise.name}\b", text, re.MULTILINE):
            yield f"{chapter.id}: no paragraph of exercises/{path.name} begins with **`{exercise.name}`**"
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        if not (EXERCISES / picture).is_file():
            yield f"{chapter.id}: exercises/{path.name} shows {picture}, which is not there"


def catalogue_names_exercises(chapter: Chapter) -> Iterator[str]:
    known = {exercise.name for exercise in chapter.exercises}
    try:
        mistakes = misconceptions(chapter.name)
    except CatalogueProblem as problem:
        yield f"{chapter.id}: {problem}"
        return
    for mistake in mistakes:
        if mistake.exercise not in known:
            yield f"{chapter.id}: [{mistake.exercise}.{mistake.id}] in tests/misconceptions/{chapter.name}.toml: this chapter has no exercise {mistake.exercise}"


def tests_stay_in_their_chapter(chapter: Chapter) -> Iterator[str]:
    """A suite uses only names of its own chapter and earlier ones, and `with check` only around comparisons."""
    later = {e.name for c in load_syllabus().chapters if c.number > chapter.number for e in c.exercises}
    for path in sorted(TESTS.glob(f"test_{chapter.name}*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in SIDES and node.attr in later:
                yield f"{chapter.id}: {path.name}, line {node.lineno} uses {node.attr}, which is taught later"
            if isinstance(node, ast.With) and any("'check'" in ast.dump(item.context_expr) for item in node.items):
                if any(isinstance(inner, ast.Name) and inner.id in SIDES for inner in ast.walk(node)):
                    yield f"{chapter.id}: {path.name}, line {node.lineno} calls code within `with check`, which is for comparisons; make the call before it"
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node):
                yield f"{chapter.id}: {path.name}, line {node.lineno}: {node.name} has no docstring, which is what learners read as its promise"


def words_are_there(exercise: Exercise) -> Iterator[str]:
    if len(exercise.hints) != 3 or not all(hint.strip() for hint in exercise.hints):
        yield f"{exercise.name}: it has {len(exercise.hints)} hints; it should have three: a question, the idea, how to write it"
    for field in ("promise", "why", "unlocks"):
        if not getattr(exercise, field).strip():
            yield f"{exercise.name}: its `{field}` in the syllabus is empty"


def hints_leave_the_line(exercise: Exercise) -> Iterator[str]:
    yield from code_in_hints(exercise)


def todos_are_numbered(exercise: Exercise) -> Iterator[str]:
    try:
        text = definition(reference_stub(exercise.module), exercise.name).text
    except (SourceProblem, ValueError) as problem:
        yield f"{exercise.name}: {problem}"
        return
    numbers = [int(n) for n in re.findall(r"#\s*TODO\s+(\d+)", text)]
    blocks = text.count("raise NotImplementedError")
    if not numbers or not blocks:
        yield f"{exercise.name}: its stub has {len(numbers)} numbered TODOs and {blocks} places to fill in"


def docstring_promises(exercise: Exercise) -> Iterator[str]:
    segment = find_definition(solution_of(exercise), exercise.name)
    tree = ast.parse(segment.text).body[0] if segment else None
    if not isinstance(tree, Definition) or not ast.get_docstring(tree):
        yield f"{exercise.name}: the solution has no docstring, which is where its promises are"


def named_values_are_promised(exercise: Exercise) -> Iterator[str]:
    """If a test expects an error message to name something, the docstring names the error and says that it names it."""
    if not any(_wants_names(suite, exercise.name) for suite in sorted(TESTS.glob(f"test_{exercise.module}*.py"))):
        return
    segment = find_definition(solution_of(exercise), exercise.name)
    nodes = ast.walk(ast.parse(segment.text)) if segment else ()
    docstrings = " ".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, Definition))
    if not PROMISED_ERROR.search(" ".join(docstrings.split())):
        yield f"{exercise.name}: a test expects an error to name a value, but the docstring does not promise it; write `raises a ValueError that names ...`"


def _wants_names(suite: Path, exercise: str) -> bool:
    """Whether a test of the exercise calls `refuses` with `naming`, itself or through functions of its file."""
    functions = {node.name: node for node in ast.parse(suite.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}
    waiting = [name for name, node in functions.items() if any(f"'{exercise}'" in ast.dump(mark) for mark in node.decorator_list)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        calls = [(node.func.id, node.keywords) for node in ast.walk(functions[name]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        if any(called == "refuses" and any(keyword.arg == "naming" for keyword in keywords) for called, keywords in calls):
            return True
        waiting += [called for called, _ in calls]
    return False


def catalogue_is_rich(exercise: Exercise) -> Iterator[str]:
    with suppress(CatalogueProblem):  # `catalogue_names_exercises` reports it
        mistakes = len(misconceptions(exercise.module, exercise.name))
        if mistakes < LEAST_MISTAKES:
            yield f"{exercise.name}: {mistakes} known mistakes in tests/misconceptions/{exercise.module}.toml; at least {LEAST_MISTAKES}"
    if len(variants(exercise)) < LEAST_VARIANTS:
        yield f"{exercise.name}: {len(variants(exercise))} variants in tests/variants/{exercise.module}/{exercise.name}.py; at least {LEAST_VARIANTS}"


OF_THE_KIT = (names_are_unique, stubs_are_in_step, readme_table_is_in_step, pictures_are_in_step)
OF_A_CHAPTER = (points_are_positive, lesson_is_whole, catalogue_names_exercises, tests_stay_in_their_chapter)
OF_AN_EXERCISE = (words_are_there, hints_leave_the_line, todos_are_numbered, docstring_promises, named_values_are_promised, catalogue_is_rich)
