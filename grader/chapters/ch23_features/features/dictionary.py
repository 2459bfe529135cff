"""The sparse autoencoder on the states of the stories' model: its steps, and its file.

States are divided by one number before it reads them, so that each of their numbers has a variance of 1 on average.
`checkpoints/NAME/features.safetensors` has its parameters and the state of AdamW (`optimizer.`); the record is JSON in
the file's metadata. The file is replaced as a whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch23_features.features.opened import FeaturesProblem
from grader.course.status import short_path
from grader.files import problem, write_whole
from grader.models import checkpoint
from grader.models.file_values import (
    ANY,
    ValueProblem,
    check,
    explaining_damage,
    finite,
    list_of,
    named,
    number,
    optional,
    positive,
    require_finite,
    string,
    table,
    whole,
)
from torch import Tensor, nn

BATCH_STATES = 1024
PEAK, WARMUP_STEPS, FALLING_SHARE = 3e-3, 20, 0.3  # the learning rate; it falls to 0 at the end
FILE, PAGE = "features.safetensors", "features.html"
FORMAT, OPTIMIZER = "1", "optimizer."
AGAIN = "run `headway features` again"
VALUES = {
    "base": string(), "layer": whole(0, 1 << 10), "n_features": whole(1, 1 << 20), "k": whole(1, 1 << 20),
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "story_batches": whole(0, 1 << 20), "scale": positive(),
    "losses": list_of(finite()), "seconds": named(number(0, 1e12)), "headway": string(),
    "examined": optional(table({})), "probed": optional(table({})), "notes": list_of(string()), "shown": ANY,
}  # fmt: skip
NEEDED = VALUES.keys() - {"headway", "shown"}


def find_scale(states: Tensor) -> float:
    """The root of the mean variance of a number of these states."""
    return max(float((states - states.mean(0)).square().mean().sqrt()), 1e-6)


def make_autoencoder(parts: Any, states: Tensor, scale: float, n_features: int, k: int, seed: int) -> nn.Module:
    """A new one, whose b_dec is the mean of these states."""
    torch.manual_seed(seed)
    made = parts.SparseAutoencoder(states.size(1), n_features, k)
    with torch.no_grad():
        made.b_dec.copy_(states.mean(0) / scale)
    return made  # type: ignore[no-any-return]


def make_optimizer(parts: Any, autoencoder: nn.Module) -> Any:
    return parts.AdamW(autoencoder.parameters(), lr=0.0, betas=(0.9, 0.999), weight_decay=0.0)


def train_step(
    autoencoder: Any, optimizer: Any, states: Tensor, scale: float, seed: int, step: int, done: float
) -> float:
    """One update on states that are drawn for this step; `done` is the share of the training before it. Return the
    share of the batch's variance that is not explained, before the update."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    x = states[torch.randint(len(states), (BATCH_STATES,), generator=generator)] / scale
    for group in optimizer.param_groups:
        group["lr"] = PEAK * min((step + 1) / WARMUP_STEPS, (1 - done) / FALLING_SHARE, 1.0)
    reconstruction, _ = autoencoder(x)
    loss = (x - reconstruction).square().sum(-1).mean() / (x - x.mean(0)).square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    autoencoder.project_gradient()
    optimizer.step()
    autoencoder.normalise()
    return float(loss.detach())


# ---- the file


@dataclass(frozen=True)
class Saved:
    name: str
    record: dict[str, Any]
    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]


def save(folder: Path, saved: Saved) -> None:
    """Write the file. FeaturesProblem if that is not possible; an earlier one then stays."""
    from safetensors.torch import save as to_bytes

    tensors = saved.parameters | {OPTIMIZER + name: tensor for name, tensor in saved.optimizer.items()}
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    try:
        write_whole(folder / FILE, to_bytes(tensors, {"format": FORMAT, "record": json.dumps(saved.record)}))
    except OSError as error:
        raise FeaturesProblem(problem(error, f"write {short_path(folder / FILE)}")) from None


def read(name: str) -> Saved:
    """The run of this name. FeaturesProblem if it does not exist, or if the file is damaged or of another kind."""
    from safetensors import safe_open

    path = checkpoint.CHECKPOINTS / name / FILE
    where = short_path(path)
    if not path.is_file():
        names = ", ".join(one.name for one in list_runs()[:6])
        known = f"you have {names}" if names else "`headway features` makes them"
        raise FeaturesProblem(f"there are no features {name!r}; {known}")
    with explaining_damage(where, FeaturesProblem, AGAIN), safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # it is no dict
    if metadata.get("format") != FORMAT or "record" not in metadata:
        raise FeaturesProblem(f"{where} was not written by this version of `headway features`; {AGAIN}")
    try:
        record = json.loads(metadata["record"])
        check({"record": record}, {"record": table(VALUES)}, where, [f"record.{name}" for name in NEEDED])
    except (ValueError, RecursionError):
        raise FeaturesProblem(f"the record in {where} is damaged; {AGAIN}") from None
    except ValueProblem as trouble:
        raise FeaturesProblem(f"{trouble}; {AGAIN}") from None
    parameters = {key: tensor for key, tensor in tensors.items() if not key.startswith(OPTIMIZER)}
    require_finite(parameters, where, FeaturesProblem, AGAIN)
    optimizer = {key.removeprefix(OPTIMIZER): each for key, each in tensors.items() if key.startswith(OPTIMIZER)}
    return Saved(name, record, parameters, optimizer)


def fill(autoencoder: nn.Module, saved: Saved) -> None:
    """Give the autoencoder its saved values. FeaturesProblem if they are of other parameters."""
    own = dict(autoencoder.named_parameters())
    if {name: each.shape for name, each in own.items()} != {name: t.shape for name, t in saved.parameters.items()}:
        raise FeaturesProblem(f"the features {saved.name} do not fit your SparseAutoencoder any more; {AGAIN}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(saved.parameters[name])


def list_runs() -> list[Path]:
    """The folders with features, the newest first."""
    found = [path.parent for path in checkpoint.CHECKPOINTS.glob(f"*/{FILE}")]
    return sorted(found, key=lambda folder: (folder / FILE).stat().st_mtime, reverse=True)
