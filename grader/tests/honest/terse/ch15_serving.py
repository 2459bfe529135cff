"""Chapter 15 in the terse style: as short as it can be read; the other exercises are the reference's."""

import torch
from torch import nn


def residual_distribution(target, draft):
    left = torch.maximum(target - draft, torch.zeros_like(target))
    equal = left.sum(-1) == 0
    left = torch.where(equal[..., None], target, left)
    return left / left.sum(-1, keepdim=True)


def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    def race(probs):
        waits = torch.empty(probs.shape, dtype=torch.float64).exponential_(generator=generator)
        return int((probs / waits).argmax())

    if len(drafted) == 0:
        return [race(target_probs[0])]
    first = int(drafted[0])
    chance = min(1.0, float(target_probs[0, first] / draft_probs[0, first]))
    if float(torch.rand((), generator=generator, dtype=torch.float64)) < chance:
        return [first] + accept_drafts(target_probs[1:], draft_probs[1:], list(drafted)[1:], generator)
    return [race(residual_distribution(target_probs[0], draft_probs[0]))]


class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.both = torch.full((2, n_blocks, n_heads, block_size, d_head), -7.0, dtype=dtype)
        self.block_size = block_size
        self.available = set(range(n_blocks))
        self.users = {}

    k = property(lambda self: self.both[0])
    v = property(lambda self: self.both[1])
    n_free = property(lambda self: len(self.available))

    def allocate(self):
        try:
            block = self.available.pop()
        except KeyError:
            raise RuntimeError("every block is in use") from None
        self.users[block] = 1
        return block

    def share(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] += 1

    def free(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] -= 1
        if self.users[block] < 1:
            self.users.pop(block)
            self.available.add(block)

    def holders(self, block):
        return self.users.get(block, 0)


def quantize_int8(weight):
    scale = torch.linalg.vector_norm(weight, ord=float("inf"), dim=1) / 127.0
    quotient = torch.nan_to_num(weight / scale.unsqueeze(1))
    codes = torch.sign(quotient) * torch.floor(quotient.abs() + 0.5)
    return codes.clip(-127, 127).type(torch.int8), scale


class QuantizedLinear(nn.Module):
    @torch.no_grad()
    def __init__(self, linear):
        super().__init__()
        codes, scale = quantize_int8(linear.weight)
        for name, value in (("weight", codes), ("scale", scale), ("bias", linear.bias)):
            self.register_buffer(name, None if value is None else value.detach().clone())

    def forward(self, x):
        out = x @ self.weight.T.type_as(x)
        out = out * self.scale.type_as(x)
        if self.bias is not None:
            out = out + self.bias.type_as(x)
        return out
