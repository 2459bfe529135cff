"""Chapter 3, second part: attention in several heads, separate and fused, and the way between the two. The rest is in test_ch03_attention.py."""

import torch
from elsewhere import follows_its_inputs, meta_is_ready
from grader.comparing import close, holds, refuses, same, sizes
from grader.door.near import gradients, load, parameters, randomise, state
from grader.marks import exercise
from hypothesis import given, settings
from strategies import distinct, seeds, tensor

SEPARATE = ("W_q", "W_k", "W_v")
few = settings(max_examples=2)  # the smallest, and one that the seed draws: what is broken here is broken at every size


def all_different(n):
    """The width is no other size either, and dividing by the root of another size would show."""
    return n.H * n.d_head not in vars(n).values()


across = distinct(B=(2, 4), H=(2, 5), d_head=(2, 6), T=(4, 8), S=(4, 9)).filter(all_different)
within = distinct(B=(2, 4), H=(2, 5), d_head=(2, 6), T=(4, 8), max_len=(10, 12)).filter(all_different)


def pair(learner, reference, kind, *args, seed=0, **options):
    """The learner's module and the reference's with the same random parameters, and those."""
    model = getattr(reference, kind)(*args, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(*args, **options)
    load(mine, values)
    return mine, model, values


def two_attentions(learner, reference, n, seed, **options):
    return pair(learner, reference, "MultiHeadAttention", n.H * n.d_head, n.H, seed=seed, **options)


def two_fused(learner, reference, n, seed, **options):
    return pair(learner, reference, "FusedSelfAttention", n.H * n.d_head, n.H, n.max_len, seed=seed, **options)


def inputs(n, seed, positions="T"):
    return tensor(seed, n.B, getattr(n, positions), n.H * n.d_head)


def some(seed, *shape):
    """A mask that allows every query about half of the keys, and at least one."""
    x = tensor(seed + 101, *shape)
    return (x > 0) | (x == x.amax(-1, keepdim=True))


def padding(B, S):
    """(B, 1, 1, S): every row with real keys, and padding in another place, on the left, on the right, on both sides."""
    real = torch.ones(B, 1, 1, S, dtype=torch.bool)
    for row, (left, right) in enumerate([(1, 0), (0, 2), (2, 1), (0, 1)][:B]):
        real[row, ..., :left] = False
        real[row, ..., S - right :] = False
    return real


def causal(T):
    return torch.ones(T, T, dtype=torch.bool).tril()


def moved(before, after, axis):
    """By how much each entry along `axis` changed, at most."""
    return [float(d.abs().max()) for d in (after - before).unbind(axis)]


def same_gradients(got, expected):
    """Of inputs and parameters. A key's bias is left out: softmax ignores it, so its gradient is rounding and nothing else."""
    for i, gradient in enumerate(expected.inputs):
        holds(got.inputs[i] is not None, "no gradient reaches the input: somewhere the result is cut off from it")
        close(got.inputs[i], gradient, "the gradient of " + ("x", "context")[i], tol=5e-5)
    for name, gradient in expected.parameters.items():
        if name == "W_k.bias":
            continue
        holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: it will never learn")
        close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-5)


def stacked(values, kind):
    """c_attn of three separate maps: their rows in the order q, k, v."""
    return torch.cat([values[f"{name}.{kind}"] for name in SEPARATE])


def fused_values(values):
    """The parameters of the fused layout that hold the same numbers."""
    found = {}
    for kind in ("weight", "bias"):
        if f"W_out.{kind}" in values:
            found[f"c_attn.{kind}"], found[f"c_proj.{kind}"] = stacked(values, kind), values[f"W_out.{kind}"]
    return found


def apart_values(values):
    """The parameters of the separate layout that hold the same numbers."""
    found = {}
    for kind in ("weight", "bias"):
        if f"c_proj.{kind}" in values:
            found |= {f"{name}.{kind}": part for name, part in zip(SEPARATE, values[f"c_attn.{kind}"].chunk(3))}
            found[f"W_out.{kind}"] = values[f"c_proj.{kind}"]
    return found


def transparent(values, out, width):
    """The same parameters with a last map that passes everything through, so that the heads can be seen side by side."""
    return values | {f"{out}.weight": torch.eye(width), f"{out}.bias": torch.zeros(width)}


def exactly(got, expected, what):
    same(sorted(got), sorted(expected), f"the names of {what}")
    for name, value in expected.items():
        close(got[name], value, f"in {what}, {name}", tol=0.0)


def same_pair(got, expected, when=""):
    """Output and weights, each named."""
    holds(isinstance(got, tuple | list) and len(got) == 2, "with return_weights the result should be two tensors: the output and the weights")
    close(got[0], expected[0], f"the output{when}")
    close(got[1], expected[1], f"the tensor of weights{when}")


def untouched(got, expected, whose, by):
    """`whose` parameters are what they were."""
    for name, value in expected.items():
        holds(torch.equal(got[name], value), f"changing the parameters of the {by} attention changed {name} of the {whose} one too: they share memory")


def drops_whole_messages(output, kept, n_heads, rate, word):
    """One position can only listen to itself: each head hands on its value divided by 1 - rate, or, dropped, nothing.

    `output` is that of a module whose last map passes everything through; `kept` are the values of the one position, (many, 1, D).
    """
    seen = output.reshape(len(kept), n_heads, -1)
    wanted = kept.reshape(len(kept), n_heads, -1) / (1 - rate)
    dropped = seen.abs().amax(-1) < 1e-6
    close(seen, wanted.masked_fill(dropped[..., None], 0.0), f"what the heads hand on with dropout, {word}")
    share = float(dropped.float().mean())
    holds(abs(share - rate) < 0.07, f"{word}: about {rate:.0%} of the weights should be dropped; it was {share:.0%}")


# ---- MultiHeadAttention


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_heads_attend_side_by_side(learner, reference, n, seed):
    """Every head attends in its own block of q, k and v, divided by the root of d_head; W_out mixes what they found."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_keys_and_values_come_from_the_context(learner, reference, n, seed):
    """With a context the queries come from x, and keys and values from the context, in whatever order it holds them."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    x, context = inputs(n, seed), inputs(n, seed + 1, "S")
    expected = model(x, context=context)
    close(mine(x, context=context), expected, "the output with a context")
    close(mine(x, context.flip(1)), expected, "the output with the context's positions in another order")


@exercise("MultiHeadAttention", weight=3)
@few
@given(n=across, seed=seeds)
def test_masks_of_every_shape(learner, reference, n, seed):
    """A mask is whatever broadcasts to (B, H, Tq, Tk), and a key where it is False has no influence at all."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    x, context = inputs(n, seed), inputs(n, seed + 1, "S")
    real = padding(n.B, n.S)
    masks = [some(seed, n.T, n.S), real, real | some(seed, n.B, 1, n.T, n.S), some(seed, n.B, n.H, n.T, n.S), some(seed, 1, n.H, 1, n.S)]
    for mask in masks:
        close(mine(x, context, mask=mask), model(x, context, mask=mask), f"the output under a mask of shape {tuple(mask.shape)}")
    filled = torch.where(real[:, 0, 0, :, None], context, 9.0 * tensor(seed + 2, *context.shape))
    close(mine(x, filled, mask=real), model(x, context, mask=real), "the output after the masked part of the context was changed")


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_a_query_that_may_attend_to_nothing(learner, reference, n, seed):
    """A query whose keys are all masked gets a mix of zeros, never NaN, and neither its output nor its gradient disturbs the others."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    x, context = inputs(n, seed), inputs(n, seed + 1, "S")
    mask = some(seed, n.B, 1, n.T, n.S)
    mask[0, :, 1], mask[1] = False, False
    close(mine(x, context, mask=mask), model(x, context, mask=mask), "the output where some queries may attend to nothing")
    same_gradients(gradients(mine, x, context, mask=mask), gradients(model, x, context, mask=mask))


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_return_weights_shows_who_listened_to_whom(learner, reference, n, seed):
    """With return_weights the result is (output, weights), the weights (B, H, Tq, Tk) of each head, not their average."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    x, context, real = inputs(n, seed), inputs(n, seed + 1, "S"), padding(n.B, n.S)
    same_pair(mine(x, context, real, True), model(x, context, real, True))
    same_pair(mine(x, return_weights=True), model(x, return_weights=True), " without context and mask")


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_gradients_of_multi_head_attention(learner, reference, n, seed):
    """The gradients of x, of the context, and of every weight and bias are those of the formula."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    same_gradients(gradients(mine, inputs(n, seed)), gradients(model, inputs(n, seed)))
    x, context, mask = inputs(n, seed), inputs(n, seed + 1, "S"), some(seed, n.T, n.S)
    same_gradients(gradients(mine, x, context, mask=mask), gradients(model, x, context, mask=mask))


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_the_future_cannot_be_heard_through_a_causal_mask(learner, reference, n, seed):
    """Under a causal mask, another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = two_attentions(learner, reference, n, seed)
    x, t = inputs(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] += 1.0
    by = moved(mine(x, mask=causal(n.T)), mine(changed, mask=causal(n.T)), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should be heard there and at every later position")


@exercise("MultiHeadAttention", weight=2)
@few
@given(n=across, seed=seeds)
def test_heads_do_not_mix_before_the_last_map(learner, reference, n, seed):
    """With a W_out that changes nothing, other rows of W_q or W_v in head h change the features of head h, and no others."""
    width, h = n.H * n.d_head, seed % n.H
    mine, _, values = two_attentions(learner, reference, n, seed)
    values = transparent(values, "W_out", width)
    load(mine, values)
    x = inputs(n, seed)
    before = mine(x)
    for name in ("W_q.weight", "W_v.weight"):
        other = values[name].clone()
        other[h * n.d_head : (h + 1) * n.d_head] = tensor(seed + 3, n.d_head, width)
        load(mine, values | {name: other})
        by = moved(before, mine(x), 2)
        own = [by[i] for i in range(width) if i // n.d_head == h]
        others = [by[i] for i in range(width) if i // n.d_head != h]
        holds(max(others) < 1e-5, f"other numbers in head {h} of {name} changed features of other heads")
        holds(min(own) > 1e-5, f"other numbers in head {h} of {name} should change the features {h * n.d_head} to {(h + 1) * n.d_head - 1}")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_rows_of_a_batch_do_not_hear_each_other(learner, reference, n, seed):
    """Another token in one row of the batch changes every position of that row, and no other row."""
    mine, _, _ = two_attentions(learner, reference, n, seed)
    x, row = inputs(n, seed), seed % n.B
    changed = x.clone()
    changed[row, 0] += 1.0
    difference = (mine(changed) - mine(x)).abs()
    holds(float(difference[row].amax(-1).min()) > 1e-5, "another first token should be heard at every position of its row")
    rest = torch.cat([difference[:row], difference[row + 1 :]])
    holds(float(rest.max()) < 1e-5, f"another token in row {row} of the batch changed another row")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_without_bias_there_are_four_matrices(learner, reference, n, seed):
    """The parameters are W_q, W_k, W_v and W_out, of D x D, each with a bias of D or, with bias=False, without."""
    mine, model, values = two_attentions(learner, reference, n, seed, bias=False)
    exactly(parameters(mine), values, "the parameters with bias=False")
    exactly(state(mine), values, "the state dict with bias=False")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output without biases")
    mine, model, values = two_attentions(learner, reference, n, seed)
    exactly(parameters(mine), values, "the parameters")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_heads_that_do_not_divide_the_width_are_refused(learner, reference, n, seed):
    """When n_heads does not divide d_model, MultiHeadAttention raises a ValueError that names both numbers."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output where they do divide")
    wide = n.H * n.d_head + 1
    because = f"d_model = {wide} cannot be cut into {n.H} equal heads"
    refuses(lambda: learner.MultiHeadAttention(wide, n.H)(tensor(seed, 2, 3, wide)), naming=(wide, n.H), because=because)


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_no_dropout_in_eval_mode(learner, reference, n, seed):
    """In eval mode dropout does nothing, neither to the output nor to the weights."""
    mine, model, _ = two_attentions(learner, reference, n, seed, dropout=0.6)
    mine.eval()
    model.eval()
    same_pair(mine(inputs(n, seed), return_weights=True), model(inputs(n, seed), return_weights=True), " in eval mode")


@exercise("MultiHeadAttention", weight=3)
def test_dropout_acts_on_the_weights(learner, reference):
    """In training each weight is dropped with probability `dropout`, or divided by 1 - dropout; those weights mix the values and are returned."""
    n_heads, width, rate, x, context = 4, 20, 0.3, tensor(1, 3, 13, 20), tensor(2, 3, 11, 20)
    sizes(B=3, H=4, T=13, S=11, d_head=5)
    mine, model, values = pair(learner, reference, "MultiHeadAttention", width, n_heads, dropout=rate, seed=5)
    whole = model.eval()(x, context, return_weights=True)[1]
    result = mine(x, context, return_weights=True)
    holds(isinstance(result, tuple | list) and len(result) == 2, "with return_weights the result should be (output, weights)")
    output, weights = result
    close(weights, (whole / (1 - rate)).masked_fill(weights == 0, 0.0), "one of the weights that were not dropped")
    share = float((weights == 0).float().mean())
    holds(abs(share - rate) < 0.06, f"about {rate:.0%} of the weights should be dropped; it was {share:.0%}")
    patterns = (weights == 0).flatten(0, 2).unique(dim=0)
    holds(len(patterns) > 100, "each weight should be dropped or kept on its own: here rows share one pattern")
    v = context @ values["W_v.weight"].T + values["W_v.bias"]
    mix = weights @ v.reshape(3, 11, n_heads, 5).transpose(1, 2)
    expected = mix.transpose(1, 2).reshape(3, 13, width) @ values["W_out.weight"].T + values["W_out.bias"]
    close(output, expected, "the output, which the returned weights should have mixed")
    alone, again = mine(x, context), mine(x, context, return_weights=True)[0]
    undropped = model(x, context)
    holds(float((alone - undropped).abs().max()) > 1e-3, "without return_weights nothing is dropped in training")
    holds(float((again - output).abs().max()) > 1e-3, "two calls in training should not drop the same weights")


@exercise("MultiHeadAttention")
@few
@given(n=across, seed=seeds)
def test_the_output_has_the_dtype_of_the_input(learner, reference, n, seed):
    """In double precision the output is double too."""
    mine, model, _ = two_attentions(learner, reference, n, seed)
    x, context, mask = inputs(n, seed).double(), inputs(n, seed + 1, "S").double(), some(seed, n.T, n.S)
    close(mine.double()(x, context, mask), model.double()(x, context, mask), "the output in float64", tol=1e-5)


# ---- FusedSelfAttention


@exercise("FusedSelfAttention", weight=3)
@few
@given(n=within, seed=seeds)
def test_causal_attention_from_one_matrix(learner, reference, n, seed):
    """c_attn gives queries, then keys, then values; each head attends under the causal mask; c_proj mixes the heads."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=within, seed=seeds)
def test_every_length_up_to_max_len(learner, reference, n, seed):
    """One position works, and so do exactly max_len."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    x = inputs(n, seed, "max_len")
    close(mine(x), model(x), "the output for max_len positions")
    close(mine(x[:, :1]), model(x[:, :1]), "the output for one position")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=within, seed=seeds)
def test_gradients_of_fused_attention(learner, reference, n, seed):
    """The gradients of x and of every weight and bias are those of the formula."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    same_gradients(gradients(mine, inputs(n, seed)), gradients(model, inputs(n, seed)))


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=within, seed=seeds)
def test_the_future_is_never_heard(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = two_fused(learner, reference, n, seed)
    x, t = inputs(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] += 1.0
    by = moved(mine(x), mine(changed), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should be heard there and at every later position")


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_fused_heads_do_not_mix_before_the_last_map(learner, reference, n, seed):
    """With a c_proj that changes nothing, other rows of c_attn in head h of the values change the features of head h, and no others."""
    width, h = n.H * n.d_head, seed % n.H
    mine, _, values = two_fused(learner, reference, n, seed)
    values = transparent(values, "c_proj", width)
    load(mine, values)
    x = inputs(n, seed)
    before, first = mine(x), 2 * width + h * n.d_head
    other = values["c_attn.weight"].clone()
    other[first : first + n.d_head] = tensor(seed + 3, n.d_head, width)
    load(mine, {"c_attn.weight": other})
    by = moved(before, mine(x), 2)
    holds(max(by[i] for i in range(width) if i // n.d_head != h) < 1e-5, f"other numbers in head {h} of the values changed other heads")
    holds(min(by[i] for i in range(width) if i // n.d_head == h) > 1e-5, f"other numbers in head {h} of the values should change its features")


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_rows_of_a_batch_are_handled_alone(learner, reference, n, seed):
    """Each row of a batch gets the output that it gets by itself."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    x = inputs(n, seed)
    row = seed % n.B
    close(mine(x)[row : row + 1], model(x[row : row + 1]), f"row {row} of the output")
    close(mine(x[row : row + 1]), model(x[row : row + 1]), f"the output of row {row} alone")


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_the_mask_is_no_parameter_and_not_saved(learner, reference, n, seed):
    """Only c_attn and c_proj are trained and saved; without biases where bias=False."""
    mine, model, values = two_fused(learner, reference, n, seed, bias=False)
    exactly(parameters(mine), values, "the parameters with bias=False")
    exactly(state(mine), values, "the state dict with bias=False")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output without biases")
    mine, model, values = two_fused(learner, reference, n, seed)
    exactly(parameters(mine), values, "the parameters")
    exactly(state(mine), values, "the state dict")
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("FusedSelfAttention", weight=2)
@few
@given(n=within, seed=seeds)
def test_longer_than_max_len_is_refused(learner, reference, n, seed):
    """An input longer than max_len raises a ValueError that names both lengths."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    x = inputs(n, seed, "max_len")
    close(mine(x), model(x), "the output for max_len positions")
    for more in (1, 2):
        longer = tensor(seed, n.B, n.max_len + more, n.H * n.d_head)
        because = f"{n.max_len + more} positions do not fit into max_len = {n.max_len}"
        refuses(lambda: mine(longer), naming=(n.max_len + more, n.max_len), because=because)


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_fused_heads_that_do_not_divide_the_width_are_refused(learner, reference, n, seed):
    """When n_heads does not divide d_model, FusedSelfAttention raises a ValueError that names both numbers."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    close(mine(inputs(n, seed)), model(inputs(n, seed)), "the output where they do divide")
    wide = n.H * n.d_head + 1
    because = f"d_model = {wide} cannot be cut into {n.H} equal heads"
    refuses(lambda: learner.FusedSelfAttention(wide, n.H, n.max_len)(tensor(seed, 2, 3, wide)), naming=(wide, n.H), because=because)


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_fused_attention_drops_nothing_in_eval_mode(learner, reference, n, seed):
    """In eval mode dropout does nothing."""
    mine, model, _ = two_fused(learner, reference, n, seed, dropout=0.6)
    close(mine.eval()(inputs(n, seed)), model.eval()(inputs(n, seed)), "the output in eval mode")


@exercise("FusedSelfAttention", weight=2)
def test_fused_attention_drops_weights_in_training(learner, reference):
    """In training each weight is dropped with probability `dropout`, or divided by 1 - dropout."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    mine, _, values = pair(learner, reference, "FusedSelfAttention", width, n_heads, 5, dropout=rate, seed=5)
    values = transparent(values, "c_proj", width)
    load(mine, values)
    v = x @ values["c_attn.weight"][2 * width :].T + values["c_attn.bias"][2 * width :]
    drops_whole_messages(mine(x), v, n_heads, rate, "in training")


@exercise("FusedSelfAttention")
@few
@given(n=within, seed=seeds)
def test_fused_dtype_and_device_follow_the_input(learner, reference, n, seed):
    """In double precision the output is double too, and on another device no mask stays behind."""
    mine, model, _ = two_fused(learner, reference, n, seed)
    x = inputs(n, seed).double()
    close(mine.double()(x), model.double()(x), "the output in float64", tol=1e-5)
    follows_its_inputs(learner, x, mine, x)


# ---- fuse_qkv


@exercise("fuse_qkv", weight=3)
@few
@given(n=within, seed=seeds)
def test_rows_are_stacked_as_queries_keys_values(learner, reference, n, seed):
    """c_attn holds the rows of W_q, then W_k, then W_v, and c_proj is W_out: the same numbers to the last bit."""
    attention, _, values = two_attentions(learner, reference, n, seed)
    exactly(parameters(learner.fuse_qkv(attention, n.max_len)), fused_values(values), "the fused parameters")


@exercise("fuse_qkv")
@few
@given(n=within, seed=seeds)
def test_no_bias_stays_no_bias(learner, reference, n, seed):
    """An attention without biases becomes a fused one without biases."""
    attention, model, values = two_attentions(learner, reference, n, seed, bias=False)
    fused = learner.fuse_qkv(attention, n.max_len)
    exactly(parameters(fused), fused_values(values), "the fused parameters without biases")
    close(fused(inputs(n, seed)), model(inputs(n, seed), mask=causal(n.T)), "the fused output without biases")


@exercise("fuse_qkv", weight=3)
@few
@given(n=within, seed=seeds)
def test_fused_gives_what_separate_gave_under_a_causal_mask(learner, reference, n, seed):
    """For up to max_len positions, fuse_qkv(attention, max_len)(x) equals attention(x, mask=causal_mask(T))."""
    attention, model, _ = two_attentions(learner, reference, n, seed)
    fused = learner.fuse_qkv(attention, n.max_len)
    for x in (inputs(n, seed), inputs(n, seed, "max_len")):
        mask = causal(x.size(1))
        close(fused(x), model(x, mask=mask), "the fused output")
        close(fused(x), attention(x, mask=mask), "the fused output, beside the separate one")


@exercise("fuse_qkv")
@few
@given(n=within, seed=seeds)
def test_fused_has_the_max_len_asked_for(learner, reference, n, seed):
    """The fused attention takes max_len positions and refuses one more."""
    attention, model, _ = two_attentions(learner, reference, n, seed)
    fused, x = learner.fuse_qkv(attention, n.max_len), inputs(n, seed, "max_len")
    close(fused(x), model(x, mask=causal(n.max_len)), "the fused output for max_len positions")
    because = f"{n.max_len + 1} positions do not fit into max_len = {n.max_len}"
    refuses(lambda: fused(tensor(seed, n.B, n.max_len + 1, n.H * n.d_head)), because=because)


@exercise("fuse_qkv", weight=2)
@few
@given(n=within, seed=seeds)
def test_fused_gradients_are_the_separate_ones_stacked(learner, reference, n, seed):
    """The gradients of the fused attention are those of the separate one, stacked in the same order."""
    attention, model, _ = two_attentions(learner, reference, n, seed)
    x = inputs(n, seed)
    got = gradients(learner.fuse_qkv(attention, n.max_len), x)
    expected = gradients(model, x, mask=causal(n.T))
    holds(got.inputs[0] is not None, "no gradient reaches x through the fused attention")
    close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=5e-5)
    for name, gradient in fused_values(expected.parameters).items():
        holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: after fusing it can learn no more")
        close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-5)


@exercise("fuse_qkv", weight=2)
@few
@given(n=within, seed=seeds)
def test_fusing_copies(learner, reference, n, seed):
    """Changing the fused attention afterwards does not change the separate one, nor the other way round."""
    attention, _, values = two_attentions(learner, reference, n, seed)
    fused = learner.fuse_qkv(attention, n.max_len)
    exactly(parameters(fused), fused_values(values), "the fused parameters")
    new = {name: value + 1 for name, value in fused_values(values).items()}
    load(fused, new)
    untouched(parameters(attention), values, "separate", "fused")
    load(attention, {name: value - 1 for name, value in values.items()})
    untouched(parameters(fused), new, "fused", "separate")


@exercise("fuse_qkv")
@few
@given(n=within, seed=seeds)
def test_fusing_keeps_the_mode(learner, reference, n, seed):
    """An attention in eval mode becomes a fused one in eval mode, one in train mode stays in train mode; the original keeps its own."""
    attention, model, _ = two_attentions(learner, reference, n, seed, dropout=0.6)
    holds(learner.fuse_qkv(attention, n.max_len).training is True, "the attention was in train mode, and the fused one is not")
    attention.eval()
    fused = learner.fuse_qkv(attention, n.max_len)
    close(fused(inputs(n, seed)), model.eval()(inputs(n, seed), mask=causal(n.T)), "the fused output in eval mode")
    holds(fused.training is False, "the attention was in eval mode, and the fused one is not")
    holds(attention.training is False, "fusing changed the mode of the attention it was given")


@exercise("fuse_qkv")
def test_fusing_keeps_the_dropout(learner, reference):
    """The fused attention drops weights as often as the separate one did."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    attention, _, values = pair(learner, reference, "MultiHeadAttention", width, n_heads, dropout=rate, seed=5)
    load(attention, transparent(values, "W_out", width))
    v = x @ values["W_v.weight"].T + values["W_v.bias"]
    drops_whole_messages(learner.fuse_qkv(attention, 5)(x), v, n_heads, rate, "after fusing")


@exercise("fuse_qkv")
@few
@given(n=within, seed=seeds)
def test_fusing_keeps_dtype_and_device(learner, reference, n, seed):
    """Double precision stays double, with all its digits, and what was on another device stays there."""
    attention, model, _ = two_attentions(learner, reference, n, seed)
    values = randomise(model.double(), seed)
    load(attention.double(), values)
    fused = learner.fuse_qkv(attention, n.max_len)
    exactly(parameters(fused), fused_values(values), "the fused parameters in float64")
    x = inputs(n, seed).double()
    close(fused(x), model(x, mask=causal(n.T)), "the fused output in float64", tol=1e-5)
    meta_is_ready()
    elsewhere = {name: value.to("meta") for name, value in fused_values(values).items()}
    exactly(parameters(learner.fuse_qkv(attention.to("meta"), n.max_len)), elsewhere, "the fused parameters on the device `meta`")


# ---- split_qkv


@exercise("split_qkv", weight=3)
@few
@given(n=within, seed=seeds)
def test_rows_are_cut_into_queries_keys_values(learner, reference, n, seed):
    """W_q, W_k and W_v are the first, second and last third of c_attn's rows, and W_out is c_proj: the same numbers to the last bit."""
    fused, _, values = two_fused(learner, reference, n, seed)
    exactly(parameters(learner.split_qkv(fused)), apart_values(values), "the separate parameters")


@exercise("split_qkv")
@few
@given(n=within, seed=seeds)
def test_no_bias_stays_no_bias_when_cut(learner, reference, n, seed):
    """A fused attention without biases becomes a separate one without biases."""
    fused, model, values = two_fused(learner, reference, n, seed, bias=False)
    attention = learner.split_qkv(fused)
    exactly(parameters(attention), apart_values(values), "the separate parameters without biases")
    close(attention(inputs(n, seed), mask=causal(n.T)), model(inputs(n, seed)), "the separate output without biases")


@exercise("split_qkv", weight=3)
@few
@given(n=within, seed=seeds)
def test_separate_gives_what_fused_gave(learner, reference, n, seed):
    """With a causal mask the separate attention gives what the fused one gave; it also takes a context, and any other mask."""
    fused, model, values = two_fused(learner, reference, n, seed)
    attention, x = learner.split_qkv(fused), inputs(n, seed)
    close(attention(x, mask=causal(n.T)), model(x), "the separate output under a causal mask")
    close(attention(x, mask=causal(n.T)), fused(x), "the separate output, beside the fused one")
    apart = reference.MultiHeadAttention(n.H * n.d_head, n.H)
    load(apart, apart_values(values))
    context, mask = tensor(seed + 1, n.B, n.max_len, n.H * n.d_head), padding(n.B, n.max_len)
    same_pair(attention(x, context, mask, True), apart(x, context, mask, True), " of the separate attention with a context")


@exercise("split_qkv", weight=2)
@few
@given(n=within, seed=seeds)
def test_there_and_back_again(learner, reference, n, seed):
    """split_qkv(fuse_qkv(a, max_len)) equals a, tensor for tensor, and so does its output."""
    attention, model, values = two_attentions(learner, reference, n, seed)
    again = learner.split_qkv(learner.fuse_qkv(attention, n.max_len))
    exactly(state(again), values, "the state dict")
    close(again(inputs(n, seed)), model(inputs(n, seed)), "the output")


@exercise("split_qkv", weight=2)
@few
@given(n=within, seed=seeds)
def test_separate_gradients_are_the_fused_ones_cut(learner, reference, n, seed):
    """The gradients of the separate attention are those of the fused one, cut in the same order."""
    fused, model, _ = two_fused(learner, reference, n, seed)
    x = inputs(n, seed)
    got = gradients(learner.split_qkv(fused), x, mask=causal(n.T))
    expected = gradients(model, x)
    holds(got.inputs[0] is not None, "no gradient reaches x through the separate attention")
    close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=5e-5)
    for name, gradient in apart_values(expected.parameters).items():
        if name == "W_k.bias":
            continue
        holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: after cutting it can learn no more")
        close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-5)


@exercise("split_qkv", weight=2)
@few
@given(n=within, seed=seeds)
def test_cutting_copies(learner, reference, n, seed):
    """Changing the separate attention afterwards does not change the fused one, nor the other way round."""
    fused, _, values = two_fused(learner, reference, n, seed)
    attention = learner.split_qkv(fused)
    exactly(parameters(attention), apart_values(values), "the separate parameters")
    new = {name: value + 1 for name, value in apart_values(values).items()}
    load(attention, new)
    untouched(parameters(fused), values, "fused", "separate")
    load(fused, {name: value - 1 for name, value in values.items()})
    untouched(parameters(attention), new, "separate", "fused")


@exercise("split_qkv")
@few
@given(n=within, seed=seeds)
def test_cutting_keeps_the_mode(learner, reference, n, seed):
    """A fused attention in eval mode becomes a separate one in eval mode, one in train mode stays in train mode; the original keeps its own."""
    fused, model, _ = two_fused(learner, reference, n, seed, dropout=0.6)
    holds(learner.split_qkv(fused).training is True, "the fused attention was in train mode, and the separate one is not")
    fused.eval()
    attention = learner.split_qkv(fused)
    close(attention(inputs(n, seed), mask=causal(n.T)), model.eval()(inputs(n, seed)), "the separate output in eval mode")
    holds(attention.training is False, "the fused attention was in eval mode, and the separate one is not")
    holds(fused.training is False, "cutting changed the mode of the attention it was given")


@exercise("split_qkv")
def test_cutting_keeps_the_dropout(learner, reference):
    """The separate attention drops weights as often as the fused one did."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    fused, _, values = pair(learner, reference, "FusedSelfAttention", width, n_heads, 5, dropout=rate, seed=5)
    load(fused, transparent(values, "c_proj", width))
    v = x @ values["c_attn.weight"][2 * width :].T + values["c_attn.bias"][2 * width :]
    drops_whole_messages(learner.split_qkv(fused)(x), v, n_heads, rate, "after cutting")


@exercise("split_qkv")
@few
@given(n=within, seed=seeds)
def test_cutting_keeps_dtype_and_device(learner, reference, n, seed):
    """Double precision stays double, with all its digits, and what was on another device stays there."""
    fused, model, _ = two_fused(learner, reference, n, seed)
    values = randomise(model.double(), seed)
    load(fused.double(), values)
    attention = learner.split_qkv(fused)
    exactly(parameters(attention), apart_values(values), "the separate parameters in float64")
    x = inputs(n, seed).double()
    close(attention(x, mask=causal(n.T)), model(x), "the separate output in float64", tol=1e-5)
    elsewhere = {name: value.to("meta") for name, value in apart_values(values).items()}
    exactly(parameters(learner.split_qkv(fused.to("meta"))), elsewhere, "the separate parameters on the device `meta`")
