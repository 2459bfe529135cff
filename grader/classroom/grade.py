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
from grader.classroom.judging.better_versions import choose_versions, find_points_in, list_variants
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.sharing import Plan, Planner
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
    exercises_judged: int = 0  # of them: those whose tests were run
    exercises_shared: int = 0  # and those for which results of an equal chapter were used
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
    todo = book.submissions_to_do(submissions, [variant for one in submissions for variant in list_variants(one)])
    report_progress(0, len(todo), "")
    planner = Planner(book, exercises, seed)
    judged, shared = _grade_and_store(todo, book, dispatcher, at_once, planner, report_progress)
    find_points = find_points_in(book.find_verdict, exercises, rules.points_of)
    chosen = [choose_versions(submission, find_points) for submission in submissions]
    if any(submission.versions for submission in submissions):
        mixed = book.submissions_to_do(chosen)  # the better versions of different chapters: no chapter is new
        more = _grade_and_store(mixed, book, dispatcher, at_once, planner, lambda done, of, name: None)
        judged, shared = judged + more[0], shared + more[1]
    graded_class = book.graded_class(rules)
    written = exports.write_all(graded_class, folder)
    try:
        written.append(report.write(graded_class, folder, context))
    except report.ReportProblem as problem:
        notes.append(str(problem))
    return GradingOutcome(graded_class, len(todo), judged, shared, written, notes)


def _grade_and_store(
    todo: Sequence[Submission], book: Gradebook, dispatcher: AnyDispatcher, at_once: int, planner: Planner,
    report_progress: ReportProgress,
) -> tuple[int, int]:  # fmt: skip
    """Grade these, at most `at_once` at a time.

    Return the numbers of exercises whose tests were run, and of those that were judged before.
    """
    waiting, judged, shared, done = iter(todo), 0, 0, 0
    running: dict[Future[Verdict | str], tuple[Submission, Plan]] = {}
    with ThreadPoolExecutor(at_once, "headway grade") as pool:
        try:
            while True:
                for submission in islice(waiting, at_once - len(running)):
                    plan = planner.plan(submission)
                    running[pool.submit(_grade_planned, dispatcher, submission, plan)] = submission, plan
                if not running:
                    return judged, shared
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    submission, plan = running.pop(future)
                    verdict = future.result()
                    if isinstance(verdict, Verdict):
                        verdict = plan.complete(verdict)
                        book.store_verdict(submission.digest, verdict, plan.chapters_to_share(verdict))
                        judged, shared = judged + len(plan.seeds), shared + len(plan.known)
                    else:
                        book.store_verdict(submission.digest, verdict)
                    done += 1
                    report_progress(done, len(todo), submission.name)
        finally:
            if running:  # the run was stopped or failed: these verdicts would not be stored, so do not wait for them
                dispatcher.close()
                pool.shutdown(cancel_futures=True)


def _grade_planned(dispatcher: AnyDispatcher, submission: Submission, plan: Plan) -> Verdict | str:
    return dispatcher.grade(submission, plan.seeds) if plan.seeds else Verdict([])
