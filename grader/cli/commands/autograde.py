"""Started by Gradescope's run_autograder: grades one submission like `headway grade`, and always writes
results/results.json.

`python -m grader.cli.commands.autograde /autograder`
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.classroom.grading import Run
from grader.classroom.grading_options import GradingOptions
from grader.classroom.handout.gradescope import (
    COURSE,
    GRADED,
    SECRET,
    SETTINGS,
    add_gradescope_dates,
    format_course,
    hide_results,
)
from grader.classroom.intake.tables import parse_time
from grader.classroom.term.course import read_course_file
from grader.cli.commands.grade import run
from grader.console.output import print_error
from grader.files import UserProblem, write_whole

NOT_GRADED = (
    "Your submission could not be graded. This is not your fault; "
    "please ask your instructor to read the autograder's output."
)


def main() -> int:
    base = Path(sys.argv[1])
    results = base / "results" / "results.json"
    failed = {"score": 0.0, "output": NOT_GRADED, "output_format": "text", "stdout_visibility": "hidden"}
    write_whole(results, json.dumps(failed))
    settings = json.loads((base / "source" / SETTINGS).read_text(encoding="utf-8"))
    assignment = read_course_file(base / "source" / COURSE).assignment(GRADED)
    with tempfile.TemporaryDirectory(prefix="headway-") as place:
        roster, grades = Path(place) / "class.csv", Path(place) / "grades"
        facts = read_metadata(base / "submission_metadata.json")
        write_roster(roster, base / "submission", facts)
        course = Path(place) / COURSE
        rules = replace(add_gradescope_dates(assignment.rules, facts), hidden=frozenset(assignment.hidden))
        course.write_text(format_course(assignment.exercises, rules), encoding="utf-8")
        secret = _read_secret(base / "source" / SECRET)
        try:
            options = GradingOptions((str(roster),), seed=settings["seed"], course=str(course), assignment=GRADED)
            status = run(Run(options, grades, jobs=1, secret=secret))
        except UserProblem as problem:
            print_error(str(problem))
            status = problem.exit_status
        if written := [path.read_bytes() for path in sorted(grades.glob("gradescope/*.json"))]:
            # a group has one score: with its latest extension
            best = max(map(json.loads, written), key=lambda found: found["score"])
            write_whole(results, json.dumps(hide_results(best, settings["hidden"])))
            return 0
    return status


def _read_secret(path: Path) -> str:
    """What setup.sh wrote; without it, each run draws other examples besides the common ones."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""


def read_metadata(path: Path) -> Any:
    """What Gradescope says about the submission; None if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        print(f"{path.name} cannot be read: {type(problem).__name__}: {problem}")
        return None


def write_roster(path: Path, submission: Path, facts: Any) -> None:
    """Write a table with a row for each member of the group: name, path and time, if Gradescope's metadata has them."""
    names, submitted = ["submission"], ""
    try:
        names = list(filter(None, (str(user["name"]).strip() for user in facts["users"]))) or names
        submitted = parse_time(facts["created_at"]).isoformat()
    except (ValueError, KeyError, TypeError) as problem:
        reason = f"{type(problem).__name__}: {problem}"
        print(f"submission_metadata.json is incomplete, so the name or the time is missing: {reason}")
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "path", "submitted"), *((name, submission, submitted) for name in names)])


if __name__ == "__main__":
    raise SystemExit(main())
