"""Adapters in a model: put there, given values, and merged into its layers; and their file.

`checkpoints/NAME/adapters.safetensors` has the adapters and what a resumed tuning needs. The file is replaced as a
whole, so its parts always belong together. Its tensors are the adapters, their values at the beginning of the phase of
rewards (`start.`), and the state of AdamW (`optimizer.`); the record is JSON in its metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.tasks import TuneProblem
from grader.chapters.run_file import OPTIMIZER, RunFile, Values, with_prefix
from grader.models.file_values import (
    file_path,
    finite,
    list_of,
    named,
    number,
    one_of,
    optional,
    pair,
    positive,
    string,
    table,
    whole,
    yes_or_no,
)
from torch import nn

ADAPTER_EXERCISES = ("LoRALinear", "add_lora")
ADAPTED_LAYERS = ("W_q", "W_k", "W_v", "W_out", "gate", "up", "down")
RANK, ALPHA = 8, 16
FILE = "adapters.safetensors"
START = "start."
_NUMBERS = list_of(finite())
EVALUATION = {"right": list_of(yes_or_no(), 10_000), "samples": list_of(pair(string(), string(100_000)), 100)}
VALUES = {
    "kind": one_of(("published", "stories")), "base": optional(file_path()), "task": one_of(("sums", "format")),
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "answer_steps": whole(1, 1_000_000),
    "steps": optional(whole(1, 1_000_000)), "losses": _NUMBERS, "rewards": _NUMBERS, "kls": _NUMBERS,
    "seconds": named(number(0, 1e12)), "headway": string(),
    "evaluations": list_of(table(EVALUATION), 3), "questions": optional(whole(1, 10_000)),
    "may_take_longer": yes_or_no(), "prompts": whole(0, 10_000_000),
}  # fmt: skip
NEEDED = VALUES.keys() - {"headway", "questions", "may_take_longer", "prompts"}
FILES = RunFile(FILE, "headway tune", "there are no adapters", "tune the model again", TuneProblem, VALUES, NEEDED)


@dataclass(frozen=True)
class Saved:
    name: str
    record: dict[str, Any]
    adapters: Values
    start: Values
    optimizer: Values


def add_adapters(parts: Any, model: nn.Module) -> dict[str, nn.Parameter]:
    """Put adapters into the model; return their parameters by name, such as "blocks.0.attn.W_q.A"."""
    layers = parts.add_lora(model, RANK, ALPHA, ADAPTED_LAYERS)
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


# ---- the file


def save(folder: Path, saved: Saved) -> None:
    """Write the file. TuneProblem if that is not possible; an earlier one then stays."""
    tensors = dict(saved.adapters)
    for prefix, more in ((START, saved.start), (OPTIMIZER, saved.optimizer)):
        tensors |= {prefix + name: tensor for name, tensor in more.items()}
    FILES.save(folder, saved.record, tensors)


def read(name: str | None) -> Saved:
    """The tuning of this name, or the latest. TuneProblem if it does not exist, or if the file is damaged or of another
    kind."""
    name, record, tensors = FILES.read(name)
    adapters = {key: tensor for key, tensor in tensors.items() if not key.startswith((START, OPTIMIZER))}
    return Saved(name, record, adapters, with_prefix(tensors, START), with_prefix(tensors, OPTIMIZER))
