"""Walks that run on the reference, once each: their numbers, their text, and which exercises ran."""

from __future__ import annotations

import functools
import io
import random
import re
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import hide_progress
from grader.course.syllabus import load_syllabus
from grader.teaching.walks import load, template_path
from grader.teaching.walks.guide import WalkPage, print_template, read_template, template_numbers
from grader.teaching.walks.parts import MixedChapters
from rich.cells import cell_len
from rich.console import Console

EXERCISES = {exercise.name for exercise in load_syllabus().exercises}


@dataclass(frozen=True)
class FinishedWalk:
    numbers: SimpleNamespace
    text: str
    ran: frozenset[str]  # the exercises whose code ran


@functools.cache
def run_once(name: str, seed: int = 0) -> FinishedWalk:
    walk = load(name)
    parts = MixedChapters(walk.REQUIRED_EXERCISES, ())
    ran: set[str] = set()

    def note_exercise(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").rpartition(".")[2].startswith("ch"):
            ran.add(frame.f_code.co_qualname.partition(".")[0])

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        random.seed(seed)
        torch.manual_seed(seed)
        sys.setprofile(note_exercise)
        threading.setprofile(note_exercise)  # of simulated ranks
        numbers = walk.measure(parts, seed, hide_progress)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        torch.set_num_threads(threads)
        parts.close()
    return FinishedWalk(numbers, printed_text(name, numbers), frozenset(ran & EXERCISES))


def printed_text(name: str, numbers: Any) -> str:
    """The text that a pipe would receive."""
    out = io.StringIO()
    page = WalkPage(Console(file=out, width=80, highlight=False, markup=False, emoji=False))
    print_template(page, read_template(template_path(name)), template_numbers(load(name), numbers))
    return out.getvalue()


def changed(numbers: SimpleNamespace, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(numbers), **values})


def check_walk(name: str) -> None:
    needs, run = load(name).REQUIRED_EXERCISES, run_once(name)
    assert sorted(needs) == sorted(run.ran)
    assert max(cell_len(line) for line in run.text.splitlines()) <= 80
    assert "\x1b" not in run.text and not re.search(r"\bnan\b", run.text)
    assert printed_text(name, run.numbers) == run.text
