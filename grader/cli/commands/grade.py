"""`headway grade SUBMISSIONS --out FOLDER` grades a class, and `headway regrade NAME` one person."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from statistics import median

from grader.classroom import sanitize
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.judging.rules import Rules, read_rules
from grader.classroom.report.numbers import format_count
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import format_points
from grader.course.status import read_course
from grader.course.syllabus import Chapter, Exercise
from grader.execution.sandbox.isolation import Isolation, available, missing_layers
from grader.files import problem, write_whole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ALL_GRADED, SOME_NOT, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
ASKED = "asked.json"  # next to the gradebook: the arguments of the last run, for `regrade`


def grade(
    submissions: Path, out: Path, chapters: list[str], exercises: list[str], seed: int, points: Path | None, jobs: int | None, require_isolation: bool,
    dask: str | None, changed: bool, secret: str = "",
) -> int:  # fmt: skip
    """The exit status: 0 if everybody was graded, 1 if somebody could not be, 2 for wrong use, 130 if it was stopped."""
    try:
        chosen = _select_exercises(chapters, exercises)
        notes: list[str] = []
        if submissions.is_dir() and out.resolve().is_relative_to(submissions.resolve()):
            raise GradingProblem(f"the folder for the grades, {sanitize.line(str(out))}, is inside the folder with the submissions; choose another one with --out")
        class_submissions = read_in_subprocess(submissions, notes.append)
        rules = read_rules(points) if points else Rules()
        dispatcher, at_once = _make_dispatcher(dask, [exercise.name for exercise in chosen], seed, require_isolation)
        with closing(dispatcher), Gradebook(out, secret) as book:
            before = book.list_people()
            _store_arguments(out, submissions, chapters, exercises, seed, points, require_isolation)
            status = _grade_with_progress(class_submissions, book, chosen, seed, rules, out, dispatcher, jobs or at_once, notes)
            if changed:
                _print_changed(before, book.list_people())
            return status
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except KeyboardInterrupt:
        print_error("stopped; the results so far are saved, and the same command continues from there")
        return INTERRUPTED


def regrade(name: str, out: Path, jobs: int | None) -> int:
    """Grade one person's submission again, and everything else that is new or changed."""
    asked = _read_arguments(out)
    if asked is None:
        print_error(f"{out} is not a folder that `headway grade` has written to; choose the right one with --out")
        return WRONG_USE
    try:
        with Gradebook(out) as book:
            names = book.delete_verdicts(name)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    if len(names) > 1:
        print_wrapped(make_console(), f"{', '.join(sorted(names))} submitted the same content; all of them are graded again.")
    submissions, points = Path(asked["submissions"]), Path(asked["points"]) if asked["points"] else None
    return grade(submissions, out, asked["chapters"], asked["exercises"], asked["seed"], points, jobs, asked["require_isolation"], None, False)


def _read_arguments(out: Path) -> dict | None:
    """The arguments of the last run into this folder; None if they are missing or invalid."""
    kinds = {"submissions": str, "chapters": list, "exercises": list, "seed": int, "require_isolation": bool, "points": str | None}
    try:
        asked = {"require_isolation": False} | json.loads((out / ASKED).read_text(encoding="utf-8"))
        texts = [asked["submissions"], asked["points"] or "", *asked["chapters"], *asked["exercises"]]
        sound = all(isinstance(asked[name], kind) for name, kind in kinds.items()) and all(isinstance(text, str) and "\0" not in text for text in texts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return asked if sound else None


def _store_arguments(out: Path, submissions: Path, chapters: list[str], exercises: list[str], seed: int, points: Path | None, require_isolation: bool) -> None:
    asked = dict(submissions=str(submissions.resolve()), chapters=chapters, exercises=exercises, seed=seed, require_isolation=require_isolation)
    try:
        write_whole(out / ASKED, json.dumps(asked | {"points": str(points.resolve()) if points else None}, indent=1) + "\n")
    except OSError as trouble:
        raise GradingProblem(problem(trouble, f"write {ASKED} in {out}")) from trouble


def _count_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _select_exercises(chapters: list[str], exercises: list[str]) -> list[Exercise]:
    """The exercises to grade, in the course's order; all if none is named."""
    course = read_course()
    wanted = {exercise.name for name in _split_names(chapters) for exercise in course.chapter(name).exercises}
    for name in _split_names(exercises):
        found = course.find(name)
        wanted |= {exercise.name for exercise in (found.exercises if isinstance(found, Chapter) else [found])}
    return [exercise for exercise in course.exercises if not wanted or exercise.name in wanted]


def _split_names(words: list[str]) -> list[str]:
    return [name.strip() for word in words for name in word.split(",") if name.strip()]


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
    class_submissions, book: Gradebook, chosen: list[Exercise], seed: int, rules: Rules, out: Path, dispatcher, at_once: int, notes: list[str]
) -> int:
    """Grade the class, with a bar or lines that show how far it is, and print the summary. The exit status."""
    from grader.classroom.grade import grade_class
    from grader.classroom.judging.dispatch import GradingStopped

    console = make_console()
    columns = (TextColumn("grading"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[last]}", markup=False))
    progress = Progress(*columns, console=console, speed_estimate_period=600, transient=True, disable=not console.is_terminal)
    task = progress.add_task("grading", total=None, last="")

    def report_progress(done: int, of: int, last: str) -> None:
        progress.update(task, completed=done, total=of, last=sanitize.line(last)[:30] if last else "loading the tests")
        if not console.is_terminal and of and (done in (0, of) or done % 25 == 0):
            console.print(f"graded {done} of {of}")

    try:
        with progress:
            outcome = grade_class(class_submissions, book, chosen, seed, rules, out, dispatcher, at_once, report_progress)
    except GradingStopped as trouble:
        print_error(str(trouble))
        return WRONG_USE
    _print_summary(console, outcome, out, notes)
    return SOME_NOT if outcome.ungraded else ALL_GRADED


def _print_summary(console, outcome, out: Path, notes: list[str]) -> None:
    people, points = outcome.graded_class.people, outcome.graded_class.points
    totals = [float(person.total.earned) for person in people if not person.problem]
    counts = f"{format_count(len(people), 'person', 'people')}, {format_count(outcome.graded_now, 'submission')} graded now"
    console.print(f"{counts}, {format_points(float(points))} points possible.")
    if totals:
        console.print(f"lowest {format_points(min(totals))}, median {format_points(median(totals))}, highest {format_points(max(totals))}")
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


def _print_changed(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> None:
    names = sorted(now[0] for slug, now in after.items() if before.get(slug) != now)
    _print_sentence(make_console(), f"New or changed since the last run: {', '.join(names)}." if names else "No submission is new or changed since the last run.")
