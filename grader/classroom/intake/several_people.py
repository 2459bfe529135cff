"""Recognises the files of a whole class where one person's are expected: in the folder above an export, or in one with
a folder for each assignment.

Then folders or files next to each other, with different names, have the same chapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from grader.classroom.intake.file_names import parse_code_name, parse_owner
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.sanitize import list_names, shorten

FEW_COPIES = 3  # with fewer copies of a chapter, a person has probably handed in several versions
MANY_COPIES = 7  # no person hands in so many versions
MAX_PATHS = 10_000


def find_people(places: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the most folders or files next to each other that have the same chapter, and the folder that
    contains them.

    `places` has the chapter and the path of each file. With fewer names than FEW_COPIES there are none.
    """
    beside: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for module, path in places[:MAX_PATHS]:
        for depth, name in enumerate(path[:-1]):
            beside.setdefault((module, path[:depth]), set()).add(name)
        if person := _find_person(path[-1]):
            beside.setdefault((module, path[:-1]), set()).add(person)
    (_, folder), names = max(beside.items(), key=lambda one: len(one[1]), default=(("", ()), ()))
    return (tuple(sorted(names)), folder) if len(names) >= FEW_COPIES else ((), ())


def _find_person(file: str) -> str:
    """The person in a file's name, as in NAME_ch03_attention.py, NAME_123_456_homework.py and NAME.zip, else ""."""
    owner, code = parse_owner(file, False), parse_code_name(file)
    is_version = code and code.module and file.lower().startswith(code.module)  # ch03_attention_old.py
    is_unnamed = code and not code.module and owner and not owner.platform
    return owner.name if owner and not is_version and not is_unnamed else ""


def explain_people(names: Sequence[str]) -> str:
    """Why a submission with the files of so many people is not graded; "" if they may be one person's."""
    if len(names) < MANY_COPIES:
        return ""
    return f"it {_describe(names)}, as a whole class does; if it is one person's, submit one version"


def refuse_classes(path: Path, submissions: Iterable[Submission], add_note: Callable[[str], None]) -> None:
    """GradingProblem if every submission with code seems to be a whole class; if only some do, a note on each."""
    having = [one for one in submissions if one.sources or one.people]
    classes = {one.people_in: one.people for one in having if one.people}
    sentences = [f"{shorten(folder)} {_describe(people)}" for folder, people in sorted(classes.items())]
    if having and all(one.people for one in having):
        first = sorted(classes)[0]
        how = f"grade one folder or archive at a time, like {path / first}"
        if path.is_file():
            how = f"unpack it, and grade one of its folders at a time, like {first}"
        raise GradingProblem(
            f"{path.name or path} seems to contain whole classes and not the submissions of single people: "
            f"{sentences[0]}; {how}. If these are versions of one person, grade a table with the columns name,path"
        )
    for sentence in sentences:
        add_note(f"{sentence}; if these are several people, grade it by itself")


def _describe(names: Sequence[str]) -> str:
    return f"has the same chapter {len(names)} times ({list_names(names, 3)})"
