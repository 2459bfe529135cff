"""Started by Gradescope's run_autograder: grades one submission like `headway grade`, and always writes results/results.json.

`python -m grader.cli.commands.autograde /autograder`
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

from grader.classroom.handout.gradescope import RULES, SECRET, SETTINGS, hide_results
from grader.classroom.intake.roster import parse_time
from grader.cli.commands.grade import grade
from grader.cli.commands.grading_request import Request
from grader.files import write_whole

NOT_GRADED = "Your submission could not be graded. This is not your fault; please ask your instructor to read the autograder's output."


def main() -> int:
    base = Path(sys.argv[1])
    results = base / "results" / "results.json"
    write_whole(results, json.dumps({"score": 0.0, "output": NOT_GRADED, "output_format": "text", "stdout_visibility": "hidden"}))
    settings = json.loads((base / "source" / SETTINGS).read_text(encoding="utf-8"))
    rules = base / "source" / RULES
    with tempfile.TemporaryDirectory(prefix="headway-") as place:
        roster, grades = Path(place) / "class.csv", Path(place) / "grades"
        write_roster(roster, base / "submission", base / "submission_metadata.json")
        points = rules if rules.is_file() else None
        secret = _read_secret(base / "source" / SECRET)
        request = Request(roster, grades, tuple(settings["chapters"]), tuple(settings["exercises"]), settings["seed"], points)
        status = grade(request, jobs=1, secret=secret)
        if written := [path.read_bytes() for path in sorted(grades.glob("gradescope/*.json"))]:
            best = max(map(json.loads, written), key=lambda found: found["score"])  # a group has one score: with its latest extension
            write_whole(results, json.dumps(hide_results(best, settings["hidden"])))
            return 0
    return status


def _read_secret(path: Path) -> str:
    """What setup.sh wrote; without it, each run draws other examples besides the common ones."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""


def write_roster(path: Path, submission: Path, metadata: Path) -> None:
    """Write a table with a row for each member of the group: name, path and time, from Gradescope's metadata if it can be read."""
    names, submitted = ["submission"], ""
    try:
        facts = json.loads(metadata.read_text(encoding="utf-8"))
        names = list(filter(None, (str(user["name"]).strip() for user in facts["users"]))) or names
        submitted = parse_time(facts["created_at"]).isoformat()
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(f"submission_metadata.json is incomplete, so the name or the time is missing: {type(problem).__name__}: {problem}")
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "path", "submitted"), *((name, submission, submitted) for name in names)])


if __name__ == "__main__":
    raise SystemExit(main())
