"""`%%check`, `check`, `hint` and `repro` as a learner calls them: they validate the arguments, and reply to wrong ones
with a sentence."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from grader.course.excerpt import find_problem
from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, definition, find_definition
from grader.course.status import locate, next_step, read_course, short_path
from grader.course.stubs import reference_stub
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus, suites_of
from grader.notebook.answers import Answer, code_answer, hint_answer, joined, sentence_answer, verdict_answer
from grader.notebook.cell_code import CellCode, cell_defining, cells_so_far, code_of_cells, exercises_in
from grader.notebook.server_run import NoVerdict, run_tests
from grader.notebook.shell import command, notebook_shell
from grader.notebook.writing import write_exercises
from grader.verdict.results import join_names

_NOTHING: Any = object()


class InvalidCall(Exception):
    """The arguments cannot be used; the message is one sentence."""


def check(name: Any = None, given: Any = _NOTHING) -> Answer:
    """Test the code in exercises/, as `headway check` does: `check("softmax")`, `check("ch03")`. The answer is true
    when all of it passes.

    `check("softmax", softmax)` first writes a function or class of this notebook into the file of its chapter, as the
    cell magic `%%check` does.
    """
    try:
        course = read_course()
        if given is _NOTHING and callable(name):  # check(softmax)
            name, given = _own_name(name, course), name
        found = _found(name, given, course)
        if given is _NOTHING:
            return _checked(found)
        if not isinstance(found, Exercise):
            example = found.exercises[0].name
            raise InvalidCall(
                f'{found.id} is a chapter; give the name of one exercise with an object: check("{example}", {example}).'
            )
        _validate_target(found, given, course)
        return _written_and_checked([found], [found], _code_of_object(found, given))
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))


def check_cell(line: str, cell: str) -> Answer | None:
    """Run the cell, write the exercises that it defines into the files of their chapters, and test them: `%%check`, or
    `%%check softmax` to test only that one."""
    if not notebook_shell().run_cell(f"# %%check {line}\n{cell}", store_history=False).success:
        return None
    try:
        course = read_course()
        defined = exercises_in(cell)
        if not defined:
            raise InvalidCall(
                "This cell defines no exercise, so Headway wrote and tested nothing; remove its first "
                "line, or define an exercise, for example softmax."
            )
        found = [_found(line.strip().strip("\"'"), _NOTHING, course)] if line.strip() else defined
        if isinstance(found[0], Exercise) and found[0] not in defined:
            raise InvalidCall(
                f"This cell does not define {found[0].name}, so Headway wrote and tested nothing; it "
                f"defines {join_names(one.name for one in defined)}."
            )
        return _written_and_checked(defined, found, code_of_cells(cells_so_far()))
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))


def load_ipython_extension(shell: Any) -> None:
    """Make `%%check` known in IPython."""
    shell.register_magic_function(check_cell, "cell", "check")


def hint(name: Any = None, level: int | None = None) -> Answer:
    """The next hint of an exercise, as `headway hint` shows it; with a level (1 to 3), that one."""
    try:
        course = read_course()
        if callable(name):
            name = _own_name(name, course)
        exercise = _found(name, _NOTHING, course)
        if not isinstance(exercise, Exercise):
            raise InvalidCall(f'Give the name of an exercise, not of a chapter: hint("{exercise.exercises[0].name}").')
        if level is not None and (type(level) is not int or level < 1):
            raise InvalidCall(
                f'The level must be a number from 1 to {len(exercise.hints)}: hint("{exercise.name}", 1).'
            )
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))
    shown = reveal_hint(exercise, level)
    return hint_answer(shown) if shown else sentence_answer(f"{exercise.name} has no hints.")


def repro(name: Any = None) -> Answer:
    """The call of the last failure, of any exercise or of one, as code. In a notebook it replaces the text of the cell
    that asks for it."""
    from grader.reproduction.files import last_script, stored_script  # it imports torch

    try:
        course = read_course()
        if callable(name):
            name = _own_name(name, course)
        exercise = None if name is None else _found(name, _NOTHING, course)
        if isinstance(exercise, Chapter):
            raise InvalidCall(f'Give the name of an exercise, not of a chapter: repro("{exercise.exercises[0].name}").')
        stored = stored_script(exercise.name) if exercise else last_script()
        if stored is None:
            example = exercise.name if exercise else "softmax"
            raise InvalidCall(
                f"There is no failed check{f' of {example}' if exercise else ''} to run again; to "
                f'check it: `check("{example}")`'
            )
        text = stored.path.read_text(encoding="utf-8").replace("Path(__file__)", f"Path({str(stored.path)!r})")
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))
    if (shell := notebook_shell()) is not None:
        shell.set_next_input(text, replace=True)
    return code_answer(text)


def _code_of_object(exercise: Exercise, given: Any) -> CellCode:
    """The code of this object, and of what the notebook defines for it."""
    name, kind = exercise.name, "class" if _is_class(exercise) else "function"
    own = getattr(given, "__name__", "")
    if own.isidentifier() and own != name:
        raise InvalidCall(
            f"Your {kind} is called {own}, so Headway cannot write it as {name}; define {name} in a "
            f"cell that begins with `%%check {name}`."
        )
    cell = cell_defining(name, given)
    if cell is None:
        raise InvalidCall(
            f"Headway cannot find the code of this {kind}; put the definition of {name} into a cell "
            f"that begins with `%%check {name}`."
        )
    code = code_of_cells([cell, *cells_so_far()])
    code.definitions[name] = definition(cell, name).text
    return code


def _written_and_checked(exercises: Sequence[Exercise], found: Sequence[Exercise | Chapter], code: CellCode) -> Answer:
    for exercise in exercises:
        _validate_file(exercise)
    notes = write_exercises(exercises, code)
    return joined([_checked(one, notes if one is found[0] else ()) for one in found])


def _checked(found: Exercise | Chapter, notes: Sequence[str] = ()) -> Answer:
    _validate_file(found)
    try:
        return verdict_answer(run_tests(found), found, notes)
    except NoVerdict as problem:
        said = command(str(problem))
        return sentence_answer("\n".join([said[:1].upper() + said[1:], *notes]))


def _validate_file(found: Exercise | Chapter) -> None:
    """Raise InvalidCall unless there are tests, and a file that is valid Python."""
    chapter = found if isinstance(found, Chapter) else load_syllabus().chapter(found.chapter)
    if not chapter.exercises or not suites_of(chapter.id):
        raise InvalidCall(f"There are no tests for {found.name}.")
    location = locate(chapter)
    if not location.file.exists():
        raise InvalidCall(
            f"There is no file {short_path(location.file)}, so Headway tested nothing; `!headway reset "
            f"{chapter.id}` creates it."
        )
    if problem := find_problem(location.file):
        raise InvalidCall(f"{problem}. Headway changed and tested nothing; correct the file first.")


def _found(name: Any, given: Any, course: Syllabus) -> Exercise | Chapter:
    """The exercise or chapter that this name means."""
    if name is None and given is _NOTHING:
        step = next_step()
        if step is None:
            raise InvalidCall(
                'You have passed every exercise. check("softmax") tests one exercise again, check("ch03") a chapter.'
            )
        return step.exercise
    if isinstance(name, str):
        try:
            return course.find(name.strip())
        except UnknownName as problem:
            said = str(problem).replace("`headway list` lists them all", "`!headway list` lists them all")
            raise InvalidCall(said[:1].upper() + said[1:] + ("" if said.endswith("?") else ".")) from None
    if isinstance(given, str):
        raise InvalidCall(f'The name is the first argument: check("{given}", {_called(name, given)}).')
    raise InvalidCall(
        'The first argument must be the name of an exercise in quotes, as in check("softmax", '
        f"softmax); yours is {_a(name)}."
    )


def _own_name(given: Callable, course: Syllabus) -> str:
    """The exercise that has the name of this function or class."""
    name = getattr(given, "__name__", type(given).__name__)
    names = [exercise.name for exercise in course.exercises]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1)
    example = near[0] if near else "softmax"
    raise InvalidCall(
        f'No exercise is called {name}; give the name of the exercise: check("{example}", {_called(given, example)}).'
    )


def _validate_target(exercise: Exercise, given: Any, course: Syllabus) -> None:
    """Raise InvalidCall unless this can be an implementation of the exercise."""
    name = exercise.name
    if not callable(given):
        wanted = "class" if _is_class(exercise) else "function"
        raise InvalidCall(
            f"check needs the {wanted} itself, but this is {_a(given)}; pass it without calling it: "
            f'check("{name}", {name}).'
        )
    if _is_class(exercise) and type(given).__name__ == name:
        raise InvalidCall(f'check needs the class itself, but this is an object of it: check("{name}", {name}).')
    other = getattr(given, "__name__", "")
    if other != name and any(exercise.name == other for exercise in course.exercises):
        raise InvalidCall(f'{other} is another exercise; to test it: check("{other}", {other}).')


def _is_class(exercise: Exercise) -> bool:
    found = find_definition(reference_stub(exercise.module), exercise.name)
    return found is not None and any(line.startswith("class ") for line in found.text.splitlines())


def _called(thing: Any, otherwise: str) -> str:
    name = getattr(thing, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else otherwise


def _a(thing: Any) -> str:
    if thing is None:
        return "None"
    if inspect.ismodule(thing):
        return f"the module {thing.__name__}"
    kind = type(thing).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
