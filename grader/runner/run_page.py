"""What a graded run prints: whose code it tests, what is wrong, points by exercise, and the next step."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from grader.course import progress, status
from grader.course.source import SourceProblem, find_definition, is_written
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.errors import ChapterBroken
from grader.runner.layout import Page, print_result
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, join_names

if TYPE_CHECKING:
    from grader.runner.graded_run import GradedRun

SHOWN_WHOLE = 3  # exercises whose first failure is printed in full; the others get a line
# for each test, and their colours
LETTERS = {
    "passed": (".", "green"),
    "failed": ("F", "red"),
    "error": ("E", "red"),
    "timeout": ("T", "red"),
    "todo": ("t", "yellow"),
}


def header(run: GradedRun) -> list[str]:
    """Whose code is tested, and the options that differ from their defaults."""
    trial = run.trial
    whose = {True: "your exercises", False: "the code"}[trial.target.is_own_folder]
    if trial.target.label == "solutions":
        whose = "the reference"
    options = [
        "in a worker process" if trial.in_worker else "",
        f"seed {trial.seed}" if trial.seed else "",
        "with your own code only (--whole)" if trial.whole else "",
    ]
    chosen = ", ".join(filter(None, options))
    return [f"headway: testing {whose} in {trial.target.folder}"] + ([f"         {chosen}"] if chosen else [])


def print_run(page: Page, run: GradedRun, verbose: bool = False) -> None:
    """Print everything below the row of dots."""
    for module, words in run.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
        page.line("Fix this first: its tests cannot run. The other chapters were tested.")
    failing_results = [
        r for r in run.results.values() if r.exercise.module not in run.broken and (r.forbidden or r.failures)
    ]
    depends = {result.exercise.name: text for result in failing_results if (text := _dependency(result))}
    whole = [r for r in failing_results if verbose or r.exercise.name not in depends]
    for result in whole if verbose else whole[:SHOWN_WHOLE]:
        print_result(page, result, verbose)
    brief = [r for r in failing_results if r not in (whole if verbose else whole[:SHOWN_WHOLE])]
    if brief:
        page.title("more failures")
    for result in brief:
        name = result.exercise.name
        if name in depends:
            page.wrapped(f"{name} also fails; it {depends[name]} first.", indent=2)
        else:
            sentence = result.failures[0].message if result.failures else result.forbidden[0]
            page.wrapped(sentence if sentence.startswith(name) else f"{name}: {sentence}", indent=2)
    _points(page, run)
    for exercise in run.newly_passed[:3]:
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


def _dependency(result: ExerciseResult) -> str:
    """With --whole: the words about an earlier failing exercise that this one uses; or ""."""
    if not result.follows:
        return ""
    cause = load_syllabus().exercise(result.follows)
    near = cause.chapter == result.exercise.chapter
    words = f"uses {cause.name}" if near else f"builds on {cause.name} of {cause.chapter}"
    return f"{words}, so fix {cause.name}"


def _points(page: Page, run: GradedRun) -> None:
    page.title("points")
    results = list(run.results.values())
    for chapter in load_syllabus().chapters:
        mine = [result for result in results if result.exercise.chapter == chapter.id]
        if not mine:
            continue
        score = _score(sum(r.earned for r in mine), sum(r.exercise.points for r in mine))
        page.columns(f"{chapter.id} {chapter.title}", score, "", bold=True)
        if all(result.outcome == "todo" and not result.earned and not result.written for result in mine):
            several = f"  none of the {len(mine)} exercises is implemented yet"
            page.line(several if len(mine) > 1 else "  not implemented yet", yellow=True)
            continue
        for result in mine:
            name, score = result.exercise.name, _score(result.earned, result.exercise.points)
            page.columns(f"  {name}", score, _outcome_text(result, len(run.weights[name])), **_outcome_colour(result))
            if result.replaced and not result.failures:
                page.wrapped(f"with the reference's {join_names(result.replaced)}", indent=4)
    if len({result.exercise.chapter for result in results}) > 1:
        whole = run.result()
        page.columns("total", _score(whole.earned, whole.points), "", bold=True)
    for result in [result for result in results if result.written][:SHOWN_WHOLE]:
        page.blank()
        start = "" if result.written.startswith(result.exercise.name) else f"{result.exercise.name}: "
        page.wrapped(f"{start}{result.written}", yellow=True)
    if all(result.is_untouched for result in results):
        page.blank()
        page.line("Nothing is wrong: these exercises are not implemented yet.")


def _score(earned: float, points: float) -> str:
    return f"{progress.format_points(earned)}/{progress.format_points(points)}"


def _outcome_text(result: ExerciseResult, every: int) -> str:
    """The outcomes of an exercise's tests; `every` is how many there are, run or not."""
    if result.forbidden and result.outcome == "failed":
        return "no points: forbidden code"
    ran = len(result.tests)
    counts = [
        (n, word)
        for word in ("failed", "error", "timeout", "todo")
        if (n := sum(t.outcome == word for t in result.tests))
    ]
    named = [(n, word.replace("timeout", "timed out")) for n, word in counts]
    if result.partial:
        return ", ".join(
            [f"{n} {word}" for n, word in named] + [f"only {ran} of {every} {'' if counts else 'tests '}ran"]
        )
    return ", ".join(f"{n} of {ran} {word}" for n, word in named) or "passed"


def _outcome_colour(result: ExerciseResult) -> dict[str, bool]:
    outcome = "todo" if result.partial and result.outcome == "passed" else result.outcome
    return {LETTERS[outcome][1]: True}


def _next_step(run: GradedRun) -> list[str]:
    """What to do now, where, and the command that tests it: fix what does not import, fix what fails, or write what
    comes next."""
    own = run.trial.target.is_own_folder
    for module, words in run.broken.items():
        return [f"Next: fix {words.where.split(':  ')[0] or module + '.py'}"]
    failing = next((result.exercise for result in run.results.values() if result.failures or result.forbidden), None)
    undone = failing or next((result.exercise for result in run.results.values() if result.outcome != "passed"), None)
    tests = run.results[undone.name].tests if undone and not failing else []
    missing = next((test.message for test in tests if test.outcome == "todo" and test.message != NOT_IMPLEMENTED), "")
    if undone and missing and (not own or len(run.results) == 1):
        return [f"Next: write the code that {undone.name} needs:", f"      {missing}"]
    if failing is None and own and not (undone and run.chosen):
        step = status.next_step()
        if step and (tested := run.results.get(step.exercise.name)) and tested.partial and tested.outcome == "passed":
            said = f"Next: run all tests of {step.exercise.name}; the tests that ran have passed"
            return [said, f"      {step.command}"]
        if step is None:
            whole = all(chapter.exercises for chapter in load_syllabus().chapters)
            advice = " To test all your chapters together: pytest --whole" if whole else ""
            return [f"You have passed every exercise.{advice}"]
        return [f"Next: {_verb(run, step.exercise)} {step.exercise.name} in {step.location}", f"      {step.command}"]
    if undone is None:
        partial = any(result.partial for result in run.results.values())
        return ["All tests that ran have passed." if partial else "All tests passed."]
    target = "" if own else f" --target {shlex.quote(run.trial.target.label)}"
    alone = f"pytest{target} --exercise {undone.name}" if target or run.trial.whole else f"headway check {undone.name}"
    return [
        f"Next: {'fix' if failing else 'write'} {undone.name} in {_place(run, undone)}",
        f"      {alone}{' --whole' if run.trial.whole else ''}",
    ]


def _verb(run: GradedRun, exercise: Exercise) -> str:
    try:
        return "fix" if is_written(run.trial.target.source(exercise.module).text, exercise.name) else "write"
    except (SourceProblem, ChapterBroken):
        return "fix"


def _place(run: GradedRun, exercise: Exercise) -> str:
    target = run.trial.target
    name = f"{exercise.module}.py" if target.folder is None else f"{target.folder.name}/{exercise.module}.py"
    try:
        segment = find_definition(target.source(exercise.module).text, exercise.name)
    except (SourceProblem, ChapterBroken):
        return name
    return f"{name}:{segment.line}" if segment else name
