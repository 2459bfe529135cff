"""The state of the watch, and its lines of text: for a full screen and for plain output."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from grader.console.output import wrap_text
from grader.course.progress import format_points
from grader.course.source import SourceProblem
from grader.course.status import current_score, locate, next_unpassed, short_path
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.runner.run_page import Page, has_failing_picture, print_result
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, Verdict, replaced_sentences
from rich.text import Text

KEYS = (("h", "hint"), ("n", "next"), ("p", "pin"), ("o", "open"), ("r", "run"), ("q", "quit"))

OUTCOMES = {"passed": "passed", "todo": "not implemented yet", "error": "cannot be tested", "timeout": "takes too long"}


@dataclass
class State:
    exercise: Exercise
    keys: bool  # whether keys can be pressed
    pinned: bool = False  # whether saves of other functions leave the exercise as it is
    verdict: Verdict | None = None  # the last one of this exercise
    seconds: float = 0.0  # from the save (or the key) to the verdict
    finished_at: str = ""  # the time of day of the verdict
    follow_note: str = ""  # what the last save changed, and what is tested therefore
    waiting: Exercise | None = None  # changed while the watch was pinned to another
    file_problem: str = ""  # why no run was started: a file that does not parse
    file_name: str = ""  # that file
    file_reason: str = ""  # the problem without its place
    file_excerpt: list[str] = field(default_factory=list)  # the problem's line, with a caret
    run_problem: str = ""  # why a run gave no verdict
    running: bool = False
    searching: bool = False  # for a known mistake, after the verdict
    starting: bool = False  # the server is starting
    test: str = ""  # the one that is running
    first_failure: str = ""  # the message of the first test that failed in this run
    started_at: float = 0.0
    retry_reason: str = ""  # why the run was started a second time
    note: str = ""  # the reply to a key, until the next key
    hint_lines: list[Text] = field(default_factory=list)  # shown below the verdict

    @property
    def failed_tests(self) -> tuple[str, ...]:
        """The tests that failed in the last verdict."""
        result = self.verdict.result(self.exercise.name) if self.verdict else None
        return tuple(test.name for test in result.failures) if result else ()

    def start_run(self) -> None:
        self.running, self.starting, self.test, self.started_at = True, False, "", time.monotonic()
        self._clear_messages()

    def end_run(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict = verdict
        self.running = self.starting = False
        self.seconds, self.finished_at = time.monotonic() - self.started_at, time.strftime("%H:%M:%S")

    def switch_to(self, exercise: Exercise, verdict: Verdict | None) -> None:
        """Watch another exercise; `verdict` is its last one in this session, if there is one."""
        self.exercise, self.verdict = exercise, verdict
        self.seconds, self.finished_at = 0.0, ""
        self._clear_messages()
        self.follow_note, self.waiting = "", None
        self.hint_lines = []

    def wait_for_save(self, problem: SourceProblem, excerpt: list[str]) -> None:
        """Show why the file cannot be tested, and nothing of the time before."""
        self.running = self.starting = self.searching = False
        self.file_problem = f"{problem.file}, line {problem.line}: {problem.reason}" if excerpt else str(problem)
        self.file_name, self.file_reason, self.file_excerpt = problem.file, problem.reason, excerpt
        self.follow_note, self.hint_lines = "", []

    def _clear_messages(self) -> None:
        self.file_problem = self.run_problem = self.retry_reason = self.note = self.first_failure = ""
        self.searching = False


# ---- its lines


def heading_lines(state: State, width: int) -> list[Text]:
    """The exercise, its points, its promise and where it is."""
    exercise = state.exercise
    chapter = load_syllabus().chapter(exercise.chapter)
    score = current_score(exercise)
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


def body_lines(state: State, width: int, height: int = 0) -> list[Text]:
    """The last verdict with a hint below it; `height` is that of the terminal."""
    page = _Lines(width, height)
    if state.file_problem:
        _print_file_problem(page, state)
    elif state.verdict is None:
        if not state.running and not state.run_problem:
            page.line("Not tested yet.")
    else:
        if state.running:
            page.line("Of the previous save:", yellow=True)
        _print_verdict(page, state, state.verdict)
    if state.hint_lines:
        page.blank()
    return [*page.lines, *state.hint_lines]


def status_lines(state: State, width: int) -> list[Text]:
    """What the last save changed; and what is happening now, or when the last verdict came."""
    lines = [_status_line(state)]
    if state.follow_note and not state.file_problem:
        lines.insert(0, Text(state.follow_note, "cyan"))
    return [Text(part, line.style) for line in lines for part in wrap_text(line.plain, width)]


def _status_line(state: State) -> Text:
    if state.file_problem:
        return Text(f"{state.file_problem}. Waiting for the next save.", "yellow")
    if state.starting:
        return Text(f"loading the tests; this takes a few seconds, once{_elapsed(state)}", "yellow")
    if state.running and state.first_failure:
        return Text(f"fails: {state.first_failure}{_elapsed(state)}", "red")
    if state.running:
        what = f"testing: {state.test}" if state.test else "testing"
        second = "second try, in a separate process: " if state.retry_reason else ""
        return Text(f"{second}{what}{_elapsed(state)}", "yellow")
    if state.run_problem:
        return Text(state.run_problem, "red")
    if state.note:
        return Text(state.note, "cyan")
    if state.finished_at:
        pin = "   pinned" if state.pinned and state.keys else ""
        search = "   looking for a known mistake …" if state.searching else ""
        return Text(f"{state.finished_at}   verdict after {state.seconds:.2f} s{search}{pin}", "dim")
    return Text("")


def result_line(state: State) -> str:
    """The verdict in one line, printed after the watch has ended."""
    result = state.verdict.result(state.exercise.name) if state.verdict else None
    if result is None:
        return f"{state.exercise.name}: no verdict yet."
    points = result.exercise.points
    earned = f"{format_points(result.earned)} of {format_points(points)} points"
    return f"{state.exercise.name}: {OUTCOMES.get(result.outcome, 'not passed yet')}, {earned}."


def _elapsed(state: State) -> str:
    seconds = time.monotonic() - state.started_at
    return f" ({seconds:.0f} s so far)" if seconds >= 1 else ""


def _print_verdict(page: _Lines, state: State, verdict: Verdict) -> None:
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
        for sentence in replaced_sentences(result.replaced):
            page.wrapped(sentence, yellow=True)
        page.wrapped(exercise.unlocks)
        if following := next_unpassed(exercise):
            page.blank()
            way = "press n" if state.keys else f"headway watch {following.name}"
            page.line(f"Next: {following.name} ({way})", bold=True)
    elif result.outcome == "todo" and not result.forbidden:
        _print_todo(page, result)
    else:
        print_result(page, result, last="")
        if has_failing_picture(result):
            page.blank()
            page.line(f"For a picture: headway show {exercise.name}")
    if result is not None and 0 < result.earned < exercise.points:
        page.blank()
        earned = format_points(result.earned)
        page.line(f"So far: {earned} of {format_points(exercise.points)} points.")
    for note in verdict.notes:
        page.blank()
        page.wrapped(f"Note: {note}", yellow=True)


def _print_file_problem(page: _Lines, state: State) -> None:
    page.title(f"{state.file_name or state.exercise.module + '.py'} cannot be tested")
    page.wrapped(state.file_reason[:1].upper() + state.file_reason[1:], red=True)
    if state.file_name and not (EXERCISES / state.file_name).exists():
        page.wrapped(f"To create the stub again: headway reset {state.file_name.partition('_')[0]}")
    if state.file_excerpt:
        page.blank()
        for line in state.file_excerpt:
            page.line(line[: page.width])


def _print_todo(page: _Lines, result: ExerciseResult) -> None:
    page.title("not complete yet" if result.written else "not implemented yet")
    waits = {test.message for test in result.tests if test.outcome == "todo"} - {"", NOT_IMPLEMENTED}
    if waits:
        page.wrapped(f"{result.exercise.name} cannot be tested yet, because {sorted(waits)[0]}.", yellow=True)
    elif result.written:
        page.wrapped(f"{result.written} Save the file when it is; the result appears here.", yellow=True)
    else:
        page.wrapped("Write the code and save the file; the result appears here.", yellow=True)


def _count(result: ExerciseResult) -> str:
    tests = len(result.tests)
    return "its one test passes" if tests == 1 else f"all {tests} tests pass"


class _Lines(Page):
    """A page that collects its lines."""

    def __init__(self, width: int, height: int = 0) -> None:
        self.lines: list[Text] = []
        super().__init__(self._add_line, width, height)

    def _add_line(self, text: str, **markup: bool) -> None:
        self.lines.append(Text(text, " ".join(name for name, on in markup.items() if on)))
