"""Chapter 6: the two blocks of a decoder-only model, normalised before each part or after each sum. Encoder and decoder are in test_ch06_blocks_translator.py."""

from itertools import product

import torch
from elsewhere import meta_is_ready, on_meta
from grader.comparing import close, holds, refuses, same, sizes
from grader.door.near import gradients, load, parameters, randomise, state
from grader.marks import exercise
from hypothesis import given, settings
from strategies import distinct, seeds, tensor


def width_of_its_own(n):
    """D is no other size, nor is the 4 * D of a feed-forward."""
    return n.H * n.d_head not in vars(n).values() and 4 * n.H * n.d_head != n.d_ff


stream = distinct(B=(2, 4), H=(2, 4), d_head=(2, 5), T=(4, 7), d_ff=(9, 14)).filter(width_of_its_own)
SILENT = {"attn": "attn.W_out", "self_attn": "self_attn.W_out", "cross_attn": "cross_attn.W_out", "ffn": "ffn.down"}
RATE = 0.3


def pair(learner, reference, kind, *args, seed=0, **options):
    """The learner's block and the reference's with the same random parameters, and those."""
    model = getattr(reference, kind)(*args, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(*args, **options)
    load(mine, values)
    return mine, model, values


def two(learner, reference, kind, n, seed, **options):
    return pair(learner, reference, kind, n.H * n.d_head, n.H, seed=seed, **options)


def x_of(n, seed, positions="T"):
    return tensor(seed, n.B, getattr(n, positions), n.H * n.d_head)


def silenced(values, *parts):
    """The same parameters, but these parts answer zeros to everything."""
    names = [f"{SILENT[part]}.{kind}" for part in parts for kind in ("weight", "bias")]
    return values | {name: torch.zeros_like(values[name]) for name in names}


def plain(values, norm):
    """The same parameters, but this norm as it starts: it stretches and shifts nothing."""
    return values | {f"{norm}.weight": torch.ones_like(values[f"{norm}.weight"]), f"{norm}.bias": torch.zeros_like(values[f"{norm}.bias"])}


def answers(block, loads, *inputs, **options):
    """What the block answers with one set of parameters after the other."""
    found = []
    for values in loads:
        load(block, values)
        found.append(block(*inputs, **options))
    return found


def each_part_alone(mine, model, values, parts, *inputs, **options):
    """The block with all parts but one silent: whatever that part reads, adds and normalises is then seen by itself."""
    loads = [silenced(values, *(other for other in parts if other != part)) for part in parts]
    got, expected = answers(mine, loads, *inputs, **options), answers(model, loads, *inputs, **options)
    for part, result, wanted in zip(parts, got, expected):
        close(result, wanted, f"the output when every part but {part} answers zeros")


def moved(before, after, axis):
    """By how much each entry along `axis` changed, at most."""
    return [float(d.abs().max()) for d in (after - before).unbind(axis)]


def same_gradients(got, expected, inputs):
    """Of inputs and parameters. A key's bias is left out: softmax ignores it, so its gradient is rounding and nothing else."""
    for name, mine, gradient in zip(inputs, got.inputs, expected.inputs):
        holds(mine is not None, f"no gradient reaches {name}: somewhere the result is cut off from it")
        close(mine, gradient, f"the gradient of {name}", tol=1e-4)
    for name, gradient in expected.parameters.items():
        if name.endswith("W_k.bias"):
            continue
        holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: it will never learn")
        close(got.parameters[name], gradient, f"the gradient of {name}", tol=1e-4)


def same_names(mine, values):
    """Parameters and state dict hold these names in these shapes, and nothing else."""
    for what, found in (("parameters", parameters(mine)), ("state dict", state(mine))):
        same(sorted(found), sorted(values), f"the names of the {what}")
        same({name: list(found[name].shape) for name in sorted(values)}, {name: list(values[name].shape) for name in sorted(values)}, f"the shapes of the {what}")


def each_row_normalised(outputs, what):
    """Mean 0 and variance 1 in every vector, as a norm leaves it that neither stretches nor shifts."""
    close(outputs.mean(-1), torch.zeros(outputs.shape[:-1]), f"the mean of each vector of {what}", tol=1e-3)
    close(outputs.var(-1, unbiased=False), torch.ones(outputs.shape[:-1]), f"the variance of each vector of {what}", tol=1e-2)


def makes_nothing_of_its_own(block, *inputs):
    """Does the block make no tensor on a device of its own choice, whatever its attentions do?"""
    attentions = [part for name, part in block.named_children() if name.endswith("attn")]
    for part in attentions:
        part.forward = lambda x, *args, part=part, return_weights=False, **more: (part.W_out(x), None) if return_weights else part.W_out(x)
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            return block(*inputs).device.type == "cpu"
    except Exception:  # it attends in its own way: then only another device tells
        return False
    finally:
        for part in attentions:
            del part.forward


def works_elsewhere(learner, block, *inputs):
    """The block on the device `meta`. Torch loads what that takes slowly, so only where nothing quicker tells, and on no learner's time."""
    if not learner.bring(makes_nothing_of_its_own)(block, *inputs):
        meta_is_ready()
        output = learner.bring(on_meta)(block, *inputs)
        if output is not None:
            close(output, torch.empty_like(inputs[0], device="meta"), "the output on the device `meta`")


def keeps_dtypes(learner, mine, model, values, *inputs):
    """Alike in float64 and in bfloat16, and on another device."""
    wide, narrow = [x.double() for x in inputs], [x.bfloat16() for x in inputs]
    exact, rough = mine.double()(*wide), mine.bfloat16()(*narrow)
    close(exact, model.double()(*wide), "the output in float64", tol=1e-5)
    close(rough, model.bfloat16()(*narrow), "the output in bfloat16", tol=8e-2)
    works_elsewhere(learner, mine.float(), *inputs)


def in_training_and_after(mine, model, *inputs):
    """With dropout 1, so that chance has no say: in training nothing is heard of what is dropped, and in eval mode all of it."""
    used, trained = mine.eval()(*inputs), mine.train()(*inputs)
    close(trained, model(*inputs), "the output in training with dropout=1.0")
    close(used, model.eval()(*inputs), "the output in eval mode with dropout=1.0")


def drops(got, model, values, name, groups, *inputs, where):
    """Every vector of `got` is one that the map `name` gives with some of `groups` heard 1 / (1 - RATE) times as loud, and the others not at all.

    A group is the columns that read one head, or the one row of an output. `model` says what comes of each choice of groups.
    """
    weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
    by_column = len(groups) < weight.size(0)
    model.eval()
    choices, wanted = list(product((0.0, 1.0), repeat=len(groups))), []
    for kept in choices:
        gain = torch.zeros(weight.size(1) if by_column else weight.size(0))
        for group, loud in zip(groups, kept):
            gain[group] = loud / (1 - RATE)
        changed = {f"{name}.weight": weight * gain if by_column else weight * gain[:, None], f"{name}.bias": bias if by_column else bias * gain}
        load(model, values | changed)
        wanted.append(model(*inputs))
    away = (got[:, None] - torch.stack(wanted, dim=1)).abs().flatten(2).amax(-1)  # (B, choices)
    chosen = away.argmin(1)
    one_by_one = len(chosen.unique()) > len(choices) / 2
    holds(one_by_one and bool((away.amin(1) < 2e-3).all()), f"in training, {where} should be dropped or kept with 1 / (1 - p), one by one; some outputs are neither")
    share = 1 - float(torch.tensor(choices)[chosen].mean())
    holds(abs(share - RATE) < 0.07, f"with dropout={RATE}, about {RATE:.0%} of {where} should be dropped; it was {share:.0%}")


def heads_of(n_heads, d_head):
    return [slice(h * d_head, (h + 1) * d_head) for h in range(n_heads)]


def hears_only_the_past(mine, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    x, t = x_of(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] = tensor(seed + 1, n.B, n.H * n.d_head)
    by = moved(mine(x), mine(changed), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should be heard there and at every later position")


# ---- PreNormBlock


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=4)
def test_listen_and_add_then_think_and_add(learner, reference, n, seed):
    """x + attn(ln1(x)), and then the same with ffn and ln2, starting from that sum; one position alone works too."""
    mine, model, _ = two(learner, reference, "PreNormBlock", n, seed)
    x = x_of(n, seed)
    first, whole = mine(x[:, :1]), mine(x)
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_the_stream_runs_through_untouched(learner, reference, n, seed):
    """When attention and feed-forward answer zeros, the block gives x itself, and the gradient comes back exactly as it was sent."""
    mine, model, values = two(learner, reference, "PreNormBlock", n, seed)
    x, sent = x_of(n, seed), x_of(n, seed + 1)
    speaking = mine(x)
    load(mine, silenced(values, "attn", "ffn"))
    found = gradients(mine, x, cotangent=sent)
    close(speaking, model(x), "the output")
    close(found.output, x, "the output when attention and feed-forward answer zeros")
    close(found.inputs[0], sent, "the gradient of x when attention and feed-forward answer zeros")


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_each_part_reads_a_normalised_copy(learner, reference, n, seed):
    """Attention reads ln1 of the stream and the feed-forward ln2 of it; what each adds is added to the stream as it was."""
    mine, model, values = two(learner, reference, "PreNormBlock", n, seed)
    each_part_alone(mine, model, values, ("attn", "ffn"), x_of(n, seed))


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_no_position_hears_the_future(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = two(learner, reference, "PreNormBlock", n, seed)
    hears_only_the_past(mine, n, seed)


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_a_pre_norm_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = two(learner, reference, "PreNormBlock", n, seed)
    same_gradients(gradients(mine, x_of(n, seed)), gradients(model, x_of(n, seed)), ["x"])


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_positions_reach_the_attention(learner, reference, n, seed):
    """positions="rope" and "alibi" act inside the attention, and "none" stays the default."""
    width, x = 2 * n.H * n.d_head, tensor(seed, n.B, n.T, 2 * n.H * n.d_head)
    made = [pair(learner, reference, "PreNormBlock", width, n.H, seed=seed, positions=word) for word in ("none", "rope", "alibi")]
    made.append(pair(learner, reference, "PreNormBlock", width, n.H, seed=seed))
    got = [mine(x) for mine, _, _ in made]
    for word, result, (_, model, _) in zip(('positions="none"', 'positions="rope"', 'positions="alibi"', "no word about positions"), got, made):
        close(result, model(x), f"the output with {word}")


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_activation_and_d_ff_reach_the_feed_forward(learner, reference, n, seed):
    """`activation` bends and `d_ff` sizes the feed-forward; left out, they are gelu and 4 * d_model. Activation is the last argument."""
    width, x = n.H * n.d_head, x_of(n, seed)
    words = ("gelu", "gelu_tanh", "relu")
    made = [pair(learner, reference, "PreNormBlock", width, n.H, n.d_ff, seed=seed, activation=word) for word in words]
    made.append(pair(learner, reference, "PreNormBlock", width, n.H, n.d_ff, "none", 0.0, "relu", seed=seed))
    got = [mine(2 * x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip((*words, "relu"), got, made):
        close(result, model(2 * x), f'the output with d_ff={n.d_ff} and activation="{word}"')
        same_names(mine, values)


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_parts_and_names_of_a_pre_norm_block(learner, reference, n, seed):
    """Its parameters are those of ln1, attn, ln2 and ffn, each its own, and the state dict holds nothing else."""
    mine, model, values = two(learner, reference, "PreNormBlock", n, seed)
    got = mine(x_of(n, seed))
    same_names(mine, values)
    close(got, model(x_of(n, seed)), "the output")


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_what_cannot_work_is_refused(learner, reference, n, seed):
    """Heads that do not divide d_model, unknown `positions` or `activation`, and RoPE with an odd d_head are ValueErrors."""
    mine, model, _ = two(learner, reference, "PreNormBlock", n, seed, positions="alibi", activation="relu")
    close(mine(x_of(n, seed)), model(x_of(n, seed)), 'the output with positions="alibi"')
    width = n.H * n.d_head
    x = tensor(seed, n.B, n.T, width + 1)
    refuses(lambda: learner.PreNormBlock(width + 1, n.H)(x), naming=(width + 1, n.H), because="the width cannot be cut into equal heads")
    refuses(lambda: learner.PreNormBlock(width, n.H, positions="ropes")(x_of(n, seed)), naming=("ropes",), because="there is no such word for positions")
    refuses(lambda: learner.PreNormBlock(width, n.H, activation="elu")(x_of(n, seed)), naming=("elu",), because="there is no such activation")
    refuses(lambda: learner.PreNormBlock(3 * n.H, n.H, positions="rope")(x[:, :, :1].repeat(1, 1, 3 * n.H)), because="RoPE cannot pair 3 features")


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_dropout_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 training hears W_out's bias of the attention and nothing of the feed-forward; the stream is never dropped, and eval mode drops nothing."""
    mine, model, _ = two(learner, reference, "PreNormBlock", n, seed, dropout=1.0)
    in_training_and_after(mine, model, x_of(n, seed))


@exercise("PreNormBlock", weight=2)
def test_dropout_acts_on_weights_and_on_thoughts(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the chance given, and the others are enlarged."""
    sizes(B=400, T=1, H=2, d_head=2)
    x = tensor(3, 400, 1, 4)
    mine, model, values = pair(learner, reference, "PreNormBlock", 4, 2, seed=4, dropout=RATE)
    listening, thinking = silenced(values, "ffn"), silenced(values, "attn")
    first, second = answers(mine, (listening, thinking), x)
    drops(first, model, listening, "attn.W_out", heads_of(2, 2), x, where="the attention's weights")
    drops(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_a_pre_norm_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    keeps_dtypes(learner, *two(learner, reference, "PreNormBlock", n, seed), x_of(n, seed))


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_rows_of_a_batch_do_not_meet(learner, reference, n, seed):
    """Every sequence of a batch gets the output that it gets by itself, in train mode as in eval mode."""
    mine, model, _ = two(learner, reference, "PreNormBlock", n, seed)
    x, row = x_of(n, seed), seed % n.B
    together, alone = mine(x), mine.eval()(x[row : row + 1])
    close(together[row : row + 1], model(x[row : row + 1]), f"row {row} of the output")
    close(alone, model(x[row : row + 1]), f"the output of row {row} alone, in eval mode")


# ---- PostNormBlock


@exercise("PostNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=4)
def test_add_then_normalise_twice(learner, reference, n, seed):
    """ln1(x + attn(x)), and then the same with ffn and ln2, starting from that; one position alone works too."""
    mine, model, _ = two(learner, reference, "PostNormBlock", n, seed)
    x = x_of(n, seed)
    first, whole = mine(x[:, :1]), mine(x)
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")


@exercise("PostNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_every_vector_leaves_normalised(learner, reference, n, seed):
    """While ln2 stretches and shifts nothing, every vector that leaves the block has mean 0 and variance 1, also when both parts answer zeros."""
    mine, model, values = two(learner, reference, "PostNormBlock", n, seed)
    loads = [values, plain(values, "ln2"), silenced(plain(values, "ln2"), "attn", "ffn")]
    full, usual, silent = answers(mine, loads, 5 * x_of(n, seed))
    load(model, values)
    close(full, model(5 * x_of(n, seed)), "the output")
    each_row_normalised(usual, "the output")
    load(model, loads[2])
    close(silent, model(5 * x_of(n, seed)), "the output when attention and feed-forward answer zeros")


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_each_sum_has_its_own_norm(learner, reference, n, seed):
    """Attention reads the stream as it is, and ln1 normalises the sum; the feed-forward reads that, and ln2 normalises the second sum."""
    mine, model, values = two(learner, reference, "PostNormBlock", n, seed)
    each_part_alone(mine, model, values, ("attn", "ffn"), x_of(n, seed))


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_no_position_of_a_post_norm_block_hears_the_future(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = two(learner, reference, "PostNormBlock", n, seed)
    hears_only_the_past(mine, n, seed)


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_a_post_norm_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = two(learner, reference, "PostNormBlock", n, seed)
    same_gradients(gradients(mine, x_of(n, seed)), gradients(model, x_of(n, seed)), ["x"])


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_positions_reach_the_attention_of_a_post_norm_block(learner, reference, n, seed):
    """positions="rope" and "alibi" act inside the attention, and "none" stays the default."""
    width, x = 2 * n.H * n.d_head, tensor(seed, n.B, n.T, 2 * n.H * n.d_head)
    made = [pair(learner, reference, "PostNormBlock", width, n.H, seed=seed, positions=word) for word in ("none", "rope", "alibi")]
    got = [mine(x) for mine, _, _ in made]
    for word, result, (_, model, _) in zip(("none", "rope", "alibi"), got, made):
        close(result, model(x), f'the output with positions="{word}"')


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_sizes_and_names_of_a_post_norm_block(learner, reference, n, seed):
    """`activation` and `d_ff` reach the feed-forward, and the parameters have the names and shapes of a PreNormBlock's."""
    x, words = x_of(n, seed), ("gelu_tanh", "relu")
    made = [pair(learner, reference, "PostNormBlock", n.H * n.d_head, n.H, n.d_ff, "alibi", 0.0, word, seed=seed) for word in words]
    got = [mine(2 * x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip(words, got, made):
        close(result, model(2 * x), f'the output with d_ff={n.d_ff} and activation="{word}"')
        same_names(mine, values)


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_dropout_of_a_post_norm_block_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 training hears W_out's bias of the attention and nothing of the feed-forward; the stream is never dropped, and eval mode drops nothing."""
    mine, model, _ = two(learner, reference, "PostNormBlock", n, seed, dropout=1.0)
    in_training_and_after(mine, model, x_of(n, seed))


@exercise("PostNormBlock")
def test_dropout_of_a_post_norm_block_on_weights_and_thoughts(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the chance given, and the others are enlarged."""
    sizes(B=400, T=1, H=2, d_head=2)
    x = tensor(5, 400, 1, 4)
    mine, model, values = pair(learner, reference, "PostNormBlock", 4, 2, seed=6, dropout=RATE)
    listening, thinking = silenced(values, "ffn"), silenced(values, "attn")
    first, second = answers(mine, (listening, thinking), x)
    drops(first, model, listening, "attn.W_out", heads_of(2, 2), x, where="the attention's weights")
    drops(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_a_post_norm_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    keeps_dtypes(learner, *two(learner, reference, "PostNormBlock", n, seed), x_of(n, seed))
