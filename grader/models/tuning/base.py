"""The model that is tuned: SmolLM2 or another published model, or a GPT that `headway train` made from stories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem, find_checkpoint, list_checkpoints, read_record
from grader.models.design import Design
from grader.models.own_parts import (
    OwnParts,
    closing_after_failure,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.published.opening import EARLIER, EXERCISES, build, find_source
from grader.models.published.source import CHAT_TOKENS
from grader.models.training.corpora import STORIES
from grader.models.tuning.adapters import ADAPTER_EXERCISES
from grader.models.tuning.answers import CachedReader, PlainReader, Reader
from grader.models.tuning.tasks import TuneProblem
from grader.teaching.walks.progress_line import ProgressReporter
from torch import nn

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
        return data["design"]["kind"] == "gpt" and data["record"]["corpus"]["kind"] == STORIES
    except (CheckpointProblem, KeyError, TypeError):
        return False


def _open_published(place: str | None, report_progress: ProgressReporter) -> Base:
    place = str(Path(place).resolve()) if place else None
    source = find_source(Path(place) if place else None)
    own = find_own_parts((*EARLIER, *EXERCISES, *TUNING), report_progress)
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
        *model_exercises(Design.from_data(data["design"])), *tokenizer_exercises(data["tokenizer"].get("kind", "")),
    )  # fmt: skip
    own = find_own_parts({*exercises, *TUNING}, report_progress)
    with closing_after_failure(own):
        loaded = checkpoint.load(folder, own.parts)
        tokenizer = loaded.tokenizer
        assert tokenizer.end_id is not None
        return Base(
            "stories", place, folder.name, loaded.model, own,
            lambda prompt: [*tokenizer.start_ids, *tokenizer.encode(prompt)], tokenizer.encode,
            tokenizer.decode, tokenizer.end_id, lambda: PlainReader(loaded.model),
        )  # fmt: skip
