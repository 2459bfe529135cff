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
    ### BEGIN SOLUTION
    n, rank = group.size, group.rank
    parts = list(t.flatten().tensor_split(n))
    before, after = (rank - 1) % n, (rank + 1) % n
    for step in range(n - 1):
        sent, added = (rank - step) % n, (rank - step - 1) % n
        group.send(parts[sent], after)
        parts[added] = parts[added] + group.receive(parts[added].shape, before)
    for step in range(n - 1):
        sent, replaced = (rank + 1 - step) % n, (rank - step) % n
        group.send(parts[sent], after)
        parts[replaced] = group.receive(parts[replaced].shape, before)
    return torch.cat(parts).view(t.shape)
    ### END SOLUTION


def shard_batch(ids: Tensor, rank: int, size: int) -> Tensor:
    """Return this rank's rows of a batch: (B, ...) -> (about B / size, ...).

    The ranks' rows, one after the other, are the batch. If size does not divide B, the first B mod size ranks get one row more than
    the others; so with fewer rows than ranks, the last ranks get none.
    """
    # TODO 1: compute how many rows each rank gets at least, and how many ranks get one more
    # TODO 2: compute where this rank's rows begin and end
    ### BEGIN SOLUTION
    least, more = divmod(ids.size(0), size)
    start = rank * least + min(rank, more)
    return ids[start : start + least + (rank < more)]
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if not parameters:
        return
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
    pieces = flat.split(max(bucket_bytes // flat.element_size(), 1))
    flat = torch.cat([group.all_reduce(piece) for piece in pieces]) / group.size
    for parameter, mean in zip(parameters, flat.split([parameter.numel() for parameter in parameters])):
        parameter.grad.copy_(mean.view_as(parameter))
    ### END SOLUTION


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
        ### BEGIN SOLUTION
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [{"params": list(parameters), **options}]
        self.group, self.t = group, 0
        params = self.param_groups[0]["params"]
        self.k = math.ceil(sum(parameter.numel() for parameter in params) / group.size)
        self.m, self.v = params[0].new_zeros(self.k), params[0].new_zeros(self.k)
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters, in place."""
        # TODO 3: cut this rank's piece out of the parameters and out of the gradients
        # TODO 4: update the piece as AdamW does, with m, v and the step
        # TODO 5: gather all pieces, and copy each parameter's numbers back
        ### BEGIN SOLUTION
        options = self.param_groups[0]
        params, lr, (b1, b2) = options["params"], options["lr"], options["betas"]
        piece, g = self._piece(params), self._piece([parameter.grad for parameter in params])
        self.t += 1
        self.m, self.v = b1 * self.m + (1 - b1) * g, b2 * self.v + (1 - b2) * g.square()
        piece = piece * (1 - lr * options["weight_decay"])
        moved = (self.m / (1 - b1**self.t)) / ((self.v / (1 - b2**self.t)).sqrt() + options["eps"])
        flat = torch.cat(self.group.all_gather(piece - lr * moved))
        start = 0
        for parameter in params:
            parameter.copy_(flat[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
        ### END SOLUTION

    def _piece(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return this rank's piece of all these tensors as one long vector, (k,)."""
        # TODO 6: flatten and pad; you may also do it in `step` and leave this out
        ### BEGIN SOLUTION
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        flat = F.pad(flat, (0, self.k * self.group.size - flat.numel()))
        return flat[self.group.rank * self.k : (self.group.rank + 1) * self.k]
        ### END SOLUTION

    def zero_grad(self) -> None:
        """Set every parameter's gradient to None."""
        # TODO 7: set each gradient to None
        ### BEGIN SOLUTION
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None
        ### END SOLUTION


def gather_parameters(shards: Sequence[Tensor], shapes: Sequence[Sequence[int]], group) -> list[Tensor]:
    """Return the whole tensors, of which each rank has a part, its shard; `shards` has this rank's shard of each tensor.

    `shapes` has each tensor's shape, a tuple or a list, also an empty one. A tensor of N numbers was cut as one flat vector, padded
    with zeros to n · k: rank r has the numbers r · k to (r + 1) · k, its shard, (k,). The padding is not part of the result. There is
    one all_gather for all tensors together; they have one dtype. The results are without gradient.
    """
    # TODO 1: put this rank's shards into one vector, and gather those of all ranks
    # TODO 2: cut every rank's vector into its shards again
    # TODO 3: for each tensor, join the ranks' shards, cut off the padding, and give it its shape
    ### BEGIN SOLUTION
    vectors = group.all_gather(torch.cat([shard.flatten() for shard in shards]))
    lengths = [shard.numel() for shard in shards]
    by_tensor = zip(*(vector.split(lengths) for vector in vectors))
    return [torch.cat(parts)[: math.prod(shape)].view(tuple(shape)) for parts, shape in zip(by_tensor, shapes)]
    ### END SOLUTION


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
        ### BEGIN SOLUTION
        self.group, self.shape, self.has_bias = group, tuple(linear.weight.shape), linear.bias is not None
        flat = torch.cat([parameter.detach().flatten() for parameter in (linear.weight, linear.bias) if parameter is not None])
        self.length = flat.numel()
        k = math.ceil(self.length / group.size)
        flat = F.pad(flat, (0, k * group.size - self.length))
        self.shard = nn.Parameter(flat[group.rank * k : (group.rank + 1) * k].clone())
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: define a torch.autograd.Function, and apply it to x and the shard
        # TODO 4: its forward gathers weight and bias, applies them, and saves x and the shard only
        # TODO 5: its backward gathers the weight again, computes the gradients of x and of all weights, and gives each rank its part
        #   of the sum of these over all ranks, by reduce_scatter
        ### BEGIN SOLUTION
        group, shape, has_bias, length = self.group, self.shape, self.has_bias, self.length

        def gathered(shard: Tensor) -> tuple[Tensor, Tensor | None]:
            [flat] = gather_parameters([shard], [(length,)], group)
            weights = math.prod(shape)
            return flat[:weights].view(shape), flat[weights:] if has_bias else None

        class GatheredLinear(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, shard):
                ctx.save_for_backward(x, shard)
                return F.linear(x, *gathered(shard))

            @staticmethod
            def backward(ctx, g):
                x, shard = ctx.saved_tensors
                weight, _ = gathered(shard)
                rows = g.reshape(-1, shape[0])
                flat = [(rows.T @ x.reshape(-1, shape[1])).flatten()] + ([rows.sum(dim=0)] if has_bias else [])
                gradient = F.pad(torch.cat(flat), (0, shard.numel() * group.size - length))
                return g @ weight, group.reduce_scatter(gradient)

        return GatheredLinear.apply(x, self.shard)
        ### END SOLUTION


def copy_to_ranks(x: Tensor, group) -> Tensor:
    """Return x, which is the same on all ranks and which each rank will use for its own part of the work.

    The forward pass makes no call. The gradient of the result is summed over all ranks, by one all_reduce in the backward pass. Where x
    itself is used too, as in a residual connection, the gradient of that use is not summed.
    """
    # TODO 1: define a torch.autograd.Function: forward returns x, backward returns the all-reduced gradient
    ### BEGIN SOLUTION
    class CopyToRanks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return group.all_reduce(g)

    return CopyToRanks.apply(x)
    ### END SOLUTION


def sum_over_ranks(x: Tensor, group) -> Tensor:
    """Return the sum of all ranks' x, by one all_reduce in the forward pass.

    What follows is the same on all ranks, so the gradient of the sum is the same too, and it is the gradient of x. The backward pass
    makes no call.
    """
    # TODO 1: define a torch.autograd.Function: forward returns the all-reduced x, backward returns the gradient
    ### BEGIN SOLUTION
    class SumOverRanks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return group.all_reduce(x)

        @staticmethod
        def backward(ctx, g):
            return g

    return SumOverRanks.apply(x)
    ### END SOLUTION


class ColumnParallelLinear(nn.Module):
    """A linear layer of which each rank computes some of the outputs: (..., n_in) -> (..., n_out / n).

    It is made from a whole layer, the same on all ranks. Rank r copies the rows r · n_out/n to (r + 1) · n_out/n of its weight, and these
    numbers of its bias, into the Parameters `weight` and `bias` (None without one). x is the same on all ranks, and each rank gets the
    whole gradient of x, by one all_reduce. Raises a ValueError that names out_features and n if n does not divide out_features.
    """

    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        # TODO 1: check the size, and keep this rank's rows as new Parameters
        ### BEGIN SOLUTION
        if linear.out_features % group.size != 0:
            raise ValueError(f"out_features = {linear.out_features} cannot be divided among {group.size} ranks")
        self.group = group
        self.weight = nn.Parameter(linear.weight.detach().chunk(group.size)[group.rank].clone())
        bias = linear.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().chunk(group.size)[group.rank].clone())
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply the rows to x; the ranks' gradients of x must be added up
        ### BEGIN SOLUTION
        return F.linear(copy_to_ranks(x, self.group), self.weight, self.bias)
        ### END SOLUTION


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank has some of the inputs: (..., n_in / n) -> (..., n_out), the same on all ranks.

    It is made from a whole layer, the same on all ranks. Rank r copies the columns r · n_in/n to (r + 1) · n_in/n of its weight into the
    Parameter `weight`, and the whole bias into the Parameter `bias` (None without one). Its input is this rank's part of the features.
    One all_reduce, forward. Raises a ValueError that names in_features and n if n does not divide in_features.
    """

    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        # TODO 1: check the size, and keep this rank's columns, and the bias, as new Parameters
        ### BEGIN SOLUTION
        if linear.in_features % group.size != 0:
            raise ValueError(f"in_features = {linear.in_features} cannot be divided among {group.size} ranks")
        self.group = group
        self.weight = nn.Parameter(linear.weight.detach().chunk(group.size, dim=1)[group.rank].clone())
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply the columns, add up the ranks' results, and add the bias once
        ### BEGIN SOLUTION
        output = sum_over_ranks(x @ self.weight.T, self.group)
        return output if self.bias is None else output + self.bias
        ### END SOLUTION


class TensorParallelFeedForward(nn.Module):
    """Chapter 5's FeedForward with its hidden features divided among the ranks: (..., D) -> (..., D), the same on all ranks.

    It is made from a whole FeedForward without dropout, the same on all ranks. Its parts are `up`, a ColumnParallelLinear, and `down`,
    a RowParallelLinear; the activation is that of the given layer, named by its attribute `activation`. One all_reduce forward, and one backward.
    """

    def __init__(self, feed_forward: FeedForward, group) -> None:
        super().__init__()
        # TODO 1: make the two parts, and keep the activation
        ### BEGIN SOLUTION
        self.up, self.down = ColumnParallelLinear(feed_forward.up, group), RowParallelLinear(feed_forward.down, group)
        self.activation = feed_forward.activation
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: up, the activation, down
        ### BEGIN SOLUTION
        hidden = self.up(x)
        if self.activation == "relu":
            hidden = hidden.relu()
        else:
            hidden = gelu(hidden, approximate=self.activation == "gelu_tanh")
        return self.down(hidden)
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        if attention.n_heads % group.size != 0:
            raise ValueError(f"n_heads = {attention.n_heads} cannot be divided among {group.size} ranks")
        self.group, self.n_heads = group, attention.n_heads // group.size
        self.W_q, self.W_k, self.W_v = (self._part(whole) for whole in (attention.W_q, attention.W_k, attention.W_v))
        self.W_out = RowParallelLinear(attention.W_out, group)
        ### END SOLUTION

    def _part(self, whole: nn.Linear) -> nn.Linear:
        """Return a layer with this rank's rows."""
        # TODO 3: copy the rows; you may also do it in __init__ and leave this out
        ### BEGIN SOLUTION
        n, rank = self.group.size, self.group.rank
        part = nn.Linear(whole.in_features, whole.out_features // n, whole.bias is not None).to(whole.weight)
        with torch.no_grad():
            for own, parameter in zip(part.parameters(), whole.parameters()):
                own.copy_(parameter.chunk(n)[rank])
        return part
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        # TODO 4: copy x to the ranks once; project, split, attend and merge with this rank's heads; apply W_out
        ### BEGIN SOLUTION
        x = copy_to_ranks(x, self.group)
        q, k, v = (split_heads(project(x), self.n_heads) for project in (self.W_q, self.W_k, self.W_v))
        mixed, _ = scaled_dot_product_attention(q, k, v, mask)  # (B, H / n, T, d_head)
        return self.W_out(merge_heads(mixed))
        ### END SOLUTION


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
    ### BEGIN SOLUTION
    if kind not in ("gpipe", "1f1b"):
        raise ValueError(f"the kind {kind!r} is not one of gpipe, 1f1b")
    stages = []
    for stage in range(n_stages):
        first = n_micro if kind == "gpipe" else min(n_stages - 1 - stage, n_micro)
        steps = [("forward", m) for m in range(first)]
        for m in range(n_micro - first):
            steps += [("forward", first + m), ("backward", m)]
        stages.append(steps + [("backward", m) for m in range(n_micro - first, n_micro)])
    return stages
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    rank, last = group.rank, group.size - 1
    kept: dict[int, tuple[Tensor, Tensor]] = {}
    losses = []
    for kind, m in schedule:
        if kind == "forward":
            x = inputs[m] if rank == 0 else group.receive(inputs[m].shape, rank - 1).requires_grad_()
            output = stage(x)
            if rank == last:
                output = loss(output, m)
                losses.append(output.detach())
            else:
                group.send(output.detach(), rank + 1)
            kept[m] = x, output
        else:
            x, output = kept.pop(m)
            output.backward(None if rank == last else group.receive(output.shape, rank + 1))
            if rank > 0:
                group.send(x.grad, rank - 1)
    return losses
    ### END SOLUTION
