"""The results of a graded run as plain data, and their JSON file (results.schema.json describes it)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from grader.course.syllabus import Exercise, load_syllabus
from grader.files import write_whole
from grader.version import __version__

NOT_IMPLEMENTED = "not implemented yet"  # the message of a test in which its own exercise raised NotImplementedError
# begins the message of a test that was skipped, because the time of its exercise or of the submission was used up
NOT_RUN = "Not run:"
UNWRITTEN = ("printed", "reached", "only_locates", "was_late")  # fields of a failure that no JSON file has
SHOWN_WHOLE = 3  # exercises whose first failure a page shows in full; the others get a line
PRINTED_LINES = 6  # of what the code printed, that are shown
# from worst to best; the outcome of an exercise is the worst of its tests
OUTCOMES = ("error", "timeout", "failed", "todo", "passed")


# why the reference's definition was used, or was not: the words for one exercise of the learner's, and for several
REASONS = {
    "not written": ("{} is not written yet", "{} are not written yet"),
    "failed": ("Your {} fails its tests", "Your {} fail their tests"),
    "forbidden": ("Your {} uses forbidden code", "Your {} use forbidden code"),
    "timeout": ("Your {} runs out of time or ends its process", "Your {} run out of time or end their process"),
    "later": (
        "This exercise uses {}, which comes later in the course",
        "This exercise uses {}, which come later in the course",
    ),
}


@dataclass(frozen=True)
class Diagnosis:
    id: str
    says: str
    hint: str
    # failed tests, the ones that it explains best first, of two mistakes those that show this one; not written to the
    # JSON file
    explains: list[str] = field(default_factory=list)
    also: Diagnosis | None = None  # a second mistake in the same code

    @property
    def mistakes(self) -> list[Diagnosis]:
        """This mistake, and the second one if there is one."""
        return [self, self.also] if self.also else [self]

    def shown_by(self, test: str) -> Diagnosis:
        """The same mistakes, first the one that this test shows."""
        if self.also is None or test in self.explains or test not in self.also.explains:
            return self
        return replace(self.also, also=replace(self, also=None))

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as the JSON files of results have it."""
        return {"id": self.id, "says": self.says, "hint": self.hint, "also": self.also.as_json() if self.also else None}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Diagnosis:
        """The diagnosis from the dict that dataclasses.asdict made; earlier versions had fewer fields."""
        return cls(**data | {"also": cls.from_data(data["also"]) if data.get("also") else None})


class LabelledText(NamedTuple):
    """A part of a failure as it is shown: "got", and the value."""

    label: str
    text: str
    is_code: bool = False  # or what code printed: its line breaks stay


@dataclass(frozen=True)
class Failure:
    """Everything that a learner sees about one failed test, before layout."""

    promise: str
    sizes: str = ""  # "B=2 T=3"
    called: list[str] = field(default_factory=list)
    message: str = ""  # one sentence
    got: str = ""
    expected: str = ""
    difference: str = ""
    explanation: str = ""
    where: str = ""  # "ch03_attention.py, line 12:  code"
    printed: str = ""
    reached: bool = True  # or did something else go wrong before the test could look at its promise?
    only_locates: str = ""  # the sentences of the explanation that only say where a value is wrong
    was_late: bool = False  # did its time run out at the line `where`?

    def rows(self) -> list[LabelledText]:
        """What is shown, in this order, in a terminal, a notebook and a report of a class."""
        printed = self.printed.strip().splitlines()
        cut = ["…"] if len(printed) > PRINTED_LINES else []
        last_printed = [*cut, *(line[:100] for line in printed[-PRINTED_LINES:])]
        rows = [
            LabelledText("promised", self.promise if self.reached else ""),
            LabelledText("sizes", self.sizes),
            LabelledText("called", "\n".join(self.called), is_code=True),
            LabelledText("problem", self.message),
            LabelledText("it was at" if self.was_late else "at", self.where, is_code=True),
            LabelledText("got", self.got, is_code=True),
            LabelledText("expected", self.expected, is_code=True),
            LabelledText("differs", self.difference.removeprefix("first differs ")),
            LabelledText("that is", self.explanation),
            LabelledText("printed", "\n".join(last_printed), is_code=True),
            LabelledText("untested", "" if self.reached else self.promise),
        ]
        return [row for row in rows if row.text]

    def without_places(self) -> Failure:
        """The same beside a diagnosis, which says more than where a value is wrong."""
        beginning, end = self.explanation.removeprefix, self.explanation.removesuffix
        return replace(self, explanation=min(beginning(self.only_locates), end(self.only_locates), key=len).strip())

    def as_json(self) -> dict[str, Any]:
        """The failure as the JSON files of results have it: without what the code printed."""
        return {name: value for name, value in vars(self).items() if name not in UNWRITTEN}


@dataclass
class TestResult:
    __test__ = False

    name: str
    outcome: str
    seconds: float
    weight: float
    promise: str = ""
    message: str = ""
    explanation: str = ""
    # shown to the learner; of an exercise, only those of the first failure are in the JSON file
    details: Failure | None = None
    leads: bool = False  # of the failed tests of its exercise, is this the one to show in full?
    # exercise that was used in this test and is not a passed one of the learner's → why: a key of REASONS
    replaced: dict[str, str] = field(default_factory=dict)
    # with --whole: the failing exercise that this one uses, which may be the only cause of this failure
    follows: str = ""
    seed: int = 0  # of the run, if an example that it drew failed; 0 where an example of all runs fails


@dataclass
class ExerciseResult:
    exercise: Exercise
    tests: list[TestResult] = field(default_factory=list)
    diagnosis: Diagnosis | None = None
    forbidden: list[str] = field(default_factory=list)
    partial: bool = False  # some of its tests did not run
    missing_weight: float = 0.0  # of the tests that did not run
    written: str = ""  # of an exercise that is begun: what is written and what is still to do, in a sentence
    script: str = ""  # the command that runs the failure again, if a script was left

    @property
    def failures(self) -> list[TestResult]:
        """The failed tests: first the one to show in full, then the others in the suite's order."""
        failed = [test for test in self.tests if test.outcome not in ("passed", "todo")]
        return sorted(failed, key=lambda test: not test.leads)

    @property
    def replaced(self) -> dict[str, str]:
        """The exercises of the chapter that were replaced in a test, each with a key of REASONS."""
        return {name: why for test in self.tests for name, why in test.replaced.items()}

    @property
    def follows(self) -> str:
        """With --whole: a failing exercise that this one uses, so that it may fail for that reason alone; or ""."""
        return next((test.follows for test in self.tests if test.follows), "")

    @property
    def is_untouched(self) -> bool:
        """Is it the stub, as far as the tests see?"""
        return not self.written and all(test.message == NOT_IMPLEMENTED for test in self.tests)

    @property
    def outcome(self) -> str:
        if self.forbidden and any(test.outcome == "passed" for test in self.tests):
            return "failed"
        return min((test.outcome for test in self.tests), key=OUTCOMES.index, default="todo")

    @property
    def earned(self) -> float:
        """The points, shared over the tests by weight; none if forbidden code was used."""
        total = sum(test.weight for test in self.tests) + self.missing_weight
        won = sum(test.weight for test in self.tests if test.outcome == "passed")
        if self.forbidden or not total:
            return 0.0
        return float(self.exercise.points) if won == total else round(self.exercise.points * won / total, 2)


def join_names(names: Iterable[object]) -> str:
    """ "softmax, split_heads and merge_heads"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def replaced_sentences(replaced: dict[str, str]) -> list[str]:
    """What the learner reads about definitions that were replaced: a sentence for each reason."""
    sentences = []
    for why, (one, several) in REASONS.items():
        names = [name for name, reason in replaced.items() if reason == why]
        if names and why == "later":
            uses = (several if names[1:] else one).format(join_names(names))
            own = "Your own was used here: the reference stands in for earlier exercises only."
            sentences.append(f"{uses}. {own}")
        elif len(names) == 1:
            whose = "the reference's" if why == "not written" else f"the reference's {names[0]}"
            sentences.append(f"{one.format(names[0])}, so {whose} was used here.")
        elif names:
            sentences.append(f"{several.format(join_names(names))}, so the reference's were used here.")
    return sentences


@dataclass
class RunResult:
    target: str
    seed: int
    in_worker: bool
    exercises: list[ExerciseResult]
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import

    @property
    def earned(self) -> float:
        return round(sum(exercise.earned for exercise in self.exercises), 2)

    @property
    def points(self) -> float:
        return round(float(sum(exercise.exercise.points for exercise in self.exercises)), 2)

    def as_json(self) -> dict:
        return {
            "version": __version__,
            "target": self.target,
            "seed": self.seed,
            "door": "worker" if self.in_worker else "local",
            "earned": self.earned,
            "points": self.points,
            "broken": [
                {"module": module, "message": words.message, "where": words.where}
                for module, words in self.broken.items()
            ],
            "exercises": [_exercise_as_json(each, each.exercise.module in self.broken) for each in self.exercises],
        }


def _exercise_as_json(result: ExerciseResult, is_broken: bool) -> dict:
    diagnosis = result.diagnosis
    first = next((test for test in result.failures if test.details and not is_broken), None)
    return {
        "name": result.exercise.name,
        "chapter": result.exercise.chapter,
        "earned": result.earned,
        "points": float(result.exercise.points),
        "outcome": result.outcome,
        "diagnosis": diagnosis.as_json() if diagnosis else None,
        "forbidden": result.forbidden,
        "replaced": [{"name": name, "why": why} for name, why in result.replaced.items()],
        "failure": {"test": first.name, **first.details.as_json()} if first and first.details else None,
        "tests": [
            {
                "name": test.name,
                "outcome": test.outcome,
                "seconds": round(test.seconds, 4),
                "weight": test.weight,
                "message": test.message,
                "explanation": test.explanation,
            }
            for test in result.tests
        ],
    }


def write_results(path: Path, result: RunResult) -> None:
    write_whole(path, json.dumps(result.as_json(), indent=1, ensure_ascii=True) + "\n")


# ---- the verdict that another process prints


DATA_MARK = "\x1e"  # before a verdict as data, on standard output: no page contains it


@dataclass(frozen=True)
class Verdict:
    results: list[ExerciseResult]
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    newly_passed: list[str] = field(default_factory=list)  # exercises passed in this run for the first time
    notes: list[str] = field(default_factory=list)  # sentences for the end of the output

    @property
    def outcomes(self) -> dict[str, str]:
        return {result.exercise.name: result.outcome for result in self.results}

    def result(self, name: str) -> ExerciseResult | None:
        return next((result for result in self.results if result.exercise.name == name), None)

    def as_data(self) -> dict[str, Any]:
        """As plain data for JSON; an exercise is given by its name."""
        return asdict(self) | {
            "results": [asdict(result) | {"exercise": result.exercise.name} for result in self.results]
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Verdict:
        broken = {module: Failure(**words) for module, words in data["broken"].items()}
        return cls([_result(entry) for entry in data["results"]], broken, data["newly_passed"], data["notes"])


def _result(data: dict[str, Any]) -> ExerciseResult:
    tests = [
        TestResult(**test | {"details": Failure(**test["details"]) if test["details"] else None})
        for test in data["tests"]
    ]
    diagnosis = Diagnosis.from_data(data["diagnosis"]) if data["diagnosis"] else None
    return ExerciseResult(
        **data | {"exercise": load_syllabus().exercise(data["exercise"]), "tests": tests, "diagnosis": diagnosis}
    )
