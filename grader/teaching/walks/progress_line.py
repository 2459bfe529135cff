"""Progress of long work: a bar on standard error that disappears at the end; without a terminal, one plain line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from grader.console.output import make_console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

AdvanceStep = Callable[[], None]
ProgressReporter = Callable[[str, int], AbstractContextManager[AdvanceStep]]  # of what is done, and the number of steps


@contextmanager
def show_progress(what: str, total: int) -> Iterator[AdvanceStep]:
    """Show the progress to a person who waits."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        console.print(f"{what} ...", soft_wrap=True)
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(30), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def hide_progress(what: str, total: int) -> Iterator[AdvanceStep]:
    """Show nothing; for tests."""
    yield lambda: None
