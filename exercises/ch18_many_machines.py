"""Chapter 18: one model on several processes.

Several processes run the same code at the same time, each with its own tensors. They are the ranks 0 ... n - 1 of a `group`, which
has `group.rank`, `group.size` = n, and calls that all ranks make together, in the same order:

    group.all_reduce(t)         the sum of all ranks' t
    group.all_gather(t)         the list of all ranks' t
    group.reduce_scatter(t)     this rank's part of the sum: the first axis of t, a multiple of n, is cut into n equal parts
    group.broadcast(t, source)  the t of rank `source`

Two calls join two ranks: group.send(t, to), which does not wait, and group.receive(shape, source), which waits for what was sent and
returns it. The tensors that these calls return are new and have no graph: gradients do not flow through the calls by themselves. The
tests simulate a group; if its ranks do not make the same calls, they print which rank waits for what.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch18_many_machines.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from .ch05_layers import FeedForward, gelu


def ring_all_reduce(t: Tensor, group) -> Tensor:
    """Return the sum of all ranks' t, with group.send and group.receive only. Every rank sends to the next one, the last to rank 0.

    The numbers of t are cut into n parts whose sizes differ by at most one, on all ranks in the same way. In n - 1 steps each rank
    sends one part, receives another one, and adds it to its own numbers of that part; then each rank has one part of the sum. In n - 1
    more steps the finished parts go around. So a rank sends 2 (n - 1) parts, about 2 (n - 1) / n of t. The result has the shape and
    the dtype of t, which has no graph and does not change.
    """
    # TODO 1: cut a flat t into n parts; find the ranks before and after this one
    # TODO 2: in step s, send part (rank - s) mod n, and add what arrives to part (rank - s - 1) mod n
    # TODO 3: in step s, send part (rank + 1 - s) mod n, and replace part (rank - s) mod n by what arrives
    # TODO 4: put the parts together
    raise NotImplementedError


def shard_batch(ids: Tensor, rank: int, size: int) -> Tensor:
    """Return this rank's rows of a batch: (B, ...) -> (about B / size, ...).

    The ranks' rows, one after the other, are the batch. If size does not divide B, the first B mod size ranks get one row more than
    the others; so with fewer rows than ranks, the last ranks get none.
    """
    # TODO 1: compute how many rows each rank gets at least, and how many ranks get one more
    # TODO 2: compute where this rank's rows begin and end
    raise NotImplementedError


def average_gradients(model: nn.Module, group, bucket_bytes: int = 1 << 20) -> None:
    """Replace each parameter's gradient by the mean over all ranks.

    Every parameter of model.parameters() that needs gradients takes part; one without a gradient on this rank counts as zeros, and
    has a gradient afterwards. All gradients together, in this order, are one long vector, which goes through group.all_reduce in
    pieces of bucket_bytes, a multiple of one number's size; the last piece may be shorter. All gradients have one dtype.
    """
    # TODO 1: collect the parameters that need gradients; give those without a gradient zeros
    # TODO 2: put all gradients into one long vector
    # TODO 3: all-reduce it piece by piece, and divide by the number of ranks
    # TODO 4: copy each gradient back
    raise NotImplementedError


class ShardedAdamW:
    """Chapter 8's AdamW with its state cut into n pieces, one on each rank.

    All parameters together are one long vector of N numbers, padded with zeros to n · k, where k is N / n, rounded up. This rank
    updates the numbers rank · k to (rank + 1) · k. For them it keeps `m` and `v`, each (k,), and between two steps no other tensor of
    that size. A step makes one call: an all_gather, to which each rank gives its k new numbers. `parameters` may be a generator;
    all are of one dtype, and when `step` is called, each has a gradient, the same on all ranks.
    `param_groups` is a list of one dict with "params", "lr", "betas", "eps" and "weight_decay", and every step reads it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        group,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        # TODO 1: keep param_groups and the group; count the numbers, and compute k
        # TODO 2: make m and v for k numbers, and count the steps from 0
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters, in place."""
        # TODO 3: cut this rank's piece out of the parameters and out of the gradients
        # TODO 4: update the piece as AdamW does, with m, v and the step
        # TODO 5: gather all pieces, and copy each parameter's numbers back
        raise NotImplementedError

    def _piece(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return this rank's piece of all these tensors as one long vector, (k,)."""
        # TODO 6: flatten and pad; you may also do it in `step` and leave this out
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set every parameter's gradient to None."""
        # TODO 7: set each gradient to None
        raise NotImplementedError


def gather_parameters(shards: Sequence[Tensor], shapes: Sequence[Sequence[int]], group) -> list[Tensor]:
    """Return the whole tensors, of which each rank has a part, its shard; `shards` has this rank's shard of each tensor.

    `shapes` has each tensor's shape, a tuple or a list, also an empty one. A tensor of N numbers was cut as one flat vector, padded
    with zeros to n · k: rank r has the numbers r · k to (r + 1) · k, its shard, (k,). The padding is not part of the result. There is
    one all_gather for all tensors together; they have one dtype. The results are without gradient.
    """
    # TODO 1: put this rank's shards into one vector, and gather those of all ranks
    # TODO 2: cut every rank's vector into its shards again
    # TODO 3: for each tensor, join the ranks' shards, cut off the padding, and give it its shape
    raise NotImplementedError


class FullyShardedLinear(nn.Module):
    """The same function as a given linear layer, of which each rank keeps only a part: (..., n_in) -> (..., n_out).

    It is made from a whole layer, the same on all ranks, and each rank has its own x. The only parameter is `shard`, this rank's k
    numbers: a copy of its part of weight and bias as one flat vector, cut as gather_parameters expects. The whole weight is gathered
    by one all_gather for the forward pass, and by another for the backward pass; between them no rank keeps it. The gradient of the
    shard is the sum over all ranks, not the mean, by one reduce_scatter: if each rank's loss is a mean over its rows, whoever trains
    divides the shard's gradient by n before the optimizer's step.
    """

    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        # TODO 1: put weight and bias (if there is one) into one vector, pad it, and keep this rank's part of it as a Parameter
        # TODO 2: keep the group and the sizes
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: define a torch.autograd.Function, and apply it to x and the shard
        # TODO 4: its forward gathers weight and bias, applies them, and saves x and the shard only
        # TODO 5: its backward gathers the weight again, computes the gradients of x and of all weights, and gives each rank its part
        #   of the sum of these over all ranks, by reduce_scatter
        raise NotImplementedError


def copy_to_ranks(x: Tensor, group) -> Tensor:
    """Return x, which is the same on all ranks and which each rank will use for its own part of the work.

    The forward pass makes no call. The gradient of the result is summed over all ranks, by one all_reduce in the backward pass. Where x
    itself is used too, as in a residual connection, the gradient of that use is not summed.
    """
    # TODO 1: define a torch.autograd.Function: forward returns x, backward returns the all-reduced gradient
    raise NotImplementedError


def sum_over_ranks(x: Tensor, group) -> Tensor:
    """Return the sum of all ranks' x, by one all_reduce in the forward pass.

    What follows is the same on all ranks, so the gradient of the sum is the same too, and it is the gradient of x. The backward pass
    makes no call.
    """
    # TODO 1: define a torch.autograd.Function: forward returns the all-reduced x, backward returns the gradient
    raise NotImplementedError


class ColumnParallelLinear(nn.Module):
    """A linear layer of which each rank computes some of the outputs: (..., n_in) -> (..., n_out / n).

    It is made from a whole layer, the same on all ranks. Rank r copies the rows r · n_out/n to (r + 1) · n_out/n of its weight, and these
    numbers of its bias, into the Parameters `weight` and `bias` (None without one). x is the same on all ranks, and each rank gets the
    whole gradient of x, by one all_reduce. Raises a ValueError that names out_features and n if n does not divide out_features.
    """

    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        # TODO 1: check the size, and keep this rank's rows as new Parameters
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply the rows to x; the ranks' gradients of x must be added up
        raise NotImplementedError


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank has some of the inputs: (..., n_in / n) -> (..., n_out), the same on all ranks.

    It is made from a whole layer, the same on all ranks. Rank r copies the columns r · n_in/n to (r + 1) · n_in/n of its weight into the
    Parameter `weight`, and the whole bias into the Parameter `bias` (None without one). Its input is this rank's part of the features.
    One all_reduce, forward. Raises a ValueError that names in_features and n if n does not divide in_features.
    """

    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        # TODO 1: check the size, and keep this rank's columns, and the bias, as new Parameters
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply the columns, add up the ranks' results, and add the bias once
        raise NotImplementedError


class TensorParallelFeedForward(nn.Module):
    """Chapter 5's FeedForward with its hidden features divided among the ranks: (..., D) -> (..., D), the same on all ranks.

    It is made from a whole FeedForward without dropout, the same on all ranks. Its parts are `up`, a ColumnParallelLinear, and `down`,
    a RowParallelLinear; the activation is that of the given layer, named by its attribute `activation`. One all_reduce forward, and one backward.
    """

    def __init__(self, feed_forward: FeedForward, group) -> None:
        super().__init__()
        # TODO 1: make the two parts, and keep the activation
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: up, the activation, down
        raise NotImplementedError


class TensorParallelAttention(nn.Module):
    """Chapter 3's MultiHeadAttention with its heads divided among the ranks: (B, T, D) -> (B, T, D), the same on all ranks.

    It is made from a whole MultiHeadAttention without dropout, the same on all ranks. Rank r computes the heads r · H/n to
    (r + 1) · H/n. `W_q`, `W_k` and `W_v` are linear layers, D -> D / n, with these heads' rows, and `W_out` is a RowParallelLinear.
    `mask` is that of chapter 3, the same for all heads: it broadcasts to (B, 1, T, T). One all_reduce forward, and one backward.
    Raises a ValueError that names n_heads and n if n does not divide n_heads.
    """

    def __init__(self, attention: MultiHeadAttention, group) -> None:
        super().__init__()
        # TODO 1: check the number of heads
        # TODO 2: make three linear layers with this rank's rows of weights and biases, and W_out
        raise NotImplementedError

    def _part(self, whole: nn.Linear) -> nn.Linear:
        """Return a layer with this rank's rows."""
        # TODO 3: copy the rows; you may also do it in __init__ and leave this out
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        # TODO 4: copy x to the ranks once; project, split, attend and merge with this rank's heads; apply W_out
        raise NotImplementedError


def pipeline_schedule(n_stages: int, n_micro: int, kind: str = "1f1b") -> list[list[tuple[str, int]]]:
    """Return for each stage of a pipeline what it does in which order: tuples ("forward", m) and ("backward", m).

    Each stage does the forward pass and the backward pass of every micro-batch m = 0 ... n_micro - 1 once, both in this order. With kind
    "gpipe" all forward passes come first. With "1f1b", stage s begins with n_stages - 1 - s forward passes (or n_micro, if that is
    less); then a forward and a backward pass follow each other, until all forward passes are done; the remaining backward
    passes come last. So stage s never keeps more than n_stages - s micro-batches. Another kind raises a ValueError that names it.
    """
    # TODO 1: check the kind
    # TODO 2: compute with how many forward passes each stage begins
    # TODO 3: add pairs of a forward and a backward pass, and then the remaining backward passes
    raise NotImplementedError


def run_stage(
    stage: nn.Module,
    schedule: Sequence[tuple[str, int]],
    group,
    inputs: Sequence[Tensor],
    loss: Callable[[Tensor, int], Tensor],
) -> list[Tensor]:
    """Do one stage's part of a pipeline: rank s runs stage s with its list of pipeline_schedule. Gradients add up in `.grad`.

    A stage's output has the shape of its input. `inputs` are the micro-batches: rank 0 uses them, and the other ranks only their
    shapes. Each output is sent to the next rank, and each gradient of an input to the rank before. On the last rank loss(output, m) is
    the loss of micro-batch m, a scalar, with which its backward pass begins; all losses, detached, are returned there in the order of
    the micro-batches, and an empty list elsewhere. After the backward pass of a micro-batch nothing but its loss is kept.
    """
    # TODO 1: forward: take or receive the input, which needs gradients if it was received; run the stage; send the result or
    #   compute the loss; keep what backward needs
    # TODO 2: backward: begin with the loss or with the received gradient; send the input's gradient
    raise NotImplementedError
