"""Chapter 7, sixth part: the weights of a published GPT-2 in the learner's own GPT. Weights that do not fit are in test_ch07_models_gpt2_errors.py."""

import random

import torch
from gpt2_weights import (
    compare_parameters,
    expected_parameters,
    gpt2_sizes,
    is_embedding_or_norm,
    loaded_parameters,
    make_gpt2,
    published_weights,
    with_prefix,
)
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import given, settings
from pytest_check import check
from strategies import seeds, tensor, token_ids

few = settings(max_examples=2)  # a mistake here shows in every example


def hard(name):
    return not is_embedding_or_norm(name)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_embeddings_and_norms_go_in_as_they_are(learner, n, seed):
    """wte, wpe, ln_1, ln_2 and ln_f are copied into the model that was given."""
    theirs, model = published_weights(n, seed), make_gpt2(learner, n, seed)
    before = parameters(model)
    got = loaded_parameters(learner, model, theirs)
    changed = any(not torch.equal(got[0].get(name, value), value) for name, value in before.items())
    holds(changed, "the model has not changed: load_gpt2 should change the given model")
    compare_parameters(*got, expected_parameters(theirs), "after loading")


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_linear_maps_are_transposed(learner, n, seed):
    """attn.c_proj, mlp.c_fc and mlp.c_proj are stored as (in, out), and nn.Linear has (out, in); biases are copied unchanged."""
    theirs = published_weights(n, seed)
    got = loaded_parameters(learner, make_gpt2(learner, n, seed), theirs)
    compare_parameters(*got, expected_parameters(theirs), "after loading", lambda name: hard(name) and not any(which in name for which in ("W_q", "W_k", "W_v")))


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_c_attn_is_cut_in_three(learner, n, seed):
    """The columns of c_attn.weight are those of the queries, then the keys, then the values, and so is its bias: W_q, W_k and W_v get them, the weights transposed."""
    theirs = published_weights(n, seed)
    got = loaded_parameters(learner, make_gpt2(learner, n, seed), theirs)
    compare_parameters(*got, expected_parameters(theirs), "after loading", lambda name: any(which in name for which in ("W_q", "W_k", "W_v")))


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_names_may_begin_with_transformer(learner, n, seed):
    """`transformer.h.0.ln_1.weight` is `h.0.ln_1.weight`, name by name and in any order; lm_head.weight has no prefix in either case."""
    theirs = published_weights(n, seed, head=True)
    head_first = dict(reversed(with_prefix(theirs).items()))
    mixed = {name if i % 3 else f"transformer.{name}": value for i, (name, value) in enumerate(theirs.items())}
    stored = {"with the prefix": with_prefix(theirs), "with the prefix, after lm_head.weight": head_first, "of which some have the prefix": mixed}
    stored["without the prefix"] = theirs
    got = [loaded_parameters(learner, make_gpt2(learner, n, seed, tie_weights=False), names) for names in stored.values()]
    for now, words in zip(got, stored):
        compare_parameters(*now, expected_parameters(theirs, tied=False), f"after loading names {words}")
    for now, words in zip(got[:3], stored):
        for name, value in got[3][0].items():
            close(now[0].get(name), value, f"{name}, loaded from names {words} and not without it,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_an_untied_model_takes_lm_head_or_else_wte(learner, n, seed):
    """A model with its own head takes lm_head.weight; if the state dict has none, wte."""
    without, given_one = published_weights(n, seed), published_weights(n, seed, head=True)
    got = [loaded_parameters(learner, make_gpt2(learner, n, seed, tie_weights=False), theirs) for theirs in (without, given_one)]
    compare_parameters(*got[0], expected_parameters(without, tied=False), "of an untied model, loaded without lm_head.weight")
    compare_parameters(*got[1], expected_parameters(given_one, tied=False), "of an untied model, loaded with lm_head.weight")


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_a_tied_model_takes_wte_and_stays_tied(learner, n, seed):
    """A tied model takes wte for both of its uses, also when the state dict has another lm_head.weight, and its two names stay one tensor."""
    theirs, model = published_weights(n, seed, head=True), make_gpt2(learner, n, seed)
    got, saved = loaded_parameters(learner, model, theirs), state(model)
    load(model, {"token_emb.weight": theirs["lm_head.weight"]})
    later = state(model)
    holds(not torch.equal(got[0]["token_emb.weight"], theirs["lm_head.weight"]), "the tied matrix contains lm_head.weight; in a tied model it should be wte")
    compare_parameters(*got, expected_parameters(theirs), "of a tied model")
    for name in ("token_emb.weight", "lm_head.weight"):
        with check:
            close(saved.get(name), theirs["wte.weight"], f"in the state dict of a tied model, {name}", tol=0.0)
        with check:
            close(later.get(name), theirs["lm_head.weight"], f"{name}, after the tied matrix was given other numbers,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_other_names_are_ignored(learner, n, seed):
    """Masks such as h.0.attn.bias and h.0.attn.masked_bias, unknown names, and the order of the names change nothing."""
    theirs = published_weights(n, seed)
    more = {f"h.{i}.attn.bias": torch.ones(1, 1, n.L, n.L, dtype=torch.bool).tril() for i in range(n.N)}
    more |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(n.N)}
    more |= {"score.weight": tensor(seed, 2, n.H * n.d_head)}
    mixed = list((theirs | more).items())
    random.Random(seed).shuffle(mixed)
    models = [make_gpt2(learner, n, seed) for _ in range(3)]
    plain, *got = [loaded_parameters(learner, model, names) for model, names in zip(models, (theirs, dict(mixed), with_prefix(dict(mixed))))]
    for now, what in zip(got, ("with more names in it", "with more names in it, all with the prefix")):
        compare_parameters(*now, expected_parameters(theirs), f"after loading a state dict {what}")
        for name, value in plain[0].items():
            close(now[0].get(name), value, f"{name}, loaded from a state dict {what} and not without,", tol=0.0)


def load_and_overwrite(load_gpt2, model, theirs):
    """Load, then change every tensor of the state dict."""
    own = {name: value.t().contiguous().t() if value.dim() == 2 else value.clone() for name, value in theirs.items()}
    load_gpt2(model, own)  # the matrices of `own` are views, whose axes were exchanged in memory
    for value in own.values():
        value.add_(1.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_the_numbers_are_copies(learner, n, seed):
    """Tensors may be views, and later changes of the state dict do not change the model; if an untied model gets wte twice, it has two separate matrices."""
    theirs, model, untied = published_weights(n, seed), make_gpt2(learner, n, seed), make_gpt2(learner, n, seed, tie_weights=False)
    names = list(parameters(model))
    learner.bring(load_and_overwrite)(learner.load_gpt2, model, theirs)
    got, (before, untied_names) = parameters(model), loaded_parameters(learner, untied, theirs)
    load(untied, {"lm_head.weight": 2 * theirs["wte.weight"]})
    after = parameters(untied)
    compare_parameters(got, names, expected_parameters(theirs), "after the tensors of the state dict were changed")
    compare_parameters(before, untied_names, expected_parameters(theirs, tied=False), "of an untied model")
    close(after["token_emb.weight"], theirs["wte.weight"], "token_emb.weight, after lm_head.weight was given other numbers,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=gpt2_sizes, seed=seeds)
def test_the_model_keeps_its_dtype_when_loaded(learner, n, seed):
    """A model keeps its dtype, float32 or float64, for any dtype of the state dict; numbers in float64 keep all their digits."""
    theirs = published_weights(n, seed)
    for dtype, other in ((torch.float64, torch.float32), (torch.float32, torch.bfloat16), (torch.float64, torch.float64)):
        stored = {name: value.to(other) / (3 if other is torch.float64 else 1) for name, value in theirs.items()}
        model = make_gpt2(learner, n, seed)
        got = loaded_parameters(learner, model.double() if dtype is torch.float64 else model, stored)
        expected = {name: value.to(dtype) for name, value in expected_parameters(stored).items()}
        compare_parameters(*got, expected, f"of a {str(dtype)[6:]} model after loading {str(other)[6:]} tensors")
        same([got[0][name].dtype for name in expected], [dtype] * len(expected), f"the dtypes of a {str(dtype)[6:]} model after loading {str(other)[6:]} tensors")


def changed_besides(load_gpt2, model, theirs):
    """What loading changed in a model that is prepared for training one part of it, besides the numbers."""
    model.eval()
    model.blocks[0].train()
    model.pos_emb.requires_grad_(False)
    model.ln_f.weight.grad = theirs["ln_f.weight"].clone()
    before = dict(model.named_parameters()), [part.training for part in model.modules()]
    load_gpt2(model, theirs)
    after = dict(model.named_parameters()), [part.training for part in model.modules()]
    changed = []
    if before[1] != after[1]:
        changed.append("the mode of its parts, train or eval")
    if [name for name, p in after[0].items() if not p.requires_grad] != ["pos_emb.weight"]:
        changed.append("which of its parameters are trained (requires_grad)")
    if not isinstance(model.ln_f.weight.grad, torch.Tensor) or not torch.equal(model.ln_f.weight.grad, theirs["ln_f.weight"]):
        changed.append("the gradients that its parameters had")
    if before[0].keys() != after[0].keys() or any(after[0][name] is not p for name, p in before[0].items()):
        changed.append("its Parameters, which are new objects: an optimizer that was made before would go on to train the old ones")
    return changed


@exercise("load_gpt2")
@few
@given(n=gpt2_sizes, seed=seeds)
def test_only_the_numbers_change(learner, n, seed):
    """The numbers are copied into the Parameters that the model has: an optimizer made before can train them, and modes and requires_grad stay as they were."""
    theirs, model = published_weights(n, seed), make_gpt2(learner, n, seed)
    changed = learner.bring(changed_besides)(learner.load_gpt2, model, theirs)
    for name, value in expected_parameters(theirs).items():
        if is_embedding_or_norm(name):
            close(parameters(model).get(name), value, f"{name} after loading", tol=0.0)
    holds(not changed, f"loading changed more than the numbers of the model: {'; '.join(changed)}")


@exercise("load_gpt2")
@few
@given(n=gpt2_sizes, seed=seeds)
def test_the_loaded_model_gives_gpt2_logits_and_can_be_trained(learner, reference, n, seed):
    """The loaded model computes what GPT-2 computes, and every parameter still gets gradient."""
    theirs, mine, model = published_weights(n, seed), make_gpt2(learner, n, seed), make_gpt2(reference, n, seed)
    theirs = {name: value / 2 if value.dim() > 1 else value for name, value in theirs.items()}
    load(model, expected_parameters(theirs))
    learner.load_gpt2(mine, theirs)
    ids, cotangent = token_ids(seed, 2, n.L, vocab=n.V), tensor(seed, 2, n.L, n.V)
    got, expected = gradients(mine, ids, cotangent=cotangent), gradients(model, ids, cotangent=cotangent)
    holds(isinstance(got.output, tuple | list), "the model should return (logits, loss), with None as the loss without targets")
    close(got.output[0], expected.output[0], "the logits of the loaded model", tol=1e-4)
    for name, gradient in expected.parameters.items():
        if not name.endswith("W_k.bias"):
            close(got.parameters.get(name), gradient, f"the gradient of {name}", tol=1e-3)
