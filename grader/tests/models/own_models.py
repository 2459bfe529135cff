"""Small models for the tests of this folder, made of the reference's parts or of a course in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from grader.course.source import read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.target import Target
from grader.models.design import Design
from grader.models.own_parts import BPE, SAMPLING, TRAINING, WORDS, OwnParts, model_exercises
from grader.teaching.walks.parts import MixedChapters

TINY = dict(d_model=16, n_heads=2, n_layers=2, max_len=24)
GPT, MOE = Design(**TINY), Design(kind="moe", d_ff=16, **TINY)
TRANSLATOR = Design(kind="translate", positions="sinusoidal", norm="post", **TINY)
TEXTS = ("Mia had a red ball. The ball rolled away!", 'A dog saw it. "I can help," said the dog.', "The dog liked Mia.")


def exercises_of(*designs: Design) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*WORDS, *BPE, *TRAINING, *SAMPLING, *(name for design in designs for name in model_exercises(design)))))


@contextlib.contextmanager
def parts_of(*designs: Design, passed: set[str] | None = None, **chapters: str) -> Iterator[MixedChapters]:
    """Parts with these chapters as the learner's; `passed` are those that count as passing, all if it is left out."""
    names = exercises_of(*designs)
    learner = Target("theirs", texts=chapters)
    written = {name for name in names if passed is None or name in passed} if chapters else set()
    if chapters:
        written = {name for name in written if load_syllabus().exercise(name).module in chapters}
    made = MixedChapters(names, written, learner)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def own_parts_of(*designs: Design, **chapters: str) -> Iterator[OwnParts]:
    with parts_of(*designs, **chapters) as parts:
        yield OwnParts(parts)


def solved(module: str, *edits: tuple[str, str]) -> str:
    """The reference's chapter with these edits, as a learner's text."""
    text = read_source(SOLUTIONS / f"{module}.py")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
