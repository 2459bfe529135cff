"""Chapter 26: the entropy of a policy, and learning from a teacher's whole distribution."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from memory_layouts import of_views
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
batches = distinct("B", "T", "V", B=(3, 4), T=(5, 6), V=(7, 9))
SLOPE = math.cos(0.3)  # `gradients` multiplies a scalar result by it
DTYPES = (torch.float32, torch.float64)


def lengths_mask(n):
    """Answers of different lengths, which begin at different places."""
    steps = torch.arange(n.T)
    starts, stops = torch.arange(n.B) % 2, n.T - torch.arange(n.B) % 3
    return (steps >= starts[:, None]) & (steps < stops[:, None])


def with_odd_places(logits, mask):
    """The same logits where the mask is True, and what no softmax can read elsewhere."""
    odd = torch.tensor([math.inf, -math.inf, math.nan, 1e4]).to(logits.dtype)
    filling = odd[torch.arange(mask.numel()).view(mask.shape) % 4][..., None].expand(logits.shape)
    return torch.where(mask[..., None], logits, filling)


def places(mask):
    return [(b, t) for b, row in enumerate(mask.tolist()) for t, counts in enumerate(row) if counts]


def softmax(logits, temperature=1.0):
    """The probabilities of one place, as a list."""
    scaled = [value / temperature for value in logits.double().tolist()]
    weights = [math.exp(value - max(scaled)) for value in scaled]
    return [weight / sum(weights) for weight in weights]


# ---- entropy


def entropy_of(probabilities):
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def mean_entropy(logits, mask):
    """Place by place, in float64."""
    each = [entropy_of(softmax(logits[b, t])) for b, t in places(mask)]
    return torch.tensor(sum(each) / max(len(each), 1), dtype=logits.dtype)


def entropy_gradient(logits, mask):
    """-p · (log p + entropy) at each place, divided by the number of places."""
    found = torch.zeros_like(logits)
    for b, t in places(mask):
        p = softmax(logits[b, t])
        slopes = [-each * (math.log(each) + entropy_of(p)) if each > 0 else 0.0 for each in p]
        found[b, t] = torch.tensor(slopes) / len(places(mask))
    return found


@exercise("entropy", weight=3)
@few
@given(n=batches, seed=seeds)
def test_entropy_is_the_mean_over_the_places_that_count(learner, n, seed):
    """The entropy of a place is -Σ p log p over the vocabulary, in nats; the result is its mean over the places where the mask is True. The arguments may be views."""
    mask, found = lengths_mask(n), []
    for dtype in DTYPES:
        logits = tensor(seed, n.B, n.T, n.V, scale=2.0, dtype=dtype)
        found.append((learner.entropy(logits, mask), mean_entropy(logits, mask)))
    found.append((learner.bring(of_views)(learner.entropy, logits, mask), mean_entropy(logits, mask)))
    for got, expected in found:
        close(got, expected, "the entropy", tol=1e-5)


@exercise("entropy", weight=2)
def test_entropy_of_equal_and_of_certain_tokens(learner):
    """Two equally likely tokens have the entropy log 2, V of them log V, and a certain token has 0. The same number added to all logits changes nothing."""
    mask, cases = torch.ones(1, 1, dtype=torch.bool), []
    cases.append((torch.zeros(8), math.log(8), "of 8 equal logits"))
    cases.append((torch.full((8,), 7.5), math.log(8), "of 8 logits of 7.5"))
    cases.append((torch.tensor([0.0, 0.0, -1e4]), math.log(2), "of the logits 0, 0 and -10000"))
    cases.append((torch.tensor([1e4, 0.0, 0.0]), 0.0, "of the logits 10000, 0 and 0"))
    cases.append((torch.tensor([0.0, math.log(3.0)]) + 100, entropy_of([0.25, 0.75]), "of the probabilities 0.25 and 0.75"))
    got = [learner.entropy(logits[None, None], mask) for logits, _, _ in cases]
    for mine, (_, expected, what) in zip(got, cases):
        close(mine, torch.tensor(expected), f"the entropy {what}", tol=1e-4)


@exercise("entropy", weight=2)
@few
@given(n=batches, seed=seeds)
def test_impossible_tokens_add_nothing(learner, n, seed):
    """A logit of -inf gives its token the probability 0: it adds nothing to the entropy, and its gradient is 0, not NaN. A single possible token has the entropy 0."""
    mask, logits = lengths_mask(n), tensor(seed, n.B, n.T, n.V, scale=2.0)
    logits[..., 1] = -math.inf
    logits[1, :, 3] = -math.inf
    logits[0, 1, 1:] = -math.inf  # one possible token is left
    found = gradients(learner.entropy, logits, mask)
    close(found.output, mean_entropy(logits, mask), "the entropy with impossible tokens", tol=1e-4)
    close(found.inputs[0], SLOPE * entropy_gradient(logits, mask), "the gradient of the logits, of which some are -inf", tol=1e-4)


@exercise("entropy", weight=2)
@few
@given(n=batches, seed=seeds)
def test_entropy_ignores_what_is_outside_of_the_mask(learner, n, seed):
    """Where the mask is False, logits may be any numbers, also inf, -inf and NaN: entropy and gradient stay the same, and theirs is 0."""
    mask, logits = lengths_mask(n), tensor(seed, n.B, n.T, n.V, scale=2.0)
    found = gradients(learner.entropy, with_odd_places(logits, mask), mask)
    close(found.output, mean_entropy(logits, mask), "the entropy with odd numbers outside of the mask", tol=1e-4)
    close(found.inputs[0], SLOPE * entropy_gradient(logits, mask), "the gradient of the logits with odd numbers outside of the mask", tol=1e-4)


@exercise("entropy", weight=2)
@few
@given(n=batches, seed=seeds)
def test_entropy_can_be_raised_by_gradient_steps(learner, n, seed):
    """The gradient of a logit is -p · (log p + entropy of its place), divided by the number of places: a bonus for entropy can train a policy."""
    mask, logits = lengths_mask(n), tensor(seed, n.B, n.T, n.V, scale=2.0, dtype=torch.float64)
    found = gradients(learner.entropy, logits, mask)
    close(found.output, mean_entropy(logits, mask), "the entropy", tol=1e-5)
    close(found.inputs[0], SLOPE * entropy_gradient(logits, mask), "the gradient of the logits", tol=1e-5)


@exercise("entropy")
@few
@given(n=batches, seed=seeds)
def test_no_place_has_the_entropy_0(learner, n, seed):
    """If the mask is False everywhere, the entropy is 0, and so are its gradients, not NaN. A single place is its own mean."""
    logits, nothing = tensor(seed, n.B, n.T, n.V, scale=2.0), torch.zeros(n.B, n.T, dtype=torch.bool)
    single = nothing.clone()
    single[1, 2] = True
    one, empty = learner.entropy(logits, single), gradients(learner.entropy, logits, nothing)
    close(one, mean_entropy(logits, single), "the entropy of a single place", tol=1e-4)
    close(empty.output, torch.tensor(0.0), "the entropy without a place")
    close(empty.inputs[0], torch.zeros_like(logits), "the gradient of the logits without a place")


@exercise("entropy")
@few
@given(n=batches, seed=seeds)
def test_entropy_of_large_logits_follows_dtype_and_device(learner, n, seed):
    """The entropy is finite for logits around 10000, has the dtype of the logits and is on their device; float64 logits are not rounded."""
    mask, logits = lengths_mask(n), tensor(seed, n.B, n.T, n.V, scale=2.0, dtype=torch.float64)
    far, sharp = logits + 1e6, (1e4 * logits).float()
    fine, spread, half = learner.entropy(far, mask), learner.entropy(sharp, mask), learner.entropy(logits.bfloat16(), mask)
    close(fine, mean_entropy(far, mask), "the entropy of float64 logits around a million", tol=1e-6)
    close(spread, mean_entropy(sharp, mask), "the entropy of logits as large as 20000", tol=1e-4)
    shaped(half, (), "the entropy of bfloat16 logits", torch.bfloat16)
    check_device_of_result(learner, fine, learner.entropy, logits, mask)


# ---- distillation_loss

KINDS = ("forward", "reverse", "jsd")


def kl(p, q):
    return sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q) if a > 0)


def distance_of(student, teacher, kind):
    """Of two lists of probabilities."""
    if kind == "forward":
        return kl(teacher, student)
    if kind == "reverse":
        return kl(student, teacher)
    middle = [(a + b) / 2 for a, b in zip(student, teacher)]
    return (kl(teacher, middle) + kl(student, middle)) / 2


def mean_distance(student, teacher, mask, kind="forward", temperature=1.0):
    """The loss, place by place, in float64."""
    each = [distance_of(softmax(student[b, t], temperature), softmax(teacher[b, t], temperature), kind) for b, t in places(mask)]
    return torch.tensor(temperature**2 * sum(each) / max(len(each), 1), dtype=student.dtype)


def student_gradient(student, teacher, mask, kind, temperature):
    """The gradient of the student's logits by hand: temperature · s · (slope - its mean under s), over the number of places."""
    found = torch.zeros_like(student)
    for b, t in places(mask):
        s, p = softmax(student[b, t], temperature), softmax(teacher[b, t], temperature)
        if kind == "forward":
            slopes = [-y / x for x, y in zip(s, p)]
        elif kind == "reverse":
            slopes = [math.log(x / y) for x, y in zip(s, p)]
        else:
            slopes = [math.log(2 * x / (x + y)) / 2 for x, y in zip(s, p)]
        mean = sum(x * slope for x, slope in zip(s, slopes))
        found[b, t] = torch.tensor([temperature * x * (slope - mean) for x, slope in zip(s, slopes)]) / len(places(mask))
    return found


def logits_pair(n, seed, dtype=torch.float32):
    """Logits of a student and of a teacher."""
    return tensor(seed, n.B, n.T, n.V, scale=1.5, dtype=dtype), tensor(seed + 1, n.B, n.T, n.V, scale=1.5, dtype=dtype)


def one_place(*probabilities):
    """Logits (1, 1, V) of these probabilities."""
    return torch.tensor(probabilities).log()[None, None]


@exercise("distillation_loss", weight=2)
def test_distances_of_two_tokens_by_hand(learner):
    """The teacher gives 0.5 and 0.5, the student 0.9 and 0.1: forward is 0.5·log(0.5/0.9) + 0.5·log(0.5/0.1) = 0.511, reverse is 0.368, and jsd 0.102."""
    student, teacher, mask = one_place(0.9, 0.1), one_place(0.5, 0.5), torch.ones(1, 1, dtype=torch.bool)
    expected = {"forward": 0.5108256, "reverse": 0.3680642, "jsd": 0.1017443}
    got = {kind: learner.distillation_loss(student, teacher, mask, kind) for kind in KINDS}
    for kind, loss in got.items():
        close(loss, torch.tensor(expected[kind]), f"the loss of kind {kind!r}", tol=1e-4)


@exercise("distillation_loss", weight=3)
@few
@given(n=batches, seed=seeds)
def test_the_loss_is_the_mean_distance_of_the_places(learner, n, seed):
    """Each kind is the distance of the two distributions of a place, averaged over the places where the mask is True. The arguments may be views."""
    mask, cases = lengths_mask(n), []
    for kind in KINDS:
        for dtype in DTYPES:
            pair = logits_pair(n, seed, dtype)
            cases.append((kind, pair, learner.distillation_loss(*pair, mask, kind)))
        cases.append((kind, pair, learner.bring(of_views)(learner.distillation_loss, *pair, mask, kind)))
    cases.append(("forward", pair, learner.distillation_loss(*pair, mask)))
    for kind, pair, got in cases:
        close(got, mean_distance(*pair, mask, kind), f"the loss of kind {kind!r}", tol=1e-4)


@exercise("distillation_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_forward_and_reverse_are_each_others_mirror_image(learner, n, seed):
    """If student and teacher are exchanged, forward becomes reverse, and the two differ; jsd stays as it is."""
    mask, (one, other) = lengths_mask(n), logits_pair(n, seed)
    got = {kind: (learner.distillation_loss(one, other, mask, kind), learner.distillation_loss(other, one, mask, kind)) for kind in KINDS}
    for kind, mirror in (("forward", "reverse"), ("reverse", "forward"), ("jsd", "jsd")):
        close(got[kind][0], mean_distance(one, other, mask, kind), f"the loss of kind {kind!r}", tol=1e-4)
        close(got[kind][1], mean_distance(one, other, mask, mirror), f"the loss of kind {kind!r} with student and teacher exchanged", tol=1e-4)


@exercise("distillation_loss", weight=2)
def test_equal_distributions_have_no_distance_and_jsd_ends_at_log_2(learner):
    """Logits that differ by one number everywhere are the same distribution: the loss is 0. Forward and reverse grow without limit, jsd only to log 2 · temperature²."""
    mask, V = torch.ones(2, 3, dtype=torch.bool), 5
    logits = tensor(3, 2, 3, V, scale=2.0)
    left, right = torch.zeros(2, 3, V), torch.zeros(2, 3, V)
    left[..., 0], right[..., 1] = 200.0, 200.0
    near = {kind: learner.distillation_loss(logits, logits + 7, mask, kind) for kind in KINDS}
    far = {(kind, T): learner.distillation_loss(left, right, mask, kind, T) for kind in KINDS for T in (1.0, 3.0)}
    for kind, loss in near.items():
        close(loss, torch.tensor(0.0), f"the loss of kind {kind!r} of two equal distributions", tol=1e-3)
    for (kind, T), loss in far.items():
        expected = T**2 * (math.log(2) if kind == "jsd" else 200 / T)
        close(loss, torch.tensor(expected), f"the loss of kind {kind!r} of two certain and different tokens, with temperature = {T:g}", tol=1e-4)


@exercise("distillation_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_both_logits_are_divided_by_the_temperature(learner, n, seed):
    """The logits of both are divided by the temperature before the softmax, and the loss is multiplied by its square."""
    mask, pair = lengths_mask(n), logits_pair(n, seed)
    got = {(kind, T): learner.distillation_loss(*pair, mask, kind, T) for kind in KINDS for T in (0.5, 3.0)}
    named = learner.distillation_loss(*pair, mask, temperature=2.0)
    for (kind, T), loss in got.items():
        close(loss, mean_distance(*pair, mask, kind, T), f"the loss of kind {kind!r} with temperature = {T:g}", tol=1e-4)
    close(named, mean_distance(*pair, mask, "forward", 2.0), "the loss with temperature = 2 and the default kind", tol=1e-4)


@exercise("distillation_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_the_student_gets_the_gradient_of_the_distance(learner, n, seed):
    """The student's gradient is that of the distance, for each kind; with "forward" it is temperature · (s - t), over the number of places. It reaches nothing outside of the mask."""
    mask, pair = lengths_mask(n), logits_pair(n, seed, torch.float64)
    found = {(kind, T): gradients(learner.distillation_loss, *pair, mask, kind=kind, temperature=T) for kind in KINDS for T in (1.0, 2.5)}
    for (kind, T), got in found.items():
        expected = SLOPE * student_gradient(*pair, mask, kind, T)
        close(got.inputs[0], expected, f"the gradient of student_logits with kind = {kind!r} and temperature = {T:g}", tol=1e-5)


@exercise("distillation_loss")
@few
@given(n=batches, seed=seeds)
def test_a_high_temperature_does_not_make_the_gradient_small(learner, n, seed):
    """At high temperatures the gradient does not depend on the temperature, thanks to temperature². With forward and reverse it is the difference of the logits over V, with jsd a quarter of it."""
    mask, pair = lengths_mask(n), logits_pair(n, seed, torch.float64)
    student, teacher = (logits - logits.mean(-1, keepdim=True) for logits in pair)
    limit = SLOPE * (student - teacher) / n.V * mask[..., None] / mask.sum()
    found = {(kind, T): gradients(learner.distillation_loss, *pair, mask, kind=kind, temperature=T) for kind in KINDS for T in (1e3, 1e4)}
    for (kind, T), got in found.items():
        expected = limit / 4 if kind == "jsd" else limit
        close(got.inputs[0], expected, f"the gradient of student_logits with kind = {kind!r} and temperature = {T:g}", tol=1e-2)


@exercise("distillation_loss")
@few
@given(n=batches, seed=seeds)
def test_the_teacher_gets_no_gradient(learner, n, seed):
    """The teacher's logits are fixed numbers, also if they come with a graph; the student's are not."""
    mask, pair = lengths_mask(n), logits_pair(n, seed)
    found = {kind: gradients(learner.distillation_loss, *pair, mask, kind=kind, temperature=2.0) for kind in KINDS}
    for kind, got in found.items():
        holds(got.inputs[0] is not None and bool(got.inputs[0].abs().max() > 0), f"student_logits get no gradient with kind = {kind!r}")
        holds(got.inputs[1] is None or not got.inputs[1].any(), f"teacher_logits should get no gradient with kind = {kind!r}")


@exercise("distillation_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_distillation_ignores_what_is_outside_of_the_mask(learner, n, seed):
    """Where the mask is False, the logits of both may be any numbers, also inf, -inf and NaN: loss and gradient stay the same, and theirs is 0."""
    mask, pair = lengths_mask(n), logits_pair(n, seed)
    odd = [with_odd_places(logits, mask) for logits in pair]
    found = {kind: gradients(learner.distillation_loss, *odd, mask, kind=kind, temperature=1.5) for kind in KINDS}
    for kind, got in found.items():
        close(got.output, mean_distance(*pair, mask, kind, 1.5), f"the loss of kind {kind!r} with odd numbers outside of the mask", tol=1e-4)
        expected = SLOPE * student_gradient(*pair, mask, kind, 1.5)
        close(got.inputs[0], expected, f"the gradient of student_logits with kind = {kind!r} and odd numbers outside of the mask", tol=1e-4)


@exercise("distillation_loss")
@few
@given(n=batches, seed=seeds)
def test_distillation_of_large_logits_is_finite(learner, n, seed):
    """Loss and gradients are finite for logits such as 10000, where many probabilities are 0 after rounding."""
    mask, pair = lengths_mask(n), [1e4 * logits for logits in logits_pair(n, seed)]
    found = {kind: gradients(learner.distillation_loss, *pair, mask, kind=kind) for kind in KINDS}
    for kind, got in found.items():
        expected = {"forward": 0, "reverse": 1, "jsd": 2}[kind]
        close(got.output, far_apart(*pair, mask)[expected], f"the loss of kind {kind!r} of logits up to 30000", tol=1e-3)
        holds(bool(got.inputs[0].isfinite().all()), f"the gradient of student_logits of kind {kind!r} is not finite for large logits")


def far_apart(student, teacher, mask):
    """The three losses in float64 by log-probabilities, which do not underflow."""
    s, t = (torch.log_softmax(logits.double(), -1)[mask] for logits in (student, teacher))
    m = torch.logaddexp(s, t) - math.log(2)
    losses = [(a.exp() * (a - b)).sum() / len(s) for a, b in ((t, s), (s, t), (t, m), (s, m))]
    return [loss.to(student.dtype) for loss in (losses[0], losses[1], (losses[2] + losses[3]) / 2)]


@exercise("distillation_loss")
@few
@given(n=batches, seed=seeds)
def test_no_place_has_the_loss_0(learner, n, seed):
    """If the mask is False everywhere, the loss is 0, and so are its gradients, not NaN. A single place is its own mean."""
    pair, nothing = logits_pair(n, seed), torch.zeros(n.B, n.T, dtype=torch.bool)
    single = nothing.clone()
    single[1, 2] = True
    one = {kind: learner.distillation_loss(*pair, single, kind, 2.0) for kind in KINDS}
    empty = {kind: gradients(learner.distillation_loss, *pair, nothing, kind=kind) for kind in KINDS}
    for kind in KINDS:
        close(one[kind], mean_distance(*pair, single, kind, 2.0), f"the loss of kind {kind!r} of a single place", tol=1e-4)
        close(empty[kind].output, torch.tensor(0.0), f"the loss of kind {kind!r} without a place")
        close(empty[kind].inputs[0], torch.zeros(n.B, n.T, n.V), f"the gradient of student_logits of kind {kind!r} without a place")


@exercise("distillation_loss")
@few
@given(n=batches, seed=seeds)
def test_distillation_follows_dtype_and_device(learner, n, seed):
    """The loss has the dtype of the logits and is on their device; float64 logits are not rounded."""
    mask, (student, teacher) = lengths_mask(n), logits_pair(n, seed, torch.float64)
    fine = {kind: learner.distillation_loss(student + 1e6, teacher - 1e6, mask, kind) for kind in KINDS}
    half = learner.distillation_loss(student.bfloat16(), teacher.bfloat16(), mask)
    for kind, loss in fine.items():
        close(loss, mean_distance(student, teacher, mask, kind), f"the loss of kind {kind!r} of float64 logits around a million", tol=1e-5)
    shaped(half, (), "the loss of bfloat16 logits", torch.bfloat16)
    check_device_of_result(learner, fine["forward"], learner.distillation_loss, student, teacher, mask)


@exercise("distillation_loss")
def test_unknown_kinds_and_temperatures_are_refused(learner):
    """Another kind than forward, reverse and jsd raises a ValueError that names it. So does a temperature of 0 or less; 0.01 is fine."""
    student, teacher, mask = one_place(0.9, 0.1), one_place(0.88, 0.12), torch.ones(1, 1, dtype=torch.bool)
    fine = [learner.distillation_loss(student, teacher, mask, kind, 0.01) for kind in KINDS]
    for kind in ("backward", "kl"):
        refuses(lambda kind=kind: learner.distillation_loss(student, teacher, mask, kind), naming={"kind": kind}, because="there are only forward, reverse and jsd")
    for T in (0.0, -2.0):
        refuses(lambda T=T: learner.distillation_loss(student, teacher, mask, "forward", T), naming={"temperature": T}, because="logits cannot be divided by it")
    for kind, loss in zip(KINDS, fine):
        close(loss, mean_distance(student, teacher, mask, kind, 0.01), f"the loss of kind {kind!r} with temperature = 0.01", tol=1e-3)
    same(tuple(fine[0].shape), (), "the shape of the loss")
