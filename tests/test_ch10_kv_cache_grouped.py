"""Chapter 10, last part: several query heads share one head of keys and values."""

import module_pairs
import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_exactly
from pytest_check import check
from strategies import distinct, seeds, tensor

few, one = settings(max_examples=2), settings(max_examples=1)  # what is broken here is broken at every example
KINDS = ("none", "rope", "alibi")


def counted(n):
    """Query heads and width, from the key heads (K), the query heads that share one (G) and the pairs of features of a head."""
    n.H, n.d_head = n.K * n.G, 2 * n.pairs
    n.D = n.H * n.d_head
    sizes(B=n.B, T=n.T, n_heads=n.H, n_kv_heads=n.K, d_head=n.d_head, pairs=None, K=None, G=None)
    return n


def apart(n):
    """All sizes differ, including those that follow from the others."""
    derived = (n.K * n.G, 2 * n.pairs, n.K * n.G * n.pairs * 2, n.K * n.pairs * 2)
    return len({*derived, n.B, n.T, n.K, n.G}) == 8


any_size = distinct(K=(2, 3), G=(2, 4), B=(2, 5), T=(4, 9), pairs=(2, 7)).filter(apart).map(counted)


def made(side, n, positions, kv_heads=None):
    return side.GroupedQueryAttention(n.D, n.H, kv_heads or n.K, positions)


def pair(learner, reference, n, seed, positions, kv_heads=None):
    """The learner's module and the reference's with the same random parameters, and those."""
    return module_pairs.module_pair(learner, reference, "GroupedQueryAttention", n.D, n.H, kv_heads or n.K, positions, seed=seed)


def inputs(n, seed, T=None):
    return tensor(seed, n.B, T or n.T, n.D)


@exercise("GroupedQueryAttention", weight=3)
@few
@given(n=any_size, seed=seeds)
def test_groups_of_query_heads_share_keys_and_values(learner, reference, n, seed):
    """Query head h attends with key and value head h // (n_heads / n_kv_heads) to its own position and those before it; W_out mixes the heads."""
    mine, model, _ = pair(learner, reference, n, seed, "none")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("GroupedQueryAttention", weight=2)
@few
@given(n=any_size, seed=seeds)
def test_neighbours_make_a_group(learner, reference, n, seed):
    """If every value of key head g is the number g, the first n_heads / n_kv_heads query heads return 0, the next group returns 1, and so on."""
    mine, _, values = pair(learner, reference, n, seed, "none")
    number = torch.arange(n.K).repeat_interleave(n.d_head).float()
    load(mine, {"W_v.weight": torch.zeros(n.K * n.d_head, n.D), "W_v.bias": number, "W_out.weight": torch.eye(n.D), "W_out.bias": torch.zeros(n.D)})
    expected = torch.arange(n.K).repeat_interleave(n.G * n.d_head).float().expand(n.B, n.T, n.D)
    close(mine(inputs(n, seed)), expected, "the output, which shows the head each query head has read,")


@exercise("GroupedQueryAttention", weight=3)
@few
@given(n=any_size, seed=seeds)
def test_with_rope_queries_and_keys_are_rotated(learner, reference, n, seed):
    """With positions="rope" the queries of every head and the shared keys are rotated by their positions, 0 to T - 1; values are not."""
    mine, model, _ = pair(learner, reference, n, seed, "rope")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output with rope")


@exercise("GroupedQueryAttention", weight=3)
@few
@given(n=any_size, seed=seeds)
def test_with_alibi_every_query_head_has_its_own_slope(learner, reference, n, seed):
    """With positions="alibi" each of the n_heads query heads has its own slope, including those that share their keys."""
    mine, model, _ = pair(learner, reference, n, seed, "alibi")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output with alibi")


@exercise("GroupedQueryAttention", weight=2)
@few
@given(n=any_size, seed=seeds)
def test_as_many_key_heads_as_query_heads(learner, reference, n, seed):
    """With n_kv_heads = n_heads it is CausalSelfAttention, weight for weight, with none, rope and alibi."""
    results = []
    for kind in KINDS:
        model = reference.CausalSelfAttention(n.D, n.H, kind)
        values = randomise(model, seed)
        mine = made(learner, n, kind, n.H)
        load(mine, values)
        results.append((kind, mine(inputs(n, seed)), model))
    for kind, got, model in results:
        close(got, model(inputs(n, seed)), f"the output with {kind}, with one key head for each query head,")


@exercise("GroupedQueryAttention", weight=2)
@few
@given(n=any_size, seed=seeds)
def test_one_key_head_for_all(learner, reference, n, seed):
    """With n_kv_heads = 1 all query heads read the same keys and values, with none, rope and alibi."""
    modules = [pair(learner, reference, n, seed, kind, 1)[:2] for kind in KINDS]
    results = [mine(inputs(n, seed)) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        close(got, model(inputs(n, seed)), f"the output with {kind} and a single key head")


@exercise("GroupedQueryAttention")
@few
@given(n=any_size, seed=seeds)
def test_no_positions_unless_asked_for(learner, reference, n, seed):
    """Left out, `positions` is "none": no rotation, no bias on the scores."""
    _, model, values = pair(learner, reference, n, seed, "none")
    mine = learner.GroupedQueryAttention(d_model=n.D, n_heads=n.H, n_kv_heads=n.K)
    load(mine, values)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("GroupedQueryAttention", weight=2)
@few
@given(n=any_size, seed=seeds)
def test_later_tokens_change_no_earlier_output(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before it, for none, rope and alibi."""
    t = 1 + seed % (n.T - 2)
    x = inputs(n, seed)
    changed = x.clone()
    changed[:, t] += 1.0
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [(mine(x), mine(changed)) for mine, _ in modules]
    for kind, (before, after), (_, model) in zip(KINDS, results, modules):
        close(before[:, :t], model(x)[:, :t], f"the output with {kind} before position {t}")
        by = [float(d.abs().max()) for d in (after - before).unbind(1)]
        holds(max(by[:t]) < 1e-5, f"with {kind} a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
        holds(min(by[t:]) > 1e-5, f"with {kind} a change at position {t} should change the output there and at every later position")


@exercise("GroupedQueryAttention", weight=2)
@few
@given(n=any_size, seed=seeds)
def test_gradients_with_every_kind_of_positions(learner, reference, n, seed):
    """The gradients of x and of every weight and bias are those of the formula: a shared head learns from all that read it."""
    x, cotangent = inputs(n, seed), inputs(n, seed + 1)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [gradients(mine, x, cotangent=cotangent) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        expected = gradients(model, x, cotangent=cotangent)
        with check:
            holds(got.inputs[0] is not None, f"with {kind} no gradient reaches x: somewhere the result is cut off from it")
            close(got.inputs[0], expected.inputs[0], f"the gradient of x with {kind}", tol=5e-5)
        for name, gradient in expected.parameters.items():
            if name == "W_k.bias" and kind != "rope":
                continue  # softmax ignores what all keys have in common: its gradient is rounding and nothing else
            with check:
                holds(got.parameters.get(name) is not None, f"with {kind} no gradient reaches {name}: it will never learn")
                close(got.parameters[name], gradient, f"the gradient of {name} with {kind}", tol=5e-5)


@exercise("GroupedQueryAttention", weight=2)
@one
@given(n=any_size, seed=seeds)
def test_keys_and_values_are_narrower(learner, reference, n, seed):
    """Parameters and state dict have W_q and W_out, D x D, and W_k and W_v, n_kv_heads * d_head x D, each with its bias, and nothing else."""
    modules = [(kind, *pair(learner, reference, n, seed, kind)) for kind in KINDS]
    results = [(mine(inputs(n, seed)), parameters(mine), state(mine)) for _, mine, _, _ in modules]
    for (kind, _, model, values), (output, held, saved) in zip(modules, results):
        compare_exactly(held, values, f"the parameters with {kind}")
        compare_exactly(saved, values, f"the state dict with {kind}")
        close(output, model(inputs(n, seed)), f"the output with {kind}")


@exercise("GroupedQueryAttention")
@one
@given(n=any_size, seed=seeds)
def test_sequences_of_any_length_in_any_order(learner, reference, n, seed):
    """Short and long sequences may follow one another: nothing is stored from the first call, and the length has no limit. x may be a view."""
    n.K, n.H, n.D = 1, 2, 4  # long sequences are slow with more
    view = tensor(seed, 3, 5, n.D)
    for kind in KINDS[1:]:
        mine, model, _ = pair(learner, reference, n, seed, kind)
        for T in (n.T, 1030, 3, 1):
            x = tensor(seed, 1, T, n.D)
            close(mine(x), model(x), f"the output for {T} positions with {kind}")
        close(learner.bring(of_view)(mine, view), model(view), f"the output with {kind} for x that is a view, not contiguous in memory,")


@exercise("GroupedQueryAttention")
@one
@given(n=any_size, seed=seeds)
def test_heads_that_do_not_divide_raise_an_error(learner, reference, n, seed):
    """When n_heads does not divide d_model, or n_kv_heads does not divide n_heads, a ValueError names both numbers."""
    mine, model, _ = pair(learner, reference, n, seed, "none")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output where they fit")
    too_wide, x = n.D + 1, tensor(seed, 2, 3, n.D)
    cut = f"d_model = {too_wide} cannot be cut into {n.H} equal heads"
    refuses(lambda: learner.GroupedQueryAttention(too_wide, n.H, n.K)(tensor(seed, 2, 3, too_wide)), naming={"d_model": too_wide, "n_heads": n.H}, because=cut)
    for uneven in (n.H - 1, 2 * n.H):
        share = f"{n.H} query heads cannot share {uneven} key heads evenly"
        refuses(lambda: learner.GroupedQueryAttention(n.D, n.H, uneven)(x), naming={"n_heads": n.H, "n_kv_heads": uneven}, because=share)


@exercise("GroupedQueryAttention")
@one
@given(n=any_size, word=st.sampled_from(["learned", "sinusoidal", "rotary"]), seed=seeds)
def test_invalid_positions_raise_an_error(learner, reference, n, word, seed):
    """With rope an odd d_head is a ValueError that names it, and so is an unknown value of `positions`; with none and alibi d_head may be odd."""
    odd, x = 2 * n.pairs + 1, tensor(seed, 2, 3, n.H * (2 * n.pairs + 1))
    for kind in ("none", "alibi"):
        model, mine = (side.GroupedQueryAttention(n.H * odd, n.H, n.K, kind) for side in (reference, learner))
        load(mine, randomise(model, seed))
        close(mine(x), model(x), f"the output with {kind}, d_head = {odd}")
    because = f"RoPE pairs features, but d_head = {odd} is odd"
    refuses(lambda: learner.GroupedQueryAttention(n.H * odd, n.H, n.K, "rope")(x), naming={"d_head": odd}, because=because)
    refuses(lambda: made(learner, n, word)(inputs(n, seed)), naming={"positions": word}, because=f'there is no kind of positions called "{word}"')


@exercise("GroupedQueryAttention", weight=2)
@one
@given(n=any_size, seed=seeds)
def test_everything_follows_dtype_and_device(learner, reference, n, seed):
    """In double precision the output is double, with its digits, in bfloat16 it is bfloat16, and on another device no mask, bias or table stays behind."""
    x = inputs(n, seed).double()
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    for kind, (mine, model) in zip(KINDS, modules):
        close(mine.double()(x), model.double()(x), f"the output in float64 with {kind}", tol=1e-9 if kind == "none" else 2e-5)
        close(mine.bfloat16()(x.bfloat16()), model.bfloat16()(x.bfloat16()), f"the output in bfloat16 with {kind}", tol=8e-2)
    for mine, _ in modules:
        check_device_of_result(learner, x.bfloat16(), mine, x.bfloat16())


@exercise("GroupedQueryAttention", weight=2)
@one
@given(n=any_size, seed=seeds)
def test_without_gradient_groups_give_the_same(learner, reference, n, seed):
    """Under torch.no_grad and torch.inference_mode the output is the same with every kind of positions; between and after them the module can be trained."""
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    rounds = [(None, [inputs(n, seed)]), (None, [inputs(n, seed + 1, 40)])]
    found = [results_in_every_order(learner, mine, rounds) for mine, _ in modules]
    for kind, in_order, (_, model) in zip(KINDS, found, modules):
        compare_in_every_order(in_order, model, rounds, ["x"], f"the output with positions={kind!r}")
