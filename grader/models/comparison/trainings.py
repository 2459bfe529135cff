"""Trains what is compared, for the same number of steps on the same text. What is trained is used again.

A word such as `rope`, `heads=1` or `moe` is a design: what it changes in a training. Several changes are one word with
commas: `rope,heads=1`. `headway compare modern` trains each part of chapter 20 in a small model: all designs of one
seed read the same batches and are measured on the same held-out stories, so losses are compared seed by seed.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.checkpoint import MEASURED, RESUMED, CheckpointProblem
from grader.models.design import ATTENTIONS, NORMS, POSITIONS, PRESETS, Design, DesignProblem
from grader.models.own_parts import explaining_crashes
from grader.models.training import training_run
from grader.models.training.corpora import fingerprint_of_text, read_paragraphs
from grader.models.training.recipes import MINUTES, Recipe, Settings
from grader.models.training.trainer import NotANumber

PREFIX = "compare-"
WHOLE_NUMBERS = {  # name in a word -> (field of Settings, smallest, largest)
    "heads": ("heads", 1, 1024),
    "layers": ("layers", 1, 100),
    "batch": ("rows", 1, 1024),
    "warmup": ("warmup", 0, 100_000),
    "predict": ("predict_tokens", 1, 16),
}
DECIMALS = ("dropout", "soft_cap")
FIELDS = {
    "positions": POSITIONS, "norm": NORMS, "kind": ("gpt", "moe"), "tokens": ("words", "bpe"), "size": PRESETS,
    "attention": ATTENTIONS, "optimizer": ("adamw", "muon"), "schedule": ("cosine", "wsd"),
}  # fmt: skip
WORDS = {word: (field, word) for field, words in FIELDS.items() for word in words} | {"dense": ("kind", "gpt")}
EXAMPLES = (
    "learned, sinusoidal, rope, alibi, pre, post, dense, moe, heads=1, layers=2, dropout=0.1, batch=8, warmup=0, "
    "words, bpe, mini, tiny, small, qk_norm, latent, sink, gated, soft_cap=30, predict=2, muon, wsd"
)


# ---- designs


@dataclass(frozen=True)
class Entry:
    """One of the two designs: the word that the user typed, and its training without a number of steps."""

    word: str
    settings: Settings

    @property
    def folder(self) -> Path:
        text = f"-{self.settings.text.stem}" if self.settings.text else ""
        seed = f"-seed-{self.settings.seed}" if self.settings.seed else ""
        allowed = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{self.word.lower()}{text}{seed}")
        return checkpoint.CHECKPOINTS / (PREFIX + allowed[:60])


def is_design(word: str) -> bool:
    """Whether every part of the word is a change of the design, possible or not."""
    numbers = tuple(f"{name}=" for name in (*WHOLE_NUMBERS, *DECIMALS))
    return all(part in WORDS or part.startswith(numbers) for part in word.lower().split(","))


def nearest_word(word: str, checkpoints: Iterable[str]) -> str | None:
    """The checkpoint or the design that is written most like this word."""
    return next(iter(get_close_matches(word, [*checkpoints, *WORDS], n=1)), None)


def settings_for(word: str, base: Settings) -> Settings:
    """The base with the changes that the word names. DesignProblem if a value is not possible."""
    changes: dict[str, Any] = {}
    for part in word.lower().split(","):
        field, value = WORDS[part] if part in WORDS else _read_number(*part.split("=", 1))
        if changes.get(field, value) != value:
            raise DesignProblem(f"{word} says two different things about {field}; keep one of them")
        changes[field] = value
    settings = replace(base, **changes)
    settings.design()  # raises DesignProblem where the choices do not fit together
    return settings


def _read_number(name: str, value: str) -> tuple[str, int | float]:
    """The field of Settings, and its value."""
    if name == "dropout":
        if not re.fullmatch(r"0(\.[0-9]{1,9})?", value):
            raise DesignProblem(f"dropout is a number from 0 up to but not including 1, such as 0.1, not {value!r}")
        return name, float(value)
    if name == "soft_cap":
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            raise DesignProblem(f"soft_cap is a number above 0, such as 30, not {value!r}")
        return name, float(value)
    field, smallest, largest = WHOLE_NUMBERS[name]
    if not (re.fullmatch(r"[0-9]{1,9}", value) and smallest <= int(value) <= largest):
        raise DesignProblem(f"{name} is a whole number from {smallest} to {largest}, not {value!r}")
    return field, int(value)


def entries_of(words: tuple[str, str], base: Settings) -> tuple[Entry, Entry]:
    """The two designs. DesignProblem if one is not possible, or if they are the same."""
    one, other = (Entry(word, settings_for(word, base)) for word in words)
    if _essentials(one.settings) == _essentials(other.settings):
        raise DesignProblem(
            f"{one.word} and {other.word} are the same design: each word changes one thing of the "
            "usual model; try `headway compare learned rope`"
        )
    return one, other


def _essentials(settings: Settings) -> tuple[Any, ...]:
    return settings.design(), settings.token_kind(), settings.recipe()


# ---- training


def train_pair(
    entries: tuple[Entry, Entry],
    steps: int | None,
    minutes: float | None,
    train: Callable[[training_run.Training], bool],
    device: str,
    report_progress: ProgressReporter,
) -> tuple[Path, Path] | None:
    """The checkpoints of both designs; None if a training did not reach its end. `train` trains what is not trained
    yet, and returns whether it reached the end."""
    records = [earlier_record(entry, steps, minutes) for entry in entries]
    planned = steps or next((record["steps"] for record in records if record), None)
    minutes = next(
        (record["minutes"] for record in records if record),
        None if steps else minutes or MINUTES[entries[0].settings.size],
    )
    for entry, record in zip(entries, records):
        if record and record["finished"] and record["steps"] == planned:
            continue
        if record and record["steps"] == planned:
            training = training_run.resume(entry.folder, device, report_progress)
        else:
            shutil.rmtree(entry.folder, ignore_errors=True)
            settings = replace(entry.settings, steps=planned, minutes=minutes)
            training = training_run.begin(settings, entry.folder.name, device, report_progress)
        try:
            if not train(training):
                return None
            planned = training.total
        finally:
            training.close()
    return entries[0].folder, entries[1].folder


def earlier_record(entry: Entry, steps: int | None, minutes: float | None) -> dict[str, Any] | None:
    """The record of an earlier training of this design, if it was as long as is asked for now."""
    settings = entry.settings
    paragraphs = read_paragraphs(settings.text)[0] if settings.text else None
    try:
        data = checkpoint.read_record(entry.folder, RESUMED)
        record, corpus = data["record"], data["record"]["corpus"]
        same = (
            corpus["kind"] == settings.corpus_kind
            and corpus.get("fingerprint") == (fingerprint_of_text(paragraphs) if paragraphs else None)
            and data["design"] == settings.design().to_data()
            and data["tokenizer"]["kind"] == settings.token_kind()
            and record["seed"] == settings.seed
            and record["steps"] == (steps or record["steps"])
            and record["minutes"] == (minutes or record["minutes"])
            and Recipe.from_data(record["recipe"])
            == replace(settings, steps=record["steps"], minutes=record["minutes"]).recipe()
        )
        return record if same else None
    except (CheckpointProblem, KeyError, TypeError):  # there is none, or it is damaged: the design is trained again
        return None


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
        training = training_run.begin(settings, entry.folder.name, device, report_progress)
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
    return checkpoint.read_record(entry.folder, MEASURED)


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
