"""Chapter 4, first part: rotary angles, and features rotated by them. ALiBi and the module are in two further files."""

import math

import torch
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, shaped, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import after_overwriting
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
bases = st.sampled_from([10.0, 100.0, 500000.0])


def paired(n):
    """d_head is even: twice the number of pairs."""
    n.d_head = 2 * n.pairs
    sizes(pairs=None, d_head=n.d_head)
    return n


def apart(n):
    """d_head also differs from the other sizes."""
    return 2 * n.pairs not in [size for name, size in vars(n).items() if name != "d_head"]


angle_sizes = distinct("T", pairs=(2, 6)).filter(apart).map(paired)
rope_sizes = distinct("B", "H", "T", pairs=(2, 4)).filter(apart).map(paired)


def places(seed, T, most=40):
    """T different positions from 1 up, in no order and with gaps."""
    return 1 + tensor(seed + 17, most).argsort()[:T]


def turns(positions, d_head, base=10000.0):
    """The definition, number by number in double precision."""
    rows = [[p * base ** (-2 * i / d_head) for i in range(d_head // 2)] for p in positions.tolist()]
    return torch.tensor(rows, dtype=torch.float64)


def turned(x, positions, base=10000.0):
    """The definition with complex numbers, in double precision."""
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    angles = turns(positions, x.size(-1), base)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


# ---- rope_angles


@exercise("rope_angles", weight=3)
@given(n=angle_sizes, seed=seeds)
def test_pair_i_at_position_p_turns_by_p_times_its_frequency(learner, n, seed):
    """The angle at [t, i] is positions[t] * 10000^(-2i / d_head), in radians, for any positions."""
    positions = places(seed, n.T)
    close(learner.rope_angles(positions, n.d_head), turns(positions, n.d_head).float(), "the table of angles")


@exercise("rope_angles", weight=2)
@given(n=angle_sizes, base=bases, seed=seeds)
def test_base_sets_how_slow_the_slow_pairs_are(learner, n, base, seed):
    """With another `base` the frequencies are base^(-2i / d_head): the first pair rotates as before, the later ones faster or more slowly."""
    positions = places(seed, n.T)
    close(learner.rope_angles(positions, n.d_head, base=base), turns(positions, n.d_head, base).float(), f"the table with base={base:g}")
    close(learner.rope_angles(positions, n.d_head, 50.0), turns(positions, n.d_head, 50.0).float(), "the table with base=50")


@exercise("rope_angles", weight=2)
@given(n=distinct("T", pairs=(3, 8)).map(paired))
def test_each_pair_turns_more_slowly_than_the_one_before(learner, n):
    """From one position to the next the first pair rotates by one radian, and each later pair by an angle that is 10000^(2 / d_head) times smaller."""
    angles = shaped(learner.rope_angles(torch.arange(n.T), n.d_head), (n.T, n.pairs), "the table of angles").double()
    close(angles[1, 0].item(), 1.0, "the angle of the first pair at position 1")
    slower = 10000 ** (-2 / n.d_head)
    close(angles[1, 1:] / angles[1, :-1], torch.full((n.pairs - 1,), slower).double(), "the angle of each pair, relative to the previous one,", tol=1e-4)


@exercise("rope_angles")
@given(n=angle_sizes)
def test_at_position_zero_nothing_turns(learner, n):
    """All angles at position 0 are 0, and those at position p are p times those at position 1."""
    angles = shaped(learner.rope_angles(torch.arange(n.T), n.d_head), (n.T, n.pairs), "the table of angles")
    close(angles[1, 0].item(), 1.0, "the first angle at position 1")
    close(angles[0], torch.zeros(n.pairs), "the angles at position 0")
    close(angles, torch.arange(n.T)[:, None] * angles[1], "the table, compared with multiples of its row for position 1,")


@exercise("rope_angles", weight=2)
@few
@given(n=angle_sizes, seed=seeds)
def test_angles_far_out_are_exact_in_float32(learner, n, seed):
    """At positions in the thousands, after many full turns, the angles are as exact as float32 allows; the table is float32, and positions have no limit."""
    positions, last = 1000 + places(seed, n.T, 3000), torch.tensor([100_000])
    angles, furthest = learner.rope_angles(positions, n.d_head), learner.rope_angles(last, n.d_head)
    shaped(angles, (n.T, n.pairs), "the table of angles", torch.float32)
    for i in (0, 1, n.pairs - 1):
        close(angles[:, i], turns(positions, n.d_head)[:, i].float(), f"the angles of pair {i}", tol=1e-5)
    close(furthest, turns(last, n.d_head).float(), "the angles at position 100,000", tol=1e-5)


@exercise("rope_angles")
@few
@given(n=angle_sizes, seed=seeds)
def test_each_call_makes_a_table_of_its_own(learner, n, seed):
    """The caller may write into the table: a second call with the same arguments gives the same angles, and a call with as many other positions gives theirs."""
    positions = places(seed, n.T)
    again = learner.bring(after_overwriting)(learner.rope_angles, positions, n.d_head)
    others = learner.rope_angles(positions + 3, n.d_head)
    close(again, turns(positions, n.d_head).float(), "the second table, after the first was overwritten,")
    close(others, turns(positions + 3, n.d_head).float(), "the table for as many other positions as in the call before it")


@exercise("rope_angles")
@few
@given(n=angle_sizes, seed=seeds)
def test_an_odd_width_cannot_be_paired(learner, n, seed):
    """If d_head is odd, rope_angles raises a ValueError that names it."""
    positions, odd = places(seed, n.T), n.d_head + 7
    close(learner.rope_angles(positions, n.d_head), turns(positions, n.d_head).float(), "the table where d_head is even")
    refuses(lambda: learner.rope_angles(positions, odd), naming={"d_head": odd}, because=f"d_head = {odd} is odd: its features cannot be paired")


@exercise("rope_angles")
@few
@given(n=angle_sizes, seed=seeds)
def test_angles_are_made_where_the_positions_are(learner, n, seed):
    """The table is created on the device of `positions`, and no tensor on another device; positions may have any integer dtype."""
    positions = places(seed, n.T)
    expected = turns(positions, n.d_head).float()
    plain, alone = learner.rope_angles(positions, n.d_head), learner.rope_angles(positions[:1], n.d_head)
    others = {dtype: learner.rope_angles(positions.to(dtype), n.d_head) for dtype in (torch.int32, torch.int16, torch.uint8)}
    close(plain, expected, "the table of angles")
    close(alone, expected[:1], "the table of a single position")
    for dtype, result in others.items():
        close(result, expected, f"the table for positions of dtype {str(dtype).removeprefix('torch.')}")
    check_device_of_result(learner, expected, learner.rope_angles, positions, n.d_head)


# ---- apply_rope


@exercise("apply_rope", weight=2)
@few
@example(p=100_000, a=2.0)  # further than any table
@given(p=st.integers(1, 30), a=st.sampled_from([1.0, 2.0, -3.0]))
def test_one_pair_is_rotated_counter_clockwise(learner, p, a):
    """The pair (a, 0) at position p becomes (a cos p, a sin p), and (0, a) becomes (-a sin p, a cos p): counter-clockwise."""
    sizes(T=1, d_head=2)
    there = torch.tensor([p])
    first, second = learner.apply_rope(torch.tensor([[a, 0.0]]), there), learner.apply_rope(torch.tensor([[0.0, a]]), there)
    close(first, torch.tensor([[a * math.cos(p), a * math.sin(p)]]), f"the pair ({a:g}, 0) at position {p}")
    close(second, torch.tensor([[-a * math.sin(p), a * math.cos(p)]]), f"the pair (0, {a:g}) at position {p}")


@exercise("apply_rope", weight=3)
@given(n=distinct(T=(2, 3), pairs=(2, 4)).filter(apart).map(paired), seed=seeds)
def test_neighbouring_features_turn_together(learner, n, seed):
    """Features 2i and 2i + 1 become x0 cos - x1 sin and x0 sin + x1 cos, with the angle of pair i at their position."""
    x, positions = tensor(seed, n.T, n.d_head), torch.arange(n.T)
    close(learner.apply_rope(x, positions), turned(x, positions).float(), "the rotated features")


@exercise("apply_rope", weight=3)
@given(n=distinct("B", T=(3, 5), pairs=(2, 4)).filter(apart).map(paired), seed=seeds)
def test_the_positions_given_are_the_ones_used(learner, n, seed):
    """Row t belongs to positions[t]: these may start anywhere, have gaps, and be in any order."""
    x, positions = tensor(seed, n.B, n.T, n.d_head), places(seed, n.T)
    last = positions[-1:]
    whole, alone = learner.apply_rope(x, positions), learner.apply_rope(x[:, -1:].clone(), last)
    close(whole, turned(x, positions).float(), "the rotated features")
    close(alone, turned(x[:, -1:], last).float(), "one row alone, rotated by its position,")


@exercise("apply_rope", weight=2)
@given(n=rope_sizes, lead=st.integers(0, 2), seed=seeds)
def test_any_number_of_leading_axes(learner, n, lead, seed):
    """x may be (T, d_head), (B, T, d_head) or (B, H, T, d_head): the positions are the axis before the last."""
    sizes(**{axis: None for axis in ("B", "H")[lead:]})
    x, positions = tensor(seed, *(n.B, n.H)[:lead], n.T, n.d_head), places(seed, n.T)
    close(learner.apply_rope(x, positions), turned(x, positions).float(), "the rotated features")


@exercise("apply_rope", weight=2)
@given(n=rope_sizes, base=bases, seed=seeds)
def test_the_base_reaches_the_angles(learner, n, base, seed):
    """With another `base` the pairs rotate by the angles of that base."""
    x, positions = tensor(seed, n.B, n.H, n.T, n.d_head), places(seed, n.T)
    close(learner.apply_rope(x, positions, base=base), turned(x, positions, base).float(), f"the features rotated with base={base:g}")
    close(learner.apply_rope(x, positions, 50.0), turned(x, positions, 50.0).float(), "the features rotated with base=50")


@exercise("apply_rope", weight=2)
@given(n=rope_sizes, seed=seeds)
def test_a_rotation_keeps_the_length_of_each_vector(learner, n, seed):
    """Position 0 changes nothing, and at every position the length of a vector stays the same."""
    x, positions = tensor(seed, n.B, n.H, n.T, n.d_head), places(seed, n.T)
    positions[seed % n.T] = 0
    got = shaped(learner.apply_rope(x, positions), x.shape, "the result")
    close(got, turned(x, positions).float(), "the rotated features")
    close(got[:, :, seed % n.T], x[:, :, seed % n.T], "the row at position 0")
    close(got.norm(dim=-1), x.norm(dim=-1), "the length of every vector")


@exercise("apply_rope", weight=3)
@given(n=rope_sizes, seed=seeds)
def test_scores_depend_on_the_distance_alone(learner, n, seed):
    """A query at m and a key at n have the same dot product for equal m - n: moving both by the same distance changes no score."""
    q, k, positions, far = tensor(seed, n.B, n.T, n.d_head), tensor(seed + 1, n.B, n.T, n.d_head), places(seed, n.T), 1 + seed % 50
    sizes(H=None)
    turned_here = learner.apply_rope(q, positions), learner.apply_rope(k, positions)
    turned_there = learner.apply_rope(q, positions + far), learner.apply_rope(k, positions + far)
    here, there = ([shaped(part, q.shape) for part in both] for both in (turned_here, turned_there))
    expected = turned(q, positions) @ turned(k, positions).mT
    close(here[0] @ here[1].mT, expected.float(), "the table of scores", tol=3e-5)
    close(there[0] @ there[1].mT, expected.float(), f"the table of scores, all positions moved by {far},", tol=3e-5)


@exercise("apply_rope", weight=2)
@few
@given(n=rope_sizes, seed=seeds)
def test_the_gradient_is_rotated_back(learner, n, seed):
    """x gets the gradient of the result, rotated by the opposite angle, also after the same call without gradient; the positions get none."""
    x, positions, cotangent = tensor(seed, n.B, n.T, n.d_head), places(seed, n.T), tensor(seed + 1, n.B, n.T, n.d_head)
    sizes(H=None)
    quiet = call_without_gradient(learner, learner.apply_rope, x, positions)
    found = gradients(learner.apply_rope, x, positions, cotangent=cotangent)
    for mode in GRADIENT_FREE_MODES:
        close(quiet[mode], turned(x, positions).float(), f"the features rotated under torch.{mode}")
    close(found.output, turned(x, positions).float(), "the rotated features")
    close(found.inputs[0], turned(cotangent, -positions).float(), "the gradient of x")


@exercise("apply_rope", weight=2)
@few
@given(n=rope_sizes, seed=seeds)
def test_turned_features_have_the_dtype_of_x(learner, n, seed):
    """float64 in, float64 out, with all its digits, so that position 0 changes none of them; bfloat16 in, bfloat16 out."""
    x, positions = tensor(seed, n.B, n.H, n.T, n.d_head, dtype=torch.float64), places(seed, n.T)
    positions[0] = 0
    half = x.bfloat16()
    double, rough = learner.apply_rope(x, positions), learner.apply_rope(half, positions)
    close(double, turned(x, positions), "the rotated features in float64", tol=2e-5)
    close(double[:, :, 0], x[:, :, 0], "the row at position 0 in float64", tol=1e-12)
    close(rough, turned(half, positions).bfloat16(), "the rotated features in bfloat16")


@exercise("apply_rope", weight=2)
@few
@given(n=distinct(T=(20, 24), pairs=(8, 9)).map(paired), seed=seeds)
def test_angles_far_out_are_not_rounded_to_half_precision(learner, n, seed):
    """At positions around 1000 a bfloat16 x is rotated by exact angles: in bfloat16 itself 1000 and 1001 are equal."""
    x, positions = tensor(seed, n.T, n.d_head, dtype=torch.bfloat16), 900 + places(seed, n.T, 200)
    close(learner.apply_rope(x, positions), turned(x, positions).bfloat16(), "the rotated features in bfloat16", tol=4e-2)


@exercise("apply_rope")
@few
@given(n=rope_sizes, seed=seeds)
def test_an_odd_number_of_features_raises_an_error(learner, n, seed):
    """If d_head is odd, apply_rope raises a ValueError that names it."""
    x, positions, odd = tensor(seed, n.B, n.T, n.d_head), places(seed, n.T), n.d_head + 7
    sizes(H=None)
    close(learner.apply_rope(x, positions), turned(x, positions).float(), "the rotated features where d_head is even")
    wide = tensor(seed, n.B, n.T, odd)
    refuses(lambda: learner.apply_rope(wide, positions), naming={"d_head": odd}, because=f"d_head = {odd} is odd: its features cannot be paired")


def of_views(f, x, positions):
    """`f` of the same numbers, with the memory layout of split_heads' result and of a slice with a step."""
    apart = x.transpose(1, 2).contiguous().transpose(1, 2)
    spread = torch.stack([positions, -positions], dim=1).flatten()[::2]
    return f(apart, spread)


@exercise("apply_rope")
@few
@given(n=rope_sizes, seed=seeds)
def test_views_are_turned_like_any_tensor(learner, n, seed):
    """The result of split_heads is a view, and so may the positions be: the layout in memory does not matter."""
    x, positions = tensor(seed, n.B, n.H, n.T, n.d_head), places(seed, n.T)
    close(learner.bring(of_views)(learner.apply_rope, x, positions), turned(x, positions).float(), "the rotated features of a view")


@exercise("apply_rope")
@few
@given(n=rope_sizes, seed=seeds)
def test_the_rotation_runs_on_the_device_of_x(learner, n, seed):
    """No tensor is created on a fixed device: x and the positions may be on any device."""
    x, positions = tensor(seed, n.B, n.H, n.T, n.d_head), places(seed, n.T)
    close(learner.apply_rope(x, positions), turned(x, positions).float(), "the rotated features")
    check_device_of_result(learner, x, learner.apply_rope, x, positions)
