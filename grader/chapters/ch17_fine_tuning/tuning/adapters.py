"""Adapters in a model: put there, given values, and merged into its layers; and their file.

`checkpoints/NAME/adapters.safetensors` has the adapters and what a resumed tuning needs. The file is replaced as a
whole, so its parts always belong together. Its tensors are the adapters, their values at the beginning of the phase of
rewards (`start.`), and the state of AdamW (`optimizer.`); the record is JSON in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.tasks import TuneProblem
from grader.course.status import short_path
from grader.files import problem, write_whole
from grader.models import checkpoint
from grader.models.file_values import (
    ValueProblem,
    check,
    explaining_damage,
    file_path,
    finite,
    list_of,
    named,
    number,
    one_of,
    optional,
    pair,
    positive,
    require_finite,
    string,
    table,
    whole,
    yes_or_no,
)
from torch import Tensor, nn

ADAPTER_EXERCISES = ("LoRALinear", "add_lora")
ADAPTED_LAYERS = ("W_q", "W_k", "W_v", "W_out", "gate", "up", "down")
RANK, ALPHA = 8, 16
FILE = "adapters.safetensors"
FORMAT = "1"
AGAIN = "tune the model again"
START, OPTIMIZER = "start.", "optimizer."
_NUMBERS = list_of(finite())
EVALUATION = {"right": list_of(yes_or_no(), 10_000), "samples": list_of(pair(string(), string(100_000)), 100)}
VALUES = {
    "kind": one_of(("published", "stories")), "base": optional(file_path()), "task": one_of(("sums", "format")),
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "answer_steps": whole(1, 1_000_000),
    "steps": optional(whole(1, 1_000_000)), "losses": _NUMBERS, "rewards": _NUMBERS, "kls": _NUMBERS,
    "seconds": named(number(0, 1e12)), "headway": string(),
    "evaluations": list_of(table(EVALUATION), 3), "questions": optional(whole(1, 10_000)),
}  # fmt: skip
NEEDED = VALUES.keys() - {"headway", "questions"}

Values = dict[str, Tensor]


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
    from safetensors.torch import save as to_bytes

    tensors = dict(saved.adapters)
    for prefix, more in ((START, saved.start), (OPTIMIZER, saved.optimizer)):
        tensors |= {prefix + name: tensor for name, tensor in more.items()}
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    data = to_bytes(tensors, {"format": FORMAT, "record": json.dumps(saved.record)})
    try:
        write_whole(folder / FILE, data)
    except OSError as error:
        raise TuneProblem(problem(error, f"write {short_path(folder / FILE)}")) from None


def read(name: str) -> Saved:
    """The tuning of this name. TuneProblem if it does not exist, or if the file is damaged or of another kind."""
    from safetensors import safe_open

    folder = checkpoint.CHECKPOINTS / name
    where = short_path(folder / FILE)
    if not (folder / FILE).is_file():
        names = ", ".join(one.name for one in list_tunings()[:6])
        known = f"you have {names}" if names else "`headway tune` makes one"
        raise TuneProblem(f"there are no adapters {name!r}; {known}")
    with explaining_damage(where, TuneProblem, AGAIN), safe_open(folder / FILE, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # it is no dict
    if "record" not in metadata:
        raise TuneProblem(f"{where} was not written by `headway tune`")
    if metadata.get("format") != FORMAT:
        raise TuneProblem(f"{where} was written by another version of Headway; {AGAIN}")
    groups: dict[str, dict[str, Tensor]] = {START: {}, OPTIMIZER: {}, "": {}}
    for key, tensor in tensors.items():
        prefix = next(prefix for prefix in groups if key.startswith(prefix))
        groups[prefix][key.removeprefix(prefix)] = tensor
    try:
        record = json.loads(metadata["record"])
    except (ValueError, RecursionError):
        raise TuneProblem(f"the record in {where} is damaged; {AGAIN}") from None
    try:
        check({"record": record}, {"record": table(VALUES)}, where, [f"record.{name}" for name in NEEDED])
    except ValueProblem as trouble:
        raise TuneProblem(f"{trouble}; {AGAIN}") from None
    require_finite(groups[""], where, TuneProblem, AGAIN)
    require_finite(groups[START], where, TuneProblem, AGAIN)
    return Saved(name, record, groups[""], groups[START], groups[OPTIMIZER])


def list_tunings() -> list[Path]:
    """The folders with adapters, the newest first."""
    found = [path.parent for path in checkpoint.CHECKPOINTS.glob(f"*/{FILE}")]
    return sorted(found, key=lambda folder: (folder / FILE).stat().st_mtime, reverse=True)
