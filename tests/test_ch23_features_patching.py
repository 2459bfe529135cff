"""Chapter 23, second part: an estimate of every patch, from one backward pass."""

import torch
from changing_models import Additions, call_changing
from devices_and_dtypes import creates_tensors_elsewhere, load_meta_device
from grader.execution.proxy import load, parameters
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped
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
)
from small_models import gpt_ids
from strategies import tensor
from torch import nn


def two_texts(n, seed, length=None):
    """Clean and corrupted texts: equal at position 0, different at position 1 and at some later ones."""
    clean, corrupted = gpt_ids(n, seed, length), gpt_ids(n, seed + 1, length)
    corrupted[:, 0] = clean[:, 0]
    corrupted[:, 1] = (clean[:, 1] + 1 + torch.arange(n.B)) % n.V
    return clean, corrupted


def log_prob_of(target):
    """A metric: the log probability of one token at the last two positions, added up over the texts."""

    def metric(logits):
        return logits[:, -2:].log_softmax(dim=-1)[..., target].sum()

    return metric


def weighted_sum(weights):
    """A metric that is linear in the logits."""

    def metric(logits):
        return (logits * weights).sum()

    return metric


def measured(learner, reference, n, seed, kind="learned", make=log_prob_of, dtype=torch.float32, **options):
    """What the learner's code estimates for this kind of model, and a call that gives the reference's estimate."""
    mine, model = pair_of_kind(learner, reference, n, seed, kind, **options)
    clean, corrupted = two_texts(n, seed)
    value = seed % n.V if make is log_prob_of else tensor(seed + 3, n.B, n.T, n.V, dtype=dtype)
    got = learner.attribution_patching(mine.to(dtype), clean, corrupted, learner.bring(make)(value))
    return got, lambda: reference.attribution_patching(model.to(dtype), clean, corrupted, reference.bring(make)(value))


@exercise("attribution_patching", weight=3)
def test_the_estimate_is_gradient_times_difference(learner, reference):
    """Entry [i, t] is the gradient of the metric at this state of the corrupted run, times the clean state minus the corrupted one, added up over texts and features."""
    n, seed = draw_sizes()
    found = [measured(learner, reference, n, seed, make=make) for make in (log_prob_of, weighted_sum)]
    for (got, expected), metric in zip(found, ("a log probability", "a weighted sum of all logits")):
        shaped(got, (n.L + 1, n.T), "the tensor of estimates")
        close(got, expected(), f"the estimates for {metric}", tol=1e-3)


@exercise("attribution_patching", weight=2)
def test_models_of_every_kind(learner, reference):
    """Row 0 is what enters the first block, with positions if they are a table; GPTs with RoPE or ALiBi and Llamas have estimates too."""
    n, seed = draw_sizes()
    found = {kind: measured(learner, reference, n, seed, kind) for kind in ("sinusoidal", "rope", "alibi", "Llama")}
    for kind, (got, expected) in found.items():
        close(got, expected(), f"the estimates for {name_of_kind(kind)}", tol=1e-3)


def identity():
    return nn.Identity()


def make_linear(side, model, n):
    """After the last block but one, every step is linear: the last block adds nothing, and there is no final norm."""
    last = f"blocks.{n.L - 1}."
    silent = [name for name in parameters(model) if name.startswith((f"{last}attn", f"{last}ffn"))]
    load(model, {name: torch.zeros_like(value) for name, value in parameters(model).items() if name in silent})
    model.ln_f = side.bring(identity)()
    return model.double()


@exercise("attribution_patching", weight=3)
def test_where_the_rest_is_linear_it_is_the_effect_of_a_patch(learner, reference):
    """If the model after a state and the metric are linear, the estimate is exactly how much the metric changes when this state is patched. Equal texts have estimates of 0."""
    n, seed = draw_sizes(L=2)
    clean, corrupted = two_texts(n, seed)
    weights, found = tensor(seed + 3, n.B, n.T, n.V, dtype=torch.float64), []
    for kind in ("rope", "Llama"):
        mine, model = pair_of_kind(learner, reference, n, seed, kind)
        mine, metric = make_linear(learner, mine, n), learner.bring(weighted_sum)(weights)
        estimates = [learner.attribution_patching(mine, clean, other, metric) for other in (corrupted, clean)]
        found.append((*estimates, make_linear(reference, model, n), kind))
    for got, equal, model, kind in found:
        shaped(got, (n.L + 1, n.T), "the tensor of estimates")
        before = (reference.bring(logits_of)(model, corrupted) * weights).sum()
        for layer in range(n.L):
            patched = [(reference.patch_residual(model, clean, corrupted, layer, t) * weights).sum() for t in range(n.T)]
            close(got[layer + 1].clone(), torch.stack(patched) - before, f"row {layer + 1} of the estimates for {name_of_kind(kind)} that is linear from there on", tol=1e-5)
        close(equal, torch.zeros_like(got), "the tensor of estimates for equal texts")


def logits_of(model, ids):
    result = model.eval()(ids)
    return (result[0] if isinstance(result, tuple) else result).detach()


STEP = 1e-5


def make_neighbours(model, half, seed):
    """Token i + half has nearly the same vector as token i."""
    rows = parameters(model.double())["token_emb.weight"]
    rows[half : 2 * half] = rows[:half] + STEP * tensor(seed + 4, half, rows.size(1), dtype=torch.float64)
    load(model, {"token_emb.weight": rows})
    return model


@exercise("attribution_patching", weight=2)
def test_for_small_differences_it_is_nearly_the_effect_of_a_patch(learner, reference):
    """If the clean states are near the corrupted ones, the estimates are near the effects of real patches, in any model, and after each block."""
    n, seed = draw_sizes(L=2)
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    half, target = n.V // 2, seed % n.V
    mine, model = (make_neighbours(each, half, seed) for each in (mine, model))
    corrupted = gpt_ids(n, seed) % half
    clean = corrupted + half * (gpt_ids(n, seed + 2) % 3 > 0)
    got = learner.attribution_patching(mine, clean, corrupted, learner.bring(log_prob_of)(target))
    shaped(got, (n.L + 1, n.T), "the tensor of estimates")
    before = log_prob_of(target)(reference.bring(logits_of)(model, corrupted))
    for layer in range(n.L):
        after = [log_prob_of(target)(reference.patch_residual(model, clean, corrupted, layer, t)) for t in range(n.T)]
        effect = (torch.stack(after) - before) / STEP
        close(got[layer + 1] / STEP, effect, f"row {layer + 1} of the estimates, per unit of difference,", tol=0.02)


@exercise("attribution_patching", weight=2)
def test_patching_estimates_leave_the_model_as_it_was(learner, reference):
    """Both runs are in eval mode; hooks and modes are as before, also when a run or the metric fails, and a second call gives the same."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned", dropout=0.5)
    clean, corrupted = two_texts(n, seed)
    metric, broken = learner.bring(log_prob_of)(3), learner.bring(failing_metric)
    expected = reference.attribution_patching(model, clean, corrupted, reference.bring(log_prob_of)(3))
    found = learner.bring(observed)(learner.attribution_patching, mine, clean, corrupted, metric)
    failed = [
        learner.bring(left_by_an_error)(learner.attribution_patching, mine, clean, corrupted + n.V, metric),
        learner.bring(left_by_an_error)(learner.attribution_patching, mine, clean, corrupted, broken),
    ]
    close(found["seen"], expected, "the estimates for a model with dropout, in train mode", tol=1e-3)
    check_other_runs(found, expected, "the estimates", lambda got, wanted, what: close(got, wanted, what, tol=1e-3))
    check_hooks_and_modes(found)
    for state in failed:
        check_left_by_an_error(state)


def failing_metric(logits):
    raise KeyError("the metric fails")


@exercise("attribution_patching", weight=2)
def test_no_gradient_of_a_parameter_changes(learner, reference):
    """The estimates have no graph; gradients that parameters have stay, none gets a new one, and which parameters are frozen stays."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "Llama")
    clean, corrupted = two_texts(n, seed)
    expected = reference.attribution_patching(model, clean, corrupted, reference.bring(log_prob_of)(3))
    found = learner.bring(observed)(learner.attribution_patching, mine, clean, corrupted, learner.bring(log_prob_of)(3))
    close(found["seen"], expected, "the estimates", tol=1e-3)
    check_trainable(found)


def frozen_without_gradient(f, model, parts, *arguments):
    """What `f` gives inside torch.no_grad if these parts of the model are frozen, and the gradients afterwards."""
    for part in parts:
        (getattr(model, part) if part else model).requires_grad_(False)
    with torch.no_grad():
        result = f(model, *arguments)
    return result, [parameter.requires_grad for parameter in model.parameters()], all(parameter.grad is None for parameter in model.parameters())


@exercise("attribution_patching", weight=2)
def test_frozen_models_have_estimates_inside_no_grad(learner, reference):
    """All of a model may be frozen, or its embedding only, and the call may be inside torch.no_grad: the graph begins at the stream, not at the parameters."""
    n, seed = draw_sizes()
    clean, corrupted = two_texts(n, seed)
    found, kinds = [], (("learned", [""]), ("learned", ["token_emb", "pos_emb"]), ("Llama", [""]))
    for kind, parts in kinds:
        mine, model = pair_of_kind(learner, reference, n, seed, kind)
        call = learner.bring(frozen_without_gradient)
        found.append((model, parts, call(learner.attribution_patching, mine, parts, clean, corrupted, learner.bring(log_prob_of)(3))))
    for model, parts, (got, trainable, untouched) in found:
        frozen = "wholly frozen" if parts == [""] else "with a frozen embedding"
        expected = reference.attribution_patching(model, clean, corrupted, reference.bring(log_prob_of)(3))
        close(got, expected, f"the estimates for a model that is {frozen}, inside torch.no_grad", tol=1e-3)
        holds(any(trainable) == (parts != [""]), "a parameter of a frozen model is trainable afterwards")
        holds(untouched, "a parameter has a gradient afterwards")


def adding_in_each_pass(f, model, *arguments):
    """What `f` gives while each pass of the first block adds numbers of its own."""
    model.blocks[0].register_forward_hook(lambda block, inputs, output: output + torch.special.bessel_y1(torch.zeros(1)))
    return f(model, *arguments)


def changing_backward(weights):
    """A metric whose gradient is another one in each backward pass."""

    class Changing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits):
            return logits.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.special.bessel_y1(torch.zeros(1))

    def metric(logits):
        return (Changing.apply(logits) * weights).sum()

    return metric


@exercise("attribution_patching")
def test_one_pass_of_each_text_and_one_backward_pass(learner, reference):
    """If the model is another one after its first two passes, and the gradient of the metric after its first backward pass, the estimates are those of the first passes."""
    n, seed = draw_sizes()
    models = pair_of_kind(learner, reference, n, seed, "learned")
    clean, corrupted = two_texts(n, seed)
    weights, row = tensor(seed + 3, n.B, n.T, n.V), tensor(seed + 4, 1, 4 * n.H)
    rows = torch.cat([row, row, tensor(seed, 60, 4 * n.H)])
    factors = torch.cat([torch.full((1, 1), 1.5), 2 + tensor(seed, 60, 1).abs()])
    found = []
    for side, model in zip((learner, reference), models):
        change, additions, estimate = side.bring(call_changing), side.bring(Additions), side.attribution_patching
        backward = change(additions, factors, estimate, model, clean, corrupted, side.bring(changing_backward)(weights))
        found.append((backward, change(additions, rows, side.bring(adding_in_each_pass), estimate, model, clean, corrupted, side.bring(log_prob_of)(3))))
    for got, expected, what in zip(*found, ("a metric whose gradient changes after the first backward pass", "a model that changes after its second pass")):
        close(got, expected, f"the estimates for {what}", tol=1e-3)


def metric_per_text(logits):
    return logits[:, -1, 0]


def metric_as_float(logits):
    return logits[:, -1, 0].sum().item()


def metric_without_graph(logits):
    return logits[:, -1, 0].sum().detach()


@exercise("attribution_patching", weight=2)
def test_shapes_and_metrics_that_cannot_work_are_refused(learner, reference):
    """Ids of different shapes raise a ValueError; so does a metric that gives several numbers, a plain float or a tensor without a graph: this error names metric."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    clean, corrupted = two_texts(n, seed)
    metric = learner.bring(log_prob_of)(3)
    got = learner.attribution_patching(mine, clean, corrupted, metric)
    close(got, reference.attribution_patching(model, clean, corrupted, reference.bring(log_prob_of)(3)), "the estimates", tol=1e-3)
    shorter, fewer = corrupted[:, :-1].clone(), corrupted[:1].clone()
    refuses(lambda: learner.attribution_patching(mine, clean, shorter, metric), because=f"{n.T} clean tokens and {n.T - 1} corrupted ones")
    refuses(lambda: learner.attribution_patching(mine, shorter, clean, metric), because=f"{n.T - 1} clean tokens and {n.T} corrupted ones")
    refuses(lambda: learner.attribution_patching(mine, clean, fewer, metric), because=f"{n.B} clean texts and one corrupted text")
    refuses(lambda: learner.attribution_patching(mine, fewer, clean, metric), because=f"one clean text and {n.B} corrupted ones")
    example = "metric must return one number with a graph"
    for wrong, what in ((metric_per_text, f"{n.B} numbers"), (metric_as_float, "a float"), (metric_without_graph, "a tensor without a graph")):
        broken = learner.bring(wrong)
        refuses(lambda broken=broken: learner.attribution_patching(mine, clean, corrupted, broken), naming=("metric",), because=f"the metric returns {what}", example=example)


def device_of(f, model, clean, corrupted, metric):
    """Where the result is when model and ids are on the device `meta`."""
    try:
        return f(model.to("meta"), clean.to("meta"), corrupted.to("meta"), metric).device.type
    except (RuntimeError, NotImplementedError) as problem:
        return f"nowhere, for it ended in {type(problem).__name__} ({problem})"


@exercise("attribution_patching")
def test_estimates_have_the_dtype_and_device_of_the_model(learner, reference):
    """In double precision the estimates are double, with their digits, and in half precision half; they are where the model is. The ids may be views."""
    n, seed = draw_sizes(L=1)
    double, expected = measured(learner, reference, n, seed, dtype=torch.float64)
    half, _ = measured(learner, reference, n, seed, dtype=torch.bfloat16)
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    clean, corrupted = two_texts(n, seed)
    metric = learner.bring(log_prob_of)(3)
    view = learner.bring(of_views)(learner.attribution_patching, mine, clean, corrupted, metric)
    close(double, expected(), "the estimates in float64", tol=1e-9)
    shaped(half, (n.L + 1, n.T), "the tensor of estimates in bfloat16", torch.bfloat16)
    close(view, reference.attribution_patching(model, clean, corrupted, reference.bring(log_prob_of)(3)), "the estimates for ids that are not contiguous", tol=1e-3)
    if learner.bring(creates_tensors_elsewhere)("ch23_features", learner.attribution_patching, mine, clean, corrupted, metric):
        load_meta_device()
        where = learner.bring(device_of)(learner.attribution_patching, mine, clean, corrupted, metric)
        holds(where == "meta", f"with the model on another device than the CPU, `meta`, the estimates should be there too; they are on: {where}")
