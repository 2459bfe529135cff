"""Chapter 6, third part: the block of a decoder that also attends to a memory, with a mask for each attention."""

import torch
from grader.execution.proxy import gradients, load
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import largest_changes, lower_triangle, random_mask
from memory_layouts import of_view
from module_pairs import module_pair
from pytest_check import check
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

both = distinct(B=(2, 4), H=(2, 4), d_head=(2, 5), T=(4, 7), S=(4, 8), d_ff=(9, 14)).filter(widths_are_unique)
PARTS = ("self_attn", "cross_attn", "ffn")


# ---- DecoderBlock


def decoders(learner, reference, n, seed, **options):
    """Both blocks, what is written so far (B, T, D), the memory (B, S, D), and a mask for each, different in every row of the batch."""
    mine, model, values = block_pair(learner, reference, "DecoderBlock", n, seed, **options)
    return mine, model, values, block_input(n, seed), block_input(n, seed + 1, "S"), lower_triangle(n.T) & padding_by_row(n.B, n.T).flip(0), padding_by_row(n.B, n.S)


@exercise("DecoderBlock", weight=3)
@given(n=both, seed=seeds)
@settings(max_examples=4)
def test_self_attention_then_cross_attention_then_feed_forward(learner, reference, n, seed):
    """Self-attention, cross-attention and feed-forward, in this order; each is added, and each sum is normalised by its own norm."""
    mine, model, values, x, memory, self_mask, memory_mask = decoders(learner, reference, n, seed)
    whole, view = mine(x, memory, self_mask, memory_mask), learner.bring(of_view)(mine, x, memory, self_mask, memory_mask)
    alone = mine(x[:1], memory[:1], self_mask[:1], memory_mask[:1])
    close(whole, model(x, memory, self_mask, memory_mask), "the output under both masks")
    close(view, model(x, memory, self_mask, memory_mask), "the output for a view, such as a transposed tensor,")
    close(alone, model(x[:1], memory[:1], self_mask[:1], memory_mask[:1]), "the output for a batch of one")


@exercise("DecoderBlock", weight=3)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_each_mask_belongs_to_one_attention(learner, reference, n, seed):
    """self_mask, which broadcasts to (B, H, T, T), acts only on self-attention; memory_mask, (B, H, T, S), only on cross-attention."""
    mine, model, _, x, memory, _, _ = decoders(learner, reference, n, seed)
    selves, memories = masks_of_every_shape(n, seed, n.T, n.T), masks_of_every_shape(n, seed + 1, n.T, n.S)
    cases = [{"self_mask": selves[0]}, {"memory_mask": memories[0]}, {"self_mask": selves[1]}, {"memory_mask": memories[1]}]
    cases += [{"self_mask": a, "memory_mask": b} for a, b in zip(selves[2:], memories[2:])]
    got = [mine(x, memory, **case) for case in cases]
    for case, result in zip(cases, got):
        close(result, model(x, memory, **case), "the output with " + " and ".join(f"a {name} of shape {tuple(mask.shape)}" for name, mask in case.items()))


@exercise("DecoderBlock", weight=2)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_masks_of_one_shape_are_not_mixed_up(learner, reference, n, seed):
    """When target and source have the same length, each mask still acts on its own attention only, and None masks nothing."""
    mine, model, _, x, _, self_mask, _ = decoders(learner, reference, n, seed)
    memory, memory_mask = block_input(n, seed + 2), random_mask(seed, n.B, 1, n.T, n.T)
    cases = [(self_mask, memory_mask), (self_mask, None), (None, memory_mask), (None, None)]
    got = [mine(x, memory, *case) for case in cases]
    for result, case in zip(got, cases):
        words = [name for name, mask in zip(("self_mask", "memory_mask"), case) if mask is not None]
        close(result, model(x, memory, *case), f"the output with {' and '.join(words) or 'no mask'}, T and S alike")


@exercise("DecoderBlock", weight=3)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_every_unmasked_memory_position_counts(learner, reference, n, seed):
    """If one vector of the memory changes, the whole output changes in the rows whose mask allows that position, and nothing in the other rows."""
    mine, model, _, x, memory, self_mask, mask = decoders(learner, reference, n, seed)
    other = 3 * block_input(n, seed + 3, "S")
    memories = [torch.where((torch.arange(n.S) == s)[:, None], other, memory) for s in range(n.S)]
    before, expected = mine(x, memory, self_mask, mask), model(x, memory, self_mask, mask)
    after = [mine(x, changed, self_mask, mask) for changed in memories]
    close(before, expected, "the output")
    for s, output in enumerate(after):
        by, should = ((a - b).abs().amax(-1) for a, b in ((output, before), (model(x, memories[s], self_mask, mask), expected)))  # (B, T)
        shown = mask[:, 0, 0, s, None].expand_as(by)
        holds(bool((by[~shown] < 1e-5).all()), f"memory position {s} is masked in some rows, and changing it changed their output")
        holds(bool((by[shown & (should > 1e-4)] > 1e-5).all()), f"memory position {s} is not masked in some rows, and changing it did not change their output")


@exercise("DecoderBlock", weight=2)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_a_causal_self_mask_hides_the_future(learner, reference, n, seed):
    """Under a causal self_mask another token at position t changes no output before t; without a mask it changes the output at every position."""
    mine, _, _, x, memory, _, mask = decoders(learner, reference, n, seed)
    t = 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] = tensor(seed + 1, n.B, n.H * n.d_head)
    by = largest_changes(mine(x, memory, lower_triangle(n.T), mask), mine(changed, memory, lower_triangle(n.T), mask), 1)
    bare = largest_changes(mine(x, memory), mine(changed, memory), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should change the output there and at every later position")
    holds(min(bare) > 1e-5, f"with no mask given, a change at position {t} should change the output at every position, the first one too")


@exercise("DecoderBlock", weight=2)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_each_part_of_a_decoder_alone(learner, reference, n, seed):
    """Each part reads the stream directly, the memory is used unchanged, and each sum has its own norm."""
    mine, model, values, x, memory, self_mask, memory_mask = decoders(learner, reference, n, seed)
    compare_each_part_alone(mine, model, values, PARTS, x, memory, self_mask=self_mask, memory_mask=memory_mask)
    load(mine, with_fresh_norm(values, "ln3"))
    check_rows_are_normalised(mine(x, memory), "the output with ln3's weights 1 and its biases 0")


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_a_decoder_position_that_may_attend_to_nothing(learner, reference, n, seed):
    """If a mask allows a row no key in the source or in its own past, that attention outputs W_out's bias, never NaN; other rows do not change."""
    mine, model, _, x, memory, self_mask, memory_mask = decoders(learner, reference, n, seed)
    memory_mask[0], self_mask = False, self_mask.clone()
    self_mask[-1] = False
    got = gradients(mine, x, memory, self_mask=self_mask, memory_mask=memory_mask)
    expected = gradients(model, x, memory, self_mask=self_mask, memory_mask=memory_mask)
    with check:
        close(got.output, expected.output, "the output where a mask allows some positions no key")
    compare_gradients(got, expected, ["x", "the memory"])


@exercise("DecoderBlock", weight=2)
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_a_decoder_block(learner, reference, n, seed):
    """The gradients of x, of the memory and of every parameter are those of the formula: the encoder learns through the decoder."""
    mine, model, _, x, memory, self_mask, memory_mask = decoders(learner, reference, n, seed)
    got = gradients(mine, x, memory, self_mask=self_mask, memory_mask=memory_mask)
    compare_gradients(got, gradients(model, x, memory, self_mask=self_mask, memory_mask=memory_mask), ["x", "the memory"])


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_sizes_and_names_of_a_decoder_block(learner, reference, n, seed):
    """Its parameters are those of self_attn, ln1, cross_attn, ln2, ffn and ln3, and none is shared; d_ff is 4 * d_model by default."""
    x, memory, width = block_input(n, seed), block_input(n, seed + 1, "S"), n.H * n.d_head
    made = [module_pair(learner, reference, "DecoderBlock", width, n.H, n.d_ff, 0.0, seed=seed), module_pair(learner, reference, "DecoderBlock", width, n.H, seed=seed)]
    got = [mine(x, memory) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip((f"d_ff={n.d_ff}", "no d_ff given"), got, made):
        close(result, model(x, memory), f"the output with {word}")
        compare_names_and_shapes(mine, values)


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=2)
def test_a_decoder_with_heads_that_do_not_divide_the_width_raises_an_error(learner, reference, n, seed):
    """When n_heads does not divide d_model, that is a ValueError that names both."""
    mine, model, _, x, memory, _, _ = decoders(learner, reference, n, seed)
    close(mine(x, memory), model(x, memory), "the output")
    width = n.H * n.d_head + 1
    wide = tensor(seed, n.B, n.T, width)
    refuses(lambda: learner.DecoderBlock(width, n.H)(wide, wide), naming={"d_model": width, "n_heads": n.H}, because="the width cannot be cut into equal heads")


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=3)
def test_dropout_of_a_decoder_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 in training, both attentions give only W_out's bias and the feed-forward zeros; dropout never acts on the stream, and eval mode drops nothing."""
    mine, model, _, x, memory, _, _ = decoders(learner, reference, n, seed, dropout=1.0)
    compare_full_dropout(mine, model, x, memory)


@exercise("DecoderBlock")
def test_dropout_of_a_decoder_on_weights_and_feed_forward_output(learner, reference):
    """Each weight of either attention and each number of the feed-forward's output is dropped with the given probability, and the others are scaled up."""
    sizes(B=400, T=1, S=1, H=2, d_head=2)
    x, memory = tensor(5, 400, 1, 4), tensor(7, 400, 1, 4)
    mine, model, values = module_pair(learner, reference, "DecoderBlock", 4, 2, seed=6, dropout=DROPOUT)
    loads = [with_zero_output(values, *(other for other in PARTS if other != part)) for part in PARTS]
    found = outputs_of_each(mine, loads, x, memory)
    compare_dropout(found[0], model, loads[0], "self_attn.W_out", head_slices(2, 2), x, memory, where="self-attention's weights")
    compare_dropout(found[1], model, loads[1], "cross_attn.W_out", head_slices(2, 2), x, memory, where="cross-attention's weights")
    compare_dropout(found[2], model, loads[2], "ffn.down", range(4), x, memory, where="the numbers of the feed-forward's output")


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_a_decoder_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    mine, model, values, x, memory, _, _ = decoders(learner, reference, n, seed)
    compare_dtypes_and_devices(learner, mine, model, values, x, memory)


@exercise("DecoderBlock")
@given(n=both, seed=seeds)
@settings(max_examples=1)
def test_training_and_use_of_a_decoder_may_follow_one_another(learner, reference, n, seed):
    """Without gradient the output is the same; afterwards you can train the block, and then use it with new parameters, another memory and longer input."""
    mine, model, values, x, memory, self_mask, memory_mask = decoders(learner, reference, n, seed)
    longer, other = tensor(seed, n.B, n.T + 2, n.H * n.d_head), block_input(n, seed + 2, "S")
    rounds = [[x, memory, self_mask, memory_mask], [longer, other, lower_triangle(n.T + 2), memory_mask]]
    compare_training_and_use(learner, mine, model, values, rounds, ["x", "the memory", "self_mask", "memory_mask"])
