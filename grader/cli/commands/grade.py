"""`headway grade SUBMISSIONS --out FOLDER` grades a class, and `headway regrade NAME` one person."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.anonymous.pseudonyms import hide_names
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.person_lookup import find_person
from grader.classroom.intake.mapped_files import describe_maps
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.times import describe_unknown_times
from grader.classroom.judging.rules import Rules
from grader.classroom.report.context import ReportContext, read_context
from grader.classroom.report.numbers import format_count, format_number
from grader.classroom.report.tally import measure_distribution
from grader.classroom.term.matching import name_by_roster
from grader.classroom.term.roster import Roster
from grader.cli.commands.anonymity import names_of, refuse_mixing
from grader.cli.commands.grading_request import Request, last_request
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import format_points
from grader.course.syllabus import Exercise
from grader.execution.sandbox.isolation import Isolation, available, missing_layers
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 20  # without a terminal: how many lines show the progress
ALL_GRADED, SOME_NOT, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def grade(request: Request, jobs: int | None = None, dask: str | None = None, changed: bool = False, fewer: bool = False, secret: str = "") -> int:
    """The exit status: 0 if everybody was graded, 1 if somebody could not be, 2 for wrong use, 130 if it was stopped."""
    try:
        chosen, rules, course = request.resolve()
        reading = request.reading(chosen)
        notes: list[str] = []
        submissions, out = request.submissions, request.out
        if submissions.is_dir() and out.resolve().is_relative_to(submissions.resolve()):
            raise GradingProblem(f"the folder for the grades, {sanitize.line(str(out))}, is inside the folder with the submissions; choose another one with --out")
        refuse_mixing(request)
        class_submissions = read_in_subprocess(submissions, notes.append, options=reading)
        notes += describe_maps(reading, class_submissions)
        if course is not None:
            class_submissions, more = name_by_roster(class_submissions, course.roster, course.assignment(request.assignment).groups)
            notes += more
        if request.anonymous:
            pseudonyms, class_submissions, rules, notes = hide_names(request.key_path, class_submissions, course.roster if course else Roster(), rules, notes)
            course = pseudonyms.hide_course(course) if course else None
            notes.append(f"{sanitize.line(str(request.key_path))} is the key of the pseudonyms; only you should have it")
        notes += describe_unknown_times(class_submissions) if rules.due else []
        dispatcher, at_once = _make_dispatcher(dask, [exercise.name for exercise in chosen], request.seed, request.require_isolation)
        with closing(dispatcher), Gradebook(out, secret) as book:
            if not fewer:
                _refuse_other_exercises(book, [exercise.name for exercise in chosen], request)
            before = book.list_people()
            request.store()
            context, more = read_context(course, request.assignment)
            notes += more
            status = _grade_with_progress(class_submissions, book, chosen, request.seed, rules, out, dispatcher, jobs or at_once, notes, context)
            _print_missing(before, book.list_people())
            if changed:
                _print_changed(before, book.list_people())
            return status
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except KeyboardInterrupt:
        print_error("stopped; the results so far are saved, and the same command continues from there")
        return INTERRUPTED


def regrade(
    name: str, out: Path, jobs: int | None, dask: str | None = None, submissions: Path | None = None, points: Path | None = None, require_isolation: bool = False,
    key: Path | None = None,
) -> int:
    """Grade one person's submission again, and everything else that is new or changed. The other arguments are those of the last run, except the given ones."""
    try:
        asked = last_request(out)
        if points and asked.course:
            raise GradingProblem("--points does not go with an assignment: course.toml has its points and rules; leave out --points")
        asked = replace(
            asked, submissions=submissions or asked.submissions, points=points or asked.points, require_isolation=require_isolation or asked.require_isolation,
            key=key or asked.key,
        )  # fmt: skip
        if asked.anonymous:
            refuse_mixing(asked)
        known = names_of(asked)
        with Gradebook(out) as book:
            person = find_person(book, known.find(name), known.roster)
            if not person.slug:
                raise GradingProblem(f"{sanitize.line(person.name)} has no submission in {sanitize.line(str(out))}; grade a folder that contains it with `headway grade`")
            names = book.delete_verdicts(person.slug)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    if len(names) > 1:
        print_wrapped(make_console(), f"{', '.join(sorted(names))} submitted the same content; all of them are graded again.")
    return grade(asked, jobs, dask)


def _refuse_other_exercises(book: Gradebook, chosen: list[str], request: Request) -> None:
    """Fewer exercises than in the last run would remove columns of the table and pages of feedback that somebody may already have read."""
    held = book.exercises_of_last_run()
    if not held or set(held) <= set(chosen):
        return
    missing = [name for name in held if name not in chosen]
    out = sanitize.line(str(request.out))
    together = "" if request.assignment else f" grade all of them (--exercises {','.join([*held, *(name for name in chosen if name not in held)])}),"
    where = "" if request.assignment else f" choose another folder (--out {out}-2),"
    raise GradingProblem(
        f"{out} contains the grades of {format_count(len(held), 'exercise')}, and this run leaves out {_list(missing)}, whose columns and feedback would disappear;"
        f"{where}{together} or add --fewer to leave them out (their results stay in the gradebook)"
    )


def _list(names: list[str], most: int = 5) -> str:
    return ", ".join(names if len(names) <= most else [*names[:most], f"and {len(names) - most} more"])


def _count_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _choose_isolation(required: bool) -> Isolation:
    """Every layer of the sandbox that this machine has, with a warning for each that is missing."""
    lacking = missing_layers()
    if lacking and required:
        raise GradingProblem("--require-isolation: " + "; ".join(str(layer) for layer in lacking))
    for layer in lacking:
        print_error(str(layer))
    return available()


def _make_dispatcher(dask: str | None, names: list[str], seed: int, require_isolation: bool):
    """What grades the submissions, and how many it grades at a time."""
    from grader.classroom.judging.dispatch import Dispatcher

    if dask is None:
        return Dispatcher(_choose_isolation(require_isolation), names, seed), _count_processors()
    return _connect_cluster(dask, names, seed, require_isolation)


def _connect_cluster(address: str, names: list[str], seed: int, require_isolation: bool):
    """The cluster, and the number of its workers' threads; a cluster without workers may start some when it gets submissions."""
    from grader.classroom.judging.cluster import ClusterDispatcher

    cluster = ClusterDispatcher(address, names, seed, require_isolation)
    for sentence in cluster.lacking:
        print_error(f"on a worker of the cluster, {sentence}")
    return cluster, cluster.threads or os.cpu_count() or 1


def _grade_with_progress(
    class_submissions, book: Gradebook, chosen: list[Exercise], seed: int, rules: Rules, out: Path, dispatcher, at_once: int, notes: list[str],
    context: ReportContext,
) -> int:  # fmt: skip
    """Grade the class, with a bar or lines that show how far it is, and print the summary. The exit status."""
    from grader.classroom.grade import grade_class
    from grader.classroom.judging.dispatch import GradingStopped

    console = make_console()
    columns = (TextColumn("grading"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[last]}", markup=False))
    progress = Progress(*columns, console=console, speed_estimate_period=600, transient=True, disable=not console.is_terminal)
    task = progress.add_task("grading", total=None, last="")

    def report_progress(done: int, of: int, last: str) -> None:
        progress.update(task, completed=done, total=of, last=sanitize.line(last)[:30] if last else "loading the tests")
        if not console.is_terminal and of and (done in (0, of) or done % max(1, of // LINES) == 0):
            console.print(f"graded {done} of {of}")

    try:
        with progress:
            outcome = grade_class(class_submissions, book, chosen, seed, rules, out, dispatcher, at_once, report_progress, context=context)
    except GradingStopped as trouble:
        print_error(str(trouble))
        return WRONG_USE
    _print_summary(console, outcome, out, notes)
    return SOME_NOT if outcome.ungraded else ALL_GRADED


def _print_summary(console, outcome, out: Path, notes: list[str]) -> None:
    people, points = [person for person in outcome.graded_class.people if not person.missing], outcome.graded_class.points
    spread = measure_distribution([person for person in people if not person.problem])
    counts = f"{format_count(len(people), 'person', 'people')}, {format_count(outcome.graded_now, 'submission')} graded now"
    console.print(f"{counts}, {format_points(float(points))} points possible.")
    if spread:
        console.print(f"lowest {format_number(spread.lowest)}, median {format_number(spread.median)}, highest {format_number(spread.highest)}")
    if outcome.exercises_shared:
        exercises = format_count(outcome.exercises_judged + outcome.exercises_shared, "exercise")
        _print_sentence(console, f"Of their {exercises}, {outcome.exercises_shared} were not run: equal code was judged before.")
    for person in people:
        if person.problem:
            _print_sentence(console, f"Not graded: {person.name}: {person.problem}.", style="yellow")
    for note in [*notes, *outcome.notes]:
        _print_sentence(console, f"Note: {note}", style="yellow")
    report = " report.html (open it before the lecture)," if any(path.name == "report.html" for path in outcome.written) else ""
    _print_sentence(console, f"{out} contains grades.csv,{report} feedback/, gradescope/, junit.xml and the gradebook.")


def _print_sentence(console, sentence: str, style: str = "") -> None:
    """Print a sentence: wrapped on a terminal, on one line otherwise, so that a search in a log finds it."""
    if console.is_terminal:
        print_wrapped(console, sentence, style=style)
    else:
        console.print(sentence, soft_wrap=True)


def _print_missing(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> None:
    """Say who was in the last run and is not in this one: perhaps somebody moved a file by mistake."""
    kept = {name for name, _ in after.values()}
    gone = sorted({name for name, _ in before.values()} - kept)
    if gone:
        sentence = f"Note: in the last run and not in this one: {_list(gone, 10)}. The table and the feedback leave them out; their results stay in the gradebook."
        _print_sentence(make_console(), sentence, style="yellow")


def _print_changed(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> None:
    names = sorted(now[0] for slug, now in after.items() if before.get(slug) != now)
    _print_sentence(make_console(), f"New or changed since the last run: {', '.join(names)}." if names else "No submission is new or changed since the last run.")
