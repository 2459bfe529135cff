"""Chapter 3, fourth part: attention in several heads, with separate linear layers for queries, keys and values. One fused layer is in test_ch03_attention_fused.py."""

import torch
from attention_modules import (
    attention_input,
    attention_pair,
    compare_gradients,
    compare_output_and_weights,
    compare_promised_attributes,
    padding_by_row,
    promised_attributes,
    with_identity_output,
)
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import largest_changes, lower_triangle
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_exactly, compare_gradient, module_pair
from pytest_check import check
from strategies import distinct, seeds, tensor, width_is_unique

few = settings(max_examples=2)  # the smallest, and a random one: a mistake here shows at every size
across = distinct(B=(2, 4), H=(2, 5), d_head=(2, 6), T=(4, 8), S=(4, 9)).filter(width_is_unique)


def some(seed, *shape):
    """A mask that allows every query about half of the keys, and at least one."""
    x = tensor(seed + 101, *shape)
    return (x > 0) | (x == x.amax(-1, keepdim=True))


# ---- MultiHeadAttention


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_each_head_attends_in_its_own_features(learner, reference, n, seed):
    """Every head attends in its own block of q, k and v, with scores divided by the square root of d_head; W_out combines the heads. x may be a view."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x = attention_input(n, seed)
    expected, single, view = model(x), mine(x[:1, :1]), learner.bring(of_view)(mine, x)
    close(mine(x), expected, "the output")
    close(single, model(x[:1, :1]), "the output (1, 1, D) for a single position")
    close(view, expected, "the output for an x that is a view, not contiguous in memory,")


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_keys_and_values_come_from_the_context(learner, reference, n, seed):
    """With a context the queries come from x, and keys and values from the context, in any order of its positions."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x, context = attention_input(n, seed), attention_input(n, seed + 1, "S")
    expected = model(x, context=context)
    close(mine(x, context=context), expected, "the output with a context")
    close(mine(x, context.flip(1)), expected, "the output with the context's positions in another order")


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_masks_of_every_shape(learner, reference, n, seed):
    """Any mask that broadcasts to (B, H, Tq, Tk) works, and a key whose mask is False has no effect at all."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x, context = attention_input(n, seed), attention_input(n, seed + 1, "S")
    real = padding_by_row(n.B, n.S)
    masks = [some(seed, n.T, n.S), real, real | some(seed, n.B, 1, n.T, n.S), some(seed, n.B, n.H, n.T, n.S), some(seed, 1, n.H, 1, n.S)]
    for mask in masks:
        close(mine(x, context, mask=mask), model(x, context, mask=mask), f"the output under a mask of shape {tuple(mask.shape)}")
    filled = torch.where(real[:, 0, 0, :, None], context, 9.0 * tensor(seed + 2, *context.shape))
    close(mine(x, filled, mask=real), model(x, context, mask=real), "the output after the masked part of the context was changed")


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_a_query_that_may_attend_to_nothing(learner, reference, n, seed):
    """A query whose keys are all masked gets zeros from every head, never NaN, and affects neither the outputs nor the gradients of other queries."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x, context = attention_input(n, seed), attention_input(n, seed + 1, "S")
    mask = some(seed, n.B, 1, n.T, n.S)
    mask[0, :, 1], mask[1] = False, False
    close(mine(x, context, mask=mask), model(x, context, mask=mask), "the output where some queries may attend to nothing")
    compare_gradients(gradients(mine, x, context, mask=mask), gradients(model, x, context, mask=mask))


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_return_weights_gives_the_weights_of_each_head(learner, reference, n, seed):
    """With return_weights the result is (output, weights), the weights (B, H, Tq, Tk) of each head, not their average."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x, context, real = attention_input(n, seed), attention_input(n, seed + 1, "S"), padding_by_row(n.B, n.S)
    compare_output_and_weights(mine(x, context, real, True), model(x, context, real, True))
    compare_output_and_weights(mine(x, return_weights=True), model(x, return_weights=True), " without context and mask")


def the_weights(attention, x, context):
    return attention(x, context, return_weights=True)[1]


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_gradients_of_multi_head_attention(learner, reference, n, seed):
    """The gradients of x, of the context, and of every weight and bias are those of the formula, through the output and through the returned weights."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    compare_gradients(gradients(mine, attention_input(n, seed)), gradients(model, attention_input(n, seed)))
    x, context, mask = attention_input(n, seed), attention_input(n, seed + 1, "S"), some(seed, n.T, n.S)
    compare_gradients(gradients(mine, x, context, mask=mask), gradients(model, x, context, mask=mask))
    got, expected = (gradients(side.bring(the_weights), module, x, context) for side, module in ((learner, mine), (reference, model)))
    for i, name in ((1, "x"), (2, "the context")):
        with check:
            compare_gradient(got.inputs[i], expected.inputs[i], f"{name} through the weights", tol=5e-5)


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_later_tokens_change_no_earlier_output_under_a_causal_mask(learner, reference, n, seed):
    """With a causal mask, a different token at position t changes the outputs from t on, and no earlier one."""
    mine, _, _ = attention_pair(learner, reference, n, seed)
    x, t = attention_input(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] += 1.0
    by = largest_changes(mine(x, mask=lower_triangle(n.T)), mine(changed, mask=lower_triangle(n.T)), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should change the output there and at every later position")


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_heads_do_not_mix_before_the_last_map(learner, reference, n, seed):
    """If W_out is the identity, changing the rows of head h in W_q or W_v changes the features of head h, and no others."""
    width, h = n.H * n.d_head, seed % n.H
    mine, _, values = attention_pair(learner, reference, n, seed)
    values = with_identity_output(values, "W_out", width)
    load(mine, values)
    x = attention_input(n, seed)
    before = mine(x)
    for name in ("W_q.weight", "W_v.weight"):
        other = values[name].clone()
        other[h * n.d_head : (h + 1) * n.d_head] = tensor(seed + 3, n.d_head, width)
        load(mine, values | {name: other})
        by = largest_changes(before, mine(x), 2)
        own = [by[i] for i in range(width) if i // n.d_head == h]
        others = [by[i] for i in range(width) if i // n.d_head != h]
        holds(max(others) < 1e-5, f"other numbers in head {h} of {name} changed features of other heads")
        holds(min(own) > 1e-5, f"other numbers in head {h} of {name} should change the features {h * n.d_head} to {(h + 1) * n.d_head - 1}")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_rows_of_a_batch_do_not_mix(learner, reference, n, seed):
    """A different token in one row of the batch changes every position of that row, and no other row."""
    mine, _, _ = attention_pair(learner, reference, n, seed)
    x, row = attention_input(n, seed), seed % n.B
    changed = x.clone()
    changed[row, 0] += 1.0
    difference = (mine(changed) - mine(x)).abs()
    holds(float(difference[row].amax(-1).min()) > 1e-5, "another first token should change every position of its row")
    rest = torch.cat([difference[:row], difference[row + 1 :]])
    holds(float(rest.max()) < 1e-5, f"another token in row {row} of the batch changed another row")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_without_bias_there_are_four_matrices(learner, reference, n, seed):
    """The parameters are W_q, W_k, W_v and W_out, of D x D, each with a bias of D or, with bias=False, without."""
    mine, model, values = attention_pair(learner, reference, n, seed, bias=False)
    compare_exactly(parameters(mine), values, "the parameters with bias=False")
    compare_exactly(state(mine), values, "the state dict with bias=False")
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output without biases")
    mine, model, values = attention_pair(learner, reference, n, seed)
    compare_exactly(parameters(mine), values, "the parameters")
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_heads_that_do_not_divide_the_width_raise_an_error(learner, reference, n, seed):
    """If n_heads does not divide d_model, MultiHeadAttention raises a ValueError that names both numbers."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output where they do divide")
    wide = n.H * n.d_head + 1
    because = f"d_model = {wide} cannot be split into {n.H} equal heads"
    refuses(lambda: learner.MultiHeadAttention(wide, n.H)(tensor(seed, 2, 3, wide)), naming={"d_model": wide, "n_heads": n.H}, because=because)


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_no_dropout_in_eval_mode(learner, reference, n, seed):
    """In eval mode dropout changes neither the output nor the weights."""
    mine, model, _ = attention_pair(learner, reference, n, seed, dropout=0.6)
    mine.eval()
    model.eval()
    compare_output_and_weights(mine(attention_input(n, seed), return_weights=True), model(attention_input(n, seed), return_weights=True), " in eval mode")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_n_heads_and_dropout_are_attributes(learner, reference, n, seed):
    """The attributes that later chapters read: `n_heads`, and `dropout`, an nn.Dropout with the given probability."""
    mine, model, _ = attention_pair(learner, reference, n, seed, dropout=0.6)
    found = learner.bring(promised_attributes)(mine)
    close(mine.eval()(attention_input(n, seed)), model.eval()(attention_input(n, seed)), "the output in eval mode")
    compare_promised_attributes(found, n.H, 0.6)


@exercise("MultiHeadAttention", weight=3)
def test_dropout_acts_on_the_weights(learner, reference):
    """In training each weight is set to 0 with probability `dropout`, else divided by 1 - dropout; these weights average the values and are returned."""
    n_heads, width, rate, x, context = 4, 20, 0.3, tensor(1, 3, 13, 20), tensor(2, 3, 11, 20)
    sizes(B=3, H=4, T=13, S=11, d_head=5)
    mine, model, values = module_pair(learner, reference, "MultiHeadAttention", width, n_heads, dropout=rate, seed=5)
    whole = model.eval()(x, context, return_weights=True)[1]
    result = mine(x, context, return_weights=True)
    holds(isinstance(result, tuple | list) and len(result) == 2, "with return_weights the result should be (output, weights)")
    output, weights = result
    close(weights, (whole / (1 - rate)).masked_fill(weights == 0, 0.0), "one of the weights that were not dropped")
    share = float((weights == 0).float().mean())
    holds(abs(share - rate) < 0.06, f"about {rate:.0%} of the weights should be dropped; it was {share:.0%}")
    patterns = (weights == 0).flatten(0, 2).unique(dim=0)
    holds(len(patterns) > 100, "each weight should be dropped independently: here rows share one pattern")
    v = context @ values["W_v.weight"].T + values["W_v.bias"]
    mix = weights @ v.reshape(3, 11, n_heads, 5).transpose(1, 2)
    expected = mix.transpose(1, 2).reshape(3, 13, width) @ values["W_out.weight"].T + values["W_out.bias"]
    close(output, expected, "the output, compared with the average of the values by the returned weights")
    alone, again = mine(x, context), mine(x, context, return_weights=True)[0]
    undropped = model(x, context)
    holds(float((alone - undropped).abs().max()) > 1e-3, "without return_weights nothing is dropped in training")
    holds(float((again - output).abs().max()) > 1e-3, "two calls in training should not drop the same weights")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_the_output_has_the_dtype_of_the_input(learner, reference, n, seed):
    """In double precision the output is float64 too, with its digits. The module works on any device."""
    mine, model, _ = attention_pair(learner, reference, n, seed)
    x, context, mask = attention_input(n, seed).double(), attention_input(n, seed + 1, "S").double(), some(seed, n.T, n.S)
    close(mine.double()(x, context, mask), model.double()(x, context, mask), "the output in float64", tol=1e-5)
    mine, model, _ = module_pair(learner, reference, "MultiHeadAttention", 4 * n.H, n.H, seed=seed)  # the root of d_head=4 is exact in every dtype
    x = tensor(seed, n.B, n.T, 4 * n.H).double()
    close(mine.double()(x), model.double()(x), "the output in float64 with d_head=4", tol=2e-9)
    check_device_of_result(learner, x, mine, x)


@exercise("MultiHeadAttention")
@settings(max_examples=1)
@given(n=across, seed=seeds)
def test_use_and_training_of_several_heads_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the output is the same; you can train the module in between, and it always uses its present weights."""
    mine, model, values = attention_pair(learner, reference, n, seed)
    rounds = []
    for i, new in enumerate((values, {name: value.flip(0) for name, value in values.items()})):
        x, context = tensor(seed + i, n.B, n.T + i, n.H * n.d_head), tensor(seed + i + 1, n.B, n.S + i, n.H * n.d_head)
        rounds.append((new, [x, context, some(seed, n.T + i, n.S + i)]))
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["x", "the context", "the mask"])
