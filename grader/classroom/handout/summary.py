"""The points of a graded run as a page of Markdown, for the summary of a workflow: `python -m grader.classroom.handout.summary results.json`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from grader.runner.layout import WIDTH, Page
from grader.verdict.results import Failure, join_names

LONGEST = 40  # lines of the page: it is a comment on a commit
MOST_ROWS = 12  # of the table; with more exercises it has the chapters
MARKS = {"passed": "passed", "failed": "failed", "error": "error", "timeout": "out of time", "todo": "to do"}
FEW = {"promised": 2, "sizes": 1, "called": 2, "problem": 2, "at": 2, "got": 2, "expected": 2, "differs": 1, "that is": 2}  # lines of a label in an example


def format_summary(results: dict) -> str:
    """The results that `--results` wrote as Markdown: the points, the chapters that do not import, and what is wrong with each exercise that fails."""
    total = f"**{_format_number(results['earned'])} of {_format_number(results['points'])} points**"
    lines = ["# Headway", "", total, "", *_table(results["exercises"])]
    for chapter in results["broken"]:
        lines += ["", *_describe_broken(chapter, results["exercises"])]
    broken = {chapter["module"].partition("_")[0] for chapter in results["broken"]}
    failing = [one for one in results["exercises"] if one["chapter"] not in broken and (one["forbidden"] or one["outcome"] not in ("passed", "todo"))]
    last = ["", "On your machine, `headway check NAME` shows all failures of an exercise."] if failing else []
    most = LONGEST - len(last)
    while failing and len(lines) + len(entry := ["", *_describe(failing[0])]) + (3 if len(failing) > 1 else 0) <= most:
        lines += entry
        failing = failing[1:]
    if failing:
        lines += ["", *_describe_briefly(failing, most - len(lines) - 1)]
    return "\n".join([*lines, *last]) + "\n"


def _table(exercises: list[dict]) -> list[str]:
    """A row for each exercise, or for each chapter."""
    if len(exercises) <= MOST_ROWS:
        rows = [(f"`{one['name']}`", [one], "no points: a shortcut" if one["forbidden"] else MARKS[one["outcome"]]) for one in exercises]
    else:
        rows = []
        for chapter in dict.fromkeys(one["chapter"] for one in exercises):
            own = [one for one in exercises if one["chapter"] == chapter]
            counts = {word: sum(MARKS[one["outcome"]] == word for one in own) for word in MARKS.values()}
            rows.append((chapter, own, ", ".join(f"{count} {word}" for word, count in counts.items() if count)))
    points = [[_format_number(sum(one[key] for one in own)) for key in ("earned", "points")] for _, own, _ in rows]
    body = [f"| {name} | {'/'.join(both)} | {words} |" for (name, _, words), both in zip(rows, points)]
    return [f"| {'exercise' if len(exercises) <= MOST_ROWS else 'chapter'} | points | |", "| --- | ---: | --- |", *body]


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
    if failure := exercise["failure"]:
        yield from _fence(Failure(**{name: value for name, value in failure.items() if name != "test"}), failure["test"].partition("[")[0])


def _describe_briefly(exercises: list[dict], most: int) -> Iterator[str]:
    """A line for each exercise, as far as there is room."""
    shown = exercises if len(exercises) <= most else exercises[: max(0, most - 1)]
    for one in shown:
        messages = [*one["forbidden"], (one["diagnosis"] or {}).get("says"), (one["failure"] or {}).get("message"), MARKS[one["outcome"]]]
        yield f"- `{one['name']}`: {escape_markdown(next(filter(None, messages)), 200)}"
    if rest := len(exercises) - len(shown):
        yield f"- {rest} {'more' if shown else 'exercises'} failed; the log of the step that runs the tests shows them."


def _fence(failure: Failure, test: str) -> list[str]:
    """The example as the terminal shows it, in a block without Markdown: its fence is longer than any run of backticks in it."""
    lines = [f"FAILED  {test}"] if test else []
    page = Page(lambda text, **markup: lines.append(_make_printable(text)), WIDTH)
    page.few = FEW
    page.failure(failure)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(lines))), default=0))
    return [f"{fence}text", *lines, fence]


def _make_printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text).rstrip()


def escape_markdown(text: str, longest: int = 400) -> str:
    """The text on one line, escaped so that it contains no tag, link or heading."""
    line = " ".join(_make_printable(text).split())
    shown = "".join("\\" + character if character in "\\`*_{}[]<>()#+-!|~&$@" else character for character in line[:longest])
    return shown + ("…" if len(line) > longest else "")


def _format_number(points: float) -> str:
    return f"{points:g}"


def main() -> int:
    try:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        print("# Headway\n\nThe tests did not finish, so there are no points to show. The log of the step that runs the tests shows the reason.")
        return 0
    print(format_summary(results), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
