"""A trained model as a folder: `checkpoints/NAME/`.

    model.safetensors     the parameters, each once
    checkpoint.json       the design, the tokenizer, and the record: corpus, steps, losses, samples, whose parts
    training.safetensors  what `--resume` needs besides: the optimizer's state and the random generators

A folder is written under another name and then renamed, so a checkpoint is complete or it is the one before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from grader.course.status import short_path
from grader.course.syllabus import ROOT
from grader.files import UserProblem, problem
from grader.models.design import Design, DesignProblem, build_model, parameters_by_name
from grader.models.tokenizers import ModelTokenizer, TokenizerProblem, tokenizer_from_data
from torch import Tensor, nn

CHECKPOINTS = ROOT / "checkpoints"
MODEL, RECORD, TRAINING = "model.safetensors", "checkpoint.json", "training.safetensors"
FORMAT = 1


class CheckpointProblem(UserProblem):
    """The checkpoint cannot be read or written; the message is a sentence."""

    exit_status = 1


@dataclass
class TrainingState:
    """What a training needs to go on: tensors and plain JSON data."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


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
    training: TrainingState | None = None,
) -> None:
    """Write the checkpoint; an earlier one in this folder is replaced only when the new one is complete."""
    from safetensors.torch import save as to_bytes

    files = {
        MODEL: to_bytes(
            {name: parameter.detach().cpu().contiguous() for name, parameter in parameters_by_name(model).items()}
        )
    }
    if training is not None:
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in training.tensors.items()}
        files[TRAINING] = to_bytes(tensors, {"data": json.dumps(training.data)})
    data = {
        "format": FORMAT,
        "design": design.to_data(),
        "tokenizer": tokenizer.to_data(),
        "fingerprint": tokenizer.fingerprint,
        "record": dict(record),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[RECORD] = (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode()
    try:
        _write_folder(folder, files)
    except OSError as error:
        raise CheckpointProblem(problem(error, f"write the checkpoint {short_path(folder)}")) from None


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _restore_previous(folder)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        for name, content in files.items():
            with open(new / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        os.chmod(new, 0o755)
        previous = _previous(folder)
        if folder.exists():
            os.rename(folder, previous)
        os.rename(new, folder)
        shutil.rmtree(previous, ignore_errors=True)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    for left in folder.parent.glob(f".{folder.name}.*.tmp"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)


def _previous(folder: Path) -> Path:
    """The name that the old checkpoint has for the moment in which the new one gets its place."""
    return folder.with_name(f".{folder.name}.previous")


def _restore_previous(folder: Path) -> None:
    """After a process was killed between the two renames, the old checkpoint gets its name again."""
    previous = _previous(folder)
    with contextlib.suppress(OSError):
        if previous.is_dir() and not folder.exists():
            os.rename(previous, folder)
        elif previous.is_dir():
            shutil.rmtree(previous, ignore_errors=True)


# ---- reading


def read_record(folder: Path) -> dict[str, Any]:
    """The whole of `checkpoint.json`, checked as far as that is possible without the other files. CheckpointProblem if
    it is not usable."""
    _restore_previous(folder)
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
        raise CheckpointProblem(f"{where}/{RECORD} is damaged; train the model again") from None
    number = data.get("format") if isinstance(data, dict) else None
    if not isinstance(number, int) or not all(
        isinstance(data.get(name), dict) for name in ("design", "tokenizer", "record", "files")
    ):
        raise CheckpointProblem(f"{where}/{RECORD} was not written by `headway train`")
    if number > FORMAT:
        raise CheckpointProblem(
            f"{where} was written by a newer version of Headway (its format is {number}, this "
            f"version reads {FORMAT}); update Headway"
        )
    return data


def load(folder: Path, parts: Any) -> Loaded:
    """The model with its weights, in eval mode, on the CPU. CheckpointProblem if the folder is damaged, foreign or
    newer."""
    data, where = read_record(folder), short_path(folder)
    try:
        design = Design.from_data(data["design"])
        tokenizer = tokenizer_from_data(parts, data["tokenizer"])
    except (DesignProblem, TokenizerProblem) as trouble:
        raise CheckpointProblem(f"{where}/{RECORD} is damaged: {trouble}") from None
    if data.get("fingerprint") != tokenizer.fingerprint:
        raise CheckpointProblem(
            f"{where}/{RECORD} is damaged: its tokenizer is not the one that the model was trained with"
        )
    tensors, _ = _read_tensors(folder, MODEL, data)
    model = build_model(parts, design, tokenizer.vocab_size)
    fill_parameters(model, tensors, f"{where}/{MODEL}")
    return Loaded(model.eval(), tokenizer, design, data["record"], folder)


def load_training(folder: Path) -> TrainingState:
    """What `--resume` needs. CheckpointProblem if the checkpoint has none."""
    data = read_record(folder)
    if not (folder / TRAINING).is_file():
        raise CheckpointProblem(f"{short_path(folder)} cannot be resumed: it has no {TRAINING}")
    tensors, metadata = _read_tensors(folder, TRAINING, data)
    try:
        return TrainingState(tensors, json.loads(metadata["data"]))
    except (KeyError, ValueError):
        raise CheckpointProblem(f"{short_path(folder)}/{TRAINING} is damaged; train the model again") from None


def fill_parameters(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy the tensors into the parameters of these names. A matrix that is used twice may have either of its names."""
    names: dict[int, list[str]] = {}
    own = dict(model.named_parameters(remove_duplicate=False))
    for name, parameter in own.items():
        names.setdefault(id(parameter), []).append(name)
    unused = set(tensors)
    with torch.no_grad():
        for group in names.values():
            parameter, stored = own[group[0]], [name for name in group if name in tensors]
            if not stored:
                raise CheckpointProblem(
                    f"{where} has no {group[0]}, which this model needs; was it trained with other code?"
                )
            tensor = tensors[stored[0]]
            if tensor.shape != parameter.shape:
                raise CheckpointProblem(
                    f"{where}: {stored[0]} has the shape {tuple(tensor.shape)}, and this model "
                    f"needs {tuple(parameter.shape)}"
                )
            parameter.copy_(tensor)
            unused -= set(group)
    if unused:
        raise CheckpointProblem(
            f"{where} has {min(unused)}, which this model does not have; was it trained with other code?"
        )


def _read_tensors(folder: Path, name: str, data: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    where = f"{short_path(folder)}/{name}"
    try:
        content = (folder / name).read_bytes()
    except FileNotFoundError:
        raise CheckpointProblem(f"{short_path(folder)} is not complete: it has no {name}") from None
    except OSError as error:
        raise CheckpointProblem(problem(error, f"read {where}")) from None
    if hashlib.sha256(content).hexdigest() != data["files"].get(name):
        raise CheckpointProblem(f"{where} is damaged, or belongs to another checkpoint; train the model again")
    try:
        return from_bytes(content), _metadata(content)
    except (SafetensorError, ValueError, KeyError) as trouble:
        raise CheckpointProblem(f"{where} is damaged ({trouble}); train the model again") from None


def _metadata(content: bytes) -> dict[str, str]:
    size = int.from_bytes(content[:8], "little")
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))


# ---- finding


def list_checkpoints(folder: Path = CHECKPOINTS) -> list[Path]:
    """The checkpoints, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        found = [path for path in folder.iterdir() if (path / RECORD).is_file() and not path.name.startswith(".")]
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
        _restore_previous(folder)
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
