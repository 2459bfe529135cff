"""The states of a published model on the sentences of a subject, computed once: `.headway/states/`.

The file has the state at the last token after every block, for as many sentences as there was time for, and a checksum
of them. A damaged file, or one of other sentences or another model, is computed again; without a place to write, the
next run computes it again. It has at most MOST_BYTES.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from grader.chapters.ch23_features.features.opened import Opened
from grader.course.status import short_path
from grader.course.syllabus import ROOT
from grader.files import NotWritten, problem, write_whole
from torch import Tensor

FOLDER = ROOT / ".headway" / "states"
FORMAT = "1"
MOST_BYTES = 100_000_000


def path_of(opened: Opened) -> Path:
    return FOLDER / f"{opened.name}.safetensors"


def fingerprint(opened: Opened, sentences: Sequence[str]) -> str:
    """Of the sentences and of the model's weights: a few rows of each table, because reading all of them takes
    longer than reading the cache."""
    digest = hashlib.sha256("\n".join((FORMAT, *sentences)).encode())
    for name, parameter in sorted(opened.model.named_parameters()):
        digest.update(name.encode() + parameter.detach().reshape(-1)[:64].float().numpy().tobytes())
    return digest.hexdigest()


def read(opened: Opened, sentences: Sequence[str]) -> tuple[Tensor | None, str | None]:
    """The states (sentences, n_layers + 1, D) that the file has; None without a usable file, and a sentence if there
    is a damaged one."""
    from safetensors import SafetensorError, safe_open

    path = path_of(opened)
    if not path.is_file():
        return None, None
    try:
        with safe_open(path, framework="pt") as file:
            metadata, states = file.metadata() or {}, file.get_tensor("states")
        if metadata.get("checksum") != _checksum(states) or not states.isfinite().all():
            raise ValueError
    except (OSError, SafetensorError, ValueError, OverflowError):
        return None, f"{short_path(path)} is damaged, so the states of {opened.name} are computed again."
    return (states if metadata.get("fingerprint") == fingerprint(opened, sentences) else None), None


def write(opened: Opened, sentences: Sequence[str], states: Tensor) -> str | None:
    """Replace the file; a sentence if that is not possible."""
    from safetensors.torch import save as to_bytes

    path, states = path_of(opened), states.contiguous()
    if states.numel() * states.element_size() > MOST_BYTES:
        return None
    metadata = {"fingerprint": fingerprint(opened, sentences), "checksum": _checksum(states)}
    try:
        write_whole(path, to_bytes({"states": states}, metadata), durable=False)
    except NotWritten as error:
        doing = f"write {short_path(path)}"
        return f"Headway {problem(error, doing)}; the next run computes the states of {opened.name} again."
    return None


def _checksum(states: Tensor) -> str:
    return hashlib.sha256(states.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
