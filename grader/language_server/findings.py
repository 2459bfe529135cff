"""What a diagnostic says about an exercise, and on which line of the file it is; an exercise's points and hover."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from grader.course.progress import Score, load_hint_levels, load_scores
from grader.course.source import SourceProblem, find_statement, outline, parse, split_lines
from grader.course.status import is_stub_now
from grader.course.stubs import is_stub, reference_stub
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.names_used import names_used
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, Failure, Verdict

MAX_VALUE_LINES = 4  # of the call, and of each value; an editor shows a message in a small window


@dataclass(frozen=True)
class Finding:
    """A diagnostic. Its line is given relative to a definition, so that it stays right when other lines are added."""

    module: str
    exercise: str  # "" for a chapter that does not import
    message: str
    is_error: bool  # or a remark on code that is not complete
    anchor: str = ""  # the definition that contains the line; "": offset counts from the first line of the file
    offset: int = 0
    code: str = ""  # the line, without spaces around it


def place(finding: Finding, text: str) -> int | None:
    """The line of a finding, counted from 0, in the present text of its file; None if it no longer applies.

    A stub never has one: the exercise may have been reset, or a broken import may be noticed first in its signature.
    """
    spans, lines = outline(text), split_lines(text)
    if finding.exercise and (finding.exercise not in spans or is_stub(_exercise(finding.exercise), text)):
        return None
    anchor = finding.anchor if finding.anchor in spans else finding.exercise
    if anchor in _exercises_in(finding.module) and is_stub(_exercise(anchor), text):
        return 0
    span = spans.get(anchor, range(len(lines)))
    same = [line for line in span if lines[line].strip() == finding.code]
    return min(same, key=lambda line: abs(line - span.start - finding.offset), default=span.start)


def find(name: str, verdict: Verdict, text: str) -> Finding | None:
    """What to show after a run of this exercise on a file with this text; None if it passed, or is not begun."""
    exercise = _exercise(name)
    if exercise.module in verdict.broken:
        failure = verdict.broken[exercise.module]
        message = f"{exercise.module}.py does not import: {failure.message}"
        line = _line_named(failure.where, exercise.module)
        return _finding(Finding(exercise.module, "", message, is_error=True), line or 0, text)
    result = verdict.result(name)
    spans = outline(text)
    if result is None or result.outcome == "passed" or name not in spans:
        return None
    if result.outcome == "todo" and not result.forbidden:
        message = _todo_message(result)
        if not message:
            return None
        lines = split_lines(text)
        raising = [line for line in spans[name] if lines[line].strip().startswith("raise NotImplementedError")]
        return _finding(Finding(exercise.module, name, message, is_error=False), [*raising, spans[name].start][0], text)
    line = _deciding_line(result, text, spans)
    return _finding(Finding(exercise.module, name, failure_message(result), is_error=True), line, text)


def _finding(about: Finding, line: int, text: str) -> Finding:
    """The finding on this line."""
    lines, spans = split_lines(text), outline(text)
    line = min(line, max(0, len(lines) - 1))
    anchor = next((name for name, span in spans.items() if line in span), "")
    code = lines[line].strip() if lines else ""
    offset = line - spans[anchor].start if anchor else line
    return Finding(about.module, about.exercise, about.message, about.is_error, anchor, offset, code)


def _deciding_line(result: ExerciseResult, text: str, spans: dict[str, range]) -> int:
    """The line that raised an error, did not end or uses what is forbidden; of a function with one `return` that gave a
    wrong value, that line; else the line of `def` or `class`. Never a line of another exercise."""
    exercise, failure = result.exercise, _shown_failure(result)
    others = [span for name, span in spans.items() if name in _exercises_in(exercise.module) and name != exercise.name]
    named = [_line_named(failure.where, exercise.module)] if failure else []
    named += [_line_named(f"{exercise.module}.py, {sentence}", exercise.module) for sentence in result.forbidden]
    for line in named:
        if line is not None and not any(line in span for span in others):
            return line
    node = find_statement(text, exercise.name)
    if isinstance(node, ast.FunctionDef) and failure is not None and (failure.got or result.diagnosis):
        returns = [part for part in ast.walk(node) if isinstance(part, ast.Return)]
        if len(returns) == 1:
            return returns[0].lineno - 1
    return spans[exercise.name].start


def _line_named(where: str, module: str) -> int | None:
    """The line that "ch03_attention.py, line 12:  code" names, counted from 0; None if it is of another file."""
    found = re.match(rf"{re.escape(module)}\.py, line (\d+)", where)
    return max(0, int(found[1]) - 1) if found else None


def failure_message(result: ExerciseResult) -> str:
    """The diagnosis and its question, or else the failure's sentence; then the call, and got beside expected."""
    lines = [f"No points for this exercise: {sentence}." for sentence in result.forbidden]
    for mistake in result.diagnosis.mistakes if result.diagnosis else ():
        lines += [mistake.says, mistake.hint]
    failure = _shown_failure(result)
    if failure is None:
        lines += [test.message for test in result.failures[:1]]
        return "\n".join(lines)
    if not result.diagnosis:
        lines += [failure.message, failure.explanation]
    for row in failure.rows():
        if row.label in ("called", "got", "expected"):
            first, *rest = row.text.splitlines()
            more = [*rest[: MAX_VALUE_LINES - 1], *["…"] * (len(rest) >= MAX_VALUE_LINES)]
            lines += [f"{row.label}: {first}", *(" " * (len(row.label) + 2) + line for line in more)]
    return "\n".join(filter(None, lines))


def _shown_failure(result: ExerciseResult) -> Failure | None:
    return next((test.details for test in result.failures if test.details), None)


def _todo_message(result: ExerciseResult) -> str:
    """What is still to do in an exercise that is begun; "" for one that is not."""
    waits = sorted({test.message for test in result.tests if test.outcome == "todo"} - {"", NOT_IMPLEMENTED})
    return f"{result.exercise.name} cannot be tested yet, because {waits[0]}." if waits else result.written


def problem_message(problem: SourceProblem) -> str:
    """What is wrong with a file that is not valid Python, for a diagnostic on that line."""
    reason = problem.reason
    return f"{reason[:1].upper()}{reason[1:]}. Headway tests the file when you have saved it without this error."


def _exercise(name: str) -> Exercise:
    return load_syllabus().exercise(name)


def _exercises_in(module: str) -> set[str]:
    return {exercise.name for exercise in load_syllabus().exercises if exercise.module == module}


def hover_text(module: str, word: str, text: str) -> str | None:
    """What the exercise of this name promises, in Markdown; None for a name that is no exercise in this chapter's text.

    An exercise of another chapter counts if the text imports it.
    """
    exercise = next((each for each in load_syllabus().exercises if each.name == word), None)
    if exercise is None or (exercise.module != module and word not in _imported(text)):
        return None
    is_untouched = is_stub(exercise, text) if exercise.module == module else is_stub_now(exercise)
    seen = load_hint_levels().get(word, 0)
    parts = [
        f"**{word}**: {points_text(exercise, is_untouched)}",
        exercise.promise,
        f"```text\n{_docstring(exercise)}\n```",
        *(f"Hint {number}: {hint}" for number, hint in enumerate(exercise.hints[:seen], start=1)),
    ]
    return "\n\n".join(parts)


def points_text(exercise: Exercise, is_untouched: bool) -> str:
    """Such as "10 points" of a stub, and "3.5/10 points" of an exercise that is written."""
    if is_untouched:
        return f"{exercise.points:g} points"
    score = load_scores().get(exercise.name) or Score(0, exercise.points)
    return f"{score} points{', passed' if score.passed else ''}"


def _imported(text: str) -> set[str]:
    """The names that a chapter imports from others."""
    try:
        return set(names_used(text).imported)
    except SourceProblem:
        return set()


def _docstring(exercise: Exercise) -> str:
    """The beginning of the exercise's docstring, up to the paragraph with the shapes."""
    try:
        body = parse(reference_stub(exercise.module)).body
    except (SourceProblem, OSError):
        return ""
    node = next((node for node in body if getattr(node, "name", "") == exercise.name), None)
    docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    return "\n\n".join((docstring or "").split("\n\n")[:2])
