"""One training of the experiment: the stories, the schedule and the optimizer of `headway train`, in small batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from grader.models.design import build_model
from grader.models.scaling.plan import Run, ScaleProblem, Speed
from grader.models.scaling.record import Trained
from grader.models.scaling.sizes import Size, design_of, make_sizes, nearest_size
from grader.models.training.corpora import StoryCorpus, count_targets, held_out_stories
from grader.models.training.settings import Recipe
from grader.models.training.trainer import NotANumber, Trainer, prepare_torch
from grader.teaching.walks.parts import hidden_prints
from grader.teaching.walks.progress_line import ProgressReporter

ROWS = 8  # a small model with few tokens needs many small steps
RATE = 0.4  # the peak of the learning rate is this number divided by the width
MEASURED = 40  # batches that the length of a story is measured on
TIMED = 12  # steps that the speed is measured with
TIMED_PARAMETERS = (16_000, 140_000)


class Trainings:
    """Trains models on the stories of a seed. The same seed gives the same losses on the same machine."""

    def __init__(self, parts: Any, seed: int) -> None:
        prepare_torch(seed)
        self.parts, self.seed = parts, seed
        with hidden_prints():
            self.corpus = self._make_corpus(seed, design_of(4).max_len, None)
            self.held_out = self.corpus.validation()
            tokens = sum(count_targets(self.corpus.batch(step)) for step in range(MEASURED))
            self.tokens_a_step = tokens / MEASURED
            length = round(tokens / sum(len(targets) for i in range(MEASURED) for _, targets in self.corpus.batch(i)))
            self.sizes = make_sizes(parts, self.corpus.tokenizer.vocab_size, length)

    def _make_corpus(self, seed: int, max_len: int, tokenizer: Any) -> StoryCorpus:
        return StoryCorpus(self.parts, "words", seed, ROWS, 1, max_len, tokenizer)

    def measure_speed(self) -> Speed:
        sizes = [nearest_size(self.sizes, parameters) for parameters in TIMED_PARAMETERS]
        return Speed.of_two(sizes, [self._seconds_a_token(size) for size in sizes])

    def _seconds_a_token(self, size: Size) -> float:
        trainer = self._make_trainer(size, self.seed)
        for _ in range(TIMED):
            trainer.step(TIMED)
            trainer.history.seconds *= trainer.steps_done > 2  # the first steps are slower
        return trainer.history.seconds / (TIMED - 2) / self.tokens_a_step

    def _make_trainer(self, size: Size, seed: int) -> Trainer:
        recipe = Recipe(rows=ROWS, pieces=1, peak=RATE / size.design.d_model)
        corpus = self._make_corpus(seed, size.design.max_len, self.corpus.tokenizer)
        torch.manual_seed(seed)
        model = build_model(self.parts, size.design, self.corpus.tokenizer.vocab_size)
        return Trainer(self.parts, size.design, model, corpus, recipe, "cpu")

    def train(self, run: Run, report_progress: ProgressReporter, interrupted: Callable[[], bool]) -> Trained | None:
        """Train for the run's FLOPs; None if interrupted. ScaleProblem if the loss is not a number."""
        began = time.monotonic()
        with hidden_prints():
            trainer = self._make_trainer(run.size, run.seed)
        trainer.validation_batches = self.held_out  # of the experiment's seed, whatever the run's is
        steps = max(round(run.tokens / self.tokens_a_step), 2)
        with report_progress(f"{run.budget:.1e} FLOPs, {run.size.parameters:,} parameters", steps) as advance:
            try:
                for _ in range(steps):
                    if interrupted():
                        return None
                    trainer.step(steps)
                    advance()
            except NotANumber as problem:
                raise ScaleProblem(f"{problem}; another --seed may go better") from None
        loss = round(trainer.validate(), 6)
        seconds = round(time.monotonic() - began, 2)
        return Trained(run.budget, run.size.parameters, run.seed, trainer.history.tokens, loss, seconds)

    def bits_per_byte(self, loss: float) -> float:
        """The held-out loss, for each byte of the held-out stories."""
        n_bytes = sum(len(text.encode()) for text in held_out_stories(self.parts, self.seed))
        return float(self.parts.bits_per_byte(loss * count_targets(self.held_out), n_bytes))
