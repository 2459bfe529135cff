"""Commands for authors of the course: what is generated from it, and the quality gate."""

from __future__ import annotations

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.readme_table import check_readme_table, write_readme_table
from grader.course.status import read_course
from grader.course.stubs import check_stubs, write_stubs


def write_stubs_command() -> int:
    """Write the stubs without a learner's changes, the lessons' pictures and the README's table; returns 1 if a stub could not be written."""
    read_course()
    from grader.teaching.pictures import write_lesson_pictures

    outcomes = write_stubs()
    for outcome in outcomes:
        if outcome.state == "failed":
            print_error(outcome.sentence)
        elif outcome.state != "unchanged":
            print_wrapped(make_console(), outcome.sentence)
    if unchanged := sum(outcome.state == "unchanged" for outcome in outcomes):
        make_console().print(f"{unchanged} stub{'s are' if unchanged > 1 else ' is'} unchanged.")
    if not outcomes:
        make_console().print("No chapter has a solution yet.")
    for name in write_lesson_pictures():
        print_wrapped(make_console(), f"exercises/pictures/{name} was drawn again.")
    if write_readme_table():
        print_wrapped(make_console(), "README.md: the table of chapters and exercises was changed.")
    return int(any(outcome.state == "failed" for outcome in outcomes))


def check_stubs_command() -> int:
    """Print which stubs do not match their solutions; returns 1 if any."""
    read_course()
    problems = [*check_stubs(), *check_readme_table()]
    for problem in problems:
        print_error(problem)
    if not problems:
        make_console().print("Stubs and solutions match.")
    return int(bool(problems))


def dev_check(names: list[str], full: bool, fresh: bool, table: bool, changed: bool) -> int:
    """Run the quality gate on some exercises or chapters, or on all."""
    course = read_course()
    for name in names:
        course.find(name)
    from grader.quality.devcheck import run
    from grader.quality.proof.mutants.explained import last_found

    return run(names, full, fresh, table, last_found, changed)
