"""The points of a graded run as a page of Markdown, for the summary of a workflow and a comment on the commit.

`python -m grader.classroom.handout.summary results.json`
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from grader.runner.layout import WIDTH, Page
from grader.verdict.results import Failure, join_names

MOST_LINES = 40
MOST_ROWS = 12  # of the table; with more exercises it has the chapters
OUTCOMES = {"passed": "passed", "failed": "failed", "error": "error", "timeout": "out of time", "todo": "to do"}
MOST_LINES_BY_LABEL = dict.fromkeys(("promised", "called", "problem", "at", "got", "expected", "that is"), 2)
MOST_LINES_BY_LABEL |= {"sizes": 1, "differs": 1}
UNFINISHED = (
    "# Headway\n\nThe tests did not finish, so there are no points to show. "
    "The log of the step that runs the tests shows the reason."
)


def format_summary(results: dict) -> str:
    """What `--results` wrote: the points, chapters that do not import, and what is wrong with each failing exercise."""
    exercises = results["exercises"]
    lines = ["# Headway", "", f"**{results['earned']:g} of {results['points']:g} points**", "", *_table(exercises)]
    for chapter in results["broken"]:
        lines += ["", *_describe_broken(chapter, exercises)]
    broken = {chapter["module"].partition("_")[0] for chapter in results["broken"]}
    failing = [one for one in exercises if one["chapter"] not in broken and _outcome(one) not in ("passed", "to do")]
    last = ["", "On your machine, `headway check NAME` shows all failures of an exercise."] if failing else []
    most = MOST_LINES - len(last)
    while failing and len(lines) + len(entry := ["", *_describe(failing[0])]) + 3 * (len(failing) > 1) <= most:
        lines += entry
        failing = failing[1:]
    if failing:
        lines += ["", *_describe_briefly(failing, most - len(lines) - 1)]
    return "\n".join([*lines, *last]) + "\n"


def _outcome(exercise: dict) -> str:
    return "shortcut, no points" if exercise["forbidden"] else OUTCOMES[exercise["outcome"]]


def _table(exercises: list[dict]) -> Iterator[str]:
    """A row for each exercise, or for each chapter."""
    column = "name" if len(exercises) <= MOST_ROWS else "chapter"
    yield f"| {'exercise' if column == 'name' else 'chapter'} | points | |"
    yield "| --- | ---: | --- |"
    for key in dict.fromkeys(one[column] for one in exercises):
        own = [one for one in exercises if one[column] == key]
        earned, points = (sum(one[what] for one in own) for what in ("earned", "points"))
        counts = Counter(map(_outcome, own))
        words = _outcome(own[0]) if column == "name" else ", ".join(f"{many} {word}" for word, many in counts.items())
        yield f"| `{key}` | {earned:g}/{points:g} | {words} |"


def _describe_broken(chapter: dict, exercises: list[dict]) -> Iterator[str]:
    module = chapter["module"]
    lost = [f"`{one['name']}`" for one in exercises if module.startswith(f"{one['chapter']}_")]
    names = join_names(lost) if 0 < len(lost) < 4 else f"its {len(lost)} exercises" if lost else "what uses it"
    yield f"**`{module}.py` does not import**, so {names} could not be tested. Fix this first."
    yield from _fence(Failure("", message=chapter["message"], where=chapter["where"]), "")


def _describe(exercise: dict) -> Iterator[str]:
    """The known mistake, and the smallest example."""
    mistake, words = exercise["diagnosis"], [f"No points: {sentence}." for sentence in exercise["forbidden"]]
    while mistake:
        words += [mistake["says"], mistake["hint"]]
        mistake = mistake.get("also")
    yield f"**`{exercise['name']}`** {escape_markdown(' '.join(words), 600)}".rstrip()
    if failure := dict(exercise["failure"] or {}):
        test = failure.pop("test")
        yield from _fence(Failure(**failure), test.partition("[")[0])


def _describe_briefly(exercises: list[dict], most: int) -> Iterator[str]:
    """A line for each exercise, as far as there is room."""
    shown = exercises if len(exercises) <= most else exercises[: max(0, most - 1)]
    for one in shown:
        known, failure = one["diagnosis"] or {}, one["failure"] or {}
        words = next(filter(None, [*one["forbidden"], known.get("says"), failure.get("message"), _outcome(one)]))
        yield f"- `{one['name']}`: {escape_markdown(words, 200)}"
    if rest := len(exercises) - len(shown):
        yield f"- {rest} {'more' if shown else 'exercises'} failed; the log of the step that runs the tests shows them."


def _fence(failure: Failure, test: str) -> list[str]:
    """The example as the terminal shows it, in a block whose fence is longer than any run of backticks in it."""
    lines = [f"FAILED  {test}"] if test else []
    page = Page(lambda text, **markup: lines.append(_make_printable(text)), WIDTH)
    page.few = MOST_LINES_BY_LABEL
    page.failure(failure)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(lines))), default=0))
    return [f"{fence}text", *lines, fence]


def _make_printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text).rstrip()


def escape_markdown(text: str, longest: int = 400) -> str:
    """The text on one line, escaped so that it contains no tag, link or heading."""
    line = " ".join(_make_printable(text).split())
    return re.sub(r"([\\`*_{}\[\]<>()#+\-!|~&$@])", r"\\\1", line[:longest]) + ("…" if len(line) > longest else "")


def main() -> int:
    try:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        print(UNFINISHED)
        return 0
    print(format_summary(results), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
