"""One training step of a small GPT on several ranks, in three ways, with what each rank keeps and sends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.ch18_many_machines.counting import CountedGroup
from grader.execution.simulated_group import Group, run_ranks
from torch import Tensor, nn

PLAIN, SHARDED_STATE, FULLY_SHARDED = WAYS = ("plain", "ShardedAdamW", "fully sharded")
LEARNING_RATE = 1e-3


def train_one_step(parts: Any, way: str, model: nn.Module, ids: Tensor, size: int) -> list[SimpleNamespace]:
    """Do one step on `size` simulated ranks, each with its rows of ids.

    Return what each rank keeps and sends, in bytes, and what it has computed.
    """
    return run_ranks(lambda group: _train(parts, way, copy.deepcopy(model), ids, group), size)[0]


def _train(parts: Any, way: str, model: nn.Module, ids: Tensor, group: Group) -> SimpleNamespace:
    counted = CountedGroup(group)
    lengths = {name: sum(own.numel() for own in part.parameters(recurse=False)) for name, part in model.named_modules()}
    if way == FULLY_SHARDED:
        shard_linears(parts, model, counted)
    rows = parts.shard_batch(ids, group.rank, group.size)
    _, loss = model(rows[:, :-1], rows[:, 1:])
    loss.backward()
    shards = [parameter for name, parameter in model.named_parameters() if name.endswith(".shard")]
    for shard in shards:
        shard.grad /= group.size  # the layer has added up the gradients of all ranks
    whole = [parameter for name, parameter in model.named_parameters() if not name.endswith(".shard")]
    parts.average_gradients(nn.ParameterList(whole), counted)
    if way == SHARDED_STATE:
        optimizer = parts.ShardedAdamW(model.parameters(), counted, lr=LEARNING_RATE)
    else:
        optimizer = parts.AdamW(model.parameters(), lr=LEARNING_RATE)
    gradient = _whole_vector(parts, model, lengths, group, lambda parameter: parameter.grad)
    optimizer.step()
    kept = list(model.parameters())
    state = [optimizer.m, optimizer.v] if way == SHARDED_STATE else [*kept, *kept]  # AdamW: m and v of each number
    sizes = {
        "weights": _bytes(kept),
        "gradients": _bytes([parameter.grad for parameter in kept]),
        "state": _bytes(state),
    }
    return SimpleNamespace(
        **sizes,
        kept=sum(sizes.values()),
        rows=len(rows),
        loss=loss.item(),
        messages=counted.messages,
        sent=counted.ring_bytes(),
        gradient=gradient,  # of the whole model, as one vector
        updated=_whole_vector(parts, model, lengths, group, lambda parameter: parameter.detach()),  # after the step
    )


def shard_linears(parts: Any, model: nn.Module, group: Any) -> None:
    """Replace every linear layer in the model's blocks by a FullyShardedLinear."""
    for block in model.blocks:
        for module in list(block.modules()):
            for name, layer in list(module.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(module, name, parts.FullyShardedLinear(layer, group))


def _bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _whole_vector(
    parts: Any, model: nn.Module, lengths: dict[str, int], group: Group, of: Callable[[nn.Parameter], Tensor]
) -> Tensor:
    """What `of` gives for each parameter of the whole model, in an order that sharding does not change."""
    pieces = []
    for name, part in model.named_modules():
        own = [of(parameter).flatten() for parameter in part.parameters(recurse=False)]
        if hasattr(part, "shard"):
            own = parts.gather_parameters(own, [(lengths[name],)], group)
        pieces += own
    return torch.cat(pieces)
