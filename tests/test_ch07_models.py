"""Chapter 7, first part: a GPT from ids to logits, and its configuration. Its loss is in test_ch07_models_loss.py, the other models in further files."""

import torch
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import load_meta_device, on_meta, stays_on_input_device_without_blocks
from grader.execution.proxy import state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from mode_orders import compare_in_every_order, results_in_every_order
from small_models import (
    ATTENTION_POSITIONS,
    TABLE_POSITIONS,
    draw_gpt_sizes,
    gpt_ids,
    gpt_pair,
    gpt_targets,
    logits_and_loss,
    logits_of,
    loss_of,
    make_gpt,
)


def moved(before, after):
    """By how much the logits at each position changed, at most."""
    return (after - before).abs().amax((0, 2)).tolist()


# ---- GPT: from ids to logits


@exercise("GPT", weight=3)
def test_ids_become_logits(learner, reference):
    """Token vectors plus positions go through every block in turn, then the last norm, then the head: (B, T) becomes (B, T, V)."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed)
    close(logits_of(mine, gpt_ids(n, seed)), model(gpt_ids(n, seed))[0], "the logits")


@exercise("GPT", weight=2)
def test_positions_may_be_sinusoidal(learner, reference):
    """With positions="sinusoidal" the fixed table of sinusoids is added, and it is not a parameter."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed, positions="sinusoidal")
    close(logits_of(mine, gpt_ids(n, seed)), model(gpt_ids(n, seed))[0], 'the logits with positions="sinusoidal"')


@exercise("GPT", weight=5)
def test_rope_and_alibi_act_inside_attention(learner, reference):
    """With positions="rope" or "alibi" the blocks' attention encodes the order, nothing is added to the tokens, and pos_emb is None."""
    n, seed = draw_gpt_sizes()
    models = {positions: gpt_pair(learner, reference, n, seed, positions=positions) for positions in ATTENTION_POSITIONS}
    got = {positions: mine(gpt_ids(n, seed)) for positions, (mine, _) in models.items()}
    tables = {positions: mine.pos_emb for positions, (mine, _) in models.items()}
    for positions, (_, model) in models.items():
        close(logits_and_loss(got[positions])[0], model(gpt_ids(n, seed))[0], f'the logits with positions="{positions}"')
        holds(tables[positions] is None, f'with positions="{positions}" pos_emb should be None')


@exercise("GPT", weight=2)
def test_without_targets_there_is_no_loss(learner, reference):
    """model(ids) returns (logits, None), with logits for every position; with targets it returns the same logits and a loss."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed)
    ids, targets = gpt_ids(n, seed), gpt_targets(n, seed)
    without, beside = mine(ids), mine(ids, targets)
    loss_of(beside)
    logits, loss = logits_and_loss(without)
    close(logits, model(ids)[0], "the logits without targets")
    holds(loss is None, "without targets the loss should be None")
    close(logits_and_loss(beside)[0], logits, "the logits that come with a loss")


@exercise("GPT", weight=2)
def test_later_tokens_change_no_earlier_logits(learner, reference):
    """Another token at position t changes the logits there and later, and none before, for all kinds of positions."""
    n, seed = draw_gpt_sizes()
    t = 2 + seed % (n.T - 3)
    ids = gpt_ids(n, seed)
    changed = ids.clone()
    changed[:, t] = (ids[:, t] + 1) % n.V
    for positions in TABLE_POSITIONS + ATTENTION_POSITIONS:
        mine, model = gpt_pair(learner, reference, n, seed, positions=positions)
        before, after = logits_of(mine, ids), logits_of(mine, changed)
        shaped(before, (n.B, n.T, n.V), "the tensor of logits")
        by = moved(before, shaped(after, (n.B, n.T, n.V), "the tensor of logits"))
        holds(max(by[:t]) < 1e-5, f"with positions={positions!r} another token at position {t} changed the logits before it")
        holds(min(by[t:]) > 1e-5, f"with positions={positions!r} another token at position {t} should change the logits there and at every later position")


@exercise("GPT")
def test_rows_of_a_batch_are_handled_alone(learner, reference):
    """Permuting the rows of a batch permutes the logits, and a row alone gives what it gives among others."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed)
    ids = gpt_ids(n, seed)
    permuted, alone, expected = mine(ids.flip(0)), mine(ids[:1].clone()), model(ids)[0]
    close(logits_and_loss(permuted)[0], expected.flip(0), "the logits of the permuted rows")
    close(logits_and_loss(alone)[0], expected[:1], "the logits of one row alone")


# ---- GPT: its configuration

TOO_LONG = "{T} tokens do not fit into max_len = {max_len}"


@exercise("GPT", weight=2)
def test_the_parts_have_their_names(learner, reference):
    """The state dict holds exactly the names of the parts, and no table or mask; it loads into any other implementation."""
    n, seed = draw_gpt_sizes()
    for options in ({}, {"positions": "sinusoidal", "tie_weights": False}, {"positions": "rope"}):
        mine, model = gpt_pair(learner, reference, n, seed, **options)
        names, got = learner.bring(saved_names)(mine), mine(gpt_ids(n, seed))
        close(logits_and_loss(got)[0], model(gpt_ids(n, seed))[0], "the logits")
        same(names, sorted(state(model)), "the list of names in the state dict")


def saved_names(model):
    return sorted(model.state_dict())


@exercise("GPT", weight=2)
def test_the_blocks_are_made_as_configured(learner, reference):
    """d_ff and activation are passed to every block, and d_ff is 4 * d_model if it is None."""
    n, seed = draw_gpt_sizes()
    ids = gpt_ids(n, seed)
    for options in ({"d_ff": 2 * n.V}, {"activation": "relu"}, {"activation": "gelu_tanh"}):
        mine, model = gpt_pair(learner, reference, n, seed, **options)
        close(logits_of(mine, ids), model(ids)[0], "the logits with " + ", ".join(f"{k}={v!r}" for k, v in options.items()), tol=5e-6)


def keeps(model):
    import dataclasses

    return dataclasses.asdict(model.config)


@exercise("GPT")
def test_the_config_is_kept(learner, reference):
    """The attribute `config` is the configuration that the model was made with."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed, positions="alibi", dropout=0.25)
    logits = mine.eval()(gpt_ids(n, seed))
    close(logits_and_loss(logits)[0], model.eval()(gpt_ids(n, seed))[0], "the logits")
    same(learner.bring(keeps)(mine), reference.bring(keeps)(model), "the values of `config`")


@exercise("GPT")
def test_unknown_positions_raise_an_error(learner, reference):
    """Any other value of `positions` is a ValueError that names it, at the latest when the model is first called."""
    n, seed = draw_gpt_sizes()
    mine, model = gpt_pair(learner, reference, n, seed)
    close(logits_of(mine, gpt_ids(n, seed)), model(gpt_ids(n, seed))[0], "the logits with learned positions")
    for unknown in ("none", "rotary"):
        because = f"positions={unknown!r} is not one of the four"
        refuses(lambda unknown=unknown: make_gpt(learner, n, positions=unknown)(gpt_ids(n, seed)), naming={"positions": unknown}, because=because)


@exercise("GPT", weight=2)
def test_input_longer_than_a_position_table_raises_an_error(learner, reference):
    """With learned and sinusoidal positions max_len tokens fit, and one more is a ValueError that names max_len."""
    n, seed = draw_gpt_sizes()
    ids = gpt_ids(n, seed, n.max_len + 1)
    for positions in TABLE_POSITIONS:
        mine, model = gpt_pair(learner, reference, n, seed, positions=positions)
        close(logits_of(mine, ids[:, 1:].clone()), model(ids[:, 1:].clone())[0], f"the logits of max_len tokens with positions={positions!r}")
        refuses(lambda mine=mine: mine(ids), naming={"max_len": n.max_len}, because="the table has no row for the last position", example=TOO_LONG)


@exercise("GPT", weight=3)
def test_rope_and_alibi_work_past_max_len(learner, reference):
    """RoPE and ALiBi have no table of limited length: input longer than max_len works like any other, even if it is many times as long."""
    n, seed = draw_gpt_sizes()
    ids, far = gpt_ids(n, seed, n.max_len + 2), gpt_ids(n, seed, 20 * n.max_len)[:1].clone()
    for positions in ATTENTION_POSITIONS:
        mine, model = gpt_pair(learner, reference, n, seed, positions=positions)
        near, long = mine(ids), mine(far)
        close(logits_and_loss(near)[0], model(ids)[0], f"the logits of max_len + 2 tokens with positions={positions!r}")
        close(logits_and_loss(long)[0], model(far)[0], f"the logits of 20 * max_len tokens with positions={positions!r}", tol=1e-4)


def is_random(model, ids):
    """Do two calls in training differ?"""
    return not torch.equal(model(ids)[0], model(ids)[0])


@exercise("GPT", weight=2)
def test_dropout_acts_inside_the_blocks_only(learner, reference):
    """Dropout acts only inside the blocks: with dropout=1 in training the embeddings are not dropped, and in eval mode nothing is dropped."""
    n, seed = draw_gpt_sizes()
    ids = gpt_ids(n, seed)
    mine, model = gpt_pair(learner, reference, n, seed, dropout=1.0)
    all_dropped, expected = mine(ids), model(ids)[0]
    quiet, random = mine.eval()(ids), learner.bring(is_random)(make_gpt(learner, n, dropout=0.5), ids)
    close(logits_and_loss(all_dropped)[0], expected, "the logits in training with dropout=1, where the blocks add only biases")
    close(logits_and_loss(quiet)[0], model.eval()(ids)[0], "the logits in eval mode")
    holds(random, "with dropout=0.5 two calls in training should differ")


def follows_its_input(learner, model, ids):
    """The model works on another device. Torch needs a second for its first operation on `meta`, so that is used only if there is no other test."""
    if not learner.bring(stays_on_input_device_without_blocks)(model, ids, ids):
        load_meta_device()
        got = learner.bring(on_meta)(model, ids, ids)
        holds(got is None or all(answer.device.type == "meta" for answer in logits_and_loss(got)), "logits and loss should be on the device of the ids")


def logits_and_exact_loss(model, ids, targets):
    """What the model returns, the loss in double precision: it may be wider than the logits."""
    returned = model(ids, targets)
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], torch.Tensor):
        return returned[0], returned[1].double()
    return returned


TO_OTHER_DTYPES = (
    ("sinusoidal", torch.float64, 1e-5),  # the tables are float32, and may be worked out in more than that
    ("learned", torch.float64, 1e-9),
    ("rope", torch.float64, 1e-5),
    ("learned", torch.bfloat16, 0.1),
)


@exercise("GPT", weight=2)
def test_the_model_moves_to_other_dtypes_and_devices(learner, reference):
    """After .double() or .bfloat16() the logits are of that dtype, the loss is right there too, and the model works on any device."""
    n, seed = draw_gpt_sizes()
    ids, targets = gpt_ids(n, seed), gpt_targets(n, seed)
    for positions, dtype, tol in TO_OTHER_DTYPES:
        mine, model = gpt_pair(learner, reference, n, seed, positions=positions)
        got = learner.bring(logits_and_exact_loss)(mine.to(dtype), ids, targets)
        expected = model.to(dtype)(ids, targets)
        close(logits_and_loss(got)[0], expected[0], f"the logits in {str(dtype).removeprefix('torch.')} with positions={positions!r}", tol)
        close(shaped(loss_of(got), (), "the loss").double(), expected[1].double(), f"the loss in {str(dtype).removeprefix('torch.')}", max(tol, 1e-9))
    follows_its_input(learner, mine, ids)


@exercise("GPT")
def test_without_gradient_logits_and_loss_are_the_same(learner, reference):
    """Under torch.no_grad and torch.inference_mode the logits of every position and the loss are those with gradient; training may come before or after."""
    n, seed = draw_gpt_sizes()
    ids, targets = gpt_ids(n, seed), gpt_targets(n, seed)
    models = {positions: gpt_pair(learner, reference, n, seed, positions=positions) for positions in (*TABLE_POSITIONS, ATTENTION_POSITIONS[seed % 2])}
    found = {positions: (call_without_gradient(learner, mine, ids), call_without_gradient(learner, mine, ids, targets)) for positions, (mine, _) in models.items()}
    rounds = [(None, [ids]), (None, [gpt_ids(n, seed + 1, n.T + 2)])]
    after = {positions: results_in_every_order(learner, mine, rounds) for positions, (mine, _) in models.items()}
    for positions, (_, model) in models.items():
        logits, loss = model(ids, targets)
        for mode in GRADIENT_FREE_MODES:
            how = f" with {positions} positions under torch.{mode}"
            without, beside = (result[mode] for result in found[positions])
            close(logits_and_loss(without)[0], logits, f"the logits{how}")
            close(logits_and_loss(beside)[0], logits, f"the logits that come with a loss{how}")
            close(logits_and_loss(beside)[1], loss, f"the loss{how}")
        compare_in_every_order(after[positions], model, rounds, ["the ids"], f"the logits with {positions} positions")
