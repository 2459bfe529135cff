"""Chapter 11, second part: the layer of experts. The block around it is in test_ch11_moe_block.py."""

import math

import torch
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from grader.verdict.memory import StorageWatch
from hypothesis import given, settings
from memory_layouts import of_view
from module_pairs import module_pair
from pytest_check import check
from strategies import distinct, seeds, tensor
from torch import nn
from transformer_blocks import (
    LossOnly,
    compare_expert_gradients,
    compare_in_float64,
    compare_names_and_values,
    compare_output_and_loss,
    output_and_loss,
)

few = settings(max_examples=2)  # what these laws forbid breaks at every example
widths = distinct(B=(2, 3), T=(4, 7), D=(3, 8), N=(4, 6), d_ff=(9, 14)).filter(lambda n: 4 * n.D != n.d_ff)


def layers(learner, reference, n, seed, k):
    return module_pair(learner, reference, "MoELayer", n.D, n.d_ff, n.N, k, seed=seed)


def x_of(n, seed):
    return 1.5 * tensor(seed, n.B, n.T, n.D)


def expert_of(reference, values, n, i=0):
    """One of the experts alone."""
    expert = reference.FeedForward(n.D, n.d_ff)
    load(expert, {name: values[f"experts.{i}.{name}"] for name in ("up.weight", "up.bias", "down.weight", "down.bias")})
    return expert


class OutputOnly(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


# ---- MoELayer


@exercise("MoELayer", weight=4)
@given(n=widths, seed=seeds)
@settings(max_examples=4)
def test_chosen_experts_are_weighted_and_added(learner, reference, n, seed):
    """A token's output is the sum of its two chosen experts' outputs, each times its weight; the second result is the balance loss of the batch."""
    mine, model, _ = layers(learner, reference, n, seed, 2)
    compare_output_and_loss(mine(x_of(n, seed)), model(x_of(n, seed)))


@exercise("MoELayer", weight=3)
@few
@given(n=widths, seed=seeds)
def test_as_many_experts_as_top_k_says(learner, reference, n, seed):
    """top_k = 1 and 3 work like 2, in the output and in the balance loss."""
    made = [layers(learner, reference, n, seed, k)[:2] for k in (1, 2, 3)]
    got = [mine(x_of(n, seed)) for mine, _ in made]
    for k, result, (_, model) in zip((1, 2, 3), got, made):
        compare_output_and_loss(result, model(x_of(n, seed)), f" with top_k={k}")


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_with_all_chosen_it_is_the_softmax_mixture(learner, reference, n, seed):
    """With top_k = n_experts every expert processes every token, and the output is the sum weighted by the router's softmax."""
    mine, _, values = layers(learner, reference, n, seed, n.N)
    x = x_of(n, seed)
    probs = torch.softmax(x @ values["router.weight"].T, dim=-1)  # (B, T, N)
    answers = torch.stack([expert_of(reference, values, n, i)(x) for i in range(n.N)], dim=-1)  # (B, T, D, N)
    close(output_and_loss(mine(x))[0], (answers * probs[..., None, :]).sum(-1), "the output if all experts are chosen")


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_equal_experts_act_as_one_expert(learner, reference, n, seed):
    """When all experts have the same parameters, the layer equals one of them: the weights of a token sum to 1."""
    made = [layers(learner, reference, n, seed, k) for k in (1, 2)]
    x, values = x_of(n, seed), made[0][2]
    values = values | {name: values["experts.0." + name.split(".", 2)[2]] for name in values if name.startswith("experts.")}
    for mine, _, _ in made:
        load(mine, values)
    got = [mine(x) for mine, _, _ in made]
    for k, result in zip((1, 2), got):
        close(output_and_loss(result)[0], expert_of(reference, values, n)(x), f"the output of equal experts with top_k={k}")


@exercise("MoELayer", weight=3)
@few
@given(n=widths, seed=seeds)
def test_each_token_is_handled_alone(learner, reference, n, seed):
    """A token's output is the one it gets as a batch of one, and tokens in another order give the same outputs in that order."""
    mine, model, _ = layers(learner, reference, n, seed, 2)
    x, b, t = x_of(n, seed), seed % n.B, seed % n.T
    order = torch.randperm(n.B * n.T, generator=torch.Generator().manual_seed(seed))
    together, alone, mixed = mine(x), mine(x[b : b + 1, t : t + 1]), mine(x.flatten(0, 1)[order].view(x.shape))
    expected = model(x)[0]
    close(output_and_loss(together)[0], expected, "the output")
    close(output_and_loss(alone)[0], expected[b : b + 1, t : t + 1], "the output of one token by itself")
    close(output_and_loss(mixed)[0], expected.flatten(0, 1)[order].view(x.shape), "the output of the tokens in another order")


@exercise("MoELayer", weight=3)
@few
@given(n=widths, seed=seeds)
def test_the_balance_loss_is_that_of_all_experts_probabilities(learner, reference, n, seed):
    """aux_loss is load_balancing_loss of the softmax over *all* experts and the choices made, over all tokens of the batch, a scalar."""
    made = [layers(learner, reference, n, seed, k) for k in (1, 2, 3)]
    x, router = x_of(n, seed), made[0][2]["router.weight"]
    got = [mine(x) for mine, _, _ in made]
    for k, result in zip((1, 2, 3), got):
        logits = x @ router.T
        expected = reference.load_balancing_loss(torch.softmax(logits, dim=-1), reference.route(logits, k)[1])
        close(shaped(output_and_loss(result)[1], (), "the balance loss"), expected, f"the balance loss with top_k={k}")


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_all_tokens_to_one_expert(learner, reference, n, seed):
    """When every token chooses the same expert, only that expert is used, and the loss is n_experts; an expert has room for hundreds of tokens."""
    mine, model, values = layers(learner, reference, n, seed, 1)
    i, x = seed % n.N, 1.5 * tensor(seed, n.B, 150, n.D)
    x[..., 0] = 3.0  # every token has this feature, and the router reads nothing else
    router = torch.zeros(n.N, n.D)
    router[i, 0] = 12.0
    load(mine, values | {"router.weight": router})
    output, aux_loss = output_and_loss(mine(x))
    close(output, expert_of(reference, values, n, i)(x), f"the output where all tokens choose expert {i}")
    close(aux_loss, torch.tensor(float(n.N)), f"the balance loss where all tokens choose expert {i}")


@exercise("MoELayer", weight=2)
@few
@given(n=distinct(D=(3, 5), N=(6, 8), d_ff=(9, 14)), seed=seeds)
def test_experts_may_be_left_without_tokens(learner, reference, n, seed):
    """With more experts than tokens the output is still right, and no gradient is NaN."""
    mine, model, _ = layers(learner, reference, n, seed, 1)
    x = 1.5 * tensor(seed, 1, 2, n.D)
    one, two = gradients(mine, x[:, :1]), gradients(mine, x)
    compare_output_and_loss(one.output, model(x[:, :1]), " for one token")
    compare_output_and_loss(two.output, model(x), " for two tokens")
    finite = all(g is None or bool(g.isfinite().all()) for found in (one, two) for g in (*found.inputs, *found.parameters.values()))
    holds(finite, "an expert without tokens has made a gradient NaN or infinite")


def experts_met(watch, layer, x, d_ff):
    """Through how many experts each token went, counted in multiplications and rounded, infinite if they are out of sight; and the output."""
    with torch.no_grad(), watch([x], model=layer) as seen:
        output = layer(x)[0]
    work = seen.products - x.numel() * layer.router.weight.size(0)
    return math.inf if seen.left_torch() else round(work / (2 * x.numel() * d_ff)), output


@exercise("MoELayer", weight=8)
def test_only_chosen_experts_see_a_token(learner, reference):
    """Counted in multiplications: with top_k = 2 each token passes through two of eight experts, and not through all."""
    sizes(B=2, T=12, D=9, N=8, d_ff=60)
    model = reference.MoELayer(9, 60, 8, 2)
    values = randomise(model, 5) | {"router.weight": 2 * torch.eye(8, 9)}
    mine = learner.MoELayer(9, 60, 8, 2)
    load(model, values)
    load(mine, values)
    x, turn = 0.2 * tensor(6, 24, 9), torch.arange(24)
    x[turn, turn % 8] += 3.0  # token t goes to the experts t and t + 3, counted round: each gets equally many
    x[turn, (turn + 3) % 8] += 2.0
    x = x.view(2, 12, 9)
    met, output = learner.bring(experts_met)(learner.bring(StorageWatch), mine, x, 60)
    close(output, model(x)[0], "the output")
    holds(met < math.inf, "the numbers are taken out of torch, with numpy(), tolist() or item(); this test counts torch's multiplications, so compute with them")
    holds(met <= 3, f"by its multiplications each token passed through {met} experts, but it should pass through only 2 (top_k=2 of 8)")


@exercise("MoELayer", weight=5)
@few
@given(n=widths, seed=seeds)
def test_gradients_of_the_output(learner, reference, n, seed):
    """The output's gradients reach x, the router (through the weights) and the chosen experts as in the formula, and no other expert."""
    made = [layers(learner, reference, n, seed, k)[:2] for k in (2, 3)]
    x = x_of(n, seed)[:, :2]
    got = [gradients(mine, x, cotangent=tensor(seed + 1, *x.shape)) for mine, _ in made]
    for k, found, (_, model) in zip((2, 3), got, made):
        expected = gradients(model, x, cotangent=tensor(seed + 1, *x.shape))
        close(output_and_loss(found.output)[0], expected.output[0], f"the output with top_k={k}")
        with check:
            holds(found.inputs[0] is not None, "no gradient reaches x: somewhere the output is cut off from it")
            close(found.inputs[0], expected.inputs[0], f"the gradient of x with top_k={k}", tol=1e-4)
        compare_expert_gradients(found.parameters, expected.parameters, f"the output with top_k={k}")


@exercise("MoELayer", weight=4)
@few
@given(n=widths, seed=seeds)
def test_the_balance_loss_sends_gradient_to_the_router(learner, reference, n, seed):
    """The balance loss has a gradient, for the router and for x as in the formula, with top_k = 1 as with 2; no expert gets one from it."""
    made = [layers(learner, reference, n, seed, k)[:2] for k in (1, 2)]
    x = x_of(n, seed)
    got = [gradients(learner.bring(LossOnly)(mine), x, cotangent=torch.tensor(1.0)) for mine, _ in made]
    for k, found, (_, model) in zip((1, 2), got, made):
        expected = gradients(reference.bring(LossOnly)(model), x, cotangent=torch.tensor(1.0))
        with check:
            close(found.output, expected.output, f"the balance loss with top_k={k}")
        compare_expert_gradients(found.parameters, expected.parameters, "the balance loss")
        with check:
            close(found.inputs[0], expected.inputs[0], f"the gradient of x from the balance loss with top_k={k}", tol=1e-4)


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_with_top_k_of_one_only_the_balance_loss_trains_the_router(learner, reference, n, seed):
    """With top_k = 1 the weight is the constant 1: the output has no gradient for the router, and its experts' are those of the formula."""
    mine, model, _ = layers(learner, reference, n, seed, 1)
    x = x_of(n, seed)
    found, expected = gradients(mine, x), gradients(model, x)
    close(output_and_loss(found.output)[0], expected.output[0], "the output with top_k=1")
    pull = found.parameters.get("router.weight")
    holds(pull is None or float(pull.abs().max()) < 1e-4, "with top_k=1 the router should get no gradient from the output: the weight is always 1")
    compare_expert_gradients(found.parameters, expected.parameters, "the output with top_k=1", [name for name in expected.parameters if name != "router.weight"])


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_a_router_and_experts_each_their_own(learner, reference, n, seed):
    """Parameters and state dict have router.weight, without a bias, and up and down of every expert, each expert its own."""
    mine, model, values = layers(learner, reference, n, seed, 2)
    got, held, saved = mine(x_of(n, seed)), parameters(mine), state(mine)
    compare_names_and_values(held, saved, values)
    compare_output_and_loss(got, model(x_of(n, seed)))


@exercise("MoELayer")
@few
@given(n=widths, seed=seeds)
def test_eight_experts_and_two_a_token_unless_asked(learner, reference, n, seed):
    """Left out, d_ff is 4 * d_model, n_experts 8 and top_k 2; all may be given by name."""
    made = [
        module_pair(learner, reference, "MoELayer", n.D, seed=seed),
        module_pair(learner, reference, "MoELayer", d_model=n.D, top_k=3, n_experts=n.N, d_ff=n.d_ff, seed=seed),
    ]
    got = [mine(x_of(n, seed)) for mine, _, _ in made]
    for result, (mine, model, values) in zip(got, made):
        compare_output_and_loss(result, model(x_of(n, seed)))
        held, wanted = ({name: list(value.shape) for name, value in sorted(of.items())} for of in (parameters(mine), values))
        same(held, wanted, "the shapes")


@exercise("MoELayer")
@few
@given(n=widths, seed=seeds)
def test_an_invalid_top_k_of_the_layer_raises_an_error(learner, reference, n, seed):
    """top_k below 1 or above n_experts is a ValueError that names the numbers; n_experts itself is allowed."""
    mine, model, _ = layers(learner, reference, n, seed, n.N)
    compare_output_and_loss(mine(x_of(n, seed)), model(x_of(n, seed)), " with top_k = n_experts")
    because = f"top_k={n.N + 1} of {n.N} experts cannot be chosen"
    refuses(lambda: learner.MoELayer(n.D, n.d_ff, n.N, n.N + 1)(x_of(n, seed)), naming={"top_k": n.N + 1, "n_experts": n.N}, because=because)
    refuses(lambda: learner.MoELayer(n.D, n.d_ff, n.N, 0)(x_of(n, seed)), naming={"top_k": 0}, because="top_k=0 would leave a token without an expert")


@exercise("MoELayer", weight=2)
@few
@given(n=widths, seed=seeds)
def test_train_mode_and_eval_mode_give_the_same_result(learner, reference, n, seed):
    """Train and eval mode give the same, at the first call and at the next, also for a view: nothing is random and nothing is stored between batches."""
    mine, model, _ = layers(learner, reference, n, seed, 2)
    x = x_of(n, seed)
    view = learner.bring(of_view)(mine, x)
    first, second, used = mine(x), mine(x[:, :3]), mine.eval()(x)
    compare_output_and_loss(first, model(x))
    compare_output_and_loss(second, model(x[:, :3]), " of a second batch")
    compare_output_and_loss(used, model(x), " in eval mode")
    compare_output_and_loss(view, model(x), " for the same numbers in a view, not contiguous in memory")


@exercise("MoELayer")
@few
@given(n=widths, seed=seeds)
def test_dtype_and_device_of_the_layer(learner, reference, n, seed):
    """In float64 the output is float64, with all its digits where the weights are 1, and nothing is made on a device of the layer's own choice."""
    compare_in_float64(*layers(learner, reference, n, seed, 1)[:2], x_of(n, seed), "layer with top_k=1", tol=1e-9)
    mine, model, _ = layers(learner, reference, n, seed, 2)
    compare_in_float64(mine, model, x_of(n, seed), "layer")
    check_device_of_result(learner, model(x_of(n, seed))[0], learner.bring(OutputOnly)(mine), x_of(n, seed))


@exercise("MoELayer")
@settings(max_examples=1)
@given(n=widths, seed=seeds)
def test_without_gradient_output_and_loss_are_the_same(learner, reference, n, seed):
    """Under torch.no_grad and torch.inference_mode the output and the balance loss are those with gradient."""
    mine, model, _ = layers(learner, reference, n, seed, 2)
    found = call_without_gradient(learner, mine, x_of(n, seed))
    after = mine(x_of(n, seed))
    for mode in GRADIENT_FREE_MODES:
        compare_output_and_loss(found[mode], model(x_of(n, seed)))
    compare_output_and_loss(after, model(x_of(n, seed)))
