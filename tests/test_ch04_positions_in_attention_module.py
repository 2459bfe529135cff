"""Chapter 4, third part: causal self-attention with no positions, with RoPE or with ALiBi."""

import module_pairs
import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_exactly
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=2)  # for tests that use every kind of positions in each example
KINDS = ("none", "rope", "alibi")


def wide(n):
    n.d_head = 2 * n.pairs if "pairs" in vars(n) else n.d_head
    n.D = n.H * n.d_head
    sizes(pairs=None, d_head=n.d_head)
    return n


def apart(n):
    """d_head and the width differ from all other sizes."""
    taken = [size for name, size in vars(n).items() if name != "pairs"]
    return 2 * n.pairs not in taken and 2 * n.pairs * n.H not in taken


def apart_from_width(n):
    return n.H * n.d_head not in vars(n).values()


any_width = distinct(B=(2, 4), H=(2, 6), d_head=(2, 7), T=(4, 8)).filter(apart_from_width).map(wide)
even_width = distinct(B=(2, 4), H=(2, 6), pairs=(2, 4), T=(5, 9)).filter(apart).map(wide)


def pair(learner, reference, n, seed, positions, **options):
    """The learner's module and the reference's with the same random parameters, and those."""
    return module_pairs.module_pair(learner, reference, "CausalSelfAttention", n.D, n.H, positions, seed=seed, **options)


def inputs(n, seed, T=None):
    return tensor(seed, n.B, T or n.T, n.D)


def both(result):
    holds(isinstance(result, tuple | list) and len(result) == 2, "with return_weights the result should be two tensors: the output and the weights")
    return result


def same_pair(got, expected, when=""):
    output, weights = both(got)
    with check:
        close(weights, expected[1], f"the tensor of weights{when}")
    with check:
        close(output, expected[0], f"the output{when}")


@exercise("CausalSelfAttention", weight=3)
@given(n=any_width, seed=seeds)
def test_every_head_attends_to_itself_and_the_past(learner, reference, n, seed):
    """With positions="none" every head attends to its own and earlier positions, in its own block of features; W_out combines the heads."""
    mine, model, _ = pair(learner, reference, n, seed, "none")
    x = inputs(n, seed)
    plain, view, alone = mine(x), learner.bring(of_view)(mine, x), mine(x[:1])
    close(plain, model(x), "the output")
    close(view, model(x), "the output for a view, such as a transposed tensor,")
    close(alone, model(x[:1]), "the output for a batch of one")


@exercise("CausalSelfAttention")
@few
@given(n=any_width, seed=seeds)
def test_no_positions_unless_asked_for(learner, reference, n, seed):
    """The default of `positions` is "none": no rotation, no bias on the scores."""
    _, model, values = pair(learner, reference, n, seed, "none")
    mine = learner.CausalSelfAttention(d_model=n.D, n_heads=n.H)
    load(mine, values)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("CausalSelfAttention", weight=3)
@given(n=even_width, seed=seeds)
def test_with_rope_queries_and_keys_are_turned(learner, reference, n, seed):
    """With positions="rope" the queries and keys of every head are rotated by their positions, 0 to T - 1, before their dot products are computed."""
    mine, model, _ = pair(learner, reference, n, seed, "rope")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output with rope")


@exercise("CausalSelfAttention", weight=3)
@given(n=any_width, seed=seeds)
def test_with_alibi_each_head_fades_with_distance(learner, reference, n, seed):
    """With positions="alibi" each head's bias is added to its scaled scores, even if the number of heads is not a power of two."""
    mine, model, _ = pair(learner, reference, n, seed, "alibi")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output with alibi")


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_return_weights_shows_the_weights_of_every_head(learner, reference, n, seed):
    """With return_weights the result is (output, weights), the weights (B, H, T, T) of each head, not their average; without it, the output alone."""
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [(mine(inputs(n, seed), return_weights=True), mine(inputs(n, seed))) for mine, _ in modules]
    for kind, (shown, plain), (_, model) in zip(KINDS, results, modules):
        same_pair(shown, model(inputs(n, seed), return_weights=True), f" with {kind}")
        close(plain, model(inputs(n, seed)), f"the output with {kind}, without return_weights,")


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_later_tokens_change_no_earlier_output(learner, reference, n, seed):
    """A different token at position t changes the outputs from t on, and no earlier one, with none, rope and alibi."""
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


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, more=st.integers(2, 5), seed=seeds)
def test_attention_depends_on_relative_positions_only(learner, reference, n, more, seed):
    """At a later place in the text, the same tokens have the same attention weights among each other: with rope and alibi only distance counts."""
    sizes(earlier=more)
    x = inputs(n, seed)
    longer = torch.cat([inputs(n, seed + 1, more), x], dim=1)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS[1:]]
    results = [(mine(x, return_weights=True), mine(longer, return_weights=True)) for mine, _ in modules]
    for kind, (here, there), (_, model) in zip(KINDS[1:], results, modules):
        close(both(here)[1], model(x, return_weights=True)[1], f"the tensor of weights with {kind}")
        close(both(there)[1], model(longer, return_weights=True)[1], f"the tensor of weights with {kind}, after {more} earlier tokens,")
        among = both(there)[1][:, :, more:, more:]
        close(among / among.sum(-1, keepdim=True), here[1], f"how the tokens share with {kind}, {more} positions later,", tol=1e-3)


def deaf(values, n):
    """The same parameters with queries of zero, which find all keys equally good, and a last map that passes everything through."""
    zero = {"W_q.weight": torch.zeros(n.D, n.D), "W_q.bias": torch.zeros(n.D)}
    return values | zero | {"W_out.weight": torch.eye(n.D), "W_out.bias": torch.zeros(n.D)}


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_values_are_never_turned(learner, reference, n, seed):
    """If all scores are equal, each position gets the average of the values up to it: positions affect only queries and keys."""
    mine, _, values = pair(learner, reference, n, seed, "rope")
    values = deaf(values, n)
    load(mine, values)
    x = inputs(n, seed)
    v = x @ values["W_v.weight"].T + values["W_v.bias"]
    close(mine(x), v.cumsum(1) / torch.arange(1, n.T + 1)[:, None], "the output if all scores are equal")


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_gradients_with_every_kind_of_positions(learner, reference, n, seed):
    """The gradients of x and of every weight and bias are those of the formula."""
    x, cotangent = inputs(n, seed), inputs(n, seed + 1)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [gradients(mine, x, cotangent=cotangent) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        expected = gradients(model, x, cotangent=cotangent)
        with check:
            holds(got.inputs[0] is not None, f"with {kind} no gradient reaches x: somewhere the result is detached from it")
            close(got.inputs[0], expected.inputs[0], f"the gradient of x with {kind}", tol=5e-5)
        for name, gradient in expected.parameters.items():
            if name == "W_k.bias" and kind != "rope":
                continue  # softmax ignores what all keys have in common: its gradient is only rounding error
            with check:
                holds(got.parameters.get(name) is not None, f"with {kind} no gradient reaches {name}: it will never learn")
                close(got.parameters[name], gradient, f"the gradient of {name} with {kind}", tol=5e-5)


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_the_parameters_are_four_linear_maps(learner, reference, n, seed):
    """Parameters and state dict have W_q, W_k, W_v and W_out, D x D, each with a bias of D or, with bias=False, without, and nothing for positions."""
    modules = [(kind, bias, *pair(learner, reference, n, seed, kind, bias=bias)) for kind in KINDS for bias in (False, True)]
    results = [(mine(inputs(n, seed)), parameters(mine), state(mine)) for _, _, mine, _, _ in modules]
    for (kind, bias, _, model, values), (output, held, saved) in zip(modules, results):
        compare_exactly(held, values, f"the parameters with {kind} and bias={bias}")
        compare_exactly(saved, values, f"the state dict with {kind} and bias={bias}")
        close(output, model(inputs(n, seed)), f"the output with {kind} and bias={bias}")


def attributes(module):
    """What later chapters read of the module, in words and numbers."""
    layers = [getattr(module, name) for name in ("W_q", "W_k", "W_v", "W_out")]
    return {
        "n_heads": getattr(module, "n_heads", "missing"),
        "positions": getattr(module, "positions", "missing"),
        "dropout": [isinstance(getattr(module, "dropout", None), torch.nn.Dropout), getattr(getattr(module, "dropout", None), "p", "missing")],
        "biases": [getattr(layer, "bias", "missing") is None for layer in layers],
        "sizes": [[getattr(layer, "in_features", "missing"), getattr(layer, "out_features", "missing")] for layer in layers],
    }


@exercise("CausalSelfAttention")
@few
@given(n=even_width, seed=seeds)
def test_later_chapters_find_the_attributes(learner, reference, n, seed):
    """n_heads and positions are stored, dropout is an nn.Dropout, and the four maps are nn.Linear, whose `bias` is None with bias=False."""
    mine, model, _ = pair(learner, reference, n, seed, "rope", bias=False, dropout=0.25)
    output, found = mine.eval()(inputs(n, seed)), learner.bring(attributes)(mine)
    close(output, model.eval()(inputs(n, seed)), "the output")
    same(found["n_heads"], n.H, "the attribute `n_heads`")
    same(found["positions"], "rope", "the attribute `positions`")
    same(found["dropout"], [True, 0.25], "whether `dropout` is an nn.Dropout, and its p")
    same(found["biases"], [True] * 4, "whether the `bias` of W_q, W_k, W_v and W_out is None with bias=False")
    same(found["sizes"], [[n.D, n.D]] * 4, "in_features and out_features of W_q, W_k, W_v and W_out")


@exercise("CausalSelfAttention")
@few
@given(n=even_width, seed=seeds)
def test_sequences_of_any_length_in_any_order(learner, reference, n, seed):
    """Short and long sequences may follow one another: nothing is stored from the first call, and the length has no limit."""
    for kind in KINDS:
        mine, model, _ = pair(learner, reference, n, seed, kind)
        for T in (n.T, 300 if n.B == 2 else 30, 3, 1):
            x = tensor(seed, 1, T, n.D)
            close(mine(x), model(x), f"the output for {T} positions with {kind}")


@exercise("CausalSelfAttention")
def test_thousands_of_positions_need_no_table(learner):
    """With rope and with alibi the input may have thousands of positions. If no key matches better than another, only the bias decides."""
    T = 2100
    sizes(B=1, H=1, T=T, d_head=2)
    x, ones = tensor(3, 1, T, 2, dtype=torch.float64), torch.eye(2)
    results = {}
    for kind in KINDS[1:]:
        mine = learner.CausalSelfAttention(2, 1, kind, bias=False)
        load(mine, {"W_q.weight": torch.zeros(2, 2), "W_k.weight": ones, "W_v.weight": ones, "W_out.weight": ones})
        results[kind] = mine(x.float())
    even, slope = torch.arange(T)[:, None], 2.0**-8
    factors = {"rope": even * 0.0 + 1.0, "alibi": (even * slope).double().exp()}
    for kind, output in results.items():
        expected = (factors[kind] * x).cumsum(1) / factors[kind].cumsum(0)
        close(output, expected.float(), f"the output for {T} positions with {kind}", tol=1e-4)


@exercise("CausalSelfAttention")
@few
@given(n=even_width, seed=seeds)
def test_heads_that_do_not_divide_the_width_raise_a_value_error(learner, reference, n, seed):
    """If n_heads does not divide d_model, a ValueError names both numbers."""
    mine, model, _ = pair(learner, reference, n, seed, "none")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output where they fit")
    too_wide = n.D + 1
    x = tensor(seed, 2, 3, too_wide)
    because = f"d_model = {too_wide} cannot be split into {n.H} equal heads"
    for kind in KINDS:
        refuses(lambda kind=kind: learner.CausalSelfAttention(too_wide, n.H, kind)(x), naming={"d_model": too_wide, "n_heads": n.H}, because=because)


@exercise("CausalSelfAttention")
@few
@given(n=any_width.filter(lambda n: n.d_head % 2 == 1), seed=seeds)
def test_rope_needs_an_even_d_head(learner, reference, n, seed):
    """With rope an odd d_head raises a ValueError that names it, at the latest in the first call; with none and alibi it works."""
    for kind in ("none", "alibi"):
        mine, model, _ = pair(learner, reference, n, seed, kind)
        close(mine(inputs(n, seed)), model(inputs(n, seed)), f"the output with {kind}, d_head = {n.d_head}")
    because = f"RoPE pairs features, but d_head = {n.d_head} is odd"
    refuses(lambda: learner.CausalSelfAttention(n.D, n.H, "rope")(inputs(n, seed)), naming={"d_head": n.d_head}, because=because)


@exercise("CausalSelfAttention")
@few
@given(n=even_width, word=st.sampled_from(["learned", "sinusoidal", "rotary"]), seed=seeds)
def test_an_unknown_kind_of_positions_raises_an_error(learner, reference, n, word, seed):
    """Any other `positions` raises a ValueError that names it, and never acts like one of the three."""
    mine, model, _ = pair(learner, reference, n, seed, "rope")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output with rope")
    because = f'there is no kind of positions called "{word}"'
    refuses(lambda: learner.CausalSelfAttention(n.D, n.H, word)(inputs(n, seed)), naming={"positions": word}, because=because)


@exercise("CausalSelfAttention")
@few
@given(n=even_width, seed=seeds)
def test_nothing_is_dropped_in_eval_mode(learner, reference, n, seed):
    """In eval mode dropout changes neither the output nor the weights."""
    modules = [pair(learner, reference, n, seed, kind, dropout=0.6)[:2] for kind in KINDS]
    results = [mine.eval()(inputs(n, seed), return_weights=True) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        same_pair(got, model.eval()(inputs(n, seed), return_weights=True), f" in eval mode with {kind}")


@exercise("CausalSelfAttention", weight=3)
def test_dropout_acts_on_the_weights_in_training(learner, reference):
    """In training each weight is set to 0 with probability `dropout`, else divided by 1 - dropout; these weights average the values and are returned."""
    H, d_head, T, rate = 4, 6, 13, 0.3
    sizes(B=3, H=H, T=T, d_head=d_head)
    x, allowed = tensor(1, 3, T, H * d_head), torch.ones(T, T, dtype=torch.bool).tril()
    model = reference.CausalSelfAttention(H * d_head, H, "rope", dropout=rate)
    values = randomise(model, 5)
    mine = learner.CausalSelfAttention(H * d_head, H, "rope", dropout=rate)
    load(mine, values)
    result, alone, again = mine(x, return_weights=True), mine(x), mine(x, return_weights=True)
    whole = model.eval()(x, return_weights=True)[1]
    output, weights = both(result)
    close(weights, (whole / (1 - rate)).masked_fill(weights == 0, 0.0), "one of the weights that were not dropped")
    dropped = (weights == 0)[:, :, allowed]
    share = float(dropped.float().mean())
    holds(abs(share - rate) < 0.09, f"about {rate:.0%} of the weights should be dropped; it was {share:.0%}")
    holds(len(dropped.flatten(0, 1).unique(dim=0)) == 3 * H, "each weight should be dropped independently: here heads or rows of the batch share one pattern")
    v = x @ values["W_v.weight"].T + values["W_v.bias"]
    mix = weights @ v.reshape(3, T, H, d_head).transpose(1, 2)
    expected = mix.transpose(1, 2).reshape(3, T, H * d_head) @ values["W_out.weight"].T + values["W_out.bias"]
    close(output, expected, "the output, compared with the average of the values by the returned weights")
    undropped = model(x)
    holds(float((alone - undropped).abs().max()) > 1e-3, "without return_weights nothing is dropped in training")
    holds(float((both(again)[0] - output).abs().max()) > 1e-3, "two calls in training should not drop the same weights")


@exercise("CausalSelfAttention", weight=2)
@few
@given(n=even_width, seed=seeds)
def test_everything_follows_dtype_and_device(learner, reference, n, seed):
    """In double precision the output is double, with its digits, in bfloat16 it is bfloat16, and mask, bias and tables are on the device of x."""
    x = inputs(n, seed).double()
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    for kind, (mine, model) in zip(KINDS, modules):
        close(mine.double()(x), model.double()(x), f"the output in float64 with {kind}", tol=1e-9 if kind == "none" else 2e-5)
        close(mine.bfloat16()(x.bfloat16()), model.bfloat16()(x.bfloat16()), f"the output in bfloat16 with {kind}", tol=8e-2)
    mine, model, _ = module_pairs.module_pair(learner, reference, "CausalSelfAttention", n.D, 2, "alibi", seed=seed)
    close(mine.double()(x), model.double()(x), "the output in float64 with alibi and two heads, whose slopes are exact in float32,", tol=1e-9)
    for mine, _ in modules:
        check_device_of_result(learner, x.bfloat16(), mine, x.bfloat16())


@exercise("CausalSelfAttention", weight=2)
@settings(max_examples=1)
@given(n=even_width, seed=seeds)
def test_training_and_use_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the output is the same; afterwards you can train the module, and then use it again with new parameters."""
    modules = [pair(learner, reference, n, seed, kind) for kind in KINDS]
    rounds = []
    for i, length in enumerate((n.T, n.T + 3)):
        values = {name: value if i == 0 else value.flip(0) for name, value in modules[0][2].items()}
        rounds.append((values, [inputs(n, seed + i, length)]))
    found = [results_in_every_order(learner, mine, rounds) for mine, _, _ in modules]
    for kind, results, (_, model, _) in zip(KINDS, found, modules):
        compare_in_every_order(results, model, rounds, ["x"], f"the output with positions={kind!r}")
