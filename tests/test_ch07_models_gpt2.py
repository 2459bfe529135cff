"""Chapter 7: the weights of a published GPT-2 in the learner's own GPT."""

import random

import torch
from grader.comparing import close, holds, refuses, same
from grader.door.errors import LearnerError
from grader.door.near import gradients, load, parameters, randomise, state
from grader.marks import exercise
from hypothesis import given, settings
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=2)  # what is broken here is broken at every example


def good(n):
    """The width is no other size, and RoPE could pair the features of a head."""
    return n.d_head % 2 == 0 and n.H * n.d_head not in vars(n).values()


some = distinct(N=(2, 2), H=(3, 4), d_head=(2, 6), F=(5, 9), V=(10, 13), L=(6, 9)).filter(good)


def make(learner, n, seed, **others):
    """A GPT with random numbers in it. V is the vocabulary, L max_len, N the number of layers, F d_ff."""
    config = dict(vocab_size=n.V, max_len=n.L, d_model=n.H * n.d_head, n_heads=n.H, n_layers=n.N, d_ff=n.F, activation="gelu_tanh")
    model = learner.GPT(learner.GPTConfig(**config | others))
    randomise(model, seed + 50)
    return model


def published(n, seed, layers=None, head=False):
    """The state dict of a GPT-2: linear maps lie as (in, out), and q, k and v are one of them."""
    D, shapes = n.H * n.d_head, {}
    linear = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, n.F), "mlp.c_proj": (n.F, D)}
    shapes |= {"wte.weight": (n.V, D), "wpe.weight": (n.L, D)}
    for i in range(n.N if layers is None else layers):
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{norm}.weight": (D,), f"h.{i}.{norm}.bias": (D,)}
        for name, shape in linear.items():
            shapes |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
    shapes |= {"ln_f.weight": (D,), "ln_f.bias": (D,)}
    if head:
        shapes["lm_head.weight"] = (n.V, D)
    return {name: tensor(seed + i, *shape) for i, (name, shape) in enumerate(shapes.items())}


def prefixed(theirs):
    return {name if name.startswith("lm_head") else f"transformer.{name}": value for name, value in theirs.items()}


def wanted(theirs, tied=True):
    """The same numbers under our names."""
    ours = {"token_emb.weight": theirs["wte.weight"], "pos_emb.weight": theirs["wpe.weight"]}
    if not tied:
        ours["lm_head.weight"] = theirs.get("lm_head.weight", theirs["wte.weight"])
    for name, value in theirs.items():
        layer, _, kind = name.rpartition(".")
        if layer == "ln_f":
            ours[name] = value
        if not layer.startswith("h."):
            continue
        _, i, part = layer.split(".", 2)
        value = value.T if ".c_" in layer and kind == "weight" else value
        if part == "attn.c_attn":
            ours |= {f"blocks.{i}.attn.{which}.{kind}": third for which, third in zip(("W_q", "W_k", "W_v"), value.chunk(3))}
        else:
            places = {"ln_1": "ln1", "ln_2": "ln2", "attn.c_proj": "attn.W_out", "mlp.c_fc": "ffn.up", "mlp.c_proj": "ffn.down"}
            ours[f"blocks.{i}.{places[part]}.{kind}"] = value
    return ours


def easy(name):
    """Embeddings and norms: what goes in as it is. Most laws look at these, so that a mistake about linear maps costs its own points only."""
    return ".attn." not in name and ".ffn." not in name


def hard(name):
    return not easy(name)


def holds_them(now, names, expected, what, where=easy):
    """The parameters `now` are the expected ones, to the last bit, and no other name has come or gone."""
    same(sorted(now), sorted(names), f"the names of the parameters {what}")
    for name, value in expected.items():
        if where(name):
            close(now.get(name), value, f"{name} {what}", tol=0.0)


def loaded(learner, model, theirs):
    """The model's parameters after loading, and their names before."""
    names = list(parameters(model))
    learner.load_gpt2(model, theirs)
    return parameters(model), names


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_embeddings_and_norms_go_in_as_they_are(learner, n, seed):
    """wte, wpe, ln_1, ln_2 and ln_f find their places, in the very model that was given."""
    theirs, model = published(n, seed), make(learner, n, seed)
    before = parameters(model)
    got = loaded(learner, model, theirs)
    changed = any(not torch.equal(got[0].get(name, value), value) for name, value in before.items())
    holds(changed, "the model is what it was: load_gpt2 should change the model that it is given")
    holds_them(*got, wanted(theirs), "after loading")


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_linear_maps_are_turned(learner, n, seed):
    """attn.c_proj, mlp.c_fc and mlp.c_proj are stored as (in, out), and nn.Linear keeps (out, in); biases go in as they are."""
    theirs = published(n, seed)
    got = loaded(learner, make(learner, n, seed), theirs)
    holds_them(*got, wanted(theirs), "after loading", lambda name: hard(name) and not any(which in name for which in ("W_q", "W_k", "W_v")))


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_c_attn_is_cut_in_three(learner, n, seed):
    """The columns of c_attn.weight are those of the queries, then the keys, then the values, and so is its bias: W_q, W_k and W_v, turned."""
    theirs = published(n, seed)
    got = loaded(learner, make(learner, n, seed), theirs)
    holds_them(*got, wanted(theirs), "after loading", lambda name: any(which in name for which in ("W_q", "W_k", "W_v")))


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_names_may_begin_with_transformer(learner, n, seed):
    """`transformer.h.0.ln_1.weight` is `h.0.ln_1.weight`; lm_head.weight has no prefix in either case."""
    theirs = published(n, seed, head=True)
    got = [loaded(learner, make(learner, n, seed, tie_weights=False), names) for names in (prefixed(theirs), theirs)]
    holds_them(*got[0], wanted(theirs, tied=False), "after loading names with the prefix")
    holds_them(*got[1], wanted(theirs, tied=False), "after loading names without the prefix")
    for name, value in got[1][0].items():
        close(got[0][0].get(name), value, f"{name}, loaded with the prefix and not without it,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_an_untied_model_takes_lm_head_or_else_wte(learner, n, seed):
    """A model with a head of its own takes lm_head.weight; where the state dict has none, wte."""
    without, given_one = published(n, seed), published(n, seed, head=True)
    got = [loaded(learner, make(learner, n, seed, tie_weights=False), theirs) for theirs in (without, given_one)]
    holds_them(*got[0], wanted(without, tied=False), "of an untied model, loaded without lm_head.weight")
    holds_them(*got[1], wanted(given_one, tied=False), "of an untied model, loaded with lm_head.weight")


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_a_tied_model_takes_wte_and_stays_tied(learner, n, seed):
    """A tied model takes wte for both of its uses, also when the state dict has another lm_head.weight, and its two names stay one tensor."""
    theirs, model = published(n, seed, head=True), make(learner, n, seed)
    got, saved = loaded(learner, model, theirs), state(model)
    load(model, {"token_emb.weight": theirs["lm_head.weight"]})
    later = state(model)
    holds(not torch.equal(got[0]["token_emb.weight"], theirs["lm_head.weight"]), "the tied matrix holds lm_head.weight now; a tied model should hold wte")
    holds_them(*got, wanted(theirs), "of a tied model")
    for name in ("token_emb.weight", "lm_head.weight"):
        close(saved.get(name), theirs["wte.weight"], f"in the state dict of a tied model, {name}", tol=0.0)
        close(later.get(name), theirs["lm_head.weight"], f"{name}, after the tied matrix was given other numbers,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_other_names_are_ignored(learner, n, seed):
    """Masks such as h.0.attn.bias and h.0.attn.masked_bias, and names never heard of, change nothing, and neither does the order of the names."""
    theirs = published(n, seed)
    more = {f"h.{i}.attn.bias": torch.ones(1, 1, n.L, n.L, dtype=torch.bool).tril() for i in range(n.N)}
    more |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(n.N)}
    more |= {"score.weight": tensor(seed, 2, n.H * n.d_head)}
    mixed = list((theirs | more).items())
    random.Random(seed).shuffle(mixed)
    models = [make(learner, n, seed) for _ in range(3)]
    plain, *got = [loaded(learner, model, names) for model, names in zip(models, (theirs, dict(mixed), prefixed(dict(mixed))))]
    for now, what in zip(got, ("with more names in it", "with more names in it, all with the prefix")):
        holds_them(*now, wanted(theirs), f"after loading a state dict {what}")
        for name, value in plain[0].items():
            close(now[0].get(name), value, f"{name}, loaded from a state dict {what} and not without,", tol=0.0)


def load_and_overwrite(load_gpt2, model, theirs):
    """Load, then change every tensor of the state dict."""
    own = {name: value.clone() for name, value in theirs.items()}
    load_gpt2(model, own)
    for value in own.values():
        value.add_(1.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_the_numbers_are_copies(learner, n, seed):
    """What is done to the state dict afterwards does not reach the model, and wte in two places of an untied model is two matrices."""
    theirs, model, untied = published(n, seed), make(learner, n, seed), make(learner, n, seed, tie_weights=False)
    names = list(parameters(model))
    learner.bring(load_and_overwrite)(learner.load_gpt2, model, theirs)
    got, (before, untied_names) = parameters(model), loaded(learner, untied, theirs)
    load(untied, {"lm_head.weight": 2 * theirs["wte.weight"]})
    after = parameters(untied)
    holds_them(got, names, wanted(theirs), "after the tensors of the state dict were changed")
    holds_them(before, untied_names, wanted(theirs, tied=False), "of an untied model")
    close(after["token_emb.weight"], theirs["wte.weight"], "token_emb.weight, after lm_head.weight was given other numbers,", tol=0.0)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_the_model_keeps_its_dtype_when_loaded(learner, n, seed):
    """A model in float32 or float64 stays that, whatever the dtype of the state dict."""
    theirs = published(n, seed)
    for dtype, other in ((torch.float64, torch.float32), (torch.float32, torch.bfloat16)):
        stored = {name: value.to(other) for name, value in theirs.items()}
        model = make(learner, n, seed)
        got = loaded(learner, model.double() if dtype is torch.float64 else model, stored)
        expected = {name: value.to(dtype) for name, value in wanted(stored).items()}
        holds_them(*got, expected, f"of a {str(dtype)[6:]} model after loading {str(other)[6:]} tensors")
        same([got[0][name].dtype for name in expected], [dtype] * len(expected), f"the dtypes of a {str(dtype)[6:]} model after loading {str(other)[6:]} tensors")


@exercise("load_gpt2")
@few
@given(n=some, seed=seeds)
def test_the_loaded_model_speaks_and_can_go_on_learning(learner, reference, n, seed):
    """The loaded model computes what GPT-2 computes, and every parameter still gets gradient."""
    theirs, mine, model = published(n, seed), make(learner, n, seed), make(reference, n, seed)
    theirs = {name: value / 2 if value.dim() > 1 else value for name, value in theirs.items()}
    load(model, wanted(theirs))
    learner.load_gpt2(mine, theirs)
    ids, cotangent = token_ids(seed, 2, n.L, vocab=n.V), tensor(seed, 2, n.L, n.V)
    got, expected = gradients(mine, ids, cotangent=cotangent), gradients(model, ids, cotangent=cotangent)
    holds(isinstance(got.output, tuple | list), "the model should give (logits, loss), loss being None without targets")
    close(got.output[0], expected.output[0], "the logits of the loaded model", tol=1e-4)
    for name, gradient in expected.parameters.items():
        if not name.endswith("W_k.bias"):
            close(got.parameters.get(name), gradient, f"the gradient of {name}", tol=1e-3)


# ---- what cannot be loaded


def asked(call):
    """Do it now, and give something that tells again how it went: so that all is asked before anything is judged."""
    try:
        value = call()
    except LearnerError as problem:
        error = problem
    else:
        return lambda: value

    def again():
        raise error

    return again


def unchanged(now, before, because):
    for name, value in before.items():
        holds(name in now and torch.equal(now[name], value), f"{because}: after the error the model should be what it was, and {name} has changed")


def refused_unchanged(learner, model, good, bad):
    """A good state dict is loaded; then each bad one is refused, and every number of the good one is still there.

    `bad` holds a state dict, what the error should name, and why it is refused.
    """
    names = list(parameters(model))
    learner.load_gpt2(model, good)
    before = parameters(model)
    holds_them(before, names, wanted(good, tied="lm_head.weight" not in before), "after loading a state dict that fits")
    outcomes = [(asked(lambda: learner.load_gpt2(model, theirs)), parameters(model), *words) for theirs, *words in bad]
    for again, now, naming, because in outcomes:
        refuses(again, naming=naming, because=because)
        unchanged(now, before, because)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_a_missing_tensor_is_named(learner, n, seed):
    """A state dict that lacks a tensor raises a ValueError with its name, and the model is as it was."""
    good, other, last = published(n, seed), published(n, seed + 1), n.N - 1
    wants = ["wte.weight", "wpe.weight", "ln_f.bias", "h.0.ln_1.weight", f"h.{last}.attn.c_attn.bias", f"h.{last}.mlp.c_proj.weight"]
    bad = []
    for name in random.Random(seed).sample(wants, 3):
        without = {key: value for key, value in other.items() if key != name}
        bad += [(without, (name,), f"{name} is missing"), (prefixed(without), (name,), f"transformer.{name} is missing")][: 1 + len(bad) % 2]
    refused_unchanged(learner, make(learner, n, seed), good, bad)


@exercise("load_gpt2", weight=2)
@few
@given(n=some, seed=seeds)
def test_a_tensor_of_a_wrong_size_is_named(learner, n, seed):
    """A tensor that does not fit raises a ValueError with its name, also where it could be stretched or cut to fit, and the model is as it was."""
    good, other, D, last = published(n, seed), published(n, seed + 1), n.H * n.d_head, n.N - 1
    sizes = {
        "wte.weight": (n.V + 1, D),
        "wpe.weight": (n.L + 2, D),
        "ln_f.bias": (1,),
        f"h.{last}.ln_2.weight": (D + 1,),
        "h.0.attn.c_attn.bias": (3 * D + 3,),
        f"h.{last}.attn.c_attn.weight": (D + 1, 3 * D),
        f"h.{last}.mlp.c_proj.weight": (D, n.F),
    }
    bad = []
    for name in random.Random(seed).sample(list(sizes), 4):
        bad.append((other | {name: tensor(seed, *sizes[name])}, (name,), f"{name} is {sizes[name]} in the state dict, and does not fit the model"))
    refused_unchanged(learner, make(learner, n, seed), good, bad)
    stretched = other | {"lm_head.weight": tensor(seed, 1, D)}, ("lm_head.weight",), f"lm_head.weight is {(1, D)} in the state dict, and the model is not tied"
    refused_unchanged(learner, make(learner, n, seed, tie_weights=False), good, [stretched])


@exercise("load_gpt2")
@few
@given(n=some, seed=seeds)
def test_another_number_of_layers_is_refused(learner, n, seed):
    """A state dict with more layers than the model, or with fewer, raises a ValueError that names both numbers, and the model is as it was."""
    bad = []
    for layers in (n.N + 1, n.N - 1):
        bad.append((published(n, seed + 1, layers=layers), (layers, n.N), f"the state dict has {layers} layers, and the model {n.N}"))
    refused_unchanged(learner, make(learner, n, seed), published(n, seed), bad)


@exercise("load_gpt2")
@few
@given(n=some, seed=seeds)
def test_a_model_without_learned_positions_is_refused(learner, n, seed):
    """GPT-2 has learned positions: a model with sinusoidal ones, RoPE or ALiBi raises a ValueError that names them, and is as it was."""
    theirs, model = published(n, seed), make(learner, n, seed)
    got = loaded(learner, model, theirs)
    holds_them(*got, wanted(theirs), "of a model with learned positions")
    outcomes = []
    for positions in ("sinusoidal", ("rope", "alibi")[seed % 2]):
        other = make(learner, n, seed, positions=positions)
        before = parameters(other)
        outcomes.append((positions, before, asked(lambda: learner.load_gpt2(other, theirs)), parameters(other)))
    for positions, before, again, now in outcomes:
        because = f"the model's positions are {positions!r}"
        refuses(again, naming=(positions,), because=because)
        unchanged(now, before, because)
