"""A trained model as a folder: `checkpoints/NAME/`.

    model.safetensors     the parameters, each once
    optimizer.safetensors what `headway train --resume` needs: the state of AdamW
    checkpoint.json       the design, the tokenizer, and the record: corpus, steps, losses, samples, whose parts

Each file is replaced as a whole, the record last: a folder without a record is no checkpoint.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from grader.course.status import short_path
from grader.course.syllabus import ROOT
from grader.files import UserProblem, problem, write_whole
from grader.models.design import Design, DesignProblem, build_model, parameters_by_name
from grader.models.file_values import (
    Kind,
    ValueProblem,
    check,
    explaining_damage,
    file_path,
    finite,
    list_of,
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
from grader.models.tokenizers import ModelTokenizer, TokenizerProblem, check_tokenizer, tokenizer_from_data
from grader.models.training.corpora import PAIRS, STORIES
from torch import Tensor, nn

MOST_STEPS = 1_000_000_000
_STEP, _LOSS = whole(0, MOST_STEPS), Kind("a number", lambda v: type(v) in (int, float))

RECIPE = {
    "rows": whole(1, 1 << 12), "pieces": whole(1, 1 << 12), "peak": positive(), "warmup": whole(0, MOST_STEPS),
    "floor_share": number(0, 1), "max_norm": positive(), "weight_decay": number(0, 1e9),
    "betas": pair(number(0, 1), number(0, 1)), "optimizer": one_of(("adamw", "muon")),
    "schedule": one_of(("cosine", "wsd")),
}  # fmt: skip
CORPUS = {
    "kind": one_of((STORIES, PAIRS, "text")), "seed": whole(0, 2**31 - 1), "path": file_path(), "fingerprint": string(),
}  # fmt: skip
HISTORY = {
    "losses": list_of(finite()), "norms": list_of(_LOSS), "validation": list_of(pair(_STEP, _LOSS)),
    "samples": list_of(pair(_STEP, string(100_000))), "tokens": whole(0, 1 << 60), "seconds": number(0, 1e12),
}  # fmt: skip
PARTS = {"learner": list_of(string()), "reference": list_of(string())}
VALUES = {
    "name": string(), "corpus": table(CORPUS), "title": string(), "prompt": string(100_000),
    "seed": whole(0, 2**31 - 1), "steps": optional(whole(1, MOST_STEPS)), "minutes": optional(positive()),
    "steps_done": _STEP, "finished": yes_or_no(), "recipe": table(RECIPE), "device": string(),
    "parameters": whole(1, 1 << 50), "history": table(HISTORY), "judgement": optional(string()),
    "parts": table(PARTS), "headway": string(), "torch": string(),
}  # fmt: skip
OF_TEXT = ("corpus.path", "corpus.fingerprint")
MEASURED = ("corpus.kind", "corpus.seed", "parameters", *(f"history.{name}" for name in HISTORY))
RESUMED = (*MEASURED, "seed", "steps", "minutes", "recipe.rows", "recipe.pieces", "recipe.peak")


CHECKPOINTS = ROOT / "checkpoints"
MODEL, OPTIMIZER, RECORD = "model.safetensors", "optimizer.safetensors", "checkpoint.json"
FORMAT = 1
AGAIN = "train the model again"


class CheckpointProblem(UserProblem):
    """The checkpoint cannot be read or written; the message is a sentence."""

    exit_status = 1


@dataclass
class Loaded:
    model: nn.Module
    tokenizer: ModelTokenizer
    design: Design
    record: dict[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name


# ---- writing


def save(
    folder: Path,
    model: nn.Module,
    tokenizer: ModelTokenizer,
    design: Design,
    record: Mapping[str, Any],
    optimizer: dict[str, Tensor] | None = None,
) -> None:
    """Write the checkpoint. CheckpointProblem if that is not possible; an earlier one in this folder then stays."""
    from safetensors.torch import save as to_bytes

    tensors = {name: parameter.detach().cpu().contiguous() for name, parameter in parameters_by_name(model).items()}
    data = {
        "format": FORMAT,
        "design": design.to_data(),
        "tokenizer": tokenizer.to_data(),
        "record": dict(record),
    }
    try:
        write_whole(folder / MODEL, to_bytes(tensors))
        if optimizer is not None:
            write_whole(folder / OPTIMIZER, to_bytes(optimizer))
        write_whole(folder / RECORD, json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty
        raise CheckpointProblem(problem(error, f"write the checkpoint {short_path(folder)}")) from None


# ---- reading


def read_record(folder: Path, needed: Collection[str] = ()) -> dict[str, Any]:
    """The whole of `checkpoint.json`, checked as far as that is possible without the other files. CheckpointProblem if
    it is not usable, or a needed value of the record is missing."""
    where = short_path(folder)
    if not folder.is_dir():
        raise CheckpointProblem(f"there is no checkpoint {where}")
    try:
        data = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointProblem(f"{where} is not a checkpoint: it has no {RECORD}") from None
    except OSError as error:
        raise CheckpointProblem(problem(error, f"read {where}/{RECORD}")) from None
    except (ValueError, RecursionError):
        raise CheckpointProblem(f"{where}/{RECORD} is damaged; {AGAIN}") from None
    number = data.get("format") if isinstance(data, dict) else None
    if not isinstance(number, int) or not all(
        isinstance(data.get(name), dict) for name in ("design", "tokenizer", "record")
    ):
        raise CheckpointProblem(f"{where}/{RECORD} was not written by `headway train`")
    if number > FORMAT:
        raise CheckpointProblem(
            f"{where} was written by a newer version of Headway (its format is {number}, this "
            f"version reads {FORMAT}); update Headway"
        )
    try:
        Design.from_data(data["design"])
        check_tokenizer(data["tokenizer"])
        check(data["record"], VALUES, f"{where}/{RECORD}", needed, "record.")
        if "corpus.kind" in needed and data["record"]["corpus"]["kind"] == "text":
            check(data["record"], VALUES, f"{where}/{RECORD}", OF_TEXT, "record.")
    except ValueProblem as trouble:
        raise CheckpointProblem(f"{trouble}; {AGAIN}") from None
    except (DesignProblem, TokenizerProblem) as trouble:
        raise CheckpointProblem(f"{where}/{RECORD} is damaged: {trouble}; {AGAIN}") from None
    return data


def load(folder: Path, parts: Any) -> Loaded:
    """The model with its weights, in eval mode, on the CPU. CheckpointProblem if the folder is damaged, foreign or
    newer."""
    data, where = read_record(folder), short_path(folder)
    design = Design.from_data(data["design"])
    try:
        tokenizer = tokenizer_from_data(parts, data["tokenizer"])
    except TokenizerProblem as trouble:
        raise CheckpointProblem(f"{where}/{RECORD} cannot be used: {trouble}") from None
    tensors = _read_tensors(folder, MODEL)
    require_enough(tensors, design, tokenizer.vocab_size, f"{where}/{MODEL}")
    model = build_model(parts, design, tokenizer.vocab_size)
    fill_parameters(model, tensors, f"{where}/{MODEL}")
    return Loaded(model.eval(), tokenizer, design, data["record"], folder)


def fill_parameters(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy the tensors into the parameters of these names."""
    require_finite(tensors, where, CheckpointProblem, AGAIN)
    own = parameters_by_name(model)
    if missing := own.keys() - tensors.keys():
        raise CheckpointProblem(
            f"{where} has no {min(missing)}, which this model needs; was it trained with other code?"
        )
    if unused := tensors.keys() - own.keys():
        raise CheckpointProblem(
            f"{where} has {min(unused)}, which this model does not have; was it trained with other code?"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            if tensors[name].shape != parameter.shape:
                raise CheckpointProblem(
                    f"{where}: {name} has the shape {tuple(tensors[name].shape)}, and this model "
                    f"needs {tuple(parameter.shape)}"
                )
            parameter.copy_(tensors[name])


def require_enough(tensors: Mapping[str, Tensor], design: Design, vocab_size: int, where: str) -> None:
    """CheckpointProblem if the file is too small for a model of this design, before such a model is built."""
    found, needed = sum(tensor.numel() for tensor in tensors.values()), design.least_numbers(vocab_size)
    if found < needed or len(tensors) < design.n_layers:
        raise CheckpointProblem(
            f"{where} has {found:,} numbers in {len(tensors):,} tensors, and this model needs more: it has "
            f"{design.n_layers:,} layers and at least {needed:,} numbers; are these files of different models?"
        )


def read_optimizer(folder: Path) -> dict[str, Tensor]:
    """The state of the optimizer; an empty one if it is missing or damaged."""
    with contextlib.suppress(CheckpointProblem):
        return _read_tensors(folder, OPTIMIZER)
    return {}


def _read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    from safetensors.torch import load as from_bytes

    if not (folder / name).is_file():
        raise CheckpointProblem(f"{short_path(folder)} is not complete: it has no {name}")
    with explaining_damage(f"{short_path(folder)}/{name}", CheckpointProblem, AGAIN):
        return from_bytes((folder / name).read_bytes())


# ---- finding


def list_checkpoints() -> list[Path]:
    """The checkpoints, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        found = [path for path in CHECKPOINTS.iterdir() if (path / RECORD).is_file() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: (path / RECORD).stat().st_mtime, reverse=True)


def find_checkpoint(word: str | None) -> Path:
    """The checkpoint with this name, or in this folder; the newest if nothing is named. CheckpointProblem if there is
    none."""
    known = list_checkpoints()
    if word is None:
        if not known:
            raise CheckpointProblem("there is no checkpoint yet; `headway train` makes one")
        return known[0]
    for folder in (CHECKPOINTS / word, Path(word).expanduser()):
        if folder.is_dir():
            return folder
    names = [path.name for path in known]
    near = get_close_matches(word, names, n=1)
    if near:
        raise CheckpointProblem(f"there is no checkpoint {word!r}; did you mean {near[0]}?")
    raise CheckpointProblem(
        f"there is no checkpoint {word!r}; "
        + (f"you have {', '.join(names[:6])}" if names else "`headway train` makes one")
    )
