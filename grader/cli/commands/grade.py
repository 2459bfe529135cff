"""`headway grade SUBMISSIONS --out FOLDER` grades a class, and `headway regrade NAME` one person."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import has_gradebook
from grader.classroom.grading import ClassToGrade, Run, grade_class
from grader.classroom.grading_options import (
    GradingOptions,
    absolute,
    choose_assignment,
    default_folder,
    folder_of,
    last_options,
    read_options,
    refuse_mixing,
    stored_class,
)
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.sanitize import line
from grader.cli import arguments as given
from grader.cli.arguments import argument, option, split_option
from grader.cli.commands.grading_output import TerminalScreen, print_plan, print_summary

ALL_GRADED, SOME_NOT, INTERRUPTED = 0, 1, 130


def grade(
    submissions: Annotated[
        Path, argument("SUBMISSIONS", "A folder, an archive, a table (CSV) of people and paths, or one file.")
    ],
    out: given.Out = None,
    assignment: given.AssignmentName = "",
    course: given.CourseFile = None,
    add: Annotated[
        bool,
        option(
            "Grade these submissions in addition to those of the last run into this folder, for example late ones.",
            "--add",
        ),
    ] = False,
    chapters: given.Chapters = "",
    exercises: given.Exercises = "",
    own_tests: given.OwnTests = "",
    seed: given.Seed = None,
    jobs: given.Jobs = None,
    require_isolation: given.RequireIsolation = False,
    dask: given.Dask = None,
    fewer: given.Fewer = False,
    pushes: Annotated[
        Path | None,
        option("A CSV with the columns login and date: when the last push of a clone arrived.", metavar="FILE"),
    ] = None,
    dry_run: Annotated[
        bool, option("Only say who would be graded, who is missing and who fits no name; write nothing.", "--dry-run")
    ] = False,
    anonymous: Annotated[
        bool, option("Write pseudonyms instead of names; the key is one file that you keep.", "--anonymous")
    ] = False,
    key: Annotated[
        Path | None,
        option(
            "The key (default: anonymous_key.csv, next to the course file or to the folder of the grades).",
            metavar="FILE",
        ),
    ] = None,
) -> int:
    """Grade a class.

    With --assignment, course.toml says what is graded, and by which rules.

    With --add, a person who is in several folders gets the newer submission, and the others stay. It uses the arguments
    of the last run, except those that you give.

    With --anonymous, no file but the key has a name, an e-mail address, a login or a student number. What learners
    write into their code or print stays as it is, and may contain their names.

    Exit status: 0 if every submission was graded, 1 if some could not be graded, 2 if the command is wrong."""
    others = {"--chapters": chapters, "--exercises": exercises, "--own-tests": own_tests}
    term = choose_assignment(course, assignment, others)
    if key is not None and not anonymous and not add:
        raise typer.BadParameter("--key goes with --anonymous; add it, or leave out --key")
    folder, place = out or default_folder(term), absolute(submissions)
    options = GradingOptions(
        (place,), tuple(split_option(chapters)), tuple(split_option(exercises)), tuple(split_option(own_tests)),
        seed or 0, absolute(term[0].path) if term else "", term[1].name if term else "",
        require_isolation, anonymous, absolute(key), absolute(pushes), shlex.join(["headway", *sys.argv[1:]]),
    )  # fmt: skip
    if add and (before := read_options(folder)):
        earlier = tuple(path for path in before.submissions if path != place)
        options = replace(before.changed_by(options, seed), submissions=(*earlier, place))
    elif add and has_gradebook(folder):
        advice = "grade all of them in one folder"
        raise GradingProblem(f"{line(str(folder))} does not say which submissions were graded before; {advice}")
    if dry_run and options.anonymous:
        raise typer.BadParameter("--dry-run shows names, so it does not go with --anonymous; leave out one of them")
    return run(Run(options, folder, jobs, dask, fewer=fewer, dry=dry_run))


def regrade(
    name: given.Person,
    out: given.Out = None,
    assignment: given.AssignmentName = "",
    course: given.CourseFile = None,
    submissions: Annotated[
        Path | None, option("Where the submissions are, if they have moved; or newer ones.", metavar="SUBMISSIONS")
    ] = None,
    jobs: given.Jobs = None,
    dask: given.Dask = None,
    key: given.Key = None,
) -> int:
    """Grade one person again.

    It uses the arguments of the last `headway grade`.

    Exit status: 0 if this person was graded, 1 if not, 2 if the command is wrong."""
    folder = folder_of(out, course, assignment)
    options = last_options(folder)
    if submissions:
        place = absolute(submissions)
        earlier = tuple(path for path in options.submissions if path != place and Path(path).exists())
        options = replace(options, submissions=(*earlier, place))
    options = replace(options, key=absolute(key) or options.key)
    if options.anonymous:
        refuse_mixing(options, folder)
    known = stored_class(folder, key)
    with Gradebook.read(folder) as book:
        person = book.find_person(known.find(name), known.roster)
    if not person.slug:
        advice = "grade a folder that contains it in addition, with `headway grade FOLDER --add`"
        raise GradingProblem(f"{line(person.name)} has no submission in {line(str(folder))}; {advice}")
    return run(Run(options, folder, jobs, dask, again=person))


def run(asked: Run) -> int:
    """The exit status: 0 if everybody was graded, 1 if somebody could not be, 130 if it was stopped."""
    outcome = grade_class(asked, TerminalScreen())
    if outcome is None:
        return INTERRUPTED
    if isinstance(outcome, ClassToGrade):
        return ALL_GRADED if print_plan(outcome) else SOME_NOT
    print_summary(outcome, asked.out)
    return SOME_NOT if outcome.ungraded else ALL_GRADED
