"""Chapter 14, sixth part: cross-entropy with the logits of a few positions at a time."""

import torch
from backward_laws import on_views
from calls import call_without_gradient, gradient_of_one
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, sizes
from grader.verdict.memory import watch_call, watch_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from module_pairs import compare_gradient
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=3)
loss_sizes = distinct("B", "T", "D", V=(8, 12), B=(2, 4), T=(5, 7))


def case(seed, n, lead=2, ignored=-100, share=3):
    """Hidden states, weight and targets; about one target in `share` is ignored."""
    front = (n.B, n.T)[2 - lead :]
    sizes(B=n.B if lead == 2 else None)
    hidden, weight = tensor(seed, *front, n.D, dtype=torch.float64), tensor(seed + 1, n.V, n.D, scale=1.5, dtype=torch.float64)
    targets = token_ids(seed, *front, vocab=n.V)
    targets[tensor(seed + 2, *front).argsort(-1) % share == 0] = ignored
    return hidden, weight, targets


def whole(cross_entropy, hidden, weight, targets, ignore_index=-100):
    """The loss from all logits at once."""
    return cross_entropy(hidden @ weight.T, targets, ignore_index)


def compare_losses(got, expected, which=""):
    with check:
        close(got.output, expected.output, "the loss" + which)
    with check:
        compare_gradient(got.inputs[0], expected.inputs[1], "hidden" + which)
    with check:
        compare_gradient(got.inputs[1], expected.inputs[2], "weight" + which)


def at_once(reference, *arguments):
    return gradients(reference.bring(whole), reference.cross_entropy, *arguments)


@exercise("chunked_cross_entropy", weight=4)
@given(n=loss_sizes, lead=st.integers(1, 2), seed=seeds)
def test_every_chunk_size_gives_the_mean_over_all_kept_targets(learner, reference, n, lead, seed):
    """Loss and gradients are those of all logits at once, for each chunk size, however the kept targets are spread over the chunks."""
    hidden, weight, targets = case(seed, n, lead)
    N = targets.numel()
    got = {chunk: gradients(learner.chunked_cross_entropy, hidden, weight, targets, chunk) for chunk in (1, 2, N - 1, N, N + 4)}
    expected = at_once(reference, hidden, weight, targets)
    for chunk, found in got.items():
        compare_losses(found, expected, f" with chunk = {chunk}")


@exercise("chunked_cross_entropy", weight=3)
@few
@given(n=loss_sizes, seed=seeds)
def test_chunks_may_have_no_kept_target(learner, reference, n, seed):
    """A chunk whose targets are all ignored adds nothing and gives no NaN, also if it is the first; chunks with more kept targets count more."""
    hidden, weight, targets = case(seed, n, lead=1, share=5)
    first, last = targets.clone(), targets.clone()
    first[:2], last[-3:] = -100, -100
    found = {name: gradients(learner.chunked_cross_entropy, hidden, weight, some, 2) for name, some in (("first", first), ("last", last))}
    for name, some in (("first", first), ("last", last)):
        compare_losses(found[name], at_once(reference, hidden, weight, some), f" where all targets of the {name} chunk are ignored")


@exercise("chunked_cross_entropy", weight=2)
@few
@given(n=loss_sizes, seed=seeds)
def test_if_all_targets_are_ignored_the_loss_is_zero(learner, reference, n, seed):
    """If all targets are ignored, the loss is 0 and the gradients are zeros, never NaN."""
    hidden, weight, targets = case(seed, n)
    some = gradients(learner.chunked_cross_entropy, hidden, weight, targets, 3)
    got = gradients(learner.chunked_cross_entropy, hidden, weight, torch.full_like(targets, -100), 3)
    compare_losses(some, at_once(reference, hidden, weight, targets))
    close(got.output, torch.zeros((), dtype=torch.float64), "the loss of ignored targets")
    for i, name in enumerate(("hidden", "weight")):
        if got.inputs[i] is not None:
            close(got.inputs[i], torch.zeros_like((hidden, weight)[i]), f"the gradient of {name}, where all targets are ignored")


@exercise("chunked_cross_entropy", weight=2)
@few
@given(n=loss_sizes, seed=seeds)
def test_any_id_may_be_the_ignored_one(learner, reference, n, seed):
    """ignore_index may be another number, also the id of a word: then that word is not counted as a target."""
    hidden, weight, targets = case(seed, n, ignored=3)
    got = gradients(learner.chunked_cross_entropy, hidden, weight, targets, 4, 3)
    compare_losses(got, at_once(reference, hidden, weight, targets, 3), " with ignore_index = 3")


def scaled_loss(loss, hidden, weight, targets, factor):
    """A multiple of the loss of all positions but one, as for the next token, plus another loss."""
    return loss(hidden[:, :-1], weight, targets[:, 1:], 2) * factor + hidden.sum()


def loss_and_gradients(loss, hidden, weight, targets, chunk):
    """The loss and its gradients, where the caller has switched gradients off."""
    with torch.enable_grad():
        leaves = [x.detach().clone().requires_grad_() for x in (hidden, weight)]
        result = loss(*leaves, targets, chunk)
        result.backward()
    return [result.detach(), *(x.grad for x in leaves)]


@exercise("chunked_cross_entropy", weight=2)
@few
@given(n=loss_sizes, seed=seeds)
def test_the_loss_may_be_a_part_of_another_loss(learner, reference, n, seed):
    """If the loss of a slice of the positions is multiplied by -3 and added to another one, the gradients are too."""
    hidden, weight, targets = case(seed, n)
    got, expected = (gradients(side.bring(scaled_loss), side.chunked_cross_entropy, hidden, weight, targets, -3.0) for side in (learner, reference))
    close(got.output, expected.output, "-3 times the loss, plus another loss,")
    compare_gradient(got.inputs[1], expected.inputs[1], "hidden through -3 times the loss plus another loss")
    compare_gradient(got.inputs[2], expected.inputs[2], "weight through -3 times the loss")


@exercise("chunked_cross_entropy")
@few
@given(n=loss_sizes, seed=seeds)
def test_very_large_logits_give_a_finite_loss(learner, reference, n, seed):
    """Logits in the thousands give a finite loss and finite gradients."""
    hidden, weight, targets = case(seed, n)
    got = gradients(learner.chunked_cross_entropy, 1000 * hidden, weight, targets, 3)
    compare_losses(got, at_once(reference, 1000 * hidden, weight, targets), " of logits in the thousands")


def large_vocabulary():
    """Hidden states, weight and targets of 2 texts of 64 positions with 512 words, and a chunk; then how many logits there are in all."""
    B, T, V, D, chunk = 2, 64, 512, 8, 8
    sizes(B=B, T=T, V=V, D=D, chunk=chunk)
    hidden, weight, targets = tensor(1, B, T, D), tensor(2, V, D), token_ids(3, B, T, vocab=V)
    targets[:, ::5] = -100
    return hidden, weight, targets, chunk, B * T * V


@exercise("chunked_cross_entropy", weight=15)
def test_the_logits_of_all_positions_never_exist(learner, reference):
    """With 2 texts of 64 positions, 512 words and chunk = 8, no tensor is as large as the logits of 16 positions, and less than a quarter of all logits is kept."""
    hidden, weight, targets, chunk, logits = large_vocabulary()
    limits = {"largest": 2 * chunk * weight.size(0), "kept": logits / 4}
    watched = watch_gradients(learner, learner.chunked_cross_entropy, hidden, weight, targets, chunk, **limits)
    close(watched.result, at_once(reference, hidden, weight, targets).output, "the loss")
    watched.check()


@exercise("chunked_cross_entropy", weight=3)
def test_the_chunks_of_the_backward_pass_are_not_collected(learner, reference):
    """With 2 texts of 64 positions, 512 words and chunk = 8, all tensors that exist at one moment of both passes have fewer entries than all logits."""
    hidden, weight, targets, chunk, logits = large_vocabulary()
    watched = watch_call(learner, learner.bring(loss_and_gradients), learner.chunked_cross_entropy, hidden, weight, targets, chunk, alive=logits)
    expected = reference.bring(loss_and_gradients)(reference.chunked_cross_entropy, hidden, weight, targets, chunk)
    for name, got, wanted in zip(("the loss", "the gradient of hidden", "the gradient of weight"), watched.result, expected):
        close(got, wanted, name)
    watched.check()


@exercise("chunked_cross_entropy")
@few
@given(n=loss_sizes, seed=seeds)
def test_hidden_or_weight_may_need_a_gradient_alone(learner, reference, n, seed):
    """If only hidden needs a gradient, because the weight is frozen, or only weight, that one gets it."""
    hidden, weight, targets = case(seed, n)
    pairs = [[side.bring(gradient_of_one)(side.chunked_cross_entropy, i, (hidden, weight), targets, 3) for side in (learner, reference)] for i in (0, 1)]
    for name, (got, expected) in zip(("hidden", "weight"), pairs):
        compare_gradient(got, expected, f"{name}, the only one that needs a gradient,")


@exercise("chunked_cross_entropy")
@few
@given(n=loss_sizes, seed=seeds)
def test_hidden_states_and_targets_may_be_views(learner, reference, n, seed):
    """Hidden states, weight and targets may be views, also slices of larger tensors, and there may be one position alone: hidden (D,) and targets ()."""
    hidden, weight, targets = case(seed, n)
    targets[0, 0] = 1
    views = learner.bring(on_views)(learner.chunked_cross_entropy, hidden, weight, targets, 3)
    alone = learner.chunked_cross_entropy(hidden[0, 0], weight, targets[0, 0], 3)
    expected = [reference.bring(whole)(reference.cross_entropy, *parts) for parts in ((hidden, weight, targets), (hidden[0, :1], weight, targets[0, :1]))]
    close(views, expected[0], "the loss of views")
    close(alone, expected[1], "the loss of one position, hidden (D,) and targets (),")


@exercise("chunked_cross_entropy")
def test_a_chunk_has_at_least_one_position(learner, reference):
    """chunk below 1 raises a ValueError that names it."""
    hidden, weight, targets = tensor(1, 5, 3), tensor(2, 7, 3), token_ids(3, 5, vocab=7)
    sizes(N=5, D=3, V=7)
    close(learner.chunked_cross_entropy(hidden, weight, targets, 2), reference.chunked_cross_entropy(hidden, weight, targets, 2), "the loss")
    for chunk in (0, -4):
        refuses(
            lambda chunk=chunk: learner.chunked_cross_entropy(hidden, weight, targets, chunk), naming={"chunk": chunk}, because="a chunk has at least one position"
        )  # fmt: skip


@exercise("chunked_cross_entropy")
@few
@given(n=loss_sizes, seed=seeds)
def test_the_chunked_loss_keeps_dtype_and_device(learner, reference, n, seed):
    """Loss and gradients are float32 for float32, also without gradient, and on the device of the hidden states; the loss is bfloat16 for bfloat16."""
    hidden, weight, targets = case(seed, n)
    single = hidden.float(), weight.float(), targets
    rough = learner.chunked_cross_entropy(hidden.bfloat16(), weight.bfloat16(), targets, 4)
    got, quiet = gradients(learner.chunked_cross_entropy, *single, 4), call_without_gradient(learner, learner.chunked_cross_entropy, *single, 4)
    expected = at_once(reference, *single)
    for mode, loss in quiet.items():
        close(loss, expected.output, f"the loss in {mode}")
    compare_losses(got, expected)
    close(rough, expected.output.bfloat16(), "the loss in bfloat16", tol=8e-2)
    check_device_of_result(learner, got.output, learner.chunked_cross_entropy, *single, 4)
