"""Chooses the failed test that a learner sees in full: the most basic one of those that the diagnosis explains.

The suites go from the basic to the special, so the most basic failure is the first one, unless it is about something
besides the values: a dtype, a gradient, an error that should be raised.
"""

from __future__ import annotations

import re
from dataclasses import replace

from grader.verdict.results import NOT_RUN, ExerciseResult, TestResult

_BESIDES_VALUES = re.compile(
    "dtype|device|meta|float|precision|gradient|inference|raise|refuse|error|dropout|training|default|empty|sizes_and_names|have_their_names|parts_and_names"
)
_ONLY_LOCATES = re.compile(
    r"Only |It first differs |It begins right|It is [-\d.e]+ too |All other values "
    r"|(Row|Column|Index|Rows|Columns|Indices) "
)


def mark_leading_test(result: ExerciseResult) -> None:
    """Mark one failed test of the exercise as the one to show in full."""
    failures = [test for test in result.tests if test.outcome not in ("passed", "todo")]
    if not failures:
        return
    first, diagnosis = result.tests[0], result.diagnosis

    def specialty(test: TestResult) -> tuple[bool, ...]:
        special = test is not first and _BESIDES_VALUES.search(test.name) is not None
        return test.outcome == "timeout", test.message.startswith(NOT_RUN), special

    explained = [test for test in failures if diagnosis and test.name in diagnosis.explains]
    leading = min(explained or failures, key=specialty)
    for test in result.tests:
        test.leads = test is leading
    if diagnosis and leading.details:
        # a sentence that only says where, or how far, a value is wrong says less than the diagnosis
        sentences = re.split(r"(?<=[.]) (?=[A-Z])", leading.details.explanation)
        more = " ".join(sentence for sentence in sentences if not _ONLY_LOCATES.match(sentence))
        leading.details = replace(leading.details, explanation=more)
