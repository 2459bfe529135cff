"""Chapter 12, last part: putting a state of one run into another, and how much of the answer that recovers."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same, shaped
from hypothesis import given, settings
from memory_layouts import of_views
from model_states import (
    check_hooks_and_modes,
    check_left_by_an_error,
    check_other_runs,
    check_trainable,
    draw_sizes,
    left_by_an_error,
    observed,
    training_pair,
)
from small_models import gpt_ids
from strategies import distinct, seeds, tensor

# ---- patch_residual


def two_texts(n, seed, length=None):
    """A clean and a corrupted text: the rows are equal at position 0 and differ at position 1 and at some later ones."""
    clean, corrupted = gpt_ids(n, seed, length), gpt_ids(n, seed + 1, length)
    corrupted[:, 0] = clean[:, 0]
    corrupted[:, 1] = (clean[:, 1] + 1 + torch.arange(n.B)) % n.V
    return clean, corrupted


def own_logits(model, ids):
    return model.eval()(ids)[0].detach()


def logits_of(side, model, ids):
    return side.bring(own_logits)(model, ids)


@exercise("patch_residual", weight=3)
def test_one_state_of_the_clean_run_is_put_in(learner, reference):
    """At `position`, the stream after block `layer` is the clean run's; everything else is the corrupted run, which continues from there."""
    n, seed = draw_sizes(L=3)
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    places = [(0, 1), (1, 0), (1, n.T - 2), (2, 2)]
    got = {place: learner.patch_residual(mine, clean, corrupted, *place) for place in places}
    for layer, position in places:
        close(got[layer, position], reference.patch_residual(model, clean, corrupted, layer, position), f"the logits with layer={layer}, position={position}")


@exercise("patch_residual", weight=2)
def test_a_patch_at_every_position_gives_the_clean_logits(learner, reference):
    """Without a position the whole stream is replaced, so the logits are exactly those of the clean run."""
    n, seed = draw_sizes()
    clean, corrupted = two_texts(n, seed)
    mine, model = training_pair(learner, reference, n, seed, positions="rope")
    got = [learner.patch_residual(mine, clean, corrupted, layer) for layer in range(n.L)]
    for layer, logits in enumerate(got):
        close(logits, logits_of(reference, model, clean), f"the logits with layer={layer} and no position")


@exercise("patch_residual", weight=2)
def test_what_comes_before_the_patch_stays_corrupted(learner, reference):
    """Logits before `position` are the corrupted run's; those from it on are changed."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    p = n.T - 3
    got = learner.patch_residual(mine, clean, corrupted, 0, position=p)
    before, expected = logits_of(reference, model, corrupted), reference.patch_residual(model, clean, corrupted, 0, p)
    shaped(got, (n.B, n.T, n.V), "the tensor of logits")
    close(got[:, :p].clone(), before[:, :p].clone(), f"the logits before the patched position {p}")
    close(got, expected, "the logits")


@exercise("patch_residual", weight=2)
def test_after_the_last_block_nothing_spreads(learner, reference):
    """After the last block no position reads another: a patch there gives the clean logits at its position, and the corrupted ones elsewhere."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    expected = {}
    got = {p: learner.patch_residual(mine, clean, corrupted, layer=n.L - 1, position=p) for p in (1, n.T - 1)}
    for p in got:
        expected[p] = logits_of(reference, model, corrupted)
        expected[p][:, p] = logits_of(reference, model, clean)[:, p]
        close(got[p], expected[p], f"the logits with the last layer patched at position {p}")


@exercise("patch_residual", weight=2)
def test_clean_into_clean_changes_nothing(learner, reference):
    """When both texts are the same, a patch changes nothing; and texts may have one token."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    got = [learner.patch_residual(mine, clean, clean, 0, p) for p in (None, 2)]
    one = learner.patch_residual(mine, clean[:1, 1:2].clone(), corrupted[:1, 1:2].clone(), 0, 0)
    other = learner.patch_residual(mine, clean, corrupted, 0, 0)
    for logits in got:
        close(logits, logits_of(reference, model, clean), "the logits of the clean text patched with its own states")
    close(one, logits_of(reference, model, clean[:1, 1:2].clone()), "the logits of a text of one token, patched")
    close(other, logits_of(reference, model, corrupted), "the logits after a patch at position 0, where both texts have the same token")


@exercise("patch_residual", weight=2)
def test_a_patch_leaves_the_model_as_it_was(learner, reference):
    """Both runs are in eval mode; hooks and modes are as before, also when a run fails, and a second patch gives the same."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed, dropout=0.5)
    clean, corrupted = two_texts(n, seed)
    expected = reference.patch_residual(model, clean, corrupted, 0, 1)
    found = learner.bring(observed)(learner.patch_residual, mine, clean, corrupted, 0, 1)
    failed = learner.bring(left_by_an_error)(learner.patch_residual, mine, clean, corrupted + n.V, 0, 1)
    close(found["seen"], expected, "the logits of a model with dropout, in train mode")
    check_other_runs(found, expected, "the logits")
    check_hooks_and_modes(found)
    check_left_by_an_error(failed)


@exercise("patch_residual", weight=2)
def test_a_patch_keeps_no_gradient(learner, reference):
    """The logits have no graph, and parameters, their gradients and gradient mode do not change."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    expected = reference.patch_residual(model, clean, corrupted, 0, 1)
    found = learner.bring(observed)(learner.patch_residual, mine, clean, corrupted, 0, 1)
    close(found["seen"], expected, "the logits")
    check_trainable(found)


@exercise("patch_residual", weight=2)
def test_invalid_layers_and_shapes_raise_an_error(learner, reference):
    """Layers count from 0, so n_layers and -1 are invalid; both texts need the same shape, so that positions correspond: otherwise a ValueError."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    clean, corrupted = two_texts(n, seed)
    close(learner.patch_residual(mine, clean, corrupted, n.L - 1, 1), reference.patch_residual(model, clean, corrupted, n.L - 1, 1), "the logits")
    for layer in (n.L, n.L + 7, -1):
        refuses(lambda layer=layer: learner.patch_residual(mine, clean, corrupted, layer), naming={"layer": layer}, because=f"layer={layer} in a model of {n.L} blocks")
    refuses(lambda: learner.patch_residual(mine, clean, corrupted[:, :-1].clone(), 0, 1), because=f"{n.T} clean tokens and {n.T - 1} corrupted ones")
    refuses(lambda: learner.patch_residual(mine, clean[:, :-1].clone(), corrupted, 0, 1), because=f"{n.T - 1} clean tokens and {n.T} corrupted ones")
    refuses(lambda: learner.patch_residual(mine, clean[:1].clone(), corrupted, 0, 1), because=f"one clean text and {n.B} corrupted ones")


@exercise("patch_residual")
def test_models_of_other_dtypes_are_patched_in_theirs(learner, reference):
    """The logits have the model's dtype, double or half; the ids may be views."""
    n, seed = draw_sizes(L=1)
    clean, corrupted = two_texts(n, seed)
    mine, model = training_pair(learner, reference, n, seed)
    views, wanted = learner.bring(of_views)(learner.patch_residual, mine, clean, corrupted, 0, 1), reference.patch_residual(model, clean, corrupted, 0, 1)
    close(views, wanted, "the logits for ids that are not contiguous")
    for dtype, tol in ((torch.float64, 1e-9), (torch.bfloat16, 0.15)):
        expected = reference.patch_residual(model.to(dtype), clean, corrupted, 0, 1)
        close(learner.patch_residual(mine.to(dtype), clean, corrupted, 0, 1), expected, f"the logits in {str(dtype).removeprefix('torch.')}", tol)


# ---- recovery


def three_runs(n, seed, target, clean, corrupted, patched):
    """Logits (V,) of three runs that give the target these; everything else is noise, larger than the target's logits at some places."""
    runs = [tensor(seed + i, n.V, scale=5.0) for i in range(3)]
    for logits, value in zip(runs, (clean, corrupted, patched)):
        logits[target] = value
    return runs


def judge_recovery(learner, n, seed, clean, corrupted, shares):
    """Patches that bring back these shares of the target's logit have these recoveries."""
    target = seed % n.V
    patched = [corrupted + share * (clean - corrupted) for share in shares]
    got = [learner.recovery(*three_runs(n, seed + i, target, clean, corrupted, value), target) for i, value in enumerate(patched)]
    for found, value, share in zip(got, patched, shares):
        close(found, share, f"the recovery for a target whose logit is {clean} in the clean run, {corrupted} in the corrupted and {value} in the patched one,")


several = distinct("V", least=4, most=9)


@exercise("recovery", weight=3)
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_recovery_is_the_share_that_came_back(learner, n, seed):
    """The restored part divided by the lost part: 0 if the patch changed nothing, 1 if everything is restored, 1/2 if half of it is."""
    lost, low = 2.0 + seed % 5, -1.5 + seed % 4
    judge_recovery(learner, n, seed, low + lost, low, [0.5, 0.25, 0.0, 1.0])


@exercise("recovery", weight=2)
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_recovery_may_lie_outside_0_and_1(learner, n, seed):
    """A patch that makes things worse has a negative recovery, one that overshoots has one above 1."""
    lost, low = 2.0 + seed % 5, -1.5 + seed % 4
    judge_recovery(learner, n, seed, low + lost, low, [-0.75, 1.5])


@exercise("recovery", weight=2)
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_the_corrupted_logit_may_be_the_larger_one(learner, n, seed):
    """Recovery measures the distance from the corrupted logit towards the clean one, even if the corrupted one is larger."""
    lost, low = 2.0 + seed % 5, -1.5 + seed % 4
    judge_recovery(learner, n, seed, low, low + lost, [0.75, -0.5, 1.0])


@exercise("recovery", weight=2)
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_only_the_logit_of_the_target_counts(learner, n, seed):
    """Other tokens' logits do not count: recovery uses the target's logit, not its probability."""
    target = seed % n.V
    runs = three_runs(n, seed, target, 3.0, -1.0, 2.0)
    others = three_runs(n, seed + 5, target, 3.0, -1.0, 2.0)
    other_target = (target + 1) % n.V
    clean, corrupted, patched = (logits[other_target].item() for logits in runs)
    got = [learner.recovery(*runs, target), learner.recovery(*others, target), learner.recovery(*runs, other_target)]
    for i, found in enumerate(got[:2]):
        close(found, 0.75, f"the recovery of logit 3 clean, -1 corrupted and 2 patched, among {('some', 'other')[i]} logits of other tokens,", tol=1e-3)
    close(got[2], (patched - corrupted) / (clean - corrupted), "the recovery of another target", tol=1e-3)


@exercise("recovery", weight=2)
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_equal_clean_and_corrupted_logits_raise_an_error(learner, n, seed):
    """When clean and corrupted runs give the target the same logit, however different the others' are, that is a ValueError that names the target."""
    target = seed % n.V
    judge_recovery(learner, n, seed, 2.0, 4.0, [0.5])
    apart = three_runs(n, seed, target, 2.0, 2.0, 3.0)
    refuses(lambda: learner.recovery(*apart, target), naming={"target": target}, because="the target's logit is 2.0 in the clean and in the corrupted run")
    refuses(lambda: learner.recovery(apart[0], apart[0].clone(), apart[0].clone(), target), because="all three runs are the same")


@exercise("recovery", weight=2)
@settings(max_examples=2)
@given(n=several, seed=seeds)
def test_logits_that_are_nearly_equal_have_a_recovery(learner, n, seed):
    """Clean and corrupted logits as near as 1000 and 1000 - 1/32768 have a recovery: only equal ones have none, and float64 logits keep their digits."""
    target, step = seed % n.V, 2.0**-17
    runs = [logits.double() for logits in three_runs(n, seed, target, 1000.0, 1000.0, 1000.0)]
    for logits, value in zip(runs, (1000.0, 1000.0 - 4 * step, 1000.0 - step)):
        logits[target] = value
    got = learner.recovery(*runs, target)
    close(got, 0.75, f"the recovery, in float64, of a logit of 1000 that fell by {4 * step:.2g}, of which the patch restored three quarters,", tol=1e-4)


@exercise("recovery")
@settings(max_examples=3)
@given(n=several, seed=seeds)
def test_recovery_is_a_plain_float(learner, n, seed):
    """The result is a Python float, also from logits in double or half precision."""
    target = seed % n.V
    runs = three_runs(n, seed, target, 6.0, 2.0, 3.0)
    got = [learner.recovery(*[logits.to(dtype) for logits in runs], target) for dtype in (torch.float32, torch.float64, torch.bfloat16)]
    close(got, [0.25, 0.25, 0.25], "the recovery in float32, float64 and bfloat16")
    same([type(value).__name__ for value in got], ["float"] * 3, "the type of the recovery")
