"""The models of the page: the one that the command names, and the checkpoints that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.models.checkpoint import list_checkpoints
from grader.models.play.engine import Engine, require_same_task
from grader.models.play.session import model_note
from grader.models.play.settings import PlayProblem

INSIDE = ("attention_patterns", "logit_lens", "classify_head")  # a handout may lack chapter 12


class PageModels:
    """Engines by their name on the page; the first one has the name "". Use it in a turn: opening a model imports the
    learner's code."""

    def __init__(
        self, engine: Engine, sentences: list[str], open_other: Callable[[str], tuple[Engine, list[str]]]
    ) -> None:
        self._open_other = open_other
        self._opened = {"": (engine, sentences)}

    @property
    def first(self) -> Engine:
        return self._opened[""][0]

    def engine(self, name: str) -> Engine:
        """An opened model. PlayProblem if this name is none."""
        if name not in self._opened:
            raise PlayProblem(f"the model {name!r} is not open; choose it again under “Compare with”")
        return self._opened[name][0]

    def open(self, name: str) -> None:
        """Load a checkpoint by its name; no other folder can be opened from the page. PlayProblem with a sentence if
        that is not possible."""
        if name in self._opened:
            return
        if name not in self.checkpoints():
            raise PlayProblem(f"there is no checkpoint {name!r}; load the page again to see those that you have")
        other, sentences = self._open_other(name)
        require_same_task(self.first, other)
        self._opened[name] = other, sentences

    def checkpoints(self) -> list[str]:
        return [path.name for path in list_checkpoints()]

    def describe(self, name: str) -> dict[str, Any]:
        """What the page shows of an opened model."""
        engine, sentences = self._opened[name]
        return {
            "model": name,
            "name": engine.name,
            "about": [model_note(engine), *sentences],
            "translates": engine.translates,
            "layers": engine.design.n_layers,
            "heads": engine.design.n_heads,
            "start_ids": engine.start_ids,
            "end_id": engine.tokenizer.end_id,
            "tokenizer": engine.tokenizer.fingerprint,
            "inside": engine.is_plain_gpt and all(hasattr(engine.parts, name) for name in INSIDE),
        }
