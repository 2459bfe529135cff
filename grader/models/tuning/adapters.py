"""Adapters in a model: put there, given values, and merged into its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from grader.models.tuning.checkpoint import Saved
from grader.models.tuning.tasks import TuneProblem
from torch import Tensor, nn

ADAPTERS = ("LoRALinear", "add_lora")  # the exercises
NAMES = ("W_q", "W_k", "W_v", "W_out", "gate", "up", "down")  # of the linear layers that get adapters
RANK, ALPHA = 8, 16

Values = dict[str, Tensor]


def add_adapters(parts: Any, model: nn.Module) -> dict[str, nn.Parameter]:
    """Put adapters into the model; return their parameters by name, such as "blocks.0.attn.W_q.A"."""
    layers = parts.add_lora(model, RANK, ALPHA, NAMES)
    return {f"{layer}.{part}": getattr(model.get_submodule(layer), part) for layer in layers for part in "AB"}


@contextmanager
def values_of(adapters: dict[str, nn.Parameter], values: Values) -> Iterator[None]:
    """Inside, the adapters have these values: the model is as it was then. For passes without gradient."""
    own = {name: parameter.data for name, parameter in adapters.items()}
    try:
        for name, parameter in adapters.items():
            parameter.data = values[name]
        yield
    finally:
        for name, parameter in adapters.items():
            parameter.data = own[name]


def fill(adapters: Mapping[str, nn.Parameter], saved: Saved) -> None:
    """Give the adapters their saved values. TuneProblem if they belong to another model."""
    if {name: each.shape for name, each in adapters.items()} != {name: t.shape for name, t in saved.adapters.items()}:
        raise TuneProblem(f"the adapters {saved.name} do not fit this model; were they made for another one?")
    with torch.no_grad():
        for name, parameter in adapters.items():
            parameter.copy_(saved.adapters[name])


def find_place(saved: Saved, place: Path | None) -> Path | None:
    """Where the published model of these adapters is: in `place`, or where they were made; None for the installed
    SmolLM2. TuneProblem if they belong to a stories' model."""
    if saved.record.get("kind") != "published":
        raise TuneProblem(f"the adapters {saved.name} belong to a model that writes stories, which cannot chat")
    made = saved.record.get("base")
    return place or (Path(made) if made else None)


def merge(parts: Any, model: nn.Module, saved: Saved) -> None:
    """Change the model as these adapters say; it has no adapters afterwards. TuneProblem if they do not fit."""
    fill(add_adapters(parts, model), saved)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, parts.LoRALinear):
            model.set_submodule(name, layer.merged())
    model.eval().requires_grad_(False)
