"""Chapter 18, second part: weights that are spread over the ranks."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_groups import check_sent, factors, ranks_of, run_on_ranks
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
group_sizes = st.integers(1, 4)


def shards_of(whole, n):
    """Each rank's shard of one tensor: equal parts of the flat numbers, padded with zeros at the end."""
    k = math.ceil(whole.numel() / n)
    return list(torch.cat([whole.flatten(), torch.zeros(n * k - whole.numel(), dtype=whole.dtype)]).split(k)) if k else [whole.flatten()] * n


# ---- gather_parameters


def gathered(gather_parameters, shards, shapes):
    """Ranks: the tensors that each gets, and its shards afterwards; `shards` has each rank's."""
    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        own = [shard.clone().requires_grad_() for shard in shards[group.rank]]  # as Parameters do
        whole = list(gather_parameters(own, shapes, group))
        attached = [t.requires_grad and group.size > 1 for t in whole]  # one rank has everything itself
        return [t.detach() for t in whole], attached, [t.detach() for t in own]

    return Ranks(one_rank, len(shards))


def gather(side, shards, shapes, change=None):
    """What `gathered` gives, once the ranks have ended."""
    run = run_on_ranks(side.bring(gathered)(side.gather_parameters, shards, shapes), len(shards), change)
    run.results, run.attached, run.shards = ([each[i] for each in run.results] for i in range(3))
    return run


def check_shards(run, shards):
    """Each rank gives the numbers of its shards to its calls, in any order, and nothing else."""
    for rank, own in enumerate(shards):
        sent, right = (torch.cat([own[0].new_zeros(0), *(t.flatten() for t in tensors)]).sort().values for tensors in (run.sent[rank], own))
        close(sent, right, f"the sorted numbers that rank {rank} gives to its calls")


WHOLE_SHAPES = ((3, 5), (4,), (2, 1, 3), (1,))


@exercise("gather_parameters", weight=3)
@few
@example(n=3, seed=0)
@given(n=group_sizes, seed=seeds)
def test_whole_tensors_come_back_in_their_shapes(learner, n, seed):
    """Each rank gets every tensor whole: the ranks' shards in their order, without the padding, in the given shape, and without gradient. The shards do not change."""
    whole = [tensor(seed + i, *shape) for i, shape in enumerate(WHOLE_SHAPES)]
    by_rank = [list(parts) for parts in zip(*(shards_of(w, ranks_of(n)) for w in whole))]
    got = gather(learner, by_rank, WHOLE_SHAPES)
    for rank, found in enumerate(got.results):
        same(len(found), len(whole), f"the number of tensors on rank {rank}")
        for mine, right in zip(found, whole):
            close(mine, right, f"the tensor of shape {tuple(right.shape)} on rank {rank} of {n}")
        same(got.attached[rank], [False] * len(whole), f"whether the tensors on rank {rank} need gradients, if the shards do")
        close(got.shards[rank], by_rank[rank], f"the list of shards of rank {rank} afterwards")
    check_shards(got, by_rank)


@exercise("gather_parameters", weight=2)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_one_call_gathers_all_of_them(learner, n, seed):
    """However many tensors there are, each rank makes one all_gather of its own shards. Numbers that change on their way change the tensors."""
    whole = [tensor(seed + i, *shape) for i, shape in enumerate(WHOLE_SHAPES)]
    by_rank = [list(parts) for parts in zip(*(shards_of(w, ranks_of(n)) for w in whole))]
    got, change = gather(learner, by_rank, WHOLE_SHAPES), factors(seed)
    close(got.results[0][2], whole[2], "the third tensor on rank 0")
    for rank in range(n):
        same(got.calls[rank], ["all_gather"], f"the calls of rank {rank}")
        same(got.bytes[rank], 4 * sum(shard.numel() for shard in by_rank[rank]), f"the bytes that rank {rank} sends")
    check_shards(got, by_rank)
    changed = gather(learner, by_rank, WHOLE_SHAPES, change)
    for rank in range(n):
        arrived = [parts[0] if other == rank else change(other, 1, parts[0]) for other, parts in enumerate(by_rank)]
        close(changed.results[rank][0].flatten(), torch.cat(arrived)[:15], f"the first tensor on rank {rank} of {n}, if what the others send changes on its way,")


@exercise("gather_parameters")
def test_shapes_may_be_lists_and_tensors_may_be_single(learner):
    """A shape may be a list, a tuple or empty; one tensor alone works too, and float64 stays float64."""
    whole = [tensor(1, 5, dtype=torch.float64), tensor(2, 1, dtype=torch.float64).view(())]
    by_rank = [list(parts) for parts in zip(*(shards_of(w, ranks_of(3)) for w in whole))]
    single = [[shard] for shard in shards_of(whole[0], 2)]
    got, alone = gather(learner, by_rank, [[5], []]), gather(learner, single, [[5]])
    for mine, right in zip(got.results[2], whole):
        close(mine, right, f"the tensor of shape {tuple(right.shape)}")
    close(alone.results[1][0], whole[0], "one tensor alone")
    check_shards(got, by_rank)
    check_shards(alone, single)


# ---- FullyShardedLinear


def sharded_layer(FullyShardedLinear, weight, bias, inputs, cotangents):
    """Ranks: output and gradients of each, what the layer holds, and what autograd keeps between forward and backward."""
    from grader.execution.simulated_group import Ranks

    def longest_kept(layer, y):
        # the longest tensor that is reached from the layer's attributes, or from those of the graph's nodes
        seen, pending, longest = set(), [vars(layer), y.grad_fn], 0
        while pending:
            value = pending.pop()
            if id(value) in seen or value is layer:
                continue
            seen.add(id(value))
            if isinstance(value, torch.Tensor):
                longest = max(longest, value.untyped_storage().nbytes() // value.element_size())
            elif isinstance(value, dict):
                pending += list(value.values())
            elif isinstance(value, (list, tuple, set)):
                pending += list(value)
            elif isinstance(value, torch.autograd.graph.Node):
                pending += [node for node, _ in value.next_functions if node] + list(getattr(value, "__dict__", {}).values())
            elif isinstance(value, torch.nn.Module):
                pending.append(vars(value))
        return longest

    def one_rank(group):
        linear = torch.nn.Linear(weight.size(1), weight.size(0), bias is not None, dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
        layer = FullyShardedLinear(linear, group)
        held = [p.numel() for p in layer.parameters()]
        held += [v.numel() for m in layer.modules() for v in [*vars(m).values(), *m._buffers.values()] if isinstance(v, torch.Tensor)]
        x, kept = inputs[group.rank].clone(), []
        x = x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1]).requires_grad_()  # a view

        def pack(t):
            kept.append((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes() // t.element_size()))
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = layer(x)
        between, whole = sum(dict(kept).values()), longest_kept(layer, y)
        (y * cotangents[group.rank]).sum().backward()
        return {
            "y": y.detach(), "x": x.grad, "names": [name for name, _ in layer.named_parameters()], "shard": layer.shard.detach().clone(),
            "gradient": layer.shard.grad, "held": sum(held), "between": between, "whole": whole, "given": linear.weight.detach().clone(),
        }  # fmt: skip

    return Ranks(one_rank, len(inputs))


def shard_layer(side, weight, bias, inputs, cotangents, change=None):
    """What `sharded_layer` gives, once the ranks have ended."""
    return run_on_ranks(side.bring(sharded_layer)(side.FullyShardedLinear, weight, bias, inputs, cotangents), len(inputs), change)


def check_shards_and_gradients(run, weight, bias, inputs, cotangents, tol=1e-4):
    """Each rank gives its calls its shard, forward and backward, and the gradient of all weights for its own input."""
    n, whole = len(inputs), torch.cat([part.flatten() for part in (weight, bias) if part is not None])
    expected = []
    for rank, shard in enumerate(shards_of(whole, n)):
        _, _, flat = whole_layer(weight, bias, inputs[rank : rank + 1], cotangents[rank : rank + 1])
        expected.append([shard, shard, torch.cat(shards_of(flat, n))])
    for rank in range(n):
        by_name = sorted(zip(run.calls[rank], run.sent[rank]), key=lambda call: call[0])  # their order in the backward pass is free
        run.sent[rank] = [t for _, t in by_name]
    check_sent(run, expected, tol)


def whole_layer(weight, bias, inputs, cotangents):
    """The same on one machine: outputs, gradients of the inputs, and the sum of the gradients of weight and bias, as one vector."""
    w, b = weight.clone().requires_grad_(), None if bias is None else bias.clone().requires_grad_()
    xs = [x.clone().requires_grad_() for x in inputs]
    ys = [torch.nn.functional.linear(x, w, b) for x in xs]
    sum((y * c).sum() for y, c in zip(ys, cotangents)).backward()
    flat = torch.cat([part.flatten() for part in (w.grad, None if b is None else b.grad) if part is not None])
    return [y.detach() for y in ys], [x.grad for x in xs], flat


layers = distinct("T", "m", "n", T=(3, 4), m=(5, 7), n=(5, 7))


def layer_problem(s, seed, n):
    """Weight, bias, and each rank's own input (with another number of rows on each) and cotangent."""
    weight, bias = tensor(seed, s.m, s.n), tensor(seed + 1, s.m)
    inputs = [tensor(seed + 2 + rank, 1 + rank, s.T, s.n) for rank in range(n)]
    return weight, bias, inputs, [tensor(seed + 20 + rank, 1 + rank, s.T, s.m) for rank in range(n)]


@exercise("FullyShardedLinear", weight=3)
@few
@given(s=layers, n=group_sizes, seed=seeds)
def test_each_rank_computes_the_whole_layer(learner, s, n, seed):
    """Every rank gives its own input the outputs of the whole layer, and its input the right gradient, with and without a bias."""
    weight, bias, inputs, cotangents = layer_problem(s, seed, ranks_of(n))
    for own in (bias, None):
        got = shard_layer(learner, weight, own, inputs, cotangents)
        outputs, slopes, _ = whole_layer(weight, own, inputs, cotangents)
        what = "" if own is not None else " without a bias"
        for rank, found in enumerate(got.results):
            with check:
                close(found["y"], outputs[rank], f"the output on rank {rank} of {n}{what}", tol=1e-4)
            with check:
                close(found["x"], slopes[rank], f"the gradient of the input on rank {rank} of {n}{what}", tol=1e-4)
        with check:
            check_shards_and_gradients(got, weight, own, inputs, cotangents)


@exercise("FullyShardedLinear", weight=3)
@few
@given(s=layers, n=group_sizes, seed=seeds)
def test_a_shard_gets_the_sum_of_all_ranks_gradients(learner, s, n, seed):
    """The gradient of a rank's shard is its part of the gradient of weight and bias, added up over all ranks' inputs; it is not a mean."""
    weight, bias, inputs, cotangents = layer_problem(s, seed, ranks_of(n))
    got = shard_layer(learner, weight, bias, inputs, cotangents)
    _, _, flat = whole_layer(weight, bias, inputs, cotangents)
    whole = torch.cat([weight.flatten(), bias])
    for rank, found in enumerate(got.results):
        close(found["shard"], shards_of(whole, n)[rank], f"the shard of rank {rank} of {n}")
        close(found["gradient"], shards_of(flat, n)[rank], f"the gradient of the shard of rank {rank} of {n}", tol=1e-4)
    check_shards_and_gradients(got, weight, bias, inputs, cotangents)


@exercise("FullyShardedLinear", weight=6)
@few
@given(s=layers, n=st.integers(2, 4), seed=seeds)
def test_no_rank_keeps_the_whole_weight(learner, reference, s, n, seed):
    """A rank's layer holds its shard and nothing else; between the forward and the backward pass, autograd keeps the input and the shard only. The backward pass uses what it has gathered itself."""
    weight, bias, inputs, cotangents = layer_problem(s, seed, ranks_of(n))
    got = shard_layer(learner, weight, bias, inputs, cotangents)
    outputs, _, _ = whole_layer(weight, bias, inputs, cotangents)
    k = math.ceil((s.m * s.n + s.m) / n)
    for rank, found in enumerate(got.results):
        close(found["y"], outputs[rank], f"the output on rank {rank}", tol=1e-4)
        same(found["names"], ["shard"], f"the parameters on rank {rank}")
        holds(found["held"] <= k, f"the layer on rank {rank} of {n} holds {found['held']} numbers; its shard has {k}")
        most = inputs[rank].numel() + k
        holds(found["between"] <= most, f"between forward and backward rank {rank} of {n} keeps {found['between']} numbers; input and shard have {most}")
        longest = max(k, inputs[rank].numel())
        holds(found["whole"] <= longest, f"between forward and backward the layer or the graph on rank {rank} of {n} keeps a tensor of {found['whole']} numbers; the shard has {k}")
    check_changed(learner, reference, factors(seed), weight, bias, inputs, cotangents)


def check_changed(learner, reference, change, *problem):
    """If what the ranks send changes on its way, each call in another way, output and gradients are those of the weights that arrived for them."""
    changed, right = (shard_layer(side, *problem, change) for side in (learner, reference))
    for rank, (found, expected) in enumerate(zip(changed.results, right.results)):
        for name, what in (("y", "the output"), ("x", "the gradient of the input"), ("gradient", "the gradient of the shard")):
            close(found[name], expected[name], f"{what} on rank {rank}, if the shards change on their way, in each pass in another way,", tol=1e-4)


@exercise("FullyShardedLinear", weight=2)
@few
@given(s=layers, n=st.integers(2, 4), seed=seeds)
def test_two_gathers_and_one_reduce_scatter(learner, reference, s, n, seed):
    """A step makes one all_gather forward and one backward, and one reduce_scatter for the gradient; the given layer does not change."""
    weight, bias, inputs, cotangents = layer_problem(s, seed, ranks_of(n))
    got = shard_layer(learner, weight, bias, inputs, cotangents)
    outputs, _, _ = whole_layer(weight, bias, inputs, cotangents)
    k = math.ceil((s.m * s.n + s.m) / n)
    for rank, found in enumerate(got.results):
        close(found["y"], outputs[rank], f"the output on rank {rank}", tol=1e-4)
        same(sorted(got.calls[rank]), ["all_gather", "all_gather", "reduce_scatter"], f"the calls of rank {rank}, sorted")
        same(got.bytes[rank], 4 * (2 * k + n * k), f"the bytes that rank {rank} gives to its calls")
        close(found["given"], weight, "the weight of the given layer afterwards")
    check_shards_and_gradients(got, weight, bias, inputs, cotangents)
    check_changed(learner, reference, factors(seed + 1), weight, bias, inputs, cotangents)


@exercise("FullyShardedLinear")
def test_fewer_weights_than_ranks(learner):
    """A layer with two numbers on five ranks, in float64: the last ranks' shards are padding, and every rank computes the whole layer. Some ranks have a single vector."""
    weight, bias = tensor(1, 1, 1, dtype=torch.float64), tensor(2, 1, dtype=torch.float64)
    inputs, cotangents = ([tensor(seed + rank, *((2, 1) if rank % 2 else (1,)), dtype=torch.float64) for rank in range(5)] for seed in (3, 9))
    got = shard_layer(learner, weight, bias, inputs, cotangents)
    outputs, slopes, flat = whole_layer(weight, bias, inputs, cotangents)
    for rank, found in enumerate(got.results):
        close(found["y"], outputs[rank], f"the output on rank {rank} of 5", tol=1e-10)
        close(found["x"], slopes[rank], f"the gradient of the input on rank {rank} of 5", tol=1e-10)
        close(found["gradient"], shards_of(flat, 5)[rank], f"the gradient of the shard of rank {rank} of 5", tol=1e-10)
    check_shards_and_gradients(got, weight, bias, inputs, cotangents, tol=1e-10)
