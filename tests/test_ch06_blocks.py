"""Chapter 6, first part: the two blocks of a decoder-only model, normalised before each part or after each sum. Encoder and decoder have their own files."""

from grader.execution.proxy import gradients, load
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import largest_changes
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
    outputs_of_each,
    widths_are_unique,
    with_fresh_norm,
    with_zero_output,
)

stream = distinct(B=(2, 4), H=(2, 4), d_head=(2, 5), T=(4, 7), d_ff=(9, 14)).filter(widths_are_unique)


def hears_only_the_past(mine, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    x, t = block_input(n, seed), 1 + seed % (n.T - 2)
    changed = x.clone()
    changed[:, t] = tensor(seed + 1, n.B, n.H * n.d_head)
    by = largest_changes(mine(x), mine(changed), 1)
    holds(max(by[:t]) < 1e-5, f"a change at position {t} changed the output at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:]) > 1e-5, f"a change at position {t} should change the output there and at every later position")


# ---- PreNormBlock


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=4)
def test_attention_is_added_and_then_the_feed_forward(learner, reference, n, seed):
    """The block computes x + attn(ln1(x)), then the same with ffn and ln2, starting from that sum; a single position works too."""
    mine, model, _ = block_pair(learner, reference, "PreNormBlock", n, seed)
    x = block_input(n, seed)
    first, whole, view = mine(x[:, :1]), mine(x), learner.bring(of_view)(mine, x)
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")
    close(view, model(x), "the output for a view, such as a transposed tensor,")


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_the_residual_stream_passes_unchanged(learner, reference, n, seed):
    """If attention and feed-forward output zeros, the block returns x itself, and the gradient passes unchanged."""
    mine, model, values = block_pair(learner, reference, "PreNormBlock", n, seed)
    x, sent = block_input(n, seed), block_input(n, seed + 1)
    speaking = mine(x)
    load(mine, with_zero_output(values, "attn", "ffn"))
    found = gradients(mine, x, cotangent=sent)
    close(speaking, model(x), "the output")
    close(found.output, x, "the output when attention and feed-forward output zeros")
    close(found.inputs[0], sent, "the gradient of x when attention and feed-forward output zeros")


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_each_part_reads_a_normalised_copy(learner, reference, n, seed):
    """Attention reads ln1 of the stream and the feed-forward ln2 of it; each output is added to the unnormalised stream."""
    mine, model, values = block_pair(learner, reference, "PreNormBlock", n, seed)
    compare_each_part_alone(mine, model, values, ("attn", "ffn"), block_input(n, seed))


@exercise("PreNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_later_tokens_change_no_earlier_output_of_a_pre_norm_block(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = block_pair(learner, reference, "PreNormBlock", n, seed)
    hears_only_the_past(mine, n, seed)


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_a_pre_norm_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = block_pair(learner, reference, "PreNormBlock", n, seed)
    compare_gradients(gradients(mine, block_input(n, seed)), gradients(model, block_input(n, seed)), ["x"])


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_positions_reach_the_attention(learner, reference, n, seed):
    """positions="rope" and "alibi" act inside the attention, and "none" stays the default."""
    width, x = 2 * n.H * n.d_head, tensor(seed, n.B, n.T, 2 * n.H * n.d_head)
    made = [module_pair(learner, reference, "PreNormBlock", width, n.H, seed=seed, positions=word) for word in ("none", "rope", "alibi")]
    made.append(module_pair(learner, reference, "PreNormBlock", width, n.H, seed=seed))
    got = [mine(x) for mine, _, _ in made]
    for word, result, (_, model, _) in zip(('positions="none"', 'positions="rope"', 'positions="alibi"', "no word about positions"), got, made):
        close(result, model(x), f"the output with {word}")


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_activation_and_d_ff_reach_the_feed_forward(learner, reference, n, seed):
    """`activation` and `d_ff` reach the feed-forward; the defaults are gelu and 4 * d_model. Activation is the last argument."""
    width, x = n.H * n.d_head, block_input(n, seed)
    words = ("gelu", "gelu_tanh", "relu")
    made = [module_pair(learner, reference, "PreNormBlock", width, n.H, n.d_ff, seed=seed, activation=word) for word in words]
    made.append(module_pair(learner, reference, "PreNormBlock", width, n.H, n.d_ff, "none", 0.0, "relu", seed=seed))
    got = [mine(2 * x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip((*words, "relu"), got, made):
        close(result, model(2 * x), f'the output with d_ff={n.d_ff} and activation="{word}"')
        compare_names_and_shapes(mine, values)


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_parts_and_names_of_a_pre_norm_block(learner, reference, n, seed):
    """Its parameters are those of ln1, attn, ln2 and ffn, and none is shared; the state dict has nothing else."""
    mine, model, values = block_pair(learner, reference, "PreNormBlock", n, seed)
    got = mine(block_input(n, seed))
    compare_names_and_shapes(mine, values)
    close(got, model(block_input(n, seed)), "the output")


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_invalid_arguments_raise_an_error(learner, reference, n, seed):
    """Heads that do not divide d_model, unknown `positions` or `activation`, and RoPE with an odd d_head are ValueErrors."""
    mine, model, _ = block_pair(learner, reference, "PreNormBlock", n, seed, positions="alibi", activation="relu")
    close(mine(block_input(n, seed)), model(block_input(n, seed)), 'the output with positions="alibi"')
    width = n.H * n.d_head
    x = tensor(seed, n.B, n.T, width + 1)
    refuses(lambda: learner.PreNormBlock(width + 1, n.H)(x), naming={"d_model": width + 1, "n_heads": n.H}, because="the width cannot be cut into equal heads")
    refuses(
        lambda: learner.PreNormBlock(width, n.H, positions="ropes")(block_input(n, seed)), naming={"positions": "ropes"}, because="this value of positions does not exist"
    )
    refuses(lambda: learner.PreNormBlock(width, n.H, activation="elu")(block_input(n, seed)), naming={"activation": "elu"}, because="there is no such activation")
    refuses(lambda: learner.PreNormBlock(3 * n.H, n.H, positions="rope")(x[:, :, :1].repeat(1, 1, 3 * n.H)), because="RoPE cannot pair 3 features")


@exercise("PreNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_dropout_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 in training, attention gives only W_out's bias and the feed-forward zeros; dropout never acts on the stream, and eval mode drops nothing."""
    mine, model, _ = block_pair(learner, reference, "PreNormBlock", n, seed, dropout=1.0)
    compare_full_dropout(mine, model, block_input(n, seed))


@exercise("PreNormBlock", weight=2)
def test_dropout_acts_on_attention_weights_and_on_the_feed_forward_output(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the given probability, and the others are scaled up."""
    sizes(B=400, T=1, H=2, d_head=2)
    x = tensor(3, 400, 1, 4)
    mine, model, values = module_pair(learner, reference, "PreNormBlock", 4, 2, seed=4, dropout=DROPOUT)
    listening, thinking = with_zero_output(values, "ffn"), with_zero_output(values, "attn")
    first, second = outputs_of_each(mine, (listening, thinking), x)
    compare_dropout(first, model, listening, "attn.W_out", head_slices(2, 2), x, where="the attention's weights")
    compare_dropout(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_a_pre_norm_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    compare_dtypes_and_devices(learner, *block_pair(learner, reference, "PreNormBlock", n, seed), block_input(n, seed))


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_rows_of_a_batch_are_computed_alone(learner, reference, n, seed):
    """Every sequence of a batch gets the same output as alone, in train mode and in eval mode."""
    mine, model, _ = block_pair(learner, reference, "PreNormBlock", n, seed)
    x, row = block_input(n, seed), seed % n.B
    together, alone = mine(x), mine.eval()(x[row : row + 1])
    close(together[row : row + 1], model(x[row : row + 1]), f"row {row} of the output")
    close(alone, model(x[row : row + 1]), f"the output of row {row} alone, in eval mode")


@exercise("PreNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=1)
def test_training_and_use_of_a_pre_norm_block_may_follow_one_another(learner, reference, n, seed):
    """Without gradient the output is the same; afterwards you can train the block, and then use it again with new parameters and longer input."""
    rounds = [[block_input(n, seed)], [tensor(seed, n.B, n.T + 2, n.H * n.d_head)]]
    mine, model, values = block_pair(learner, reference, "PreNormBlock", n, seed)
    compare_training_and_use(learner, mine, model, values, rounds, ["x"])


# ---- PostNormBlock


@exercise("PostNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=4)
def test_add_then_normalise_twice(learner, reference, n, seed):
    """The block computes ln1(x + attn(x)), then the same with ffn and ln2, starting from that result; a single position works too."""
    mine, model, _ = block_pair(learner, reference, "PostNormBlock", n, seed)
    x = block_input(n, seed)
    first, whole, view, alone = mine(x[:, :1]), mine(x), learner.bring(of_view)(mine, x), mine(x[:1])
    close(whole, model(x), "the output")
    close(first, model(x[:, :1]), "the output for one position")
    close(view, model(x), "the output for a view, such as a transposed tensor,")
    close(alone, model(x[:1]), "the output for a batch of one")


@exercise("PostNormBlock", weight=3)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_every_vector_leaves_normalised(learner, reference, n, seed):
    """As long as ln2's weights are 1 and its biases 0, every vector of the result has mean 0 and variance 1, even if both parts output zeros."""
    mine, model, values = block_pair(learner, reference, "PostNormBlock", n, seed)
    loads = [values, with_fresh_norm(values, "ln2"), with_zero_output(with_fresh_norm(values, "ln2"), "attn", "ffn")]
    full, usual, silent = outputs_of_each(mine, loads, 5 * block_input(n, seed))
    load(model, values)
    close(full, model(5 * block_input(n, seed)), "the output")
    check_rows_are_normalised(usual, "the output")
    load(model, loads[2])
    close(silent, model(5 * block_input(n, seed)), "the output when attention and feed-forward output zeros")


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_each_sum_has_its_own_norm(learner, reference, n, seed):
    """Attention reads the stream directly, and ln1 normalises the sum; the feed-forward reads that, and ln2 normalises the second sum."""
    mine, model, values = block_pair(learner, reference, "PostNormBlock", n, seed)
    compare_each_part_alone(mine, model, values, ("attn", "ffn"), block_input(n, seed))


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_later_tokens_change_no_earlier_output_of_a_post_norm_block(learner, reference, n, seed):
    """Another token at position t changes the outputs from t on, and none before."""
    mine, _, _ = block_pair(learner, reference, "PostNormBlock", n, seed)
    hears_only_the_past(mine, n, seed)


@exercise("PostNormBlock", weight=2)
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_gradients_of_a_post_norm_block(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model, _ = block_pair(learner, reference, "PostNormBlock", n, seed)
    compare_gradients(gradients(mine, block_input(n, seed)), gradients(model, block_input(n, seed)), ["x"])


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_positions_reach_the_attention_of_a_post_norm_block(learner, reference, n, seed):
    """positions="rope" and "alibi" act inside the attention, and "none" stays the default."""
    width, x = 2 * n.H * n.d_head, tensor(seed, n.B, n.T, 2 * n.H * n.d_head)
    made = [module_pair(learner, reference, "PostNormBlock", width, n.H, seed=seed, positions=word) for word in ("none", "rope", "alibi")]
    got = [mine(x) for mine, _, _ in made]
    for word, result, (_, model, _) in zip(("none", "rope", "alibi"), got, made):
        close(result, model(x), f'the output with positions="{word}"')


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_sizes_and_names_of_a_post_norm_block(learner, reference, n, seed):
    """`activation` and `d_ff` reach the feed-forward, and the parameters have the names and shapes of a PreNormBlock's."""
    x, words = block_input(n, seed), ("gelu_tanh", "relu")
    made = [module_pair(learner, reference, "PostNormBlock", n.H * n.d_head, n.H, n.d_ff, "alibi", 0.0, word, seed=seed) for word in words]
    got = [mine(2 * x) for mine, _, _ in made]
    for word, result, (mine, model, values) in zip(words, got, made):
        close(result, model(2 * x), f'the output with d_ff={n.d_ff} and activation="{word}"')
        compare_names_and_shapes(mine, values)


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_invalid_arguments_of_a_post_norm_block_raise_an_error(learner, reference, n, seed):
    """Heads that do not divide d_model, and unknown `positions` or `activation`, are ValueErrors that name them."""
    x, width = block_input(n, seed), n.H * n.d_head
    mine, model, _ = block_pair(learner, reference, "PostNormBlock", n, seed, positions="alibi", activation="relu")
    close(mine(x), model(x), 'the output with positions="alibi"')
    wide = tensor(seed, n.B, n.T, width + 1)
    refuses(lambda: learner.PostNormBlock(width + 1, n.H)(wide), naming={"d_model": width + 1, "n_heads": n.H}, because="the width cannot be cut into equal heads")
    refuses(lambda: learner.PostNormBlock(width, n.H, positions="ropes")(x), naming={"positions": "ropes"}, because="this value of positions does not exist")
    refuses(lambda: learner.PostNormBlock(width, n.H, activation="elu")(x), naming={"activation": "elu"}, because="there is no such activation")


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=3)
def test_dropout_of_a_post_norm_block_in_training_only(learner, reference, n, seed):
    """With dropout=1.0 in training, attention gives only W_out's bias and the feed-forward zeros; dropout never acts on the stream, and eval mode drops nothing."""
    mine, model, _ = block_pair(learner, reference, "PostNormBlock", n, seed, dropout=1.0)
    compare_full_dropout(mine, model, block_input(n, seed))


@exercise("PostNormBlock")
def test_dropout_of_a_post_norm_block_on_weights_and_feed_forward_output(learner, reference):
    """Each weight of the attention and each number of the feed-forward's output is dropped with the given probability, and the others are scaled up."""
    sizes(B=400, T=1, H=2, d_head=2)
    x = tensor(5, 400, 1, 4)
    mine, model, values = module_pair(learner, reference, "PostNormBlock", 4, 2, seed=6, dropout=DROPOUT)
    listening, thinking = with_zero_output(values, "ffn"), with_zero_output(values, "attn")
    first, second = outputs_of_each(mine, (listening, thinking), x)
    compare_dropout(first, model, listening, "attn.W_out", head_slices(2, 2), x, where="the attention's weights")
    compare_dropout(second, model, thinking, "ffn.down", range(4), x, where="the numbers of the feed-forward's output")


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=2)
def test_dtype_and_device_of_a_post_norm_block(learner, reference, n, seed):
    """In float64 and bfloat16 the output has the dtype of x, and the block works on any device."""
    compare_dtypes_and_devices(learner, *block_pair(learner, reference, "PostNormBlock", n, seed), block_input(n, seed))


@exercise("PostNormBlock")
@given(n=stream, seed=seeds)
@settings(max_examples=1)
def test_training_and_use_of_a_post_norm_block_may_follow_one_another(learner, reference, n, seed):
    """Without gradient the output is the same; afterwards you can train the block, and then use it again with new parameters and longer input."""
    rounds = [[block_input(n, seed)], [tensor(seed, n.B, n.T + 2, n.H * n.d_head)]]
    mine, model, values = block_pair(learner, reference, "PostNormBlock", n, seed, positions="alibi")
    compare_training_and_use(learner, mine, model, values, rounds, ["x"])
