# variant: a table with one row for each rank
import torch


def gather_parameters(shards, shapes, group):
    table = torch.stack(group.all_gather(torch.cat(tuple(shards))))
    whole, start = [], 0
    for shard, shape in zip(shards, shapes):
        numbers = table[:, start : start + len(shard)].flatten()
        whole.append(numbers[: torch.Size(shape).numel()].reshape(torch.Size(shape)))
        start += len(shard)
    return whole


# variant: written number range by number range into empty tensors
import torch


def gather_parameters(shards, shapes, group):
    buffer = torch.cat([s for s in shards])
    received = group.all_gather(buffer)
    results = [torch.empty(*shape, dtype=buffer.dtype) if len(shape) else torch.empty((), dtype=buffer.dtype) for shape in shapes]
    for rank in range(group.size):
        vector = received[rank]
        for shard, result in zip(shards, results):
            k = shard.shape[0]
            flat = result.view(-1)
            place = flat[rank * k : (rank + 1) * k]
            place.copy_(vector[: len(place)])
            vector = vector[k:]
    return results


# variant: one index for all
import math

import torch


def gather_parameters(shards, shapes, group):
    lengths = [s.numel() for s in shards]
    everything = torch.cat(group.all_gather(torch.cat(list(shards))))
    row, whole = sum(lengths), []
    for i, shape in enumerate(shapes):
        numbers = torch.arange(math.prod(shape))
        rank = numbers // max(lengths[i], 1)
        whole.append(everything[rank * row + sum(lengths[:i]) + numbers % max(lengths[i], 1)].reshape(list(shape)))
    return whole
