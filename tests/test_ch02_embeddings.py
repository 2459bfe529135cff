"""Chapter 2, first part: vectors that are learned, of tokens and of positions. Sinusoidal positions are in test_ch02_embeddings_positions.py."""

import math

import torch
from devices_and_dtypes import runs_on_second_device
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import given, settings
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

table_sizes = distinct("B", "T", "D", max_len=(8, 11))
TOO_LONG = "position {end - 1} is not in a table of max_len = {max_len}"


def ids_of(seed, n):
    """Ids (B, T) with the first and the last of the vocabulary, and one id in two places."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    ids[0, 0], ids[-1, -1], ids[-1, 0] = 0, n.V - 1, ids[0, 1]
    return ids


def filled(module, weight):
    load(module, {"weight": weight})
    return module


# ---- TokenEmbedding


@exercise("TokenEmbedding", weight=3)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_each_id_becomes_its_row_of_the_table(learner, n, seed):
    """The vector at [b, t] is row ids[b, t] of `weight`, unchanged when scale is False."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    close(filled(learner.TokenEmbedding(n.V, n.D), weight)(ids), weight[ids], "the vectors")
    close(filled(learner.TokenEmbedding(n.V, n.D, scale=False), weight)(ids), weight[ids], "the vectors with scale=False")
    low = ids.clamp(max=n.V - 3)
    close(filled(learner.TokenEmbedding(n.V, n.D), weight)(low), weight[low], "the vectors of ids that are all smaller than the largest of the table")


@exercise("TokenEmbedding", weight=3)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_scale_multiplies_by_the_root_of_d_model(learner, n, seed):
    """With scale=True every vector is its row times sqrt(d_model), so that it stays large enough next to the positions."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    module = filled(learner.TokenEmbedding(vocab_size=n.V, d_model=n.D, scale=True), weight)
    close(module(ids), weight[ids] * math.sqrt(n.D), "the scaled vectors")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_the_only_parameter_is_weight(learner, n, seed):
    """The table is a parameter `weight` of shape (vocab_size, d_model), and nothing else is trained or saved."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    module = filled(learner.TokenEmbedding(n.V, n.D), weight)
    close(module(ids), weight[ids], "the vectors")
    same(sorted(parameters(module)), ["weight"], "the list of parameters")
    same(sorted(state(module)), ["weight"], "the list of names in the state dict")


def beginnings(module, ids):
    """The shape of a new module's vectors for these ids, whether they are finite, and whether they all differ."""
    vectors = module(ids)
    apart = (vectors[0, :, None] - vectors[0]).abs().amax(-1) + torch.eye(ids.size(1))
    return list(vectors.shape), bool(vectors.isfinite().all()), bool((apart > 1e-6).all())


@exercise("TokenEmbedding")
@given(n=distinct("D", V=(8, 12)))
def test_new_vectors_differ_between_tokens(learner, n):
    """In a new module the vectors are finite and differ from token to token; another new module starts with other numbers."""
    module = learner.TokenEmbedding(n.V, n.D)
    shape, finite, different = learner.bring(beginnings)(module, torch.arange(n.V)[None])
    same(shape, [1, n.V, n.D], "the shape of the vectors")
    one, other = parameters(module).get("weight"), parameters(learner.TokenEmbedding(n.V, n.D)).get("weight")
    holds(not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and torch.equal(one, other)), "two new modules start with the same numbers; their initial values should be random")
    holds(finite, "a new table contains numbers that are not finite")
    holds(different, "two tokens start with the same vector; use random initial values, so that the tokens can be distinguished")


@exercise("TokenEmbedding", weight=2)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_only_looked_up_rows_learn(learner, n, seed):
    """Row i of `weight` gets the summed gradient of all places with id i, and no gradient if there are none."""
    ids, weight, cotangent = ids_of(seed, n), tensor(seed, n.V, n.D), tensor(seed + 1, n.B, n.T, n.D)
    for scale, factor in ((False, 1.0), (True, math.sqrt(n.D))):
        module = filled(learner.TokenEmbedding(n.V, n.D, scale), weight)
        found = gradients(module, ids, cotangent=cotangent)
        close(found.output, weight[ids] * factor, "the vectors")
        expected = torch.zeros(n.V, n.D).index_add(0, ids.flatten(), cotangent.flatten(0, 1) * factor)
        close(found.parameters.get("weight"), expected, f"the gradient of `weight` with scale={scale}")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_permuted_ids_give_permuted_vectors(learner, n, seed):
    """A vector depends on its id alone: permuting the ids permutes the vectors. A single id has a vector, too, and ids may be a view (not contiguous)."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    order = torch.arange(n.T).roll(1).flip(0)
    module = filled(learner.TokenEmbedding(n.V, n.D), weight)
    vectors = shaped(module(ids), (n.B, n.T, n.D), "the vectors")
    close(vectors[0, 0], weight[0], "the vector of id 0")
    close(module(ids[:, order]), vectors[:, order], "the vectors of the permuted ids")
    close(module(ids[:1, :1]), vectors[:1, :1], "the vectors (1, 1, D) of a single id")
    close(learner.bring(of_view)(module, ids), vectors, "the vectors of ids that are a view, not contiguous in memory,")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_a_lookup_does_not_change_the_table(learner, n, seed):
    """Two calls with the same ids give the same vectors, and `weight` does not change."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    module = filled(learner.TokenEmbedding(n.V, n.D, scale=True), weight)
    for call in ("first", "second"):
        close(module(ids), weight[ids] * math.sqrt(n.D), f"the result of the {call} call")
    close(parameters(module)["weight"], weight, "`weight` after two calls")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_vectors_have_the_dtype_and_device_of_the_table(learner, n, seed):
    """After .double() or .bfloat16() the vectors are of that dtype, in float64 with all their digits, and the module works on any device."""
    ids, exact = ids_of(seed, n), tensor(seed, n.V, n.D, dtype=torch.float64)
    close(filled(learner.TokenEmbedding(n.V, n.D).double(), exact)(ids), exact[ids], "the vectors in float64", tol=1e-12)
    for dtype, tol in ((torch.float64, 1e-6), (torch.bfloat16, 3e-2)):
        weight = tensor(seed, n.V, n.D, dtype=dtype)
        module = filled(learner.TokenEmbedding(n.V, n.D, scale=True).to(dtype), weight)
        close(module(ids), weight[ids] * math.sqrt(n.D), f"the vectors in {str(dtype).removeprefix('torch.')}", tol)
    works = learner.bring(runs_on_second_device)(learner.TokenEmbedding(n.V, n.D), ids)
    holds(works, "the module fails on another device than the CPU: make new tensors with device=ids.device")


@exercise("TokenEmbedding")
@settings(max_examples=1)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_use_and_training_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the vectors are the same; you can train the module in between, and it always uses the present table."""
    mine, model = (side.TokenEmbedding(n.V, n.D, scale=True) for side in (learner, reference))
    rounds = [({"weight": tensor(seed + i, n.V, n.D)}, [ids_of(seed + i, n)]) for i in range(2)]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["ids"], "the vectors")


# ---- LearnedPositions


@exercise("LearnedPositions", weight=3)
@given(n=table_sizes, seed=seeds)
def test_position_t_gets_row_t(learner, n, seed):
    """Row t of `weight` is added to position t of every sequence of the batch."""
    x, weight = tensor(seed, n.B, n.T, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    close(module(x), x + weight[: n.T], "x with its positions")


@exercise("LearnedPositions")
@given(n=table_sizes, seed=seeds)
def test_the_same_token_differs_at_two_places(learner, n, seed):
    """The same vector at every position gives a different result at each position, and the same in every sequence."""
    token, weight = tensor(seed, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    result = shaped(module(token.expand(n.B, n.T, n.D).clone()), (n.B, n.T, n.D))
    close(result[:, 1:] - result[:, :-1], (weight[1 : n.T] - weight[: n.T - 1]).expand(n.B, -1, -1), "the difference between neighbouring positions")
    close(result, result[:1].expand(n.B, -1, -1), "every sequence, compared with the first")
    close(module.eval()(token.expand(n.B, n.T, n.D).clone()), result, "the result in eval mode")


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_start_names_the_first_row(learner, n, seed):
    """With `start` the rows start ... start + T - 1 are added, the rows that the same tokens get at the end of a longer sequence."""
    start = 1 + seed % (n.max_len - n.T)
    sizes(start=start)
    longer, weight = tensor(seed, n.B, start + n.T, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    end = longer[:, start:].clone()
    close(module(end, start=start), end + weight[start : start + n.T], "x with its positions")
    close(module(longer)[:, start:], module(end, start), "the end of the longer sequence")


@exercise("LearnedPositions")
@given(n=table_sizes, seed=seeds)
def test_the_whole_table_can_be_used(learner, n, seed):
    """A sequence of max_len vectors fits, and so does a shorter one that ends at the last row, even a single vector; x may be a view (not contiguous)."""
    x, weight = tensor(seed, n.B, n.max_len, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    close(module(x), x + weight, "x as long as the table")
    close(module(x[:, :1].clone(), start=n.max_len - 1), x[:, :1] + weight[-1:], "one vector at the last position")
    close(module(x[:1, :1].clone()), x[:1, :1] + weight[:1], "the vector (1, 1, D) of a batch of one")
    close(learner.bring(of_view)(module, x), x + weight, "x that is a view, not contiguous in memory, with its positions")


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_a_position_past_max_len_raises_an_error(learner, n, seed):
    """A position that has no row raises a ValueError that names max_len, whether T or `start` is too large."""
    weight = tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    x = tensor(seed, n.B, n.max_len + 1, n.D)
    close(module(x[:, 1:].clone()), x[:, 1:] + weight, "x as long as the table")
    why = "there is no such position in the table"
    refuses(lambda: module(x), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)
    refuses(lambda: module(x[:, :2].clone(), start=n.max_len - 1), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)
    refuses(lambda: module(x[:, :1].clone(), start=n.max_len), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_only_added_rows_learn(learner, n, seed):
    """Rows start ... start + T - 1 get the gradient summed over the batch, in eval mode too, the others none; x gets the gradient unchanged."""
    start = 1 + seed % (n.max_len - n.T)
    sizes(start=start)
    x, weight, cotangent = (tensor(seed + i, *shape) for i, shape in enumerate([(n.B, n.T, n.D), (n.max_len, n.D), (n.B, n.T, n.D)]))
    found = gradients(filled(learner.LearnedPositions(n.max_len, n.D), weight).eval(), x, cotangent=cotangent, start=start)
    with check:
        close(found.output, x + weight[start : start + n.T], "x with its positions")
    with check:
        close(found.inputs[0], cotangent, "the gradient of x")
    expected = torch.zeros(n.max_len, n.D)
    expected[start : start + n.T] = cotangent.sum(0)
    close(found.parameters.get("weight"), expected, "the gradient of `weight`")


@exercise("LearnedPositions")
@given(n=table_sizes, seed=seeds)
def test_the_only_parameter_of_positions_is_weight(learner, n, seed):
    """The table is a parameter `weight` of shape (max_len, d_model), and nothing else is trained or saved."""
    x, weight = tensor(seed, n.B, n.T, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(max_len=n.max_len, d_model=n.D), weight)
    close(module(x), x + weight[: n.T], "x with its positions")
    same(sorted(parameters(module)), ["weight"], "the list of parameters")
    same(sorted(state(module)), ["weight"], "the list of names in the state dict")


@exercise("LearnedPositions")
@given(n=table_sizes, seed=seeds)
def test_learned_positions_keep_dtype_and_device(learner, n, seed):
    """The result has the dtype of x, whatever the dtype of the table, with the digits of both, and the module works on any device. No call changes the table."""
    x, weight = tensor(seed, n.B, n.T, n.D, dtype=torch.float64), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    close(module(x), x + weight[: n.T], "x in float64 with its positions")
    close(module(x.bfloat16()), (x + weight[: n.T]).bfloat16(), "x in bfloat16 with its positions")
    close(module(x), x + weight[: n.T], "x in float64 with its positions, after a call in bfloat16,", tol=1e-12)
    exact = tensor(seed + 2, n.max_len, n.D, dtype=torch.float64)
    close(filled(module.double(), exact)(x), x + exact[: n.T], "x with the positions of a table in float64", tol=1e-12)
    holds(learner.bring(runs_on_second_device)(module, x), "the module fails on another device than the CPU: make new tensors with device=x.device")


@exercise("LearnedPositions")
@settings(max_examples=1)
@given(n=table_sizes, seed=seeds)
def test_use_and_training_of_positions_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the result is the same; you can train the module in between, and it always uses the present table."""
    mine, model = (side.LearnedPositions(n.max_len, n.D) for side in (learner, reference))
    rounds = [({"weight": tensor(seed + i, n.max_len, n.D)}, [tensor(seed + i, n.B, length, n.D)]) for i, length in enumerate((n.T, n.max_len))]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["x"], "x with its positions")
