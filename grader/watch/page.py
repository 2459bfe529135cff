"""The state of the watch as lines of text: the same for a screen and for a terminal that only takes lines."""

from __future__ import annotations

import time

from grader.console.output import wrap_text
from grader.course.progress import format_points, load_scores
from grader.course.status import locate, next_unpassed, short_path
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.plugin.layout import Page, has_failing_picture, print_result
from grader.teaching.show.half_blocks import find_colour_system
from grader.teaching.show.terminal import render_picture
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict
from grader.watch.state import State
from rich.text import Text

KEYS = (("h", "hint"), ("n", "next"), ("l", "list"), ("d", "diff"), ("o", "open"), ("r", "run"), ("s", "picture"), ("q", "quit"))


def heading(state: State, width: int) -> list[Text]:
    """Which exercise it is, its promise, and where it is."""
    exercise = state.exercise
    chapter = load_syllabus().chapter(exercise.chapter)
    score = load_scores().get(exercise.name)
    left = Text.assemble((exercise.name, "bold"), (f"  {chapter.number} {chapter.title}", "dim"))
    right = f"{score} points" if score else f"{format_points(exercise.points)} points"
    left.append(right.rjust(max(len(right) + 2, width - len(left) - 1)), "green" if score and score.passed else "")
    page = _Lines(width)
    page.wrapped(exercise.promise)
    lesson = EXERCISES / f"{chapter.name}.md"
    where = Text(f"{locate(exercise)}", "cyan")
    if lesson.exists() and len(where) + len(short_path(lesson)) + 12 < width:
        where.append(f"   lesson: {short_path(lesson)}", "dim")
    return [left, *page.lines, where]


def body(state: State, width: int) -> list[Text]:
    """The last verdict, whole; or what was asked for in its place."""
    if state.over is not None:
        return state.over
    if state.picture is not None:
        return render_picture(state.picture, width, find_colour_system())
    page = _Lines(width)
    if state.verdict is None:
        if not state.running and not state.waiting and not state.trouble:
            page.line("Not tested yet.")
    else:
        _verdict(page, state, state.verdict)
    if state.below:
        page.blank()
    return [*page.lines, *state.below]


def status(state: State, width: int) -> list[Text]:
    """What is going on, or when that was: a line, or two."""
    line = _status(state)
    return [Text(part, line.style) for part in wrap_text(line.plain, width)]


def _status(state: State) -> Text:
    if state.waiting:
        return Text(f"{state.waiting}. Waiting for the next save.", "yellow")
    if state.waking:
        return Text(f"loading the tests, once and for some seconds{_elapsed(state)}", "yellow")
    if state.running:
        what = f"testing: {state.test}" if state.test else "testing"
        return Text(f"{'once more, apart: ' if state.again else ''}{what}{_elapsed(state)}", "yellow")
    if state.trouble:
        return Text(state.trouble, "red")
    if state.note:
        return Text(state.note, "cyan")
    if state.at:
        return Text(f"{state.at}   verdict after {state.took:.2f} s", "dim")
    return Text("")


def result_line(state: State) -> str:
    """The verdict in one line, for whoever leaves."""
    result = state.verdict.result(state.exercise.name) if state.verdict else None
    if result is None:
        return f"{state.exercise.name}: no verdict yet."
    return f"{state.exercise.name}: {_word(result)}, {format_points(result.earned)} of {format_points(result.exercise.points)} points."


def _elapsed(state: State) -> str:
    seconds = time.monotonic() - state.began
    return f", {seconds:.0f} s" if seconds >= 1 else ""


def _verdict(page: _Lines, state: State, verdict: Verdict) -> None:
    exercise = state.exercise
    for module, words in verdict.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
        return
    result = verdict.result(exercise.name)
    if result is None:
        page.line(f"No test ran for {exercise.name}.", red=True)
    elif result.outcome == "passed":
        page.title("passed")
        page.wrapped(f"{exercise.name} works: {_count(result)}. {exercise.why}", green=True)
        page.wrapped(exercise.unlocks)
        if following := next_unpassed(exercise):
            page.blank()
            page.line(f"Next: {following.name}, {'with the key n' if state.keys else 'with headway watch ' + following.name}", bold=True)
    elif result.outcome == "todo" and not result.forbidden:
        _unwritten(page, result)
    else:
        print_result(page, result, last="")
        if has_failing_picture(result):
            page.blank()
            page.line(f"See it: {'the key s' if state.keys else f'headway show {exercise.name}'}")
    if result is not None and 0 < result.earned < exercise.points:
        page.blank()
        page.line(f"So far: {format_points(result.earned)} of {format_points(exercise.points)} points.")
    for note in verdict.notes:
        page.blank()
        page.wrapped(f"Note: {note}", yellow=True)


def _unwritten(page: _Lines, result: ExerciseResult) -> None:
    page.title("still to do")
    waits = {test.message for test in result.tests if test.outcome == "todo"} - {"", "nothing is written yet"}
    if waits:
        page.wrapped(f"{result.exercise.name} waits for something that is not written yet: {sorted(waits)[0]}", yellow=True)
    else:
        page.wrapped("Nothing is written yet. Write it, save the file, and the verdict stands here.", yellow=True)


def _count(result: ExerciseResult) -> str:
    tests = len(result.tests)
    return "its one test passes" if tests == 1 else f"all {tests} tests pass"


def _word(result: ExerciseResult) -> str:
    return {"passed": "passes", "todo": "still to do", "error": "cannot be tested", "timeout": "takes too long"}.get(result.outcome, "does not pass yet")


class _Lines(Page):
    """A page that keeps its lines."""

    def __init__(self, width: int) -> None:
        self.lines: list[Text] = []
        super().__init__(lambda text, **markup: self.lines.append(Text(text, " ".join(name for name, on in markup.items() if on))), width)
