"""Trains two designs for the same number of steps on the same text with the same seed. What is trained is used again.

A word such as `rope`, `heads=1` or `moe` is a design: what it changes in a training. Several changes are one word with
commas: `rope,heads=1`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import ATTENTIONS, NORMS, POSITIONS, PRESETS, DesignProblem
from grader.models.training import making
from grader.models.training.corpora import fingerprint_of_text
from grader.models.training.own_text import read_paragraphs
from grader.models.training.settings import MINUTES, Recipe, Settings
from grader.teaching.walks.progress_line import ProgressReporter

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
    train: Callable[[making.Training], bool],
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
            training = making.resume(entry.folder, device, report_progress)
        else:
            shutil.rmtree(entry.folder, ignore_errors=True)
            settings = replace(entry.settings, steps=planned, minutes=minutes)
            training = making.begin(settings, entry.folder.name, device, report_progress)
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
        data = checkpoint.read_record(entry.folder)
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
