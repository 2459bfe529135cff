"""Chapter 20, third part: latent attention, and RoPE for longer texts."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from grader.verdict.memory import watch_growth
from hypothesis import given, settings
from hypothesis import strategies as st
from masks import lower_triangle
from memory_layouts import of_views
from module_pairs import compare_parameter_gradients
from pytest_check import check
from rotations import rotated
from strategies import at, distinct, seeds, tensor
from torch import nn

few = settings(max_examples=3)


# ---- LatentAttention


def with_widths(n):
    n.d_rope, n.D = 2 * n.pairs, n.H * n.d_head
    sizes(pairs=None, d_rope=n.d_rope, d_model=n.D)
    return n


layer_sizes = distinct(B=(1, 2), H=(2, 3), T=(6, 8), d_head=(3, 5), d_latent=(5, 10), pairs=(1, 4)).filter(lambda n: 2 * n.pairs not in (n.H, n.d_head, n.d_latent)).map(with_widths)


def weights_of(n, seed):
    """Random weights of a LatentAttention; those of the norm are far from 1."""
    shapes = {"W_q": (n.D + n.H * n.d_rope, n.D), "W_down": (n.d_latent, n.D), "W_up_k": (n.D, n.d_latent), "W_up_v": (n.D, n.d_latent), "W_rope": (n.d_rope, n.D), "W_out": (n.D, n.D)}
    layers = {f"{name}.weight": tensor(seed + i, *shape) * 1.5 / shape[1] ** 0.5 for i, (name, shape) in enumerate(shapes.items())}
    return layers | {"norm.weight": 1 + 0.7 * tensor(seed, n.d_latent)}


def layer(learner, n, values):
    mine = learner.LatentAttention(n.D, n.H, n.d_latent, n.d_rope)
    load(mine, values)
    return mine


def by_hand(x, values, n):
    """Output, latent vectors and rotated shared keys, head by head, in float64."""
    w, x, results = {name.removesuffix(".weight"): value.double() for name, value in values.items()}, x.double(), []
    c = x @ w["W_down"].T
    c = c / (c.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w["norm"]
    shared = rotated(x @ w["W_rope"].T)
    for W_q, W_k, W_v in zip(*(w[name].chunk(n.H) for name in ("W_q", "W_up_k", "W_up_v"))):
        q, k, v = x @ W_q.T, c @ W_k.T, c @ W_v.T
        scores = (q[..., : n.d_head] @ k.mT + rotated(q[..., n.d_head :]) @ shared.mT) / math.sqrt(n.d_head + n.d_rope)
        results.append(scores.masked_fill(~lower_triangle(x.size(1)), -math.inf).softmax(-1) @ v)
    return torch.cat(results, dim=-1) @ w["W_out"].T, c, shared


class WideCache:
    """What chapter 10's KVCache does, for keys and values of any widths: a right KVCache may refuse those that differ."""

    def __init__(self):
        self.length, self._parts = 0, None

    def append(self, k, v):
        new = (k, v)
        self._parts = new if self._parts is None else tuple(torch.cat(both, dim=2) for both in zip(self._parts, new))
        self.length = self._parts[0].size(2)
        return self._parts

    def copy(self):
        branch = type(self)()
        branch.length, branch._parts = self.length, self._parts
        return branch


def written(mla, Cache, texts, lengths, mode="no_grad"):
    """The texts read alternately in pieces of these lengths, each with its own cache: outputs, and what each cache has at the end."""

    class Noting(Cache):
        noted = (None, None)

        def append(self, k, v):
            self.noted = super().append(k, v)
            return self.noted

    caches, outputs = [Noting() for _ in texts], [[] for _ in texts]
    with getattr(torch, mode)():
        for pieces in zip(*(text.split(lengths, dim=1) for text in texts)):
            for own, piece, cache in zip(outputs, pieces, caches):
                own.append(mla.cached(piece, cache).clone())
        kept = [[part if part is None else part.clone() for part in cache.noted] for cache in caches]
    return {"outputs": outputs, "kept": kept, "lengths": [cache.length for cache in caches]}


@exercise("LatentAttention", weight=4)
@few
@given(n=layer_sizes, seed=seeds)
def test_keys_and_values_of_all_heads_come_from_one_vector(learner, n, seed):
    """forward gives causal attention whose keys have a part made of the latent vector and a rotated part that all heads share; scores are divided by sqrt(d_head + d_rope)."""
    x, values = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed)
    mine = layer(learner, n, values)
    usual, one = mine(x.float()), mine(x[:, :1].float())
    exact = mine.double()(x)
    close(usual, by_hand(x, values, n)[0].float(), "the output of forward")
    close(exact, by_hand(x, values, n)[0], "the output of forward in float64", tol=1e-6)
    close(one, by_hand(x[:, :1], values, n)[0].float(), "the output of forward for a text of one position")


@exercise("LatentAttention", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_forward_looks_at_no_later_position(learner, n, seed):
    """A change at the last position changes no earlier output of forward, and one row of the batch changes no other."""
    x, values = tensor(seed + 9, 2, n.T, n.D), weights_of(n, seed)
    changed = x.clone()
    changed[0, -1] += 1.0
    mine = layer(learner, n, values)
    before, after = mine(x), mine(changed)
    close(before, by_hand(x, values, n)[0].float(), "the output of forward")
    close(after[:, :-1], before[:, :-1], "the output before the changed position")
    close(after[1], before[1], "the output of the row that did not change")


@exercise("LatentAttention", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_forward_trains_every_part(learner, n, seed):
    """forward gives x and all seven weights the gradients of the definition; these are all parameters, the state dict has nothing else, and the norm begins with ones."""
    x, values, cotangent = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed), tensor(seed + 10, n.B, n.T, n.D)
    names, begun = sorted(values), parameters(learner.LatentAttention(n.D, n.H, n.d_latent, n.d_rope)).get("norm.weight")
    mine = layer(learner, n, values)
    held, saved, found = parameters(mine), sorted(state(mine)), gradients(mine, x, cotangent=cotangent)
    leaves = [x.double().requires_grad_(), *(values[name].double().requires_grad_() for name in names)]
    slopes = torch.autograd.grad((by_hand(leaves[0], dict(zip(names, leaves[1:])), n)[0] * cotangent.double()).sum(), leaves)
    same(sorted(held), names, "the names of the parameters")
    same(saved, names, "the names in the state dict")
    close(begun, torch.ones(n.d_latent), "norm.weight before training")
    with check:
        close(found.inputs[0], slopes[0].float(), "the gradient of x", tol=1e-4)
    compare_parameter_gradients(found.parameters, {name: slope.float() for name, slope in zip(names, slopes[1:])}, tol=1e-4)


@exercise("LatentAttention")
@few
@given(n=layer_sizes, seed=seeds)
def test_forward_reads_texts_of_any_length(learner, n, seed):
    """The same module reads a short text, a longer one and a short one again; x may be a view."""
    x, values = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed)
    mine = layer(learner, n, values)
    got = {T: mine(x[:, :T]) for T in (4, n.T, 2)}
    view = learner.bring(of_views)(mine, x)
    for T, output in got.items():
        close(output, by_hand(x[:, :T], values, n)[0].float(), f"the output of forward for {T} positions")
    close(view, by_hand(x, values, n)[0].float(), "the output of forward for a view")


@exercise("LatentAttention")
def test_a_text_may_have_more_than_a_thousand_positions(learner):
    """Nothing limits the length: forward reads a text of 1,100 positions too."""
    n = with_widths(at(B=1, H=1, T=1100, d_head=3, d_latent=4, pairs=1).make())
    x, values = tensor(7, 1, 1100, n.D), weights_of(n, 3)
    close(layer(learner, n, values)(x), by_hand(x, values, n)[0].float(), "the output of forward for 1,100 positions")


def compare_pieces(got, expected, lengths, what):
    """Piece by piece, so that the failure shows the first wrong one."""
    for i, (piece, right) in enumerate(zip(got, expected.split(lengths, dim=1))):
        close(piece, right, f"{what}, piece {i + 1} of {len(lengths)}", tol=2e-5)


@exercise("LatentAttention", weight=4)
@few
@given(n=layer_sizes, seed=seeds)
def test_the_cached_form_gives_the_results_of_forward(learner, n, seed):
    """Read at once, one position at a time, or in pieces of any lengths, a text gives what forward gives over the whole text."""
    x, values = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed)
    mine, write = layer(learner, n, values), learner.bring(written)
    cuts = ([n.T], [1] * n.T, [3, 1, 2] + [1] * (n.T - 6), [1, n.T - 1])
    got = [write(mine, learner.bring(WideCache), [x], lengths)["outputs"][0] for lengths in cuts]
    whole = mine(x)
    for outputs, lengths in zip(got, cuts):
        compare_pieces(outputs, by_hand(x, values, n)[0].float(), lengths, f"the output of cached in pieces of {lengths}")
    close(whole, by_hand(x, values, n)[0].float(), "the output of forward, after texts were read with caches")


@exercise("LatentAttention", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_the_cache_keeps_one_short_vector_and_one_key(learner, n, seed):
    """The cache's keys are the latent vectors, (B, 1, P + T, d_latent), and its values the rotated shared keys, (B, 1, P + T, d_rope): d_latent + d_rope numbers a position."""
    x, values, lengths = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed), [4, 1, n.T - 5]
    found = learner.bring(written)(layer(learner, n, values), learner.bring(WideCache), [x], lengths)
    output, c, shared = by_hand(x, values, n)
    compare_pieces(found["outputs"][0], output.float(), lengths, "the output of cached")
    with check:
        close(found["kept"][0][0], c[:, None].float(), "the keys in the cache")
    with check:
        close(found["kept"][0][1], shared[:, None].float(), "the values in the cache")
    same(found["lengths"], [n.T], "the cache's length")


@exercise("LatentAttention", weight=3)
def test_no_keys_are_made_for_the_past(learner):
    """With 40 positions in the cache, a new one takes hardly more multiplications than with 20: each earlier position costs H · (2 · d_latent + d_rope), and no keys or values are made for it."""
    n = with_widths(at(B=1, H=2, d_head=16, d_latent=4, pairs=1).make())
    x, values = tensor(5, 1, 41, n.D), weights_of(n, 4)
    mine, fill = layer(learner, n, values), learner.bring(filled)
    few_positions, many_positions = (x[:, :1], fill(mine, learner.bring(WideCache)(), x[:, 20:40])), (x[:, 40:], fill(mine, learner.bring(WideCache)(), x[:, :40]))
    watched = watch_growth(learner, mine.cached, few_positions, many_positions, ratio=1.4)
    close(watched.result, by_hand(x, values, n)[0].float()[:, 40:], "the output of cached for position 40", tol=2e-5)
    watched.check()


def filled(mla, cache, x):
    """The cache after these positions."""
    with torch.no_grad():
        mla.cached(x, cache)
    return cache


@exercise("LatentAttention", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_two_texts_with_two_caches_do_not_mix(learner, n, seed):
    """Two texts that are read alternately, each with its own cache, do not mix, also in inference mode: the past is in the cache, not in the module."""
    texts, values, lengths = [tensor(seed + 9 + i, n.B, n.T, n.D) for i in (0, 1)], weights_of(n, seed), [3, 1, n.T - 4]
    mine, write = layer(learner, n, values), learner.bring(written)
    found = {mode: write(mine, learner.bring(WideCache), texts, lengths, mode)["outputs"] for mode in ("no_grad", "inference_mode")}
    held = sorted(parameters(mine))
    for mode, outputs in found.items():
        for got, text, which in zip(outputs, texts, ("first", "second")):
            compare_pieces(got, by_hand(text, values, n)[0].float(), lengths, f"the output of cached under torch.{mode} for the {which} of two texts")
    same(held, sorted(values), "the names of the parameters after use")


class Writing(nn.Module):
    """Latent attention that reads its input in two pieces, with a new cache."""

    def __init__(self, mla, make_cache):
        super().__init__()
        self.mla, self.make_cache = mla, make_cache

    def forward(self, x):
        cache = self.make_cache()
        with torch.no_grad():
            return torch.cat([self.mla.cached(x[:, :3], cache), self.mla.cached(x[:, 3:], cache)], dim=1)


@exercise("LatentAttention")
@settings(max_examples=2)
@given(n=layer_sizes, seed=seeds)
def test_both_forms_follow_dtype_and_device(learner, n, seed):
    """In float64 both forms are exact, bfloat16 stays bfloat16, and no mask or position stays on another device."""
    x, values = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed)
    mine = layer(learner, n, values)
    both = [mine, learner.bring(Writing)(mine, learner.bring(WideCache))]
    without = values | {"W_rope.weight": torch.zeros(n.d_rope, n.D)}  # no angle, which may be float32, has an effect
    still = layer(learner, n, without)
    plain = [form.double()(x) for form in (still, learner.bring(Writing)(still, learner.bring(WideCache)))]
    exact, half = [form.double()(x) for form in both], [form.bfloat16()(x.bfloat16()) for form in both]
    for form, got, short in zip(("forward", "cached"), exact, half):
        close(got, by_hand(x, values, n)[0], f"the output of {form} in float64", tol=1e-6)
        same([list(short.shape), str(short.dtype)], [[n.B, n.T, n.D], "torch.bfloat16"], f"shape and dtype of the output of {form} for bfloat16")
    for form, got in zip(("forward", "cached"), plain):
        close(got, by_hand(x, without, n)[0], f"the output of {form} in float64, with a W_rope of zeros")
    for form in both:
        check_device_of_result(learner, x.bfloat16(), form, x.bfloat16())


@exercise("LatentAttention")
def test_sizes_that_do_not_fit_are_refused(learner):
    """If n_heads does not divide d_model, a ValueError names both; an odd d_rope raises one that names it. d_head and d_latent may be odd."""
    n = with_widths(at(B=2, H=2, T=3, d_head=3, d_latent=5, pairs=2).make())
    x, values = tensor(1, 2, 3, n.D), weights_of(n, 2)
    fine = layer(learner, n, values)(x)
    refuses(lambda: learner.LatentAttention(10, 4, 6, 2), naming={"d_model": 10, "n_heads": 4}, because="the heads must be equally wide")
    refuses(lambda: learner.LatentAttention(12, 2, 6, 5), naming={"d_rope": 5}, because="a rotation needs pairs of features")
    close(fine, by_hand(x, values, n)[0].float(), "the output of forward")


# ---- yarn_angles


def frequencies(d_head, factor, length, base=10000.0, fast=32.0, slow=1.0):
    """Radians a position of each pair, one by one."""
    i_fast, i_slow = (d_head / 2 * math.log(length / (2 * math.pi * turns)) / math.log(base) for turns in (fast, slow))
    shares = [min(max((i - i_fast) / (i_slow - i_fast), 0.0), 1.0) for i in range(d_head // 2)]
    usual = [base ** (-2 * i / d_head) for i in range(d_head // 2)]
    return torch.tensor([(1 - share) * f + share * f / factor for share, f in zip(shares, usual)], dtype=torch.float64)


def compare_angles(got, positions, turns, what):
    """Pair by pair, because the angles of slow pairs are small beside those of fast ones."""
    holds(isinstance(got, tuple | list) and len(got) == 2, "the result should be two things: the angles and the scale")
    angles = got[0]
    holds(isinstance(angles, torch.Tensor) and angles.dtype in (torch.float32, torch.float64), "the angles should be a tensor of float32 or float64")
    same(list(angles.shape), [len(positions), len(turns)], "the shape of the angles")
    for i, turn in enumerate(turns):
        close(angles[:, i].double(), positions * turn, f"the angles of pair {i}{what}", tol=1e-5)


POSITIONS = torch.tensor([0, 1, 5, 4000, 70, 12345])
drawn = st.sampled_from([(64, 4.0, 4096), (48, 2.5, 1024), (128, 16, 8192)])


@exercise("yarn_angles", weight=4)
@few
@given(case=drawn)
def test_fast_pairs_stay_and_slow_pairs_are_stretched(learner, case):
    """Pairs up to i_fast keep their frequency, pairs from i_slow on turn `factor` times more slowly, and between them the share of the slower frequency grows along a straight line."""
    got = learner.yarn_angles(POSITIONS, *case)
    compare_angles(got, POSITIONS, frequencies(*case), " with d_head = {}, factor = {}, trained_length = {}".format(*case))


@exercise("yarn_angles", weight=2)
def test_base_fast_and_slow_may_be_chosen(learner):
    """base, fast and slow have the effect of the definition, each by itself; with short texts i_fast may lie below 0, and with long ones i_slow beyond the last pair."""
    cases = {"base = 500000": {"base": 500000.0}, "fast = 8": {"fast": 8.0}, "slow = 2": {"slow": 2.0}, "trained_length = 100": {"trained_length": 100}, "trained_length = 1000000": {"trained_length": 1000000}}
    got = {what: learner.yarn_angles(POSITIONS, **{"d_head": 32, "factor": 4.0, "trained_length": 2048, **changed}) for what, changed in cases.items()}
    for what, changed in cases.items():
        options = {"length": changed.get("trained_length", 2048), **{name: value for name, value in changed.items() if name != "trained_length"}}
        compare_angles(got[what], POSITIONS, frequencies(32, 4.0, **options), f" with d_head = 32 and {what}")


@exercise("yarn_angles", weight=2)
def test_factor_1_changes_nothing(learner):
    """With factor 1 the angles are those of RoPE, position · base^(-2i / d_head), and the scale is 1; odd numbers of pairs are fine."""
    got = learner.yarn_angles(POSITIONS, 10, 1.0, 2048)
    compare_angles(got, POSITIONS, torch.tensor([10000.0 ** (-i / 5) for i in range(5)], dtype=torch.float64), " with d_head = 10 and factor = 1")
    close(got[1], 1.0, "the scale with factor = 1")


@exercise("yarn_angles", weight=2)
def test_the_scale_grows_with_the_logarithm_of_the_factor(learner):
    """The scale is 0.1 · log(factor) + 1, with the natural logarithm; it is returned beside the angles, not multiplied into them."""
    got = {factor: learner.yarn_angles(POSITIONS, 32, factor, 2048) for factor in (2.0, 8, 40.0)}
    for factor, (angles, scale) in ((factor, pair_of(result)) for factor, result in got.items()):
        close(scale, 0.1 * math.log(factor) + 1, f"the scale with factor = {factor}")
        close(angles[:, 0].double(), POSITIONS.double(), f"the angles of pair 0 with factor = {factor}")


def pair_of(result):
    holds(isinstance(result, tuple | list) and len(result) == 2, "the result should be two things: the angles and the scale")
    return result


@exercise("yarn_angles")
@few
@given(seed=seeds)
def test_any_positions_in_any_order(learner, seed):
    """Positions may be int32, in any order, and of any number: each row depends on its own position only. As many others have angles of their own."""
    positions = tensor(seed, 7, scale=3000.0).abs().int()
    got, others, one = (learner.yarn_angles(where, 32, 4.0, 2048) for where in (positions, positions + 3, positions[:1]))
    compare_angles(got, positions, frequencies(32, 4.0, 2048), " for int32 positions")
    compare_angles(others, positions + 3, frequencies(32, 4.0, 2048), " for as many other positions as in the call before it")
    compare_angles(one, positions[:1], frequencies(32, 4.0, 2048), " for one position")


def first_result(f, *inputs):
    return f(*inputs)[0]


@exercise("yarn_angles")
def test_angles_are_on_the_device_of_positions(learner):
    """The angles are on the device of the positions."""
    got = learner.yarn_angles(POSITIONS, 16, 4.0, 512)
    compare_angles(got, POSITIONS, frequencies(16, 4.0, 512), " with d_head = 16")
    check_device_of_result(learner, got[0], learner.bring(first_result), learner.yarn_angles, POSITIONS, 16, 4.0, 512)


@exercise("yarn_angles")
def test_odd_widths_and_factors_below_1_are_refused(learner):
    """An odd d_head raises a ValueError that names it, and so does a factor below 1."""
    fine = learner.yarn_angles(POSITIONS, 6, 1.5, 256)
    refuses(lambda: learner.yarn_angles(POSITIONS, 7, 2.0, 256), naming={"d_head": 7}, because="features must be paired")
    for factor in (0.5, 0):
        refuses(lambda factor=factor: learner.yarn_angles(POSITIONS, 6, factor, 256), naming={"factor": factor}, because="a text is stretched by at least 1")
    compare_angles(fine, POSITIONS, frequencies(6, 1.5, 256), " with d_head = 6")
