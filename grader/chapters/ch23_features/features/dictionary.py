"""The sparse autoencoder on the states of the stories' model: its steps, and its file.

States are divided by one number before it reads them, so that each of their numbers has a variance of 1 on average.
`checkpoints/NAME/features.safetensors` has its parameters and the state of AdamW (`optimizer.`); the record is JSON in
the file's metadata. The file is replaced as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch23_features.features.opened import FeaturesProblem
from grader.chapters.run_file import OPTIMIZER, RunFile, Values, with_prefix
from grader.models.file_values import ANY, finite, list_of, named, number, optional, positive, string, table, whole
from torch import Tensor, nn

BATCH_STATES = 1024
PEAK, WARMUP_STEPS, FALLING_SHARE = 3e-3, 20, 0.3  # the learning rate; it falls to 0 at the end
FILE, PAGE = "features.safetensors", "features.html"
AGAIN = "run `headway features` again"
VALUES = {
    "base": string(), "layer": whole(0, 1 << 10), "n_features": whole(1, 1 << 20), "k": whole(1, 1 << 20),
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "story_batches": whole(0, 1 << 20), "scale": positive(),
    "losses": list_of(finite()), "seconds": named(number(0, 1e12)), "headway": string(),
    "examined": optional(table({})), "probed": optional(table({})), "notes": list_of(string()), "shown": ANY,
}  # fmt: skip
NEEDED = VALUES.keys() - {"headway", "shown"}
FILES = RunFile(FILE, "headway features", "there are no features", AGAIN, FeaturesProblem, VALUES, NEEDED)


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
    parameters: Values
    optimizer: Values


def save(folder: Path, saved: Saved) -> None:
    """Write the file. FeaturesProblem if that is not possible; an earlier one then stays."""
    optimizer = {OPTIMIZER + name: tensor for name, tensor in saved.optimizer.items()}
    FILES.save(folder, saved.record, saved.parameters | optimizer)


def read(name: str | None) -> Saved:
    """The run of this name, or the latest. FeaturesProblem if it does not exist, or if the file is damaged or of
    another kind."""
    name, record, tensors = FILES.read(name)
    parameters = {key: tensor for key, tensor in tensors.items() if not key.startswith(OPTIMIZER)}
    return Saved(name, record, parameters, with_prefix(tensors, OPTIMIZER))


def fill(autoencoder: nn.Module, saved: Saved) -> None:
    """Give the autoencoder its saved values. FeaturesProblem if they are of other parameters."""
    own = dict(autoencoder.named_parameters())
    if {name: each.shape for name, each in own.items()} != {name: t.shape for name, t in saved.parameters.items()}:
        raise FeaturesProblem(f"the features {saved.name} do not fit your SparseAutoencoder any more; {AGAIN}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(saved.parameters[name])
