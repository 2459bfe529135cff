"""Makes an autograder archive for Gradescope: two scripts, and the kit with its reference, which students must not get.

Gradescope unpacks it into /autograder/source, runs setup.sh once as root when it builds the image, copies
run_autograder to /autograder, and runs that for each submission in /autograder/submission. Both scripts use paths
relative to their own location, so they can be tried in any folder. run_autograder starts `commands/autograde.py`,
which uses the second half of this module.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from grader.classroom.handout.handout_folder import TEXTS
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.intake.tables import parse_time
from grader.classroom.judging.rules import UNIT_MINUTES, Rules
from grader.classroom.term.course import Assignment, Course
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS, Exercise, load_syllabus
from grader.files import write_whole

SETTINGS, COURSE, SECRET = "headway.json", "course.toml", "secret"  # setup.sh writes the secret
GRADED = "graded"  # the name of the only assignment in COURSE
KIT_FILES = ("LICENSE", "README.md", "constraints.txt", "pyproject.toml")
NOT_NEEDED = frozenset({"__pycache__", "variants"})
NOT_NEEDED_OF_GRADER = ("grader/tests/", "grader/teaching/pictures.py")


def write_archive(
    path: Path, chapters: Iterable[str], exercises: Iterable[str], rules: Rules, hidden: Iterable[str], seed: int = 0,
    torch_index: str = "",
) -> tuple[Path, tuple[Exercise, ...]]:  # fmt: skip
    """Write the archive for these chapters and exercises, or for all. Students see results of hidden ones later.

    Return its path, and the exercises that it grades.

    UnknownName for an unknown name, GradingProblem for a path that cannot be used.
    """
    if rules.own_tests:
        raise GradingProblem("Gradescope's autograder cannot grade own tests; `headway grade` does it")
    course = load_syllabus()
    graded = tuple(course.chosen([*(course.chapter(name).id for name in chapters), *exercises]))
    secret = [course.exercise(name) for name in hidden]
    for exercise in secret:
        if exercise not in graded:
            advice = f"add it to --exercises, or its chapter {exercise.chapter} to --chapters"
            raise GradingProblem(f"--hidden {exercise.name}: this exercise is not graded here; {advice}")
    path = _check_path(path)
    settings: dict[str, Any] = {"hidden": [exercise.name for exercise in secret], "seed": seed}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        setup = (TEXTS / "setup.sh").read_text(encoding="utf-8").replace("TORCH_INDEX", shlex.quote(torch_index))
        for name, text in (("setup.sh", setup), ("run_autograder", (TEXTS / "run_autograder").read_bytes())):
            script = zipfile.ZipInfo(name)
            script.external_attr, script.create_system, script.compress_type = 0o100755 << 16, 3, zipfile.ZIP_DEFLATED
            archive.writestr(script, text)
        archive.writestr(SETTINGS, json.dumps(settings) + "\n")
        archive.writestr(COURSE, format_course(graded, replace(rules, hidden=frozenset(settings["hidden"]))))
        for name, content in _list_kit():
            archive.writestr(f"kit/{name}", content)
    write_whole(path, packed.getvalue(), private=True)  # it has the reference, and people's extensions
    return path, graded


def format_course(exercises: Sequence[Exercise], rules: Rules) -> str:
    """A course.toml with one assignment, of these exercises by these rules."""
    lines = ["[points]", *(f"{exercise} = {format(points, 'f')}" for exercise, points in rules.points.items())]
    lines += ["", f"[assignments.{GRADED}]", f"exercises = {json.dumps([exercise.name for exercise in exercises])}"]
    lines += [f"hidden = {json.dumps(sorted(rules.hidden))}"] if rules.hidden else []
    lines += [f"due = {rules.due.isoformat()}"] if rules.due else []
    minutes = int(rules.grace.total_seconds() // 60)
    lines += [f'grace = "{minutes}m"' if minutes < 100_000 else f'grace = "{-(-minutes // UNIT_MINUTES["d"])}d"']
    lines += [f"per_day = {format(rules.per_day, 'f')}", f"most = {format(rules.most, 'f')}"]
    lines += [f"last = {rules.last}"] if rules.last is not None else []
    extended = [f"{_quote(name)} = {until.isoformat()}" for name, until in rules.extensions.items()]
    return "\n".join([*lines, "", f"[extensions.{GRADED}]", *extended, ""])


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_path(path: Path) -> Path:
    """The archive's path, which ends with .zip. GradingProblem if it exists, or has no folder."""
    if path.is_dir():
        raise GradingProblem(f"{path} is a folder; name the archive's file, like {path / 'autograder.zip'}")
    if path.suffix.lower() != ".zip":  # Gradescope accepts no other
        path = path.with_name(f"{path.name}.zip")
    if not path.parent.is_dir():
        raise GradingProblem(f"the folder {path.parent} does not exist; make it first, or choose another")
    if path.exists():
        raise GradingProblem(f"{path} exists already; move it away, or choose another name")
    return path


def _list_kit() -> Iterator[tuple[str, str | bytes]]:
    """The kit's files for grading. Stubs are made from the solutions: the instructor may have edited exercises/."""
    for name in KIT_FILES:
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_bytes()
    yield "exercises/syllabus.toml", (EXERCISES / "syllabus.toml").read_bytes()
    for chapter in load_syllabus().chapters:
        if chapter.exercises:
            yield f"exercises/{chapter.name}.py", reference_stub(chapter.name)
    for folder in (ROOT / "grader", SOLUTIONS, TESTS):
        for path in sorted(folder.rglob("*")):
            place = path.relative_to(ROOT)
            is_unneeded = NOT_NEEDED & set(place.parts) or place.as_posix().startswith(NOT_NEEDED_OF_GRADER)
            if path.is_file() and not is_unneeded and not path.name.startswith("."):
                yield place.as_posix(), path.read_bytes()


def hide_results(results: dict, hidden: Collection[str]) -> dict:
    """One person's results.json without what students may see only after the instructor has published the grades.

    Gradescope hides the total too while a test is hidden, so the sentence with the points is left out.
    """
    if not any(set(test["tags"]) & set(hidden) for test in results["tests"]):
        return results
    later = {"visibility": "after_published"}
    tests = [test | later if set(test["tags"]) & set(hidden) else test for test in results["tests"]]
    _, _, rest = results["output"].partition("\n\n")
    sentence = f"Your instructor shows the results of {' and '.join(sorted(hidden))} and your points later."
    return results | {"tests": tests, "output": f"{sentence}\n\n{rest}" if rest else sentence}


def rules_of_assignment(course: Course, assignment: Assignment) -> Rules:
    """The rules, with extensions by name and by e-mail address: Gradescope may have another name for a person."""
    extensions = dict(assignment.rules.extensions)
    for name, until in assignment.rules.extensions.items():
        person = course.roster.find(name)
        if person and person.email:
            extensions[person.email] = until
    return replace(assignment.rules, extensions=extensions)


def add_gradescope_dates(rules: Rules, metadata: Any) -> Rules:
    """The rules for the people of this submission, with the dates in its submission_metadata.json.

    https://gradescope-autograders.readthedocs.io/en/latest/submission_metadata/ describes that file. The due date of
    the rules counts; without one, that of Gradescope. A person's extension is the latest of the rules' and
    Gradescope's. Rules without deductions stay as they are.
    """
    if not rules.has_deductions and rules.due is None:
        return rules
    general = _due_date(metadata)
    due, extensions = rules.due or general, {}
    for user in metadata["users"] if metadata else ():
        name, email, own = user["name"].strip(), user["email"].casefold(), _due_date(user)
        dates = [until for who, until in rules.extensions.items() if who == name or who.casefold() == email]
        if own and general and own > general:
            dates.append(own)
        if due and (later := [until for until in dates if until > due]):
            extensions[name] = max(later)
    return replace(rules, due=due, extensions=extensions)


def _due_date(entry: Any) -> datetime | None:
    """The due date in the assignment of the submission or of a user; None without one, or if it is not a time."""
    try:
        return parse_time(entry["assignment"]["due_date"])
    except (ValueError, LookupError, TypeError):
        return None
