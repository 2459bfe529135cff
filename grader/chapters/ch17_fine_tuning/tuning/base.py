"""The model that is tuned: SmolLM2 or another published model, or a GPT that `headway train` made from stories.

Its answers are drawn token by token, with the log probabilities of their tokens. Many rows begin alike: all questions
with the same system message, all answers to a question with the same prompt. What they share is computed once, and
gradients flow through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from grader.chapters.ch16_published_model.published.opening import EARLIER, EXERCISES, build, find_source
from grader.chapters.ch16_published_model.published.source import CHAT_TOKENS
from grader.chapters.ch17_fine_tuning.tuning.adapters import ADAPTER_EXERCISES
from grader.chapters.ch17_fine_tuning.tuning.tasks import TuneProblem
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem, Loaded, find_checkpoint, list_checkpoints, read_record
from grader.models.design import Design
from grader.models.own_parts import (
    OwnParts,
    closing_after_failure,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.training.corpora import STORIES
from torch import Tensor, nn


class Reader(Protocol):
    """A model that has read the beginning of some rows."""

    def read(self, ids: Tensor) -> Tensor:
        """Go on with new ids (B, T); return their logits (B, T, V)."""
        ...

    def repeat(self, times: int) -> None:
        """Make so many neighbouring copies of each row."""
        ...


class PlainReader:
    """For a GPT, which has no caches: it reads its rows again from their beginning."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.ids: Tensor | None = None

    def read(self, ids: Tensor) -> Tensor:
        self.ids = ids if self.ids is None else torch.cat([self.ids, ids], 1)
        result = self.model(self.ids)
        logits = result[0] if isinstance(result, tuple) else result
        return logits[:, -ids.size(1) :]  # type: ignore[no-any-return]

    def repeat(self, times: int) -> None:
        assert self.ids is not None
        self.ids = self.ids.repeat_interleave(times, 0)


class _Past:
    """A cache as a LlamaAttention uses it. Unlike a KVCache, it promises gradients, and its rows can be repeated."""

    def __init__(self, k: Tensor | None = None, v: Tensor | None = None) -> None:
        self.k, self.v = k, v

    @property
    def length(self) -> int:
        return 0 if self.k is None else self.k.size(2)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v

    def repeated(self, times: int) -> _Past:
        assert self.k is not None and self.v is not None
        return _Past(self.k.repeat_interleave(times, 0), self.v.repeat_interleave(times, 0))


class CachedReader:
    """For a Llama."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.caches = [_Past() for _ in model.blocks]

    def read(self, ids: Tensor) -> Tensor:
        return self.model(ids, self.caches)  # type: ignore[no-any-return]

    def repeat(self, times: int) -> None:
        self.caches = [cache.repeated(times) for cache in self.caches]


def shared_length(rows: Tensor) -> int:
    """With how many ids all of some rows (B, T) begin, at most T - 1; 0 for a single row."""
    alike = (rows == rows[0]).all(0)[:-1]  # (T - 1,)
    return int(alike.cumprod(0).sum()) if len(rows) > 1 else 0


def read_rows(new_reader: Callable[[], Reader], rows: Tensor) -> tuple[Reader, Tensor]:
    """Read rows (B, T), and what all of them begin with only once. Returns the reader and the logits of the rest, at
    least of the last position: (B, T - shared, V)."""
    reader, shared = new_reader(), shared_length(rows)
    if shared:
        reader.read(rows[:1, :shared])
        reader.repeat(len(rows))
        return reader, reader.read(rows[:, shared:])
    return reader, reader.read(rows)


@dataclass(frozen=True)
class Answers:
    """Each a row: its tokens, where they count (to its end, and not behind it), and their log probabilities."""

    ids: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    log_probs: Tensor  # (B, S)
    ended: list[bool]

    def texts(self, decode: Callable[[Sequence[int]], str]) -> list[str]:
        rows = zip(self.ids.tolist(), self.mask.sum(1).tolist(), self.ended)
        return [decode(row[: count - ended]) for row, count, ended in rows]

    def are_whole(self, most_tokens: int) -> bool:
        """Whether all of them ended, or have as many tokens as they may: they were not stopped before."""
        return all(self.ended) or self.ids.size(1) == most_tokens


@torch.no_grad()
def draw_answers(
    base: Any,
    prompts: Tensor,
    group: int,
    most_tokens: int,
    temperature: float,
    generator: torch.Generator | None = None,
    stopped: Callable[[int], bool] = lambda ended: False,
) -> Answers:
    """`group` answers to each of the prompts (P, T), which have the same length. `stopped` is called after each token,
    with how many answers have ended; no token follows if it returns True."""
    reader, logits = read_rows(base.reader, prompts)
    reader.repeat(group)
    logits = logits[:, -1].repeat_interleave(group, 0)  # (B, V), B = P * group
    ended = torch.zeros(len(logits), dtype=torch.bool)
    ids, mask, log_probs = [], [], []
    for place in range(most_tokens):
        new = base.parts.sample_next_token(logits, temperature, generator=generator).masked_fill(ended, base.end_id)
        ids.append(new)
        mask.append(~ended)
        log_probs.append(token_log_probs(base.parts, logits[:, None], new[:, None])[:, 0])
        ended = ended | (new == base.end_id)
        if stopped(int(ended.sum())) or ended.all() or place == most_tokens - 1:
            break
        logits = reader.read(new[:, None])[:, -1]
    return Answers(torch.stack(ids, 1), torch.stack(mask, 1), torch.stack(log_probs, 1), ended.tolist())


def answer_log_probs(base: Any, prompts: Tensor, group: int, ids: Tensor) -> Tensor:
    """The log probabilities of the tokens of answers (P * group, S) to these prompts (P, T): (P * group, S)."""
    reader, logits = read_rows(base.reader, prompts)
    reader.repeat(group)
    logits = logits[:, -1:].repeat_interleave(group, 0)  # (B, 1, V)
    if ids.size(1) > 1:
        logits = torch.cat([logits, reader.read(ids[:, :-1])], 1)
    return token_log_probs(base.parts, logits, ids)


def token_log_probs(parts: Any, logits: Tensor, ids: Tensor) -> Tensor:
    """(B, T, V) and (B, T) -> (B, T), by the learner's sequence_log_prob on texts of one token."""
    flat = parts.sequence_log_prob(logits.flatten(0, 1)[:, None], ids.flatten()[:, None])
    return flat.view(ids.shape)  # type: ignore[no-any-return]


TUNING = (
    *ADAPTER_EXERCISES, "answer_labels", "sequence_log_prob", "kl_estimate", "group_advantages", "policy_loss",
    "grade_answer", "cross_entropy", "clip_gradients", "accumulated_step", "AdamW", "is_validation",
    "apply_temperature", "top_k_filter", "top_p_filter", "sample_next_token",
)  # fmt: skip


@dataclass
class Base:
    """A model and its tokenizer, with one way to use them for both kinds."""

    kind: str  # a key of TASKS
    place: str | None  # where it was found; None for the installed SmolLM2
    name: str
    model: nn.Module
    own: OwnParts
    prompt_ids: Callable[[str], list[int]]
    answer_ids: Callable[[str], list[int]]  # of an answer, without its end
    decode: Callable[[Sequence[int]], str]
    end_id: int
    reader: Callable[[], Reader]

    @property
    def parts(self) -> Any:
        return self.own.parts


def open_base(place: str | None, report_progress: ProgressReporter) -> Base:
    """The model in a folder or a GGUF file, that of a checkpoint, or the installed SmolLM2. PublishedProblem or
    CheckpointProblem if that is not possible."""
    if place is None or Path(place).suffix == ".gguf" or (Path(place) / "config.json").is_file():
        return _open_published(place, report_progress)
    return _open_stories(place, report_progress)


def find_stories() -> str | None:
    """The newest GPT that was trained on stories; None without one."""
    return next((folder.name for folder in list_checkpoints() if _is_stories_gpt(folder)), None)


def _is_stories_gpt(folder: Path) -> bool:
    try:
        data = read_record(folder)
        return Design.from_data(data["design"]).kind == "gpt" and data["record"]["corpus"]["kind"] == STORIES
    except (CheckpointProblem, KeyError):
        return False


def _open_published(place: str | None, report_progress: ProgressReporter) -> Base:
    place = str(Path(place).resolve()) if place else None
    source = find_source(Path(place) if place else None)
    own = find_own_parts((*EARLIER, *EXERCISES, *source.loading, *TUNING), report_progress)
    with closing_after_failure(own):
        published = build(source, own)
        parts, tokenizer = own.parts, published.tokenizer
        [end_id] = tokenizer.encode(CHAT_TOKENS[1], allow_special=True)

        def prompt_ids(prompt: str) -> list[int]:
            return list(parts.chat_ids(tokenizer, [{"role": "user", "content": prompt}]))

        return Base(
            "published", place, source.name, published.model, own, prompt_ids, tokenizer.encode, tokenizer.decode,
            end_id, lambda: CachedReader(published.model),
        )  # fmt: skip


def _open_stories(place: str, report_progress: ProgressReporter) -> Base:
    folder = find_checkpoint(place)
    data = read_record(folder)
    if not _is_stories_gpt(folder):
        raise TuneProblem(f"{folder.name} is not a GPT that was trained on the stories; leave out --text and --model")
    exercises = (
        *model_exercises(Design.from_data(data["design"])), *tokenizer_exercises(data["tokenizer"]["kind"]),
    )  # fmt: skip
    own = find_own_parts({*exercises, *TUNING}, report_progress)
    with closing_after_failure(own):
        return stories_base(place, checkpoint.load(folder, own.parts), own)


def stories_base(place: str, loaded: Loaded, own: OwnParts) -> Base:
    """A GPT of the stories as a base. An answer follows a space, as sentences of a story do."""
    tokenizer = loaded.tokenizer
    assert tokenizer.end_id is not None
    return Base(
        "stories", place, loaded.name, loaded.model, own,
        lambda prompt: [*tokenizer.start_ids, *tokenizer.encode(prompt)], lambda answer: tokenizer.encode(f" {answer}"),
        lambda ids: tokenizer.decode(ids).strip(), tokenizer.end_id, lambda: PlainReader(loaded.model),
    )  # fmt: skip
