"""Chapter 2: token vectors, learned positions, and positions made of waves."""

import math

import torch
from grader.comparing import close, holds, refuses, same, shaped, sizes
from grader.door.near import gradients, load, parameters, state
from grader.marks import exercise
from hypothesis import given
from strategies import distinct, seeds, tensor, token_ids

table_sizes = distinct("B", "T", "D", max_len=(8, 11))


def ids_of(seed, n):
    """Ids (B, T) with the first and the last of the vocabulary, and one id in two places."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    ids[0, 0], ids[-1, -1], ids[-1, 0] = 0, n.V - 1, ids[0, 1]
    return ids


def filled(module, weight):
    load(module, {"weight": weight})
    return module


def waves(max_len, d_model):
    """The definition, number by number in double precision."""
    rows = []
    for p in range(max_len):
        angles = [p / 10000 ** (column // 2 * 2 / d_model) for column in range(d_model)]
        rows.append([math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)])
    return torch.tensor(rows, dtype=torch.float64)


def works_elsewhere(module, x):
    """Does the module follow its input to another device? The meta device is asked only where nothing else tells: torch loads it slowly."""
    try:
        with torch.device("meta"):  # new tensors land there unless they are told where
            quick = module(x).device.type == "cpu"
    except (RuntimeError, NotImplementedError):
        quick = False
    module.to("meta")
    if quick and not any(isinstance(value, torch.Tensor) for value in vars(module).values()):
        return True
    try:
        return module(x.to("meta")).device.type == "meta"
    except (RuntimeError, NotImplementedError):
        return False


# ---- TokenEmbedding


@exercise("TokenEmbedding", weight=3)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_each_id_becomes_its_row_of_the_table(learner, n, seed):
    """The vector at [b, t] is row ids[b, t] of `weight`, unchanged when scale is False."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    close(filled(learner.TokenEmbedding(n.V, n.D), weight)(ids), weight[ids], "the vectors")
    close(filled(learner.TokenEmbedding(n.V, n.D, scale=False), weight)(ids), weight[ids], "the vectors with scale=False")


@exercise("TokenEmbedding", weight=2)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_scale_multiplies_by_the_root_of_d_model(learner, n, seed):
    """With scale=True every vector is its row times sqrt(d_model), so that small rows are not drowned by positions."""
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
    """The shape of a new module's vectors for these ids, whether they are finite, and whether no two are alike."""
    vectors = module(ids)
    apart = (vectors[0, :, None] - vectors[0]).abs().amax(-1) + torch.eye(ids.size(1))
    return list(vectors.shape), bool(vectors.isfinite().all()), bool((apart > 1e-6).all())


@exercise("TokenEmbedding")
@given(n=distinct("D", V=(8, 12)))
def test_no_two_tokens_begin_alike(learner, n):
    """In a new module the vectors are finite, and every token has another one."""
    module = learner.TokenEmbedding(n.V, n.D)
    shape, finite, different = learner.bring(beginnings)(module, torch.arange(n.V)[None])
    same(shape, [1, n.V, n.D], "the shape of the vectors")
    holds(finite, "a new table holds numbers that are not finite")
    holds(different, "two tokens begin with the same vector; start from random numbers, so that each can be told from the others")


@exercise("TokenEmbedding", weight=2)
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_only_looked_up_rows_learn(learner, n, seed):
    """Row i of `weight` gets the summed gradient of all places where id i stands, and no gradient where it stands nowhere."""
    ids, weight, cotangent = ids_of(seed, n), tensor(seed, n.V, n.D), tensor(seed + 1, n.B, n.T, n.D)
    for scale, factor in ((False, 1.0), (True, math.sqrt(n.D))):
        module = filled(learner.TokenEmbedding(n.V, n.D, scale), weight)
        found = gradients(module, ids, cotangent=cotangent)
        close(found.output, weight[ids] * factor, "the vectors")
        expected = torch.zeros(n.V, n.D).index_add(0, ids.flatten(), cotangent.flatten(0, 1) * factor)
        close(found.parameters.get("weight"), expected, f"the gradient of `weight` with scale={scale}")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_tokens_moved_to_other_places_take_their_vectors_along(learner, n, seed):
    """A vector depends on its id alone: permuting the ids permutes the vectors."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    order = torch.arange(n.T).roll(1).flip(0)
    module = filled(learner.TokenEmbedding(n.V, n.D), weight)
    vectors = shaped(module(ids), (n.B, n.T, n.D), "the vectors")
    close(vectors[0, 0], weight[0], "the vector of id 0")
    close(module(ids[:, order]), vectors[:, order], "the vectors of the permuted ids")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_looking_up_leaves_the_table_alone(learner, n, seed):
    """Two calls with the same ids give the same vectors, and `weight` is what it was."""
    ids, weight = ids_of(seed, n), tensor(seed, n.V, n.D)
    module = filled(learner.TokenEmbedding(n.V, n.D, scale=True), weight)
    for call in ("first", "second"):
        close(module(ids), weight[ids] * math.sqrt(n.D), f"the result of the {call} call")
    close(parameters(module)["weight"], weight, "`weight` after two calls")


@exercise("TokenEmbedding")
@given(n=distinct("B", "T", "D", V=(8, 12)), seed=seeds)
def test_vectors_have_the_dtype_and_device_of_the_table(learner, n, seed):
    """After .double() or .bfloat16() the vectors are of that dtype, and the module works on any device."""
    ids = ids_of(seed, n)
    for dtype, tol in ((torch.float64, 1e-6), (torch.bfloat16, 3e-2)):
        weight = tensor(seed, n.V, n.D, dtype=dtype)
        module = filled(learner.TokenEmbedding(n.V, n.D, scale=True).to(dtype), weight)
        close(module(ids), weight[ids] * math.sqrt(n.D), f"the vectors in {str(dtype).removeprefix('torch.')}", tol)
    works = learner.bring(works_elsewhere)(learner.TokenEmbedding(n.V, n.D), ids)
    holds(works, "the module fails on another device than the CPU: make new tensors with device=ids.device")


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
    """One and the same vector at every place comes out different at each, and alike in every sequence."""
    token, weight = tensor(seed, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    result = shaped(module(token.expand(n.B, n.T, n.D).clone()), (n.B, n.T, n.D))
    close(result[:, 1:] - result[:, :-1], (weight[1 : n.T] - weight[: n.T - 1]).expand(n.B, -1, -1), "the step from place to place")
    close(result, result[:1].expand(n.B, -1, -1), "every sequence beside the first")
    close(module.eval()(token.expand(n.B, n.T, n.D).clone()), result, "the result in eval mode")


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_start_names_the_first_row(learner, n, seed):
    """With `start` the rows start ... start + T - 1 are added: what the same tokens get at the end of a longer sequence."""
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
    """A sequence of max_len vectors fits, and so does a shorter one that ends at the last row."""
    x, weight = tensor(seed, n.B, n.max_len, n.D), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    close(module(x), x + weight, "x as long as the table")
    close(module(x[:, :1].clone(), start=n.max_len - 1), x[:, :1] + weight[-1:], "one vector at the last position")


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_a_position_past_max_len_is_refused(learner, n, seed):
    """A position that has no row is a ValueError that names max_len, whether T or `start` leads there."""
    weight = tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    x = tensor(seed, n.B, n.max_len + 1, n.D)
    close(module(x[:, 1:].clone()), x[:, 1:] + weight, "x as long as the table")
    why = "there is no such position in the table"
    refuses(lambda: module(x), naming=(n.max_len,), because=why)
    refuses(lambda: module(x[:, :2].clone(), start=n.max_len - 1), naming=(n.max_len,), because=why)
    refuses(lambda: module(x[:, :1].clone(), start=n.max_len), naming=(n.max_len,), because=why)


@exercise("LearnedPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_only_added_rows_learn(learner, n, seed):
    """Rows start ... start + T - 1 get the gradient summed over the batch, the others none; x gets the gradient as it is."""
    start = 1 + seed % (n.max_len - n.T)
    sizes(start=start)
    x, weight, cotangent = (tensor(seed + i, *shape) for i, shape in enumerate([(n.B, n.T, n.D), (n.max_len, n.D), (n.B, n.T, n.D)]))
    found = gradients(filled(learner.LearnedPositions(n.max_len, n.D), weight), x, cotangent=cotangent, start=start)
    close(found.output, x + weight[start : start + n.T], "x with its positions")
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
    """The result has the dtype of x, whatever the table's, and the module works on any device."""
    x, weight = tensor(seed, n.B, n.T, n.D, dtype=torch.float64), tensor(seed + 1, n.max_len, n.D)
    module = filled(learner.LearnedPositions(n.max_len, n.D), weight)
    close(module(x), x + weight[: n.T], "x in float64 with its positions")
    close(module(x.bfloat16()), (x + weight[: n.T]).bfloat16(), "x in bfloat16 with its positions")
    holds(learner.bring(works_elsewhere)(module, x), "the module fails on another device than the CPU: make new tensors with device=x.device")


# ---- sinusoidal_positions


@exercise("sinusoidal_positions", weight=3)
@given(n=distinct("max_len", "d_model", max_len=(3, 12), d_model=(3, 9)))
def test_every_entry_is_the_sine_or_cosine_of_its_angle(learner, n):
    """Entry [p, 2i] is sin(p * 10000^(-2i / d_model)) and entry [p, 2i + 1] the cosine of the same angle, in float32."""
    close(learner.sinusoidal_positions(n.max_len, n.d_model), waves(n.max_len, n.d_model).float(), "the table")


@exercise("sinusoidal_positions")
@given(n=distinct("max_len", "half", max_len=(2, 9), half=(1, 6)))
def test_position_zero_is_zeros_and_ones(learner, n):
    """Row 0 is 0, 1, 0, 1, ...: every angle begins at zero; row 1 begins with the sine and cosine of one radian."""
    table = shaped(learner.sinusoidal_positions(n.max_len, 2 * n.half), (n.max_len, 2 * n.half), "the table")
    close(table[0], torch.tensor([0.0, 1.0]).repeat(n.half), "row 0")
    close(table[1, :2], torch.tensor([math.sin(1), math.cos(1)]), "the first two entries of row 1")


@exercise("sinusoidal_positions")
@given(n=distinct("max_len", "pairs", max_len=(2, 9), pairs=(3, 9)))
def test_later_columns_turn_more_slowly(learner, n):
    """From one position to the next the first pair of columns turns by 1, and each later pair by 10000^(2 / d_model) times less."""
    table = shaped(learner.sinusoidal_positions(n.max_len, 2 * n.pairs), (n.max_len, 2 * n.pairs), "the table").double()
    turn = torch.atan2(table[1, 0::2], table[1, 1::2])
    close(turn[0].item(), 1.0, "the turn of the first pair")
    close(turn[1:] / turn[:-1], torch.full((n.pairs - 1,), 10000 ** (-1 / n.pairs)).double(), "how much slower each next pair turns", tol=1e-4)


@exercise("sinusoidal_positions", weight=2)
@given(n=distinct("p", "k", "pairs", p=(1, 40), k=(1, 40), pairs=(1, 6)))
def test_a_step_of_k_is_one_rotation(learner, n):
    """Row p + k is row p with each pair of columns turned by the angle of row k: a distance means the same everywhere."""
    width = 2 * n.pairs
    table = shaped(learner.sinusoidal_positions(n.p + n.k + 1, width), (n.p + n.k + 1, width), "the table").double()
    sine, cosine = table[:, 0::2], table[:, 1::2]
    close(sine**2 + cosine**2, torch.ones(n.p + n.k + 1, n.pairs).double(), "sine squared plus cosine squared", tol=1e-5)
    turned = sine[n.p] * cosine[n.k] + cosine[n.p] * sine[n.k], cosine[n.p] * cosine[n.k] - sine[n.p] * sine[n.k]
    close(sine[n.p + n.k], turned[0], "the even columns of row p + k", tol=2e-5)
    close(cosine[n.p + n.k], turned[1], "the odd columns of row p + k", tol=2e-5)


@exercise("sinusoidal_positions")
@given(n=distinct("short", "long", "d_model", short=(2, 6), long=(7, 20)))
def test_a_longer_table_begins_like_a_shorter_one(learner, n):
    """What row p holds does not depend on max_len."""
    short, long = (learner.sinusoidal_positions(rows, n.d_model) for rows in (n.short, n.long))
    close(shaped(long, (n.long, n.d_model), "the longer table")[1, 0].item(), math.sin(1), "entry [1, 0] of the longer table")
    close(short, long[: n.short], "the shorter table")


@exercise("sinusoidal_positions", weight=2)
@given(n=distinct("max_len", "pairs", max_len=(2, 9), pairs=(1, 6)))
def test_odd_d_model_ends_with_a_sine(learner, n):
    """With odd d_model the last column is a sine whose cosine has no room."""
    d_model = 2 * n.pairs + 1
    sizes(d_model=d_model)
    table = shaped(learner.sinusoidal_positions(n.max_len, d_model), (n.max_len, d_model), "the table")
    close(table, waves(n.max_len, d_model).float(), "the table")


@exercise("sinusoidal_positions")
@given(n=distinct("max_len", "d_model", max_len=(520, 600), d_model=(4, 12)))
def test_positions_far_out_are_still_exact(learner, n):
    """Past position 500 the entries are right to four decimals, as float32 allows."""
    table = shaped(learner.sinusoidal_positions(n.max_len, n.d_model), (n.max_len, n.d_model), "the table", torch.float32)
    close(table[500:], waves(n.max_len, n.d_model)[500:].float(), "the rows from 500 on", tol=1e-4)


# ---- SinusoidalPositions


@exercise("SinusoidalPositions", weight=3)
@given(n=table_sizes, seed=seeds)
def test_position_t_gets_wave_t(learner, n, seed):
    """Row t of the table of waves is added to position t of every sequence of the batch."""
    x = tensor(seed, n.B, n.T, n.D)
    close(learner.SinusoidalPositions(n.max_len, n.D)(x), x + waves(n.T, n.D).float(), "x with its positions")


@exercise("SinusoidalPositions")
@given(n=table_sizes)
def test_zeros_come_out_as_the_table(learner, n):
    """With x all zeros each sequence becomes the table's first T rows: nothing is scaled, and every place is another."""
    zeros, expected = torch.zeros(n.B, n.T, n.D), waves(n.T, n.D).float().expand(n.B, -1, -1)
    module = learner.SinusoidalPositions(n.max_len, n.D)
    close(module(zeros), expected, "zeros with their positions")
    close(module.eval()(zeros), expected, "zeros with their positions in eval mode")


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_start_names_the_first_wave(learner, n, seed):
    """With `start` the rows start ... start + T - 1 are added: what the same tokens get at the end of a longer sequence."""
    start = 1 + seed % (n.max_len - n.T)
    sizes(start=start)
    longer = tensor(seed, n.B, start + n.T, n.D)
    module = learner.SinusoidalPositions(max_len=n.max_len, d_model=n.D)
    end = longer[:, start:].clone()
    close(module(end, start=start), end + waves(n.max_len, n.D)[start : start + n.T].float(), "x with its positions")
    close(module(longer)[:, start:], module(end, start), "the end of the longer sequence")


@exercise("SinusoidalPositions")
@given(n=table_sizes, seed=seeds)
def test_the_whole_table_of_waves_can_be_used(learner, n, seed):
    """A sequence of max_len vectors fits, and so does a shorter one that ends at the last row."""
    x, table = tensor(seed, n.B, n.max_len, n.D), waves(n.max_len, n.D).float()
    module = learner.SinusoidalPositions(n.max_len, n.D)
    close(module(x), x + table, "x as long as the table")
    close(module(x[:, :1].clone(), start=n.max_len - 1), x[:, :1] + table[-1:], "one vector at the last position")


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_a_wave_past_max_len_is_refused(learner, n, seed):
    """A position that has no row is a ValueError that names max_len, whether T or `start` leads there."""
    module = learner.SinusoidalPositions(n.max_len, n.D)
    x = tensor(seed, n.B, n.max_len + 1, n.D)
    close(module(x[:, 1:].clone()), x[:, 1:] + waves(n.max_len, n.D).float(), "x as long as the table")
    why = "there is no such position in the table"
    refuses(lambda: module(x), naming=(n.max_len,), because=why)
    refuses(lambda: module(x[:, :2].clone(), start=n.max_len - 1), naming=(n.max_len,), because=why)
    refuses(lambda: module(x[:, :1].clone(), start=n.max_len), naming=(n.max_len,), because=why)


def what_it_keeps(module):
    """How many parameters ask for a gradient, how many do not, and how many tensors are saved; brought to the far side."""
    asks = [parameter.requires_grad for parameter in module.parameters()]
    return [sum(asks), len(asks) - sum(asks), len(module.state_dict())]


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_there_is_nothing_to_train_and_nothing_to_save(learner, n, seed):
    """The layer has no parameter, and its table is not in the state dict."""
    x = tensor(seed, n.B, n.T, n.D)
    module = learner.SinusoidalPositions(n.max_len, n.D)
    learning, frozen, saved = learner.bring(what_it_keeps)(module)
    close(module(x), x + waves(n.T, n.D).float(), "x with its positions")
    same(learning, 0, "the number of parameters that an optimizer will change")
    same(frozen, 0, "the number of frozen parameters")
    same(saved, 0, "the number of tensors in the state dict")


@exercise("SinusoidalPositions")
@given(n=table_sizes, seed=seeds)
def test_the_gradient_passes_unchanged(learner, n, seed):
    """Adding a constant changes no slope: x gets exactly the gradient of the result."""
    x, cotangent = tensor(seed, n.B, n.T, n.D), tensor(seed + 1, n.B, n.T, n.D)
    found = gradients(learner.SinusoidalPositions(n.max_len, n.D), x, cotangent=cotangent)
    close(found.output, x + waves(n.T, n.D).float(), "x with its positions")
    close(found.inputs[0], cotangent, "the gradient of x")


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_waves_keep_dtype_and_device(learner, n, seed):
    """The result has the dtype of x, far positions are exact in every dtype, and the table moves with the module."""
    x, start = tensor(seed, n.B, n.T, n.D, dtype=torch.float64), 260 + seed % 7 * 3
    sizes(start=start, max_len=300)
    expected = x + waves(300, n.D)[start : start + n.T]
    module = learner.SinusoidalPositions(300, n.D)
    close(module(x, start=start), expected, "x in float64 with its positions", tol=1e-4)
    close(module(x.bfloat16(), start=start), expected.bfloat16(), "x in bfloat16 with its positions")
    works = learner.bring(works_elsewhere)(module, x)
    holds(works, "the module fails on another device than the CPU: is the table a buffer, so that it moves when the module does?")
