"""What the smaller measurements share: their options, the chapters that they measure, and how they print tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.errors import ChapterBroken
from grader.execution.target import NoTarget, package_sources, resolve
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Report = Callable[[ChapterPackage, int], Iterable[Table | str]]


def run_measurement(doc: str | None, last_chapter: str, report: Report, arguments: list[str] | None = None) -> int:
    """Print what `report(chapters, seed)` yields; the options `--seed` and `--target` choose its arguments.

    The chapters are those up to `last_chapter`. The state of torch's generators and the number of threads are restored.
    """
    what = (doc or "").partition("\n")[0]
    spec = sys.modules[report.__module__].__spec__  # of the module that runs as a program, where __name__ is "__main__"
    parser = argparse.ArgumentParser(prog=f"headway measure {spec.name.rpartition('.')[2] if spec else 'NAME'}", description=what)
    parser.add_argument("--seed", type=int, default=0, help="other random numbers (default 0)")
    whose = "the chapters to use: a folder with them, such as `exercises` (default: `solutions`, the reference)"
    parser.add_argument("--target", metavar="DIR", default="solutions", help=whose)
    asked = parser.parse_args(arguments)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums then come in one order, so the numbers repeat
    console = Console()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter(last_chapter), whole=True), "measured")
            try:
                for part in report(package, asked.seed):
                    console.print(part, highlight=False)
            finally:
                package.close()
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: an exercise that this measurement needs is not implemented yet")
    finally:
        torch.set_num_threads(threads)
    return 0


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table whose first column is text and whose other columns are numbers."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table
