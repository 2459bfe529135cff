"""`headway grade SUBMISSIONS --out FOLDER` grades a class, and `headway regrade NAME` one person."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.anonymous.pseudonyms import hide_names
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.columns import to_storable
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.person_lookup import find_person
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.intake.times import describe_unknown_times
from grader.classroom.judging.better_versions import choose_versions, find_points_in, list_variants
from grader.classroom.judging.rules import Rules
from grader.classroom.report.context import read_context
from grader.classroom.sanitize import line, list_names
from grader.classroom.term.person_finder import Known
from grader.classroom.term.roster import NO_ROSTER
from grader.cli.commands.anonymity import names_of, refuse_mixing
from grader.cli.commands.class_submissions import read_class, without_missing
from grader.cli.commands.dispatchers import make_dispatcher
from grader.cli.commands.grading_output import print_changed, print_left_out, print_sentence, print_summary, show_progress
from grader.cli.commands.grading_request import Given, Request, add_own_reading, add_to_last
from grader.cli.commands.kept_grades import refuse_losing
from grader.cli.commands.stored_request import last_request, read_request, store_request
from grader.console.output import print_error
from grader.course.syllabus import Exercise

ALL_GRADED, SOME_NOT, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class _RunOptions:
    """How a run grades, besides what it grades."""

    jobs: int | None = None
    dask: str | None = None
    secret: str = ""
    changed: bool = False  # only list what is new or changed
    fewer: bool = False  # exercises and people of the last run may be left out
    again: Known | None = None  # a person whose submission is graded again


def grade(
    request: Request, jobs: int | None = None, dask: str | None = None, changed: bool = False, fewer: bool = False, secret: str = "", add: Given | None = None
) -> int:  # fmt: skip
    """The exit status: 0 if everybody was graded, 1 if somebody could not be, 2 for wrong use, 130 if it was stopped.

    With `add`, the submissions are graded in addition to those of the last run, with its arguments except these.
    """
    before = read_request(request.out)
    try:
        if before is not None:
            request = add_to_last(request, before, add) if add else replace(request, own_reading=before.own_reading)
        elif add and _has_people(request.out):
            raise GradingProblem(f"{line(str(request.out))} does not say which submissions were graded before (asked.json); grade all of them in one folder")
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    return _grade_request(request, before, _RunOptions(jobs, dask, secret, changed, fewer))


def regrade(name: str, out: Path, given: Given, jobs: int | None = None, dask: str | None = None, fewer: bool = False) -> int:
    """Grade one person's submission again, and everything else that is new or changed. The other arguments are those of the last run, except the given ones.

    The exit status: 0 if this person was graded, 1 if not, 2 for wrong use, 130 if it was stopped.
    """
    try:
        before = last_request(out)
        request = given.apply(before)
        if request.anonymous:
            refuse_mixing(request)
        known = names_of(request)
        with Gradebook.read(out) as book:
            person = find_person(book, known.find(name), known.roster)
        if not person.slug:
            raise GradingProblem(
                f"{line(person.name)} has no submission in {line(str(out))}; grade a folder that contains it in addition, with `headway grade FOLDER --add`"
            )
        request = add_own_reading(request, person.name, given)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    if for_class := given.options_for_class:
        print_sentence(f"{' and '.join(for_class)} {'counts' if len(for_class) == 1 else 'count'} for the whole class, not only for {line(person.name)}.")
    return _grade_request(request, before, _RunOptions(jobs, dask, fewer=fewer, again=person))


def _grade_request(request: Request, before: Request | None, options: _RunOptions) -> int:
    try:
        chosen, rules, course = request.resolve()
        refuse_mixing(request)
        request, gone = without_missing(request)
        submissions, found_notes = read_class(request, course, chosen)
        roster = course.roster if course else NO_ROSTER
        if not options.fewer and not options.changed:
            refuse_losing(request, before, [exercise.name for exercise in chosen], submissions, roster, gone)
        found_notes += [f"{path}, which an earlier run graded, does not exist any more and is not read" for path in gone]
        notes = list(map(str, found_notes))
        if request.anonymous:
            pseudonyms, submissions, rules, notes = hide_names(request.key_path, submissions, roster, rules, found_notes)
            course = pseudonyms.hide_course(course) if course else None
            notes.append(f"{line(str(request.key_path))} is the key of the pseudonyms; only you should have it")
        if options.changed:
            _list_changed(request.out, submissions, chosen, rules)
            return ALL_GRADED
        notes += describe_unknown_times(submissions) if rules.due else []
        dispatcher, at_once = make_dispatcher(options.dask, [exercise.name for exercise in chosen], request.seed, request.require_isolation)
        with closing(dispatcher), Gradebook(request.out, options.secret) as book:
            people = book.list_people()
            again = _delete_verdicts(book, options.again, submissions) if options.again else None
            store_request(request)
            context, more = read_context(course, request.assignment)
            outcome = _grade_with_progress(submissions, book, chosen, request, rules, dispatcher, options.jobs or at_once, context)
            print_summary(outcome, request.out, [*notes, *more], again)
            print_left_out(people, book.list_people())
            ungraded = [person for person in outcome.graded_class.people if person.problem and not person.missing]
            return SOME_NOT if any(again is None or person.slug in again for person in ungraded) else ALL_GRADED
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except KeyboardInterrupt:
        print_error("stopped; the results so far are saved, and the same command continues from there")
        return INTERRUPTED


def _grade_with_progress(submissions, book, chosen, request, rules, dispatcher, at_once, context):
    """What the run graded. GradingProblem if nothing can be graded at all."""
    from grader.classroom.grade import grade_class
    from grader.classroom.judging.dispatch import GradingStopped

    try:
        with show_progress() as report:
            return grade_class(submissions, book, chosen, request.seed, rules, request.out, dispatcher, at_once, report, context=context)
    except GradingStopped as trouble:
        raise GradingProblem(str(trouble)) from trouble


def _delete_verdicts(book: Gradebook, person: Known, submissions: list[Submission]) -> set[str]:
    """Let this person's submission be graded again; the file names of all people whose submission that is."""
    own = [one for one in submissions if to_storable(one.name) == person.name]
    new = next((one for one in own if one.slug == person.slug), own[0] if own else None)
    names = book.delete_verdicts(person.slug, [one.digest for one in (new, *list_variants(new))] if new else [])
    if new is None or new.problem:
        return {person.slug}
    if len(names) > 1:
        print_sentence(f"{list_names(sorted(names))} submitted the same content; all of them are graded again.")
    return {one.slug for one in submissions if one.digest == new.digest}


def _list_changed(out: Path, submissions: list[Submission], chosen: list[Exercise], rules: Rules) -> None:
    """Say whose submission is new or changed. Of several versions of a chapter, those count that counted in the last run."""
    people = _list_people(out)
    if people:
        with Gradebook.read(out) as book:
            find_points = find_points_in(book.find_verdict, chosen, rules.points_of)
            submissions = [choose_versions(submission, find_points) for submission in submissions]
    print_changed(people, submissions)


def _has_people(out: Path) -> bool:
    return bool(_list_people(out))


def _list_people(out: Path) -> dict[str, tuple[str, str]]:
    """The people of the last run; none if there was none."""
    if not (out / sqlite_file.NAME).is_file():
        return {}
    with Gradebook.read(out) as book:
        return book.list_people()
