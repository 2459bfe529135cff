"""What a graded run prints: whose code it is, what is wrong in words, points by exercise, and the next step."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import TYPE_CHECKING

from . import course, progress
from .door.errors import ChapterBroken
from .explaining import Failure
from .graded import NOTHING_YET
from .results import ExerciseResult, TestResult
from .source import SourceProblem, find_definition
from .syllabus import Exercise, load_syllabus
from .target import builds_on

if TYPE_CHECKING:
    import pytest

    from .graded import GradedRun

WIDTH = 80
SHOWN_WHOLE = 3  # exercises whose first failure is told in full; the others get a line
ALSO = 4  # further failed tests of an exercise that are named
COLOURS = {"passed": {"green": True}, "failed": {"red": True}, "error": {"red": True}, "timeout": {"red": True}, "todo": {"yellow": True}}


def header(run: GradedRun) -> list[str]:
    """Whose code this is."""
    engine = run.engine
    whose = {True: "your exercises", False: "the code"}[engine.target.is_own_folder]
    if engine.target.label == "solutions":
        whose = "the reference"
    how = [f"door {engine.door_kind}", f"seed {engine.seed}"] + (["earlier chapters from the same folder (--whole)"] if engine.whole else [])
    return [f"headway: testing {whose} in {engine.target.folder}", f"         {', '.join(how)}"]


def summary(reporter: pytest.TerminalReporter, run: GradedRun) -> None:
    """Everything below the row of dots."""
    page = _Page(reporter)
    verbose = reporter.config.get_verbosity() > 0
    for module, words in run.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
        page.line("Its tests wait until it does; the other chapters were run.")
    telling = [r for r in run.results.values() if r.exercise.module not in run.broken and (r.forbidden or _failures(r))]
    waiting = {result.exercise.name: leans for result in telling if (leans := _leans_on(run, result, telling))}
    whole = [r for r in telling if verbose or r.exercise.name not in waiting]
    for result in whole if verbose else whole[:SHOWN_WHOLE]:
        _exercise(page, result, verbose)
    brief = [r for r in telling if r not in (whole if verbose else whole[:SHOWN_WHOLE])]
    if brief:
        page.title("and also")
    for result in brief:
        name = result.exercise.name
        if name in waiting:
            page.wrapped(f"{name} fails too, and it {waiting[name]}: mend that first.", indent=2)
        else:
            words = _failures(result)[0].message if _failures(result) else result.forbidden[0]
            page.wrapped(words if words.startswith(name) else f"{name}: {words}", indent=2)
    _points(page, run)
    for exercise in run.news[:3]:
        page.blank()
        page.wrapped(f"{exercise.name} works. {exercise.why}", green=True)
        page.wrapped(exercise.unlocks)
    for note in run.notes:
        page.blank()
        page.wrapped(f"Note: {note}", yellow=True)
    page.blank()
    for line in _next_step(run):
        page.line(line)
    page.blank()


def _exercise(page: _Page, result: ExerciseResult, verbose: bool) -> None:
    page.title(result.exercise.name)
    for sentence in result.forbidden:
        page.wrapped(f"No points for this exercise: {sentence}.", red=True)
    failures = _failures(result)
    if result.diagnosis:
        page.wrapped(result.diagnosis.says, red=True)
        page.wrapped(result.diagnosis.hint)
    if failures and (result.forbidden or result.diagnosis):
        page.blank()
    for number, test in enumerate(failures):
        if number == 0 or verbose:
            page.line(f"{test.outcome.upper()}  {test.name.partition('[')[0]}", red=True)
            page.failure(test.details)
        elif number <= ALSO or len(failures) == ALSO + 2:
            page.wrapped(f"also {test.outcome}: {test.name}", indent=2)
    if not verbose and len(failures) > ALSO + 2:
        page.line(f"  and {len(failures) - ALSO - 1} more")
    page.blank()
    page.line(f"For a hint: headway hint {result.exercise.name}")


def _leans_on(run: GradedRun, result: ExerciseResult, telling: list[ExerciseResult]) -> str:
    """How it leans on an earlier failing exercise: one of the same chapter whose name its code calls, or with --whole of an earlier one; or ""."""
    if earlier := run.earlier_failing(result):
        return f"builds on {earlier.name} of {earlier.chapter}"
    try:
        segment = find_definition(run.engine.target.source(result.exercise.module).text, result.exercise.name)
    except (SourceProblem, ChapterBroken):
        return ""
    for other in telling:
        if other is result:
            break
        if segment and other.exercise.chapter == result.exercise.chapter and re.search(rf"(?<![\w.]){other.exercise.name}\(", segment.text):
            return f"calls {other.exercise.name}"
    return ""


def _failures(result: ExerciseResult) -> list[TestResult]:
    return [test for test in result.tests if test.outcome not in ("passed", "todo")]


def _points(page: _Page, run: GradedRun) -> None:
    page.title("points")
    results = list(run.results.values())
    for chapter in load_syllabus().chapters:
        mine = [result for result in results if result.exercise.chapter == chapter.id]
        if not mine:
            continue
        earned, points = sum(r.earned for r in mine), sum(r.exercise.points for r in mine)
        page.columns(f"{chapter.id} {chapter.title}", f"{progress.number(earned)}/{progress.number(points)}", "", bold=True)
        if all(result.outcome == "todo" and not result.earned for result in mine):
            page.line("  still to do" if len(mine) == 1 else f"  all {len(mine)} exercises are still to do", yellow=True)
            continue
        for result in mine:
            score = f"{progress.number(result.earned)}/{progress.number(result.exercise.points)}"
            page.columns(f"  {result.exercise.name}", score, _word(result), **COLOURS[result.outcome])
    if len({result.exercise.chapter for result in results}) > 1:
        whole = run.result()
        page.columns("together", f"{progress.number(whole.earned)}/{progress.number(whole.points)}", "", bold=True)
    if all(test.message == NOTHING_YET for result in results for test in result.tests):
        page.blank()
        page.line("Nothing is done yet, and nothing is wrong: every stub is still a stub.")


def _word(result: ExerciseResult) -> str:
    if result.forbidden and result.outcome == "failed":
        return "no points: a shortcut"
    counts = [f"{n} of {len(result.tests)} {word}" for word in ("failed", "error", "timeout", "todo") if (n := sum(t.outcome == word for t in result.tests))]
    return ", ".join(counts) or "passed"


def _next_step(run: GradedRun) -> list[str]:
    """What to do now: repair what does not import, mend what fails, write what comes next; where it is, and the command that checks it."""
    own = run.engine.target.is_own_folder
    for module, words in run.broken.items():
        return [f"Next: repair {words.where.split(':  ')[0] or module + '.py'}"]
    failing = next((result.exercise for result in run.results.values() if _failures(result) or result.forbidden), None)
    undone = failing or next((result.exercise for result in run.results.values() if result.outcome != "passed"), None)
    tests = run.results[undone.name].tests if undone and not failing else []
    missing = next((test.message for test in tests if test.outcome == "todo" and test.message != NOTHING_YET), "")
    if missing and (not own or len(run.results) == 1):
        return [f"Next: write what {undone.name} builds on;", f"      {missing}"]
    if failing is None and own:
        step = course.next_step()
        if step is None:
            return ["Everything is done. Try it as one program: pytest --whole"]
        return [f"Next: write {step.exercise.name} in {step.place}", f"      {step.command}"]
    if undone is None:
        return ["All of it passes."]
    target = "" if own else f" --target {shlex.quote(run.engine.target.label)}"
    alone = f"pytest{target} --exercise {undone.name}" if target or run.engine.whole else f"headway check {undone.name}"
    lines = [f"Next: {'mend' if failing else 'write'} {undone.name} in {_place(run, undone)}", f"      {alone}{' --whole' if run.engine.whole else ''}"]
    if run.engine.whole and failing and builds_on(run.engine.target, undone.module):
        lines += ["Without --whole the reference's earlier chapters are put beside it:", f"      {alone}"]
        lines += ["If it passes then, what is wrong is in an earlier chapter of yours."]
    return lines


def _place(run: GradedRun, exercise: Exercise) -> str:
    target = run.engine.target
    name = f"{exercise.module}.py" if target.folder is None else f"{target.folder.name}/{exercise.module}.py"
    try:
        segment = find_definition(target.source(exercise.module).text, exercise.name)
    except (SourceProblem, ChapterBroken):
        return name
    return f"{name}:{segment.line}" if segment else name


class _Page:
    """pytest's terminal, 80 columns of it; pytest decides on colour (a terminal, NO_COLOR)."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter
        self.width = min(WIDTH, reporter._tw.fullwidth)

    def title(self, text: str) -> None:
        self.reporter.write_line("")
        self.reporter.write_line(f"── {text} ".ljust(self.width, "─"), bold=True)

    def line(self, text: str, **markup: bool) -> None:
        self.reporter.write_line(text, **markup)

    def blank(self) -> None:
        self.reporter.write_line("")

    def wrapped(self, text: str, indent: int = 0, **markup: bool) -> None:
        pad = " " * indent
        for line in textwrap.wrap(text, self.width - 1, initial_indent=pad, subsequent_indent=pad, break_long_words=True):
            self.reporter.write_line(line, **markup)

    def labelled(self, label: str, text: str, **markup: bool) -> None:
        """A label, and text beside it: wrapped when it is prose, kept as it is when it has lines of its own."""
        head = f"  {label:<10}"
        room = self.width - len(head) - 1
        lines = [piece for line in text.split("\n") for piece in ([line] if len(line) <= room else textwrap.wrap(line, room))]
        for number, line in enumerate(lines):
            self.reporter.write_line((head if number == 0 else " " * len(head)) + line, **markup)

    def columns(self, left: str, middle: str, right: str, **markup: bool) -> None:
        self.reporter.write_line(f"{left:<36}{middle:>10}   {right}".rstrip(), **markup)

    def failure(self, words: Failure) -> None:
        self.labelled("promised", words.promise) if words.promise else None
        if words.sizes:
            self.labelled("sizes", words.sizes)
        for number, line in enumerate(words.called):
            self.labelled("called" if number == 0 else "", line)
        if words.message:
            self.labelled("problem", words.message, red=True)
        if words.where:
            self.labelled("at", words.where)
        if words.got:
            self.labelled("got", words.got)
        if words.expected:
            self.labelled("expected", words.expected)
        if words.difference:
            self.labelled("differs", words.difference.removeprefix("first differs "))
        if words.explanation:
            self.labelled("that is", words.explanation, bold=True)
        if words.printed.strip():
            lines = words.printed.strip().splitlines()
            cut = ["…"] if len(lines) > 6 else []
            self.labelled("printed", "\n".join([*cut, *(line[:100] for line in lines[-6:])]))
