"""Grades a class: takes submissions, and writes a gradebook, marks, feedback and a report.

Every verdict is stored in the gradebook at once. After a run was stopped or killed, the same command grades what is
left and nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

from grader.classroom.anonymous import hide_names
from grader.classroom.class_report import read_context
from grader.classroom.exports import write_files
from grader.classroom.gradebook import Gradebook, to_storable
from grader.classroom.gradebook_file import has_gradebook
from grader.classroom.grading_options import GradingOptions, read_options, refuse_mixing, store_options
from grader.classroom.intake.clones import CommitDates, read_pushes
from grader.classroom.intake.submissions import (
    GradingProblem,
    Submission,
    add_slugs,
    describe_unknown_times,
    name_other_chapters,
)
from grader.classroom.judging.dispatch import Dispatcher, GradingStopped, seeds_of
from grader.classroom.judging.marks import GradedClass, Person
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line, list_names, shorten
from grader.classroom.term.course import Course
from grader.classroom.term.deliveries import NameNote, Note, find_owner, name_by_roster, read_deliveries
from grader.classroom.term.roster import NO_ROSTER, NamedPerson, Roster
from grader.counts import format_count
from grader.course.syllabus import Exercise
from grader.execution.sandbox.isolation import available, missing_layers
from grader.verdict.last_verdicts import versions
from grader.verdict.results import Verdict

MAX_NAMES = 5  # in one sentence
LEAVE_OUT = "run `headway grade` with --fewer to leave them out (their results stay in the gradebook)"
OWN_TESTS = {"grading": "own tests"}  # stored beside the versions, so that other results do not count
ReportProgress = Callable[[int, int, str], None]  # gets the number of graded submissions, of all, and the last name


@dataclass(frozen=True)
class Run:
    """The options of one run. The command that parses them makes this object, and no other code does."""

    options: GradingOptions  # what is graded, and how: these are stored beside the gradebook
    out: Path
    jobs: int | None = None
    dask: str | None = None
    secret: str = ""  # of the gradebook, if this run creates it
    fewer: bool = False  # exercises and people of the last run may be left out
    again: NamedPerson | None = None  # a person whose submission is graded again
    dry: bool = False  # only read the submissions, and say who would be graded


@dataclass(frozen=True)
class ClassToGrade:
    """What is graded, by which rules; and after `read`, the submissions, with names or pseudonyms."""

    exercises: list[Exercise]
    rules: Rules
    course: Course | None
    submissions: list[Submission] = field(default_factory=list)
    notes: Sequence[Note] = ()  # for the instructor

    @property
    def roster(self) -> Roster:
        return self.course.roster if self.course else NO_ROSTER

    def list_deadlines(self) -> dict[str, datetime]:
        """Until when work is on time: for everybody (""), and by login, name and group, in small letters."""
        if (due := self.rules.due) is None:
            return {}
        found = {"": due + self.rules.grace}
        for person in self.roster.people:
            until = (self.rules.find_due_date(person.name) or due) + self.rules.grace
            for key in filter(None, (person.login, person.name, person.group.replace(" ", "-"))):
                found[key.casefold()] = max(until, found.get(key.casefold(), until))  # of a group, the latest
        return found

    def read(self, options: GradingOptions, out: Path, screen: Screen) -> ClassToGrade:
        """The class with its submissions, under the names of the roster. GradingProblem if they cannot be read.

        If the options are anonymous, no sentence shows the name of a file that somebody handed in.
        """
        folders = [Path(path) for path in options.submissions]
        for folder in folders:
            if folder.is_dir() and out.resolve().is_relative_to(folder):
                inside = f"the folder for the result, {line(str(out))}, is inside the folder with the submissions"
                raise GradingProblem(f"{inside}; choose another one with --out")
        pushed = read_pushes(Path(options.pushes)) if options.pushes else {}
        notes, dates = [*self.notes], CommitDates(self.list_deadlines(), pushed)
        if strange := [login for login in pushed if self.roster.people and not self.roster.find(login)]:
            notes.append(NameNote(f"in {Path(options.pushes).name} and not in the roster: ", tuple(strange)))
        with screen.show_reading() as report:
            how = (report, options.anonymous, dates, self.rules.own_tests)
            submissions = read_deliveries(folders, self.roster, notes.append, *how)
        if self.course is not None:
            groups = self.course.assignment(options.assignment).groups
            submissions, more = name_by_roster(submissions, self.roster, groups)
            notes += more
        modules = list(dict.fromkeys(map(self.rules.module_of, self.exercises)))
        return replace(self, submissions=name_other_chapters(add_slugs(submissions), modules), notes=notes)

    def hide_names(self, key: Path) -> ClassToGrade:
        """The class with pseudonyms; the key at this place gets everybody who is new."""
        pseudonyms, submissions, rules, said = hide_names(key, self.submissions, self.roster, self.rules, self.notes)
        course = pseudonyms.hide_course(self.course) if self.course else None
        return replace(self, rules=rules, course=course, submissions=submissions, notes=said)


@dataclass(frozen=True)
class GradingOutcome:
    """What a run graded and wrote."""

    graded_class: GradedClass
    graded_now: int  # contents graded in this run
    written: list[Path]
    notes: list[str]
    again: Collection[str] | None  # the file names of those who were to be graded again; None for everybody
    left_out: list[str]  # people of the last run who are not in this one

    @property
    def ungraded(self) -> list[Person]:
        """Those who were to be graded and could not be."""
        people = [person for person in self.graded_class.people if person.problem and not person.missing]
        return [person for person in people if self.again is None or person.slug in self.again]


class Screen(Protocol):
    """What shows the instructor how far a run is."""

    def show_reading(self) -> AbstractContextManager[Callable[[str], None]]: ...

    def show_progress(self) -> AbstractContextManager[ReportProgress]: ...

    def say(self, sentence: str) -> None: ...

    def warn(self, sentence: str) -> None: ...


class AnyDispatcher(Protocol):
    """Grades submissions: with servers on this machine (judging/dispatch.py), or on a cluster (judging/cluster.py)."""

    def grade(self, submission: Submission, seeds: dict[str, int]) -> Verdict | str: ...

    def close(self) -> None:
        """End what is still being graded: `grade` then returns at once, in every thread."""
        ...


def grade_class(run: Run, screen: Screen) -> GradingOutcome | ClassToGrade | None:
    """Grade what is not graded yet, then write all files. None if Control-C stopped the grading.

    A dry run grades and writes nothing: it gives the class that would be graded. GradingProblem, before anything is
    graded, for wrong use.
    """
    found = ClassToGrade(*run.options.resolve())
    refuse_mixing(run.options, run.out)
    before = read_options(run.out) if has_gradebook(run.out) else None
    notes: list[Note] = []
    if before and (differences := run.options.differences(before)):
        verb = "differs" if len(differences) == 1 else "differ"
        notes.append(f"{' and '.join(differences)} {verb} from the last run into {line(str(run.out))}")
    run = _leave_out_missing_folders(run, before, notes)
    # a server loads the kit while the submissions are read, unless most of them may be graded already
    early = before is None and not run.dry
    dispatcher, at_once, lacking = _make_dispatcher(run, found.rules.own_tests, early)
    with closing(dispatcher):
        found = replace(found, notes=notes).read(run.options, run.out, screen)
        if run.options.anonymous and not run.dry:
            key = run.options.key_path(run.out)
            found = found.hide_names(key)
            hidden = f"{line(str(key))} is the key of the pseudonyms; only you should have it"
            found = replace(found, notes=[*found.notes, hidden])
        if not run.fewer:
            _refuse_losing(run, found)
        untimed = describe_unknown_times(found.submissions) if found.rules.due else []
        found = replace(found, notes=[*found.notes, *untimed])
        if run.dry:
            return found
        for sentence in lacking:
            screen.warn(sentence)
        try:
            return _grade(run, found, dispatcher, at_once, screen)
        except GradingStopped as trouble:
            raise GradingProblem(str(trouble)) from trouble
        except KeyboardInterrupt:
            screen.warn("stopped; the results so far are saved, and the same command continues from there")
            return None


def _grade(run: Run, found: ClassToGrade, dispatcher: AnyDispatcher, at_once: int, screen: Screen) -> GradingOutcome:
    with Gradebook(run.out, run.secret) as book:
        people = book.list_people()
        again = _delete_verdicts(book, run.again, found.submissions, screen) if run.again else None
        store_options(run.options, run.out)
        with screen.show_progress() as report_progress:
            graded_by = versions() | (OWN_TESTS if found.rules.own_tests else {})
            changes = book.start_run(run.options.seed, found.exercises, graded_by)
            notes = [*map(str, found.notes), *filter(None, [changes]), *found.rules.find_warnings(found.submissions)]
            todo = book.submissions_to_do(found.submissions)
            store_verdicts(book, todo, dispatcher, at_once, report_progress)
            graded = book.graded_class(found.rules)
            written, more = write_files(graded, run.out, read_context(found.course, run.options.assignment))
        kept = {name for name, _ in book.list_people().values()}
        left_out = sorted({name for name, _ in people.values()} - kept)
    return GradingOutcome(graded, len(todo), written, notes + more, again, left_out)


def store_verdicts(
    book: Gradebook, todo: Sequence[Submission], dispatcher: AnyDispatcher, at_once: int,
    report_progress: ReportProgress = lambda done, of, name: None,
) -> None:  # fmt: skip
    """Grade these, at most `at_once` at a time, and store each verdict at once."""
    report_progress(0, len(todo), "")
    waiting, done = iter(todo), 0
    running: dict[Future[Verdict | str], Submission] = {}
    with ThreadPoolExecutor(at_once, "headway grade") as pool:
        try:
            while True:
                # as many again wait, so that none of the threads is idle while a verdict is stored
                for submission in islice(waiting, 2 * at_once - len(running)):
                    seeds = seeds_of(submission, book.exercises, book.secret, book.seed)
                    running[pool.submit(dispatcher.grade, submission, seeds)] = submission
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    submission = running.pop(future)
                    book.store_verdict(submission.digest, _name_absent(future.result(), submission.absent))
                    done += 1
                    report_progress(done, len(todo), submission.name)
        finally:
            if running:  # the run was stopped or failed: these verdicts would not be stored, so do not wait for them
                dispatcher.close()
                pool.shutdown(cancel_futures=True)


def _name_absent(found: Verdict | str, absent: Mapping[str, str]) -> Verdict | str:
    """The verdict, in which tests of what is not in the submission say so: they ran on stubs, as "not implemented"."""
    for result in found.results if isinstance(found, Verdict) else ():
        if sent := absent.get(result.exercise.name) or absent.get(result.exercise.module):
            result.tests = [replace(test, message=sent) if test.outcome == "todo" else test for test in result.tests]
    return found


def _delete_verdicts(book: Gradebook, person: NamedPerson, submissions: list[Submission], screen: Screen) -> set[str]:
    """Let this person's submission be graded again; the file names of all people whose submission that is."""
    own = [one for one in submissions if to_storable(one.name) == person.name]
    new = next((one for one in own if one.slug == person.slug), own[0] if own else None)
    names = book.delete_verdicts(person.slug, [new.digest] if new else [])
    if new is None or new.problem:
        return {person.slug}
    if len(names) > 1:
        screen.say(f"{list_names(sorted(names))} submitted the same content; all of them are graded again.")
    return {one.slug for one in submissions if one.digest == new.digest}


# ---- what grades: this machine, with the layers of the sandbox that it has, or a Dask cluster


def _make_dispatcher(run: Run, own_tests: bool, early: bool) -> tuple[AnyDispatcher, int, list[str]]:
    """What grades the submissions, how many it grades at a time, and what its sandbox lacks. `early`: it starts now."""
    if run.dask is not None and own_tests:
        raise GradingProblem("--dask does not go with own tests: they are graded on this machine; leave out --dask")
    if run.dask is not None:
        from grader.classroom.judging.cluster import ClusterDispatcher  # few have Dask

        cluster = ClusterDispatcher(run.dask, run.options.require_isolation)
        lacking = [f"on a worker of the cluster, {sentence}" for sentence in cluster.lacking]
        return cluster, run.jobs or cluster.threads or os.cpu_count() or 1, lacking
    lacking = [str(layer) for layer in missing_layers()]
    if lacking and run.options.require_isolation:
        raise GradingProblem("--require-isolation: " + "; ".join(lacking))
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    dispatcher = Dispatcher(available(), own_tests=own_tests)
    if early:
        dispatcher.start_early()
    return dispatcher, run.jobs or processors, lacking


# ---- refusing a run in which grades of the last run would disappear: somebody may have read them already


def _leave_out_missing_folders(run: Run, before: GradingOptions | None, notes: list[Note]) -> Run:
    """The run without folders that do not exist any more.

    GradingProblem, unless `fewer`, for any folder that is left out.
    """
    *earlier, last = run.options.submissions
    gone = [path for path in earlier if not Path(path).exists()]
    if gone and not run.fewer:
        verb = "does" if len(gone) == 1 else "do"
        where = " and ".join(map(line, gone))
        lost = f"{where} {verb} not exist any more, so this run would leave out what is in there"
        raise GradingProblem(f"{lost}; put it back, or {LEAVE_OUT}")
    notes += [f"{line(path)}, which an earlier run graded, does not exist any more and is not read" for path in gone]
    left_out = [path for path in before.submissions if path not in run.options.submissions] if before else []
    if before and len(before.submissions) > 1 and left_out and not run.fewer:
        places = " and ".join(shorten(Path(path).name) for path in left_out)
        ways = f"add --add to keep them, or --fewer to leave {places} out"
        lost = f"also has the grades of {places}, and this run would replace them"
        raise GradingProblem(f"{line(str(run.out))} {lost}; {ways}")
    left = (*(path for path in earlier if path not in gone), last)
    return replace(run, options=replace(run.options, submissions=left))


def _refuse_losing(run: Run, found: ClassToGrade) -> None:
    """GradingProblem, with the ways out, if this run leaves out exercises or people of the last run."""
    if not has_gradebook(run.out):
        return
    with Gradebook.read(run.out) as book:
        exercises, people, ids = book.exercises_of_last_run(), book.list_graded(), book.list_ids()
        had_own_tests = book.versions.items() >= OWN_TESTS.items()
    shown, chosen = line(str(run.out)), [exercise.name for exercise in found.exercises]
    if exercises and had_own_tests != found.rules.own_tests:
        before, now = ("own tests", "exercises") if had_own_tests else ("exercises", "own tests")
        raise GradingProblem(f"{shown} has the grades of {before}, and this run grades {now}; choose another --out")
    elsewhere = "" if run.options.assignment else f"choose another folder (--out {shown}-2), "
    if missing := [name for name in exercises if name not in chosen]:
        everything = ",".join(dict.fromkeys([*exercises, *chosen]))
        all_of_them = f"{elsewhere}grade all of them (--exercises {everything})"
        way = "put them back into course.toml" if run.options.assignment else all_of_them
        lost = f"this run leaves out {list_names(missing, MAX_NAMES)}, whose columns and feedback would disappear"
        graded = f"{shown} contains the grades of {format_count(len(exercises), 'exercise')}"
        raise GradingProblem(f"{graded}, and {lost}; {way}, or {LEAVE_OUT}")
    names = {to_storable(one.name) for one in found.submissions}
    known_ids = {item for one in found.submissions for item in one.ids.items()}

    def is_there(name: str, own_ids: dict[str, str]) -> bool:
        owner = find_owner(Submission(name, {}, ids=own_ids), found.roster)
        return (
            name in names
            or (owner is not None and to_storable(owner.name) in names)
            or not known_ids.isdisjoint(own_ids.items())
        )

    if left_out := sorted(name for slug, (name, _) in people.items() if not is_there(name, ids.get(slug, {}))):
        place = shorten(Path(run.options.submissions[-1]).name)
        who = f"{len(left_out)} of them, who are not in {place}: {list_names(left_out, MAX_NAMES)}"
        lost = f"this run would leave out {who}"
        ways = f"add --add to grade {place} in addition, {elsewhere}or {LEAVE_OUT}"
        count = format_count(len(people), "person", "people")
        raise GradingProblem(f"{shown} has the grades of {count}, and {lost}; {ways}")
