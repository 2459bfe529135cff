"""Chapter 6, second part: the block of an encoder, which takes its mask from outside."""

import torch
from grader.execution.proxy import gradients, load
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import largest_changes, random_mask
from memory_layouts import of_view
from module_pairs import module_pair
from strategies import distinct, seeds, tensor
from transformer_blocks import (
    DROPOUT,
    block_input,
    block_pair,
    check_rows_are_normalised,
    compare_dropout,
    compare_dtypes_and_devices,
    compare_each_part_alone,
    compare_full_dropout,
    compare_gradients,
    compare_names_and_shapes,
    compare_training_and_use,
    head_slices,
    masks_of_every_shape,
    outputs_of_each,
    padding_by_row,
    widths_are_unique,
    with_fresh_norm,
    with_zero_output,
)

source = distinct(B=(2, 4), H=(2, 4), d_head=(2, 5), S=(4, 7), d_ff=(9, 14)).filter(widths_are_unique)


# ---- EncoderBlock


@exercise("EncoderBlock", weight=3)
@given(n=source, seed=seeds)
@settings(max_examples=4)
def test_add_then_normalise_in_an_encoder(learner, reference, n, seed):
    """The block computes ln1(x + attn(x)), then the same with ffn and ln2, starting from that result; the activation is relu."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    x = block_input(n, seed, "S")
    first, whole, view, alone = mine(x[:, :1]), mine(x), learner.bring(of_view)(mine, x), mine(x[:1])
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")
    close(view, model(x), "the output for a view, such as a transposed tensor,")
    close(alone, model(x[:1]), "the output for a batch of one")


@exercise("EncoderBlock", weight=6)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_an_encoder_follows_its_mask(learner, reference, n, seed):
    """Any mask that broadcasts to (B, H, S, S) works, True where a position may attend; it may differ from row to row of the batch."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    x, masks = block_input(n, seed, "S"), masks_of_every_shape(n, seed, n.S, n.S)
    got = [mine(x, mask) for mask in masks]
    for mask, result in zip(masks, got):
        close(result, model(x, mask), f"the output under a mask of shape {tuple(mask.shape)}")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_every_position_attends_to_every_other(learner, reference, n, seed):
    """Without a mask another last token changes the output at every position, and no other sequence of the batch."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    x, row = block_input(n, seed, "S"), seed % n.B
    changed = x.clone()
    changed[row, -1] = tensor(seed + 1, n.H * n.d_head)
    before, after = mine(x), mine(changed)
    close(before, model(x), "the output")
    holds(min(largest_changes(before[row], after[row], 0)) > 1e-5, "without a mask, another last token should change the output at every position, the first one too")
    others = [i for i in range(n.B) if i != row]
    holds(max(largest_changes(before[others], after[others], 0)) < 1e-5, f"another token in row {row} of the batch changed another row")


@exercise("EncoderBlock", weight=4)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_padding_changes_no_real_position(learner, reference, n, seed):
    """The token at a padded position, on the left or on the right, changes no real position."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    x, mask = block_input(n, seed, "S"), padding_by_row(n.B, n.S)
    real = mask[:, 0, 0, :, None]
    other = torch.where(real, x, 5 * block_input(n, seed + 1, "S"))
    before, after = mine(x, mask=mask), mine(other, mask=mask)
    close(before * real, model(x, mask=mask) * real, "the output at real positions")
    close(after * real, before * real, "the output at real positions after the padding was changed")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_each_sum_of_an_encoder_has_its_own_norm(learner, reference, n, seed):
    """Each part reads the stream directly, and its own norm is applied to the sum, with a mask and without."""
    mine, model, values = block_pair(learner, reference, "EncoderBlock", n, seed)
    compare_each_part_alone(mine, model, values, ("attn", "ffn"), block_input(n, seed, "S"), mask=padding_by_row(n.B, n.S))
    load(mine, with_fresh_norm(values, "ln2"))
    check_rows_are_normalised(mine(block_input(n, seed, "S")), "the output with ln2's weights 1 and its biases 0")


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_an_encoder_position_that_may_attend_to_nothing(learner, reference, n, seed):
    """If the mask allows no key the attention gives W_out's bias, never NaN, and the values and gradients of other positions do not change."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    x, mask = block_input(n, seed, "S"), random_mask(seed, n.B, 1, n.S, n.S)
    mask[0, :, 1], mask[1] = False, False
    got = gradients(mine, x, mask=mask)
    close(got.output, model(x, mask=mask), "the output where the mask allows some positions no key")
    compare_gradients(got, gradients(model, x, mask=mask), ["x"])


@exercise("EncoderBlock", weight=2)
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_an_encoder_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    compare_gradients(gradients(mine, block_input(n, seed, "S")), gradients(model, block_input(n, seed, "S")), ["x"])


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_sizes_and_names_of_an_encoder_block(learner, reference, n, seed):
    """Its parameters are those of attn, ln1, ffn and ln2; d_ff sizes the feed-forward, and is 4 * d_model unless given."""
    x, width = block_input(n, seed, "S"), n.H * n.d_head
    made = [module_pair(learner, reference, "EncoderBlock", width, n.H, n.d_ff, 0.0, seed=seed), module_pair(learner, reference, "EncoderBlock", width, n.H, seed=seed)]
    got = [mine(x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip((f"d_ff={n.d_ff}", "no d_ff given"), got, made):
        close(result, model(x), f"the output with {word}")
        compare_names_and_shapes(mine, values)


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=2)
def test_an_encoder_with_heads_that_do_not_divide_the_width_raises_an_error(learner, reference, n, seed):
    """When n_heads does not divide d_model, that is a ValueError that names both."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed)
    close(mine(block_input(n, seed, "S")), model(block_input(n, seed, "S")), "the output")
    width = n.H * n.d_head + 1
    x = tensor(seed, n.B, n.S, width)
    refuses(lambda: learner.EncoderBlock(width, n.H)(x), naming={"d_model": width, "n_heads": n.H}, because="the width cannot be cut into equal heads")


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=3)
def test_dropout_of_an_encoder_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 in training, attention gives only W_out's bias and the feed-forward zeros; dropout never acts on the stream, and eval mode drops nothing."""
    mine, model, _ = block_pair(learner, reference, "EncoderBlock", n, seed, dropout=1.0)
    compare_full_dropout(mine, model, block_input(n, seed, "S"))


@exercise("EncoderBlock")
def test_dropout_of_an_encoder_on_weights_and_feed_forward_output(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the given probability, and the others are scaled up."""
    sizes(B=400, S=1, H=2, d_head=2)
    x = tensor(5, 400, 1, 4)
    mine, model, values = module_pair(learner, reference, "EncoderBlock", 4, 2, seed=6, dropout=DROPOUT)
    listening, thinking = with_zero_output(values, "ffn"), with_zero_output(values, "attn")
    first, second = outputs_of_each(mine, (listening, thinking), x)
    compare_dropout(first, model, listening, "attn.W_out", head_slices(2, 2), x, where="the attention's weights")
    compare_dropout(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_an_encoder_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    compare_dtypes_and_devices(learner, *block_pair(learner, reference, "EncoderBlock", n, seed), block_input(n, seed, "S"))


@exercise("EncoderBlock")
@given(n=source, seed=seeds)
@settings(max_examples=1)
def test_training_and_use_of_an_encoder_may_follow_one_another(learner, reference, n, seed):
    """Without gradient the output is the same; afterwards you can train the block, and then use it again with new parameters and longer input."""
    mine, model, values = block_pair(learner, reference, "EncoderBlock", n, seed)
    longer = tensor(seed, n.B, n.S + 2, n.H * n.d_head)
    compare_training_and_use(learner, mine, model, values, [[block_input(n, seed, "S")], [longer, padding_by_row(n.B, n.S + 2)]], ["x", "mask"])
