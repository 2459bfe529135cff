"""What is trained already: checkpoints/scale/minutes-15-seed-0.json, replaced as a whole after each training."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grader.files import write_whole
from grader.models import checkpoint
from grader.models.scaling.plan import Run, ScaleProblem, Speed


@dataclass(frozen=True)
class Trained:
    """The result of one training."""

    budget: float
    parameters: int
    seed: int
    tokens: int
    loss: float  # held-out, in nats a token
    seconds: float

    def is_of(self, run: Run) -> bool:
        return (self.budget, self.parameters, self.seed) == (run.budget, run.size.parameters, run.seed)


@dataclass
class Record:
    path: Path
    minutes: float
    seed: int
    first: float  # the smallest budget
    speed: Speed
    trained: list[Trained] = field(default_factory=list)

    def find(self, run: Run) -> Trained | None:
        return next((trained for trained in self.trained if trained.is_of(run)), None)

    def of_seed(self, budget: float) -> list[Trained]:
        """What was trained at this budget with the experiment's own seed, in the order of the plan."""
        return [trained for trained in self.trained if trained.budget == budget and trained.seed == self.seed]

    @property
    def seconds(self) -> float:
        return sum(trained.seconds for trained in self.trained)

    def save(self) -> None:
        write_whole(self.path, json.dumps(asdict(self) | {"path": self.path.name}, indent=1) + "\n")


def path_of(minutes: float, seed: int) -> Path:
    return checkpoint.CHECKPOINTS / "scale" / f"minutes-{minutes:g}-seed-{seed}.json"


def read(path: Path) -> Record | None:
    """The record in this file; None if there is none. ScaleProblem if it is damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        trained = [Trained(**each) for each in data.pop("trained")]
        return Record(**data | {"path": path, "speed": Speed(**data["speed"]), "trained": trained})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ScaleProblem(f"{path.name} is damaged; delete {path}, and the experiment begins again") from None
