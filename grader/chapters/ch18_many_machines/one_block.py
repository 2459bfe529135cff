"""A transformer block divided among simulated ranks: what each rank has, sends and computes."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from grader.chapters.ch18_many_machines.counting import CountedGroup, count_calls
from grader.execution.simulated_group import Group, run_ranks
from torch import Tensor, nn


class Block(nn.Module):
    """A block with chapter 3's attention, which can be divided among ranks."""

    def __init__(self, ln1: nn.Module, attention: nn.Module, ln2: nn.Module, feed_forward: nn.Module) -> None:
        super().__init__()
        self.ln1, self.attention, self.ln2, self.feed_forward = ln1, attention, ln2, feed_forward

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x), mask=mask)
        return x + self.feed_forward(self.ln2(x))


def make_block(parts: Any, d_model: int, n_heads: int) -> Block:
    attention, feed_forward = parts.MultiHeadAttention(d_model, n_heads), parts.FeedForward(d_model)
    return Block(parts.LayerNorm(d_model), attention, parts.LayerNorm(d_model), feed_forward)


def run_block_in_parts(parts: Any, whole: Block, x: Tensor, size: int) -> list[SimpleNamespace]:
    """Run a forward and a backward pass of the block on `size` ranks with tensor parallelism, x (B, T, D) on each."""
    mask = parts.causal_mask(x.size(1))

    def run(block: nn.Module) -> tuple[Tensor, Tensor]:
        own = x.clone().requires_grad_()
        output = block(own, mask)
        output.square().mean().backward()
        return output.detach(), own.grad

    output, gradient = run(whole)

    def run_part(group: Group) -> SimpleNamespace:
        counted = CountedGroup(group)
        block = Block(
            copy.deepcopy(whole.ln1),
            parts.TensorParallelAttention(whole.attention, counted),
            copy.deepcopy(whole.ln2),
            parts.TensorParallelFeedForward(whole.feed_forward, counted),
        )
        mine, my_gradient = run(block)
        return SimpleNamespace(
            parameters=parameter_bytes(block),  # bytes
            calls=count_calls(counted.messages),
            shape=tuple(counted.messages[0].tensor.shape),  # of the tensors that it sends
            sent=counted.ring_bytes(),
            output_differs=(mine - output).abs().max().item(),  # from the whole block's, at most
            gradient_differs=(my_gradient - gradient).abs().max().item(),
        )

    return run_ranks(run_part, size)[0]


def parameter_bytes(module: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
