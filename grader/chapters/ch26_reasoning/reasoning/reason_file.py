"""The checkpoint of a run: `checkpoints/NAME/reason.safetensors`, replaced as a whole.

Its tensors are the models (`start.` and those of the recipes) and, until the run is finished, the states of their
optimizers (`optimizer.start.` and so on). The record is JSON in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.chapters.ch26_reasoning.reasoning.passing import DRAWS, MOST_QUESTIONS, SHOWN_QUESTIONS
from grader.chapters.ch26_reasoning.reasoning.rewarding import RECIPES
from grader.chapters.ch26_reasoning.reasoning.sums import MOST_TOKENS
from grader.course.status import short_path
from grader.files import UserProblem, problem, write_whole
from grader.models import checkpoint
from grader.models.file_values import (
    ValueProblem,
    check,
    explaining_damage,
    finite,
    list_of,
    number,
    optional,
    positive,
    require_finite,
    string,
    table,
    whole,
)
from torch import Tensor

FILE, FORMAT = "reason.safetensors", "1"
OPTIMIZER = "optimizer."
AGAIN = "run `headway reason` again, with another --name"
TEST = table(
    {
        "step": whole(0, 1_000_000_000), "right": list_of(whole(0, DRAWS), MOST_QUESTIONS), "entropy": finite(),
        "length": number(0, MOST_TOKENS), "samples": list_of(string(MOST_TOKENS), SHOWN_QUESTIONS),
    }
)  # fmt: skip
VALUES = {
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "answer_steps": whole(1, 1_000_000_000),
    "reward_steps": whole(1, 1_000_000_000), "questions": optional(whole(1, MOST_QUESTIONS)),
    "losses": list_of(finite()), "checks": list_of(number(0, 1)), "start": optional(TEST),
    "outcomes": table({name: list_of(list_of(finite(), 3)) for name in RECIPES}),
    "tests": table({name: list_of(TEST, 100) for name in RECIPES}),
    "seconds": table({name: number(0, 1e12) for name in ("answers", "rewards", "tests")}),
    "parts": table({"learner": list_of(string()), "reference": list_of(string())}), "headway": string(),
}  # fmt: skip
NEEDED = [
    *(f"record.{name}" for name in VALUES if name not in ("headway", "start", "questions")),
    *(f"record.{of}.{name}" for of in ("outcomes", "tests") for name in RECIPES),
]

Values = dict[str, Tensor]


class ReasonProblem(UserProblem):
    """The run cannot begin or go on; the message is a sentence."""

    exit_status = 1


def save(folder: Path, record: Mapping[str, Any], tensors: Values) -> None:
    """Write the file. ReasonProblem if that is not possible; an earlier one then stays."""
    from safetensors.torch import save as to_bytes

    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write(folder / FILE, to_bytes(copies, {"format": FORMAT, "record": json.dumps(record)}))


def write(path: Path, content: str | bytes) -> None:
    """ReasonProblem if that is not possible."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise ReasonProblem(problem(error, f"write {short_path(path)}")) from None


def read(name: str | None) -> tuple[str, dict[str, Any], Values]:
    """The name, the record and the tensors of the run of this name, or of the latest. ReasonProblem if there is none,
    or if its file is damaged or of another kind."""
    from safetensors import safe_open

    found = list_runs()
    if name is None and not found:
        raise ReasonProblem("there is no run to go on with; `headway reason` makes one")
    folder = checkpoint.CHECKPOINTS / name if name else found[0]
    where = short_path(folder / FILE)
    if not (folder / FILE).is_file():
        names = ", ".join(one.name for one in found[:6])
        raise ReasonProblem(
            f"there is no run {name!r}; " + (f"you have {names}" if names else "`headway reason` makes one")
        )
    with explaining_damage(where, ReasonProblem, AGAIN), safe_open(folder / FILE, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # it is no dict
    if "record" not in metadata:
        raise ReasonProblem(f"{where} was not written by `headway reason`")
    if metadata.get("format") != FORMAT:
        raise ReasonProblem(f"{where} was written by another version of Headway; {AGAIN}")
    try:
        record = json.loads(metadata["record"])
    except (ValueError, RecursionError):
        raise ReasonProblem(f"the record in {where} is damaged; {AGAIN}") from None
    try:
        check({"record": record}, {"record": table(VALUES)}, where, NEEDED)
    except ValueProblem as trouble:
        raise ReasonProblem(f"{trouble}; {AGAIN}") from None
    models = {key: tensor for key, tensor in tensors.items() if not key.startswith(OPTIMIZER)}
    require_finite(models, where, ReasonProblem, AGAIN)
    return folder.name, record, tensors


def list_runs() -> list[Path]:
    """The folders with a run, the newest first."""
    found = [path.parent for path in checkpoint.CHECKPOINTS.glob(f"*/{FILE}")]
    return sorted(found, key=lambda folder: (folder / FILE).stat().st_mtime, reverse=True)
