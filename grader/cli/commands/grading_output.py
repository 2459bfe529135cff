"""What `headway grade` prints: how far it is, and a summary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.grade import GradingOutcome
from grader.classroom.report.tally import measure_distribution
from grader.classroom.report.templates import format_count, format_number
from grader.console.output import make_console, print_sentence
from grader.course.progress import format_points
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

MAX_PROGRESS_LINES = 20  # without a terminal
People = Mapping[str, tuple[str, str]]  # name and digest, by file name


@contextmanager
def show_progress() -> Iterator[Callable[[int, int, str], None]]:
    """A bar or lines. The function gets the number of graded submissions, of all, and the last name."""
    console = make_console()
    progress = Progress(
        TextColumn("grading"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False),
        console=console, speed_estimate_period=600, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    task = progress.add_task("grading", total=None, last="")

    def report(done: int, of: int, last: str) -> None:
        progress.update(task, completed=done, total=of, last=sanitize.line(last)[:30] if last else "loading the tests")
        if not console.is_terminal and of and (done in (0, of) or done % max(1, of // MAX_PROGRESS_LINES) == 0):
            console.print(f"graded {done} of {of}")

    with progress:
        yield report


def print_summary(
    outcome: GradingOutcome, out: Path, notes: Sequence[str], asked: Collection[str] | None = None
) -> None:
    """What was graded.

    If only the people with the file names `asked` were to be graded again, others are only counted.
    """
    console = make_console()
    people = [person for person in outcome.graded_class.people if not person.missing]
    counts = format_count(len(people), "person", "people")
    now = format_count(outcome.graded_now, "submission")
    console.print(f"{counts}, {now} graded now, {format_points(float(outcome.graded_class.points))} points possible.")
    if spread := measure_distribution([person for person in people if not person.problem]):
        lowest, median, highest = map(format_number, (spread.lowest, spread.median, spread.highest))
        console.print(f"lowest {lowest}, median {median}, highest {highest}")
    ungraded = [person for person in people if person.problem]
    named = [person for person in ungraded if asked is None or person.slug in asked]
    for person in named:
        print_sentence(f"Not graded: {person.name}: {person.problem}.", style="yellow")
    if others := len(ungraded) - len(named):
        count = format_count(others, "other submission")
        print_sentence(f"{count} of the class could not be graded; report.html says why.")
    for note in [*notes, *outcome.notes]:
        print_sentence(f"Note: {note}", style="yellow")
    has_report = any(path.name == "report.html" for path in outcome.written)
    report = " report.html (open it before the lecture)," if has_report else ""
    print_sentence(f"{out} contains grades.csv,{report} feedback/, gradescope/ and the gradebook.")


def print_left_out(before: People, after: People) -> None:
    """Say who was in the last run and is not in this one: the instructor said so, or could not be graded."""
    kept = {name for name, _ in after.values()}
    gone = sorted({name for name, _ in before.values()} - kept)
    if gone:
        result = "The table and the feedback leave them out; their results stay in the gradebook."
        names = sanitize.list_names(gone)
        print_sentence(f"Note: in the last run and not in this one: {names}. {result}", style="yellow")
