"""Chapter 7, fifth part: counting a model's parameters."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same
from hypothesis import given, settings
from strategies import distinct
from torch import nn

# ---- count_parameters


class Sample(nn.Module):
    """Parameters of every shape, at every depth; two with the same numbers; optionally one used twice, buffers, and layers that are not trained."""

    def __init__(self, a, b, c, tied=False, tables=False, frozen=False):
        super().__init__()
        self.first = nn.Linear(a, b)
        self.deep = nn.Sequential(nn.LayerNorm(b), nn.ModuleList([nn.Linear(b, c, bias=False), nn.LayerNorm(b)]))
        self.cube = nn.Parameter(torch.ones(a, b, c))
        self.one = nn.Parameter(torch.tensor(2.0))
        self.list = nn.ParameterList([torch.zeros(c), torch.zeros(c)])
        self.last = nn.Linear(b, a, bias=False)
        if tied:
            self.again, self.head = self.first, nn.Linear(b, a, bias=False)
            self.head.weight = self.last.weight
        if tables:
            self.register_buffer("saved", torch.zeros(c, a))
            self.register_buffer("unsaved", torch.zeros(b, b), persistent=False)
            self.plain = torch.zeros(a, c)
        if frozen:
            self.deep.requires_grad_(False)
            self.cube.requires_grad_(False)


def by_hand(a, b, c):
    first, norms, deep = a * b + b, 2 * (b + b), b * c
    return first + norms + deep + a * b * c + 1 + 2 * c + b * a


counted = distinct("a", "b", "c", least=3, most=9)


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_every_number_of_every_parameter_is_counted(learner, n):
    """Weights and biases of every shape count, number by number, at any depth of the model, also where they are frozen (requires_grad=False)."""
    sample = learner.bring(Sample)
    counts = [learner.count_parameters(sample(n.a, n.b, n.c, frozen=frozen)) for frozen in (False, True)]
    same(counts[0], by_hand(n.a, n.b, n.c), "the count")
    same(counts[1], by_hand(n.a, n.b, n.c), "the count of a model with frozen layers")


def frozen_after(count_parameters, model):
    """Which parameters are frozen before and after they are counted."""
    before = [parameter.requires_grad for parameter in model.parameters()]
    count_parameters(model)
    return before == [parameter.requires_grad for parameter in model.parameters()]


@exercise("count_parameters")
@settings(max_examples=2)
@given(n=counted)
def test_counting_leaves_the_model_as_it_is(learner, n):
    """Counting freezes no parameter, and thaws none."""
    model = learner.bring(Sample)(n.a, n.b, n.c, frozen=True)
    alike, count = learner.bring(frozen_after)(learner.count_parameters, model), learner.count_parameters(model)
    same(count, by_hand(n.a, n.b, n.c), "the count of a model with frozen layers, counted once before,")
    holds(alike, "after the call other parameters are frozen than before it")


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_a_tensor_in_two_places_counts_once(learner, n):
    """A tied matrix, or a layer used twice, counts once; two tensors that happen to have the same numbers count twice."""
    sample = learner.bring(Sample)
    alone, shared = learner.count_parameters(sample(n.a, n.b, n.c)), learner.count_parameters(sample(n.a, n.b, n.c, tied=True))
    same(alone, by_hand(n.a, n.b, n.c), "the count of a model in which nothing is shared")
    same(shared, by_hand(n.a, n.b, n.c), "the count of the model in which one layer and one matrix are used in two places")


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_tables_do_not_count(learner, n):
    """Buffers, saved or not, and plain tensors are not parameters."""
    sample = learner.bring(Sample)
    same(learner.count_parameters(sample(n.a, n.b, n.c, tables=True)), by_hand(n.a, n.b, n.c), "the count of a model with masks and tables")


@exercise("count_parameters")
@settings(max_examples=2)
@given(n=counted)
def test_one_layer_is_a_model_too(learner, n):
    """Any module can be counted: a linear map, one without parameters, and one on the device "meta", whose tensors have no memory."""
    layer = learner.bring(layers)
    sizes_only = learner.count_parameters(layer(n.a, n.b, device="meta"))
    same(learner.count_parameters(layer(n.a, n.b)), n.a * n.b + n.b, "the count of a linear map")
    same(learner.count_parameters(layer(n.a, 0)), 0, "the count of a layer without parameters")
    same(sizes_only, n.a * n.b + n.b, "the count of a linear map on the meta device")


def layers(a, b, device=None):
    return nn.Linear(a, b, device=device) if b else nn.ReLU()
