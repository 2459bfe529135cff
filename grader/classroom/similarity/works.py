"""Reads what each person of a class submitted into pieces of code, without those that the course explains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache

from grader.classroom.intake.submissions import Submission
from grader.classroom.similarity.fingerprints import Piece, chapter_pieces
from grader.classroom.similarity.pairs import Exercise, Work
from grader.course.source import SourceProblem, is_written
from grader.course.syllabus import Exercise as SyllabusExercise

MOST_PIECES = 4000  # of one exercise; the longest one of the reference has 300


def read_works(
    submissions: Sequence[Submission], exercises: Iterable[SyllabusExercise], explained: Set[Piece], groups: Mapping[str, str]
) -> tuple[list[Work], list[str]]:
    """Each person's work in these exercises, and sentences on what is not compared. `groups` has the group of each name that has one."""
    modules: dict[str, set[str]] = {}
    for exercise in exercises:
        modules.setdefault(exercise.module, set()).add(exercise.name)
    works, notes = [], []
    for one in submissions:
        pieces: dict[Exercise, Set[Piece]] = {}
        if one.problem:
            notes.append(f"{one.name}: {one.problem}")
        for module in sorted(one.sources.keys() & modules.keys()):
            try:
                found = _chapter_pieces(one.sources[module])
            except SourceProblem as problem:
                where = f"{module}.py" if problem.line is None else f"{module}.py, line {problem.line}"
                notes.append(f"{one.name}: {where}: {problem.reason}, so the file is not compared")
                continue
            for name in [name for name in found if not name or name in modules[module]]:
                if len(found[name]) > MOST_PIECES:
                    notes.append(f"{one.name}: {name or 'the other code'} of {module}.py is too long to compare")
                elif rest := frozenset(found[name] - explained):
                    pieces[module, name] = rest
        notes += [f"{one.name}: {sentence}" for sentence in one.broken.values() if sentence != one.problem]
        works.append(Work(one.name, one.digest, groups.get(one.name) or one.group, pieces, {name: one.sources[name] for name in one.sources.keys() & modules.keys()}))
    return works, notes


@lru_cache(maxsize=16)  # people with the same files follow each other if one group handed them in
def _chapter_pieces(text: str) -> dict[str, set[Piece]]:
    return chapter_pieces(text)


def has_written(work: Work, exercises: Collection[SyllabusExercise]) -> bool:
    """Whether this person wrote at least one of these exercises: two folders of unchanged stubs are identical, and mean nothing."""
    for exercise in exercises:
        try:
            if exercise.module in work.sources and is_written(work.sources[exercise.module], exercise.name):
                return True
        except SourceProblem:
            continue
    return False
