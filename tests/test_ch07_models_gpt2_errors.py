"""Chapter 7, last part: published weights that do not fit the model raise an error and do not change the model."""

import random
from types import SimpleNamespace

import torch
from calls import recorded_call
from gpt2_weights import (
    compare_parameters,
    expected_parameters,
    gpt2_sizes,
    loaded_parameters,
    make_gpt2,
    published_weights,
    with_prefix,
)
from grader.execution.proxy import parameters
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, sizes
from hypothesis import given, settings
from strategies import seeds, tensor

few = settings(max_examples=2)  # a mistake here shows in every example


# ---- what cannot be loaded


def unchanged(now, before, because):
    for name, value in before.items():
        holds(name in now and torch.equal(now[name], value), f"{because}: after the error the model should be unchanged, but {name} has changed")


def refused_unchanged(learner, model, good, bad):
    """A good state dict is loaded; then each bad one is refused, and every number of the good one is still there.

    `bad` has a state dict, what the error should name, and why it raises an error.
    """
    names = list(parameters(model))
    learner.load_gpt2(model, good)
    before = parameters(model)
    compare_parameters(before, names, expected_parameters(good, tied="lm_head.weight" not in before), "after loading a state dict that fits")
    outcomes = [(recorded_call(lambda: learner.load_gpt2(model, theirs)), parameters(model), *words) for theirs, *words in bad]
    for again, now, naming, because in outcomes:
        refuses(again, naming=naming, because=because)
        unchanged(now, before, because)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_a_missing_tensor_is_named(learner, n, seed):
    """A state dict that lacks a tensor raises a ValueError with its name, and the model does not change."""
    good, other, last = published_weights(n, seed), published_weights(n, seed + 1), n.N - 1
    wants = ["wte.weight", "wpe.weight", "ln_f.bias", "h.0.ln_1.weight", f"h.{last}.attn.c_attn.bias", f"h.{last}.mlp.c_proj.weight"]
    bad = []
    for name in random.Random(seed).sample(wants, 3):
        without = {key: value for key, value in other.items() if key != name}
        bad += [(without, (name,), f"{name} is missing"), (with_prefix(without), (name,), f"transformer.{name} is missing")][: 1 + len(bad) % 2]
    refused_unchanged(learner, make_gpt2(learner, n, seed), good, bad)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_a_tensor_of_a_wrong_size_is_named(learner, n, seed):
    """A tensor that does not fit raises a ValueError with its name, even if it could be broadcast or cut to fit, and the model does not change."""
    good, other, D, last = published_weights(n, seed), published_weights(n, seed + 1), n.H * n.d_head, n.N - 1
    shapes = {
        "wte.weight": (n.V + 1, D),
        "wpe.weight": (n.L + 2, D),
        "ln_f.bias": (1,),
        f"h.{last}.ln_2.weight": (D + 1,),
        "h.0.attn.c_attn.bias": (3 * D + 3,),
        f"h.{last}.attn.c_attn.weight": (D + 1, 3 * D),
        f"h.{last}.mlp.c_proj.weight": (D, n.F),
    }
    bad = []
    for name in random.Random(seed).sample(list(shapes), 4):
        bad.append((other | {name: tensor(seed, *shapes[name])}, (name,), f"{name} is {shapes[name]} in the state dict, and does not fit the model"))
    refused_unchanged(learner, make_gpt2(learner, n, seed), good, bad)
    stretched = other | {"lm_head.weight": tensor(seed, 1, D)}, ("lm_head.weight",), f"lm_head.weight is {(1, D)} in the state dict, and the model is not tied"
    refused_unchanged(learner, make_gpt2(learner, n, seed, tie_weights=False), good, [stretched])


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_another_number_of_layers_raises_an_error(learner, n, seed):
    """A state dict with more layers than the model, or with fewer, raises a ValueError that names both numbers, and the model does not change."""
    bad = []
    for layers in (n.N + 1, n.N - 1, 0):
        bad.append((published_weights(n, seed + 1, layers=layers), {"layers": layers, "n_layers": n.N}, f"the state dict has {layers} layers, and the model {n.N}"))
    refused_unchanged(learner, make_gpt2(learner, n, seed), published_weights(n, seed), bad)


@exercise("load_gpt2", weight=2)
def test_a_model_may_have_twelve_layers(learner):
    """Layers with numbers of two digits are loaded too; a state dict of ten layers does not fit a model of twelve, nor one in which a layer is missing."""
    n = SimpleNamespace(N=12, H=1, d_head=2, F=3, V=5, L=4)
    sizes(N=12, H=1, d_head=2, F=3, V=5, L=4)
    other, bad = published_weights(n, 2), []
    for layers in (10, 1, 13):
        bad.append((published_weights(n, 2, layers=layers), {"layers": layers, "n_layers": n.N}, f"the state dict has {layers} layers, and the model {n.N}"))
    gap = {name.replace("h.11.", "h.12."): value for name, value in other.items()}
    bad.append((gap, (), "the state dict has the layers 0 to 10 and 12, and no layer 11"))
    refused_unchanged(learner, make_gpt2(learner, n, 1), published_weights(n, 1), bad)


@exercise("load_gpt2")
@few
@given(n=gpt2_sizes, seed=seeds)
def test_a_model_without_learned_positions_raises_an_error(learner, n, seed):
    """GPT-2 has learned positions: a model with sinusoidal ones, RoPE or ALiBi raises a ValueError that names them, and does not change."""
    theirs, model = published_weights(n, seed), make_gpt2(learner, n, seed)
    got = loaded_parameters(learner, model, theirs)
    compare_parameters(*got, expected_parameters(theirs), "of a model with learned positions")
    outcomes = []
    for positions in ("sinusoidal", ("rope", "alibi")[seed % 2]):
        other = make_gpt2(learner, n, seed, positions=positions)
        before = parameters(other)
        outcomes.append((positions, before, recorded_call(lambda: learner.load_gpt2(other, theirs)), parameters(other)))
    for positions, before, again, now in outcomes:
        because = f"the model's positions are {positions!r}"
        refuses(again, naming={"positions": positions}, because=because)
        unchanged(now, before, because)
