"""What a run of the capstone has measured: `checkpoints/NAME/capstone.json`, replaced as a whole.

The record of a finished run is a row of `headway capstone --compare`, here and in other folders.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from grader.chapters.ch17_fine_tuning.tuning.evaluation import Evaluation, has_learned, wilson_interval
from grader.files import UserProblem, problem, short_path, write_whole
from grader.models import checkpoint
from grader.models import file_values as kinds
from grader.models.file_values import list_of, named, number, whole

FILE = "capstone.json"
MODELS = UNTRAINED, PRETRAINED, TUNED = ("untrained", "pretrained", "tuned")
TESTS = ("before", "answers", "rewards")
RESAMPLES = 2000
_COUNTS = list_of(whole(1, 1 << 40), 10_000)
VALUES = {
    "seed": whole(0, 2**31 - 1), "minutes": kinds.positive(), "steps": kinds.optional(whole(1, 1_000_000)),
    "spent": named(kinds.pair(number(0, 1e12), number(0, 1e12))), "learner": list_of(kinds.string(), 1000),
    "reference": list_of(kinds.string(), 1000), "changed": list_of(kinds.string(), 1000),
    "nats": named(list_of(kinds.finite(), 10_000)), "tokens": _COUNTS, "characters": _COUNTS,
    "right": named(list_of(kinds.yes_or_no(), 10_000)),
}  # fmt: skip

Interval = tuple[float, float, float]  # a mean or a share, and the limits around it


class CapstoneProblem(UserProblem):
    """The run cannot begin or go on, or a file of one cannot be used; the message is a sentence."""

    exit_status = 1


def bootstrap(values: Sequence[float], weights: Sequence[float]) -> Interval:
    """The sum of the values over the sum of the weights, one of each for a text; and where it is in 95 of 100
    resamplings of the texts."""
    both = torch.tensor([list(values), list(weights)], dtype=torch.float64)  # (2, n)
    drawn = torch.randint(len(values), (RESAMPLES, len(values)), generator=torch.Generator().manual_seed(0))
    sums = both[:, drawn].sum(-1)  # (2, RESAMPLES)
    low, high = (sums[0] / sums[1]).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return float(both[0].sum() / both[1].sum()), low, high


@dataclass
class Record:
    name: str  # of its folder
    seed: int
    minutes: float
    steps: int | None  # of the pretraining, and of each phase of the tuning, instead of minutes
    spent: dict[str, tuple[float, float]] = field(default_factory=dict)  # of each stage: seconds, and of processor time
    learner: list[str] = field(default_factory=list)  # parts of the last sitting
    reference: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)  # parts that were not the same person's in all sittings
    nats: dict[str, list[float]] = field(default_factory=dict)  # of each of MODELS: the loss of each held-out story
    tokens: list[int] = field(default_factory=list)  # of these stories
    characters: list[int] = field(default_factory=list)
    right: dict[str, list[bool]] = field(default_factory=dict)  # of each of TESTS; empty until the run is finished

    @property
    def folder(self) -> Path:
        return checkpoint.CHECKPOINTS / self.name

    @property
    def seconds(self) -> float:
        return sum(seconds for seconds, _ in self.spent.values())

    def save(self) -> None:
        data = {name: value for name, value in asdict(self).items() if name in VALUES}
        write_whole(self.folder / FILE, json.dumps(data) + "\n")

    def loss(self, model: str) -> Interval:
        """In nats a token."""
        return bootstrap(self.nats[model], self.tokens)

    def bits(self, model: str) -> Interval:
        """Bits a character: a loss that does not depend on the tokenizer."""
        return bootstrap([nats / math.log(2) for nats in self.nats[model]], self.characters)

    def share(self, test: str) -> Interval:
        """The share of right answers."""
        right = self.right[test]
        return sum(right) / len(right), *wilson_interval(sum(right), len(right))


def read(path: Path) -> Record:
    """CapstoneProblem if the file is missing, damaged or something else."""
    where, wrong = short_path(path), "so it is damaged, or it is not a record of `headway capstone`"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kinds.check({"it": data}, {"it": kinds.table(VALUES)}, where, [f"it.{name}" for name in VALUES])
    except OSError as error:
        raise CapstoneProblem(problem(error, f"read {where}")) from None
    except kinds.ValueProblem as trouble:
        raise CapstoneProblem(f"{trouble}, {wrong}") from None
    except (ValueError, RecursionError):
        raise CapstoneProblem(f"{where} is not JSON, {wrong}") from None
    record = Record(path.parent.name, **{name: data[name] for name in VALUES})
    lengths = {len(record.tokens), len(record.characters), *map(len, record.nats.values())}
    complete = record.tokens and {*MODELS, *TESTS} <= {*record.nats, *(t for t in record.right if record.right[t])}
    if len(lengths) > 1 or record.right and not complete:
        raise CapstoneProblem(f"the lists of {where} do not fit together, {wrong}")
    return record


def list_files() -> list[Path]:
    """Those of this folder, the newest first."""
    return sorted(checkpoint.CHECKPOINTS.glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)


def find(name: str | None) -> Record:
    """The run of this name; without a name the latest that is not finished, or else the latest. CapstoneProblem if
    there is none."""
    files = [path for path in list_files() if name in (None, path.parent.name)]
    if not files:
        known = ", ".join(path.parent.name for path in list_files())
        advice = f"you have {known}" if known else "`headway capstone` makes one"
        raise CapstoneProblem(f"there is no capstone {'yet' if name is None else repr(name)}; {advice}")
    return next((record for record in map(read, files) if not record.right), None) or read(files[0])


# ---- rows of several runs


def read_rows(paths: Sequence[Path]) -> tuple[dict[str, Record], list[str]]:
    """The finished runs of this folder, and those in the given files and folders, by what they are called; and a
    sentence for each file that is left out."""
    files = {path.resolve(): path for path in list_files()}
    own = set(files)
    for path in paths:
        inside = sorted({*path.glob("*.json"), *path.rglob(FILE)}) if path.is_dir() else [path]
        files |= {one.resolve(): one for one in inside if one.resolve() not in files}
    rows: dict[str, Record] = {}
    left_out = []
    for place, path in files.items():
        try:
            record = read(path)
            name = path.parent.name if path.name == FILE else path.stem
            if record.right:
                rows[short_path(path) if name in rows else name] = record
            elif place not in own:
                left_out.append(f"{short_path(path)} is of a run that is not finished")
        except CapstoneProblem as trouble:
            left_out.append(str(trouble))
    return rows, left_out


def describe_rows(rows: dict[str, Record]) -> Iterator[str]:
    """Which run is best, and which differences from it may be chance: on the stories, resampled in pairs, and on the
    questions that both were asked."""
    texts = next(iter(rows.values())).characters
    alike = {name: record for name, record in rows.items() if record.characters == texts}
    best = min(alike, key=lambda name: alike[name].bits(PRETRAINED)[0])
    pairs = {name: zip(record.nats[PRETRAINED], alike[best].nats[PRETRAINED]) for name, record in alike.items()}
    chance = [name for name, both in pairs.items() if bootstrap([b - a for b, a in both], texts)[1] <= 0]
    yield f"{best} predicts the held-out stories best.{_describe_chance(best, chance)}"
    if others := rows.keys() - alike:
        yield f"Measured on other stories, so not compared there: {', '.join(sorted(others))}."
    best = max(rows, key=lambda name: rows[name].share(TESTS[-1])[0])
    right = {name: Evaluation(record.right[TESTS[-1]], []) for name, record in rows.items()}
    chance = [name for name in rows if not has_learned(*_on_same_questions(right[name], right[best]))]
    yield f"{best} has the largest share of right answers after the rewards.{_describe_chance(best, chance)}"


def _on_same_questions(*both: Evaluation) -> list[Evaluation]:
    asked = min(len(one.right) for one in both)  # every run is asked the same ones in the same order
    return [Evaluation(one.right[:asked], []) for one in both]


def _describe_chance(best: str, names: list[str]) -> str:
    others = ", ".join(name for name in names if name != best)
    return f" The difference from {others} may be chance." if others else ""
