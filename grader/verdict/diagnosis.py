"""Recognises known mistakes in the learner's code.

Tests are deterministic and use an implementation only across the boundary, so a mistake can be recognised by its answers: the tests' requests to
the learner's code are replayed on each mistaken reference. The diagnosis names the mistake whose answers agree everywhere. If no mistake does, the
code has a second fault, or makes a mistake in a way of its own. Then the diagnosis names the two mistakes that give all answers together, or the
mistake that explains whole tests, without giving a wrong answer where the learner's is right. Otherwise there is no diagnosis, because a false one
is worse than none.

`replay.py` runs the mistaken references, `evidence.py` compares their answers with the learner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from grader.course.known_mistakes import Misconception, misconceptions
from grader.course.syllabus import Exercise
from grader.verdict.evidence import CONFLICT, CORNER, OTHER_FAULT, Facts, Match, agrees, distance, facts_of, first_different, match
from grader.verdict.replay import open_mistaken, open_reference
from grader.verdict.results import Diagnosis
from grader.verdict.traces import Record

LEAST_WEIGHT = 3.0  # unusual values that a mistake must explain in several tests, or twice as many in one, if it does not explain every test
LEAST_PAIR_WEIGHT = 0.5  # that two mistakes must explain which explain every test
CORNER_CASE_WEIGHT = 12.0  # that a mistake must explain, or CORNER_CASE_TESTS tests, if its answer is different in a corner case
CORNER_CASE_TESTS = 3
ONE_TEST_OF = 4  # it must explain one in so many of the failed tests
COMMON_ANSWER = 3  # mistakes, or a quarter of them: if more explain a test, it does not count, because such an answer shows none of them
MOST_PAIRS = 120  # that are tried

Passing = list[tuple[Record, int]]  # with the number of replies, from the first on, that correct code gives
Map = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Candidate:
    """One or two mistakes, compared with the learner's answers."""

    mistakes: tuple[Misconception, ...]
    matches: list[Match]  # for each failing record
    breaks: int = 0  # passing records in which the answers differ

    @property
    def complete(self) -> bool:
        return all(match.full for match in self.matches) and not self.breaks

    @property
    def weight(self) -> float:
        return sum(match.weight for match in self.matches)

    @property
    def possible(self) -> bool:
        """Does it pass what the learner's code passes? In one failed test, code of another style may differ in a corner case if it agrees in many."""
        ends = [match.end for match in self.matches if not match.full]
        if self.breaks or CORNER not in ends:
            return not self.breaks
        places = self.explained()
        return len(ends) == 1 and (len(places) >= CORNER_CASE_TESTS or sum(self.matches[place].weight for place in places) >= CORNER_CASE_WEIGHT)

    def explained(self) -> list[int]:
        """The places of the records that it explains."""
        return [place for place, match in enumerate(self.matches) if match.weight and (match.full or match.end == OTHER_FAULT and match.weight >= 2.0)]

    def named(self, failing: list[Facts]) -> Diagnosis:
        places = sorted(range(len(failing)) if self.complete else self.explained(), key=lambda place: (not self.matches[place].full, -self.matches[place].weight))
        tests = [failing[place].record.test for place in places]
        first, *others = map(_as_diagnosis, self.mistakes)
        return replace(first, explains=tests, also=others[0] if others else None)


def _as_diagnosis(mistake: Misconception) -> Diagnosis:
    return Diagnosis(mistake.id, mistake.says, mistake.hint)


def diagnose(exercise: Exercise, records: list[Record], each: Map = map) -> Diagnosis | None:
    """The known mistake, or the two, that the learner's answers show; None if that is not certain.

    `each` applies a function to all known mistakes, perhaps in parallel; one after another this is most of the work.
    """
    wrong = sorted((record for record in records if not record.passed and record.log), key=lambda record: len(record.log))
    if not wrong:
        return None
    known = list(misconceptions(exercise.module, exercise.name))
    with open_reference(exercise) as reference:  # a mistake must be nearer than the reference to numbers that are wrong by little
        nearly_right = [(record, gap) for record in wrong if agrees(reference, record) and (gap := distance(reference, record)) > 0]

    def fits(mistake: Misconception) -> bool:
        with open_mistaken(exercise, mistake) as replayer:
            if replayer is None or not all(agrees(replayer, record) for record in wrong):
                return False
            return all(distance(replayer, record) < gap / 2 for record, gap in nearly_right)

    fitting = [mistake for mistake, fit in zip(known, each(fits, known)) if fit]
    with open_reference(exercise) as reference:  # behind the first reply that is not the reference's, correct code may differ
        passing = [(record, first_different(reference, record)) for record in records if record.passed]
    complete = [mistake for mistake in fitting if not _compare(exercise, (mistake,), [], passing).breaks]
    if complete:
        tests = [record.test for record in wrong]
        return replace(_as_diagnosis(complete[0]), explains=tests) if len(complete) == 1 else None
    with open_reference(exercise) as reference:
        failing = [facts_of(reference, record) for record in wrong]
    found = _search(exercise, known, failing, passing, each)
    return found.named(failing) if found else None


def _search(exercise: Exercise, known: list[Misconception], failing: list[Facts], passing: Passing, each: Map) -> Candidate | None:
    """The best explanation by two mistakes, or by one that does not explain everything.

    One of two mistakes must explain an answer alone. Two that explain answers only together may be a third mistake: two edits can make one swap.
    """
    alone = list(each(lambda mistake: _compare(exercise, (mistake,), failing, passing), known))
    explaining = [sum(one.matches[place].weight > 0 for one in alone) for place in range(len(failing))]
    failing = [replace(facts, weights=facts.without_weight()) if many > max(COMMON_ANSWER, len(alone) // 4) else facts for facts, many in zip(failing, explaining)]
    alone = [replace(one, matches=[replace(match, weight=min(match.weight, facts.most)) for match, facts in zip(one.matches, failing)]) for one in alone]
    possible = sorted((one for one in alone if one.possible), key=lambda one: -one.weight)
    pairs = [(one.mistakes[0], other.mistakes[0]) for one, other in combinations(possible, 2) if one.weight][:MOST_PAIRS]
    together = [found for found in each(lambda pair: _compare(exercise, pair, failing, passing, completely=True), pairs) if found.complete]
    return _best_pair(together, alone) or _best_partly(possible, failing)


def _compare(exercise: Exercise, mistakes: tuple[Misconception, ...], failing: list[Facts], passing: Passing, completely: bool = False) -> Candidate:
    """`completely`: stop at the first answer that the mistakes do not give."""
    matches: list[Match] = []
    with open_mistaken(exercise, *mistakes) as replayer:
        for facts in failing:
            matches.append(match(replayer, facts))
            if completely and not matches[-1].full:
                return Candidate(mistakes, matches)
        broken = 0
        for record, right in passing:
            broken += replayer is None or first_different(replayer, record) < right
            if broken > 1 or broken and completely:
                break
    return Candidate(mistakes, matches, broken)


def _best_pair(together: list[Candidate], alone: list[Candidate]) -> Candidate | None:
    """The only pair that explains everything, or the mistake that all of them share. Each of the two must explain something that the other does not.

    It is not named if one other mistake explains alone more of what they explain only together than either of them explains alone. Such a pair may
    be the same function as another one that was not tried, because the edits of those two change the same place.
    """
    single = {candidate.mistakes[0]: candidate for candidate in alone}

    def gain(pair: Candidate, one: Misconception) -> float:
        return sum(both.weight for both, match in zip(pair.matches, single[one].matches) if not match.full)

    def has_simpler_rival(pair: Candidate) -> bool:
        needs_both = [place for place in range(len(pair.matches)) if not any(single[one].matches[place].full for one in pair.mistakes)]
        most = max(LEAST_WEIGHT, *(single[one].weight for one in pair.mistakes))
        rivals = [one for one in alone if one.possible and one.mistakes[0] not in pair.mistakes]
        return any(sum(one.matches[place].weight for place in needs_both if one.matches[place].full) > most for one in rivals)

    together = [pair for pair in together if pair.weight >= LEAST_PAIR_WEIGHT and all(gain(pair, one) > 0 for one in pair.mistakes) and not has_simpler_rival(pair)]
    if not together:
        return None
    if len(together) == 1:
        mistakes = sorted(together[0].mistakes, key=lambda one: -single[one].weight)
        return replace(together[0], mistakes=tuple(mistakes))
    shared = set.intersection(*(set(pair.mistakes) for pair in together))
    return single[shared.pop()] if len(shared) == 1 else None


def _best_partly(possible: list[Candidate], failing: list[Facts]) -> Candidate | None:
    """The mistake that explains the most tests, if it is only one, and perhaps a second one that explains other tests."""
    certain = [one for one in possible if not any(match.end == CONFLICT for match in one.matches)]
    best = _only_best(certain, set())
    if best is None or ONE_TEST_OF * len(best.explained()) < len(failing):
        return None
    other = _only_best(certain, set(best.explained()))
    if other is None:
        return best
    matches = [max(pair, key=lambda match: (match.full, match.weight)) for pair in zip(best.matches, other.matches)]
    return Candidate((*best.mistakes, *other.mistakes), matches)


def _only_best(possible: list[Candidate], without: set[int]) -> Candidate | None:
    """The only mistake with the best explanation of the records whose places are not in `without`, if it explains enough."""

    def score(candidate: Candidate) -> tuple[int, float]:
        places = set(candidate.explained()) - without
        return len(places), sum(candidate.matches[place].weight for place in places)

    ranked = sorted(possible, key=score, reverse=True)
    if not ranked or score(ranked[0])[1] < (LEAST_WEIGHT if score(ranked[0])[0] > 1 else 2 * LEAST_WEIGHT) or (len(ranked) > 1 and score(ranked[1]) == score(ranked[0])):
        return None
    return ranked[0]
