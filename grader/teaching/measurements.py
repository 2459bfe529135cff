"""`headway measure NAME`: repeats the measurement behind a table of a lesson.

To add one, write a function `report_NAME(chapters, seed)` in the folder of the last chapter that it needs, in
grader/chapters/. Its docstring begins with "Lesson N: " and what it measures; `--help` prints it. It yields tables and
sentences. `chapters.module("ch03_attention")` is a chapter, the reference's or that of `--target`. Each keyword-only
parameter is an option: `steps: int = 700` becomes `--steps`, a tuple takes several numbers.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from grader.chapters import find_files, module_name
from grader.course.source import read_source
from grader.course.syllabus import load_syllabus
from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from grader.execution.chapter_package import ChapterPackage

Report = Iterator[Table | str]  # what a measurement yields
REPORT = re.compile(r'^def report_(\w+)\(.*?"""(Lesson (\d+): .*?)(?:"""|\n)', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Measurement:
    name: str
    title: str
    lesson: int
    last_chapter: int  # that it needs
    module: str


def list_measurements() -> dict[str, Measurement]:
    """Return the measurements by name, in the order of their lessons. A handout has those of its own lessons."""
    found = []
    for path in find_files("*.py"):
        for match in REPORT.finditer(read_source(path)):
            name, title, lesson = match.groups()
            found.append(Measurement(name, title, int(lesson), int(path.parent.name[2:4]), module_name(path)))
    chapters = load_syllabus().chapters
    lessons, last_here = {chapter.number for chapter in chapters if chapter.exercises}, chapters[-1].number
    here = [one for one in found if one.lesson in lessons and one.last_chapter <= last_here]
    return {one.name: one for one in sorted(here, key=lambda one: (one.lesson, one.name))}


def run_measurement(name: str, arguments: Sequence[str] | None = None) -> None:
    """Print what the measurement finds; end with status 2 and a sentence if it cannot run."""
    import torch
    from grader.execution.errors import ChapterBroken
    from grader.execution.target import NoTarget
    from grader.files import UserProblem
    from rich.console import Console

    measurement = list_measurements()[name]
    report = getattr(import_module(measurement.module), f"report_{name}")
    parser = _parser(name, report)
    options = vars(parser.parse_args(arguments))
    word, threads = options.pop("target"), torch.get_num_threads()
    torch.set_num_threads(1)  # sums then come in one order, so the numbers repeat
    try:
        package, console = open_chapters(word, measurement.last_chapter), Console()
        with torch.random.fork_rng(devices=[]):
            for part in report(package, **options):
                console.print(part, highlight=False)
        package.close()
    except (NoTarget, ChapterBroken, ModuleNotFoundError, UserProblem) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{word}: an exercise that this measurement needs is not implemented yet")
    finally:
        torch.set_num_threads(threads)


def open_chapters(word: str = "solutions", last: int = 99) -> ChapterPackage:
    """The chapters of the reference, or of a folder, up to a last one."""
    from grader.execution.chapter_package import ChapterPackage
    from grader.execution.target import resolve

    target = resolve(word)
    chapters = [chapter for chapter in load_syllabus().chapters if chapter.number <= last]
    return ChapterPackage([target.source(each.name) for each in chapters if target.has(each.name)], "measured")


def _parser(name: str, report: Callable) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"headway measure {name}", description=inspect.getdoc(report))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for option in inspect.signature(report).parameters.values():
        if option.name == "seed":
            first = 0 if option.default is option.empty else option.default
            parser.add_argument("--seed", type=int, default=first, help=f"other random numbers (default {first})")
        elif option.kind is option.KEYWORD_ONLY:
            several = isinstance(option.default, tuple)
            shown = " ".join(map(str, option.default)) if several else option.default
            count, flag = "+" if several else None, f"--{option.name}"
            parser.add_argument(flag, type=int, nargs=count, default=option.default, help=f"default {shown}")
    whose = "the chapters to use: a folder with them, such as `exercises` (default: `solutions`, the reference)"
    parser.add_argument("--target", metavar="DIR", default="solutions", help=whose)
    return parser


def result_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str = "", **look: Any
) -> Table:
    """Return a table whose first column is text and whose other columns are numbers; `form` is that of fractions."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, **look)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(format(cell, form) if isinstance(cell, float) else str(cell) for cell in row))
    return table


if __name__ == "__main__":
    run_measurement(sys.argv[1], sys.argv[2:])
