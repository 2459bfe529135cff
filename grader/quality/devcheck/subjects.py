"""Every implementation that an exercise's suite is tried on: the stub, the reference, known mistakes, variants, and trivial ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grader.course.known_mistakes import bases, misconceptions
from grader.course.source import SourceProblem, replace_definition
from grader.course.stubs import reference_stub
from grader.course.syllabus import TESTS, Exercise
from grader.execution.target import reference_of
from grader.quality.devcheck.degenerate import KINDS, degenerate
from grader.verdict.replay import text_with_mistake


@dataclass(frozen=True)
class Subject:
    kind: str  # stub, reference, mistake, variant, base, degenerate
    name: str
    text: str  # of the exercise's chapter
    true_names: tuple[str, ...] = ()  # of a base: the known mistakes that it has


def solution_of(exercise: Exercise) -> str:
    """The text of the reference's chapter. SourceProblem if there is no such chapter."""
    ours = reference_of(exercise.module)
    if ours is None:
        raise SourceProblem(f"there is no solution of {exercise.module}")
    return ours.text


def subjects(exercise: Exercise) -> list[Subject]:
    """All subjects of an exercise. StaleEdit if a mistake's edit no longer fits."""
    solution = solution_of(exercise)
    found = [Subject("stub", "stub", reference_stub(exercise.module)), Subject("reference", "reference", solution)]
    found += [Subject("mistake", m.id, text_with_mistake(exercise.module, m)) for m in misconceptions(exercise.module, exercise.name)]
    found += [Subject("variant", name, f"{solution}\n\n{text}") for name, text in variants(exercise)]
    found += [Subject("base", base.name, replace_definition(solution, exercise.name, base.text), base.lacks) for base in bases(exercise.module, exercise.name)[1:]]
    found += [Subject("degenerate", kind, degenerate(solution, exercise.name, kind)) for kind in KINDS]
    return found


def variants(exercise: Exercise) -> list[tuple[str, str]]:
    """The sections of tests/variants/CHAPTER/EXERCISE.py, with the names after `# variant:`."""
    path = TESTS / "variants" / exercise.module / f"{exercise.name}.py"
    if not path.is_file():
        return []
    pieces = re.split(r"^# variant:[ \t]*(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(name.strip(), text) for name, text in zip(pieces[1::2], pieces[2::2])]
