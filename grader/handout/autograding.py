"""What Gradescope's run_autograder starts: grades the one submission it brings, and leaves results/results.json whatever happens.

`python -m grader.handout.autograding /autograder`
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

import pytest

from ..files import write_whole
from ..grading import gradebook, submissions, versions
from ..grading.exports import gradescope as export
from ..grading.problems import GradingProblem
from ..grading.roster import moment
from ..grading.rules import Rules, read_rules
from ..plugin import RUN
from ..results import Failure
from ..syllabus import ROOT, TESTS, Chapter, load_syllabus
from ..target import Target
from ..verdict import Verdict
from .gradescope import RULES, SETTINGS

UNTOLD = "Your submission could not be graded, which is not your doing. Please tell your instructor: the autograder's output says why."


def main() -> int:
    base = Path(sys.argv[1])
    results = base / "results" / "results.json"
    write_whole(results, json.dumps({"score": 0.0, "output": UNTOLD, "output_format": "text", "stdout_visibility": "hidden"}))
    settings = json.loads((base / "source" / SETTINGS).read_text(encoding="utf-8"))
    chapters = [load_syllabus().chapter(name) for name in settings["chapters"]]
    rules = read_rules(base / "source" / RULES) if (base / "source" / RULES).is_file() else Rules()
    with tempfile.TemporaryDirectory(prefix="headway-") as place:
        try:
            roster = write_roster(Path(place) / "class.csv", base / "submission", base / "submission_metadata.json")
            write_whole(results, grade(roster, Path(place) / "grades", chapters, settings["seed"], rules).read_bytes())
        except GradingProblem as problem:
            print(problem)
            return 1
    return 0


def write_roster(path: Path, submission: Path, metadata: Path) -> Path:
    """A class of one as a table: who, where, and when by Gradescope's record (nobody and never, where that cannot be read)."""
    name, submitted = "submission", ""
    try:
        facts = json.loads(metadata.read_text(encoding="utf-8"))
        name = " and ".join(str(user["name"]).strip() for user in facts["users"]) or name
        submitted = moment(facts["created_at"]).isoformat()
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(f"submission_metadata.json says less than it should: {type(problem).__name__}: {problem}")
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "path", "submitted"), (name.strip() or "submission", submission, submitted)])
    return path


def grade(roster: Path, out: Path, chapters: list[Chapter], seed: int, rules: Rules) -> Path:
    """Grade the class in this table; the one person's results.json. This is the place for the class grader, when it can be called."""
    out.mkdir(parents=True)
    exercises = [exercise for chapter in chapters for exercise in chapter.exercises]
    with gradebook.Gradebook.open(out) as book:
        book.begin(seed, exercises, versions.versions())
        for submission in book.submissions_to_do(submissions.read_submissions(roster)):
            book.keep(submission.digest, verdict_of(submission, chapters, seed))
        [written] = export.write(book.graded(rules), out)
    return written


def verdict_of(submission: submissions.Submission, chapters: list[Chapter], seed: int) -> Verdict | str:
    """One graded run of these chapters, the student's code in a process of its own; a sentence where there is no verdict."""
    hooks = _Hooks(Target("submission", None, submission.sources))
    chosen = [word for chapter in chapters for word in ("--chapter", chapter.id)]
    suites = [str(path) for chapter in chapters for path in sorted(TESTS.glob(f"test_{chapter.id}_*.py"))]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*settings, "--door", "worker", "--seed", str(seed), *chosen, *suites], plugins=[hooks])
    if hooks.run is None or status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR) or not hooks.run.results:
        return "the tests could not be run, which is not the student's doing"
    verdict = hooks.run.verdict()
    verdict.broken.update({module: Failure("", message=sentence) for module, sentence in submission.broken.items()})
    return verdict


class _Hooks:
    """Hands pytest the submission, and takes the run back out."""

    def __init__(self, target: Target) -> None:
        self.target, self.run = target, None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.run = session.config.stash[RUN]
        self.run.trial.target = self.target


if __name__ == "__main__":
    raise SystemExit(main())
