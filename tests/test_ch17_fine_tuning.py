"""Chapter 17, first part: adapters. Data is in test_ch17_fine_tuning_data.py, the losses are in two more files."""

from __future__ import annotations

import torch
from devices_and_dtypes import load_meta_device
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same
from hypothesis import given, settings
from memory_layouts import of_view
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
layer_sizes = distinct("B", "T", "rank", "m", "n", B=(1, 3), T=(3, 5), rank=(2, 4), m=(6, 9), n=(6, 9))


def adapter(LoRALinear, weight, bias, rank, alpha):
    """A LoRALinear around a linear layer with these numbers."""
    linear = torch.nn.Linear(weight.size(1), weight.size(0), bias is not None, dtype=weight.dtype, device=weight.device)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return LoRALinear(linear, rank, alpha)


def make(learner, weight, bias, rank, alpha):
    return learner.bring(adapter)(learner.LoRALinear, weight, bias, rank, alpha)


def layer(n, seed, dtype=torch.float32):
    """Weight (out, in) and bias (out,) of the given layer."""
    return tensor(seed, n.m, n.n, dtype=dtype) / n.n**0.5, tensor(seed + 1, n.m, dtype=dtype)


def adapted(x, weight, bias, A, B, scale):
    y = x @ weight.T + scale * (x @ A.T) @ B.T
    return y if bias is None else y + bias


# ---- LoRALinear


@exercise("LoRALinear", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_it_begins_as_the_given_layer(learner, n, seed):
    """B begins with zeros, so before any training the output is that of the given layer, with a bias or without one."""
    (weight, bias), x = layer(n, seed), tensor(seed + 2, n.B, n.T, n.n)
    mine, plain = make(learner, weight, bias, n.rank, 8.0), make(learner, weight, None, n.rank, 8.0)
    outputs, values = [mine(x), plain(x)], state(mine)
    close(outputs[0], x @ weight.T + bias, "the output before any training")
    close(outputs[1], x @ weight.T, "the output without a bias")
    same(sorted(values), ["A", "B", "linear.bias", "linear.weight"], "the names in the state dict")
    close(values["B"], torch.zeros(n.m, n.rank), "B before any training")
    close(values["linear.weight"], weight, "the weight of the given layer")


def spread(LoRALinear, rank, width):
    """The mean and the standard deviation of A, and whether a second adapter begins with other numbers."""
    linear = torch.nn.Linear(width, 5)
    first, second = LoRALinear(linear, rank, 1.0).A.detach(), LoRALinear(linear, rank, 1.0).A.detach()
    rows = first[0].equal(first[1])
    far = (first.abs() > 2 * first.std()).double().mean().item()
    return list(first.shape), first.mean().item(), first.std().item(), first.equal(second), rows, far


def after_a_step(LoRALinear, x):
    """The output of an adapter before and after one step of gradient descent on its trained parameters."""
    torch.manual_seed(3)
    linear = torch.nn.Linear(x.size(-1), 5)
    lora = LoRALinear(linear, 4, 4.0)
    before = lora(x)
    before.square().sum().backward()
    with torch.no_grad():
        for parameter in (lora.A, lora.B):
            parameter -= 0.1 * parameter.grad
    return {"itself": lora.linear is linear, "given": linear(x).detach(), "before": before.detach(), "after": lora(x).detach()}


@exercise("LoRALinear")
def test_a_begins_with_random_numbers_of_the_right_size(learner):
    """A begins with normal numbers of standard deviation 1/sqrt(in_features), others in each adapter and in each row; zeros in both would never be trained."""
    x = tensor(1, 6, 8)
    steps = learner.bring(after_a_step)(learner.LoRALinear, x)
    found = {width: learner.bring(spread)(learner.LoRALinear, 64, width) for width in (64, 1024)}
    close(steps["before"], steps["given"], "the output before the first step of training")
    holds(steps["itself"], "`linear` should be the given layer, not a copy of it")
    holds(not torch.allclose(steps["after"], steps["given"], atol=1e-3), "a step of training has not changed the output")
    for width, (shape, mean, std, equal, rows, far) in found.items():
        same(shape, [64, width], "the shape of A")
        holds(abs(mean) < 0.15 / width**0.5, f"the mean of A is {mean:.4f}; it should be about 0")
        holds(0.9 < std * width**0.5 < 1.1, f"the standard deviation of A is {std:.4f}; for {width} inputs it should be about {1 / width**0.5:.4f}")
        holds(0.02 < far < 0.08, f"{100 * far:.1f} % of A's numbers are farther from 0 than two standard deviations; of normal numbers it is about 4.6 %")
        holds(not equal, "two adapters begin with the same A")
        holds(not rows, "two rows of A begin with the same numbers")


@exercise("LoRALinear", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_the_change_is_scaled_by_alpha_over_rank(learner, n, seed):
    """y = linear(x) + alpha/rank · (x Aᵀ) Bᵀ, with any number of leading axes, also for an x that is a view."""
    weight, bias = layer(n, seed)
    for alpha in (1.0, 12.0):
        mine = make(learner, weight, bias, n.rank, alpha)
        values = randomise(mine, seed + 3)
        A, B, w, b = (values[name] for name in ("A", "B", "linear.weight", "linear.bias"))
        inputs = tensor(seed + 2, n.B, n.T, n.n), tensor(seed + 4, n.T, n.n), tensor(seed + 5, n.n)
        outputs, pairs = [mine(x) for x in inputs], tensor(seed + 6, 2, 3, n.n)
        view = learner.bring(of_view)(mine, pairs)
        for x, y in zip(inputs, outputs):
            close(y, adapted(x, w, b, A, B, alpha / n.rank), f"the output with alpha = {alpha:g} and {x.dim()} axes")
        close(view, adapted(pairs, w, b, A, B, alpha / n.rank), "the output if x is a view")


@exercise("LoRALinear", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_gradients_reach_a_and_b_only(learner, n, seed):
    """The given layer is frozen: only A, B and the input get gradients. While B is zero, B gets one and A's is zero."""
    (weight, bias), x = layer(n, seed), tensor(seed + 2, n.T, n.n)
    mine, cotangent = make(learner, weight, bias, n.rank, 4.0), tensor(seed + 6, n.T, n.m)
    A = parameters(mine)["A"]
    first = gradients(mine, x, cotangent=cotangent)
    B, scale = tensor(seed + 7, n.m, n.rank), 4.0 / n.rank
    load(mine, {"B": B})
    later = gradients(mine, x, cotangent=cotangent)
    same(sorted(first.parameters), ["A", "B"], "the parameters that need gradients")
    with check:
        close(first.parameters["B"], scale * cotangent.T @ (x @ A.T), "the gradient of B, while B is zero")
    with check:
        close(first.parameters["A"], torch.zeros_like(A), "the gradient of A, while B is zero")
    with check:
        close(later.parameters["A"], scale * (cotangent @ B).T @ x, "the gradient of A, with another B", tol=1e-4)
    with check:
        close(later.inputs[0], cotangent @ (weight + scale * B @ A), "the gradient of the input, with another B", tol=1e-4)


def after_merging(lora, x, new):
    """What merged() gives, and what is left of both layers when each is changed afterwards."""
    merged = lora.merged()
    kinds = [type(merged) is torch.nn.Linear, merged is not lora.linear, all(parameter.requires_grad for parameter in merged.parameters())]
    before = lora(x).detach(), merged(x).detach()
    with torch.no_grad():
        merged.weight.add_(1.0)
    after = lora(x).detach()
    with torch.no_grad():
        lora.B.copy_(new)
        lora.linear.weight.add_(1.0)
        if merged.bias is not None:
            lora.linear.bias.add_(1.0)
    return {"kinds": kinds, "lora": before[0], "merged": before[1], "lora after": after, "merged after": merged(x).detach(), "names": sorted(name for name, _ in merged.named_parameters())}


@exercise("LoRALinear", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_the_merged_layer_is_the_same_function(learner, n, seed):
    """merged() is one new nn.Linear that can be trained, with a bias if the layer has one; it gives the same outputs, and neither layer changes when the other one does."""
    (weight, bias), x = layer(n, seed), tensor(seed + 2, n.T, n.n)
    found = []
    for own in (bias, None):
        mine = make(learner, weight, own, n.rank, 6.0)
        A, B = tensor(seed + 3, n.rank, n.n) / n.n**0.5, tensor(seed + 4, n.m, n.rank)
        load(mine, {"A": A, "B": B})
        found.append((own, adapted(x, weight, own, A, B, 6.0 / n.rank), learner.bring(after_merging)(mine, x, -B)))
    for own, expected, got in found:
        what = "" if own is not None else " without a bias"
        holds(got["kinds"][0], "merged() should return an nn.Linear")
        holds(got["kinds"][1], "merged() should return a new layer, not the given one")
        holds(got["kinds"][2], "the merged layer cannot be trained: its weight or its bias needs no gradient")
        same(got["names"], ["bias", "weight"] if own is not None else ["weight"], f"the parameters of the merged layer{what}")
        close(got["merged"], expected, f"the output of the merged layer{what}")
        close(got["lora"], expected, f"the output of the adapter after merging{what}")
        close(got["lora after"], expected, f"the output of the adapter after the merged layer was changed{what}")
        close(got["merged after"], expected + x.sum(-1, keepdim=True), f"the output of the merged layer after the adapter was changed{what}", tol=1e-4)


@exercise("LoRALinear")
def test_dtype_and_device_are_those_of_the_given_layer(learner):
    """A, B and the merged layer have the dtype and the device of the given layer's weight."""
    load_meta_device()
    x = tensor(1, 3, 4, dtype=torch.float64)
    kinds = learner.bring(kinds_of_parts)(learner.LoRALinear, x)
    for found in kinds:
        close(found["output"], found["expected"], "the output before any training")
        same(found["kinds"], [found["given"]] * len(found["kinds"]), f"dtype and device of A, B and the merged weight, for a layer with {found['given']}")
        close(found["changed"], found["expected change"], "the output with other numbers in A and B")


def kinds_of_parts(LoRALinear, x):
    found = []
    for dtype, device in ((torch.float64, "cpu"), (torch.bfloat16, "cpu"), (torch.float32, "meta")):
        linear, own = torch.nn.Linear(4, 3, dtype=dtype, device=device), x.to(dtype).to(device)
        expected = linear(own).detach()
        lora = LoRALinear(linear, 2, 1.0)
        kinds = [f"{value.dtype} on {value.device}" for value in (lora.A, lora.B)]
        changed = [torch.ones(1)] * 2
        if kinds != [f"{dtype} on {device}"] * 2:
            found.append({"given": f"{dtype} on {device}", "kinds": kinds, "output": changed[0], "expected": changed[0], "changed": changed[0], "expected change": changed[0]})
            continue
        weight = lora.merged().weight
        kinds.append(f"{weight.dtype} on {weight.device}")
        if dtype == torch.float64:
            with torch.no_grad():
                lora.A.copy_(own[:2] / 3), lora.B.copy_(own[:, :2] / 7)
            changed = lora(own).detach(), expected + 0.5 * (own @ lora.A.detach().T) @ lora.B.detach().T
            with torch.no_grad():
                lora.B.zero_()
        values = (lora(own).detach(), expected) if dtype == torch.float64 else [torch.ones(1)] * 2
        found.append({"given": f"{dtype} on {device}", "kinds": kinds, "output": values[0], "expected": values[1], "changed": changed[0], "expected change": changed[1]})
    return found


@exercise("LoRALinear")
def test_a_rank_below_1_is_refused(learner):
    """A rank of 0 or less raises a ValueError that names rank; a rank of 1 is fine, and so is one above the width."""
    weight, x = tensor(1, 3, 4), tensor(2, 5, 4)
    outputs = [make(learner, weight, None, rank, 1.0)(x) for rank in (1, 6)]
    for rank in (0, -2):
        refuses(lambda rank=rank: make(learner, weight, None, rank, 1.0), naming={"rank": rank}, because="an adapter needs at least rank 1")
    for output in outputs:
        close(output, x @ weight.T, "the output")


# ---- add_lora


def nested_model(tied=True):
    """A small model with linear layers at several depths, a tied head, and names that look alike."""
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.W_q, self.W_k, self.my_W_q = nn.Linear(6, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 6)

        def forward(self, x):
            return self.my_W_q(torch.tanh(self.W_q(x) + self.W_k(x)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn, self.norm = Attention(), nn.LayerNorm(6)
            self.ffn = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))

        def forward(self, x):
            return x + self.ffn(self.norm(x + self.attn(x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.blocks = nn.Embedding(9, 6), nn.ModuleList([Block(), Block()])
            self.W_k, self.head = nn.Linear(6, 6), nn.Linear(6, 9, bias=False)
            if tied:
                self.head.weight = self.emb.weight

        def forward(self, ids):
            x = self.emb(ids)
            for block in self.blocks:
                x = block(x)
            return self.head(self.W_k(x))

    return Model()


def adapted_model(add_lora, nested_model, LoRALinear, names, rank, alpha, seed, error=False):
    """What add_lora does to the nested model."""
    torch.manual_seed(seed)
    model, ids = nested_model(), torch.tensor([[1, 4, 8], [2, 0, 4]])
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.5
    model.blocks[0].norm.weight.requires_grad_(False)
    before = model(ids).detach()
    old = dict(model.named_modules())
    problem = None
    try:
        found = add_lora(model, rank, alpha, names)
    except (ValueError, AssertionError) as raised:
        found, problem = None, raised
    loras = [(name, module) for name, module in model.named_modules() if isinstance(module, LoRALinear)]
    result = {
        "found": list(found) if isinstance(found, (list, tuple)) else found,
        "replaced": [name for name, _ in loras],
        "same layer": all(module.linear is old[name] for name, module in loras),
        "trained": [name for name, parameter in model.named_parameters() if parameter.requires_grad],
        "ranks": [list(module.A.shape)[:1] for _, module in loras],
        "before": before,
        "after": model(ids).detach(),
        "tied": getattr(model.head, "linear", model.head).weight is model.emb.weight,
        "count": sum(parameter.numel() for parameter in model.parameters()),
        "state": sorted(model.state_dict()),
    }
    if loras:
        with torch.no_grad():
            for _, module in loras:
                torch.manual_seed(seed + 1)
                module.A.copy_(torch.randn_like(module.A))
                module.B.copy_(torch.randn_like(module.B))
        result["moved"] = model(ids).detach()
    if error and problem is not None:
        result["named in the error"] = [name for name in names if name in str(problem)]
    elif problem is not None:
        raise problem
    return result


def add(side, names, rank=2, alpha=3.0, seed=5, error=False):
    return side.bring(adapted_model)(side.add_lora, side.bring(nested_model), side.LoRALinear, names, rank, alpha, seed, error)


EVERY = ["blocks.0.attn.W_q", "blocks.0.attn.W_k", "blocks.1.attn.W_q", "blocks.1.attn.W_k", "W_k"]


@exercise("add_lora", weight=3)
def test_layers_are_found_by_whole_parts_of_their_names(learner):
    """A name is the end of the dotted name, in whole parts: "W_q" is blocks.0.attn.W_q and not my_W_q; the names come back in the order of the model, each once."""
    cases = {
        ("W_q",): [EVERY[0], EVERY[2]],
        ("W_k", "attn.W_q"): EVERY,
        ("attn.W_q", "W_q"): [EVERY[0], EVERY[2]],
        ("blocks.1.attn.W_k",): [EVERY[3]],
        ("ffn.0", "norm"): ["blocks.0.ffn.0", "blocks.1.ffn.0"],
    }
    got = {names: add(learner, list(names)) for names in cases}
    for names, expected in cases.items():
        same(got[names]["found"], expected, f"the names that add_lora returns for {list(names)}")
        same(got[names]["replaced"], expected, f"the layers that are a LoRALinear now, for {list(names)}")
        holds(got[names]["same layer"], "an adapter should contain the layer in whose place it is, not a copy")


@exercise("add_lora", weight=2)
def test_everything_else_is_frozen(learner):
    """Afterwards only the new A and B get gradients: no norm, no embedding, no bias, no layer without an adapter."""
    names = [f"{name}.{part}" for name in EVERY for part in ("A", "B")]
    got = add(learner, ["W_q", "W_k"])
    same(got["found"], EVERY, "the names that add_lora returns")
    same(sorted(got["trained"]), sorted(names), "the parameters that get gradients")


@exercise("add_lora", weight=2)
@few
@given(seed=seeds)
def test_the_model_begins_as_it_was_and_its_adapters_act(learner, reference, seed):
    """Right afterwards the model gives the same outputs; with other A and B it gives others, with the given rank and alpha."""
    got = [add(learner, ["W_q", "head"], rank, alpha, seed) for rank, alpha in ((1, 2.0), (3, 2.0), (3, 9.0))]
    expected = [add(reference, ["W_q", "head"], rank, alpha, seed) for rank, alpha in ((1, 2.0), (3, 2.0), (3, 9.0))]
    for mine, right, rank in zip(got, expected, (1, 3, 3)):
        same(mine["found"], [EVERY[0], EVERY[2], "head"], "the names that add_lora returns")
        close(mine["after"], mine["before"], "the output right after add_lora")
        same(mine["ranks"], [[rank]] * 3, f"the first axis of A in each adapter, for rank = {rank}")
        close(mine["moved"], right["moved"], "the output with other numbers in A and B", tol=1e-4)


@exercise("add_lora", weight=2)
def test_tied_weights_stay_tied(learner, reference):
    """A head that shares the embedding's Parameter still shares it, with an adapter or without one; no weight is copied. The state dict has the old names, with `linear.` in the adapters, A and B."""
    got = {name: add(learner, [name]) for name in ("head", "W_q")}
    right = {name: add(reference, [name]) for name in got}
    for name, mine in got.items():
        same(mine["found"], right[name]["found"], "the names that add_lora returns")
        holds(mine["tied"], f"after add_lora with the name {name}, the head's weight is no longer the embedding's Parameter")
        same(mine["count"], right[name]["count"], "the numbers in all parameters of the model, each counted once")
        same(mine["state"], right[name]["state"], "the names in the state dict, sorted")


@exercise("add_lora", weight=2)
def test_a_name_that_no_layer_has_is_refused(learner):
    """If no linear layer has one of the names, a ValueError says which names were looked for, and the model is as before; norms and embeddings are no linear layers."""
    fine = add(learner, ["query", "W_q"])
    got = {names: add(learner, list(names), error=True) for names in (("query",), ("emb", "norm"), ("q",), ("attn",))}
    same(fine["found"], [EVERY[0], EVERY[2]], "the names that add_lora returns")
    same(fine["replaced"], [EVERY[0], EVERY[2]], "the layers that are a LoRALinear now")
    for names, found in got.items():
        named = found.get("named in the error")
        holds(named is not None, f"no linear layer is named {' or '.join(names)}, so the call should raise a ValueError")
        missing = [name for name in names if name not in named]
        holds(not missing, f"the error's message should contain the names that were looked for; {' and '.join(missing)} is missing")
        frozen = [name for name in ("emb.weight", "W_k.bias") if name not in found["trained"]]
        holds(not frozen, f"the call failed, and {' and '.join(frozen)} no longer gets gradients: the model should stay as it was")
