"""The versions that were compared with the learner's answers, and which of them is the explanation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grader.course.known_mistakes import Misconception
from grader.verdict.evidence import CONFLICT, CORNER, Comparison, Match
from grader.verdict.replay import Version
from grader.verdict.results import Diagnosis

# unusual values that a mistake must explain in several tests, or twice as many in one, if it does not explain every
# test
MIN_WEIGHT = 3.0
# that a mistake must explain, or CORNER_CASE_TESTS tests, if its answer is different in a corner case
CORNER_CASE_WEIGHT = 12.0
CORNER_CASE_TESTS = 3
MAX_TESTS_FOR_EACH_EXPLAINED = 4  # it must explain one in so many of the failed tests


@dataclass(frozen=True)
class Candidate:
    """A version of the exercise with one or two mistakes, compared with the learner's answers."""

    version: Version
    mistakes: tuple[Misconception, ...]  # those that are named, the version's own first
    matches: list[Match]  # for each failing record
    breaks_passing: bool = False  # whether its answers differ in a test that the learner's code passes

    @property
    def complete(self) -> bool:
        return all(match.full for match in self.matches) and not self.breaks_passing

    @property
    def weight(self) -> float:
        return sum(match.weight for match in self.matches)

    @property
    def possible(self) -> bool:
        """Does it pass what the learner's code passes? In one failed test, other code may differ in a corner case."""
        ends = [match.end for match in self.matches if not match.full]
        if self.breaks_passing or CORNER not in ends:
            return not self.breaks_passing
        places = self.explained()
        weight = sum(self.matches[place].weight for place in places)
        return len(ends) == 1 and (len(places) >= CORNER_CASE_TESTS or weight >= CORNER_CASE_WEIGHT)

    def explained(self) -> list[int]:
        """The places of the records that it explains."""
        return [place for place, match in enumerate(self.matches) if match.explains]

    def score(self, without: frozenset[int] = frozenset()) -> tuple[int, float]:
        """How many records it explains, those at the places `without` left out, and by how much."""
        places = set(self.explained()) - without
        return len(places), sum(self.matches[place].weight for place in places)

    def named(self, failing: list[Comparison]) -> Diagnosis:
        places = list(range(len(failing))) if self.complete else self.explained()
        places.sort(key=lambda place: (not self.matches[place].full, -self.matches[place].weight))
        return diagnosis_of(self.mistakes, [failing[place].record.test for place in places])


def diagnosis_of(mistakes: Iterable[Misconception], tests: list[str]) -> Diagnosis:
    """The diagnosis that these mistakes explain these tests. It has room for two of them."""
    first, *others = (Diagnosis(mistake.id, mistake.says, mistake.hint) for mistake in mistakes)
    return replace(first, explains=tests, also=others[0] if others else None)


def best_pair(together: list[Candidate], alone: list[Candidate]) -> Candidate | None:
    """The only pair that explains everything, or the mistake that all of them share. Each of the two must explain
    something that the other does not.

    It is not named if one other mistake explains alone more of what they explain only together than either of them
    explains alone. Such a pair may be the same function as another one that was not tried, because the edits of those
    two change the same place.
    """
    single = {one.version.mistakes[0]: one for one in alone if one.version.mistakes}

    def gain(pair: Candidate, one: Misconception) -> float:
        return sum(both.weight for both, match in zip(pair.matches, single[one].matches) if not match.full)

    def has_simpler_rival(pair: Candidate) -> bool:
        two = pair.version.mistakes
        places = range(len(pair.matches))
        needs_both = [place for place in places if not any(single[one].matches[place].full for one in two)]
        most = max(MIN_WEIGHT, *(single[one].weight for one in two))
        rivals = [one for mistake, one in single.items() if one.possible and mistake not in two]
        matches = [[one.matches[place] for place in needs_both] for one in rivals]
        return any(sum(match.weight for match in found if match.full) > most for found in matches)

    together = [pair for pair in together if all(gain(pair, one) > 0 for one in pair.version.mistakes)]
    together = [pair for pair in together if not has_simpler_rival(pair)]
    if not together:
        return None
    if len(together) == 1:
        mistakes = sorted(together[0].version.mistakes, key=lambda one: -single[one].weight)
        return replace(together[0], mistakes=tuple(mistakes))
    shared = set.intersection(*(set(pair.version.mistakes) for pair in together))
    return single[shared.pop()] if len(shared) == 1 else None


def best_of_each(possible: list[Candidate]) -> list[Candidate]:
    """For each mistake the base on which it explains the most; the earlier one of two that explain the same."""
    found: dict[Misconception, Candidate] = {}
    for one in possible:
        if one.mistakes[0] not in found or one.score() > found[one.mistakes[0]].score():
            found[one.mistakes[0]] = one
    return list(found.values())


def best_partly(possible: list[Candidate], failing: list[Comparison]) -> Candidate | None:
    """The only mistake that explains the most tests, and perhaps a second one that explains other tests."""
    certain = [one for one in possible if not any(match.end == CONFLICT for match in one.matches)]
    best = _only_best(certain, frozenset())
    if best is None or MAX_TESTS_FOR_EACH_EXPLAINED * len(best.explained()) < len(failing):
        return None
    other = _only_best(certain, frozenset(best.explained()))
    if other is None or len(best.mistakes) > 1:
        return best
    matches = [max(pair, key=lambda match: (match.full, match.weight)) for pair in zip(best.matches, other.matches)]
    return replace(best, mistakes=(*best.mistakes, *other.mistakes), matches=matches)


def _only_best(possible: list[Candidate], without: frozenset[int]) -> Candidate | None:
    """The only mistake that best explains the records whose places are not in `without`, if it explains enough."""
    ranked = sorted(possible, key=lambda one: one.score(without), reverse=True)
    if not ranked:
        return None
    count, weight = ranked[0].score(without)
    is_only = len(ranked) == 1 or ranked[1].score(without) != (count, weight)
    if not is_only or weight < (MIN_WEIGHT if count > 1 else 2 * MIN_WEIGHT):
        return None
    return ranked[0]
