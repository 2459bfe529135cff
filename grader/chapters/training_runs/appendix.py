"""Writes the appendix of the page "Reading a training run".

`python -m grader.chapters.training_runs.appendix` prints it.
"""

from __future__ import annotations

import textwrap

from grader.chapters.training_runs.cases import AT_ONCE, CASES, Case, in_hunt_order
from grader.chapters.training_runs.records import USUAL, read_records
from grader.chapters.training_runs.setups import SETUPS

HEADING = "## Appendix: the runs"
OPENING = (
    "Each fold is a run of the hunt, in the order of the hunt. Its first line has the number that shows the mistake "
    "best, at three seeds, beside the smallest and the largest of four right runs. Open it when you have done the run."
)


def appendix() -> str:
    """Return the Markdown of the appendix; its numbers come from the recordings."""
    folds = [_fold(number, case) for number, case in enumerate(in_hunt_order(CASES), 1)]
    return "\n".join([HEADING, "", _wrap(OPENING), "", *folds])


def _fold(number: int, case: Case) -> str:
    where = "What shows is too little to notice." if case.symptom is None else f"Where to look: {_place(case)}."
    about = f"`{case.exercise}`: {case.find_mistake().says} {where}"
    summary = f"<summary>Run {number}, {SETUPS[case.setup].says}. {_evidence(case)}</summary>"
    return "\n".join(["<details>", _wrap(summary), "", _wrap(about), "", _wrap(case.shows), "", "</details>", ""])


def _place(case: Case) -> str:
    return "at what is shown first" if case.look == AT_ONCE else f"`{case.look}`"


def _evidence(case: Case) -> str:
    if case.number is None:
        return "All looks are as usual."
    mine = [f"{case.number.of(run):{case.number.form}}" for run in read_records(case.mistake)]
    right = sorted(case.number.of(run) for run in read_records(f"right_{case.setup}")[: USUAL + 1])
    low, high = (f"{value:{case.number.form}}" for value in (right[0], right[-1]))
    usual = low if low == high else f"{low} to {high}"
    says = case.number.says[0].upper() + case.number.says[1:]
    return f"{says}: {mine[0]}, {mine[1]} and {mine[2]}; in right runs {usual}."


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 119, break_long_words=False, break_on_hyphens=False))


if __name__ == "__main__":
    print(appendix(), end="")
