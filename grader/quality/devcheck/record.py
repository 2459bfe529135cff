"""tests/checked.toml: the fingerprint of each exercise when it last kept every promise, shipped so that a fresh clone need not try it again.

dev-check writes it; `headway dev-check --changed` trusts it; CI does not. Two branches that both change a line are merged by running dev-check.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path

from grader.course.syllabus import TESTS, Exercise, load_syllabus
from grader.files import write_whole
from grader.quality.devcheck.fingerprint import fingerprint

RECORD = TESTS / "checked.toml"
HEAD = """\
# Written by `headway dev-check`, which `make test` runs. Commit it with the change that it belongs to; never edit it by hand.
# exercise = the fingerprint of all that its result depends on, when it last kept every promise at one seed.
"""


def read_record(path: Path = RECORD) -> dict[str, str]:
    """Exercise → fingerprint; empty if the record is missing or unreadable."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in entries.items() if isinstance(value, str)}


def unchanged(exercises: Collection[Exercise]) -> set[str]:
    """The names of the exercises that are unchanged since they last kept every promise."""
    record = read_record()
    return {exercise.name for exercise in exercises if exercise.name in record and record[exercise.name] == fingerprint(exercise)}


def record(intact: Collection[Exercise], broken: Collection[Exercise]) -> None:
    """Record the fingerprints of exercises that keep every promise, and remove those of broken ones. OSError if the file cannot be written."""
    before = read_record()
    entries = before | {exercise.name: fingerprint(exercise) for exercise in intact}
    for exercise in broken:
        entries.pop(exercise.name, None)
    if entries != before:
        lines = [f'{exercise.name} = "{entries[exercise.name]}"\n' for exercise in load_syllabus().exercises if exercise.name in entries]
        write_whole(RECORD, HEAD + "".join(lines))
