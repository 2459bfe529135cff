"""Decides which exercises of a submission need no run, because the same has been judged before in this or another submission.

The gradebook stores results by fingerprint (equal_exercises.py). In a chapter whose text is equal, all results count, with everything that a learner
reads: the lines are the same. In another chapter, the result of an exercise with the same definitions counts if all its tests passed, or if it is not
implemented: such a result has no line, file or text of a learner. Every other result would: an exercise that fails is judged in each submission again.
A result that could be another one tomorrow is not shared: a timeout, a lost process, a test that did not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.equal_exercises import chapter_fingerprint, exercise_fingerprint, is_stub, missing_chapter
from grader.classroom.judging.seeds import exercise_seed
from grader.course.syllabus import Exercise
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult
from grader.verdict.summary import Verdict


@dataclass(frozen=True)
class Part:
    """The part of a submission that a run grades."""

    exercises: list[str]
    seeds: dict[str, int] = field(default_factory=dict)  # by exercise, for its own examples
    passed: list[str] = field(default_factory=list)  # exercises that are not in this part and are known to pass their tests


class ResultStore(Protocol):
    """Where results are found by fingerprint: the gradebook."""

    secret: str

    def equal_results(self, fingerprints: dict[str, str]) -> dict[str, ExerciseResult]: ...

    def is_judged_alone(self, digest: str) -> bool: ...


@dataclass(frozen=True)
class Plan:
    """What a run grades of one submission, and the results that it need not find."""

    part: Part
    whole: Part  # all of the submission
    known: dict[str, ExerciseResult]
    whole_chapters: dict[str, str]  # by exercise: the fingerprint of its chapter
    definitions: dict[str, str]  # by exercise, where it has one: its own fingerprint
    stubs: frozenset[str]  # exercises that are not implemented

    def is_contradicted_by(self, verdict: Verdict) -> bool:
        """Whether a chapter with known results does not import: then they are not its results, and the whole submission is judged."""
        return any(result.exercise.module in verdict.broken for result in self.known.values())

    def complete(self, verdict: Verdict) -> Verdict:
        """The verdict on all of the submission, from the one on its part. An interrupted run has a verdict on all of it: no points."""
        results = self.known | {result.exercise.name: result for result in verdict.results}
        return Verdict(list(results.values()), verdict.broken, verdict.newly_passed, verdict.notes)

    def fingerprints_to_store(self, verdict: Verdict) -> dict[str, list[str]]:
        """By exercise: the fingerprints under which its result counts for others."""
        found: dict[str, list[str]] = {}
        if verdict.notes:  # something unusual happened
            return found
        results = {result.exercise.name: result for result in verdict.results}
        stable = {name: _is_stable(result) and result.exercise.module not in verdict.broken for name, result in results.items()}
        for name, result in results.items():
            beside = [other for other in results if self.whole_chapters.get(other) == self.whole_chapters.get(name)]
            if name in self.whole_chapters and all(stable[other] for other in beside):
                found.setdefault(name, []).append(self.whole_chapters[name])
            if name in self.definitions and stable[name] and (result.outcome == "passed" or (name in self.stubs and _is_not_implemented(result))):
                found.setdefault(name, []).append(self.definitions[name])
        return found


class Planner:
    """Plans the grading of the submissions of one run."""

    def __init__(self, store: ResultStore, exercises: Sequence[Exercise], seed: int, share: bool = True) -> None:
        self.store, self.exercises, self.seed, self.share = store, exercises, seed, share
        self.asked: dict[str, list[str]] = {}  # by chapter: its exercises that are graded
        for exercise in exercises:
            self.asked.setdefault(exercise.module, []).append(exercise.name)

    def plan(self, submission: Submission) -> Plan:
        whole_chapters, definitions, stubs, seeds = {}, {}, set(), {}
        for exercise in self.exercises:
            name, module = exercise.name, exercise.module
            if module in submission.broken:
                continue
            text = submission.sources.get(module)
            chapter = missing_chapter(module) if text is None else chapter_fingerprint(module, text)
            own = exercise_fingerprint(text, exercise) if text is not None else None
            seeds[name] = exercise_seed(self.store.secret, self.seed, name, own or chapter)
            beside = ",".join(self.asked[module])  # whether another exercise of the chapter that is not graded fails is not known from the start
            whole_chapters[name] = f"{chapter} {beside}"
            if own:
                definitions[name] = f"{own} {beside}"
                stubs |= {name} if is_stub(text or "", name) else set()
        known = self._known(submission, whole_chapters, definitions)
        names = [exercise.name for exercise in self.exercises if exercise.name not in known]
        passed = [name for name, result in known.items() if result.outcome == "passed"]
        part = Part(names, {name: seeds[name] for name in names if name in seeds}, passed)
        return Plan(part, Part([exercise.name for exercise in self.exercises], seeds), known, whole_chapters, definitions, frozenset(stubs))

    def _known(self, submission: Submission, whole_chapters: dict[str, str], definitions: dict[str, str]) -> dict[str, ExerciseResult]:
        if not self.share or self.store.is_judged_alone(submission.digest):
            return {}
        equal = self.store.equal_results(whole_chapters)
        known: dict[str, ExerciseResult] = {}
        for names in self.asked.values():
            if all(name in equal for name in names):  # all or none: they were judged together
                known |= {name: equal[name] for name in names}
        return known | self.store.equal_results({name: own for name, own in definitions.items() if name not in known})


def _is_stable(result: ExerciseResult) -> bool:
    """Whether the result depends on the submitted code only, and not on how busy the machine was."""
    outcomes = {test.outcome for test in result.tests}
    return bool(outcomes) and outcomes <= {"passed", "failed", "todo"} and not result.partial and not result.missing_weight and "timeout" not in result.replaced.values()


def _is_not_implemented(result: ExerciseResult) -> bool:
    return all(test.outcome == "todo" and test.message == NOT_IMPLEMENTED for test in result.tests) and not result.forbidden
