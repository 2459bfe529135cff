"""Chapter 23, first part: what each part adds to a logit, and a model without one of its heads."""

import torch
from devices_and_dtypes import creates_tensors_elsewhere, load_meta_device
from grader.execution.proxy import load, parameters
from grader.runner.marks import exercise
from grader.verdict.comparing import close, describe_value, holds, refuses, same
from memory_layouts import of_views
from model_states import (
    check_hooks_and_modes,
    check_left_by_an_error,
    check_other_runs,
    check_trainable,
    draw_sizes,
    left_by_an_error,
    name_of_kind,
    observed,
    pair_of_kind,
    training_pair,
)
from small_models import gpt_ids
from temporary_changes import (
    before_and_after,
    device_while,
    gradients_while,
    judge_before_and_after,
    judge_gradients,
    logits_while,
    own_logits,
)

# ---- logit_attribution


def one_text(n, seed, length=None):
    return gpt_ids(n, seed, length)[2:3].clone()


def judge_parts(got, expected, what, tol=1e-4):
    """Each part, whatever the order of the keys."""
    holds(isinstance(got, dict), f"{what} should be in a dict; this is {describe_value(got)}")
    missing, other = [name for name in expected if name not in got], [name for name in got if name not in expected]
    holds(not missing, f"{what} has no {missing[:1]}; its keys are {list(got)}")
    holds(not other, f"{what} has a part that is called {other[:1]}; the model has no such part")
    for name, value in expected.items():
        close(got[name], value, f"the part {name!r} of {what}", tol)


@exercise("logit_attribution", weight=3)
def test_each_part_adds_its_share(learner, reference):
    """The embedding is what enters the first block; a head adds its features times their columns of W_out, and an ffn adds its output: each goes through the norm, with the whole stream's scale, to the target's row of lm_head."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    ids, targets = one_text(n, seed), (0, seed % n.V, n.V - 1)
    got = [learner.logit_attribution(mine, ids, target) for target in targets]
    for parts, target in zip(got, targets):
        judge_parts(parts, reference.logit_attribution(model, ids, target), f"the logit of token {target}")


@exercise("logit_attribution", weight=2)
def test_a_llama_has_a_part_for_each_query_head(learner, reference):
    """A Llama's norm subtracts no mean and has no bias; each of its query heads is a part, also where several share a key head."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "Llama")
    ids, target = one_text(n, seed), seed % n.V
    judge_parts(learner.logit_attribution(mine, ids, target), reference.logit_attribution(model, ids, target), "a Llama's logit")


@exercise("logit_attribution", weight=2)
def test_positions_of_every_kind(learner, reference):
    """A sinusoidal table is in the embedding like a learned one; RoPE and ALiBi act inside the heads. A tied head works too."""
    n, seed = draw_sizes()
    models = {name_of_kind(kind): pair_of_kind(learner, reference, n, seed, kind) for kind in ("sinusoidal", "rope", "alibi")}
    models["a GPT with a tied head"] = training_pair(learner, reference, n, seed)
    ids, target = one_text(n, seed), seed % n.V
    got = {name: learner.logit_attribution(mine, ids, target) for name, (mine, _) in models.items()}
    for name, (_, model) in models.items():
        judge_parts(got[name], reference.logit_attribution(model, ids, target), f"the logit of {name}")


def own_logit(model, ids, target):
    """The model's own logit; without dropout its mode does not matter."""
    logits = model(ids)
    return (logits[0] if isinstance(logits, tuple) else logits)[0, -1, target].item()




@exercise("logit_attribution", weight=2)
def test_the_parts_add_up_to_the_logit(learner, reference):
    """The sum of all parts is the model's own logit of the target at the last position. In float64 it has float64's digits."""
    n, seed = draw_sizes()
    ids, target = one_text(n, seed), (seed + 1) % n.V
    kinds = ("learned", "Llama")
    models = {kind: pair_of_kind(learner, reference, n, seed, kind)[0].double() for kind in kinds}
    logits = {kind: learner.bring(own_logit)(models[kind], ids, target) for kind in kinds}
    found = {kind: learner.logit_attribution(models[kind], ids, target) for kind in kinds}
    for kind, parts in found.items():
        holds(isinstance(parts, dict) and len(parts) > 2, f"the parts should be a dict; this is {describe_value(parts)}")
        numbers = [value for value in parts.values() if isinstance(value, float)]
        same(len(numbers), len(parts), "the number of values that are plain floats")
        close(sum(numbers), logits[kind], f"the sum of all parts of the logit of {name_of_kind(kind)}", tol=1e-9)


@exercise("logit_attribution")
def test_the_parts_have_names_in_order(learner, reference):
    """The keys are "embedding", then for each layer its heads and its ffn, as in "head 0.0", "head 0.1", "ffn 0", and "bias" last; for a Llama, too, whose bias is 0."""
    n, seed = draw_sizes()
    models = {kind: pair_of_kind(learner, reference, n, seed, kind) for kind in ("rope", "Llama")}
    got = {kind: learner.logit_attribution(mine, one_text(n, seed), 1) for kind, (mine, _) in models.items()}
    for kind, parts in got.items():
        heads = n.H * (2 if kind == "Llama" else 1)
        layers = [[*(f"head {i}.{h}" for h in range(heads)), f"ffn {i}"] for i in range(n.L)]
        holds(isinstance(parts, dict), f"the parts should be a dict; this is {describe_value(parts)}")
        same(list(parts), ["embedding", *(name for layer in layers for name in layer), "bias"], f"the list of keys for {name_of_kind(kind)}")
    close(got["Llama"]["bias"], 0.0, "a Llama's bias", tol=1e-9)
    judge_parts(got["rope"], reference.logit_attribution(models["rope"][1], one_text(n, seed), 1), "the logit")


@exercise("logit_attribution", weight=2)
def test_biases_are_a_part_of_their_own(learner, reference):
    """The biases of every W_out and of the final norm are in "bias": a head whose features are 0 adds 0, whatever W_out's bias is."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    silent = {f"blocks.{i}.attn.{name}": torch.zeros_like(value) for i in range(n.L) for name, value in silenced(parameters(model), i).items()}
    load(model, silent)
    load(mine, silent)
    ids, target = one_text(n, seed), seed % n.V
    got, expected = learner.logit_attribution(mine, ids, target), reference.logit_attribution(model, ids, target)
    judge_parts(got, expected, "the logit of a model whose heads give zeros")
    for i in range(n.L):
        for h in range(n.H):
            close(got[f"head {i}.{h}"], 0.0, f"the part of head {i}.{h}, whose features are 0,", tol=1e-6)


def silenced(values, layer):
    """The parameters from which the values of a layer's heads come."""
    start = f"blocks.{layer}.attn."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(f"{start}W_v")}


@exercise("logit_attribution")
def test_texts_of_any_length(learner, reference):
    """The last position counts, whether the text has one token or max_len."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    texts = [one_text(n, seed)[:, :1].clone(), one_text(n, seed, n.max_len)]
    got = [learner.logit_attribution(mine, ids, 3) for ids in texts]
    for parts, ids in zip(got, texts):
        judge_parts(parts, reference.logit_attribution(model, ids, 3), f"the logit after a text of length {ids.size(1)}")


@exercise("logit_attribution", weight=2)
def test_attribution_leaves_the_model_as_it_was(learner, reference):
    """The run is in eval mode; hooks and modes are as before, also when the run fails, and a second call gives the same."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned", dropout=0.5)
    ids, target = one_text(n, seed), seed % n.V
    expected = reference.logit_attribution(model, ids, target)
    found = learner.bring(observed)(learner.logit_attribution, mine, ids, target)
    failed = learner.bring(left_by_an_error)(learner.logit_attribution, mine, ids + n.V, target)
    judge_parts(found["seen"], expected, "the logit of a model with dropout, in train mode")
    check_other_runs(found, expected, "the logit", judge_parts)
    check_hooks_and_modes(found)
    check_left_by_an_error(failed)
    check_trainable(found)


@exercise("logit_attribution", weight=2)
def test_unknown_targets_and_several_texts_are_refused(learner, reference):
    """A target that is not one of the V tokens raises a ValueError that names it, as does -1; several texts raise one that names their number."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "rope")
    ids = one_text(n, seed)
    judge_parts(learner.logit_attribution(mine, ids, n.V - 1), reference.logit_attribution(model, ids, n.V - 1), "the logit of the last token")
    for target in (n.V, n.V + 7, -1):
        refuses(lambda target=target: learner.logit_attribution(mine, ids, target), naming={"target": target}, because=f"target={target} and V={n.V}")
    for texts in (gpt_ids(n, seed), gpt_ids(n, seed)[:3].clone()):
        because = f"{len(texts)} texts were given, and one is possible"
        refuses(lambda texts=texts: learner.logit_attribution(mine, texts, 1), naming={"the number of texts": len(texts)}, because=because, example="{len(ids)} texts, and one is possible")


# ---- ablate_head


def head_count(n, kind):
    return 2 * n.H if kind == "Llama" else n.H


@exercise("ablate_head", weight=3)
def test_the_features_of_one_head_are_zeros(learner, reference):
    """With "zero", which is the default, the logits are those of a model whose W_out has zeros in this head's columns: all other heads and the bias stay."""
    n, seed = draw_sizes()
    ids, found = gpt_ids(n, seed), []
    for kind, layer, head in (("learned", 0, n.H - 1), ("alibi", n.L - 1, 0), ("Llama", n.L - 1, 1), ("Llama", 0, 2 * n.H - 1)):
        mine, model = pair_of_kind(learner, reference, n, seed, kind)
        given = ("zero",) if layer else ()
        found.append((learner.bring(logits_while)(learner.ablate_head, mine, ids, layer, head, *given), model, kind, layer, head))
    for got, model, kind, layer, head in found:
        name = f"blocks.{layer}.attn.W_out.weight"
        weight = parameters(model)[name]
        width = weight.size(1) // head_count(n, kind)
        weight[:, head * width : (head + 1) * width] = 0
        load(model, {name: weight})
        close(got, reference.bring(own_logits)(model, ids), f"the logits of {name_of_kind(kind)} without head {layer}.{head}", tol=1e-4)


@exercise("ablate_head", weight=3)
def test_the_features_of_one_head_are_their_mean(learner, reference):
    """With "mean", the head has at every position of every text the same features: their mean over all texts and positions."""
    n, seed = draw_sizes()
    ids, found = gpt_ids(n, seed), []
    for kind, layer, head in (("learned", 1, 0), ("rope", 0, n.H - 1), ("Llama", 0, 2 * n.H - 2), ("Llama", 1, 0)):
        layer = min(layer, n.L - 1)
        mine, model = pair_of_kind(learner, reference, n, seed, kind)
        found.append((learner.bring(logits_while)(learner.ablate_head, mine, ids, layer, head, "mean"), model, kind, layer, head))
    for got, model, kind, layer, head in found:
        expected = reference.bring(logits_while)(reference.ablate_head, model, ids, layer, head, "mean")
        close(got, expected, f"the logits of {name_of_kind(kind)} with the mean for head {layer}.{head}", tol=1e-4)


def several_passes(ablate_head, model, texts, heads, kind):
    """The logits of each text, all inside the `with` blocks of these heads."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        for layer, head in heads:
            stack.enter_context(ablate_head(model, layer, head, kind))
        results = [model(ids) for ids in texts]
    return [(result[0] if isinstance(result, tuple) else result).detach() for result in results]


@exercise("ablate_head", weight=2)
def test_each_pass_has_its_own_mean(learner, reference):
    """Every pass inside the block is ablated, with the mean of its own positions; texts may have one token."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    texts = [gpt_ids(n, seed), gpt_ids(n, seed + 1, n.T + 1)[:3].clone(), gpt_ids(n, seed + 2)[:2, :1].clone()]
    got = learner.bring(several_passes)(learner.ablate_head, mine, texts, [(0, 1)], "mean")
    expected = reference.bring(several_passes)(reference.ablate_head, model, texts, [(0, 1)], "mean")
    for i, ids in enumerate(texts):
        close(got[i], expected[i], f"the logits of pass {i + 1}, of {ids.size(0)} texts of length {ids.size(1)}", tol=1e-4)


@exercise("ablate_head", weight=2)
def test_several_heads_can_be_ablated(learner, reference):
    """One block inside another ablates two heads, of one layer or of two."""
    n, seed = draw_sizes(L=2)
    ids, pairs = gpt_ids(n, seed), ([(0, 0), (0, 1)], [(1, 1), (0, 0)])
    found = []
    for kind, heads in zip(("zero", "mean"), pairs):
        mine, model = pair_of_kind(learner, reference, n, seed, "Llama")
        found.append((learner.bring(several_passes)(learner.ablate_head, mine, [ids], heads, kind)[0], model, heads, kind))
    for got, model, heads, kind in found:
        expected = reference.bring(several_passes)(reference.ablate_head, model, [ids], heads, kind)[0]
        close(got, expected, f"the logits with the heads {heads} and {kind!r}", tol=1e-4)


@exercise("ablate_head", weight=3)
def test_after_the_block_the_head_is_back(learner, reference):
    """After the block, also if it ends in an error, the logits are the model's own, your hook is gone and those of other code are there. Modes do not change."""
    n, seed = draw_sizes()
    found = []
    for kind in ("zero", "mean"):
        mine, model = pair_of_kind(learner, reference, n, seed, "rope")
        found.append((kind, model, learner.bring(before_and_after)(learner.ablate_head, mine, gpt_ids(n, seed), 0, 1, kind)))
    for kind, model, state in found:
        inside = reference.bring(logits_while)(reference.ablate_head, model, gpt_ids(n, seed), 0, 1, kind)
        judge_before_and_after(state, inside, reference.bring(own_logits)(model, gpt_ids(n, seed)))


@exercise("ablate_head", weight=2)
def test_gradients_flow_through_an_ablated_model(learner, reference):
    """Inside the block, gradients reach every parameter as the formula says: the ablated head's own get none with "zero", and get theirs through the mean with "mean"."""
    n, seed = draw_sizes()
    found = []
    for kind in ("zero", "mean"):
        mine, model = pair_of_kind(learner, reference, n, seed, "learned")
        found.append((kind, model, learner.bring(gradients_while)(learner.ablate_head, mine, gpt_ids(n, seed), 0, 1, kind)))
    for kind, model, got in found:
        expected = reference.bring(gradients_while)(reference.ablate_head, model, gpt_ids(n, seed), 0, 1, kind)
        judge_gradients(got, expected, f"with {kind!r}")


@exercise("ablate_head", weight=2)
def test_unknown_layers_heads_and_kinds_are_refused(learner, reference):
    """Layers and heads count from 0, and there is no -1; the `with` raises a ValueError that names a layer, a head or a kind that does not exist. A Llama has n_heads heads, as many as queries."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "Llama")
    ids, heads = gpt_ids(n, seed), 2 * n.H
    call = learner.bring(logits_while)
    got = call(learner.ablate_head, mine, ids, n.L - 1, heads - 1, "mean")
    close(got, reference.bring(logits_while)(reference.ablate_head, model, ids, n.L - 1, heads - 1, "mean"), "the logits without the last head", tol=1e-4)
    for layer in (n.L, n.L + 7, -1):
        refuses(lambda layer=layer: call(learner.ablate_head, mine, ids, layer, 0), naming={"layer": layer}, because=f"layer={layer} in a model of {n.L} blocks")
    for head in (heads, heads + 7, -1):
        refuses(lambda head=head: call(learner.ablate_head, mine, ids, 0, head), naming={"head": head}, because=f"head={head} in a layer of {heads} heads")
    for kind in ("median", "MEAN"):
        refuses(lambda kind=kind: call(learner.ablate_head, mine, ids, 0, 0, kind), naming={"kind": kind}, because=f"the kind {kind!r} is neither zero nor mean")


@exercise("ablate_head")
def test_an_ablated_model_keeps_dtype_and_device(learner, reference):
    """The model may be in double or half precision, and on any device; ids may be views."""
    n, seed = draw_sizes(L=1)
    ids, call, found = gpt_ids(n, seed), learner.bring(logits_while), []
    for dtype, kind, tol in ((torch.float64, "zero", 1e-9), (torch.float64, "mean", 1e-9), (torch.bfloat16, "zero", 0.15), (torch.bfloat16, "mean", 0.15)):
        mine, model = pair_of_kind(learner, reference, n, seed, "learned")
        found.append((call(learner.ablate_head, mine.to(dtype), ids, 0, 1, kind), model.to(dtype), kind, tol))
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    view = learner.bring(of_views)(call, learner.ablate_head, mine, ids, 0, 1, "mean")
    for got, twin, kind, tol in found:
        close(got, reference.bring(logits_while)(reference.ablate_head, twin, ids, 0, 1, kind), f"the logits with {kind!r}", tol)
    close(view, reference.bring(logits_while)(reference.ablate_head, model, ids, 0, 1, "mean"), "the logits for ids that are not contiguous", tol=1e-4)
    if learner.bring(creates_tensors_elsewhere)("ch23_features", call, learner.ablate_head, mine, ids, 0, 1):
        load_meta_device()
        where = learner.bring(device_while)(learner.ablate_head, mine, ids, 0, 1)
        holds(where == "meta", f"with the model on another device than the CPU, `meta`, the logits should be there too; they are on: {where}")
