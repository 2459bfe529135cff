"""`%%check`, `check`, `hint` and `repro` as a learner calls them: they validate the arguments, and reply to wrong ones
with a sentence. The graded tests run in a process of their own, as for `headway check`.
"""

from __future__ import annotations

import os
import textwrap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, find_problem
from grader.course.status import all_passed, locate, next_step, read_course, short_path
from grader.course.syllabus import Chapter, Exercise, UnknownName, load_syllabus, similar, suites_of
from grader.notebook.cells import cells_so_far, code_of_cells, command, names_in, notebook_shell, write_exercises
from grader.processes.client import DOCTOR, AnyServer, NoServer
from grader.processes.job import CheckJob, retry_sentence
from grader.verdict.results import Verdict, join_names

# without a watch it starts one that lives as long as the notebook, so that only the first check waits until torch is
# loaded
_server = AnyServer()
_one_at_a_time = threading.Lock()


class NoVerdict(Exception):
    """There is no verdict; the message says why, in one sentence."""


class Stopped(KeyboardInterrupt):
    """The learner pressed the stop button; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return ["The check was stopped."]


def run_tests(found: Exercise | Chapter, columns: int) -> tuple[Verdict, str]:
    """The verdict on the learner's file, and the page that `headway check` prints; NoVerdict where the tests could not
    run."""
    job = CheckJob(found.short_name, os.getcwd(), columns)
    try:
        with _one_at_a_time:
            return _collected(_server.answers(job))
    except NoServer as problem:
        raise NoVerdict(str(problem) or f"the tests could not be run; {DOCTOR}") from None
    except KeyboardInterrupt:
        raise Stopped from None


def _collected(messages: Iterator[dict[str, Any]]) -> tuple[Verdict, str]:
    verdict, text = None, ""
    for message in messages:
        match message:
            case {"text": piece}:
                text += piece
            case {"again": why}:
                text = f"{retry_sentence(why)}\n"
            case {"restarted": sentence}:
                text = f"{sentence}\n"
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
            case {"trouble": sentence}:
                raise NoVerdict(sentence)
    if not verdict:
        raise NoVerdict(f"the process that ran the tests has ended; {DOCTOR}")
    return verdict, text


COLUMNS = 80


class InvalidCall(Exception):
    """The arguments cannot be used; the message is one sentence."""


@dataclass(frozen=True, repr=False)
class Answer:
    """A text that a notebook shows after the cell, and a prompt prints; as a condition, it is true if everything
    passed."""

    passed: bool
    text: str

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return self.text


def check(*names: str | int) -> Answer:
    """Test the code in exercises/, as `headway check` does: `check("softmax")`, `check("ch03")`. The answer is true
    when all of it passes."""
    try:
        return _checked(_found("check", *names))
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return _refusal(problem)


def check_cell(line: str, cell: str) -> Answer | None:
    """Run the cell, write the exercises that it defines into the files of their chapters, and test them: `%%check`, or
    `%%check softmax` to test only that one."""
    if not notebook_shell().run_cell(f"# %%check {line}\n{cell}", store_history=False).success:
        return None
    try:
        names = names_in(cell)
        defined = [exercise for exercise in load_syllabus().exercises if exercise.name in names]
        if not defined:
            raise InvalidCall(_no_exercise(names))
        found = read_course().find_all(line.split()) or defined
        for one in found:
            if isinstance(one, Exercise) and one not in defined:
                raise InvalidCall(
                    f"This cell does not define {one.name}, so Headway wrote and tested nothing; it "
                    f"defines {join_names(one.name for one in defined)}."
                )
        for exercise in defined:
            _validate_file(exercise)
        return _checked(found, write_exercises(defined, code_of_cells(cells_so_far())))
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return _refusal(problem)


def _no_exercise(names: Sequence[str]) -> str:
    """That a cell defines none of the exercises; a name that is nearly one is most likely misspelt."""
    said = "This cell defines no exercise, so Headway wrote and tested nothing"
    for name in names:
        if near := similar(name, [exercise.name for exercise in load_syllabus().exercises]):
            return f"{said}. It defines {name}; did you mean {' or '.join(near)}?"
    return f"{said}; remove its first line, or define an exercise, for example {_example()}."


def _example() -> str:
    """An exercise for a sentence: the learner's next one."""
    step = next_step()
    return (step.exercise if step else read_course().exercises[0]).name


def load_ipython_extension(shell: Any) -> None:
    shell.register_magic_function(check_cell, "cell", "check")


def hint(name: str | int | None = None, level: int | None = None) -> Answer:
    """The next hint of an exercise, as `headway hint` shows it; with a level (1 to 3), that one."""
    try:
        exercise = _found_exercise("hint", name)
        if level is not None and (type(level) is not int or level < 1):
            raise InvalidCall(
                f'The level must be a number from 1 to {len(exercise.hints)}: hint("{exercise.name}", 1).'
            )
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return _refusal(problem)
    shown = reveal_hint(exercise, level)
    if shown is None:
        return Answer(False, f"{exercise.name} has no hints.")
    more = "This is the last hint." if shown.is_last else f'For the next hint: hint("{exercise.name}")'
    earlier = f'To see an earlier one again: hint("{exercise.name}", 1)' if shown.number > 1 else None
    text = filter(None, [shown.text, more, earlier, shown.problem])
    return Answer(True, "\n".join([shown.title, *map(_wrapped, text)]))


def repro(name: str | int | None = None) -> Answer:
    """The call of the last failure, of any exercise or of one, as code. In a notebook it replaces the text of the cell
    that asks for it."""
    from grader.reproduction.files import last_script, stored_script  # it imports torch

    try:
        exercise = None if name is None else _found_exercise("repro", name)
        stored = stored_script(exercise.name) if exercise else last_script()
        if stored is None:
            example = exercise.name if exercise else _example()
            raise InvalidCall(
                f"There is no failed check{f' of {example}' if exercise else ''} to run again; to "
                f'check it: check("{example}")'
            )
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return _refusal(problem)
    text = stored.path.read_text(encoding="utf-8").replace("Path(__file__)", f"Path({str(stored.path)!r})")
    if (shell := notebook_shell()) is not None:
        shell.set_next_input(text, replace=True)
    return Answer(True, text.rstrip("\n"))


def _refusal(problem: Exception) -> Answer:
    said = command(str(problem))
    return Answer(False, _wrapped(said[:1].upper() + said[1:] if isinstance(problem, UnknownName) else said))


def _wrapped(sentences: str) -> str:
    return "\n".join(textwrap.wrap(sentences, COLUMNS, break_on_hyphens=False))


def _checked(found: Sequence[Exercise | Chapter], notes: Sequence[str] = ()) -> Answer:
    """Test these, one after the other; notes about files come last."""
    passed, texts = True, []
    for one in found:
        _validate_file(one)
        try:
            verdict, text = run_tests(one, COLUMNS)
        except NoVerdict as problem:
            return Answer(False, "\n".join(map(_wrapped, [command(str(problem)), *notes])))
        passed = passed and not verdict.broken and all(result.outcome == "passed" for result in verdict.results)
        texts.append(command(text).strip("\n"))
    return Answer(passed, "\n\n".join([*texts, *map(_wrapped, notes)]))


def _validate_file(found: Exercise | Chapter) -> None:
    """Raise InvalidCall unless there are tests, and a file that is valid Python."""
    chapter = found if isinstance(found, Chapter) else load_syllabus().chapter(found.chapter)
    if not chapter.exercises or not suites_of(chapter.id):
        raise InvalidCall(f"There are no tests for {found.name}.")
    location = locate(chapter)
    if not location.file.exists():
        raise InvalidCall(
            f"There is no file {short_path(location.file)}, so Headway tested nothing; to create it: "
            f"`headway reset {chapter.id}`"
        )
    if problem := find_problem(location.file):
        raise InvalidCall(f"{problem}. Headway changed and tested nothing; correct the file first.")


def _found(function: str, *names: Any) -> list[Exercise | Chapter]:
    """The exercises and chapters that these names mean; without a name, the learner's next exercise."""
    given = [name for name in names if name is not None]
    for name in given:
        if type(name) not in (str, int):
            meant = getattr(name, "__name__", "")
            known = meant if any(exercise.name == meant for exercise in read_course().exercises) else _example()
            raise InvalidCall(
                f'The argument must be the name of an exercise in quotes: {function}("{known}"). To test what a cell '
                "defines, write `%%check` into its first line."
            )
    if given:
        return read_course().find_all(map(str, given))
    step = next_step()
    if step is None:
        raise InvalidCall(f'{all_passed()} To name one: {function}("{_example()}").')
    return [step.exercise]


def _found_exercise(function: str, name: Any) -> Exercise:
    found = _found(function, name)[0]
    if isinstance(found, Chapter):
        raise InvalidCall(f'Give the name of an exercise, not of a chapter: {function}("{found.exercises[0].name}").')
    return found
