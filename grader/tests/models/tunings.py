"""Small tunings for the tests: tiny models with random weights, few questions, and everything else as in `headway tune`."""

from __future__ import annotations

from grader.chapters.ch17_fine_tuning.tuning import base, evaluation, tasks, tuning_run, tuning_steps
from grader.console.output import hide_progress
from trainings import Silent


class Tunings:
    """Begins and resumes tunings in the folder of these trainings, with their parts."""

    def __init__(self, monkeypatch, trainings) -> None:
        self.folder, self.chapters = trainings.folder, trainings.chapters
        self._made: list[base.Base] = []
        monkeypatch.setattr(evaluation, "HELD_OUT_QUESTIONS", 4)
        monkeypatch.setattr(tuning_steps, "BATCH_ROWS", 3)
        for kind in tasks.TASKS.values():
            for task in kind.values():
                for name, value in (("most_tokens", 6), ("prompts", 2), ("group", 3)):
                    monkeypatch.setattr(type(task), name, value)

    def open(self, place: str) -> base.Base:
        self._made.append(base.open_base(place, hide_progress))
        return self._made[-1]

    def begin(self, place: str, name: str = "one", task: str = "format", n_steps: int = 3) -> tuning_run.Tuning:
        return tuning_run.begin(self.open(place), task, name, 0, 1.0, n_steps)

    def resume(self, name: str = "one") -> tuning_run.Tuning:
        tuning = tuning_run.resume(name, hide_progress)
        self._made.append(tuning.base)
        return tuning

    def finished(self, tuning: tuning_run.Tuning) -> tuning_run.Tuning:
        assert tuning_run.run(tuning, Silent())
        return tuning

    def close(self) -> None:
        for each in self._made:
            each.own.close()


def stop_after(tuning: tuning_run.Tuning, phase: str, count: int):
    """Control-C after so many steps of this phase, once its predecessors are over."""
    return lambda: tuning.progress.phase == phase and tuning.progress.steps_done(phase) >= count
