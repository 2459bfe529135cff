"""What `headway grade` prints: how far it is, and a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.class_report import format_number, measure_distribution
from grader.classroom.grading import ClassToGrade, GradingOutcome
from grader.console.output import make_console, print_error, print_sentence
from grader.counts import format_count
from grader.course.progress import format_points
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

MAX_PROGRESS_LINES = 20  # without a terminal
MAX_ZEROS = 20  # people without points
SAME_LINE_SECONDS = 5  # between two lines about the same submission, without a terminal


class TerminalScreen:
    """Shows how far a run is."""

    @contextmanager
    def show_reading(self) -> Iterator[Callable[[str], None]]:
        """A line with what is being read. Without a terminal, one a second, or less often if it is the same one."""
        console, last, printed = make_console(), "", time.monotonic()
        status = console.status("reading") if console.is_terminal else None

        def report(what: str) -> None:
            nonlocal last, printed
            shown, now = sanitize.shorten(what), time.monotonic()
            if status:
                status.update(Text(f"reading {shown}"))
            elif now - printed >= (SAME_LINE_SECONDS if what == last else 1):
                console.print(f"{'still ' * (what == last)}reading {shown}", soft_wrap=True)
                last, printed = what, now

        with status or nullcontext():
            yield report

    @contextmanager
    def show_progress(self) -> Iterator[Callable[[int, int, str], None]]:
        """A bar or lines. The function gets the number of graded submissions, of all, and the last name."""
        console = make_console()
        progress = Progress(
            TextColumn("grading"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", markup=False),
            console=console, speed_estimate_period=600, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        task = progress.add_task("grading", total=None, last="")

        def report(done: int, of: int, last: str) -> None:
            progress.update(
                task, completed=done, total=of, last=sanitize.line(last)[:30] if last else "loading the tests"
            )
            if not console.is_terminal and of and (done in (0, of) or done % max(1, of // MAX_PROGRESS_LINES) == 0):
                console.print(f"graded {done} of {of}")

        with progress:
            yield report

    def say(self, sentence: str) -> None:
        print_sentence(sentence)

    def warn(self, sentence: str) -> None:
        print_error(sentence)


def print_plan(found: ClassToGrade) -> bool:
    """Say who would be graded, and who not, and why. Whether all could be."""
    names = [one.name for one in found.submissions if not one.problem]
    many = format_count(len(names), "person", "people")
    print_sentence(f"Would be graded: {many}: {sanitize.list_names(names, len(names))}.")
    for one in found.submissions:
        modules = dict.fromkeys(map(found.rules.module_of, found.exercises))
        sent = "; ".join(dict.fromkeys(filter(None, map(one.absent.get, modules))))
        if one.problem or sent:
            what = f"Could not be graded: {one.name}: {one.problem}" if one.problem else f"{one.name}: {sent}"
            print_sentence(sanitize.line(f"{what}."), style="yellow")
    for note in found.notes:
        print_sentence(f"Note: {note}", style="yellow")
    print_sentence("Nothing was graded, and nothing was written.")
    return len(names) == len(found.submissions)


def print_summary(outcome: GradingOutcome, out: Path) -> None:
    """What was graded. Of those who were not to be graded again, the ones without a mark are only counted."""
    console = make_console()
    people = [person for person in outcome.graded_class.people if not person.missing]
    counts = format_count(len(people), "person", "people")
    now = format_count(outcome.graded_now, "submission")
    console.print(f"{counts}, {now} graded now, {format_points(float(outcome.graded_class.points))} points possible.")
    if spread := measure_distribution([person for person in people if not person.problem]):
        lowest, median, highest = map(format_number, (spread.lowest, spread.median, spread.highest))
        console.print(f"lowest {lowest}, median {median}, highest {highest}")
    zeros = [person for person in people if not person.problem and not person.total.earned and person.remark]
    for person in zeros[:MAX_ZEROS]:
        print_sentence(f"0 points: {person.name}: {person.remark}.", style="yellow")
    if more := zeros[MAX_ZEROS:]:
        print_sentence(f"0 points: {format_count(len(more), 'other person', 'other people')}; grades.csv says why.")
    for person in outcome.ungraded:
        print_sentence(f"Not graded: {person.name}: {person.problem}.", style="yellow")
    if others := sum(bool(person.problem) for person in people) - len(outcome.ungraded):
        count = format_count(others, "other submission")
        print_sentence(f"{count} of the class could not be graded; report.html says why.")
    for note in outcome.notes:
        print_sentence(f"Note: {note}", style="yellow")
    has_report = any(path.name == "report.html" for path in outcome.written)
    report = " report.html (open it before the lecture)," if has_report else ""
    print_sentence(f"{out} contains grades.csv,{report} feedback/, gradescope/ and the gradebook.")
    if outcome.left_out:  # the instructor said so, or they could not be graded
        result = "The table and the feedback leave them out; their results stay in the gradebook."
        names = sanitize.list_names(outcome.left_out)
        print_sentence(f"Note: in the last run and not in this one: {names}. {result}", style="yellow")
