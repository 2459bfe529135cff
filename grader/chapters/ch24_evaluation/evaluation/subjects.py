"""The models that are asked, each opened when its turn comes: SmolLM2 and its kind, checkpoints, adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published import opening
from grader.chapters.ch17_fine_tuning.tuning import adapters
from grader.chapters.ch23_features.features.opened import Opened
from grader.chapters.ch23_features.features.state_cache import fingerprint
from grader.chapters.ch24_evaluation.evaluation.questions import Question
from grader.files import UserProblem
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem, find_checkpoint, list_checkpoints, read_record
from grader.models.design import TABLES, Design
from grader.models.own_parts import OwnParts, model_exercises, tokenizer_exercises
from grader.models.tokenizers import ModelTokenizer
from torch import Tensor, nn

SMOLLM2 = "smollm2"
MOST_MODELS = 6  # that are asked if none is named
CHAPTER = ("choice_score", "score_choices", "bootstrap_interval", "paired_test", "questions_needed")


class Asked(nn.Module):
    """A model and its tokenizer, as `score_choices` uses them. The last result is kept: all kinds need one pass."""

    start_ids: Sequence[int] = ()  # before every text
    longest: int | None = None  # tokens that it has positions for
    _last: tuple[Tensor, Tensor] | None = None

    def __init__(self, name: str, model: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.name, self.model, self.tokenizer = name, model, tokenizer

    def encode(self, text: str) -> list[int]:
        return [*self.start_ids, *self.tokenizer.encode(text)]

    def forward(self, ids: Tensor) -> Tensor:
        if self._last is None or not torch.equal(self._last[0], ids):
            result = self.model(ids)
            logits = result[0] if isinstance(result, tuple) else result
            if not logits.isfinite().all():
                why = "gives probabilities that are not numbers, so its training has failed"
                raise CheckpointProblem(f"{self.name} {why}; train it again with a smaller learning rate")
            self._last = ids.clone(), logits
        return self._last[1]

    def can_read(self, question: Question) -> bool:
        """Whether it knows all words, and has a position for each token."""
        texts = [question.prompt + more for more in question.continuations]
        if isinstance(self.tokenizer, ModelTokenizer) and any(map(self.tokenizer.unknown_words, texts)):
            return False
        return self.longest is None or max(len(self.encode(text)) for text in texts) <= self.longest

    @property
    def fingerprint(self) -> str:
        return fingerprint(Opened(self.name, "asked", self.model, self.tokenizer), [str(self.start_ids)])[:16]


@dataclass(frozen=True)
class Found:
    """A model on disk, and the exercises that run it."""

    name: str
    exercises: frozenset[str]
    open: Callable[[OwnParts], Asked]


def find_models(names: Sequence[str]) -> tuple[list[Found], list[str]]:
    """The models of these names; without a name what is there, and sentences about what is left out. A UserProblem
    with a sentence for a name that no usable model has."""
    if names:
        return [find_model(name) for name in names], []
    found, notes, there = [], list[str](), [folder.name for folder in list_checkpoints()]
    for name in (SMOLLM2, *there[:MOST_MODELS]):
        try:
            found.append(find_model(name))
        except UserProblem as problem:
            notes.append(f"Left out: {problem}.")
    if others := there[MOST_MODELS:] + _names_of_adapters():
        notes.append(f"Models that you name are asked too, such as {', '.join(others[:3])}.")
    if not found:
        raise CheckpointProblem("there is no model to ask; `headway train` makes one, and `headway chat` gets SmolLM2")
    return found, notes


def find_model(name: str) -> Found:
    """SmolLM2, a GGUF file or a folder of Hugging Face, adapters, or a checkpoint."""
    if name.lower() == SMOLLM2:
        return _find_published(None)
    place, own = Path(name).expanduser(), checkpoint.CHECKPOINTS / name
    if place.suffix == ".gguf" or (place / "config.json").is_file():
        return _find_published(place)
    if (own / adapters.FILE).is_file():
        return _find_tuned(name)
    if own.is_dir() or place.is_dir():
        return _find_trained(find_checkpoint(name))
    known = [SMOLLM2, *(folder.name for folder in list_checkpoints()), *_names_of_adapters()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"you have {', '.join(known[:6])}"
    raise CheckpointProblem(f"there is no model {name!r}; {hint}")


def _names_of_adapters() -> list[str]:
    return [path.parent.name for path in adapters.FILES.list()]


def _find_published(place: Path | None) -> Found:
    source = opening.find_source(place)

    def build(own: OwnParts) -> Asked:
        return Asked(source.name, (built := opening.build(source, own)).model, built.tokenizer)

    return Found(source.name, frozenset((*opening.EARLIER, *opening.EXERCISES, *source.loading)), build)


def _find_trained(folder: Path) -> Found:
    data = read_record(folder)
    design = Design.from_data(data["design"])
    if design.kind == "translate":
        raise CheckpointProblem(f"{folder.name} is a translator, which does not go on with a text")
    exercises = {*model_exercises(design), *tokenizer_exercises(data["tokenizer"]["kind"])}

    def load(own: OwnParts) -> Asked:
        loaded = checkpoint.load(folder, own.parts)
        asked = Asked(folder.name, loaded.model.requires_grad_(False), loaded.tokenizer)
        of_text = data["record"].get("corpus", {}).get("kind") == "text"  # which begins without a mark
        asked.start_ids = () if of_text else loaded.tokenizer.start_ids
        asked.longest = design.max_len if design.positions in TABLES else None
        return asked

    return Found(folder.name, frozenset(exercises), load)


def _find_tuned(name: str) -> Found:
    saved = adapters.read(name)
    base, published = saved.record["base"], saved.record["kind"] == "published"
    under = _find_published(Path(base) if base else None) if published else _find_trained(find_checkpoint(base))

    def merged(own: OwnParts) -> Asked:
        asked = under.open(own)
        adapters.merge(own.parts, asked.model, saved)
        asked.name = name
        return asked

    return Found(name, under.exercises | set(adapters.ADAPTER_EXERCISES), merged)

