"""Chapter 11, third part: the transformer block with experts."""

import torch
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses
from hypothesis import given, settings
from memory_layouts import of_view
from module_pairs import module_pair
from pytest_check import check
from strategies import distinct, seeds, tensor
from transformer_blocks import (
    LossOnly,
    compare_expert_gradients,
    compare_in_float64,
    compare_names_and_values,
    compare_output_and_loss,
    output_and_loss,
    widths_are_unique,
)

few = settings(max_examples=2)  # what these laws forbid breaks at every example
stream = distinct(B=(2, 3), T=(4, 6), H=(2, 3), d_head=(2, 5), N=(4, 6), d_ff=(9, 14)).filter(widths_are_unique)


def blocks(learner, reference, n, seed, k=2):
    return module_pair(learner, reference, "MoEBlock", n.H * n.d_head, n.H, n.d_ff, n.N, k, seed=seed)


def x_of(n, seed):
    return tensor(seed, n.B, n.T, n.H * n.d_head)


def silenced(values, *parts):
    """The same parameters, but attention, or every expert, always outputs zeros."""
    quiet = {"attn": lambda name: name.startswith("attn.W_out."), "moe": lambda name: ".down." in name}
    return {name: torch.zeros_like(value) if any(quiet[part](name) for part in parts) else value for name, value in values.items()}


@exercise("MoEBlock", weight=3)
@few
@given(n=stream, seed=seeds)
def test_attention_is_added_and_then_the_experts(learner, reference, n, seed):
    """x + attn(ln1(x)), then the same with moe and ln2, starting from that sum; the second result is the experts' balance loss."""
    mine, model, _ = blocks(learner, reference, n, seed)
    single, first, whole = mine(x_of(n, seed)[:1, :1].clone()), mine(x_of(n, seed)[:, :1]), mine(x_of(n, seed))
    compare_output_and_loss(whole, model(x_of(n, seed)))
    compare_output_and_loss(single, model(x_of(n, seed)[:1, :1]), " for a batch of one text of one token")
    compare_output_and_loss(first, model(x_of(n, seed)[:, :1]), " for one position")


@exercise("MoEBlock", weight=3)
@few
@given(n=stream, seed=seeds)
def test_the_residual_stream_passes_unchanged(learner, reference, n, seed):
    """If attention and experts output zeros, the block returns x itself, and the gradient passes unchanged."""
    mine, model, values = blocks(learner, reference, n, seed)
    x, sent = x_of(n, seed), x_of(n, seed + 1)
    speaking = mine(x)
    load(mine, silenced(values, "attn", "moe"))
    found = gradients(mine, x, cotangent=sent)
    compare_output_and_loss(speaking, model(x))
    close(output_and_loss(found.output)[0], x, "the output when attention and experts answer zeros")
    close(found.inputs[0], sent, "the gradient of x when attention and experts answer zeros")


@exercise("MoEBlock", weight=2)
@few
@given(n=stream, seed=seeds)
def test_each_part_reads_a_normalised_copy(learner, reference, n, seed):
    """Attention reads ln1 of the stream and the experts ln2 of it; each output is added to the unnormalised stream."""
    mine, model, values = blocks(learner, reference, n, seed)
    x, got, expected = x_of(n, seed), [], []
    for block, results in ((mine, got), (model, expected)):
        for part in ("moe", "attn"):
            load(block, silenced(values, part))
            results.append(block(x))
    for part, result, wanted in zip(("the experts", "attention"), got, expected):
        compare_output_and_loss(result, wanted, f" when {part} output{'s' if part == 'attention' else ''} zeros")


@exercise("MoEBlock", weight=2)
@few
@given(n=stream, seed=seeds)
def test_later_tokens_change_no_earlier_output(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before; only the balance loss depends on all of them."""
    mine, model, _ = blocks(learner, reference, n, seed)
    x, t = x_of(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] = tensor(seed + 1, n.B, n.H * n.d_head)
    before, after = mine(x), mine(changed)
    close(output_and_loss(before)[0][:, :t], model(x)[0][:, :t], f"the output before position {t}")
    by = [float(d.abs().max()) for d in (output_and_loss(after)[0] - before[0]).unbind(1)]
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should change the output there and at every later position")


@exercise("MoEBlock", weight=2)
@few
@given(n=stream, seed=seeds)
def test_sizes_reach_the_experts(learner, reference, n, seed):
    """d_ff, n_experts and top_k reach the MoELayer, in this order or by name; left out they are 4 * d_model, 8 and 2."""
    D, x = n.H * n.d_head, x_of(n, seed)
    made = [blocks(learner, reference, n, seed, 1), blocks(learner, reference, n, seed, 3)]
    made.append(module_pair(learner, reference, "MoEBlock", D, n.H, seed=seed))
    made.append(module_pair(learner, reference, "MoEBlock", d_model=D, n_heads=n.H, top_k=3, n_experts=n.N, d_ff=n.d_ff, seed=seed))
    got = [mine(x) for mine, _, _ in made]
    for when, result, (_, model, _) in zip((" with top_k=1", " with top_k=3", " with nothing said of experts", " with top_k=3 by name"), got, made):
        compare_output_and_loss(result, model(x), when)


@exercise("MoEBlock", weight=2)
@few
@given(n=stream, seed=seeds)
def test_both_results_send_gradient(learner, reference, n, seed):
    """The gradients of the output, and those of the balance loss, reach x and every part they come from as in the formula."""
    mine, model, _ = blocks(learner, reference, n, seed)
    x = x_of(n, seed)
    output, loss = gradients(mine, x), gradients(learner.bring(LossOnly)(mine), x, cotangent=torch.tensor(1.0))
    wanted, wanted_loss = gradients(model, x), gradients(reference.bring(LossOnly)(model), x, cotangent=torch.tensor(1.0))
    for found, expected, what in ((output, wanted, "the output"), (loss, wanted_loss, "the balance loss")):
        with check:
            holds(found.inputs[0] is not None, f"no gradient reaches x from {what}: somewhere it is cut off from it")
            close(found.inputs[0], expected.inputs[0], f"the gradient of x from {what}", tol=1e-4)
        compare_expert_gradients(found.parameters, expected.parameters, what)


@exercise("MoEBlock", weight=2)
@few
@given(n=stream, seed=seeds)
def test_the_parameters_have_the_names_of_the_parts(learner, reference, n, seed):
    """Its parameters are those of ln1, attn, ln2 and moe, each its own, and the state dict has nothing else."""
    mine, model, values = blocks(learner, reference, n, seed)
    got, held, saved = mine(x_of(n, seed)), parameters(mine), state(mine)
    compare_names_and_values(held, saved, values)
    compare_output_and_loss(got, model(x_of(n, seed)))


@exercise("MoEBlock")
@few
@given(n=stream, seed=seeds)
def test_invalid_arguments_raise_an_error(learner, reference, n, seed):
    """Heads that do not divide d_model, and top_k above n_experts, are ValueErrors that name the numbers."""
    mine, model, _ = blocks(learner, reference, n, seed)
    D, x = n.H * n.d_head, x_of(n, seed)
    compare_output_and_loss(mine(x), model(x))
    heads, chosen = {"d_model": D + 1, "n_heads": n.H}, {"top_k": n.N + 1, "n_experts": n.N}
    refuses(lambda: learner.MoEBlock(D + 1, n.H)(tensor(seed, 2, 3, D + 1)), naming=heads, because="the width cannot be cut into equal heads")
    because = f"top_k={n.N + 1} of {n.N} experts cannot be chosen"
    refuses(lambda: learner.MoEBlock(D, n.H, n.d_ff, n.N, n.N + 1)(x), naming=chosen, because=because)


@exercise("MoEBlock")
@few
@given(n=stream, seed=seeds)
def test_rows_of_a_batch_and_modes(learner, reference, n, seed):
    """Every sequence of a batch gets the same output as alone, in train mode and in eval mode; the batch may be a view."""
    mine, model, _ = blocks(learner, reference, n, seed)
    x, row = x_of(n, seed), seed % n.B
    view = learner.bring(of_view)(mine, x)
    together, alone = mine(x), mine.eval()(x[row : row + 1])
    close(output_and_loss(together)[0][row : row + 1], model(x[row : row + 1])[0], f"row {row} of the output")
    compare_output_and_loss(alone, model(x[row : row + 1]), f" of row {row} alone, in eval mode")
    compare_output_and_loss(view, model(x), " for the same numbers in a view, not contiguous in memory")


@exercise("MoEBlock")
@few
@given(n=stream, seed=seeds)
def test_in_float64(learner, reference, n, seed):
    """In float64 the output is float64, with all its digits where the weights of the experts are 1."""
    compare_in_float64(*blocks(learner, reference, n, seed, 1)[:2], x_of(n, seed), "block with top_k=1", tol=1e-9)
    mine, model, _ = blocks(learner, reference, n, seed)
    compare_in_float64(mine, model, x_of(n, seed), "block")
