"""A run over a class: what is handed in goes in, and a gradebook, marks, feedback and a report come out.

Whatever has been found out is in the gradebook at once. A run that is stopped, or killed, is begun again with the same command: it does
what is left and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from grader.classroom import exports
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.versions import versions
from grader.course.syllabus import Exercise
from grader.verdict.summary import Verdict


class Grader(Protocol):
    """Grades submissions: with servers on this machine (judging/dispatch.py), or on a cluster (judging/cluster.py)."""

    def grade(self, submission: Submission) -> Verdict | str: ...

    def close(self) -> None:
        """End what is still being graded: `grade` then returns at once, in every thread."""
        ...


@dataclass(frozen=True)
class Graded:
    """How a run went."""

    people: GradedClass
    judged: int  # contents graded in this run
    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def without(self) -> list[str]:
        """Who could not be graded."""
        return [person.name for person in self.people.people if person.problem]


def grade(
    submissions: Sequence[Submission], book: Gradebook, exercises: Sequence[Exercise], seed: int, rules: Rules, folder: Path,
    grader: Grader, at_once: int, told: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> Graded:  # fmt: skip
    """Grade what is not graded yet, then write everything. `told` hears how many are done of how many, and who was the last."""
    notes = [note for note in [book.start_run(seed, exercises, versions())] if note]
    notes += rules.find_warnings(submissions)
    todo = book.submissions_to_do(submissions)
    told(0, len(todo), "")
    with closing(_graded(todo, grader, at_once)) as verdicts:
        for number, (submission, verdict) in enumerate(verdicts, start=1):
            book.store_verdict(submission.digest, verdict)
            told(number, len(todo), submission.name)
    people = book.graded_class(rules)
    written, more = write(people, folder)
    return Graded(people, len(todo), written, notes + more)


def write(people: GradedClass, folder: Path) -> tuple[list[Path], list[str]]:
    """Every export and the report; the sentences of what could not be made."""
    from grader.classroom import report

    written = exports.write_all(people, folder)
    try:
        written.append(report.write(people, folder))
    except report.ReportProblem as problem:
        return written, [str(problem)]
    return written, []


def _graded(todo: Sequence[Submission], grader: Grader, at_once: int):
    """Each submission with its verdict, as they come; no more are begun than can be under way."""
    waiting, under_way = iter(todo), {}
    with ThreadPoolExecutor(at_once, "headway grade") as pool:

        def begin() -> None:
            submission = next(waiting, None)
            if submission is not None:
                under_way[pool.submit(grader.grade, submission)] = submission

        for _ in range(at_once):
            begin()
        try:
            while under_way:
                finished: set[Future]
                finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in finished:
                    submission = under_way.pop(future)
                    yield submission, future.result()
                    begin()
        finally:
            if under_way:  # stopped, or something is wrong: nobody waits for what will not be kept
                grader.close()
                pool.shutdown(cancel_futures=True)
