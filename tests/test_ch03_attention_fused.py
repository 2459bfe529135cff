"""Chapter 3, fifth part: causal self-attention whose queries, keys and values come from one fused linear layer."""

import torch
from attention_modules import (
    attention_input,
    attention_sizes,
    compare_gradients,
    compare_message_dropout,
    fused_pair,
    with_identity_output,
)
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped, sizes
from hypothesis import given, settings
from masks import largest_changes
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_exactly, module_pair
from strategies import seeds, tensor

few = settings(max_examples=2)  # the smallest, and a random one: a mistake here shows at every size


# ---- FusedSelfAttention


@exercise("FusedSelfAttention", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_causal_attention_from_one_matrix(learner, reference, n, seed):
    """c_attn gives queries, then keys, then values; each head attends with the causal mask; c_proj combines the heads. x may be a view (not contiguous)."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed)
    expected, view = model(x), learner.bring(of_view)(mine, x)
    close(mine(x), expected, "the output")
    close(view, expected, "the output for an x that is a view, not contiguous in memory,")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_every_length_up_to_max_len(learner, reference, n, seed):
    """An input may have any length from 1 to max_len, in any order, also in a batch of one."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed, "max_len")
    close(mine(x), model(x), "the output for max_len positions")
    close(mine(x[:1, :1]), model(x[:1, :1]), "the output (1, 1, D) for one position in a batch of one")
    close(mine(x), model(x), "the output for max_len positions, after a shorter input,")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_gradients_of_fused_attention(learner, reference, n, seed):
    """The gradients of x and of every weight and bias are those of the formula."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    compare_gradients(gradients(mine, attention_input(n, seed)), gradients(model, attention_input(n, seed)))


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_later_tokens_change_no_earlier_output(learner, reference, n, seed):
    """A different token at position t changes the outputs from t on, and no earlier one."""
    mine, _, _ = fused_pair(learner, reference, n, seed)
    x, t = attention_input(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] += 1.0
    by = largest_changes(mine(x), mine(changed), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should change the output there and at every later position")


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_heads_do_not_mix_before_the_last_map(learner, reference, n, seed):
    """If c_proj is the identity, changing the value rows of head h in c_attn changes the features of head h, and no others."""
    width, h = n.H * n.d_head, seed % n.H
    mine, _, values = fused_pair(learner, reference, n, seed)
    values = with_identity_output(values, "c_proj", width)
    load(mine, values)
    x = attention_input(n, seed)
    before, first = mine(x), 2 * width + h * n.d_head
    other = values["c_attn.weight"].clone()
    other[first : first + n.d_head] = tensor(seed + 3, n.d_head, width)
    load(mine, {"c_attn.weight": other})
    by = largest_changes(before, mine(x), 2)
    holds(max(by[i] for i in range(width) if i // n.d_head != h) < 1e-5, f"other numbers in head {h} of the values changed other heads")
    holds(min(by[i] for i in range(width) if i // n.d_head == h) > 1e-5, f"other numbers in head {h} of the values should change its features")


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_rows_of_a_batch_are_handled_alone(learner, reference, n, seed):
    """Each row of a batch gets the same output as alone."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed)
    row = seed % n.B
    close(mine(x)[row : row + 1], model(x[row : row + 1]), f"row {row} of the output")
    close(mine(x[row : row + 1]), model(x[row : row + 1]), f"the output of row {row} alone")


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_the_mask_is_no_parameter_and_not_saved(learner, reference, n, seed):
    """Only c_attn and c_proj are trained and saved; they have no biases if bias=False."""
    mine, model, values = fused_pair(learner, reference, n, seed, bias=False)
    compare_exactly(parameters(mine), values, "the parameters with bias=False")
    compare_exactly(state(mine), values, "the state dict with bias=False")
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output without biases")
    mine, model, values = fused_pair(learner, reference, n, seed)
    compare_exactly(parameters(mine), values, "the parameters")
    compare_exactly(state(mine), values, "the state dict")
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_an_input_longer_than_max_len_raises_an_error(learner, reference, n, seed):
    """An input longer than max_len raises a ValueError that names both lengths."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed, "max_len")
    close(mine(x), model(x), "the output for max_len positions")
    for more in (1, 2):
        longer = tensor(seed, n.B, n.max_len + more, n.H * n.d_head)
        because = f"{n.max_len + more} positions do not fit into max_len = {n.max_len}"
        refuses(lambda: mine(longer), naming={"T": n.max_len + more, "max_len": n.max_len}, because=because)


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_heads_that_do_not_divide_the_width_raise_an_error(learner, reference, n, seed):
    """If n_heads does not divide d_model, FusedSelfAttention raises a ValueError that names both numbers."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    close(mine(attention_input(n, seed)), model(attention_input(n, seed)), "the output where they do divide")
    wide = n.H * n.d_head + 1
    because = f"d_model = {wide} cannot be split into {n.H} equal heads"
    refuses(lambda: learner.FusedSelfAttention(wide, n.H, n.max_len)(tensor(seed, 2, 3, wide)), naming={"d_model": wide, "n_heads": n.H}, because=because)


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_attention_drops_nothing_in_eval_mode(learner, reference, n, seed):
    """In eval mode dropout does nothing."""
    mine, model, _ = fused_pair(learner, reference, n, seed, dropout=0.6)
    close(mine.eval()(attention_input(n, seed)), model.eval()(attention_input(n, seed)), "the output in eval mode")


@exercise("FusedSelfAttention", weight=2)
def test_fused_attention_drops_weights_in_training(learner, reference):
    """In training each weight is set to 0 with probability `dropout`, else divided by 1 - dropout."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    mine, _, values = module_pair(learner, reference, "FusedSelfAttention", width, n_heads, 5, dropout=rate, seed=5)
    values = with_identity_output(values, "c_proj", width)
    load(mine, values)
    v = x @ values["c_attn.weight"][2 * width :].T + values["c_attn.bias"][2 * width :]
    compare_message_dropout(mine(x), v, n_heads, rate, "in training")


def visible_weights(values, width, n_heads):
    """The same parameters, but each head shows its weights: the value of position j is 1 in feature j, if x has that in its first features."""
    weight, bias, d_head = values["c_attn.weight"].clone(), values["c_attn.bias"].clone(), width // n_heads
    weight[2 * width :], bias[2 * width :] = 0.0, 0.0
    weight[2 * width :, :d_head] = torch.eye(d_head).repeat(n_heads, 1)
    return with_identity_output(values, "c_proj", width) | {"c_attn.weight": weight, "c_attn.bias": bias}


@exercise("FusedSelfAttention")
def test_the_values_are_averaged_with_the_weights_that_remain(learner, reference):
    """With dropout and several positions, each position averages the values with the weights that remain: every weight is dropped on its own."""
    n_heads, width, T, rate, x = 3, 12, 4, 0.3, tensor(1, 60, 4, 12)
    sizes(B=60, H=3, T=4, d_head=4)
    x[..., :T] = torch.eye(T)
    mine, model, values = module_pair(learner, reference, "FusedSelfAttention", width, n_heads, 5, dropout=rate, seed=5)
    for module in (mine, model):
        load(module, visible_weights(values, width, n_heads))
    got, whole = mine(x), model.eval()(x)
    shaped(got, tuple(whole.shape), "the output")
    close(got, (whole / (1 - rate)).masked_fill(got.abs() < 1e-6, 0.0), "one of the weights that were not dropped")
    share = float((got.abs() < 1e-6)[whole > 1e-4].float().mean())
    holds(abs(share - rate) < 0.07, f"about {rate:.0%} of the weights should be dropped; it was {share:.0%}")


@exercise("FusedSelfAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_dtype_and_device_follow_the_input(learner, reference, n, seed):
    """In double precision the output is double too, with its digits, and the mask moves with the module to another device."""
    mine, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed).double()
    close(mine.double()(x), model.double()(x), "the output in float64", tol=1e-5)
    check_device_of_result(learner, x, mine, x)
    mine, model, _ = module_pair(learner, reference, "FusedSelfAttention", 4 * n.H, n.H, n.max_len, seed=seed)  # the root of d_head=4 is exact in every dtype
    x = tensor(seed, n.B, n.T, 4 * n.H).double()
    close(mine.double()(x), model.double()(x), "the output in float64 with d_head=4", tol=2e-9)


@exercise("FusedSelfAttention")
@settings(max_examples=1)
@given(n=attention_sizes, seed=seeds)
def test_use_and_training_of_fused_attention_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the output is the same; you can train the module in between, and it always uses its present weights."""
    mine, model, values = fused_pair(learner, reference, n, seed)
    new = {name: value.flip(0) for name, value in values.items()}
    rounds = [(values, [attention_input(n, seed)]), (new, [attention_input(n, seed + 1, "max_len")])]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["x"])
