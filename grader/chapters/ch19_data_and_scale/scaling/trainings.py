"""One training of the experiment: the stories, the schedule and the optimizer of `headway train`, in small batches."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from grader.chapters.ch19_data_and_scale.scaling.plan import Run, ScaleProblem, Size
from grader.chapters.ch19_data_and_scale.scaling.record import Trained
from grader.console.output import ProgressReporter
from grader.models.design import Design, build_model, gpt_config
from grader.models.training.corpora import StoryCorpus, count_targets, held_out_stories
from grader.models.training.recipes import Recipe
from grader.models.training.trainer import NotANumber, Trainer, prepare_torch
from grader.teaching.walks.parts import hidden_prints

DESIGN = Design(n_heads=2, n_layers=2)  # with any of these widths
WIDTHS = (*range(4, 64, 2), *range(64, 257, 8))
BATCH_ROWS = 8  # a small model with few tokens needs many small steps
RATE = 0.25  # the peak of the learning rate is this number divided by the width
MEASURED_BATCHES = 40  # the mean length of a story is that of these
TIMED_WIDTHS, TIMED = (16, 64), 10  # steps that the speed is measured with


class Trainings:
    """Trains models on the stories of a seed. The same seed gives the same losses on the same machine."""

    def __init__(self, parts: Any, seed: int) -> None:
        prepare_torch(seed)
        self.parts, self.seed = parts, seed
        with hidden_prints():
            self.corpus = self._make_corpus(seed, None)
            self.held_out = self.corpus.validation()
            batches = [batch for step in range(MEASURED_BATCHES) for batch in self.corpus.batch(step)]
            self.tokens_a_step = count_targets(batches) / MEASURED_BATCHES
            length = round(count_targets(batches) / sum(len(targets) for _, targets in batches))
            self.sizes = [self._make_size(width, length) for width in WIDTHS]

    def _make_corpus(self, seed: int, tokenizer: Any) -> StoryCorpus:
        return StoryCorpus(self.parts, "words", seed, BATCH_ROWS, 1, DESIGN.max_len, tokenizer)

    def _make_size(self, width: int, length: int) -> Size:
        config = gpt_config(self.parts, replace(DESIGN, d_model=width), self.corpus.tokenizer.vocab_size)
        exact, by_rule = self.parts.training_flops(config, 1, length)
        return Size(width, by_rule // 6, exact)

    def measure_speed(self) -> tuple[float, float]:
        """The seconds that a token takes, and those that a FLOP takes: from a small and a larger model."""
        sizes = [size for size in self.sizes if size.width in TIMED_WIDTHS]
        small, large = map(self._seconds_a_token, sizes)
        a_flop = max((large - small) / (sizes[1].flops - sizes[0].flops), 0.0)
        return max(small - a_flop * sizes[0].flops, 0.0), a_flop

    def _seconds_a_token(self, size: Size) -> float:
        trainer = self.make_trainer(size, self.seed)
        trainer.step(TIMED)
        trainer.history.seconds = 0.0  # the first step is slower
        for _ in range(TIMED - 1):
            trainer.step(TIMED)
        return trainer.history.seconds / (TIMED - 1) / self.tokens_a_step

    def make_trainer(self, size: Size, seed: int) -> Trainer:
        recipe = Recipe(rows=BATCH_ROWS, pieces=1, peak=RATE / size.width)
        corpus, design = self._make_corpus(seed, self.corpus.tokenizer), replace(DESIGN, d_model=size.width)
        torch.manual_seed(seed)
        model = build_model(self.parts, design, corpus.tokenizer.vocab_size)
        trainer = Trainer(self.parts, design, model, corpus, recipe, "cpu")
        trainer.validation_batches = self.held_out  # the same ones also with another seed
        return trainer

    def train(self, run: Run, report_progress: ProgressReporter) -> Trained:
        """Train for the run's FLOPs. ScaleProblem if the loss is not a number."""
        began, steps = time.monotonic(), max(round(run.tokens / self.tokens_a_step), 2)
        with hidden_prints():
            trainer = self.make_trainer(run.size, run.seed)
        with report_progress(f"{run.budget:.1e} FLOPs, {run.size.parameters:,} parameters", steps) as advance:
            try:
                for _ in range(steps):
                    trainer.step(steps)
                    advance()
            except NotANumber as problem:
                raise ScaleProblem(f"{problem}; another --seed may go better") from None
        loss, seconds = round(trainer.validate(), 6), round(time.monotonic() - began, 2)
        return Trained(run.budget, run.size.parameters, run.seed, trainer.history.tokens, loss, seconds)

    def bits_per_byte(self, loss: float) -> float:
        """A held-out loss, in bits for each byte of the held-out stories."""
        n_bytes = sum(len(text.encode()) for text in held_out_stories(self.parts, self.seed))
        return float(self.parts.bits_per_byte(loss * count_targets(self.held_out), n_bytes))
