"""Chapter 3, first part: softmax, the masks, attention itself, and heads. The modules with several heads are in test_ch03_attention_heads.py."""

import math

import torch
from grader.comparing import close, holds, refuses, same, sizes
from grader.door.near import gradients, load, parameters, randomise
from grader.marks import exercise
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=3)  # for laws that a mistake breaks at every example: more would only take time


def some(seed, *shape):
    """A mask with both True and False in every row."""
    x = tensor(seed + 101, *shape)
    return ((x > 0) | (x == x.amax(-1, keepdim=True))) & (x != x.amin(-1, keepdim=True))


def same_gradient(got, expected, what, tol=None):
    holds(got is not None, f"no gradient reaches {what}: somewhere the result is cut off from it")
    close(got, expected, f"the gradient of {what}", tol)


# ---- softmax


@exercise("softmax", weight=3)
@given(n=distinct("T", "V"), seed=seeds)
def test_weights_are_exponentials_over_their_sum(learner, reference, n, seed):
    """Each weight is e^x divided by the sum of e^x along the last axis, so that every row sums to 1."""
    x = tensor(seed, n.T, n.V, scale=2.0)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("B", "T", "V", least=1), dim=st.sampled_from([-1, 0, 1, 2, -2, -3]), seed=seeds)
def test_dim_chooses_the_axis_that_sums_to_one(learner, reference, n, dim, seed):
    """The slices that sum to 1 lie along `dim`, whichever axis that is; without it along the last, however many there are."""
    x = tensor(seed, n.B, n.T, n.V, scale=2.0)
    got = learner.softmax(x, dim=dim), learner.softmax(x)
    close(got[0], reference.softmax(x, dim=dim), f"the tensor of weights along dim={dim}")
    close(got[1], reference.softmax(x), "the tensor of weights where dim is not given")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_a_large_number_added_to_a_slice_changes_nothing(learner, reference, n, seed):
    """Rows around 10000 and rows around -10000, in one tensor, each get the weights of their differences."""
    x = tensor(seed, n.T, n.V, scale=2.0) + 1e4 * torch.cos(math.pi * torch.arange(n.T))[:, None]
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_scores_far_apart_in_one_slice(learner, reference, n, seed):
    """In a row with scores of 10000 and of -10000 all weight goes to the largest, and nothing overflows."""
    x = tensor(seed, n.T, n.V, scale=1e4)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_minus_infinity_gets_no_weight(learner, reference, n, seed):
    """An entry of -inf gets weight 0, and the others share what there is."""
    x = tensor(seed, n.T, n.V, scale=2.0).masked_fill(~some(seed, n.T, n.V), -math.inf)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_a_slice_of_nothing_but_minus_infinity_gives_zeros(learner, reference, n, seed):
    """A row of nothing but -inf gives zeros, not NaN, and leaves the other rows as they are."""
    x = tensor(seed, n.T, n.V, scale=2.0)
    x[seed % n.T] = -math.inf
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_gradient_of_softmax(learner, reference, n, seed):
    """The gradient is softmax's own, and finite also for a row of nothing but -inf."""
    x = tensor(seed, n.T, n.V, scale=2.0).masked_fill(~some(seed, n.T, n.V), -math.inf)
    x[seed % n.T] = -math.inf
    got, expected = gradients(learner.softmax, x), gradients(reference.softmax, x)
    close(got.output, expected.output, "the tensor of weights")
    same_gradient(got.inputs[0], expected.inputs[0], "x", tol=1e-3)


@exercise("softmax")
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_softmax_keeps_the_dtype(learner, reference, n, seed):
    """float64 in, float64 out; bfloat16 in, bfloat16 out."""
    x = tensor(seed, n.T, n.V, dtype=torch.float64)
    expected = reference.softmax(x)
    close(learner.softmax(x), expected, "the tensor of weights", tol=1e-5)
    close(learner.softmax(x.bfloat16()), expected.bfloat16(), "the tensor of weights", tol=5e-2)


# ---- causal_mask


@exercise("causal_mask", weight=2)
@given(T=st.integers(2, 7))
def test_a_query_sees_itself_and_what_came_before(learner, reference, T):
    """With as many keys as queries, query i may attend to the keys 0 to i, and to none after it."""
    sizes(T=T)
    same(learner.causal_mask(T), reference.causal_mask(T), "the mask")


@exercise("causal_mask", weight=3)
@given(q_len=st.integers(2, 4), earlier=st.integers(1, 4))
def test_with_more_keys_the_queries_are_the_last_positions(learner, reference, q_len, earlier):
    """With k_len keys the queries stand at the end: the last one sees every key, and all see the keys that came before."""
    sizes(q_len=q_len, k_len=q_len + earlier)
    same(learner.causal_mask(q_len, q_len + earlier), reference.causal_mask(q_len, q_len + earlier), "the mask")


@exercise("causal_mask")
@few
@given(n=distinct("q_len", "k_len", k_len=(8, 11)))
def test_a_mask_is_the_last_rows_of_a_longer_one(learner, reference, n):
    """causal_mask(q_len, k_len) is made of the last q_len rows of causal_mask(k_len)."""
    whole = learner.causal_mask(n.k_len, k_len=n.k_len)
    same(whole, reference.causal_mask(n.k_len), f"the mask for {n.k_len} queries and k_len={n.k_len}")
    same(learner.causal_mask(q_len=n.q_len, k_len=n.k_len), whole[-n.q_len :], "the mask of the last positions")
    same(learner.causal_mask(1, n.k_len), whole[-1:], "the mask of the last position alone")


# ---- padding_mask


def padded(seed, B, T, pad_id):
    """Ids with filling on the right of the first row, on the left of the second, and nothing else in the third."""
    ids = token_ids(seed, B, T, vocab=9)
    ids = torch.where(ids == pad_id, 9, ids)
    cut = 1 + seed % (T - 1)
    ids[0, cut:] = pad_id
    ids[1, :cut] = pad_id
    if B > 2:
        ids[2] = pad_id
    return ids


@exercise("padding_mask", weight=2)
@given(n=distinct("B", "T"), seed=seeds)
def test_real_tokens_are_true_and_padding_is_false(learner, reference, n, seed):
    """The mask (B, 1, 1, T) is True at real tokens and False at padding, on whichever side that stands."""
    ids = padded(seed, n.B, n.T, 0)
    same(learner.padding_mask(ids, 0), reference.padding_mask(ids, 0), "the mask")


@exercise("padding_mask", weight=2)
@given(n=distinct("B", "T"), pad_id=st.integers(1, 8), seed=seeds)
def test_padding_is_the_id_that_was_given(learner, reference, n, pad_id, seed):
    """Padding is `pad_id`, whichever id that is; smaller ids, 0 too, are real tokens."""
    ids = padded(seed, n.B, n.T, pad_id)
    same(learner.padding_mask(ids, pad_id), reference.padding_mask(ids, pad_id), "the mask")
    same(learner.padding_mask(ids, pad_id=9), reference.padding_mask(ids, 9), "the mask for another pad_id")


@exercise("padding_mask")
@given(n=distinct("B", "H", "T"), seed=seeds)
def test_the_mask_fits_every_head_and_every_query(learner, reference, n, seed):
    """Laid over scores (B, H, T, T), the mask takes the same keys from every head and every query of a text."""
    ids, scores = padded(seed, n.B, n.T, 3), torch.zeros(n.B, n.H, n.T, n.T)
    mask = learner.padding_mask(ids, 3)
    same(mask, reference.padding_mask(ids, 3), "the mask")
    same(torch.where(mask, scores, 1.0), (ids == 3).float()[:, None, None, :].expand_as(scores), "what the mask leaves out")


# ---- scaled_dot_product_attention


def qkv(seed, n, scale=1.6, lead=2):
    """Queries, keys and values with `lead` axes in front, scores sharp enough to matter."""
    front = (n.B, n.H)[:lead]
    sizes(**{axis: None for axis in ("B", "H")[lead:]})
    return (
        tensor(seed, *front, n.Tq, n.d, scale=scale),
        tensor(seed + 1, *front, n.Tk, n.d, scale=scale),
        tensor(seed + 2, *front, n.Tk, n.d_v),
    )


attention_sizes = distinct("B", "H", "Tq", "Tk", "d", "d_v", B=(1, 3), H=(1, 4), Tq=(3, 9))


def both(result):
    holds(
        isinstance(result, tuple | list) and len(result) == 2,
        "scaled_dot_product_attention should return two tensors: the output and the weights",
    )
    return result


def same_attention(got, expected, tol=None):
    output, weights = both(got)
    close(weights, expected[1], "the tensor of weights", tol)
    close(output, expected[0], "the output", tol)


@exercise("scaled_dot_product_attention", weight=4)
@given(n=attention_sizes, lead=st.integers(0, 2), seed=seeds)
def test_each_query_averages_the_values_by_how_well_keys_match(learner, reference, n, lead, seed):
    """The weights are softmax(q k^T / sqrt(d)) over the keys, and the output is the values mixed by them."""
    q, k, v = qkv(seed, n, lead=lead)
    same_attention(learner.scaled_dot_product_attention(q, k, v), reference.scaled_dot_product_attention(q, k, v))


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_equal_values_come_back_unchanged(learner, reference, n, seed):
    """Where all keys carry the same value, every query gets just that value: a row of weights sums to 1."""
    q, k, _ = qkv(seed, n)
    v = tensor(seed, n.B, n.H, 1, n.d_v).expand(-1, -1, n.Tk, -1)
    mask = some(seed, n.Tq, n.Tk)
    output, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    close(output, v[:, :, :1].expand(-1, -1, n.Tq, -1), "the output")


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_the_order_of_keys_does_not_matter(learner, reference, n, seed):
    """Keys and values moved together to other places give the same output."""
    q, k, v = qkv(seed, n)
    order = tensor(seed, n.Tk).argsort()
    output, _ = both(learner.scaled_dot_product_attention(q, k[:, :, order], v[:, :, order]))
    close(output, reference.scaled_dot_product_attention(q, k, v)[0], "the output")


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_large_scores_do_not_overflow(learner, reference, n, seed):
    """Scores in the hundreds give sharp weights, not NaN."""
    q, k, v = qkv(seed, n, scale=12.0)
    same_attention(learner.scaled_dot_product_attention(q, k, v), reference.scaled_dot_product_attention(q, k, v), tol=1e-3)


@exercise("scaled_dot_product_attention", weight=4)
@given(n=attention_sizes, shape=st.sampled_from(["Tq Tk", "B 1 1 Tk", "B 1 Tq Tk", "B H Tq Tk"]), seed=seeds)
def test_masked_keys_get_no_weight(learner, reference, n, shape, seed):
    """Where the mask is False a key gets no weight, and the keys that are left share all of it; any mask that broadcasts will do."""
    q, k, v = qkv(seed, n)
    mask = some(seed, *[1 if axis == "1" else getattr(n, axis) for axis in shape.split()])
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask)
    same_attention(got, reference.scaled_dot_product_attention(q, k, v, mask=mask))


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=distinct("B", "H", "d", "d_v", T=(3, 7)), seed=seeds)
def test_a_future_token_changes_no_earlier_output(learner, reference, n, seed):
    """Under a causal mask, another key and value at position t leaves every output before t as it was, and is heard from t on."""
    n.Tq = n.Tk = n.T
    q, k, v = qkv(seed, n)
    mask, t = reference.causal_mask(n.T), 1 + seed % (n.T - 1)
    before, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    k[:, :, t], v[:, :, t] = v.new_tensor(2.0), v.new_tensor(3.0)
    after, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    close(after, reference.scaled_dot_product_attention(q, k, v, mask)[0], "the output after the change")
    close(after[:, :, :t], before[:, :, :t], f"the output before position {t}, once that token has changed,")


def a_bias(seed, n, shape):
    return tensor(seed + 3, *[getattr(n, axis) for axis in shape.split()], scale=2.0)


bias_shapes = st.sampled_from(["Tq Tk", "H Tq Tk", "B H Tq Tk"])


@exercise("scaled_dot_product_attention", weight=1)
@given(n=attention_sizes, shape=bias_shapes, seed=seeds)
def test_bias_is_added_to_the_scaled_scores(learner, reference, n, shape, seed):
    """`bias` is added to the scores after they are scaled."""
    q, k, v = qkv(seed, n, scale=1.2)
    bias = a_bias(seed, n, shape)
    same_attention(learner.scaled_dot_product_attention(q, k, v, bias=bias), reference.scaled_dot_product_attention(q, k, v, bias=bias))


@exercise("scaled_dot_product_attention", weight=1)
@given(n=attention_sizes, shape=bias_shapes, seed=seeds)
def test_bias_and_mask_work_together(learner, reference, n, shape, seed):
    """With a bias and a mask, the bias is added to the scaled scores, and then masked keys are left out."""
    q, k, v = qkv(seed, n, scale=1.2)
    bias, mask = a_bias(seed, n, shape), some(seed, n.B, 1, n.Tq, n.Tk)
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    same_attention(got, reference.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias))


@exercise("scaled_dot_product_attention", weight=2)
@given(n=attention_sizes, seed=seeds)
def test_a_query_whose_keys_are_all_masked_gets_zeros(learner, reference, n, seed):
    """A query that may attend to nothing has weights and output of zero, and the other queries are as ever."""
    q, k, v = qkv(seed, n)
    mask = some(seed, n.B, 1, n.Tq, n.Tk)
    mask[seed % n.B, :, seed % n.Tq] = False
    same_attention(learner.scaled_dot_product_attention(q, k, v, mask), reference.scaled_dot_product_attention(q, k, v, mask))


def dead_rows(seed, n):
    """A mask and a bias: one query has all its keys biased to -inf, the next one all those that its mask allows."""
    mask, bias = some(seed, n.B, 1, n.Tq, n.Tk), tensor(seed + 3, n.H, n.Tq, n.Tk)
    row = seed % n.Tq
    mask[:, :, row] = True
    bias[:, row] = -math.inf
    following = (row + 1) % n.Tq
    mask[:, :, following] = some(seed, n.Tk)
    bias[:, following] = bias[:, following].masked_fill(some(seed, n.Tk), -math.inf)
    return mask, bias


@exercise("scaled_dot_product_attention", weight=2)
@given(n=attention_sizes, seed=seeds)
def test_a_query_biased_away_from_every_key_gets_zeros(learner, reference, n, seed):
    """A query whose keys are all biased to -inf, or all that its mask leaves, has weights and output of zero, never NaN."""
    q, k, v = qkv(seed, n)
    mask, bias = dead_rows(seed, n)
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    same_attention(got, reference.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias))


def the_weights(attention, q, k, v, mask, bias):
    return attention(q, k, v, mask, bias)[1]


@exercise("scaled_dot_product_attention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_gradients_of_attention(learner, reference, n, seed):
    """Queries, keys, values and bias get the right gradient, through the output and through the weights, finite also where a query may attend to nothing."""
    q, k, v = qkv(seed, n, scale=1.2)
    mask, bias = dead_rows(seed, n)
    mask[0, :, (seed + 2) % n.Tq] = False
    got = gradients(learner.scaled_dot_product_attention, q, k, v, mask, bias)
    expected = gradients(reference.scaled_dot_product_attention, q, k, v, mask, bias)
    same_attention(got.output, expected.output)
    for i, name in ((0, "q"), (1, "k"), (2, "v"), (4, "bias")):
        same_gradient(got.inputs[i], expected.inputs[i], name, tol=1e-3)
    got, expected = (gradients(side.bring(the_weights), side.scaled_dot_product_attention, q, k, v, mask, bias) for side in (learner, reference))
    for i, name in ((1, "q"), (2, "k"), (5, "bias")):
        same_gradient(got.inputs[i], expected.inputs[i], f"{name} through the weights", tol=1e-3)


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_attention_keeps_the_dtype(learner, reference, n, seed):
    """float64 in, float64 out; bfloat16 in, bfloat16 out; with a mask too."""
    q, k, v = (x.double() for x in qkv(seed, n, scale=1.0))
    mask = some(seed, n.Tq, n.Tk)
    expected = reference.scaled_dot_product_attention(q, k, v, mask)
    same_attention(learner.scaled_dot_product_attention(q, k, v, mask), expected, tol=1e-5)
    got = learner.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)
    same_attention(got, tuple(x.bfloat16() for x in expected), tol=8e-2)


# ---- split_heads and merge_heads


def numbered(*shape):
    """0, 1, 2, ... in this shape: where a number went can be read off."""
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)


head_shapes = distinct("B", "H", "T", "d_head", least=1)


@exercise("split_heads", weight=3)
@given(n=head_shapes)
def test_head_h_gets_its_own_block_of_features(learner, reference, n):
    """Head h holds the features from h * d_head up to (h + 1) * d_head, for every position."""
    x = numbered(n.B, n.T, n.H * n.d_head)
    close(learner.split_heads(x, n.H), reference.split_heads(x, n.H), "the tensor of heads")


@exercise("split_heads")
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_one_head_and_heads_of_one_feature(learner, reference, n, seed):
    """One head holds everything; as many heads as features hold one each."""
    x = tensor(seed, n.B, n.T, n.D)
    close(learner.split_heads(x, 1), x[:, None], "the single head")
    close(learner.split_heads(x, n.D), x.transpose(1, 2)[..., None], "the tensor of heads of one feature each")


@exercise("split_heads", weight=2)
@given(n=distinct("B", "T", "d_head", H=(2, 5)), seed=seeds)
def test_heads_that_do_not_divide_the_features_are_refused(learner, reference, n, seed):
    """When n_heads does not divide D, split_heads raises a ValueError that names both numbers."""
    good, D = tensor(seed, n.B, n.T, n.H * n.d_head), n.H * n.d_head + 1
    close(learner.split_heads(good, n.H), reference.split_heads(good, n.H), "the tensor of heads")
    because = f"{D} features cannot be cut into {n.H} equal heads"
    refuses(lambda: learner.split_heads(tensor(seed, n.B, n.T, D), n.H), naming=(D, n.H), because=because)


@exercise("split_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_gradient_and_dtype_of_split_heads(learner, reference, n, seed):
    """Every number goes to one place, and its gradient comes back from there; float64 stays float64."""
    x = tensor(seed, n.B, n.T, n.H * n.d_head, dtype=torch.float64)
    got, expected = gradients(learner.split_heads, x, n.H), gradients(reference.split_heads, x, n.H)
    close(got.output, expected.output, "the tensor of heads")
    same_gradient(got.inputs[0], expected.inputs[0], "x")


@exercise("merge_heads", weight=3)
@given(n=head_shapes)
def test_heads_stand_side_by_side_at_each_position(learner, reference, n):
    """Position t gets the features of head 0 at t, then those of head 1 at t, and so on."""
    x = numbered(n.B, n.H, n.T, n.d_head)
    close(learner.merge_heads(x), reference.merge_heads(x), "the merged tensor")


@exercise("merge_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_merging_undoes_splitting(learner, reference, n, seed):
    """What split_heads cut, merge_heads puts together again, number for number."""
    x = tensor(seed, n.B, n.T, n.H * n.d_head)
    close(learner.merge_heads(reference.split_heads(x, n.H)), x, "what was split and merged")


@exercise("merge_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_gradient_and_dtype_of_merge_heads(learner, reference, n, seed):
    """Every number goes to one place, and its gradient comes back from there; float64 stays float64."""
    x = tensor(seed, n.B, n.H, n.T, n.d_head, dtype=torch.float64)
    got, expected = gradients(learner.merge_heads, x), gradients(reference.merge_heads, x)
    close(got.output, expected.output, "the merged tensor")
    same_gradient(got.inputs[0], expected.inputs[0], "x")


# ---- SelfAttentionHead


def two_heads(learner, reference, n, seed):
    """The learner's head and ours with the same random weights, large enough for sharp attention."""
    mine, ours = learner.SelfAttentionHead(n.d_model, n.d_head), reference.SelfAttentionHead(n.d_model, n.d_head)
    load(mine, randomise(ours, seed, scale=2.0))
    return mine, ours


head_sizes = distinct("B", "T", "d_model", "d_head", B=(1, 3))


@exercise("SelfAttentionHead", weight=3)
@given(n=head_sizes, seed=seeds)
def test_one_head_attends_to_the_whole_sequence(learner, reference, n, seed):
    """Every position attends to every position, those before it and those after; with the same weights the output is that of the formula."""
    mine, ours = two_heads(learner, reference, n, seed)
    x = tensor(seed, n.B, n.T, n.d_model)
    close(mine(x), ours(x), "the output")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_one_projection_without_bias(learner, reference, n, seed):
    """The head has one parameter, qkv.weight (3 * d_head, d_model); with all of it random, sequences of a batch do not mix."""
    mine, ours = learner.SelfAttentionHead(n.d_model, n.d_head), reference.SelfAttentionHead(n.d_model, n.d_head)
    shapes = {name: tuple(value.shape) for name, value in parameters(mine).items()}
    same(shapes, {"qkv.weight": (3 * n.d_head, n.d_model)}, "the dict of parameters and their shapes")
    load(ours, randomise(mine, seed, scale=2.0))
    x = tensor(seed, n.B, n.T, n.d_model)
    close(mine(x[:1]), ours(x)[:1], "the output for the first sequence alone")


@exercise("SelfAttentionHead", weight=2)
@given(n=head_sizes, seed=seeds)
def test_rows_of_qkv_are_queries_then_keys_then_values(learner, reference, n, seed):
    """With the rows of queries and keys zero all scores are equal: each position gets the mean of the values, made by the last rows."""
    mine = learner.SelfAttentionHead(n.d_model, n.d_head)
    W_v = tensor(seed + 1, n.d_head, n.d_model)
    load(mine, {"qkv.weight": torch.cat([torch.zeros(2 * n.d_head, n.d_model), W_v])})
    x = tensor(seed, n.B, n.T, n.d_model)
    close(mine(x), (x @ W_v.T).mean(1, keepdim=True).expand(-1, n.T, -1), "the output")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_moving_positions_moves_the_outputs_with_them(learner, reference, n, seed):
    """Positions in another order give the same outputs in that order: a head alone knows nothing of order."""
    mine, ours = two_heads(learner, reference, n, seed)
    x, order = tensor(seed, n.B, n.T, n.d_model), tensor(seed, n.T).argsort()
    close(mine(x[:, order]), ours(x)[:, order], "the output for the moved positions")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_gradients_and_dtype_of_a_head(learner, reference, n, seed):
    """The input and qkv.weight get the right gradient; in float64 the head works in float64."""
    mine, ours = two_heads(learner, reference, n, seed)
    x = tensor(seed, n.B, n.T, n.d_model)
    got, expected = gradients(mine, x), gradients(ours, x)
    close(got.output, expected.output, "the output")
    same_gradient(got.inputs[0], expected.inputs[0], "x")
    same_gradient(got.parameters["qkv.weight"], expected.parameters["qkv.weight"], "qkv.weight")
    close(mine.double()(x.double()), ours.double()(x.double()), "the output in float64", tol=1e-5)
