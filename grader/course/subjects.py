"""What people come for, across the chapters: subjects.toml beside this file."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from grader.course.names import match_name, unknown_name
from grader.course.syllabus import Exercise, UnknownName, load_syllabus


@cache
def load_subjects() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def find_subject(word: str) -> str:
    """The subject that has this name or is also called so; UnknownName, with similar names, if there is none."""
    names = {each: name for name, fields in load_subjects().items() for each in (name, *fields["also"])}
    if found := match_name(word, names):
        return names[found]
    near = unknown_name("subject", word, names)
    raise UnknownName(f"{near}{'' if near.endswith('?') else '.'} The subjects are {', '.join(load_subjects())}")


def exercises_of(subject: str) -> list[Exercise]:
    """Its exercises in the order of the course; a handout may lack some of them."""
    wanted = load_subjects()[subject]["exercises"]
    return [exercise for exercise in load_syllabus().exercises if exercise.name in wanted]
