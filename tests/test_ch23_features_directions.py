"""Chapter 23, third part: a direction in the stream: found, added, and removed."""

from types import SimpleNamespace

import torch
from devices_and_dtypes import load_meta_device, stays_on_input_device
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped
from hypothesis import example, given, settings
from memory_layouts import of_views
from model_states import draw_sizes, name_of_kind, pair_of_kind
from pytest_check import check
from small_models import gpt_ids
from strategies import at, distinct, seeds, tensor
from temporary_changes import (
    before_and_after,
    gradients_while,
    judge_before_and_after,
    judge_gradients,
    logits_while,
    own_logits,
)

few = settings(max_examples=3)
two_sets = distinct("N", "M", "D", N=(3, 6), M=(3, 6), D=(4, 8))


def two_kinds(n, seed, dtype=torch.float32):
    """Positive states (N, D) and negative ones (M, D) whose means are clearly apart, and not at the medians."""
    positive, negative = tensor(seed, n.N, n.D, dtype=dtype) + 2, tensor(seed + 1, n.M, n.D, dtype=dtype)
    positive[0] += 6 * tensor(seed + 2, n.D, dtype=dtype)
    return positive, negative


def unit(vector):
    return vector / vector.square().sum().sqrt()


def on_meta_whatever_is_compared(f, *inputs):
    """Where the result is for inputs on the device `meta`, which has no numbers: each comparison is False, or each is True. None if both are refused."""
    from torch.overrides import TorchFunctionMode

    class Decide(TorchFunctionMode):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self.answer if func is torch.Tensor.__bool__ else func(*args, **(kwargs or {}))

    for answer in (False, True):
        try:
            with Decide(answer):
                return f(*[value.to("meta") for value in inputs]).device.type
        except (ValueError, AssertionError):
            continue
        except (RuntimeError, NotImplementedError) as problem:
            if any(words in str(problem) for words in ("item()", "nonzero", "copy out of meta")):
                continue
            return f"nowhere, for it ended in {type(problem).__name__} ({problem})"


def check_place_of_result(learner, f, *inputs):
    """The result is where the inputs are. The device `meta` is used only if there is no quicker test."""
    if not learner.bring(stays_on_input_device)(f, *inputs):
        load_meta_device()
        where = learner.bring(on_meta_whatever_is_compared)(f, *inputs)
        holds(where in ("meta", None), f"for tensors on another device than the CPU, `meta`, the result should be there too; it is on: {where}")


# ---- mean_direction


@exercise("mean_direction", weight=3)
@few
@example(n=at(N=1, M=3, D=5), seed=4)
@given(n=two_sets, seed=seeds)
def test_from_one_mean_to_the_other(learner, n, seed):
    """The direction is the mean of the positive states minus the mean of the negative ones, divided by its length; there may be more of one kind than of the other."""
    positive, negative = two_kinds(n, seed)
    got, back = learner.mean_direction(positive, negative), learner.mean_direction(negative, positive)
    expected = unit(positive.mean(dim=0) - negative.mean(dim=0))
    close(got, expected, "the direction")
    close(back, -expected, "the direction with both kinds exchanged")


@exercise("mean_direction", weight=2)
@few
@given(n=two_sets, seed=seeds)
def test_the_length_is_always_1(learner, n, seed):
    """Its length is 1, however far apart the means are; if all states are moved by the same vector, it stays."""
    positive, negative = two_kinds(n, seed, torch.float64)
    expected, moved = unit(positive.mean(dim=0) - negative.mean(dim=0)), 10 * tensor(seed + 3, n.D, dtype=torch.float64)
    sizes = (1e-6, 1.0, 1e6)
    got = [learner.mean_direction(size * positive, size * negative) for size in sizes]
    shifted = learner.mean_direction(positive + moved, negative + moved)
    for direction, size in zip(got, sizes):
        shaped(direction, (n.D,), "the direction")
        close(direction.square().sum(), torch.tensor(1.0, dtype=torch.float64), f"the squared length of the direction between states of size {size:g}")
        close(direction, expected, f"the direction between states of size {size:g}")
    close(shifted, expected, "the direction between states that are all moved by the same vector")


@exercise("mean_direction", weight=2)
@few
@given(n=two_sets, seed=seeds)
def test_equal_means_are_refused(learner, n, seed):
    """If both means are the same, a ValueError says so: for equal states, and for different states with the same mean. Means that are nearly the same have a direction."""
    whole = (4 * tensor(seed, 2, n.D)).round()
    apart, middle = torch.stack([whole[0] - 1, whole[0] + 1]), whole[:1]
    near = whole.double()
    step = torch.zeros(n.D, dtype=torch.float64)
    step[seed % n.D] = 2.0**-30
    got = learner.mean_direction(near + step, near)
    for positive, negative in ((whole, whole.clone()), (whole, whole.flip(0)), (apart, middle)):
        refuses(lambda positive=positive, negative=negative: learner.mean_direction(positive, negative), because="the means are the same, so there is no direction from one to the other")
    close(got, unit(step), "the direction between means that are nearly the same, in float64")


@exercise("mean_direction")
@few
@given(n=two_sets, seed=seeds)
def test_gradients_of_a_direction_reach_all_states(learner, reference, n, seed):
    """The gradients of the positive and of the negative states are those of the formula."""
    positive, negative = two_kinds(n, seed)
    cotangent = tensor(seed + 4, n.D)
    got = gradients(learner.mean_direction, positive, negative, cotangent=cotangent)
    expected = gradients(reference.mean_direction, positive, negative, cotangent=cotangent)
    for found, wanted, name in zip(got.inputs, expected.inputs, ("positive", "negative")):
        with check:
            close(found, wanted, f"the gradient of the {name} states", tol=1e-4)


@exercise("mean_direction")
def test_a_direction_has_the_dtype_and_device_of_the_states(learner, reference):
    """In double precision the direction is double, with its digits, and in half precision half; it is where the states are. The states may be views."""
    n = SimpleNamespace(N=4, M=3, D=6)
    positive, negative = two_kinds(n, 21, torch.float64)
    got = learner.mean_direction(positive, negative)
    half = learner.mean_direction(positive.bfloat16(), negative.bfloat16())
    views = learner.bring(of_views)(learner.mean_direction, positive, negative)
    expected = unit(positive.mean(dim=0) - negative.mean(dim=0))
    close(got, expected, "the direction in float64")
    close(views, expected, "the direction between states that are not contiguous")
    close(half, expected.bfloat16(), "the direction in bfloat16", tol=0.1)
    check_place_of_result(learner, learner.mean_direction, positive, negative)


# ---- steer


def width_of(n, kind):
    return 16 * n.H if kind == "Llama" else 4 * n.H


@exercise("steer", weight=3)
def test_the_direction_is_added_after_the_block(learner, reference):
    """strength · direction is added to the stream after block `layer`, at every position of every text; the direction keeps its own length."""
    n, seed = draw_sizes(L=2)
    ids, found = gpt_ids(n, seed), []
    for kind, layer, strength in (("learned", 0, 1.5), ("learned", 1, -0.5), ("rope", 0, 3), ("Llama", 0, -2.0), ("Llama", 1, 0.25)):
        mine, model = pair_of_kind(learner, reference, n, seed, kind)
        direction = tensor(seed + 1, width_of(n, kind))
        got = learner.bring(logits_while)(learner.steer, mine, ids, layer, direction, strength)
        found.append((got, model, kind, layer, direction, strength))
    for got, model, kind, layer, direction, strength in found:
        expected = reference.bring(moved_after)(model, ids, layer, strength * direction)
        close(got, expected, f"the logits of {name_of_kind(kind)} with layer={layer} and strength={strength}", tol=1e-4)


def moved_after(model, ids, layer, change):
    """The logits if this change is added after a block, by hand."""
    with torch.no_grad():
        x = model.token_emb(ids)
        if getattr(model, "pos_emb", None) is not None:
            x = model.pos_emb(x)
        for i, block in enumerate(model.blocks):
            x = block(x) + (change if i == layer else 0)
        return model.lm_head(model.ln_f(x))


@exercise("steer", weight=2)
def test_a_strength_of_0_changes_nothing(learner, reference):
    """With strength 0 the logits are the model's own, and a direction that is twice as long does what twice the strength does."""
    n, seed = draw_sizes(L=1)
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    ids, direction, call = gpt_ids(n, seed), tensor(seed + 1, 4 * n.H), learner.bring(logits_while)
    none, long, strong = (call(learner.steer, mine, ids, 0, d, s) for d, s in ((direction, 0.0), (2 * direction, 1.25), (direction, 2.5)))
    close(none, reference.bring(own_logits)(model, ids), "the logits with strength=0", tol=1e-4)
    close(long, reference.bring(moved_after)(model, ids, 0, 2.5 * direction), "the logits with a direction that is twice as long", tol=1e-4)
    close(strong, reference.bring(moved_after)(model, ids, 0, 2.5 * direction), "the logits with twice the strength", tol=1e-4)


def written_with_caches(steer, model, ids, lengths, *arguments):
    """The logits of a text that a Llama reads in pieces of these lengths, with caches, inside one block."""
    caches = model.new_caches()
    with torch.no_grad(), steer(model, *arguments):
        return torch.cat([model(piece, caches) for piece in ids.split(lengths, dim=1)], dim=1)


@exercise("steer", weight=3)
def test_prompts_and_new_tokens_are_steered(learner, reference):
    """The direction is added in every pass inside the block: a Llama that reads a prompt and then token by token, with caches, has the logits of one steered pass."""
    n, seed = draw_sizes(L=2)
    ids, found = gpt_ids(n, seed), []
    for layer, lengths in ((0, [n.T - 2, 1, 1]), (1, [1, 1, n.T - 2]), (0, [1] * n.T)):
        mine, model = pair_of_kind(learner, reference, n, seed, "Llama")
        direction = tensor(seed + layer, 16 * n.H)
        got = learner.bring(written_with_caches)(learner.steer, mine, ids, lengths, layer, direction, 1.5)
        found.append((got, model, layer, direction, lengths))
    for got, model, layer, direction, lengths in found:
        expected = reference.bring(moved_after)(model, ids, layer, 1.5 * direction)
        close(got, expected, f"the logits of a steered Llama that reads pieces of {', '.join(map(str, lengths))}", tol=1e-4)


def several_passes(steer, model, texts, pushes):
    """The logits of each text, all inside the blocks of these pushes."""
    from contextlib import ExitStack

    with torch.no_grad(), ExitStack() as stack:
        for push in pushes:
            stack.enter_context(steer(model, *push))
        results = [model(ids) for ids in texts]
    return [result[0] if isinstance(result, tuple) else result for result in results]


@exercise("steer")
def test_blocks_inside_blocks_add_up(learner, reference):
    """Two directions can be added at the same layer; texts of other sizes are steered inside the same block."""
    n, seed = draw_sizes(L=2)
    mine, model = pair_of_kind(learner, reference, n, seed, "alibi")
    texts = [gpt_ids(n, seed), gpt_ids(n, seed + 1, n.T + 2)[:2].clone(), gpt_ids(n, seed)[:3, :1].clone()]
    one, other = tensor(seed + 2, 4 * n.H), tensor(seed + 3, 4 * n.H)
    got = learner.bring(several_passes)(learner.steer, mine, texts, [(0, one, 1.5), (0, other, -2.0)])
    for logits, ids in zip(got, texts):
        expected = reference.bring(moved_after)(model, ids, 0, 1.5 * one - 2.0 * other)
        close(logits, expected, f"the logits of {ids.size(0)} texts of length {ids.size(1)} with two directions at layer 0", tol=1e-4)


@exercise("steer", weight=3)
def test_after_the_block_nothing_is_added(learner, reference):
    """After the block, also if it ends in an error, the logits are the model's own, your hook is gone and those of other code are there. Modes do not change."""
    n, seed = draw_sizes(L=2)
    mine, model = pair_of_kind(learner, reference, n, seed, "rope")
    ids, direction = gpt_ids(n, seed), tensor(seed + 1, 4 * n.H)
    state = learner.bring(before_and_after)(learner.steer, mine, ids, 0, direction, 1.5)
    judge_before_and_after(state, reference.bring(moved_after)(model, ids, 0, 1.5 * direction), reference.bring(own_logits)(model, ids))


def gradient_of_direction(steer, model, ids, layer, direction, strength):
    """The gradient of the direction, for a loss inside the block."""
    leaf = direction.clone().requires_grad_()
    with steer(model, layer, leaf, strength):
        result = model(ids)
    logits = result[0] if isinstance(result, tuple) else result
    (logits * torch.cos(torch.arange(logits.numel()) * 0.7).view(logits.shape)).sum().backward()
    return leaf.grad


@exercise("steer", weight=2)
def test_gradients_flow_through_a_steered_model(learner, reference):
    """Inside the block, gradients reach every parameter, and the direction too."""
    n, seed = draw_sizes(L=2)
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    ids, direction = gpt_ids(n, seed), tensor(seed + 1, 4 * n.H)
    got = learner.bring(gradients_while)(learner.steer, mine, ids, 0, direction, 1.5)
    own = learner.bring(gradient_of_direction)(learner.steer, mine, ids, 0, direction, 1.5)
    expected = reference.bring(gradients_while)(reference.steer, model, ids, 0, direction, 1.5)
    expected_own = reference.bring(gradient_of_direction)(reference.steer, model, ids, 0, direction, 1.5)
    judge_gradients(got, expected, "of a steered model")
    with check:
        close(own, expected_own, "the gradient of the direction", tol=1e-3)


@exercise("steer", weight=2)
def test_unknown_layers_and_wrong_directions_are_refused(learner, reference):
    """Layers count from 0, and there is no -1: the `with` raises a ValueError that names the layer. One that names `direction` is raised if it is not (D,), also if it could be added."""
    n, seed = draw_sizes()
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    D, ids, call = 4 * n.H, gpt_ids(n, seed), learner.bring(logits_while)
    direction = tensor(seed + 1, D)
    got = call(learner.steer, mine, ids, n.L - 1, direction, 2.0)
    close(got, reference.bring(moved_after)(model, ids, n.L - 1, 2 * direction), "the logits steered after the last block", tol=1e-4)
    for layer in (n.L, n.L + 7, -1):
        refuses(lambda layer=layer: call(learner.steer, mine, ids, layer, direction, 1.0), naming={"layer": layer}, because=f"layer={layer} in a model of {n.L} blocks")
    example = "direction must have the shape (D,)"
    for shape in ((D + 1,), (D - 1,), (1,), (1, D), (n.T, D), ()):
        wrong, because = torch.ones(shape), f"the direction has the shape {shape}, and D is {D}"
        refuses(lambda wrong=wrong: call(learner.steer, mine, ids, 0, wrong, 1.0), naming=("direction",), because=because, example=example)


def moves_tensors(steer, model, ids, *arguments):
    """Whether code of this chapter moves a tensor to the device of another one while a model is steered."""
    import sys

    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        found = False

        def __torch_function__(self, func, types, args=(), kwargs=None):
            frame = sys._getframe()
            while frame.f_code.co_filename.endswith("inner_calls.py"):  # this helper's own calls go through it
                frame = frame.f_back
            own = "ch23_features" in frame.f_back.f_code.co_filename
            target = [*args[1:], *(kwargs or {}).values()]
            moved = func is torch.Tensor.to and any(isinstance(value, (torch.Tensor, torch.device)) for value in target)
            self.found = self.found or (own and moved)
            return func(*args, **(kwargs or {}))

    with Watch() as watch, steer(model, *arguments):
        model(ids)
    return watch.found


def device_while_steered(steer, model, ids, *arguments):
    """Where the logits are inside the block, with the model on the device `meta` and the direction on the CPU."""
    try:
        with steer(model.to("meta"), *arguments):
            result = model(ids.to("meta"))
        return (result[0] if isinstance(result, tuple) else result).device.type
    except (RuntimeError, NotImplementedError) as problem:
        return f"nowhere, for it ended in {type(problem).__name__} ({problem})"


@exercise("steer")
def test_the_stream_keeps_dtype_and_device(learner, reference):
    """The direction may have another dtype than the model, or be on another device: the stream keeps its own. The direction may be a view."""
    n, seed = draw_sizes(L=1)
    ids, direction, call, found = gpt_ids(n, seed), tensor(seed + 1, 4 * n.H), learner.bring(logits_while), []
    kinds = ((torch.float64, torch.float64, 1e-9), (torch.float64, torch.float32, 1e-9), (torch.float32, torch.float64, 1e-4), (torch.bfloat16, torch.float32, 0.15))
    for dtype, other, tol in kinds:
        mine, model = pair_of_kind(learner, reference, n, seed, "learned")
        found.append((call(learner.steer, mine.to(dtype), ids, 0, direction.to(other), 2.0), model.to(dtype), dtype, other, tol))
    mine, model = pair_of_kind(learner, reference, n, seed, "learned")
    view = learner.bring(logits_for_view)(learner.steer, mine, ids, 0, direction, 2.0)
    for got, twin, dtype, other, tol in found:
        names = [str(each).removeprefix("torch.") for each in (dtype, other)]
        close(got, reference.bring(moved_after)(twin, ids, 0, (2 * direction).to(dtype)), f"the logits of a {names[0]} model with a {names[1]} direction", tol)
    close(view, reference.bring(moved_after)(model, ids, 0, 2 * direction), "the logits with a direction that is not contiguous", tol=1e-4)
    if not learner.bring(moves_tensors)(learner.steer, mine, ids, 0, direction, 1.5):
        load_meta_device()
        where = learner.bring(device_while_steered)(learner.steer, mine, ids, 0, direction, 1.5)
        holds(where == "meta", f"with the model on another device than the direction, `meta`, the logits should be there too; they are on: {where}")


def logits_for_view(steer, model, ids, layer, direction, strength):
    """The logits inside the block, for a direction that is every second number of a longer one."""
    view = torch.stack([direction, direction], dim=-1)[:, 0]
    with steer(model, layer, view, strength):
        result = model(ids)
    return (result[0] if isinstance(result, tuple) else result).detach()


# ---- remove_direction

states_sizes = distinct("B", "T", "D", B=(2, 4), T=(3, 5), D=(4, 8))


def without(states, direction):
    """In float64, state by state: states - (states · direction) / (direction · direction) · direction."""
    s, d = states.double(), direction.double()
    return (s - (s * d).sum(-1, keepdim=True) / (d * d).sum() * d).to(states.dtype)


@exercise("remove_direction", weight=3)
@few
@example(n=at(B=2, T=3, D=4), seed=0)
@given(n=states_sizes, seed=seeds)
def test_the_part_along_a_direction_is_gone(learner, n, seed):
    """From each state its projection on the direction is subtracted, whatever the length of the direction: afterwards the product with it is 0 within rounding."""
    states, direction = tensor(seed, n.B * n.T, n.D), 1.7 * tensor(seed + 1, n.D)
    got = learner.remove_direction(states, direction)
    close(got, without(states, direction), "the tensor of states without their part along the direction")
    left = (got.double() @ direction.double()).abs().max() / direction.double().norm()
    holds(float(left) < 1e-5, f"a state still has a projection of {float(left):.2g} on the direction")


@exercise("remove_direction", weight=2)
@few
@given(n=states_sizes, seed=seeds)
def test_states_with_any_number_of_axes(learner, n, seed):
    """The states may be one state (D,), or have any axes before the last one; no state affects another."""
    direction = tensor(seed + 1, n.D)
    shapes = ((n.D,), (n.T, n.D), (n.B, n.T, n.D), (2, n.B, n.T, n.D), (n.D, n.D))
    given_states = [tensor(seed + i, *shape) for i, shape in enumerate(shapes)]
    got = [learner.remove_direction(states, direction) for states in given_states]
    for result, states in zip(got, given_states):
        with check:
            close(result, without(states, direction), f"the result for states of shape {tuple(states.shape)}")


@exercise("remove_direction", weight=2)
@few
@given(n=states_sizes, seed=seeds)
def test_only_the_line_of_the_direction_matters(learner, n, seed):
    """A direction that is longer, shorter or opposite removes the same part."""
    states, direction = tensor(seed, n.T, n.D, dtype=torch.float64), unit(tensor(seed + 1, n.D, dtype=torch.float64))
    factors = (1.0, -1.0, 1e4, -1e-6)
    got = {factor: learner.remove_direction(states, factor * direction) for factor in factors}
    for factor, result in got.items():
        close(result, without(states, direction), f"the result for a unit direction times {factor:g}")


@exercise("remove_direction", weight=2)
@few
@given(n=states_sizes, seed=seeds)
def test_what_is_perpendicular_stays(learner, n, seed):
    """A state that is perpendicular to the direction stays, one along it becomes 0, and removing a direction twice is removing it once."""
    direction = torch.zeros(n.D)
    direction[seed % n.D] = -3.0
    states = tensor(seed, n.T, n.D)
    perpendicular = states * (direction == 0)
    along = states[:, :1] * direction
    results = [learner.remove_direction(each, direction) for each in (perpendicular, along, perpendicular + along)]
    again = learner.remove_direction(results[2], direction) if isinstance(results[2], torch.Tensor) else None
    close(results[0], perpendicular, "the result for perpendicular states")
    close(results[1], torch.zeros(n.T, n.D), "the result for states along the direction", tol=1e-3)
    close(results[2], perpendicular, "the result for sums of both")
    close(again, perpendicular, "the result of removing the direction twice")


@exercise("remove_direction")
@few
@given(n=states_sizes, seed=seeds)
def test_a_direction_of_zeros_is_refused(learner, n, seed):
    """A direction of length 0 points nowhere: a ValueError names `direction`. A short one is fine."""
    states, direction = tensor(seed, n.T, n.D), 1e-6 * tensor(seed + 1, n.D)
    got = learner.remove_direction(states, direction)
    refuses(
        lambda: learner.remove_direction(states, torch.zeros(n.D)), naming=("direction",),
        because="the direction has length 0", example="direction must not be 0",
    )  # fmt: skip
    close(got, without(states, direction), "the result for a short direction")


@exercise("remove_direction")
@few
@given(n=states_sizes, seed=seeds)
def test_gradients_reach_states_and_direction(learner, reference, n, seed):
    """The gradients of the states and of the direction are those of the formula, and finite."""
    states, direction, cotangent = tensor(seed, n.B, n.T, n.D), 1.7 * tensor(seed + 1, n.D), tensor(seed + 2, n.B, n.T, n.D)
    got = gradients(learner.remove_direction, states, direction, cotangent=cotangent)
    expected = gradients(reference.remove_direction, states, direction, cotangent=cotangent)
    for found, wanted, name in zip(got.inputs, expected.inputs, ("states", "direction")):
        with check:
            close(found, wanted, f"the gradient of the {name}", tol=1e-4)


@exercise("remove_direction")
def test_the_result_has_the_dtype_and_device_of_the_states(learner):
    """In double precision the result is double, with its digits, and in half precision half; it is where the states are. Both arguments may be views."""
    states, direction = tensor(31, 4, 3, 6, dtype=torch.float64), tensor(32, 6, dtype=torch.float64)
    got = learner.remove_direction(states, direction)
    half = learner.remove_direction(states.bfloat16(), direction.bfloat16())
    view = learner.bring(with_views)(learner.remove_direction, states, direction)
    expected = without(states, direction)
    close(got, expected, "the result in float64")
    close(view, expected, "the result for tensors that are not contiguous")
    close(half, without(states.bfloat16(), direction.bfloat16()), "the result in bfloat16", tol=0.1)
    check_place_of_result(learner, learner.remove_direction, states, direction)


def with_views(f, states, direction):
    """`f` of the same numbers in tensors that are not contiguous."""
    return f(states.permute(2, 1, 0).contiguous().permute(2, 1, 0), torch.stack([direction, direction], dim=-1)[:, 0])
