"""The stages of a run, with one clock, and what a sitting continues from.

What is done is in the checkpoints of the pretraining and of the tuning, which are saved on the way. So a killed process
loses at most what it has done since the last checkpoint.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grader.chapters.ch17_fine_tuning.capstone import model_card
from grader.chapters.ch17_fine_tuning.capstone.record import PRETRAINED, TESTS, TUNED, UNTRAINED, Record
from grader.chapters.ch17_fine_tuning.tuning import adapters, tuning_run
from grader.chapters.ch17_fine_tuning.tuning.base import TUNING, stories_base
from grader.chapters.ch17_fine_tuning.tuning.tuning_run import Tuning
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.checkpoint import Loaded
from grader.models.own_parts import OwnParts, find_own_parts
from grader.models.training import training_run
from grader.models.training.corpora import collate_by_length, count_targets, held_out_stories, story_windows
from grader.models.training.live_page import Page
from grader.models.training.recipes import Settings
from grader.models.training.training_run import Training, training_exercises
from grader.teaching.walks.parts import hidden_prints

MINUTES = 40.0
STAGES = PARTS, TOKENIZER, STORIES, ANSWERS, EVALUATION = (
    "tests of the parts", "tokenizer", "pretraining on stories", "answers, then rewards", "evaluation",
)  # fmt: skip
STORIES_SHARE = 0.6  # of the time that is left after the tokenizer
EVALUATION_SHARE, EVALUATION_SECONDS = 0.05, 40.0  # of the whole time, and at most
LEAST_MINUTES = 0.1  # of a stage for which no time is left
SHORT_MINUTES, SHORT_WARMUP = 5.0, 5  # of a shorter run, the steps of the warmup
SAVE_SECONDS = 20.0  # between two writings of the times
TEXTS_SEED = 0  # of the held-out stories: every run has the same ones, so that two can be compared


@dataclass
class Sitting:
    """One process that works on a run, until the end or Control-C."""

    record: Record
    own: OwnParts
    report_progress: ProgressReporter
    announce: Callable[[str], None]
    make_page: Callable[[], Page]
    interrupted: Callable[[], bool]
    since: float  # the clock: time until then is recorded
    processor: float = 0.0  # processor time that is recorded
    stage: str = PARTS
    saved: float = 0.0

    def enter(self, stage: str) -> None:
        self.count()
        self.stage = stage
        self.announce(stage)

    def count(self) -> None:
        """Add the time that has passed to that of this stage. The processor time is that of this process and of those
        that it has waited for."""
        seconds, processor = self.record.spent.get(self.stage, (0.0, 0.0))
        now, used = time.monotonic(), sum(os.times()[:4])
        self.record.spent[self.stage] = seconds + now - self.since, processor + used - self.processor
        self.since, self.processor = now, used

    def is_stopped(self) -> bool:
        """Called after each step: whether Control-C was pressed. Saves the times now and then."""
        self.count()
        if self.since - self.saved > SAVE_SECONDS:
            self.record.save()
            self.saved = self.since
        return self.interrupted()

    def minutes_left(self, share: float) -> float:
        """This share of the time for this stage and the next ones, but the evaluation, without what it has had."""
        self.count()
        whole, had = 60 * self.record.minutes, self.record.spent[self.stage][0]
        reserved = min(EVALUATION_SHARE * whole, EVALUATION_SECONDS)
        return max((share * (whole - reserved - self.record.seconds + had) - had) / 60, LEAST_MINUTES)


def begin(name: str | None, seed: int, minutes: float, steps: int | None) -> Record:
    """A new run. CheckpointProblem if the name is taken."""
    return Record(training_run.new_folder(name, "capstone").name, seed, minutes, steps)


def settings_of(record: Record) -> Settings:
    warmup = SHORT_WARMUP if record.steps is None and record.minutes < SHORT_MINUTES else None
    minutes = record.minutes if record.steps is None else None
    return Settings(tokens="bpe", minutes=minutes, steps=record.steps, seed=record.seed, warmup=warmup)


def find_parts(record: Record, report_progress: ProgressReporter) -> OwnParts:
    """The parts of all stages; the record notes whose they are. NotInHandout if the handout lacks one."""
    settings = settings_of(record)
    exercises = training_exercises(settings.design(), settings.recipe(), settings.token_kind())
    own = find_own_parts(exercises.union(TUNING), report_progress)
    if record.learner or record.reference:
        record.changed = sorted({*record.changed, *{*record.learner}.symmetric_difference(own.learner)})
    record.learner, record.reference = own.learner, own.reference
    return own


def measure_stories(parts: Any, loaded: Loaded) -> tuple[list[float], list[int], list[int]]:
    """Of each held-out story: the sum of its losses in nats, its tokens, its characters."""
    texts, nats, tokens = held_out_stories(parts, TEXTS_SEED), [], []
    with hidden_prints():
        for text in texts:
            batch = collate_by_length(parts, story_windows(parts, loaded.tokenizer, [text], loaded.design.max_len), 1)
            tokens.append(count_targets(batch))
            nats.append(math.log(parts.perplexity(loaded.model, batch)) * tokens[-1])
    return nats, tokens, list(map(len, texts))


def run(sitting: Sitting) -> model_card.Finished | None:
    """All stages that are not done; None if it was interrupted. The page, the model and the record are written.

    CheckpointProblem, TuneProblem, CodeProblem or NotANumber if a stage fails; what was saved stays.
    """
    record, parts, folder = sitting.record, sitting.own.parts, sitting.record.folder
    training = _open_training(sitting)
    if not training.is_finished or PRETRAINED not in record.nats:
        sitting.enter(STORIES)
        if record.steps is None:
            training.minutes, training.keeps_minutes = sitting.minutes_left(STORIES_SHARE), True
        if not training.is_finished and not training_run.run(training, sitting.make_page(), sitting.is_stopped):
            return None
        record.nats[PRETRAINED], *_ = measure_stories(parts, checkpoint.load(folder / "stories", parts))
    tuning = _open_tuning(sitting)
    if not tuning.progress.is_finished and not tuning_run.run(tuning, sitting.make_page(), sitting.is_stopped):
        return None
    sitting.enter(EVALUATION)
    tuned = checkpoint.load(folder / "stories", parts)
    adapters.merge(parts, tuned.model, adapters.read(f"{record.name}/answers"))
    record.nats[TUNED], *_ = measure_stories(parts, tuned)
    checkpoint.save(folder, tuned.model, tuned.tokenizer, tuned.design, tuned.record | {"name": record.name})
    record.right = dict(zip(TESTS, (one.right for one in tuning.progress.evaluations)))
    stories = [training.trainer.write(seed) for seed in (1, 2, 3)]
    sitting.count()
    finished = model_card.Finished(record, training, tuning, stories)
    model_card.write_page(finished)
    record.save()
    return finished


def _open_training(sitting: Sitting) -> Training:
    """The pretraining, where it was interrupted, or a new one, which begins with its tokenizer."""
    record, own, folder = sitting.record, sitting.own, sitting.record.folder / "stories"
    if (folder / checkpoint.RECORD).is_file():
        return training_run.resume(folder, "cpu", sitting.report_progress, own=own)
    for incomplete in (folder, record.folder / "answers"):  # of a process that was killed while it first saved
        shutil.rmtree(incomplete, ignore_errors=True)
    sitting.enter(TOKENIZER)
    name = f"{record.name}/stories"
    training = training_run.begin(settings_of(record), name, "cpu", sitting.report_progress, own=own)
    trainer = training.trainer
    untrained = Loaded(trainer.model, trainer.corpus.tokenizer, trainer.design, {}, folder)
    record.nats = {}
    record.nats[UNTRAINED], record.tokens, record.characters = measure_stories(own.parts, untrained)
    record.save()
    training.save()
    return training


def _open_tuning(sitting: Sitting) -> Tuning:
    """The tuning, where it was interrupted, or a new one."""
    record, folder, name = sitting.record, sitting.record.folder / "answers", f"{sitting.record.name}/answers"
    loaded = checkpoint.load(record.folder / "stories", sitting.own.parts)
    base = replace(stories_base(f"{record.name}/stories", loaded, sitting.own), name=record.name)
    sitting.enter(ANSWERS)
    if (folder / adapters.FILE).is_file():
        return tuning_run.resume(name, sitting.report_progress, base)
    shutil.rmtree(folder, ignore_errors=True)
    tuning = tuning_run.begin(base, "format", name, record.seed, sitting.minutes_left(1.0), record.steps)
    tuning.progress.may_take_longer = True
    return tuning
