"""Trains a small GPT on small stories with the reference's own parts, perhaps with a known mistake in one of them, and
records what an engineer could look at. The same seed gives the same record on the same machine."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.chapters.stories.corpus import story
from grader.chapters.training_runs.looks import end_looks, figures, part_norms, sizes, state_bytes
from grader.chapters.training_runs.records import Record, round_to
from grader.chapters.training_runs.setups import STEPS, Setup
from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import Misconception
from grader.course.reference import reference_of
from grader.course.source import SourceProblem
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.models.tokenizers import WordModelTokenizer
from torch import Tensor, nn

HELD_OUT, WINDOW, ROWS = 0.2, 32, 16
FLOOR, WARMUP = 2e-4, 20
POINTS, CHECKS = 40, 12

Batch = tuple[Tensor, Tensor]


def changed_chapters(mistake: Misconception | None) -> ChapterPackage:
    """Return the reference with this mistake in it. SourceProblem if a chapter that every run needs is missing."""
    sources = []
    for chapter in load_syllabus().chapters:
        source = reference_of(chapter.name)
        if source is not None:
            mine = mistake is not None and load_syllabus().exercise(mistake.exercise).module == chapter.name
            text = mistake.applied_to_chapter(source.text) if mistake and mine else source.text
            sources.append(ChapterSource(source.name, text, f"training run/{source.name}.py", source.sealed))
    return ChapterPackage(sources, "run")


def train_and_look(setup: Setup, mistake: Misconception | None, seed: int, step_done: Any = lambda: None) -> Record:
    """Train one model and return its record, as looks.py describes it."""
    with closing(changed_chapters(mistake)) as package, _own_randomness(seed):
        try:
            parts = names_of(*map(package.module, setup.chapters))
        except ModuleNotFoundError as problem:
            chapter = str(problem.name).rpartition(".")[2]
            advice = "without `--live` you see a recorded one"
            raise SourceProblem(f"a training needs {chapter}, which this course does not have; {advice}") from None
        return _Run(setup, parts, seed).train(step_done)


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Seed the generators that all code shares, and restore their states afterwards."""
    before = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


class _Run:
    def __init__(self, setup: Setup, parts: Any, seed: int) -> None:
        self.setup, self.parts, self.seed = setup, parts, seed
        texts = [_two_sentences(story(seed, number)) for number in range(setup.texts)]
        self.tokenizer = WordModelTokenizer.of_texts(parts, texts)
        ids = {text: self._ids(text) for text in texts}
        self.train_windows = self._windows([ids[text] for text in texts if not parts.is_validation(text, HELD_OUT)])
        self.held_out = self._windows([ids[text] for text in ids if parts.is_validation(text, HELD_OUT)])
        self.validation = [parts.collate(self.held_out[i : i + 32]) for i in range(0, len(self.held_out), 32)]
        self.steps = STEPS
        config = parts.GPTConfig(
            self.tokenizer.vocab_size, WINDOW + 8, d_model=48, n_heads=2, n_layers=2,
            dropout=setup.dropout,
        )  # fmt: skip
        self.model = _with_experts(parts, config) if setup.experts else parts.GPT(config)
        self.optimizer = parts.AdamW(self.model.parameters(), lr=setup.peak)

    def _ids(self, text: str) -> list[int]:
        return [*self.tokenizer.start_ids, *self.tokenizer.encode(text), self.tokenizer.end_id or 0]

    def _windows(self, texts: list[list[int]]) -> list[tuple[list[int], list[int]]]:
        return [window for ids in texts for window in self.parts.next_token_pairs(ids, WINDOW)]

    def _batches(self) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            order = torch.randperm(len(self.train_windows), generator=generator).tolist()
            for i in range(0, len(order) - ROWS + 1, ROWS):
                yield self.parts.collate([self.train_windows[j] for j in order[i : i + ROWS]])

    def train(self, step_done: Any) -> Record:
        run, every = Record(), -(-self.steps // POINTS)
        total = round(self.steps * self.setup.schedule)
        model = _InHalf(self.model) if self.setup.half else self.model
        norms = _follow_gradients(self.model)
        run["activations"] = {"begin": sizes(self.model, self.validation[0][0])}
        tokens = places = 0
        for step, batch in zip(range(1, self.steps + 1), self._batches()):
            rate = self.parts.warmup_cosine(step, WARMUP, total, self.setup.peak, FLOOR)
            self.optimizer.param_groups[0]["lr"] = rate
            shown = step == 1 or step % every == 0
            before = [parameter.detach().clone() for parameter in self.model.parameters()] if shown else []
            norms.clear()
            if step == 2:
                counted = partial(self._step, model, batch)
                run["figures"], loss = figures(self.model, counted, self.tokenizer)
            else:
                loss = self._step(model, batch)
            tokens, places = tokens + int((batch[0] != 0).sum()), places + batch[0].numel()
            if shown:
                norm = math.sqrt(sum(float(value) ** 2 for value in norms.values()))
                moved = [(new.detach() - old).square().sum() for new, old in zip(self.model.parameters(), before)]
                count = sum(each.numel() for each in before)
                far = math.sqrt(float(sum(moved)) / count) / rate if rate else 0.0
                run.add(step=step, train=loss, norm=norm, rate=rate, moved=far)
            if step == min(10, self.steps):
                run["activations"]["gradients"] = part_norms(self.model, norms)
            if step in {max(1, self.steps * i // CHECKS) for i in range(1, CHECKS + 1)}:
                run.add(check=step, validation=math.log(self.parts.perplexity(model, self.validation)))
            step_done()
        run["figures"] |= {
            "state": state_bytes(self.optimizer),
            "tokens a step": round(tokens / self.steps),
            "filled": round_to(tokens / places),
            "windows": len(self.train_windows),
            "held out": len(self.held_out),
        }
        return end_looks(run, self.setup, self.parts, self.model, self.tokenizer, self)

    def _step(self, model: nn.Module, batch: Batch) -> float:
        if self.setup.experts:
            return self._expert_step(batch)
        if self.setup.pieces > 1:
            pieces = zip(*(each.chunk(self.setup.pieces) for each in batch))
            return self.parts.accumulated_step(model, self.optimizer, pieces, 1.0)
        return self.parts.train_step(model, self.optimizer, *batch, 1.0)

    def _expert_step(self, batch: Batch) -> float:
        """A train_step that adds the balance loss."""
        self.model.train()
        self.optimizer.zero_grad()
        logits, balance = self.model.forward_with_loss(batch[0])
        loss = self.parts.cross_entropy(logits, batch[1])
        (loss + 0.02 * balance).backward()
        self.parts.clip_gradients(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def _two_sentences(text: str) -> str:
    """The first two sentences of a story."""
    words, sentences = [], 0
    for word in text.split():
        words.append(word)
        sentences += word.rstrip('"')[-1] in ".!?"
        if sentences == 2:
            break
    return " ".join(words)


def _follow_gradients(model: nn.Module) -> dict[nn.Parameter, float]:
    """Return a dict that gets the norm of each parameter's gradient after each backward pass: before it is clipped."""
    norms: dict[nn.Parameter, float] = {}

    def keep(parameter: nn.Parameter) -> None:
        if parameter.grad is not None:
            norms[parameter] = float(parameter.grad.norm())

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(keep)  # type: ignore[arg-type]
    return norms


class _InHalf(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(self, ids: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return self.model(ids)[0].float()


def _with_experts(parts: Any, config: Any) -> nn.Module:
    """A GPT whose blocks are MoEBlocks."""

    class ExpertGPT(parts.GPT):
        def __init__(self) -> None:
            super().__init__(config)
            self.blocks = nn.ModuleList(parts.MoEBlock(config.d_model, config.n_heads, 96, 4, 1) for _ in range(2))

        def forward_with_loss(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            stream, losses = self.pos_emb(self.token_emb(ids)), []
            for block in self.blocks:
                stream, loss = block(stream)
                losses.append(loss)
            normed = self.ln_f(stream)
            return self.lm_head(normed), sum(losses, torch.tensor(0.0))

        def forward(self, ids: Tensor) -> tuple[Tensor, None]:
            return self.forward_with_loss(ids)[0], None

    return ExpertGPT()
