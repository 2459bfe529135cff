"""Small tunings for the tests: tiny models with random weights, few questions, and everything else as in `headway tune`."""

from __future__ import annotations

from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.models import checkpoint
from grader.models.own_parts import OwnParts
from grader.models.tuning import base, evaluation, run, steps, tasks
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import hide_progress


class Quiet:
    """A page that keeps what it is shown in lines."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def update(self, view) -> None: ...

    def moment(self, view) -> None:
        self.said.append(view.describe())

    def close(self, view) -> None: ...


class Tunings:
    """Begins and resumes tunings in a folder, with the reference's parts or those of some chapters."""

    def __init__(self, monkeypatch, folder) -> None:
        self.folder, self.chapters = folder, {}
        self._made: list[base.Base] = []
        monkeypatch.setattr(checkpoint, "CHECKPOINTS", folder)
        monkeypatch.setattr(checkpoint.list_checkpoints, "__defaults__", (folder,))
        monkeypatch.setattr(base, "find_own_parts", self._own)
        monkeypatch.setattr(evaluation, "HELD_OUT", 4)
        monkeypatch.setattr(steps, "ROWS", 3)
        for kind in tasks.TASKS.values():
            for task in kind.values():
                for name, value in (("most_tokens", 6), ("prompts", 2), ("group", 3)):
                    monkeypatch.setattr(type(task), name, value)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def _own(self, names, report_progress) -> OwnParts:
        names = list(dict.fromkeys(names))
        passed = {name for name in names if load_syllabus().exercise(name).module in self.chapters}
        return OwnParts(Parts(names, passed, Target("theirs", texts=self.chapters)))

    def open(self, place: str) -> base.Base:
        self._made.append(base.open_base(place, hide_progress))
        return self._made[-1]

    def begin(self, place: str, name: str = "one", task: str = "format", n_steps: int = 3) -> run.Tuning:
        return run.begin(self.open(place), task, name, 0, 1.0, n_steps)

    def resume(self, name: str = "one") -> run.Tuning:
        tuning = run.resume(name, hide_progress)
        self._made.append(tuning.base)
        return tuning

    def finished(self, tuning: run.Tuning) -> run.Tuning:
        assert run.run(tuning, Quiet())
        return tuning

    def close(self) -> None:
        for each in self._made:
            each.own.close()


def stop_after(tuning: run.Tuning, phase: str, count: int):
    """Control-C after so many steps of this phase, once its predecessors are over."""
    return lambda: tuning.progress.phase == phase and tuning.progress.steps_done(phase) >= count
