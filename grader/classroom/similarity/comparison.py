"""The result of comparing a class, with what the page, the table and the terminal need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.classroom.intake.submissions import Submission
from grader.classroom.similarity.excerpts import Line, mark_both
from grader.classroom.similarity.pairs import AlikeExercise, Pair, find_pairs, list_identical
from grader.classroom.similarity.pieces import Work, has_written, read_works
from grader.course.syllabus import Exercise

MAX_PAIRS = 200  # in the table; the page shows fewer of them side by side


@dataclass(frozen=True)
class Comparison:
    works: Sequence[Work]
    exercises: Sequence[Exercise]
    pairs: Sequence[Pair]  # at most MAX_PAIRS
    found: int  # all that are listed
    identical: Sequence[Sequence[str]]  # names of people with identical files
    clusters: Sequence[Sequence[str]]  # names of three or more people who are connected by pairs
    notes: Sequence[str]  # what is not compared

    @property
    def compared(self) -> int:
        return sum(bool(work.sources) for work in self.works)

    def names(self, pair: Pair) -> tuple[str, str]:
        return self.works[pair.first].name, self.works[pair.second].name

    def excerpts(self, pair: Pair, alike: AlikeExercise) -> tuple[list[Line], list[Line]]:
        """The lines of an exercise of both people."""
        first, second = (self.works[place].sources[alike.module] for place in (pair.first, pair.second))
        return mark_both((first, second), alike.name, alike.pieces)

    def count_lines(self, pair: Pair) -> int:
        """How many lines of the first person are alike."""
        return sum(line.is_alike for alike in pair.alike for line in self.excerpts(pair, alike)[0])


def compare(submissions: Sequence[Submission], exercises: Sequence[Exercise], groups: Mapping[str, str]) -> Comparison:
    """Compare the submissions; the order is that of the submissions' names."""
    works, notes = read_works(submissions, exercises, groups)
    pairs = find_pairs(works)
    same = [places for places in list_identical(works) if has_written(works[places[0]], exercises)]
    identical, clusters = (
        [[works[place].name for place in places] for places in found]
        for found in (same, [places for places in _clusters(pairs) if len(places) > 2])
    )
    return Comparison(works, exercises, pairs[:MAX_PAIRS], len(pairs), identical, clusters, notes)


def _clusters(pairs: Sequence[Pair]) -> list[list[int]]:
    """People who are connected by pairs, in sorted lists."""
    member: dict[int, set[int]] = {}
    for pair in pairs:
        together = member.get(pair.first, {pair.first}) | member.get(pair.second, {pair.second})
        member |= dict.fromkeys(together, together)
    return sorted(sorted(found) for found in {id(found): found for found in member.values()}.values())
