"""The last verdicts on each of the learner's exercises, each with fingerprints of the code that was tested and of what
else it depends on.

The judge of one exercise finds here which others pass. Walks and trainings do not test an exercise again whose verdict
still applies. The book shows the last verdict while the code changes. The file is a cache: what is missing, outdated or
damaged in it is found again by running the tests.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path

from grader.course.source import SourceProblem, read_source
from grader.course.syllabus import EXERCISES, REFERENCE, ROOT, SOLUTIONS, TESTS, Exercise
from grader.execution.names_used import code_of
from grader.files import write_whole
from grader.verdict.results import REASONS, ExerciseResult, Failure
from grader.version import __version__

FILE = EXERCISES / ".headway" / "verdicts.json"
MAX_VERDICTS = 20  # verdicts on one exercise; the oldest are dropped
MAX_SENTENCE_CHARACTERS = 300  # characters of a sentence
_STATES = {"passed", "todo", *REASONS}


@dataclass(frozen=True)
class LastVerdict:
    state: str  # "passed", "todo", or a key of REASONS
    says: str  # the first sentence about a failure, or what is written already; "" for a pass
    code: str  # the fingerprint of the code that was tested; "" if it cannot be read
    conditions: str  # the fingerprint of the suites, the kit, its libraries and the seed
    asked: bool  # whether the learner tested this exercise; if not, its tests ran because another exercise uses it


LastVerdicts = Mapping[str, list[LastVerdict]]  # by the exercise's name, the newest last


def load_verdicts() -> LastVerdicts:
    """The recorded verdicts; empty if the file is missing or damaged."""
    try:
        data = json.loads(FILE.read_text(encoding="utf-8"))
        found = {name: [_read(entry) for entry in entries] for name, entries in data.items()}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError, KeyError):
        return {}
    return {name: [verdict for verdict in verdicts if verdict.state in _STATES] for name, verdicts in found.items()}


def _read(entry: Mapping[str, object]) -> LastVerdict:
    texts = {name: str(value) for name, value in entry.items() if name != "asked"}
    return LastVerdict(**texts, asked=bool(entry["asked"]))


def find_verdict(known: LastVerdicts, exercise: str, code: str, conditions: str) -> LastVerdict | None:
    """The verdict on this code under these conditions."""
    verdicts = known.get(exercise, ()) if code else ()
    return next((one for one in reversed(verdicts) if (one.code, one.conditions) == (code, conditions)), None)


def last_asked(known: LastVerdicts, exercise: str) -> LastVerdict | None:
    """The last verdict on an exercise that the learner tested."""
    return next((verdict for verdict in reversed(known.get(exercise, ())) if verdict.asked), None)


def record_verdicts(
    states: Mapping[str, str], codes: Mapping[str, str], conditions: str, results: Mapping[str, ExerciseResult],
    broken: Mapping[str, Failure],
) -> None:  # fmt: skip
    """Record the states of exercises whose tests all ran, but none for a stub. Nothing is recorded if the file cannot
    be written.

    The learner tested those that have a complete result.
    """
    known = load_verdicts()
    found = dict(known)
    for name, state in states.items():
        result = results.get(name)
        if result is None or result.partial:
            if find_verdict(known, name, codes[name], conditions):
                continue
            new = LastVerdict(state, "", codes[name], conditions, asked=False)
        elif result.is_untouched and not last_asked(known, name):
            continue
        else:
            seen = "todo" if result.outcome == "todo" else state
            new = LastVerdict(seen, _first_sentence(result, broken), codes[name], conditions, asked=True)
        others = [one for one in known.get(name, ()) if (one.code, one.conditions) != (new.code, new.conditions)]
        found[name] = [*others, new][-MAX_VERDICTS:]
    if found == known:
        return
    try:
        data = {name: [asdict(verdict) for verdict in verdicts] for name, verdicts in found.items()}
        write_whole(FILE, json.dumps(data, indent=0, sort_keys=True) + "\n")
    except OSError:
        return


@lru_cache(maxsize=256)
def code_fingerprint(text: str, exercise: str) -> str:
    """A fingerprint of the exercise's code and of what runs at import; "" if the text cannot be read."""
    try:
        return hashlib.sha256("\n".join(code_of(text, exercise)).encode()).hexdigest() if text else ""
    except SourceProblem:
        return ""


def current_fingerprint(exercise: Exercise) -> str:
    """The fingerprint of the exercise's code as it is now in the learner's folder."""
    try:
        return code_fingerprint(read_source(EXERCISES / f"{exercise.module}.py"), exercise.name)
    except SourceProblem:
        return ""


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
    if len(said) <= MAX_SENTENCE_CHARACTERS:
        return said
    return said[: MAX_SENTENCE_CHARACTERS - 2].rsplit(" ", 1)[0] + " …"


# ---- what a verdict depends on besides the judged code

# Parts of the kit that only display results or that judging never runs: a change there changes no verdict.
WITHOUT_EFFECT = {
    "anonymous.py", "chapters", "class_report.py", "cli", "console", "exports.py", "grading_options.py", "handout",
    "language_server", "models", "notebook", "platforms.py", "similarity", "teaching", "term", "tests", "tutor",
    "watch",
}  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of the kit (with a fingerprint of its content), Python, torch, pytest and hypothesis."""
    from importlib.metadata import version  # here: it takes long, and who reads the last verdicts need not wait for it

    libraries = {name: version(name) for name in ("torch", "pytest", "hypothesis")}
    return {"kit": f"{__version__}+{_kit_fingerprint()}", "python": platform.python_version()} | libraries


@cache
def conditions() -> str:
    """The versions and the processor as they were before this process loaded the suites."""
    return read_conditions()


def run_conditions(seed: int = 0) -> str:
    """A short fingerprint of these conditions and of a run's seed."""
    return hashlib.sha256(f"{seed} {conditions()}".encode()).hexdigest()[:32]


def read_conditions() -> str:
    """The versions and the processor as they are now."""
    # here, because who asks for the versions alone need not load torch
    from torch.backends.cpu import get_cpu_capability

    return " ".join([*versions().values(), platform.machine(), get_cpu_capability()])


def _kit_fingerprint() -> str:
    """Twelve hexadecimal digits that change with everything in the kit that can change a verdict."""
    digest = hashlib.sha256()
    for path in _deciding_files():
        digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _deciding_files() -> list[Path]:
    rooms = [path for path in sorted((ROOT / "grader").iterdir()) if path.name not in WITHOUT_EFFECT]
    kit = [path for room in rooms for path in (sorted(room.rglob("*")) if room.is_dir() else [room])]
    kit = [
        path
        for path in kit
        if path.suffix in (".py", ".toml") and not WITHOUT_EFFECT & set(path.relative_to(ROOT / "grader").parts)
    ]
    suites = [path for kind in ("*.py", "*.toml", "misconceptions/*.toml") for path in sorted(TESTS.glob(kind))]
    reference = [*sorted(SOLUTIONS.glob("*.py")), *sorted(REFERENCE.glob("*"))]
    files = [*kit, *suites, *reference, EXERCISES / "syllabus.toml", ROOT / "pyproject.toml"]
    return [path for path in files if path.is_file()]
