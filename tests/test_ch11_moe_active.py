"""Chapter 11, last part: how many of a model's parameters one token uses."""

from types import SimpleNamespace

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import same, sizes
from torch import nn


def drawn_layer():
    """Different sizes."""
    D, F, N = 2 + int(torch.randint(2, ())), 9 + int(torch.randint(3, ())), 4 + int(torch.randint(3, ()))
    sizes(D=D, F=F, N=N)
    return SimpleNamespace(D=D, F=F, N=N)


def one_expert(d_model, d_ff):
    return 2 * d_model * d_ff + d_ff + d_model


def all_of(model):
    """How many numbers the model has, those in two places once."""
    return sum(p.numel() for p in model.parameters())


class Tower(nn.Module):
    """Dense parts around MoELayers, at several depths; embedding and head may be one matrix; on demand a table that learns nothing."""

    def __init__(self, D, V, layers, tied=False, table=False):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.floors = nn.ModuleList([nn.ModuleDict({"norm": nn.LayerNorm(D), "inside": nn.Sequential(layer)}) for layer in layers])
        self.between = nn.Linear(D, D)
        self.head = nn.Linear(D, V, bias=False)
        if tied:
            self.head.weight = self.emb.weight
        if table:
            self.register_buffer("mask", torch.ones(V, D))


@exercise("active_parameters", weight=3)
def test_a_layer_without_the_experts_a_token_is_not_sent_to(learner):
    """In one MoELayer a token uses the whole router and top_k of the experts, weights and biases."""
    n = drawn_layer()
    made = {(d_ff, k): learner.MoELayer(n.D, d_ff, n.N, k) for d_ff in (n.F, None) for k in (1, 2, n.N - 1)}
    whole = {options: learner.bring(all_of)(layer) for options, layer in made.items()}
    got = {options: learner.active_parameters(layer) for options, layer in made.items()}
    for (d_ff, k), count in reversed(got.items()):
        same(count, whole[d_ff, k] - (n.N - k) * one_expert(n.D, d_ff or 4 * n.D), f"the count of MoELayer({n.D}, {d_ff}, {n.N}, {k})")


@exercise("active_parameters", weight=3)
def test_each_layer_leaves_out_its_own(learner):
    """A model may hold several MoELayers, at any depth and of different sizes: each leaves out its own unused experts, and everything else counts. The model does not change."""
    n = drawn_layer()
    layers = [(n.F, n.N, 2), (n.F + 3, n.N + 1, 1), (None, n.N, 3)]
    model = learner.bring(Tower)(n.D, 9, [learner.MoELayer(n.D, *options) for options in layers])
    whole, got, after = learner.bring(all_of)(model), learner.active_parameters(model), learner.bring(all_of)(model)
    idle = sum((n_experts - k) * one_expert(n.D, d_ff or 4 * n.D) for d_ff, n_experts, k in layers)
    same(got, whole - idle, "the count of a model with three MoELayers")
    same(after, whole, "the number of all parameters of the model after the call")


@exercise("active_parameters", weight=2)
def test_a_block_counts_its_norms_and_attention(learner):
    """In an MoEBlock, or a list of them, a token uses norms and attention as well."""
    n = drawn_layer()
    blocks = learner.bring(listed)([learner.MoEBlock(4 * n.D, 2, n.F, n.N, k) for k in (2, 1)])
    whole_one, whole_both = learner.bring(all_of)(blocks[0]), learner.bring(all_of)(blocks)
    both, one = learner.active_parameters(blocks), learner.active_parameters(blocks[0])
    expert = one_expert(4 * n.D, n.F)
    same(one, whole_one - (n.N - 2) * expert, f"the count of an MoEBlock with {n.N} experts and top_k = 2")
    same(both, whole_both - (n.N - 2 + n.N - 1) * expert, "the count of two MoEBlocks, the second with top_k = 1")


def listed(blocks):
    return nn.ModuleList(blocks)


@exercise("active_parameters", weight=2)
def test_a_parameter_used_twice_counts_once(learner):
    """A matrix that is embedding and head at once is one set of numbers, and a table that is not trained does not count."""
    n = drawn_layer()
    tower = learner.bring(Tower)
    one, two = (tower(n.D, 11, [learner.MoELayer(n.D, n.F, n.N, 2)], tied=tied, table=True) for tied in (True, False))
    whole, tied, untied = learner.bring(all_of)(two), learner.active_parameters(one), learner.active_parameters(two)
    idle = (n.N - 2) * one_expert(n.D, n.F)
    same(untied, whole - idle, "the count of a model with an embedding, a head and an MoELayer")
    same(tied, whole - idle - 11 * n.D, "the count of the same model with one matrix for embedding and head")


def deep_and_shared(layer):
    """A model with the layer in two places, seven levels deep; some of the layer's parameters are frozen."""
    model = nn.ModuleDict({"first": layer, "norm": nn.LayerNorm(3), "second": layer})
    for _ in range(6):
        model = nn.Sequential(model)
    for expert in list(layer.experts)[::2]:
        expert.requires_grad_(False)
    layer.router.requires_grad_(False)
    return model


@exercise("active_parameters", weight=2)
def test_a_frozen_layer_and_one_in_two_places(learner):
    """Frozen parameters count like others. A layer may be nested at any depth, and a layer that is in two places of the model counts once."""
    n = drawn_layer()
    model = learner.bring(deep_and_shared)(learner.MoELayer(n.D, n.F, n.N, 2))
    whole, got = learner.bring(all_of)(model), learner.active_parameters(model)
    same(got, whole - (n.N - 2) * one_expert(n.D, n.F), "the count of a model with one MoELayer in two places, of which some parameters are frozen")


@exercise("active_parameters")
def test_where_nothing_is_left_out_everything_counts(learner):
    """With top_k = N, with a single expert, or in a model without experts, a token uses all there is."""
    n = drawn_layer()
    few, full, single = (learner.MoELayer(n.D, n.F, *options) for options in ((n.N, 2), (n.N, n.N), (1, 1)))
    dense = learner.bring(Tower)(n.D, 7, [])
    asked = {f"an MoELayer with top_k = {n.N} of {n.N}": full, "an MoELayer with one expert": single, "a model without experts": dense}
    whole_few, whole = learner.bring(all_of)(few), {what: learner.bring(all_of)(model) for what, model in asked.items()}
    got, some = {what: learner.active_parameters(model) for what, model in asked.items()}, learner.active_parameters(few)
    same(some, whole_few - (n.N - 2) * one_expert(n.D, n.F), "the count of an MoELayer with top_k = 2")
    for what, count in reversed(got.items()):
        same(count, whole[what], f"the count of {what}")
