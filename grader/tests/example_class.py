"""A small class for the grader: who handed in what, and what grading would find for each content."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from decimal import Decimal

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.rules import Rules
from grader.course.syllabus import Exercise, load_syllabus
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult, Verdict

EXERCISES = tuple(load_syllabus().exercise(name) for name in ("softmax", "causal_mask", "split_heads", "LayerNorm"))
VERSIONS = {"kit": "0.1.0+aaaaaaaaaaaa", "python": "3.11.7", "torch": "2.13.0"}

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x00\x08 </system-out>]]> <script>alert(1)</script> ``` ```` =1+1 \u202e \ud800 \u2028 &amp; | *x*"


IN_TIME = datetime(2026, 5, 1, 18, 30, tzinfo=UTC)
RULES = Rules(dict.fromkeys((exercise.name for exercise in EXERCISES), Decimal(8)), datetime(2026, 5, 1, 23, 59, tzinfo=UTC), per_day=Decimal(10))


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def submission(name: str, content: str | None = None, **more) -> Submission:
    return Submission(**{"name": name, "sources": {}, "slug": digest_of(name)[:8], "digest": digest_of(content or name), "submitted": IN_TIME} | more)


def a_class(many: int = 12) -> list[Submission]:
    """Of many people, two always hand in the same, one is late, and one has sent a file that is not an archive."""
    people = [submission(f"Learner {number:03}", f"content {number - number % 2}") for number in range(many)]
    late = submission("zéro late", submitted=datetime(2026, 5, 2, 10, tzinfo=UTC), notes=("there were two files ch03_attention.py; the newer one counts",))
    return [*people, late, submission("broken zip", problem="the archive is cut off: its directory is missing")]


def one_test(exercise: Exercise, number: int, outcome: str, seconds: float = 0.0, weight: float = 2, said: str = "") -> TestResult:
    promise = f"Law {number} of {exercise.name} holds."
    if outcome == "passed":
        return TestResult(f"test_law_{number}", outcome, seconds, weight, promise)
    if outcome == "todo":
        return TestResult(f"test_law_{number}", outcome, seconds, weight, promise, "not implemented yet")
    words = Failure(promise, "B=2 T=3", [f"{exercise.name}(x)  x is {said}float32[2, 3]"], f"the values differ{said}", f"0.1 {said}", "0.2", "at [0]", "half",
                    f"{exercise.module}.py, line 12:  return x{said}", f"printed {said}")  # fmt: skip
    return TestResult(f"test_law_{number}", outcome, seconds, weight, promise, words.message, words.explanation, words)


def verdict_of(digest: str, exercises: tuple[Exercise, ...] = EXERCISES, seconds: float = 0.0, said: str = "") -> Verdict:
    """What is found for a content: always the same, except for the seconds that it took."""
    results = []
    for place, exercise in enumerate(exercises):
        luck = digest[4 * place :]
        outcomes = ["failed" if letter in "01" else "timeout" if letter == "2" else "todo" if letter == "3" else "passed" for letter in luck[:4]]
        tests = [one_test(exercise, number, outcome, seconds, number, said) for number, outcome in enumerate(outcomes, start=1)]
        mistake = Diagnosis("over_queries", f"It is normalised over the queries.{said}", "Over what?") if "failed" in outcomes else None
        results.append(ExerciseResult(exercise, tests, mistake, ["it calls `torch.softmax`"] if luck[4] == "4" else []))
    return Verdict(results)
