"""Chapter 11, first part: choosing experts, and the loss that balances their work. The layer, the block and the count have their own files."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import given, settings
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor
from torch import Tensor

routers = distinct("B", "T", N=(5, 8))


def drawn_router():
    """Different sizes, and a seed: one example, for tests that a mistake breaks at every size. Another seed draws other sizes."""
    B, T, N = 2 + int(torch.randint(2, ())), 4, 5 + int(torch.randint(3, ()))
    sizes(B=B, T=T, N=N)
    return SimpleNamespace(B=B, T=T, N=N), int(torch.randint(10000, ()))


def scores(seed, *shape):
    """Router logits in which each token's experts are well apart, so that rounding does not decide which expert is chosen."""
    places = tensor(seed, *shape).argsort(-1).argsort(-1).float()
    return 0.5 * (places - places.mean()) + 0.3 * tensor(seed + 1, *shape).sigmoid()


def same_routing(got, expected, when="", tol=None):
    holds(isinstance(got, tuple | list) and len(got) == 2, f"route should return two tensors{when}: the weights and the experts")
    weights, experts = got
    if isinstance(experts, Tensor) and experts.dtype in (torch.int32, torch.int16, torch.uint8, torch.int8):
        experts = experts.long()
    with check:
        same(experts, expected[1], f"the tensor of experts{when}")
    with check:
        close(weights, expected[0], f"the tensor of weights{when}", tol)


# ---- route


@exercise("route", weight=3)
@settings(max_examples=3)
@given(n=routers, seed=seeds)
def test_the_experts_with_the_greatest_logits_and_their_weights(learner, reference, n, seed):
    """A token's experts are those with the greatest logits, best first; their weights are their probabilities, divided by the sum of these."""
    logits = scores(seed, n.B, n.T, n.N)
    got = {k: learner.route(logits, k) for k in (2, 3)}
    for k, pair in reversed(got.items()):
        same_routing(pair, reference.route(logits, k), f" with top_k = {k}")


@exercise("route", weight=2)
def test_any_number_of_experts_may_be_chosen(learner, reference):
    """top_k may be anything from 1 to the number of experts, and each token gets that many, whose weights add to 1."""
    n, seed = drawn_router()
    logits = scores(seed, n.T, n.N)
    got = {k: learner.route(logits, k) for k in range(1, n.N + 1)}
    for k, pair in reversed(got.items()):
        same_routing(pair, reference.route(logits, k), f" with top_k = {k}")


@exercise("route", weight=2)
def test_one_expert_alone_has_the_weight_one(learner):
    """With top_k = 1 every token has one expert, the one with its largest logit, and the weight 1; the shape is (..., 1), also where there is only one expert."""
    n, seed = drawn_router()
    logits = scores(seed, n.B, n.T, n.N)
    single, got = learner.route(logits[..., :1].clone(), 1), learner.route(logits, 1)
    same_routing(got, (torch.ones(n.B, n.T, 1), logits.argmax(-1, keepdim=True)), " with top_k = 1")
    same_routing(single, (torch.ones(n.B, n.T, 1), torch.zeros(n.B, n.T, 1, dtype=torch.int64)), " where there is only one expert")


@exercise("route", weight=2)
def test_all_experts_chosen_is_the_softmax_itself(learner):
    """With top_k = N no expert is left out: the weights are the softmax of the logits, from the greatest to the smallest."""
    n, seed = drawn_router()
    logits = scores(seed, n.B, n.T, n.N)
    got = learner.route(logits, n.N)
    weights, experts = torch.softmax(logits, -1).sort(-1, descending=True)
    same_routing(got, (weights, experts), f" with top_k = {n.N}, which is all experts")


@exercise("route", weight=2)
def test_each_token_chooses_for_itself(learner, reference):
    """A token's experts and weights depend on its own logits, not on the other tokens of its sequence or batch."""
    n, seed = drawn_router()
    logits = scores(seed, n.B, n.T, n.N)
    others = scores(seed + 5, n.B, n.T, n.N) * 3
    others[0, 1] = logits[0, 1]
    second, alone, first = learner.route(others, 2), learner.route(logits[:1, 1:2].contiguous(), 2), learner.route(logits, 2)
    same_routing(first, reference.route(logits, 2))
    same_routing(second, reference.route(others, 2), " after all tokens but one were changed")
    same_routing(alone, reference.route(logits[:1, 1:2], 2), " of one token alone")


@exercise("route", weight=2)
def test_any_number_of_leading_axes(learner, reference):
    """Logits are (..., N): one token, a row of tokens, a batch of rows, and more; they may be a view, not contiguous in memory."""
    n, seed = drawn_router()
    shapes = [(n.N,), (n.T, n.N), (n.B, n.T, n.N), (2, n.B, n.T, n.N)]
    got = [learner.route(scores(seed, *shape), 3) for shape in shapes]
    view = learner.bring(of_views)(learner.route, scores(seed, n.B, n.T, n.N), 3)
    for shape, pair in reversed([*zip(shapes, got)]):
        same_routing(pair, reference.route(scores(seed, *shape), 3), f" for logits {shape}")
    same_routing(view, reference.route(scores(seed, n.B, n.T, n.N), 3), " for logits that are not contiguous")


@exercise("route", weight=2)
@settings(max_examples=3)
@given(n=routers, seed=seeds)
def test_experts_that_are_not_chosen_do_not_change_the_weights(learner, n, seed):
    """The weights are the softmax over the chosen logits alone: the other logits do not change them."""
    logits = scores(seed, n.T, n.N)
    best, who = logits.topk(2, -1)
    behind = (logits - 4.0).scatter(-1, who, best)
    with_others_behind, got = learner.route(behind, 2), learner.route(logits, 2)
    same_routing(got, (torch.softmax(best, -1), who))
    same_routing(with_others_behind, (torch.softmax(best, -1), who), " after the logits that were not chosen had 4 subtracted")


@exercise("route", weight=2)
@settings(max_examples=3)
@given(n=routers, seed=seeds)
def test_the_weights_send_gradient_to_the_router(learner, reference, n, seed):
    """The gradient of the weights reaches the logits of the chosen experts, and is zero for those left out."""
    logits = scores(seed, n.T, n.N)
    got, expected = gradients(learner.route, logits, 3), gradients(reference.route, logits, 3)
    same_routing(got.output, expected.output)
    close(got.inputs[0], expected.inputs[0], "the gradient of the logits", tol=1e-4)


@exercise("route", weight=2)
def test_logits_of_any_size_are_safe(learner, reference):
    """The same number added to all of a token's logits changes nothing, even 10,000; and logits far apart give weights of 1 and 0, never NaN."""
    n, seed = drawn_router()
    logits = (scores(seed, n.T, n.N) * 8).round() / 8  # eighths stay exact beside 10,000
    apart, unlikely = learner.route(logits * 300, 1), learner.route(logits * 30, 3)
    added = {shift: learner.route(logits + shift, 3) for shift in (-3.0, -1e4, 1e4)}
    for shift, pair in reversed(added.items()):
        same_routing(pair, reference.route(logits, 3), f" after {shift:g} was added to all logits")
    same_routing(apart, reference.route(logits, 1), " for logits far apart, with top_k = 1")
    same_routing(unlikely, reference.route(logits * 30, 3), " where all experts but the first are very unlikely")


@exercise("route", weight=2)
def test_an_invalid_top_k_raises_an_error(learner, reference):
    """top_k above the number of experts is a ValueError that names both numbers, and one below 1 a ValueError too."""
    n, seed = drawn_router()
    logits = scores(seed, n.T, n.N)
    got = learner.route(logits, 2)
    same_routing(got, reference.route(logits, 2))
    refuses(lambda: learner.route(logits, n.N + 3), naming={"top_k": n.N + 3, "N": n.N}, because=f"{n.N + 3} cannot be chosen of {n.N} experts")
    refuses(lambda: learner.route(logits, 0), because="a token that chooses no expert has no output")


def weights_alone(route, logits, top_k):
    return route(logits, top_k)[0]


@exercise("route")
def test_weights_follow_the_logits_dtype_and_device(learner, reference):
    """The weights have the dtype of the logits, float64 and bfloat16 too, and everything is where the logits are."""
    n, seed = drawn_router()
    logits = scores(seed, n.T, n.N)
    half, double = learner.route(logits.bfloat16(), 2), learner.route(logits.double(), 2)
    same_routing(double, reference.route(logits.double(), 2), " in float64", tol=1e-6)  # a softmax in float32 is usual here
    same_routing(half, reference.route(logits.bfloat16(), 2), " in bfloat16")
    check_device_of_result(learner, reference.route(logits, 2)[0], learner.bring(weights_alone), learner.route, logits, 2)


# ---- load_balancing_loss


def probabilities(seed, *shape):
    return torch.softmax(scores(seed, *shape), -1)


def choices(seed, k, *shape):
    """k different experts for each token, whatever their probabilities."""
    return tensor(seed + 2, *shape).argsort(-1)[..., :k].contiguous()


@exercise("load_balancing_loss", weight=3)
@settings(max_examples=2)
@given(n=routers, seed=seeds)
def test_the_loss_is_n_times_share_times_probability(learner, reference, n, seed):
    """The loss is N * sum of f_i * P_i: f_i is expert i's share of all choices, and P_i its mean probability over all tokens."""
    probs = probabilities(seed, n.B, n.T, n.N)
    best = {k: probs.topk(k, -1).indices for k in (1, 2, 3)}
    got = {k: learner.load_balancing_loss(probs, experts) for k, experts in best.items()}
    for k, loss in reversed(got.items()):
        close(loss, reference.load_balancing_loss(probs, best[k]), f"the loss with k = {k}")


@exercise("load_balancing_loss", weight=2)
def test_perfect_balance_is_one(learner):
    """If all experts are chosen equally often and have the same mean probability, the loss is 1, for any number of experts per token."""
    n, seed = drawn_router()
    one = probabilities(seed, n.N).sort(descending=True).values
    probs = torch.stack([one.roll(i) for i in range(n.N * n.B)])  # each token prefers the next expert, round and round
    experts = (torch.arange(len(probs))[:, None] + torch.arange(3)) % n.N
    flat = learner.load_balancing_loss(torch.full_like(probs, 1 / n.N), experts)
    got = {k: learner.load_balancing_loss(probs, experts[:, :k].contiguous()) for k in (1, 2, 3)}
    for k, loss in reversed(got.items()):
        close(loss, torch.tensor(1.0), f"the loss at perfect balance with k = {k}")
    close(flat, torch.tensor(1.0), "the loss where every probability is 1/N")


@exercise("load_balancing_loss", weight=2)
def test_one_expert_for_everything_is_n(learner):
    """If every token gives expert i the probability 1 and chooses only it (top_k = 1), the loss is N, for any i."""
    n, seed = drawn_router()
    sure = torch.eye(n.N)
    probs = probabilities(seed, n.B, n.T, n.N)
    unsure = learner.load_balancing_loss(probs, torch.full((n.B, n.T, 1), 1))
    got = [learner.load_balancing_loss(sure[i].repeat(n.B, n.T, 1), torch.full((n.B, n.T, 1), i)) for i in range(n.N)]
    for i, loss in reversed([*enumerate(got)]):
        close(loss, torch.tensor(float(n.N)), f"the loss where expert {i} of {n.N} does everything")
    close(unsure, n.N * probs[..., 1].mean(), "the loss where all tokens choose expert 1 and are not sure of it")


@exercise("load_balancing_loss", weight=2)
def test_an_expert_without_tokens_has_the_share_zero(learner, reference):
    """An expert that no token chose adds nothing to the loss, whether it is the first, the last or one between."""
    n, seed = drawn_router()
    probs = probabilities(seed, n.T, n.N)
    pairs = {"the last ones": (0, 1), "the first ones": (n.N - 1, n.N - 2), "those between": (n.N - 1, 0)}
    asked = {idle: torch.tensor(pair).repeat(n.T, 1) for idle, pair in pairs.items()}
    got = {idle: learner.load_balancing_loss(probs, experts) for idle, experts in asked.items()}
    for idle, loss in reversed(got.items()):
        close(loss, reference.load_balancing_loss(probs, asked[idle]), f"the loss if {idle} are never chosen")


@exercise("load_balancing_loss", weight=2)
def test_only_counts_and_means_matter(learner, reference):
    """The choices are counted over all slots and all tokens: in which slot, and at which token, changes nothing."""
    n, seed = drawn_router()
    probs, others = probabilities(seed, n.T, n.N), choices(seed, 2, n.T, n.N - 1)
    experts = torch.cat([torch.ones(n.T, 1, dtype=torch.int64), others + (others > 0)], -1)  # expert 1 in the first slot, and nowhere else
    orders = {"in order": experts, "with reversed slots": experts.flip(1), "with reversed tokens": experts.flip(0), "shifted by one token": experts.roll(1, 0)}
    got = {how: learner.load_balancing_loss(probs, order.contiguous()) for how, order in orders.items()}
    for how, loss in reversed(got.items()):
        close(loss, reference.load_balancing_loss(probs, experts), f"the loss of the same choices, {how}")


@exercise("load_balancing_loss", weight=2)
def test_choices_are_taken_as_they_are_given(learner, reference):
    """f comes from the choices and P from the probabilities, also where a token's choices are not its most probable experts."""
    n, seed = drawn_router()
    probs, experts = probabilities(seed, n.B, n.T, n.N), {k: choices(seed, k, n.B, n.T, n.N) for k in (1, 2)}
    got = {k: learner.load_balancing_loss(probs, chosen) for k, chosen in experts.items()}
    for k, loss in reversed(got.items()):
        close(loss, reference.load_balancing_loss(probs, experts[k]), f"the loss with k = {k}")


@exercise("load_balancing_loss", weight=2)
def test_all_tokens_count_alike(learner, reference):
    """Probabilities (..., N) and choices (..., k) may have any leading axes, and may be views; the loss is one mean over all tokens."""
    n, seed = drawn_router()
    shapes = [(), (n.T,), (n.B, n.T), (2, n.B, n.T)]
    asked = [(probabilities(seed, *shape, n.N), choices(seed, 2, *shape, n.N)) for shape in shapes]
    got = [learner.load_balancing_loss(*pair) for pair in asked]
    view = learner.bring(of_views)(learner.load_balancing_loss, *asked[2])
    for shape, pair, loss in reversed([*zip(shapes, asked, got)]):
        close(loss, reference.load_balancing_loss(*pair), f"the loss of probabilities {(*shape, n.N)}")
    close(view, reference.load_balancing_loss(*asked[2]), "the loss of probabilities and choices that are not contiguous")


def in_bfloat16(balance, probs, experts):
    """The loss of probabilities in bfloat16, rounded to it if it is wider."""
    loss = balance(probs.bfloat16(), experts)
    return loss.bfloat16() if isinstance(loss, torch.Tensor) else loss


@exercise("load_balancing_loss", weight=2)
def test_hundreds_of_tokens_are_counted(learner, reference):
    """The counts are right for hundreds of tokens: a byte holds numbers up to 255, and bfloat16 counts up to 256."""
    sizes(B=9, T=100, N=6)
    probs = probabilities(int(torch.randint(10000, ())), 9, 100, 6)
    experts = torch.full((9, 100, 1), 2)
    experts[0, ::2] = 4
    half, single = learner.bring(in_bfloat16)(learner.load_balancing_loss, probs, experts), learner.load_balancing_loss(probs, experts)
    close(single, reference.load_balancing_loss(probs, experts), "the loss of 900 tokens, of which 850 choose expert 2")
    close(half, reference.load_balancing_loss(probs, experts).bfloat16(), "the same loss in bfloat16", tol=4e-2)


@exercise("load_balancing_loss", weight=3)
def test_the_gradient_of_a_probability_is_its_experts_share(learner, reference):
    """The gradient of each probability is N * f_i / tokens: the more tokens an expert has, the larger its gradient."""
    n, seed = drawn_router()
    probs, experts = probabilities(seed, n.B, n.T, n.N), choices(seed, 2, n.B, n.T, n.N)
    got, expected = gradients(learner.load_balancing_loss, probs, experts), gradients(reference.load_balancing_loss, probs, experts)
    with check:
        close(got.output, expected.output, "the loss")
    with check:
        close(got.inputs[0], expected.inputs[0], "the gradient of the probabilities")


def slope_of_logits(balance, logits, experts):
    """The gradient of the loss by the router's logits, or None."""
    logits = logits.detach().requires_grad_(True)
    loss = balance(torch.softmax(logits, -1), experts)
    return [loss.detach(), torch.autograd.grad(loss, logits, allow_unused=True)[0] if loss.requires_grad else None]


@exercise("load_balancing_loss", weight=2)
def test_the_loss_lowers_the_logits_of_a_crowded_expert(learner):
    """When one expert gets every token, the gradient lowers that expert's logits for every token and raises all others."""
    n, seed = drawn_router()
    logits, crowded = scores(seed, n.T, n.N), torch.full((n.T, 1), 2)
    loss, slope = learner.bring(slope_of_logits)(learner.load_balancing_loss, logits, crowded)
    probs = torch.softmax(logits, -1)
    close(loss, n.N * probs[:, 2].mean(), "the loss where all tokens choose expert 2")
    expected = n.N / n.T * probs[:, 2:3] * (F.one_hot(torch.tensor(2), n.N) - probs)
    close(slope, expected, "the gradient of the router's logits where all tokens choose expert 2", tol=1e-4)


@exercise("load_balancing_loss")
def test_the_loss_is_one_number_where_the_probabilities_are(learner, reference):
    """The loss is a tensor without axes, in the dtype of the probabilities (of bfloat16 ones it may be wider) and on their device."""
    n, seed = drawn_router()
    probs, experts = probabilities(seed, n.T, n.N), choices(seed, 1, n.T, n.N)
    half, double = learner.bring(in_bfloat16)(learner.load_balancing_loss, probs, experts), learner.load_balancing_loss(probs.double(), experts)
    expected = reference.load_balancing_loss(probs.double(), experts)  # of four choices: in float32, too, a share is exact
    close(double, expected, "the loss in float64", tol=1e-12)
    close(half, expected.bfloat16(), "the loss in bfloat16", tol=4e-2)
    check_device_of_result(learner, expected.float(), learner.load_balancing_loss, probs, experts)
