"""train: tokens a second of `headway train`, compared with the same model made of torch's own layers, and what the difference is made of.

Both have the same weights, batches, data type, threads and schedule, and give the same losses, which is checked first. Their steps take
turns, so that other work on the machine slows all of them down alike. Then one part of the course's model at a time is exchanged for torch's.
With `--clock processor`, the times are processor time, which depends less on other work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from grader.execution.target import Target
from grader.models.design import PRESETS, Design, build_model
from grader.models.training.corpora import Batch, StoryCorpus, count_targets
from grader.models.training.run import training_exercises
from grader.models.training.settings import RECIPES, Recipe
from grader.models.training.trainer import Trainer, default_threads, prepare_torch
from grader.quality.benchmarks.figures import format_seconds, machine, median_or_nan, print_figure, table
from grader.quality.benchmarks.torch_layers import EXCHANGES, TorchGPT
from grader.quality.benchmarks.workplace import solved_chapter
from grader.teaching.walks.parts import Parts
from torch import Tensor, nn

STAGES = ("forward", "backward", "clipping", "update")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
Clock = Callable[[], float]
SAME = 1e-4  # how far two losses may differ, relatively


@dataclass
class Side:
    """One way to train the model, divided into stages that are timed."""

    name: str
    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    clip: Callable[[list[nn.Parameter]], Any]
    optimizer: Any
    clock: Clock
    seconds: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})

    def step(self, batches: list[Batch]) -> float:
        """One update as in `accumulated_step`; returns the loss from before it."""
        took = dict.fromkeys(STAGES, 0.0)
        count, whole = count_targets(batches), 0.0
        self.model.train()
        self.optimizer.zero_grad()
        for inputs, targets in batches:
            with self._timed(took, "forward"):
                output = self.model(inputs)
                logits = output[0] if isinstance(output, tuple) else output
                loss = self.loss(logits, targets) * (int((targets != -100).sum()) / count)
            with self._timed(took, "backward"):
                loss.backward()
            whole += loss.item()
        with self._timed(took, "clipping"):
            self.clip(list(self.model.parameters()))
        with self._timed(took, "update"):
            self.optimizer.step()
        for stage, seconds in took.items():
            self.seconds[stage].append(seconds)
        return whole

    @contextmanager
    def _timed(self, took: dict[str, float], stage: str) -> Iterator[None]:
        began = self.clock()
        yield
        took[stage] += self.clock() - began

    def median(self, *stages: str) -> float:
        return sum(median_or_nan(self.seconds[stage]) for stage in stages or STAGES)


def measure(size: str, steps: int, threads: int, clock: Clock) -> int:
    design, recipe = PRESETS[size], RECIPES[size]
    parts = _parts(design)
    prepare_torch(0, threads)
    corpus = StoryCorpus(parts, "words", 0, recipe.rows, recipe.pieces, design.max_len)
    exchanged = {name: _parts(design, name) for name in EXCHANGES}
    sides = [_own(parts, parts, "headway", design, recipe, corpus, clock), _torch(parts, design, recipe, corpus, clock)]
    sides += [_own(own, parts, name, design, recipe, corpus, clock) for name, own in exchanged.items()]
    torch.manual_seed(0)
    trainer = Trainer(parts, design, build_model(parts, design, corpus.tokenizer.vocab_size), corpus, recipe, "cpu")
    count = sum(parameter.numel() for parameter in trainer.parameters)
    print(f"train: {machine()}\n{size}: {count:,} parameters, float32, {threads} threads; medians of {steps} steps of {recipe.rows} stories", flush=True)
    print("processor time of one step\n" if clock is time.process_time else "time of one step\n", flush=True)
    reading: list[float] = []
    whole: list[float] = []
    tokens: list[int] = []
    for number in range(steps + 1):
        began = clock()
        batches = corpus.batch(number)
        took = clock() - began
        began = clock()
        trainer.step(steps + 2)
        both = clock() - began
        for side in sides:
            for group in side.optimizer.param_groups:
                group["lr"] = trainer.optimizer.param_groups[0]["lr"]
        losses = [side.step(batches) for side in sides]
        if any(abs(loss - trainer.history.losses[-1]) > SAME * loss for loss in losses) and number < 3:
            print(f"train: in step {number + 1} the losses are {trainer.history.losses[-1]:.6f} and {', '.join(f'{loss:.6f}' for loss in losses)}: not the same model")
            return 1
        if number:  # the first step is slower than all others
            reading.append(took)
            whole.append(both)
            tokens.append(count_targets(batches))
        else:
            for side in sides:
                side.seconds = {stage: [] for stage in STAGES}
    _report(sides, median_or_nan(reading), median_or_nan(whole), sum(tokens) / len(tokens), "second of processor time" if clock is time.process_time else "second")
    for each in (parts, *exchanged.values()):
        each.close()
    return 0


def _report(sides: list[Side], reading: float, whole: float, tokens: float, second: str) -> None:
    own, theirs = sides[:2]
    rows = [["reading: stories, ids, batches", format_seconds(reading), format_seconds(reading), ""]]
    names = {"forward": "forward, with the loss", "backward": "backward", "clipping": "clipping the gradient", "update": "AdamW's update"}
    rows += [[names[stage], *(format_seconds(side.median(stage)) for side in (own, theirs)), f"{own.median(stage) / theirs.median(stage):.2f}"] for stage in STAGES]
    sums = [side.median() + reading for side in (own, theirs)]
    rows.append(["sum", *map(format_seconds, sums), f"{sums[0] / sums[1]:.2f}"])
    rows.append([f"tokens a {second}", *(f"{tokens / seconds:,.0f}" for seconds in sums), f"{sums[1] / sums[0]:.2f}"])
    print(table(["a step of training", "headway", "torch's layers", "ratio"], rows, words=1) + "\n")
    saved = {side.name: own.median("forward", "backward") - side.median("forward", "backward") for side in sides[2:]}
    cells = [[f"torch's part for {name}", format_seconds(abs(seconds)) if seconds > 0 else "nothing"] for name, seconds in saved.items()]
    print(table(["exchanged in headway's model", "saves, forward and backward"], cells, words=1) + "\n")
    print_figure(
        f"`headway train` learns from {tokens / whole:,.0f} tokens a {second}; the same model of torch's own layers from {tokens / sums[1]:,.0f}: "
        f"{sums[0] / sums[1]:.2f} times as fast, {own.median() / theirs.median():.2f} times without the reading of the text, which both share."
    )
    difference = sums[0] - sums[1]
    shares = ", ".join(f"{names[stage]} {(own.median(stage) - theirs.median(stage)) / difference:.0%}" for stage in STAGES)
    print_figure(f"Of the difference, {shares}.")


def _own(own: Any, parts: Any, name: str, design: Design, recipe: Recipe, corpus: StoryCorpus, clock: Clock) -> Side:
    torch.manual_seed(0)
    model = build_model(own, design, corpus.tokenizer.vocab_size)
    optimizer = parts.AdamW(list(model.parameters()), lr=recipe.peak, betas=recipe.betas, weight_decay=recipe.weight_decay)
    return Side(name, model, parts.cross_entropy, lambda parameters: parts.clip_gradients(parameters, recipe.max_norm), optimizer, clock)


def _torch(parts: Any, design: Design, recipe: Recipe, corpus: StoryCorpus, clock: Clock) -> Side:
    torch.manual_seed(0)
    size = corpus.tokenizer.vocab_size
    same = build_model(parts, design, size)
    model = TorchGPT(design, size)
    model.copy_from(same)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.peak, betas=recipe.betas, weight_decay=recipe.weight_decay)
    clip = nn.utils.clip_grad_norm_
    return Side("torch", model, _torch_loss, lambda parameters: clip(parameters, recipe.max_norm), optimizer, clock)


def _torch_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _parts(design: Design, exchanged: str | None = None) -> Parts:
    """The reference's parts; one of them with torch's function, if it is named."""
    names = training_exercises(design, "words")
    if exchanged is None:
        return Parts(names, ())
    module, code = EXCHANGES[exchanged]
    return Parts(names, {exchanged}, Target("exchanged", texts={module: f"{solved_chapter(module)}\n\n{code}"}))


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks train", description=__doc__.partition("\n")[0])
    parser.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="the size of the model (tiny)")
    parser.add_argument("--steps", type=int, default=30, metavar="N", help="steps of each (30)")
    parser.add_argument("--threads", type=int, default=default_threads(), metavar="N", help="threads of torch (as many as processors, or OMP_NUM_THREADS)")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="wall time, or processor time, for a busy machine (wall)")
    options = parser.parse_args(arguments)
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        return measure(options.preset, max(1, options.steps), max(1, options.threads), CLOCKS[options.clock])
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
