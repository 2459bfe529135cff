"""What a graded run prints: whose code it is, what is wrong in words, points by exercise, and the next step."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from grader.course import progress, status
from grader.course.source import SourceProblem, find_definition
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.errors import ChapterBroken
from grader.execution.target import builds_on
from grader.plugin.graded import NOTHING_YET
from grader.plugin.layout import Page, print_result
from grader.verdict.results import ExerciseResult

if TYPE_CHECKING:
    import pytest
    from grader.plugin.graded import GradedRun

SHOWN_WHOLE = 3  # exercises whose first failure is told in full; the others get a line
COLOURS = {"passed": {"green": True}, "failed": {"red": True}, "error": {"red": True}, "timeout": {"red": True}, "todo": {"yellow": True}}


def header(run: GradedRun) -> list[str]:
    """Whose code this is, and the options that differ from their defaults."""
    trial = run.trial
    whose = {True: "your exercises", False: "the code"}[trial.target.is_own_folder]
    if trial.target.label == "solutions":
        whose = "the reference"
    options = [
        "in a worker" if trial.in_worker else "",
        f"seed {trial.seed}" if trial.seed else "",
        "earlier chapters from the same folder (--whole)" if trial.whole else "",
    ]
    chosen = ", ".join(filter(None, options))
    return [f"headway: testing {whose} in {trial.target.folder}"] + ([f"         {chosen}"] if chosen else [])


def summary(reporter: pytest.TerminalReporter, run: GradedRun) -> None:
    """Everything below the row of dots."""
    page = Page(reporter.write_line, reporter._tw.fullwidth)
    verbose = reporter.config.get_verbosity() > 0
    for module, words in run.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
        page.line("Its tests wait until it does; the other chapters were run.")
    telling = [r for r in run.results.values() if r.exercise.module not in run.broken and (r.forbidden or r.failures)]
    waiting = {result.exercise.name: leans for result in telling if (leans := _leans_on(run, result, telling))}
    whole = [r for r in telling if verbose or r.exercise.name not in waiting]
    for result in whole if verbose else whole[:SHOWN_WHOLE]:
        print_result(page, result, verbose)
    brief = [r for r in telling if r not in (whole if verbose else whole[:SHOWN_WHOLE])]
    if brief:
        page.title("and also")
    for result in brief:
        name = result.exercise.name
        if name in waiting:
            page.wrapped(f"{name} fails too, and it {waiting[name]}: mend that first.", indent=2)
        else:
            sentence = result.failures[0].message if result.failures else result.forbidden[0]
            page.wrapped(sentence if sentence.startswith(name) else f"{name}: {sentence}", indent=2)
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


def _leans_on(run: GradedRun, result: ExerciseResult, telling: list[ExerciseResult]) -> str:
    """How it leans on an earlier failing exercise: one of the same chapter whose name its code calls, or with --whole of an earlier one; or ""."""
    if earlier := run.earlier_failing(result):
        return f"builds on {earlier.name} of {earlier.chapter}"
    try:
        segment = find_definition(run.trial.target.source(result.exercise.module).text, result.exercise.name)
    except (SourceProblem, ChapterBroken):
        return ""
    for other in telling:
        if other is result:
            break
        if segment and other.exercise.chapter == result.exercise.chapter and re.search(rf"(?<![\w.]){other.exercise.name}\(", segment.text):
            return f"calls {other.exercise.name}"
    return ""


def _points(page: Page, run: GradedRun) -> None:
    page.title("points")
    results = list(run.results.values())
    for chapter in load_syllabus().chapters:
        mine = [result for result in results if result.exercise.chapter == chapter.id]
        if not mine:
            continue
        earned, points = sum(r.earned for r in mine), sum(r.exercise.points for r in mine)
        page.columns(f"{chapter.id} {chapter.title}", f"{progress.format_points(earned)}/{progress.format_points(points)}", "", bold=True)
        if all(result.outcome == "todo" and not result.earned for result in mine):
            page.line("  still to do" if len(mine) == 1 else f"  all {len(mine)} exercises are still to do", yellow=True)
            continue
        for result in mine:
            score = f"{progress.format_points(result.earned)}/{progress.format_points(result.exercise.points)}"
            page.columns(f"  {result.exercise.name}", score, _word(result, len(run.weights[result.exercise.name])), **_colour(result))
    if len({result.exercise.chapter for result in results}) > 1:
        whole = run.result()
        page.columns("together", f"{progress.format_points(whole.earned)}/{progress.format_points(whole.points)}", "", bold=True)
    if all(test.message == NOTHING_YET for result in results for test in result.tests):
        page.blank()
        page.line("Nothing is done yet, and nothing is wrong: every stub is still a stub.")


def _word(result: ExerciseResult, every: int) -> str:
    """What became of an exercise's tests, of which there are `every`; where some did not run, that too."""
    if result.forbidden and result.outcome == "failed":
        return "no points: a shortcut"
    ran = len(result.tests)
    counts = [(n, word) for word in ("failed", "error", "timeout", "todo") if (n := sum(t.outcome == word for t in result.tests))]
    if result.partial:
        return ", ".join([f"{n} {word}" for n, word in counts] + [f"only {ran} of {every} {'' if counts else 'tests '}ran"])
    return ", ".join(f"{n} of {ran} {word}" for n, word in counts) or "passed"


def _colour(result: ExerciseResult) -> dict[str, bool]:
    return COLOURS["todo" if result.partial and result.outcome == "passed" else result.outcome]


def _next_step(run: GradedRun) -> list[str]:
    """What to do now: repair what does not import, mend what fails, write what comes next; where it is, and the command that checks it."""
    own = run.trial.target.is_own_folder
    for module, words in run.broken.items():
        return [f"Next: repair {words.where.split(':  ')[0] or module + '.py'}"]
    failing = next((result.exercise for result in run.results.values() if result.failures or result.forbidden), None)
    undone = failing or next((result.exercise for result in run.results.values() if result.outcome != "passed"), None)
    tests = run.results[undone.name].tests if undone and not failing else []
    missing = next((test.message for test in tests if test.outcome == "todo" and test.message != NOTHING_YET), "")
    if undone and missing and (not own or len(run.results) == 1):
        return [f"Next: write what {undone.name} builds on;", f"      {missing}"]
    if failing is None and own:
        step = status.next_step()
        if step and (tested := run.results.get(step.exercise.name)) and tested.partial and tested.outcome == "passed":
            return [f"Next: run all tests of {step.exercise.name}; those that ran have passed", f"      {step.command}"]
        if step is None:
            whole = all(chapter.exercises for chapter in load_syllabus().chapters)
            return ["Everything is done." + (" Try it as one program: pytest --whole" if whole else "")]
        return [f"Next: write {step.exercise.name} in {step.place}", f"      {step.command}"]
    if undone is None:
        return ["All that ran passes." if any(result.partial for result in run.results.values()) else "All of it passes."]
    target = "" if own else f" --target {shlex.quote(run.trial.target.label)}"
    alone = f"pytest{target} --exercise {undone.name}" if target or run.trial.whole else f"headway check {undone.name}"
    lines = [f"Next: {'mend' if failing else 'write'} {undone.name} in {_place(run, undone)}", f"      {alone}{' --whole' if run.trial.whole else ''}"]
    if run.trial.whole and failing and builds_on(run.trial.target, undone.module):
        lines += ["Without --whole the reference's earlier chapters are put beside it:", f"      {alone}"]
        lines += ["If it passes then, what is wrong is in an earlier chapter of yours."]
    return lines


def _place(run: GradedRun, exercise: Exercise) -> str:
    target = run.trial.target
    name = f"{exercise.module}.py" if target.folder is None else f"{target.folder.name}/{exercise.module}.py"
    try:
        segment = find_definition(target.source(exercise.module).text, exercise.name)
    except (SourceProblem, ChapterBroken):
        return name
    return f"{name}:{segment.line}" if segment else name
