"""`headway compare modern`: what each part of chapter 20 does to a small model, over several seeds.

All designs of one seed read the same batches and are measured on the same held-out stories, so their losses are
compared seed by seed. What is trained is used again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.comparison.training import Entry, earlier_record, settings_for
from grader.models.design import Design
from grader.models.own_parts import explaining_crashes
from grader.models.training import making
from grader.models.training.settings import Settings
from grader.models.training.trainer import NotANumber
from grader.teaching.walks.progress_line import ProgressReporter

USUAL = "mini"
CHANGES = ("qk_norm", "latent", "sink", "gated", "soft_cap=30", "predict=2", "muon", "wsd")
SEEDS, STEPS = 4, 300
STANDARD_ERRORS_95_PERCENT = 3.182  # Student's t with SEEDS - 1 = 3 degrees of freedom
FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Row:
    """One design, trained with every seed."""

    word: str
    losses: list[float]  # held-out, by seed
    parameters: int  # in training
    cache_bytes: int  # a token


@dataclass(frozen=True)
class Difference:
    """How far a design's loss is from the usual model's: the mean over the seeds, and half the interval's width."""

    mean: float
    half: float

    @property
    def says(self) -> str:
        if abs(self.mean) <= self.half:
            return "nothing"
        return "better" if self.mean < 0 else "worse"


def difference(usual: Sequence[float], other: Sequence[float]) -> Difference:
    pairs = [theirs - ours for ours, theirs in zip(usual, other, strict=True)]
    return Difference(mean(pairs), STANDARD_ERRORS_95_PERCENT * stdev(pairs) / math.sqrt(len(pairs)))


def train_all(
    steps: int, text: Path | None, first_seed: int, device: str, report_progress: ProgressReporter
) -> list[Row]:
    """The usual model and each change, after training what is not trained yet. CodeProblem or
    CheckpointProblem if a training fails."""
    records: dict[str, list[dict[str, Any]]] = {change: [] for change in ("", *CHANGES)}
    for seed in range(first_seed, first_seed + SEEDS):
        base = Settings(size=USUAL, text=text, seed=seed)
        for change, found in records.items():
            word = ",".join(filter(None, (USUAL, change)))
            found.append(_train(Entry(word, settings_for(word, base)), steps, device, report_progress))
    return [_row(change or "usual", found) for change, found in records.items()]


def _train(entry: Entry, steps: int, device: str, report_progress: ProgressReporter) -> dict[str, Any]:
    """What the checkpoint of this design and seed says, after training if it is not there."""
    record = earlier_record(entry, steps, None)
    if not (record and record["finished"]):
        settings = replace(entry.settings, steps=steps)
        shutil.rmtree(entry.folder, ignore_errors=True)
        training = making.begin(settings, entry.folder.name, device, report_progress)
        try:
            with closing(training), explaining_crashes(training.own.parts, NotANumber):
                with report_progress(f"training {entry.folder.name}", steps) as step:
                    for _ in range(steps):
                        training.trainer.step(steps)
                        step()
                training.trainer.validate()
                training.save()
        except NotANumber as problem:
            raise CheckpointProblem(f"{entry.word} cannot be compared: {problem}") from None
    return checkpoint.read_record(entry.folder)


def _row(word: str, records: Sequence[dict[str, Any]]) -> Row:
    losses = [each["record"]["history"]["validation"][-1][1] for each in records]
    design = Design.from_data(records[0]["design"])
    return Row(word, losses, records[0]["record"]["parameters"], FLOAT32_BYTES * design.cached_numbers)


# ---- the table


COLUMNS = ("", "loss", "change", "95 % interval", "parameters", "cache", "shown")


def table_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The cells of each row: its loss, and how far that is from the first row's, the usual model's."""
    cells = []
    for row in rows:
        found, sizes = difference(rows[0].losses, row.losses), [f"{row.parameters:,}", f"{row.cache_bytes:,}"]
        interval = f"{found.mean - found.half:+.3f} to {found.mean + found.half:+.3f}"
        compared = ["", "", *sizes, ""] if row is rows[0] else [f"{found.mean:+.3f}", interval, *sizes, found.says]
        cells.append([row.word, f"{mean(row.losses):.3f}", *compared])
    return cells


def conclusions(rows: Sequence[Row]) -> list[str]:
    """How to read the table, and what it cannot say."""
    losses = rows[0].losses
    return [
        f"The loss is held-out, in nats a token, the mean over {len(losses)} seeds; for the usual model it is from "
        f"{min(losses):.3f} to {max(losses):.3f}. The change is measured seed by seed, on the same batches. The cache "
        "is in bytes a token.",
        "Where nothing is shown, the interval includes 0: the part does nothing here that these seeds could show. "
        "Larger models, longer trainings or more seeds may show more.",
        f"Of {len(rows) - 1} such intervals, one in twenty misses the true change by accident. All learning rates are "
        "those of the usual model, except for Muon's.",
        "The parameters of predict=2 include the second head, which is for training only.",
    ]
