"""Says how a learner's tests refuse a correct version, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from grader.own_tests.trying import Outcome
from grader.own_tests.versions import REFERENCE, Version


@dataclass(frozen=True)
class Refusal:
    happened: str  # without a full stop
    advice: str = ""
    line: int = 0  # of the file, where a test failed
    code: str = ""  # this line
    said: str = ""  # the first line of the error; "" if it says no more than the code
    example: str = ""


def describe_refusal(version: Version, outcome: Outcome, tests: str) -> Refusal | None:
    """How these tests refuse a correct version; None if they accept it."""
    is_reference = version.says == REFERENCE
    what = REFERENCE if is_reference else f"correct code ({version.says})"
    if outcome.ended:
        return Refusal(f"Your tests do not come to an end on {what}: {outcome.ended}")
    if outcome.failed is None:
        advice = "pytest runs functions whose names begin with test_."
        return None if outcome.ran else Refusal("No test ran", advice)
    happened, advice = f"{outcome.failed} fails on {what}", ""
    if not outcome.failed:
        happened = "Your file cannot be imported, so no test ran"
    if not outcome.said.startswith(("assert", "AssertionError", "Failed")):
        advice = "It is an error in your file, or in how it calls the exercise. Repair that first."
    elif outcome.failed and is_reference:
        advice = "The reference solution does this, too, so it is no mistake. "
        advice += "Assert what the exercise promises, and compare floats with a tolerance."
    elif outcome.failed:
        advice = "This version keeps every promise of the exercise, so your test forbids something that is allowed. "
        advice += "Assert only what the exercise promises."
    code = "".join(tests.splitlines()[outcome.line - 1 : outcome.line]).strip()
    said = outcome.said.removeprefix("AssertionError: ").partition("\n")[0].strip()
    return Refusal(happened, advice, outcome.line, code, said if said != "assert False" else "", outcome.example)
