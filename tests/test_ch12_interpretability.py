"""Chapter 12, first part: the residual stream, the lens and the patterns of attention. Patching is in test_ch12_interpretability_patching.py."""

import torch
from devices_and_dtypes import creates_tensors_elsewhere, load_meta_device
from grader.runner.marks import exercise
from grader.verdict.comparing import close, describe_value, holds, shaped
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
from small_models import ATTENTION_POSITIONS, TABLE_POSITIONS, gpt_ids


def where_it_is_seen(look, model, ids):
    """Where the result is when the model is on the device `meta`."""
    try:
        return [part.device.type for part in look(model.to("meta"), ids.to("meta"))]
    except (RuntimeError, NotImplementedError) as problem:
        return [f"nowhere, for it ended in {type(problem).__name__} ({problem})"]


def follows_its_model(learner, what, look, model, ids):
    """The call works on the model's device. The device `meta` needs a second for its first operation, so it is used only if there is no quicker test."""
    if learner.bring(creates_tensors_elsewhere)("ch12_interpretability", look, model, ids):
        load_meta_device()
        other = [device for device in learner.bring(where_it_is_seen)(look, model, ids) if device != "meta"]
        holds(not other, f"with the model on another device than the CPU, `meta`, {what} should be there too; it is on: {''.join(other[:1])}")


def in_other_dtypes(learner, reference, what, look, look_here, judge=close):
    n, seed = draw_sizes()
    ids = gpt_ids(n, seed)
    for positions, dtype, tol in (("learned", torch.float64, 1e-9), ("alibi", torch.float64, 1e-5), ("learned", torch.bfloat16, 0.15)):
        mine, model = training_pair(learner, reference, n, seed, positions=positions)
        got, expected = look(mine.to(dtype), ids), look_here(model.to(dtype), ids)
        judge(got, expected, f"{what} of a model in {str(dtype).removeprefix('torch.')}", tol)
    mine, model = training_pair(learner, reference, n, seed)
    judge(learner.bring(of_views)(look, mine, ids), look_here(model, ids), f"{what} for ids that are not contiguous")
    follows_its_model(learner, what, look, mine, ids)


# ---- residual_stream


def judge_stream(got, expected, what="the stream", tol=None):
    holds(isinstance(got, list | tuple), f"{what} should be a list of tensors; it is {describe_value(got)}")
    holds(len(got) == len(expected), f"{what} should have {len(expected)} entries, the embeddings' and one for each of {len(expected) - 1} blocks; it has {len(got)}")
    for i, state in enumerate(expected):
        close(got[i], state, f"entry {i} of {what}", tol)


@exercise("residual_stream", weight=3)
def test_the_stream_is_returned_after_the_embeddings_and_each_block(learner, reference):
    """The list begins with tokens plus positions, and continues with each block's output: n_layers + 1 tensors (B, T, D)."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    ids = gpt_ids(n, seed)
    judge_stream(learner.residual_stream(mine, ids), reference.residual_stream(model, ids), "the stream")


@exercise("residual_stream", weight=2)
def test_the_stream_of_every_kind_of_gpt(learner, reference):
    """Sinusoidal positions are in the first entry like a learned table; with RoPE and ALiBi it contains only the token vectors."""
    n, seed = draw_sizes()
    ids = gpt_ids(n, seed)
    models = {positions: training_pair(learner, reference, n, seed, positions=positions, tie_weights=False) for positions in ("sinusoidal", *ATTENTION_POSITIONS)}
    got = {positions: learner.residual_stream(mine, ids) for positions, (mine, _) in models.items()}
    for positions, (_, model) in models.items():
        judge_stream(got[positions], reference.residual_stream(model, ids), f"the stream with positions={positions!r}")


@exercise("residual_stream")
def test_one_block_and_one_position(learner, reference):
    """A model of one block has a stream of two entries; a text may be a single token."""
    n, seed = draw_sizes(L=1)
    mine, model = training_pair(learner, reference, n, seed)
    for ids in (gpt_ids(n, seed), gpt_ids(n, seed)[:1, :1].clone()):
        judge_stream(learner.residual_stream(mine, ids), reference.residual_stream(model, ids), "the stream of a model with one block")


@exercise("residual_stream", weight=2)
def test_the_stream_is_read_in_eval_mode(learner, reference):
    """No dropout acts while the stream is recorded, even on a model in train mode."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed, dropout=0.5)
    ids = gpt_ids(n, seed)
    judge_stream(learner.residual_stream(mine, ids), reference.residual_stream(model, ids), "the stream of a model with dropout, in train mode")


@exercise("residual_stream", weight=2)
def test_reading_the_stream_leaves_hooks_and_modes_as_they_were(learner, reference):
    """Your hooks are removed afterwards, those of other code are not, and each module has its old mode again, whichever parts were in train mode; also when the run fails."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed, dropout=0.5)
    ids, expected = gpt_ids(n, seed), reference.residual_stream(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.residual_stream, mine, ids)
    failed = learner.bring(left_by_an_error)(learner.residual_stream, mine, ids + n.V)
    judge_stream(found["seen"], expected, "the stream")
    check_other_runs(found, expected, "the stream", judge_stream)
    check_hooks_and_modes(found)
    check_left_by_an_error(failed)


@exercise("residual_stream", weight=2)
def test_reading_the_stream_keeps_no_gradient(learner, reference):
    """The stream has no graph, and parameters, their gradients and gradient mode do not change."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    expected = reference.residual_stream(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.residual_stream, mine, gpt_ids(n, seed))
    judge_stream(found["seen"], expected, "the stream")
    check_trainable(found)


def kept_and_read_anew(look, model, ids, others):
    """A stream, and the same list after the model has read something else."""
    first = look(model, ids)
    if not isinstance(first, (list, tuple)):
        return {"first": first, "second": None, "untouched": False}
    copies = [state.clone() for state in first]
    second = look(model, others)
    model(ids)
    return {"first": copies, "second": second, "untouched": len(first) == len(copies) and all(torch.equal(a, b) for a, b in zip(first, copies))}


@exercise("residual_stream")
def test_each_run_returns_its_own_stream(learner, reference):
    """A call for a second text returns only its own stream, and does not change the list of the first."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    ids, others = gpt_ids(n, seed), gpt_ids(n, seed + 1, n.T + 1)
    found = learner.bring(kept_and_read_anew)(learner.residual_stream, mine, ids, others)
    judge_stream(found["first"], reference.residual_stream(model, ids), "the stream of the first text")
    judge_stream(found["second"], reference.residual_stream(model, others), "the stream of the second text")
    holds(found["untouched"], "the list of the first text changed when the model read another one")


@exercise("residual_stream")
def test_the_stream_of_models_of_other_dtypes_and_devices(learner, reference):
    """The stream has the model's dtype, and is where the model is; the ids may be a view."""
    in_other_dtypes(learner, reference, "the stream", learner.residual_stream, reference.residual_stream, judge_stream)


# ---- logit_lens


@exercise("logit_lens", weight=3)
def test_every_state_goes_through_the_norm_and_the_head(learner, reference):
    """Each state of the stream goes through the final norm and the head, all positions of it: logits (n_layers + 1, B, T, V)."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    close(learner.logit_lens(mine, gpt_ids(n, seed)), reference.logit_lens(model, gpt_ids(n, seed)), "the lens")


def own_logits(model, ids):
    return model.eval()(ids)[0].detach()


@exercise("logit_lens", weight=2)
def test_the_last_row_is_the_models_logits(learner, reference):
    """After the last block the lens gives the model's own logits, with every kind of positions and with a tied or untied head."""
    n, seed = draw_sizes()
    ids = gpt_ids(n, seed)
    models = {
        (p, tied): training_pair(learner, reference, n, seed, positions=p, tie_weights=tied) for p, tied in zip(TABLE_POSITIONS + ATTENTION_POSITIONS, (True, False) * 2)
    }
    got = {options: learner.logit_lens(mine, ids) for options, (mine, _) in models.items()}
    for (positions, tied), (_, model) in models.items():
        lens = shaped(got[positions, tied], (n.L + 1, n.B, n.T, n.V), f"the lens with positions={positions!r}")
        close(lens[-1].clone(), reference.bring(own_logits)(model, ids), f"the last row with positions={positions!r}, tie_weights={tied}")


def from_the_embeddings(model, ids):
    """The prediction from the embeddings alone, before any block."""
    x = model.token_emb(ids)
    x = x if model.pos_emb is None else model.pos_emb(x)
    return model.lm_head(model.ln_f(x)).detach()


@exercise("logit_lens", weight=2)
def test_the_first_row_comes_from_the_embeddings(learner, reference):
    """Row 0 comes from tokens plus positions, before any block, through the model's own head."""
    n, seed = draw_sizes()
    ids = gpt_ids(n, seed)
    models = {
        (p, tied): training_pair(learner, reference, n, seed, positions=p, tie_weights=tied) for p, tied in zip(TABLE_POSITIONS + ATTENTION_POSITIONS, (False, True) * 2)
    }
    got = {options: learner.logit_lens(mine, ids) for options, (mine, _) in models.items()}
    for (positions, tied), (_, model) in models.items():
        lens = shaped(got[positions, tied], (n.L + 1, n.B, n.T, n.V), f"the lens with positions={positions!r}")
        close(lens[0].clone(), reference.bring(from_the_embeddings)(model, ids), f"row 0 with positions={positions!r}, tie_weights={tied}")


@exercise("logit_lens", weight=2)
def test_the_lens_leaves_the_model_as_it_was(learner, reference):
    """The lens runs in eval mode: dropout is off, hooks and modes are as before, also when the run fails, and a second call gives the same."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed, dropout=0.5)
    expected = reference.logit_lens(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.logit_lens, mine, gpt_ids(n, seed))
    failed = learner.bring(left_by_an_error)(learner.logit_lens, mine, gpt_ids(n, seed) + n.V)
    close(found["seen"], expected, "the lens on a model with dropout, in train mode")
    check_other_runs(found, expected, "the lens")
    check_hooks_and_modes(found)
    check_left_by_an_error(failed)


@exercise("logit_lens", weight=2)
def test_the_lens_keeps_no_gradient(learner, reference):
    """The lens has no graph, and parameters, their gradients and gradient mode do not change."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    expected = reference.logit_lens(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.logit_lens, mine, gpt_ids(n, seed))
    close(found["seen"], expected, "the lens")
    check_trainable(found)


@exercise("logit_lens")
def test_the_lens_on_models_of_other_dtypes_and_devices(learner, reference):
    """The lens has the model's dtype, and is where the model is; the ids may be a view."""
    in_other_dtypes(learner, reference, "the lens", learner.logit_lens, reference.logit_lens)


# ---- attention_patterns


@exercise("attention_patterns", weight=3)
def test_every_head_of_every_layer_has_a_pattern(learner, reference):
    """The weights that each head uses, (n_layers, B, H, T, T): row i of a pattern has the weights of position i."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    close(learner.attention_patterns(mine, gpt_ids(n, seed)), reference.attention_patterns(model, gpt_ids(n, seed)), "the patterns")


@exercise("attention_patterns", weight=2)
def test_patterns_with_every_kind_of_positions(learner, reference):
    """Sinusoidal positions reach attention through the stream; RoPE and ALiBi change the weights themselves."""
    n, seed = draw_sizes()
    ids = gpt_ids(n, seed)
    models = {positions: training_pair(learner, reference, n, seed, positions=positions) for positions in ("sinusoidal", *ATTENTION_POSITIONS)}
    got = {positions: learner.attention_patterns(mine, ids) for positions, (mine, _) in models.items()}
    for positions, (_, model) in models.items():
        close(got[positions], reference.attention_patterns(model, ids), f"the patterns with positions={positions!r}")


@exercise("attention_patterns", weight=2)
def test_each_row_sums_to_one_over_earlier_positions(learner, reference):
    """Each row of a pattern sums to 1, later positions have weight 0, and texts of any length work, also of one token."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    for T in (1, n.max_len):
        got = learner.attention_patterns(mine, gpt_ids(n, seed, n.max_len)[:, :T].clone())
        expected = reference.attention_patterns(model, gpt_ids(n, seed, n.max_len)[:, :T].clone())
        patterns = shaped(got, (n.L, n.B, n.H, T, T), "the tensor of patterns")
        holds((patterns.sum(-1) - 1).abs().max() < 1e-4, "a row of a pattern does not sum to 1")
        holds(patterns.triu(1).abs().max() < 1e-6, "a position attends to a later one")
        close(patterns, expected, f"the patterns of {T} positions")


@exercise("attention_patterns", weight=2)
def test_the_patterns_leave_the_model_as_it_was(learner, reference):
    """Patterns are taken in eval mode: no weight is dropped, hooks and modes are as before, also when the run fails, and a second call gives the same."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed, dropout=0.5)
    expected = reference.attention_patterns(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.attention_patterns, mine, gpt_ids(n, seed))
    failed = learner.bring(left_by_an_error)(learner.attention_patterns, mine, gpt_ids(n, seed) + n.V)
    close(found["seen"], expected, "the patterns of a model with dropout, in train mode")
    check_other_runs(found, expected, "the patterns")
    check_hooks_and_modes(found)
    check_left_by_an_error(failed)


@exercise("attention_patterns", weight=2)
def test_the_patterns_keep_no_gradient(learner, reference):
    """The patterns have no graph, and parameters, their gradients and gradient mode do not change."""
    n, seed = draw_sizes()
    mine, model = training_pair(learner, reference, n, seed)
    expected = reference.attention_patterns(model, gpt_ids(n, seed))
    found = learner.bring(observed)(learner.attention_patterns, mine, gpt_ids(n, seed))
    close(found["seen"], expected, "the patterns")
    check_trainable(found)


@exercise("attention_patterns")
def test_the_patterns_of_models_of_other_dtypes_and_devices(learner, reference):
    """The patterns have the model's dtype, and are where the model is; the ids may be a view."""
    in_other_dtypes(learner, reference, "the patterns", learner.attention_patterns, reference.attention_patterns)
