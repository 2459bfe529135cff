"""The points of a graded run as a page of Markdown, for the summary of a workflow: `python -m grader.classroom.handout.summary results.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

MARKS = {"passed": "passed", "failed": "fails", "error": "does not run", "timeout": "ran out of time", "todo": "to do"}


def summary(results: dict) -> str:
    """What `--results` wrote, as Markdown: a row an exercise, and below what is wrong with each that fails."""
    lines = ["# Headway", "", f"**{_number(results['earned'])} of {_number(results['points'])} points**", "", "| exercise | points | |", "| --- | ---: | --- |"]
    for exercise in results["exercises"]:
        word = "no points: a shortcut" if exercise["forbidden"] else MARKS[exercise["outcome"]]
        lines.append(f"| `{exercise['name']}` | {_number(exercise['earned'])}/{_number(exercise['points'])} | {word} |")
    for exercise in results["exercises"]:
        said = list(_describe_failures(exercise))
        if said:
            lines += ["", f"## {exercise['name']}", "", *said]
    return "\n".join(lines) + "\n"


def _describe_failures(exercise: dict):
    diagnosis = exercise["diagnosis"]
    if diagnosis:
        yield from (harmless(diagnosis["says"]), "", harmless(diagnosis["hint"]), "")
    yield from (f"- {harmless(sentence)}" for sentence in exercise["forbidden"])
    for test in exercise["tests"]:
        if test["outcome"] not in ("passed", "todo"):
            yield f"- `{test['name']}`: {harmless(test['message']) or MARKS[test['outcome']]}"


def harmless(text: str) -> str:
    """A learner's words as they are: on one line, and nothing in them is a tag, a link or a heading."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    shown = "".join("\\" + character if character in "\\`*_{}[]<>()#+-!|~&$@" else character for character in line[:400])
    return shown + ("…" if len(line) > 400 else "")


def _number(points: float) -> str:
    return f"{points:g}"


def main() -> int:
    try:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        print("# Headway\n\nThe tests did not run to their end, so there are no points to show. The log of the step `Grade` says why.")
        return 0
    print(summary(results), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
