"""The weights of a small GPT-2 as published: their names and shapes, the same numbers under this course's names, and a model that loads them."""

from __future__ import annotations

from grader.execution.proxy import parameters, randomise
from grader.verdict.comparing import close, same
from pytest_check import check
from strategies import distinct, tensor


def sizes_fit(n):
    """The width differs from all other sizes, and the width of a head is even, as RoPE needs."""
    return n.d_head % 2 == 0 and n.H * n.d_head not in vars(n).values()


gpt2_sizes = distinct(N=(2, 2), H=(3, 4), d_head=(2, 6), F=(5, 9), V=(10, 13), L=(6, 9)).filter(sizes_fit)


def make_gpt2(learner, n, seed, **others):
    """A GPT with random numbers in it. V is the vocabulary, L max_len, N the number of layers, F d_ff."""
    config = dict(vocab_size=n.V, max_len=n.L, d_model=n.H * n.d_head, n_heads=n.H, n_layers=n.N, d_ff=n.F, activation="gelu_tanh")
    model = learner.GPT(learner.GPTConfig(**config | others))
    randomise(model, seed + 50)
    return model


def published_weights(n, seed, layers=None, head=False):
    """The state dict of a GPT-2: linear maps are stored as (in, out), and q, k and v are one of them."""
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


def with_prefix(theirs):
    return {name if name.startswith("lm_head") else f"transformer.{name}": value for name, value in theirs.items()}


def expected_parameters(theirs, tied=True):
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


def is_embedding_or_norm(name):
    """Embeddings and norms: what is copied unchanged. Most tests use these, so that a mistake about linear maps costs only its own points."""
    return ".attn." not in name and ".ffn." not in name


def compare_parameters(now, names, expected, what, where=is_embedding_or_norm):
    """The parameters `now` are the expected ones, to the last bit, and no other name has come or gone."""
    same(sorted(now), sorted(names), f"the names of the parameters {what}")
    for name, value in expected.items():
        if where(name):
            with check:
                close(now.get(name), value, f"{name} {what}", tol=0.0)


def loaded_parameters(learner, model, theirs):
    """The model's parameters after loading, and their names before."""
    names = list(parameters(model))
    learner.load_gpt2(model, theirs)
    return parameters(model), names
