"""Small trainings for the tests: the presets are replaced by tiny sizes, and everything else is as in `headway train`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from grader.chapters.ch17_fine_tuning.tuning import base
from grader.console.output import hide_progress
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.models import checkpoint, design
from grader.models.comparison import measuring
from grader.models.design import Design
from grader.models.own_parts import OwnParts
from grader.models.training import corpora, recipes, training_run
from grader.models.training.recipes import Recipe, Settings
from grader.teaching.walks.parts import MixedChapters

SUNG = ("fish", "snow", "stars", "bread", "wind", "light", "birds", "gold")
VERSE = "The river runs to the sea. A boat goes down the river, and a man sings.\n\nHe sings of {} and {}, and a boat goes by.\n\n"
SMALL = Design(d_model=16, n_heads=2, n_layers=1, max_len=32)


class Silent:
    """A page that shows nothing."""

    def update(self, view) -> None: ...

    def moment(self, view) -> None:
        view.describe()

    def close(self, view) -> None: ...


class Trainings:
    """Begins and resumes trainings in a folder, with the reference's parts or those of some chapters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder, self.chapters = folder, {}
        self._made: list[training_run.Training] = []
        monkeypatch.setattr(checkpoint, "CHECKPOINTS", folder)
        monkeypatch.setitem(design.PRESETS, "tiny", SMALL)
        monkeypatch.setitem(recipes.RECIPES, "tiny", Recipe(rows=4, pieces=2, peak=3e-3))
        monkeypatch.setattr(recipes, "TRANSLATE_RECIPE", Recipe(rows=6, pieces=2, peak=3e-3))
        monkeypatch.setattr(training_run, "find_own_parts", self._own)
        monkeypatch.setattr(measuring, "find_own_parts", self._own)
        monkeypatch.setattr(base, "find_own_parts", self._own)
        for name, size in (("VOCABULARY_STORIES", 300), ("VALIDATION_STORIES", 8), ("BPE_SAMPLE", 3000), ("VALIDATION_TOKENS", 400)):
            monkeypatch.setattr(corpora, name, size)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # more threads slow small models down on a busy machine

    def _own(self, names, report_progress) -> OwnParts:
        names = list(dict.fromkeys(names))
        passed = {name for name in names if load_syllabus().exercise(name).module in self.chapters}
        return OwnParts(MixedChapters(names, passed, Target("theirs", texts=self.chapters)))

    def begin(self, name: str = "one", more_exercises=(), **changes) -> training_run.Training:
        self._made.append(training_run.begin(replace(Settings(steps=8), **changes), name, "cpu", hide_progress, more_exercises))
        return self._made[-1]

    def resume(self, name: str = "one") -> training_run.Training:
        self._made.append(training_run.resume(self.folder / name, "cpu", hide_progress))
        return self._made[-1]

    def close(self) -> None:
        for training in self._made:
            training.close()


@contextlib.contextmanager
def small_trainings(folder: Path) -> Iterator[Trainings]:
    deterministic, threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        made = Trainings(patch, folder)
        yield made
        made.close()
    torch.set_deterministic_debug_mode(deterministic)
    torch.set_num_threads(threads)


def write_text(path: Path) -> Path:
    path.write_text("".join(VERSE.format(one, two) for one in SUNG for two in SUNG), encoding="utf-8")
    return path


def stop_after(training: training_run.Training, steps: int):
    return lambda: training.trainer.steps_done >= steps
