"""Chapter 2, second part: sinusoidal positions."""

import math

import torch
from devices_and_dtypes import runs_on_second_device
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import example, given, settings
from memory_layouts import after_overwriting, of_view
from mode_orders import compare_in_every_order, results_in_every_order
from pytest_check import check
from strategies import at, distinct, seeds, tensor

table_sizes = distinct("B", "T", "D", max_len=(8, 11))
TOO_LONG = "position {end - 1} is not in a table of max_len = {max_len}"


def waves(max_len, d_model):
    """The definition, number by number in double precision."""
    rows = []
    for p in range(max_len):
        angles = [p / 10000 ** (column // 2 * 2 / d_model) for column in range(d_model)]
        rows.append([math.cos(a) if column % 2 else math.sin(a) for column, a in enumerate(angles)])
    return torch.tensor(rows, dtype=torch.float64)


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
    """From one position to the next the first pair of columns rotates by 1 radian, and each later pair by an angle that is 10000^(2 / d_model) times smaller."""
    table = shaped(learner.sinusoidal_positions(n.max_len, 2 * n.pairs), (n.max_len, 2 * n.pairs), "the table").double()
    turn = torch.atan2(table[1, 0::2], table[1, 1::2])
    close(turn[0].item(), 1.0, "the angle from one position to the next, of the first pair")
    close(turn[1:] / turn[:-1], torch.full((n.pairs - 1,), 10000 ** (-1 / n.pairs)).double(), "the angle of each pair, divided by that of the pair before", tol=1e-4)


@exercise("sinusoidal_positions", weight=2)
@given(n=distinct("p", "k", "pairs", p=(1, 40), k=(1, 40), pairs=(1, 6)))
def test_a_step_of_k_is_one_rotation(learner, n):
    """Row p + k is row p with each pair of columns rotated by the angle of row k: a distance is the same rotation everywhere."""
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
    """Row p does not depend on max_len."""
    short, long = (learner.sinusoidal_positions(rows, n.d_model) for rows in (n.short, n.long))
    close(shaped(long, (n.long, n.d_model), "the longer table")[1, 0].item(), math.sin(1), "entry [1, 0] of the longer table")
    close(short, long[: n.short], "the shorter table")


@exercise("sinusoidal_positions", weight=2)
@given(n=distinct("max_len", "pairs", max_len=(2, 9), pairs=(1, 6)))
def test_odd_d_model_ends_with_a_sine(learner, n):
    """With odd d_model the last column is a sine without its cosine; d_model may be 1, and so may max_len."""
    d_model = 2 * n.pairs + 1
    sizes(d_model=d_model)
    table = shaped(learner.sinusoidal_positions(n.max_len, d_model), (n.max_len, d_model), "the table")
    close(table, waves(n.max_len, d_model).float(), "the table")
    close(learner.sinusoidal_positions(n.max_len, 1), waves(n.max_len, 1).float(), "the table with d_model=1")
    close(learner.sinusoidal_positions(1, d_model), waves(1, d_model).float(), "the table with max_len=1")


@exercise("sinusoidal_positions")
@settings(max_examples=3)
@given(n=distinct("max_len", "d_model", max_len=(3, 12), d_model=(3, 9)))
def test_each_call_makes_a_table_of_its_own(learner, n):
    """The caller may write into the table: a second call with the same sizes gives the same table as the first."""
    again = learner.bring(after_overwriting)(learner.sinusoidal_positions, n.max_len, n.d_model)
    close(again, waves(n.max_len, n.d_model).float(), "the second table, after the first was overwritten,")


@exercise("sinusoidal_positions")
@example(n=at(max_len=1001, d_model=6))
@given(n=distinct("max_len", "d_model", max_len=(520, 600), d_model=(4, 12)))
def test_positions_far_out_are_still_exact(learner, n):
    """Past position 500, and up to 1000, the entries are correct to four decimals, which float32 allows."""
    table = shaped(learner.sinusoidal_positions(n.max_len, n.d_model), (n.max_len, n.d_model), "the table", torch.float32)
    close(table[500:], waves(n.max_len, n.d_model)[500:].float(), "the rows from 500 on", tol=1e-4)


# ---- SinusoidalPositions


@exercise("SinusoidalPositions", weight=3)
@given(n=table_sizes, seed=seeds)
def test_position_t_gets_row_t_of_the_sinusoids(learner, n, seed):
    """Row t of the table of sinusoids is added to position t of every sequence of the batch."""
    x = tensor(seed, n.B, n.T, n.D)
    close(learner.SinusoidalPositions(n.max_len, n.D)(x), x + waves(n.T, n.D).float(), "x with its positions")


@exercise("SinusoidalPositions")
@given(n=table_sizes)
def test_zeros_come_out_as_the_table(learner, n):
    """With x all zeros each sequence becomes the table's first T rows: nothing is scaled, and the rows differ."""
    zeros, expected = torch.zeros(n.B, n.T, n.D), waves(n.T, n.D).float().expand(n.B, -1, -1)
    module = learner.SinusoidalPositions(n.max_len, n.D)
    close(module(zeros), expected, "zeros with their positions")
    close(module.eval()(zeros), expected, "zeros with their positions in eval mode")


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_start_names_the_first_row_of_the_sinusoids(learner, n, seed):
    """With `start` the rows start ... start + T - 1 are added, the rows that the same tokens get at the end of a longer sequence."""
    start = 1 + seed % (n.max_len - n.T)
    sizes(start=start)
    longer = tensor(seed, n.B, start + n.T, n.D)
    module = learner.SinusoidalPositions(max_len=n.max_len, d_model=n.D)
    end = longer[:, start:].clone()
    close(module(end, start=start), end + waves(n.max_len, n.D)[start : start + n.T].float(), "x with its positions")
    close(module(longer)[:, start:], module(end, start), "the end of the longer sequence")


@exercise("SinusoidalPositions")
@given(n=table_sizes, seed=seeds)
def test_the_whole_table_of_sinusoids_can_be_used(learner, n, seed):
    """A sequence of max_len vectors fits, and so does a shorter one that ends at the last row, even a single vector; x may be a view (not contiguous)."""
    x, table = tensor(seed, n.B, n.max_len, n.D), waves(n.max_len, n.D).float()
    module = learner.SinusoidalPositions(n.max_len, n.D)
    close(module(x), x + table, "x as long as the table")
    close(module(x[:, :1].clone(), start=n.max_len - 1), x[:, :1] + table[-1:], "one vector at the last position")
    close(module(x[:1, :1].clone()), x[:1, :1] + table[:1], "the vector (1, 1, D) of a batch of one")
    close(learner.bring(of_view)(module, x), x + table, "x that is a view, not contiguous in memory, with its positions")


@exercise("SinusoidalPositions", weight=2)
@given(n=table_sizes, seed=seeds)
def test_a_sinusoidal_position_past_max_len_raises_an_error(learner, n, seed):
    """A position that has no row raises a ValueError that names max_len, whether T or `start` is too large."""
    module = learner.SinusoidalPositions(n.max_len, n.D)
    x = tensor(seed, n.B, n.max_len + 1, n.D)
    close(module(x[:, 1:].clone()), x[:, 1:] + waves(n.max_len, n.D).float(), "x as long as the table")
    why = "there is no such position in the table"
    refuses(lambda: module(x), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)
    refuses(lambda: module(x[:, :2].clone(), start=n.max_len - 1), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)
    refuses(lambda: module(x[:, :1].clone(), start=n.max_len), naming={"max_len": n.max_len}, because=why, example=TOO_LONG)


def what_it_keeps(module):
    """The number of parameters with gradient, of those without, and of saved tensors; for `bring`."""
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
    """Adding a constant does not change the gradient: x gets exactly the gradient of the result."""
    x, cotangent = tensor(seed, n.B, n.T, n.D), tensor(seed + 1, n.B, n.T, n.D)
    found = gradients(learner.SinusoidalPositions(n.max_len, n.D), x, cotangent=cotangent)
    with check:
        close(found.output, x + waves(n.T, n.D).float(), "x with its positions")
    with check:
        close(found.inputs[0], cotangent, "the gradient of x")


@exercise("SinusoidalPositions")
@settings(max_examples=1)
@given(n=table_sizes, seed=seeds)
def test_use_and_training_around_the_layer_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the result is the same, for longer input too, and gradients pass through the layer afterwards."""
    mine, model = (side.SinusoidalPositions(n.max_len, n.D) for side in (learner, reference))
    rounds = [(None, [tensor(seed + i, n.B, length, n.D)]) for i, length in enumerate((n.T, n.max_len))]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["x"], "x with its positions")


@exercise("SinusoidalPositions", weight=3)
@given(n=table_sizes, seed=seeds)
def test_sinusoidal_positions_keep_dtype_and_device(learner, n, seed):
    """The result has the dtype of x, with the digits of float64 x, far positions are exact in every dtype, also of the module, and the table moves with it."""
    x, start = tensor(seed, n.B, n.T, n.D, dtype=torch.float64), 260 + seed % 7 * 3
    sizes(start=start, max_len=300)
    expected = x + waves(300, n.D)[start : start + n.T]
    module = learner.SinusoidalPositions(300, n.D)
    close(module(x, start=start), expected, "x in float64 with its positions", tol=1e-4)
    close(module(x.bfloat16(), start=start), expected.bfloat16(), "x in bfloat16 with its positions")
    close(module(x, start=start), expected, "x in float64 with its positions, after a call in bfloat16,", tol=1e-4)
    close(module(x)[:, 0], x[:, 0] + torch.arange(n.D) % 2, "x in float64 at position 0, where each sine is 0 and each cosine 1,", tol=1e-12)
    rough, rows = tensor(seed, n.B, n.T, 24, dtype=torch.bfloat16), waves(300, 24)[start : start + n.T]
    result = learner.SinusoidalPositions(300, 24).bfloat16()(rough, start=start)
    close(result, (rough + rows).bfloat16(), "x in bfloat16 with its positions, after module.bfloat16(),")
    works = learner.bring(runs_on_second_device)(module, x)
    holds(works, "the module fails on another device than the CPU: is the table a buffer, so that it moves when the module does?")
