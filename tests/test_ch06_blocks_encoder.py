"""Chapter 6, second part: the block of an encoder, which takes its mask from outside."""

import torch
from blocks import (
    RATE,
    answers,
    drops,
    each_part_alone,
    each_row_normalised,
    heads_of,
    in_training_and_after,
    keeps_dtypes,
    of_every_shape,
    padding,
    plain,
    same_gradients,
    same_names,
    silenced,
    two,
    width_of_its_own,
    x_of,
)
from grader.execution.proxy import gradients, load
from grader.plugin.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import moved, some
from pairs import pair
from strategies import distinct, seeds, tensor

source = distinct(B=(2, 4), H=(2, 4), d_head=(2, 5), S=(4, 7), d_ff=(9, 14)).filter(width_of_its_own)


# ---- EncoderBlock


@exercise("EncoderBlock", weight=3)
@given(n=source, seed=seeds)
@settings(max_examples=4)
def test_add_then_normalise_in_an_encoder(learner, reference, n, seed):
    """ln1(x + attn(x)), and then the same with ffn and ln2, starting from that; relu bends the feed-forward."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    x = x_of(n, seed, "S")
    first, whole = mine(x[:, :1]), mine(x)
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")


@exercise("EncoderBlock", weight=3)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_an_encoder_follows_its_mask(learner, reference, n, seed):
    """A mask is whatever broadcasts to (B, H, S, S), True where a position may attend; it may differ from row to row of the batch."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    x, masks = x_of(n, seed, "S"), of_every_shape(n, seed, n.S, n.S)
    got = [mine(x, mask) for mask in masks]
    for mask, result in zip(masks, got):
        close(result, model(x, mask), f"the output under a mask of shape {tuple(mask.shape)}")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_every_position_hears_every_other(learner, reference, n, seed):
    """With no mask another last token is heard at every position, and other sequences of the batch hear nothing of it."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    x, row = x_of(n, seed, "S"), seed % n.B
    changed = x.clone()
    changed[row, -1] = tensor(seed + 1, n.H * n.d_head)
    before, after = mine(x), mine(changed)
    close(before, model(x), "the output")
    holds(min(moved(before[row], after[row], 0)) > 1e-5, "without a mask, another last token should be heard at every position, the first one too")
    others = [i for i in range(n.B) if i != row]
    holds(max(moved(before[others], after[others], 0)) < 1e-5, f"another token in row {row} of the batch changed another row")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_padding_is_never_heard(learner, reference, n, seed):
    """What stands at a padded position, on the left or on the right, changes no real position."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    x, mask = x_of(n, seed, "S"), padding(n.B, n.S)
    real = mask[:, 0, 0, :, None]
    other = torch.where(real, x, 5 * x_of(n, seed + 1, "S"))
    before, after = mine(x, mask=mask), mine(other, mask=mask)
    close(before * real, model(x, mask=mask) * real, "the output at real positions")
    close(after * real, before * real, "the output at real positions after the padding was changed")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_each_sum_of_an_encoder_has_its_own_norm(learner, reference, n, seed):
    """Each part reads the stream as it is, and its own norm is put around the sum, under a mask as without one."""
    mine, model, values = two(learner, reference, "EncoderBlock", n, seed)
    each_part_alone(mine, model, values, ("attn", "ffn"), x_of(n, seed, "S"), mask=padding(n.B, n.S))
    load(mine, plain(values, "ln2"))
    each_row_normalised(mine(x_of(n, seed, "S")), "the output while ln2 stretches and shifts nothing")


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_an_encoder_position_that_may_attend_to_nothing(learner, reference, n, seed):
    """Where the mask allows no key the attention gives W_out's bias, never NaN, and neither value nor gradient of the others suffers."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    x, mask = x_of(n, seed, "S"), some(seed, n.B, 1, n.S, n.S)
    mask[0, :, 1], mask[1] = False, False
    got = gradients(mine, x, mask=mask)
    close(got.output, model(x, mask=mask), "the output where some positions may attend to nothing")
    same_gradients(got, gradients(model, x, mask=mask), ["x"])


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_an_encoder_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    same_gradients(gradients(mine, x_of(n, seed, "S")), gradients(model, x_of(n, seed, "S")), ["x"])


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_sizes_and_names_of_an_encoder_block(learner, reference, n, seed):
    """Its parameters are those of attn, ln1, ffn and ln2; d_ff sizes the feed-forward, and is 4 * d_model unless given."""
    x, width = x_of(n, seed, "S"), n.H * n.d_head
    made = [pair(learner, reference, "EncoderBlock", width, n.H, n.d_ff, 0.0, seed=seed), pair(learner, reference, "EncoderBlock", width, n.H, seed=seed)]
    got = [mine(x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip((f"d_ff={n.d_ff}", "no d_ff given"), got, made):
        close(result, model(x), f"the output with {word}")
        same_names(mine, values)


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=2)
def test_an_encoder_with_heads_that_do_not_fit_is_refused(learner, reference, n, seed):
    """When n_heads does not divide d_model, that is a ValueError that names both."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed)
    close(mine(x_of(n, seed, "S")), model(x_of(n, seed, "S")), "the output")
    width = n.H * n.d_head + 1
    x = tensor(seed, n.B, n.S, width)
    refuses(lambda: learner.EncoderBlock(width, n.H)(x), naming={"d_model": width, "n_heads": n.H}, because="the width cannot be cut into equal heads")


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_dropout_of_an_encoder_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 training hears W_out's bias of the attention and nothing of the feed-forward; the stream is never dropped, and eval mode drops nothing."""
    mine, model, _ = two(learner, reference, "EncoderBlock", n, seed, dropout=1.0)
    in_training_and_after(mine, model, x_of(n, seed, "S"))


@exercise("EncoderBlock")
def test_dropout_of_an_encoder_on_weights_and_thoughts(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the chance given, and the others are enlarged."""
    sizes(B=400, S=1, H=2, d_head=2)
    x = tensor(5, 400, 1, 4)
    mine, model, values = pair(learner, reference, "EncoderBlock", 4, 2, seed=6, dropout=RATE)
    listening, thinking = silenced(values, "ffn"), silenced(values, "attn")
    first, second = answers(mine, (listening, thinking), x)
    drops(first, model, listening, "attn.W_out", heads_of(2, 2), x, where="the attention's weights")
    drops(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_an_encoder_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    keeps_dtypes(learner, *two(learner, reference, "EncoderBlock", n, seed), x_of(n, seed, "S"))
