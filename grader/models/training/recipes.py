"""What the user asked for in a training, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from grader.models.design import Design, preset
from grader.models.training.corpora import PAIRS, STORIES


@dataclass(frozen=True)
class Recipe:
    """How a model of some size is trained."""

    rows: int  # of a batch: stories, windows of a text, or sentences
    pieces: int  # smaller batches that it goes through the model in
    peak: float  # learning rate
    warmup: int = 20  # steps
    floor_share: float = 0.05  # the last learning rate, as a share of the peak
    max_norm: float = 1.0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    optimizer: str = "adamw"
    schedule: str = "cosine"

    def to_data(self) -> dict[str, Any]:
        """Without the parts of chapter 20 that it does not have, as in a Design."""
        return {name: value for name, value in asdict(self).items() if name not in USUAL or value != USUAL[name]}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Recipe:
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
        }
        return cls(**values)


USUAL = {"optimizer": "adamw", "schedule": "cosine"}
RECIPES = {
    "mini": Recipe(rows=32, pieces=2, peak=6e-3),
    "tiny": Recipe(rows=32, pieces=2, peak=6e-3),
    "small": Recipe(rows=32, pieces=4, peak=1.5e-3, warmup=50),
}
TRANSLATE_RECIPE = Recipe(rows=64, pieces=2, peak=2e-3)  # sentences are short
MINUTES = {"mini": 2.0, "tiny": 2.0, "small": 20.0}


@dataclass(frozen=True)
class Settings:
    """A training, as the user described it. Everything that decides about the losses is in the checkpoint."""

    kind: str = "gpt"
    size: str = "tiny"
    text: Path | None = None  # None: the stories, or the sentence pairs of a translator
    tokens: str | None = None
    positions: str | None = None
    norm: str | None = None
    heads: int | None = None
    layers: int | None = None
    dropout: float | None = None
    rows: int | None = None  # of a batch, instead of the recipe's
    warmup: int | None = None  # steps, instead of the recipe's
    attention: str | None = None
    soft_cap: float | None = None
    predict_tokens: int | None = None
    optimizer: str | None = None
    schedule: str | None = None
    minutes: float | None = None
    steps: int | None = None  # with minutes too: as many as another training planned for these minutes
    seed: int = 0

    def design(self) -> Design:
        """The model. DesignProblem if the choices do not fit together."""
        return preset(
            self.size,
            self.kind,
            positions=self.positions,
            norm=self.norm,
            n_heads=self.heads,
            n_layers=self.layers,
            dropout=self.dropout,
            attention=self.attention,
            soft_cap=self.soft_cap,
            predict_tokens=self.predict_tokens,
        )

    def recipe(self) -> Recipe:
        recipe = TRANSLATE_RECIPE if self.kind == "translate" else RECIPES[self.size]
        recipe = replace(
            recipe, optimizer=self.optimizer or recipe.optimizer, schedule=self.schedule or recipe.schedule
        )
        if self.rows is not None:
            recipe = replace(recipe, rows=self.rows, pieces=min(recipe.pieces, self.rows))
        if self.warmup is not None:
            return replace(recipe, warmup=self.warmup)
        if self.steps is not None and self.minutes is None:
            return replace(recipe, warmup=min(recipe.warmup, self.steps // 5))
        return recipe

    @property
    def corpus_kind(self) -> str:
        return PAIRS if self.kind == "translate" else "text" if self.text else STORIES

    def token_kind(self) -> str:
        return self.tokens or ("bpe" if self.text else "words")

    def default_name(self) -> str:
        """A name that says what is special about this training: "stories-rope"."""
        corpus = self.text.stem if self.text else self.corpus_kind
        words = [
            corpus,
            self.size if self.size != "tiny" else "",
            self.kind if self.kind == "moe" else "",
            self.positions or "",
            f"{self.norm}-norm" if self.norm else "",
            self.tokens or "",
            (f"{self.heads}-head" + "s" * (self.heads > 1)) if self.heads else "",
            (f"{self.layers}-layer" + "s" * (self.layers > 1)) if self.layers else "",
            f"dropout-{self.dropout:g}" if self.dropout is not None else "",
            f"batch-{self.rows}" if self.rows else "",
            f"warmup-{self.warmup}" if self.warmup is not None else "",
            self.attention or "",
            f"cap-{self.soft_cap:g}" if self.soft_cap is not None else "",
            f"predict-{self.predict_tokens}" if self.predict_tokens else "",
            self.optimizer or "",
            self.schedule or "",
        ]
        allowed = "".join(c if c.isalnum() or c in "-_." else "-" for c in "-".join(filter(None, words)))
        return allowed.strip("-.") or "model"
