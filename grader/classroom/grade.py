"""Grades a class: takes submissions, and writes a gradebook, marks, feedback and a report.

Every verdict is stored in the gradebook at once. After a run was stopped or killed, the same command grades what is
left and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from grader.classroom import exports, report
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.seeds import seeds_of
from grader.classroom.report.page import NO_CONTEXT, ReportContext
from grader.course.syllabus import Exercise
from grader.verdict.conditions import versions
from grader.verdict.summary import Verdict

ReportProgress = Callable[[int, int, str], None]  # gets the number of graded submissions, of all, and the last name


class AnyDispatcher(Protocol):
    """Grades submissions: with servers on this machine (judging/dispatch.py), or on a cluster (judging/cluster.py)."""

    def grade(self, submission: Submission, seeds: dict[str, int]) -> Verdict | str: ...

    def close(self) -> None:
        """End what is still being graded: `grade` then returns at once, in every thread."""
        ...


@dataclass(frozen=True)
class GradingOutcome:
    """What a run graded and wrote."""

    graded_class: GradedClass
    graded_now: int  # contents graded in this run
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def grade_class(
    submissions: Sequence[Submission], book: Gradebook, exercises: Sequence[Exercise], seed: int, rules: Rules,
    folder: Path, dispatcher: AnyDispatcher, at_once: int,
    report_progress: ReportProgress = lambda done, of, name: None, context: ReportContext = NO_CONTEXT,
) -> GradingOutcome:  # fmt: skip
    """Grade what is not graded yet, then write all files."""
    notes = [note for note in [book.start_run(seed, exercises, versions())] if note]
    notes += rules.find_warnings(submissions)
    todo = book.submissions_to_do(submissions)
    report_progress(0, len(todo), "")
    _grade_and_store(todo, book, exercises, seed, dispatcher, at_once, report_progress)
    graded_class = book.graded_class(rules)
    written = exports.write_all(graded_class, folder)
    try:
        written.append(report.write(graded_class, folder, context))
    except report.ReportProblem as problem:
        notes.append(str(problem))
    return GradingOutcome(graded_class, len(todo), written, notes)


def _grade_and_store(
    todo: Sequence[Submission], book: Gradebook, exercises: Sequence[Exercise], seed: int, dispatcher: AnyDispatcher,
    at_once: int, report_progress: ReportProgress,
) -> None:  # fmt: skip
    """Grade these, at most `at_once` at a time."""
    waiting, done = iter(todo), 0
    running: dict[Future[Verdict | str], Submission] = {}
    with ThreadPoolExecutor(at_once, "headway grade") as pool:
        try:
            while True:
                # as many again wait, so that none of the threads is idle while a verdict is stored
                for submission in islice(waiting, 2 * at_once - len(running)):
                    seeds = seeds_of(submission, exercises, book.secret, seed)
                    running[pool.submit(dispatcher.grade, submission, seeds)] = submission
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    submission = running.pop(future)
                    book.store_verdict(submission.digest, future.result())
                    done += 1
                    report_progress(done, len(todo), submission.name)
        finally:
            if running:  # the run was stopped or failed: these verdicts would not be stored, so do not wait for them
                dispatcher.close()
                pool.shutdown(cancel_futures=True)
