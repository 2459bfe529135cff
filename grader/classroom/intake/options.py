"""How submissions are read: the chapter of a file, which of several copies counts, and whether file dates count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grader.classroom.intake.file_names import strip_copy_number
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.sanitize import shorten
from grader.course.syllabus import load_syllabus

NEWEST, FULLEST, BETTER = "newest", "fullest", "better"
COPIES = (NEWEST, FULLEST, BETTER)


@dataclass(frozen=True)
class ReadOptions:
    chapters: Mapping[str, str] = field(default_factory=dict)  # file name in small letters → module, from `--map`
    copies: str = NEWEST  # which copy of a chapter counts: the newest, the one with most exercises, or with most points
    trust_file_dates: bool = False  # may the date of a file decide whether a submission is late?
    modules: frozenset[str] = frozenset()  # the graded chapters; empty for all
    assignment: str = ""  # of several versions of a chapter, the one in a folder with this name comes first

    def find_mapped(self, name: str) -> str:
        """Return the name in `--map` that fits this file or a numbered copy of it, else an empty text."""
        names = (name.lower(), strip_copy_number(name.lower()))
        return next((one for one in names if one in self.chapters), "")

    def find_module(self, name: str) -> str:
        """Return the module that `--map` names for this file or for a numbered copy of it, else an empty text."""
        return self.chapters.get(self.find_mapped(name), "")

    def is_graded(self, module: str) -> bool:
        return not self.modules or module in self.modules

    def is_in_assignment(self, path: tuple[str, ...]) -> bool:
        """Is this file in a folder with the name of the assignment?"""
        return bool(self.assignment) and self.assignment.casefold() in (part.casefold() for part in path[:-1])


DEFAULTS = ReadOptions()


def parse_options(
    maps: Iterable[str] = (),
    copies: str = NEWEST,
    trust_file_dates: bool = False,
    modules: Iterable[str] = (),
    assignment: str = "",
) -> ReadOptions:
    """The options as an instructor types them. GradingProblem for an invalid one, UnknownName for a wrong chapter."""
    if copies not in COPIES:
        choices = f"write --copies {NEWEST}, --copies {FULLEST} or --copies {BETTER}"
        raise GradingProblem(f"--copies {shorten(copies)}: this is unknown; {choices}")
    chapters: dict[str, str] = {}
    for words in maps:
        name, _, chapter = (part.strip() for part in words.rpartition("="))
        if not name or not chapter or "/" in name or "\\" in name or not name.lower().endswith((".py", ".ipynb")):
            raise GradingProblem(
                f"--map {shorten(words)}: write the name of a .py or .ipynb file, without folders, and its chapter, "
                "like --map homework3.py=ch03"
            )
        module = load_syllabus().chapter(chapter).name
        if (other := chapters.setdefault(name.lower(), module)) != module:
            raise GradingProblem(f"--map: {shorten(name)} is given two chapters, {other} and {module}; keep one")
    return ReadOptions(chapters, copies, trust_file_dates, frozenset(modules), assignment)
