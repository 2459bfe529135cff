"""Trains two designs for the same number of steps on the same text with the same seed. A checkpoint that is there
already is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.comparison.design_words import settings_for
from grader.models.design import DesignProblem
from grader.models.training import run
from grader.models.training.corpora import PAIRS, STORIES, fingerprint_of_text
from grader.models.training.own_text import read_paragraphs
from grader.models.training.settings import MINUTES, Recipe, Settings
from grader.teaching.walks.progress_line import ProgressReporter

PREFIX = "compare-"


@dataclass(frozen=True)
class Entry:
    """One of the two designs: the word that the user typed, and its training without a number of steps."""

    word: str
    settings: Settings

    @property
    def checkpoint_name(self) -> str:
        text = f"-{self.settings.text.stem}" if self.settings.text else ""
        seed = f"-seed-{self.settings.seed}" if self.settings.seed else ""
        allowed = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{self.word.lower()}{text}{seed}")
        return PREFIX + allowed[:60]


@dataclass(frozen=True)
class Trained:
    """A checkpoint of an earlier comparison, finished or interrupted."""

    folder: Path
    steps: int | None  # of the whole training; None if it was interrupted before they were planned
    minutes: float | None
    finished: bool


def entries_of(words: tuple[str, str], base: Settings) -> tuple[Entry, Entry]:
    """The two designs. DesignProblem if one is not possible, if they are the same, or if only one is a translator."""
    one, other = (Entry(word, settings_for(word, base)) for word in words)
    if _essentials(one.settings) == _essentials(other.settings):
        raise DesignProblem(
            f"{one.word} and {other.word} are the same design: each word changes one thing of the "
            "usual model; try `headway compare learned rope`"
        )
    translators = [entry.word for entry in (one, other) if entry.settings.kind == "translate"]
    if len(translators) == 1:
        raise DesignProblem(
            f"{translators[0]} is a translator, and the other design is not, so nothing that they do can be compared"
        )
    return one, other


class PairTraining:
    """The trainings that a comparison of two designs still needs."""

    def __init__(self, entries: tuple[Entry, Entry], steps: int | None, minutes: float | None) -> None:
        self.entries, self.steps, self.minutes = entries, steps, minutes
        self.folders: list[Path] = []

    def left(self, device: str, report_progress: ProgressReporter) -> Iterator[run.Training]:
        """Each training that is not at its end, the first design's first. The caller trains it to its end and closes
        it, then asks for the next one."""
        found = self._find_pair()
        planned = next((each.steps for each in found if each and each.steps), self.steps)
        minutes = next(
            (each.minutes for each in found if each),
            None if self.steps else self.minutes or MINUTES[self.entries[0].settings.size],
        )
        self.folders = []
        for entry, earlier in zip(self.entries, found):
            if earlier is None or not earlier.finished:
                training = self._make(entry, earlier, planned, minutes, device, report_progress)
                self.folders.append(training.folder)
                yield training
                planned = training.total
            else:
                self.folders.append(earlier.folder)

    def _make(
        self,
        entry: Entry,
        earlier: Trained | None,
        steps: int | None,
        minutes: float | None,
        device: str,
        report_progress: ProgressReporter,
    ) -> run.Training:
        if earlier is not None:
            return run.resume(earlier.folder, device, report_progress)
        settings = replace(entry.settings, steps=steps, minutes=minutes)
        return run.begin(settings, run.free_name(entry.checkpoint_name), device, report_progress)

    def _find_pair(self) -> tuple[Trained | None, Trained | None]:
        """Checkpoints of both designs with the same number of steps; or one of them, whose number of steps the other
        gets."""
        ones, others = (list(self._find(entry)) for entry in self.entries)
        for one in ones:
            for other in others:
                if one.steps is not None and one.steps == other.steps and one.minutes == other.minutes:
                    return one, other
        if ones:
            return ones[0], None
        return None, others[0] if others and others[0].steps is not None else None

    def _find(self, entry: Entry) -> Iterator[Trained]:
        """The checkpoints of this design that earlier comparisons made with the steps or minutes that were asked for;
        the newest first."""
        fingerprint = fingerprint_of_text(read_paragraphs(entry.settings.text)[0]) if entry.settings.text else None
        for folder in checkpoint.list_checkpoints():
            if not folder.name.startswith(PREFIX):
                continue
            try:
                data = checkpoint.read_record(folder)
                record = data["record"]
                same = _matches(data, entry.settings) and record["corpus"].get("fingerprint") == fingerprint
                if (
                    same
                    and (self.steps or record["steps"]) == record["steps"]
                    and (self.minutes or record["minutes"]) == record["minutes"]
                ):
                    yield Trained(folder, record["steps"], record["minutes"], bool(record["finished"]))
            except (CheckpointProblem, KeyError, TypeError):  # damaged: the design is trained again, under another name
                continue


def train_pair(
    pair: PairTraining, train: Callable[[run.Training], bool], device: str, report_progress: ProgressReporter
) -> bool:
    """Train what is left with `train`, which returns whether it reached the end; return whether both did."""
    for training in pair.left(device, report_progress):
        try:
            if not train(training):
                return False
        finally:
            training.close()
    return True


def _essentials(settings: Settings) -> tuple[Any, ...]:
    return settings.design(), settings.token_kind(), settings.recipe()


def _matches(data: dict[str, Any], settings: Settings) -> bool:
    corpus, record = data["record"]["corpus"], data["record"]
    kind = PAIRS if settings.kind == "translate" else "text" if settings.text else STORIES
    same_text = corpus["kind"] == kind and (
        kind != "text" or corpus["path"] == str(settings.text.resolve() if settings.text else "")
    )
    tokens = "words" if kind == PAIRS else settings.token_kind()
    return (
        same_text
        and data["design"] == settings.design().to_data()
        and data["tokenizer"]["kind"] == tokens
        and record["seed"] == settings.seed
        and Recipe.from_data(record["recipe"])
        == replace(settings, steps=record["steps"], minutes=record["minutes"]).recipe()
    )
