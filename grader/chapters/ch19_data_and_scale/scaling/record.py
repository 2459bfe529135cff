"""What is trained already: checkpoints/scale/minutes-15-seed-0.json, replaced as a whole after each training."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean

from grader.chapters.ch19_data_and_scale.scaling.plan import Run, ScaleProblem
from grader.course.status import short_path
from grader.files import write_whole
from grader.models import checkpoint
from grader.models.file_values import ValueProblem, check, finite, list_of, number, pair, positive, table, whole

TRAINED = {
    "budget": positive(1e30), "parameters": whole(1, 1 << 40), "seed": whole(0, 1 << 32), "tokens": whole(1, 1 << 60),
    "loss": finite(), "seconds": number(0, 1e12),
}  # fmt: skip
VALUES = {
    "first": positive(1e30), "speed": pair(number(0, 1e6), number(0, 1e6)), "trained": list_of(table(TRAINED), 1000),
}  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """The result of one training."""

    budget: float
    parameters: int
    seed: int
    tokens: int
    loss: float  # held-out, in nats a token
    seconds: float


@dataclass
class Record:
    path: Path
    first: float  # the smallest budget
    speed: tuple[float, float]
    trained: list[Trained] = field(default_factory=list)

    def find(self, run: Run) -> Trained | None:
        wanted = (run.budget, run.size.parameters, run.seed)
        return next((one for one in self.trained if (one.budget, one.parameters, one.seed) == wanted), None)

    def find_all(self, runs: list[Run]) -> list[Trained]:
        return [trained for run in runs if (trained := self.find(run))]

    def find_mean(self, runs: list[Run]) -> Trained:
        """The same training with several seeds, as one: the means of their tokens and losses."""
        found = self.find_all(runs)
        tokens, loss = round(mean(one.tokens for one in found)), mean(one.loss for one in found)
        return replace(found[0], tokens=tokens, loss=loss, seconds=sum(one.seconds for one in found))

    def save(self) -> None:
        data = {"first": self.first, "speed": self.speed, "trained": list(map(asdict, self.trained))}
        write_whole(self.path, json.dumps(data, indent=1) + "\n")


def path_of(minutes: float, seed: int) -> Path:
    return checkpoint.CHECKPOINTS / "scale" / f"minutes-{minutes:g}-seed-{seed}.json"


def read(path: Path) -> Record | None:
    """The record in this file; None if there is none. ScaleProblem if it is damaged."""
    if not path.exists():
        return None
    again = "delete it, and the experiment begins again"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ScaleProblem(f"{short_path(path)} is damaged; {again}") from None
    try:
        check({"record": data}, {"record": table(VALUES)}, short_path(path), [f"record.{name}" for name in VALUES])
    except ValueProblem as problem:
        raise ScaleProblem(f"{problem}; {again}") from None
    a_token, a_flop = data["speed"]
    trained = [Trained(**{name: each[name] for name in TRAINED}) for each in data["trained"]]
    return Record(path, data["first"], (a_token, a_flop), trained)
