"""The last verdict on each exercise of the learner's, with fingerprints of the code that was tested and of what else it depends on.

Pages show it while the code changes. Walks and trainings do not test an exercise again whose verdict still applies.
The file is a cache: without it, an exercise counts as not tried until its tests run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from grader.course.source import SourceProblem, read_source
from grader.course.syllabus import EXERCISES, Exercise
from grader.execution.names_used import code_of
from grader.files import write_whole
from grader.verdict.results import OUTCOMES, ExerciseResult, Failure

FILE = EXERCISES / ".headway" / "verdicts.json"
LONGEST = 300  # characters of a sentence


@dataclass(frozen=True)
class LastVerdict:
    outcome: str  # one of OUTCOMES
    says: str  # the first sentence about a failure, or what is written already; "" for a pass
    code: str  # the fingerprint of the code that was tested
    conditions: str = ""  # the fingerprint of the suites, the kit and its libraries


def record_verdicts(results: Iterable[ExerciseResult], broken: Mapping[str, Failure], conditions: str) -> None:
    """Record the verdicts on exercises whose tests all ran, but none for a stub. Nothing is recorded if the file cannot be written."""
    known = load_verdicts()
    tested = [r for r in results if not r.partial and not (r.is_untouched and r.exercise.name not in known)]
    new = {r.exercise.name: LastVerdict(r.outcome, _first_sentence(r, broken), fingerprint(r.exercise), conditions) for r in tested}
    if not new.keys() - known.keys() and all(known[name] == verdict for name, verdict in new.items()):
        return
    try:
        write_whole(FILE, json.dumps({name: asdict(verdict) for name, verdict in (known | new).items()}, indent=0, sort_keys=True) + "\n")
    except OSError:
        return


def load_verdicts() -> dict[str, LastVerdict]:
    """The last verdict by the exercise's name; empty if the file is missing or damaged."""
    try:
        data = json.loads(FILE.read_text(encoding="utf-8"))
        found = {name: LastVerdict(**{field: str(value) for field, value in entry.items()}) for name, entry in data.items()}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return {}
    return {name: verdict for name, verdict in found.items() if verdict.outcome in OUTCOMES}


def fingerprint(exercise: Exercise) -> str:
    """Return a fingerprint of the exercise's code as it is now; "" if the file cannot be read."""
    try:
        parts = code_of(read_source(EXERCISES / f"{exercise.module}.py"), exercise.name)
    except SourceProblem:
        return ""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _first_sentence(result: ExerciseResult, broken: Mapping[str, Failure]) -> str:
    failures = result.failures
    if result.exercise.module in broken:
        said = broken[result.exercise.module].message
    elif result.forbidden:
        said = f"No points for this exercise: {result.forbidden[0]}."
    elif result.diagnosis:
        said = result.diagnosis.says
    else:
        said = (failures[0].message or failures[0].promise) if failures else result.written
    said = " ".join(said.split())
    return said if len(said) <= LONGEST else said[: LONGEST - 2].rsplit(" ", 1)[0] + " …"
