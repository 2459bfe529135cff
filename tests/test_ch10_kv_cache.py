"""Chapter 10, first part: the cache of keys and values. Attention that uses it is in test_ch10_kv_cache_attention.py."""

from types import SimpleNamespace

import torch
from cached_decoding import draw_cache_sizes, shuffled
from calls import GRADIENT_FREE_MODES
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same, sizes
from pytest_check import check
from strategies import tensor


def chunks(n, seed, lengths, dtype=torch.float32):
    """Random keys and values, with as many new positions as each length."""
    return [tuple(tensor(seed + 2 * i + j, n.B, n.H, T, n.d_head, dtype=dtype) for j in (0, 1)) for i, T in enumerate(lengths)]


def filled(got, expected, what, tol=1e-5):
    """Is this what an append gives: two tensors, the keys and the values of all positions in `expected`?"""
    holds(isinstance(got, tuple | list) and len(got) == 2, f"append should return two tensors, all keys and all values; it returned {type(got).__name__}")
    for name, tensors, result in zip(("keys", "values"), zip(*expected), got):
        with check:
            close(result, torch.cat(tensors, dim=2), f"the tensor of {name} {what}", tol=tol)


# ---- KVCache


@exercise("KVCache", weight=3)
def test_all_keys_and_values_come_back_in_order(learner):
    """Each append returns the keys and the values of all positions so far, the oldest first: (B, H, P + T, d_head)."""
    lengths = shuffled(3, 1, 2, 5)
    n, seed = draw_cache_sizes(appended=lengths)
    parts = chunks(n, seed, lengths)
    cache = learner.KVCache()
    got = [cache.append(k, v) for k, v in parts]
    for i, pair in enumerate(got):
        filled(pair, parts[: i + 1], f"after append {i + 1}")


class AppendingViews:
    """What a new cache gives when it gets keys and values as views: as `split_heads` makes them, sliced, and expanded."""

    def __init__(self, make):
        self.make = make

    def __call__(self, pairs):
        cache = self.make()
        change = (lambda x: x.transpose(1, 2).contiguous().transpose(1, 2), lambda x: x.repeat(1, 1, 2, 1)[:, :, : x.size(2)], lambda x: x[..., :1].expand_as(x))
        return [tuple(part.clone() for part in cache.append(*(look(x) for x in pair))) for look, pair in zip(change, pairs)]


@exercise("KVCache")
def test_keys_and_values_may_be_views(learner):
    """Keys and values may lie in memory in any way: transposed, as split_heads returns them, sliced, or expanded."""
    lengths = shuffled(3, 1, 2)
    n, seed = draw_cache_sizes(appended=lengths)
    parts = chunks(n, seed, lengths)
    parts[2] = tuple(x[..., :1].expand_as(x).contiguous() for x in parts[2])
    got = learner.bring(AppendingViews)(learner.KVCache)(parts)
    for i, how in enumerate(("transposed", "sliced", "expanded")):
        filled(got[i], parts[: i + 1], f"after append {i + 1}, of {how} keys and values,")


@exercise("KVCache", weight=2)
def test_there_is_room_for_any_number_of_positions(learner):
    """A cache has no limit: a chunk may be much longer than everything before it, and single positions may follow."""
    n, lengths = SimpleNamespace(B=1, H=1, d_head=2), [3, 70, 1, 4200, 1]
    sizes(**vars(n), appended=lengths)
    parts = chunks(n, 5, lengths)
    cache = learner.KVCache()
    got, counted = [], []
    for k, v in parts:
        got.append(cache.append(k, v))
        counted.append(cache.length)
    for i, pair in enumerate(got):
        filled(pair, parts[: i + 1], f"after chunks of {', '.join(map(str, lengths[: i + 1]))} positions", tol=0.0)
    same(counted, [3, 73, 74, 4274, 4275], "the list of lengths")


@exercise("KVCache", weight=2)
def test_length_counts_positions(learner):
    """`length` is 0 at first, and grows by the number of new positions with each append."""
    lengths = shuffled(4, 1, 2, 1)
    n, seed = draw_cache_sizes(appended=lengths)
    parts = chunks(n, seed, lengths)
    cache = learner.KVCache()
    counted = [cache.length]
    for k, v in parts:
        got = cache.append(k, v)
        counted.append(cache.length)
    same(counted, [sum(lengths[:i]) for i in range(len(lengths) + 1)], "the list of lengths, before and after each append,")
    filled(got, parts, "in the end")


@exercise("KVCache", weight=2)
def test_many_single_positions_can_be_added(learner):
    """After a prompt, many single positions can be added, and no earlier position is lost or rounded."""
    n, seed = draw_cache_sizes()
    parts = chunks(n, seed, [5] + 30 * [1])
    cache = learner.KVCache()
    got = [cache.append(k, v) for k, v in parts]
    for i in (0, 1, 7, 30):
        filled(got[i], parts[: i + 1], f"of a prompt of 5 and {i} single positions", tol=0.0)


@exercise("KVCache", weight=2)
def test_each_cache_is_its_own(learner):
    """Two caches filled alternately each have their own positions, also if they differ in heads and width; a new one is empty."""
    lengths = shuffled(3, 1, 2)
    n, seed = draw_cache_sizes(appended=lengths)
    other = SimpleNamespace(B=n.B, H=n.H + 1, d_head=n.d_head + 2)
    mine, yours = chunks(n, seed, lengths), chunks(other, seed + 7, lengths)
    first, second = learner.KVCache(), learner.KVCache()
    got = [(first.append(*one), second.append(*two)) for one, two in zip(mine, yours)]
    third = learner.KVCache().length
    for i, (one, two) in enumerate(got):
        filled(one, mine[: i + 1], f"of the first cache after append {i + 1}")
        filled(two, yours[: i + 1], f"of the second cache after append {i + 1}")
    same(third, 0, "the length of a new cache")


def branched(learner, n, seed, before):
    """What a cache and its copy give and count, when the copy is made after appends of these lengths; and what they should give."""
    past, one, two = chunks(n, seed, before), chunks(n, seed + 100, [1, 2, 1, 4]), chunks(n, seed + 200, [1, 1, 2, 1])
    cache = learner.KVCache()
    for k, v in past:
        cache.append(k, v)
    branch = cache.copy()
    counted = [cache.length, branch.length]
    got = [(cache.append(*mine), branch.append(*yours)) for mine, yours in zip(one, two)]
    return got, counted + [cache.length, branch.length], past, one, two


def own_pasts(learner, before):
    n, seed = draw_cache_sizes(appended_before_the_copy=before)
    got, counted, past, one, two = branched(learner, n, seed, before)
    for i, (mine, yours) in enumerate(got):
        filled(mine, past + one[: i + 1], f"of the cache, {i + 1} appends after it was copied")
        filled(yours, past + two[: i + 1], f"of the branch, {i + 1} appends after the copy")
    held = sum(before)
    same(counted, [held, held, held + 8, held + 5], "the list of lengths of cache and branch, at the copy and in the end,")


@exercise("KVCache", weight=4)
def test_a_copy_shares_nothing(learner):
    """copy() returns a cache with the same past; later appends to one of the two never change the other."""
    for before in ([3], [3, 2], [2, 1, 1]):
        own_pasts(learner, before)


@exercise("KVCache")
def test_an_empty_cache_can_be_copied(learner):
    """copy() of an empty cache is another empty cache."""
    own_pasts(learner, [])


def by_turns(make, mine, yours, branched, mode):
    """What two caches return alternately, and then a branch of the first: at the call, and at the end. The length of each."""
    with getattr(torch, mode)():
        first, second, gave = make(), make(), []
        for one, two in zip(mine, yours):
            gave += [first.append(*one), second.append(*two)]
        at_once = [(k.clone(), v.clone()) for k, v in gave]
        branch = first.copy()
        for one, two in zip(mine, branched):
            gave += [first.append(*one), branch.append(*two)]
            at_once += [(k.clone(), v.clone()) for k, v in gave[-2:]]
        return at_once, [(k.clone(), v.clone()) for k, v in gave], [first.length, second.length, branch.length]


def stays(learner, modes):
    lengths = shuffled(3, 1, 2, 1)
    n, seed = draw_cache_sizes(appended=lengths)
    mine, yours, branched = (chunks(n, seed + 50 * i, lengths) for i in range(3))
    turns = learner.bring(by_turns)
    found = {mode: turns(learner.KVCache, mine, yours, branched, mode) for mode in modes}
    after = learner.KVCache().append(*mine[0])
    for mode, (at_once, in_the_end, counted) in found.items():
        how = "" if mode == "enable_grad" else f" under torch.{mode}"
        same(counted, [14, 7, 14], f"the list of lengths{how}")
        for i in range(len(lengths)):
            filled(at_once[2 * i], mine[: i + 1], f"of a cache{how}, after append {i + 1},")
            filled(at_once[2 * i + 1], yours[: i + 1], f"of another cache{how}, after append {i + 1},")
        for i in range(len(lengths)):
            filled(at_once[8 + 2 * i], mine + mine[: i + 1], f"of the cache{how}, {i + 1} appends after it was copied,")
            filled(at_once[9 + 2 * i], mine + branched[: i + 1], f"of the branch{how}, {i + 1} appends after the copy,")
        close(in_the_end, at_once, f"the results of the appends{how}, compared after the last append,", tol=0.0)
    filled(after, mine[:1], "of a new cache, with gradient")


@exercise("KVCache", weight=2)
def test_returned_keys_and_values_do_not_change(learner):
    """The keys and values that append returned keep their values after later appends, to this cache or to a branch."""
    stays(learner, ["enable_grad"])


@exercise("KVCache", weight=2)
def test_without_gradient_it_keeps_the_same(learner):
    """Under torch.no_grad and torch.inference_mode caches and branches return and count the same as with gradient, and tensors returned by append do not change."""
    stays(learner, GRADIENT_FREE_MODES)


class Appending:
    """What a new cache gives at its third append of the same keys and values."""

    def __init__(self, make):
        self.make = make

    def __call__(self, k, v):
        cache = self.make()
        cache.append(k, v)
        cache = cache.copy()
        cache.append(k, v)
        return cache.append(k, v)[1]


@exercise("KVCache")
def test_a_cache_follows_dtype_and_device(learner):
    """Keys and values keep their dtype, including float64 and bfloat16, exactly, and stay on their device."""
    n, seed = draw_cache_sizes()
    parts = {dtype: chunks(n, seed, [2, 1, 4], dtype=dtype) for dtype in (torch.float64, torch.bfloat16)}
    got = {}
    for dtype, pairs in parts.items():
        cache = learner.KVCache()
        got[dtype] = [cache.append(k, v) for k, v in pairs][-1]
    for dtype, pairs in parts.items():
        filled(got[dtype], pairs, f"in {str(dtype).removeprefix('torch.')}", tol=0.0)
    k, v = parts[torch.float64][0]
    check_device_of_result(learner, torch.cat([v, v, v], dim=2), learner.bring(Appending)(learner.KVCache), k, v)
