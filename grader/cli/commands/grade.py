"""`headway grade SUBMISSIONS --out FOLDER` grades a class, and `headway regrade NAME` one person."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from grader.classroom.anonymous.pseudonyms import hide_names
from grader.classroom.grade import AnyDispatcher, GradingOutcome, grade_class
from grader.classroom.gradebook.corrections import to_storable
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.sqlite_file import has_gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission, add_slugs, describe_unknown_times
from grader.classroom.judging.rules import Rules
from grader.classroom.report.page import read_context
from grader.classroom.sanitize import line, list_names
from grader.classroom.term.course import Course
from grader.classroom.term.deliveries import Note, name_by_roster, read_deliveries
from grader.classroom.term.roster import NO_ROSTER, NamedPerson
from grader.cli import arguments as given
from grader.cli.arguments import argument, option, split_option
from grader.cli.commands.anonymity import refuse_mixing, stored_class
from grader.cli.commands.grading_options import (
    GradingOptions,
    absolute,
    choose_assignment,
    default_folder,
    folder_of,
    last_options,
    read_options,
    store_options,
)
from grader.cli.commands.grading_output import print_left_out, print_summary, show_progress
from grader.cli.commands.lost_grades import leave_out_missing_folders, refuse_losing
from grader.console.output import print_error, print_sentence
from grader.course.syllabus import Exercise
from grader.execution.sandbox.isolation import available, missing_layers

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
    seed: given.Seed = None,
    jobs: given.Jobs = None,
    require_isolation: given.RequireIsolation = False,
    dask: given.Dask = None,
    fewer: given.Fewer = False,
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
    """Grade a class (for instructors).

    With --assignment, course.toml says what is graded, and by which rules.

    With --add, a person who is in several folders gets the newer submission, and the others stay. It uses the arguments
    of the last run, except those that you give.

    With --anonymous, no file but the key has a name, an e-mail address, a login or a student number. What learners
    write into their code or print stays as it is, and may contain their names.

    Exit status: 0 if every submission was graded, 1 if some could not be graded, 2 if the command is wrong."""
    others = {"--chapters": chapters, "--exercises": exercises}
    term = choose_assignment(course, assignment, others)
    if key is not None and not anonymous and not add:
        raise typer.BadParameter("--key goes with --anonymous; add it, or leave out --key")
    folder, place = out or default_folder(term), absolute(submissions)
    options = GradingOptions(
        (place,), tuple(split_option(chapters)), tuple(split_option(exercises)), seed or 0,
        absolute(term[0].path) if term else "", term[1].name if term else "",
        require_isolation, anonymous, absolute(key), shlex.join(["headway", *sys.argv[1:]]),
    )  # fmt: skip
    if add and (before := read_options(folder)):
        earlier = tuple(path for path in before.submissions if path != place)
        options = replace(before.changed_by(options, seed), submissions=(*earlier, place))
    elif add and has_gradebook(folder):
        advice = "grade all of them in one folder"
        raise GradingProblem(f"{line(str(folder))} does not say which submissions were graded before; {advice}")
    return run(options, folder, RunOptions(jobs, dask, fewer=fewer))


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
    """Grade one person again (for instructors).

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
    return run(options, folder, RunOptions(jobs, dask, again=person))


@dataclass(frozen=True)
class RunOptions:
    """How a run grades, besides what it grades."""

    jobs: int | None = None
    dask: str | None = None
    secret: str = ""
    fewer: bool = False  # exercises and people of the last run may be left out
    again: NamedPerson | None = None  # a person whose submission is graded again


def run(options: GradingOptions, out: Path, how: RunOptions) -> int:
    """The exit status: 0 if everybody was graded, 1 if somebody could not be, 130 if it was stopped.

    GradingProblem for wrong use.
    """
    chosen, rules, course = options.resolve()
    refuse_mixing(options, out)
    before = read_options(out) if has_gradebook(out) else None
    notes: list[Note] = []
    if before and (differences := options.differences(before)):
        verb = "differs" if len(differences) == 1 else "differ"
        notes.append(f"{' and '.join(differences)} {verb} from the last run into {line(str(out))}")
    options = leave_out_missing_folders(options, out, before, how.fewer, notes)
    dispatcher, at_once, lacking = _make_dispatcher(how.dask, options.require_isolation, early=before is None)
    with closing(dispatcher):
        submissions, found_notes = read_class(options, out, course)
        notes += found_notes
        roster, said = course.roster if course else NO_ROSTER, list(map(str, notes))
        if options.anonymous:
            path = options.key_path(out)
            pseudonyms, submissions, rules, said = hide_names(path, submissions, roster, rules, notes)
            course = pseudonyms.hide_course(course) if course else None
            roster = course.roster if course else NO_ROSTER
            said.append(f"{line(str(path))} is the key of the pseudonyms; only you should have it")
        if not how.fewer:
            refuse_losing(out, options, [exercise.name for exercise in chosen], submissions, roster)
        for sentence in lacking:
            print_error(sentence)
        said += describe_unknown_times(submissions) if rules.due else []
        try:
            return _grade(dispatcher, how.jobs or at_once, options, out, how, chosen, rules, course, submissions, said)
        except KeyboardInterrupt:
            print_error("stopped; the results so far are saved, and the same command continues from there")
            return INTERRUPTED


def _grade(
    dispatcher: AnyDispatcher, at_once: int, options: GradingOptions, out: Path, how: RunOptions,
    chosen: list[Exercise], rules: Rules, course: Course | None, submissions: list[Submission], notes: list[str],
) -> int:  # fmt: skip
    from grader.classroom.judging.dispatch import GradingStopped

    with Gradebook(out, how.secret) as book:
        people = book.list_people()
        again = _delete_verdicts(book, how.again, submissions) if how.again else None
        store_options(options, out)
        try:
            with show_progress() as report:
                outcome: GradingOutcome = grade_class(
                    submissions,
                    book,
                    chosen,
                    options.seed,
                    rules,
                    out,
                    dispatcher,
                    at_once,
                    report,
                    context=read_context(course, options.assignment),
                )
        except GradingStopped as trouble:
            raise GradingProblem(str(trouble)) from trouble
        print_summary(outcome, out, notes, again)
        print_left_out(people, book.list_people())
    ungraded = [person for person in outcome.graded_class.people if person.problem and not person.missing]
    return SOME_NOT if any(again is None or person.slug in again for person in ungraded) else ALL_GRADED


# ---- submissions


def read_class(options: GradingOptions, out: Path, course: Course | None) -> tuple[list[Submission], list[Note]]:
    """The submissions under the names of the roster, and sentences for the instructor.

    GradingProblem if they cannot be read.
    """
    folders = [Path(path) for path in options.submissions]
    for folder in folders:
        if folder.is_dir() and out.resolve().is_relative_to(folder):
            inside = f"the folder for the result, {line(str(out))}, is inside the folder with the submissions"
            raise GradingProblem(f"{inside}; choose another one with --out")
    notes: list[Note] = []
    submissions = read_deliveries(folders, course.roster if course else NO_ROSTER, notes.append)
    if course is not None:
        submissions, more = name_by_roster(submissions, course.roster, course.assignment(options.assignment).groups)
        notes += more
    return add_slugs(submissions), notes


def _delete_verdicts(book: Gradebook, person: NamedPerson, submissions: list[Submission]) -> set[str]:
    """Let this person's submission be graded again; the file names of all people whose submission that is."""
    own = [one for one in submissions if to_storable(one.name) == person.name]
    new = next((one for one in own if one.slug == person.slug), own[0] if own else None)
    names = book.delete_verdicts(person.slug, [new.digest] if new else [])
    if new is None or new.problem:
        return {person.slug}
    if len(names) > 1:
        print_sentence(f"{list_names(sorted(names))} submitted the same content; all of them are graded again.")
    return {one.slug for one in submissions if one.digest == new.digest}


# ---- what grades: this machine, with the layers of the sandbox that it has, or a Dask cluster


def _make_dispatcher(dask: str | None, require_isolation: bool, early: bool) -> tuple[AnyDispatcher, int, list[str]]:
    """What grades the submissions, how many it grades at a time, and what its sandbox lacks. `early`: it starts now,
    because all submissions are still to be graded."""
    if dask is not None:
        from grader.classroom.judging.cluster import ClusterDispatcher

        cluster = ClusterDispatcher(dask, require_isolation)
        lacking = [f"on a worker of the cluster, {sentence}" for sentence in cluster.lacking]
        return cluster, cluster.threads or os.cpu_count() or 1, lacking
    from grader.classroom.judging.dispatch import Dispatcher

    lacking = [str(layer) for layer in missing_layers()]
    if lacking and require_isolation:
        raise GradingProblem("--require-isolation: " + "; ".join(lacking))
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    dispatcher = Dispatcher(available())
    if early:
        dispatcher.start_early()
    return dispatcher, processors, lacking
