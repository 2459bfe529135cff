"""What a graded run prints: whose code it tests, what is wrong, points by exercise, and the next step.

The second half lays out the results of one exercise, for the watch and notebooks too."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from grader.course import progress, status
from grader.course.paths import chosen_path
from grader.course.source import SourceProblem, find_definition, is_written
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.errors import ChapterBroken
from grader.teaching.show import has_picture
from grader.verdict.results import NOT_IMPLEMENTED, SHOWN_WHOLE, ExerciseResult, Failure, join_names, replaced_sentences

if TYPE_CHECKING:
    from grader.runner.graded_run import GradedRun


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


def print_run(page: Page, run: GradedRun, verbose: bool = False) -> list[str]:
    """Print everything below the row of dots. Returns the exercises whose failures it shows."""
    for module, words in run.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
        page.line("Fix this first: its tests cannot run. The other chapters were tested.")
    failing_results = [
        r for r in run.results.values() if r.exercise.module not in run.broken and (r.forbidden or r.failures)
    ]
    depends = {result.exercise.name: text for result in failing_results if (text := _dependency(result))}
    whole = [r for r in failing_results if verbose or r.exercise.name not in depends]
    shown = whole if verbose else whole[:SHOWN_WHOLE]
    for result in shown:
        print_result(page, result, verbose)
    brief = [r for r in failing_results if r not in shown]
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
    return [result.exercise.name for result in shown]


def print_search(page: Page, run: GradedRun, shown: list[str], begun: Callable[[], object] = lambda: None) -> None:
    """Below a page that shows the failures of these exercises: continue the searches for known mistakes that had not
    ended. `begun` is called when the page says so."""
    names = [name for name in shown if name in run.searches]
    if not names:
        return
    page.wrapped("Still looking for a known mistake that explains this; Control-C ends it.")
    begun()
    for name in names:
        notes = len(run.notes)
        run.search_on(name)
        if found := run.results[name].diagnosis:
            page.title(f"{name}: {'two known mistakes' if found.also else 'a known mistake'}")
            _print_mistakes(page, run.results[name])
        elif len(run.notes) == notes:
            page.wrapped(f"No known mistake explains the failures of {name}.")
        for note in run.notes[notes:]:
            page.wrapped(f"Note: {note}", yellow=True)
    page.blank()


def _print_mistakes(page: Page, result: ExerciseResult) -> None:
    for number, mistake in enumerate(result.diagnosis.mistakes if result.diagnosis else ()):
        if number > 0:
            page.blank()
        page.wrapped(mistake.says, most=page.few.get("says"), red=True)
        page.wrapped(mistake.hint, most=page.few.get("hint"))


def _dependency(result: ExerciseResult) -> str:
    """With --whole: the words about an earlier failing exercise that this one uses; or ""."""
    if not result.follows:
        return ""
    cause = load_syllabus().exercise(result.follows)
    near = cause.chapter == result.exercise.chapter
    words = f"uses {cause.name}" if near else f"builds on {cause.name} of {cause.chapter}"
    return f"{words}, so fix `{cause.name}`"


def _points(page: Page, run: GradedRun) -> None:
    page.title("points")
    results = list(run.results.values())
    for chapter in load_syllabus().chapters:
        mine = [result for result in results if result.exercise.chapter == chapter.id]
        if not mine:
            continue
        score = _score(sum(r.earned for r in mine), sum(r.exercise.points for r in mine))
        every = len(chapter.exercises)
        page.columns(
            f"{chapter.id} {chapter.title}",
            score,
            f"{len(mine)} of {every} exercises" if len(mine) < every else "",
            bold=True,
        )
        if all(result.outcome == "todo" and not result.earned and not result.written for result in mine):
            several = f"  none of the{'se' if len(mine) < every else ''} {len(mine)} exercises is implemented yet"
            page.line(several if len(mine) > 1 else f"  {mine[0].exercise.name} is not implemented yet", yellow=True)
            mine = []
        for result in mine:
            name, score = result.exercise.name, _score(result.earned, result.exercise.points)
            page.columns(f"  {name}", score, _outcome_text(result, len(run.weights[name])), **_outcome_colour(result))
            if result.replaced and not result.failures:
                page.wrapped(f"with the reference's {join_names(result.replaced)}", indent=4)
        if others := run.left_out.get(chapter.id):
            which = (
                join_names([suite.name for suite in others]) if len(others) <= SHOWN_WHOLE else f"{len(others)} files"
            )
            page.wrapped(
                f"This run left out the chapter's tests in {which}; `pytest --chapter {chapter.id}` runs all.", indent=2
            )
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
        return [f"Next: write the code that `{undone.name}` needs:", f"      {missing}"]
    if failing is None and own and not (undone and run.chosen):
        step = status.next_step()
        if step and (tested := run.results.get(step.exercise.name)) and tested.partial and tested.outcome == "passed":
            said = f"Next: run all tests of `{step.exercise.name}`; the tests that ran have passed"
            return [said, f"      {step.command}"]
        if step is None:
            whole = all(chapter.exercises for chapter in load_syllabus().chapters) and not chosen_path()
            advice = " To test all your chapters together: pytest --whole" if whole else ""
            return [f"{status.all_passed()}{advice}"]
        return [f"Next: {_verb(run, step.exercise)} `{step.exercise.name}` in {step.location}", f"      {step.command}"]
    if undone is None:
        partial = any(result.partial for result in run.results.values())
        return ["All tests that ran have passed." if partial else "All tests passed."]
    target = "" if own else f" --target {shlex.quote(run.trial.target.label)}"
    alone = f"pytest{target} --exercise {undone.name}" if target or run.trial.whole else f"headway check {undone.name}"
    return [
        f"Next: {'fix' if failing else 'write'} `{undone.name}` in {_place(run, undone)}",
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


# ---- the layout: how lines are broken, and one exercise shortened to what a terminal has room for

WIDTH = 80
MAX_ALSO_FAILED = 4  # further failed tests of an exercise that are listed by name
MAX_EXERCISE_LINES = 25  # on a terminal of 24 lines; a higher one shows more, and what is no terminal everything
LINES_AROUND = 12  # of a terminal: what a run prints above and below an exercise
ROW_MARKUP = {"problem": {"red": True}, "that is": {"bold": True}}
# What is shortened, in this order, while there are more lines: a label, and the lines that are left of it.
STEPS = (
    ("also", 1), ("printed", 2), ("hint", 1), ("says", 2), ("problem", 3), ("called", 3), ("got", 3), ("expected", 3),
    ("differs", 1), ("that is", 1), ("called", 1), ("also", 0), ("printed", 1), ("problem", 2), ("promised", 1),
    ("got", 1), ("expected", 1),
)  # fmt: skip


def print_result(page: Page, result: ExerciseResult, verbose: bool = False, last: str | None = None) -> None:
    """Print what is wrong with one exercise, one failure in full and the others by name, shortened to what a terminal
    has room for. `last` replaces the line about hints."""
    hints = _hint_lines(result)
    last = "\n".join(hints) if last is None else last
    if verbose:
        _print_all(page, result, verbose, last)
        return
    room = max(MAX_EXERCISE_LINES, page.height - LINES_AROUND) if page.height else math.inf
    # so that the watch and `headway check` shorten alike
    most = room - 1 - len(hints) - (not result.script)
    for count in range(len(STEPS) + 1):
        lines: list[tuple[str, dict[str, bool]]] = []
        draft = Page(lambda text, **markup: lines.append((text, markup)), page.width)  # noqa: B023
        draft.few = dict(STEPS[:count])
        _print_all(draft, result, verbose, "")
        if len(lines) <= most:
            break
    if last:
        lines += [("", {}), *((line, {}) for line in last.splitlines())]
    for text, markup in lines:
        page.write(text, **markup)


def _print_all(page: Page, result: ExerciseResult, verbose: bool, last: str) -> None:
    page.title(result.exercise.name)
    for sentence in result.forbidden:
        page.wrapped(f"No points for this exercise: {sentence}.", red=True)
    for sentence in replaced_sentences(result.replaced):
        page.wrapped(sentence, yellow=True)
    failures, also = result.failures, page.few.get("also", MAX_ALSO_FAILED)
    _print_mistakes(page, result)
    if failures and (result.forbidden or result.diagnosis):
        page.blank()
    for number, test in enumerate(failures):
        if number == 0 or verbose:
            page.line(f"{test.outcome.upper()}  {test.name.partition('[')[0]}", red=True)
            if test.details:
                page.failure(test.details)
            if number == 0 and result.script:
                page.line(f"  run again {result.script}")  # a command stays on one line
        elif number <= also or len(failures) == also + 2:
            page.wrapped(f"also {test.outcome}: {test.name}", indent=2)
    if not verbose and len(failures) > also + 2:
        page.line(f"  and {len(failures) - also - 1} more")
    if last:
        page.blank()
        for line in last.splitlines():
            page.line(line)


def _hint_lines(result: ExerciseResult) -> list[str]:
    lines = [f"For a hint: headway hint {result.exercise.name}"]
    return lines + [f"For a picture: headway show {result.exercise.name}"] if has_failing_picture(result) else lines


def has_failing_picture(result: ExerciseResult) -> bool:
    """Whether a test failed whose exercise `headway show` can draw."""
    return has_picture(result.exercise.name) and any(test.outcome == "failed" for test in result.tests)


class Page:
    """Text of at most 80 columns. `write` prints one line, and takes `bold`, `red`, `green` and `yellow` as
    keywords."""

    def __init__(self, write: Callable[..., None], width: int, height: int = 0) -> None:
        self.write = write
        self.width = min(WIDTH, width)
        self.height = height  # lines of the terminal; 0 if it is written to something else
        self.few: dict[str, int] = {}  # the most lines of a label's text, where they are limited

    def title(self, text: str) -> None:
        self.write("")
        self.write(f"── {text} ".ljust(self.width, "─"), bold=True)

    def line(self, text: str, **markup: bool) -> None:
        self.write(text, **markup)

    def blank(self) -> None:
        self.write("")

    def wrapped(self, text: str, indent: int = 0, most: int | None = None, **markup: bool) -> None:
        """The text in lines, at most `most` of them."""
        pad = " " * indent
        for line in textwrap.wrap(
            text, self.width - 1, initial_indent=pad, subsequent_indent=pad, break_long_words=True, max_lines=most,
            placeholder=" …",
        ):  # fmt: skip
            self.write(line, **markup)

    def labelled(self, label: str, text: str, other: str = "", **markup: bool) -> None:
        """A label, and the text to its right; a line that is too long is wrapped. Of a text with too many lines those
        are left that begin with the first difference from the other text."""
        head = f"  {label:<10}"
        room = self.width - len(head) - 1
        lines = _lines_of(text, room)
        if len(lines) > (few := self.few.get(label, len(lines))):
            pairs = zip(lines, _lines_of(other, room))
            start = next((place for place, (one, its) in enumerate(pairs) if one != its), 0) if other else 0
            shown = lines[start : start + few]
            if start > 0:
                shown[0] = f"… {shown[0].lstrip()}"
            if start + few < len(lines):
                shown[-1] = f"{shown[-1][: room - 2]} …"
            lines = shown
        for number, line in enumerate(lines):
            self.write((head if number == 0 else " " * len(head)) + line, **markup)

    def columns(self, left: str, middle: str, right: str, **markup: bool) -> None:
        line = f"{left:<{min(36, self.width - 10)}}{middle:>10}"
        if right and len(line) + 3 + len(right) > self.width:  # a narrow terminal: on its own line
            self.write(line, **markup)
            line = " " * 4 + right
        elif right:
            line += f"   {right}"
        self.write(line, **markup)

    def failure(self, words: Failure) -> None:
        for row in words.rows():
            text = words.called[0] if row.label == "called" and "called" in self.few else row.text
            other = {"got": words.expected, "expected": words.got}.get(row.label, "")
            self.labelled(row.label, text, other, **ROW_MARKUP.get(row.label, {}))


def _lines_of(text: str, room: int) -> list[str]:
    pieces = ([line] if len(line) <= room else textwrap.wrap(line, room) for line in text.split("\n"))
    return [line for piece in pieces for line in piece]
