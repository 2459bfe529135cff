"""The models that are looked into: a GPT that `headway train` made from stories, and SmolLM2 if it is installed.

Both are made of the learner's parts, which are tested once for everything that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.ch16_published_model.published import opening
from grader.chapters.ch16_published_model.published.source import PublishedProblem, Source
from grader.chapters.ch17_fine_tuning.tuning.base import find_stories
from grader.chapters.stories.corpus import validation_stories
from grader.console.output import ProgressReporter
from grader.files import UserProblem
from grader.models import checkpoint
from grader.models.checkpoint import find_checkpoint, read_record
from grader.models.design import Design
from grader.models.own_parts import (
    OwnParts,
    closing_after_failure,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.tokenizers import ModelTokenizer
from grader.models.training.corpora import STORIES, StoryCorpus, collate_by_length, story_windows
from torch import Tensor, nn

CHAPTER = (
    "SparseAutoencoder", "explained_variance", "dead_features", "top_contexts", "fit_probe", "probe_score",
    "mean_direction", "steer",
)  # fmt: skip
OTHERS = ("AdamW", "next_token_pairs", "collate", "is_validation", "residual_stream")
BATCH_STORIES = 32
PADDING = -100  # the target where a row has ended


class FeaturesProblem(UserProblem):
    """The models cannot be looked into; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Opened:
    """A model and its tokenizer."""

    name: str
    kind: str  # "stories" or "published"
    model: nn.Module
    tokenizer: Any

    @property
    def n_layers(self) -> int:
        return len(self.model.blocks)  # type: ignore[arg-type]

    def ids(self, text: str) -> list[int]:
        start = self.tokenizer.start_ids if self.kind == "stories" else []
        return [*start, *self.tokenizer.encode(text)]

    def logits(self, ids: Tensor) -> Tensor:
        result = self.model(ids)
        return result[0] if isinstance(result, tuple) else result


@dataclass(frozen=True)
class Models:
    own: OwnParts
    stories: Opened
    corpus: StoryCorpus
    published: Opened | None  # None if SmolLM2 is not installed
    missing: str | None  # why it is None

    @property
    def parts(self) -> Any:
        return self.own.parts

    @property
    def probed(self) -> Opened:
        """The model for probes and steering."""
        return self.published or self.stories


def open_models(place: str | None, report_progress: ProgressReporter) -> Models:
    """The stories' model in this checkpoint, by default the newest one, and SmolLM2. CheckpointProblem,
    FeaturesProblem or PublishedProblem if that is not possible."""
    folder = find_checkpoint(place or find_stories())
    data = read_record(folder)
    design = Design.from_data(data["design"])
    record = data["record"]
    if design.kind != "gpt" or record.get("corpus", {}).get("kind") != STORIES:
        raise FeaturesProblem(f"{folder.name} is not a GPT that was trained on the stories; choose another --base")
    source, missing = _find_published()
    exercises = {*model_exercises(design), *tokenizer_exercises(data["tokenizer"]["kind"]), *CHAPTER, *OTHERS}
    if source:
        exercises |= {*opening.EARLIER, *opening.EXERCISES, *source.loading}
    own = find_own_parts(exercises, report_progress)
    with closing_after_failure(own):
        loaded = checkpoint.load(folder, own.parts)
        loaded.model.requires_grad_(False)
        stories = Opened(folder.name, "stories", loaded.model, loaded.tokenizer)
        seed = record["corpus"].get("seed", 0)
        corpus = StoryCorpus(own.parts, "words", seed, BATCH_STORIES, 1, design.max_len, loaded.tokenizer)
        published = None
        if source:
            built = opening.build(source, own)
            published = Opened(built.name, "published", built.model, built.tokenizer)
        return Models(own, stories, corpus, published, missing)


def _find_published() -> tuple[Source | None, str | None]:
    try:
        opening.installed_file()
    except PublishedProblem as problem:
        return None, str(problem)
    return opening.find_source(None), None


# ---- stories


def story_states(models: Models, layer: int, step: int) -> Tensor:
    """The states after this block at every token of a batch of training stories: (N, D)."""
    found = []
    for inputs, targets in models.corpus.batch(step):
        stream = models.parts.residual_stream(models.stories.model, inputs)
        found.append(stream[layer + 1][targets != PADDING])
    return torch.cat(found)


@dataclass(frozen=True)
class HeldOut:
    """Held-out stories, each a row."""

    inputs: Tensor  # (B, T)
    targets: Tensor  # (B, T), PADDING behind the end

    @property
    def mask(self) -> Tensor:
        return self.targets != PADDING

    def part(self, rows: slice | Tensor) -> HeldOut:
        return HeldOut(self.inputs[rows], self.targets[rows])


def text_rows(opened: Opened, text: str) -> HeldOut:
    """A text as one row."""
    ids = torch.tensor([opened.ids(text)])
    return HeldOut(ids[:, :-1], ids[:, 1:])


def held_out_stories(models: Models, count: int) -> HeldOut:
    """Stories that neither the model nor the autoencoder has read."""
    corpus, parts = models.corpus, models.parts
    texts = validation_stories(corpus.seed, parts.is_validation, count)
    windows = story_windows(parts, corpus.tokenizer, texts, corpus.max_len)
    [(inputs, targets)] = collate_by_length(parts, windows, 1)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))  # they were sorted by length
    return HeldOut(inputs[order], targets[order])


def token_names(tokenizer: ModelTokenizer, texts: Tensor) -> dict[int, str]:
    """How each token of these rows is usually written, without spaces around it."""
    counts: Counter[tuple[int, str]] = Counter()
    for row in texts.tolist():
        counts.update(zip(row, map(str.strip, tokenizer.pieces(row))))
    names: dict[int, str] = {}
    for (token, piece), _ in counts.most_common():
        names.setdefault(token, piece)
    for token in tokenizer.start_ids:
        names[token] = "<start>"
    if tokenizer.end_id is not None:
        names[tokenizer.end_id] = "<end>"
    return names


def pieces_of(tokenizer: ModelTokenizer, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text; the marks at its ends are shown."""
    marks = {token: "<start>" for token in tokenizer.start_ids}
    if tokenizer.end_id is not None:
        marks[tokenizer.end_id] = "<end>"
    return [marks.get(token, piece) for token, piece in zip(ids, tokenizer.pieces(ids))]
