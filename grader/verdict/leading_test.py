"""Chooses the failed test that a learner sees in full: the one that the diagnosis explains best, or the most basic one.

The suites go from the basic to the special, so the most basic failure is the first one, unless it is about something
besides the values: a dtype, a gradient, an error that should be raised. A diagnosis and the promises of the tests are
written in the same words. A test that shares rare words with the diagnosis ("eps", "variance") shows what the diagnosis
says; a word that many tests or many known mistakes of the exercise use shows nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from grader.course.known_mistakes import misconceptions
from grader.verdict.results import NOT_RUN, Diagnosis, ExerciseResult, TestResult

# by so much its score must exceed that of the most basic test: about one rare word in the name
MIN_SCORE_DIFFERENCE = 0.9
PROMISE_WORD_WEIGHT = 0.6  # what a word of the test's promise counts, where one of its name counts 1
SPECIAL_COST = 0.5  # by so much the score of a test is lowered that is not about the values
DETAIL_WORD_WEIGHT = 0.5  # what a word counts that is not in the diagnosis' first sentence

_BESIDES_VALUES = re.compile(
    "dtype|device|meta|float|precision|gradient|inference|raise|refuse|error|dropout|training|default|empty|sizes_and_names|have_their_names|parts_and_names"
)
_ONLY_LOCATES = re.compile(
    r"Only |It first differs |It begins right|It is [-\d.e]+ too |All other values "
    r"|(Row|Column|Index|Rows|Columns|Indices) "
)
_COMMON = frozenset(
    "a all also an and another any are as at be but by can do does each every first for from go goes had has have "
    "here how if in into is it its must no not of"
    " on one only or other same should so such than that the their them then there they this to was were what when "
    "where which with without you your".split()
)
_ENDINGS = ("ations", "ation", "ings", "ing", "ied", "ies", "ed", "es", "s", "e")


def mark_leading_test(result: ExerciseResult) -> None:
    """Mark one failed test of the exercise as the one to show in full."""
    failures = [test for test in result.tests if test.outcome not in ("passed", "todo")]
    if not failures:
        return
    position = {id(test): number for number, test in enumerate(result.tests)}
    failures.sort(
        key=lambda test: (
            test.outcome == "timeout",
            test.message.startswith(NOT_RUN),
            _is_special(test, position[id(test)]),
            position[id(test)],
        )
    )
    leading = failures[0] if result.diagnosis is None else _best_explained(result, result.diagnosis, failures, position)
    for test in result.tests:
        test.leads = test is leading
    if result.diagnosis is not None and leading.details is not None:
        leading.details = replace(leading.details, explanation=_beyond_diagnosis(leading.details.explanation))


def _beyond_diagnosis(explanation: str) -> str:
    """The sentences about a wrong value that say more than where, or how far, it is wrong."""
    return " ".join(
        sentence for sentence in re.split(r"(?<=[.]) (?=[A-Z])", explanation) if not _ONLY_LOCATES.match(sentence)
    )


def _is_special(test: TestResult, position: int) -> bool:
    return position > 0 and _BESIDES_VALUES.search(test.name) is not None


def _best_explained(
    result: ExerciseResult, diagnosis: Diagnosis, failures: list[TestResult], position: dict[int, int]
) -> TestResult:
    """The test whose name and promise say what the diagnosis says, if it is clearly better than the most basic one."""
    explained = [test for test in failures if test.name in diagnosis.explains] or failures
    first, said = _words(re.split(r"[.:?!]\s", diagnosis.says)[0], diagnosis.id), _words(diagnosis.says, diagnosis.id)
    known = [
        _words(mistake.says, mistake.id) for mistake in misconceptions(result.exercise.module, result.exercise.name)
    ]
    promised = [_words(test.name, test.promise) for test in result.tests]
    in_mistakes, in_promises = _count(known), _count(promised)

    def weight(word: str) -> float:
        """From 1 for a word that this diagnosis and one test use, to 0 for one that a third of them use."""
        rare = max(0.0, 1 - (in_promises[word] - 1) / max(2, len(promised) / 3)) * max(
            0.0, 1 - (in_mistakes[word] - 1) / max(4, len(known) / 3)
        )
        return rare if word in first else DETAIL_WORD_WEIGHT * rare

    def score(test: TestResult) -> float:
        name = _words(test.name)
        shared = sum(weight(word) for word in said & name) + PROMISE_WORD_WEIGHT * sum(
            weight(word) for word in (said & _words(test.promise)) - name
        )
        special = (
            _is_special(test, position[id(test)]) and not _words(" ".join(_BESIDES_VALUES.findall(test.name))) & said
        )
        return shared - (SPECIAL_COST if special else 0.0)

    best = max(explained, key=score)  # of equally good ones the first
    return best if score(best) >= score(explained[0]) + MIN_SCORE_DIFFERENCE else explained[0]


def _count(sets: Iterable[set[str]]) -> Counter[str]:
    return Counter(word for words in sets for word in words)


def _words(*texts: str) -> set[str]:
    """The words of a text without their endings, without very short and very common ones."""
    found = re.findall(r"[a-z][a-z0-9]*|\d+", " ".join(texts).lower().replace("_", " "))
    return {stem for word in found if word not in _COMMON and len(stem := _stem(word)) >= 3}


def _stem(word: str) -> str:
    return next(
        (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 3),
        word,
    )
