"""Walks that run on the reference, once each: their numbers, their text, and which exercises ran."""

from __future__ import annotations

import functools
import io
import random
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from grader.course.syllabus import load_syllabus
from grader.teaching.walks import load, template_path
from grader.teaching.walks.guide import template_numbers
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import hide_progress
from grader.teaching.walks.template import print_template, read_template
from grader.teaching.walks.walk_page import WalkPage
from rich.cells import cell_len
from rich.console import Console


@dataclass(frozen=True)
class FinishedWalk:
    numbers: SimpleNamespace
    text: str
    ran: frozenset[str]  # the exercises whose code ran


@functools.cache
def run_once(name: str, seed: int = 0) -> FinishedWalk:
    walk = load(name)
    parts = Parts(walk.REQUIRED_EXERCISES, ())
    ran: set[str] = set()
    _noted(parts, ran)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        random.seed(seed)
        torch.manual_seed(seed)
        numbers = walk.measure(parts, seed, hide_progress)
    finally:
        torch.set_num_threads(threads)
        parts.close()
    return FinishedWalk(numbers, printed_text(name, numbers), frozenset(ran))


def printed_text(name: str, numbers: Any) -> str:
    """The text that a pipe would receive."""
    out = io.StringIO()
    page = WalkPage(Console(file=out, width=80, highlight=False, markup=False, emoji=False))
    print_template(page, read_template(template_path(name)), template_numbers(load(name), numbers))
    return out.getvalue()


def changed(numbers: SimpleNamespace, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(numbers), **values})


def check_required_exercises(name: str) -> None:
    needs = load(name).REQUIRED_EXERCISES
    assert len(needs) == len(set(needs))
    assert set(needs) == run_once(name).ran


def check_page(name: str) -> None:
    text = run_once(name).text
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text and not re.search(r"\bnan\b", text)
    assert printed_text(name, run_once(name).numbers) == text


def _noted(parts: Parts, ran: set[str]) -> None:
    """Make every exercise of the mixed chapters record that it is called."""
    for exercise in load_syllabus().exercises:
        try:
            chapter = parts.chapter(exercise.chapter)
        except KeyError:
            continue
        found = getattr(chapter, exercise.name)
        if isinstance(found, type):
            found.__init__ = _noting(found.__init__, exercise.name, ran)
            continue
        for module in (chapter, parts._package.module(f"{exercise.module}_reference")):
            setattr(module, exercise.name, _noting(found, exercise.name, ran))
        for later in vars(parts)["_mixed"].values():  # later chapters have imported it under their own name
            reference = parts._package.module(f"{later.__name__.rpartition('.')[2]}_reference")
            if vars(reference).get(exercise.name) is found:
                setattr(reference, exercise.name, _noting(found, exercise.name, ran))


def _noting(function, name: str, ran: set[str]):
    @functools.wraps(function)
    def noting(*args, **kwargs):
        ran.add(name)
        return function(*args, **kwargs)

    return noting
