"""Implementations that a suite is tried on: the stub, the reference, known mistakes, variants, and trivial code."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

from grader.course.known_mistakes import bases, misconceptions, variants
from grader.course.source import SourceProblem, replace_definition
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from grader.execution.target import reference_of
from grader.verdict.replay import text_with_mistake

TRIVIAL_KINDS = ("none", "constant", "input", "zeros", "refuses")


@dataclass(frozen=True)
class Subject:
    kind: str  # stub, reference, mistake, variant, base, trivial; proofs have other kinds
    name: str
    text: str  # of the exercise's chapter
    true_names: tuple[str, ...] = ()  # of a base: the known mistakes that it has
    course: dict[str, str] = field(default_factory=dict)  # the text of every chapter, for code that uses no reference


def solution_of(exercise: Exercise) -> str:
    """The text of the reference's chapter. SourceProblem if there is no such chapter."""
    ours = reference_of(exercise.module)
    if ours is None:
        raise SourceProblem(f"there is no solution of {exercise.module}")
    return ours.text


def subjects(exercise: Exercise, tenth: int = 0) -> list[Subject]:
    """All subjects of an exercise; of the known mistakes one tenth, 1 to 10, if one is asked for. StaleEdit if a
    mistake's edit no longer fits."""
    solution, name = solution_of(exercise), exercise.name
    return [
        Subject("stub", "stub", reference_stub(exercise.module)),
        Subject("reference", "reference", solution),
        *(mistakes(exercise)[tenth - 1 :: 10] if tenth else mistakes(exercise)),
        *(Subject("variant", title, f"{solution}\n\n{text}") for title, text in variants(exercise.module, name)),
        *(Subject("base", base.name, replace_definition(solution, name, base.text), base.mistakes)
          for base in bases(exercise.module, name)[1:]),
        *(Subject("trivial", kind, trivial_code(solution, name, kind)) for kind in TRIVIAL_KINDS),
    ]  # fmt: skip


def mistakes(exercise: Exercise) -> list[Subject]:
    """The reference with each known mistake of the exercise. StaleEdit if an edit no longer fits."""
    known = misconceptions(exercise.module, exercise.name)
    return [Subject("mistake", mistake.id, text_with_mistake(exercise.module, mistake)) for mistake in known]


def trivial_code(text: str, exercise: str, kind: str) -> str:
    """The chapter with this exercise replaced: it returns None, a constant, its input or zeros, or raises ValueError.
    A context manager in the place of zeros changes nothing.

    A class keeps its __init__ (except when it is to raise): the names are right and nothing else is.
    """
    return f"{text}\n\n{inspect.getsource(_make_trivial)}\n\n_make_trivial(globals(), {exercise!r}, {kind!r})\n"


def _make_trivial(space, name, kind):
    import contextlib
    import functools
    import inspect

    import torch

    def zeros(value):
        if isinstance(value, torch.nn.Module):
            for parameter in value.parameters():
                torch.nn.init.zeros_(parameter)
            return value
        if isinstance(value, torch.Tensor):
            return value * 0 if value.is_floating_point() else torch.zeros_like(value)
        if isinstance(value, list | tuple):
            return type(value)(zeros(item) for item in value)
        if inspect.isgenerator(value):
            return map(zeros, value)
        if isinstance(value, contextlib.AbstractContextManager):
            return contextlib.nullcontext()
        return type(value)() if isinstance(value, bool | int | float | str | bytes | dict | set) else value

    def replaced(original, method):
        changes_its_arguments = inspect.signature(original).return_annotation in (None, "None")

        @functools.wraps(original)
        def answer(*args, **kwargs):
            arguments = [*args[1 if method else 0 :], *kwargs.values()]
            if kind == "refuses":
                raise ValueError("these arguments cannot work: " + ", ".join(map(str, arguments)))
            if kind == "zeros":
                return None if changes_its_arguments else zeros(original(*args, **kwargs))
            return {"none": None, "constant": torch.ones(2, 3), "input": arguments[0] if arguments else None}[kind]

        return answer

    thing = space[name]
    if not inspect.isclass(thing):
        space[name] = replaced(thing, False)
        return
    for attribute, value in list(vars(thing).items()):
        special = attribute == "__call__" or (kind, attribute) == ("refuses", "__init__")
        if isinstance(value, property):
            setattr(thing, attribute, property(replaced(value.fget, True)))
        elif inspect.isfunction(value) and (special or not attribute.startswith("_")):
            setattr(thing, attribute, replaced(value, True))
