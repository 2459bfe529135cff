"""`check`, `hint` and `repro` as a learner calls them: they validate the arguments, and reply to wrong ones with a sentence."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from grader.course.hints import reveal_hint
from grader.course.source import SourceProblem, find_definition
from grader.course.status import read_course
from grader.course.stubs import reference_stub
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName
from grader.notebook.answers import Answer, code_answer, hint_answer, sentence_answer, verdict_answer

_NOTHING: Any = object()


class InvalidCall(Exception):
    """The arguments cannot be used; the message is one sentence."""


def check(name: Any = None, given: Any = _NOTHING) -> Answer:
    """Test a function or class of this notebook: `check("softmax", softmax)`. The answer is true when all of it passes.

    `check("softmax")` tests the code in exercises/, as `headway check softmax` does, and `check("ch03")` tests a chapter of it.
    Only these are recorded in exercises/progress.txt; code of a notebook is tested but not recorded.
    """
    try:
        course = read_course()
        if given is _NOTHING and callable(name):  # check(softmax)
            name, given = _own_name(name, course), name
        found = _found(name, given, course)
        if given is _NOTHING:
            return _checked(found, None)
        if not isinstance(found, Exercise):
            example = found.exercises[0].name
            raise InvalidCall(f'{found.id} is a chapter; give the name of one exercise with an object: check("{example}", {example}).')
        _validate_target(found, given, course)
        return _checked(found, given)
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))


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
            raise InvalidCall(f'The level must be a number from 1 to {len(exercise.hints)}: hint("{exercise.name}", 1).')
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))
    shown = reveal_hint(exercise, level)
    return hint_answer(shown) if shown else sentence_answer(f"{exercise.name} has no hints.")


def repro(name: Any = None) -> Answer:
    """The call of the last failure in this notebook, of any exercise or of one, as code. In a notebook it replaces the text of the cell that asks for it."""
    from grader.reproduction.files import CELLS, FOLDER, last_script, stored_script

    try:
        course = read_course()
        if callable(name):
            name = _own_name(name, course)
        exercise = None if name is None else _found(name, _NOTHING, course)
        if isinstance(exercise, Chapter):
            raise InvalidCall(f'Give the name of an exercise, not of a chapter: repro("{exercise.exercises[0].name}").')
        stored = stored_script(exercise.name, FOLDER / CELLS) if exercise else last_script(FOLDER / CELLS)
        if stored is None and exercise and stored_script(exercise.name):
            raise InvalidCall(f"{exercise.name} has failed in exercises/{exercise.module}.py only; to run that call again: `!headway repro {exercise.name}`")
        if stored is None:
            example = exercise.name if exercise else "softmax"
            raise InvalidCall(f'There is no failed check{f" of {example}" if exercise else ""} to run again; to check it: `check("{example}", {example})`')
        text = stored.path.read_text(encoding="utf-8")
    except (InvalidCall, SourceProblem, UnknownName) as problem:
        return sentence_answer(str(problem))
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.set_next_input(text, replace=True)
    return code_answer(text)


def _checked(found: Exercise | Chapter, given: Any) -> Answer:
    from grader.notebook.cell_source import read
    from grader.notebook.running import NotRun, run

    try:
        read_of_it = read(found, given) if isinstance(found, Exercise) and given is not None else None
        return verdict_answer(run(found, read_of_it), found, read_of_it)
    except NotRun as problem:
        return sentence_answer(str(problem))


def _found(name: Any, given: Any, course: Syllabus) -> Exercise | Chapter:
    """The exercise or chapter that this name means."""
    if name is None and given is _NOTHING:
        from grader.course.status import next_step

        step = next_step()
        if step is None:
            raise InvalidCall('You have passed every exercise. check("softmax") tests one exercise again, check("ch03") a chapter.')
        return step.exercise
    if isinstance(name, str):
        try:
            return course.find(name.strip())
        except UnknownName as problem:
            said = str(problem).replace("`headway list` lists them all", "`!headway list` lists them all")
            raise InvalidCall(said[:1].upper() + said[1:] + ("" if said.endswith("?") else ".")) from None
    if isinstance(given, str):
        raise InvalidCall(f'The name is the first argument: check("{given}", {_called(name, given)}).')
    raise InvalidCall(f'The first argument must be the name of an exercise in quotes, as in check("softmax", softmax); yours is {_a(name)}.')


def _own_name(given: Callable, course: Syllabus) -> str:
    """The exercise that has the name of this function or class."""
    name = getattr(given, "__name__", type(given).__name__)
    names = [exercise.name for exercise in course.exercises]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1)
    example = near[0] if near else "softmax"
    raise InvalidCall(f'No exercise is called {name}; give the name of the exercise: check("{example}", {_called(given, example)}).')


def _validate_target(exercise: Exercise, given: Any, course: Syllabus) -> None:
    """Raise InvalidCall unless this can be an implementation of the exercise."""
    name = exercise.name
    if not callable(given):
        wanted = "class" if _is_class(exercise) else "function"
        raise InvalidCall(f'check needs the {wanted} itself, but this is {_a(given)}; pass it without calling it: check("{name}", {name}).')
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
