"""The points of a graded run as a page of Markdown, for the summary of a workflow: `python -m grader.classroom.handout.summary results.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

LONGEST = 60_000  # characters; a comment on GitHub has at most 65,536
MARKS = {"passed": "passed", "failed": "fails", "error": "does not run", "timeout": "ran out of time", "todo": "to do"}


def format_summary(results: dict) -> str:
    """The results that `--results` wrote as Markdown: a row per exercise, then what is wrong with each that fails."""
    total = f"**{_format_number(results['earned'])} of {_format_number(results['points'])} points**"
    lines = ["# Headway", "", total, "", "| exercise | points | |", "| --- | ---: | --- |"]
    for exercise in results["exercises"]:
        word = "no points: a shortcut" if exercise["forbidden"] else MARKS[exercise["outcome"]]
        lines.append(f"| `{exercise['name']}` | {_format_number(exercise['earned'])}/{_format_number(exercise['points'])} | {word} |")
    for exercise in results["exercises"]:
        failures = list(_describe_failures(exercise))
        if failures:
            lines += ["", f"## {exercise['name']}", "", *failures]
    return _shorten("\n".join(lines) + "\n")


def _shorten(page: str) -> str:
    """The page, as long as a comment may be."""
    return page if len(page) <= LONGEST else page[: page.rfind("\n", 0, LONGEST)] + "\n\nThe rest is in the log of the step that runs the tests.\n"


def _describe_failures(exercise: dict):
    mistake = exercise["diagnosis"]
    while mistake:
        yield from (escape_markdown(mistake["says"]), "", escape_markdown(mistake["hint"]), "")
        mistake = mistake.get("also")
    yield from (f"- {escape_markdown(sentence)}" for sentence in exercise["forbidden"])
    for test in exercise["tests"]:
        if test["outcome"] not in ("passed", "todo"):
            yield f"- `{test['name']}`: {escape_markdown(test['message']) or MARKS[test['outcome']]}"


def escape_markdown(text: str) -> str:
    """The text on one line, escaped so that it contains no tag, link or heading."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    shown = "".join("\\" + character if character in "\\`*_{}[]<>()#+-!|~&$@" else character for character in line[:400])
    return shown + ("…" if len(line) > 400 else "")


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
