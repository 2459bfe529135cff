"""Chapter 10: the cache of keys and values, and attention that goes on from it. A whole GPT with caches is in test_ch10_kv_cache_model.py."""

from types import SimpleNamespace

import torch
from counting import times_the_work
from elsewhere import follows_its_inputs, meta_is_ready
from grader.comparing import close, holds, same, sizes
from grader.door.near import gradients, load, parameters, randomise, state
from grader.marks import exercise
from preparing import frozen
from strategies import tensor
from torch import nn

KINDS = ("none", "rope", "alibi")


def drawn(**more):
    """Sizes, no two alike, and a seed. One example a test: what is broken here is broken at every size, and a run with another seed draws others."""
    B, H = (2 + int(i) for i in torch.randperm(3)[:2])
    n = SimpleNamespace(B=B, H=H, d_head=6, D=6 * H)
    sizes(B=B, H=H, d_head=6, **more)
    return n, int(torch.randint(10000, ()))


def shuffled(*lengths):
    """These lengths of chunks in any order."""
    return [lengths[i] for i in torch.randperm(len(lengths))]


def chunks(n, seed, lengths, dtype=torch.float32):
    """Keys and values of as many new positions as each length says."""
    return [tuple(tensor(seed + 2 * i + j, n.B, n.H, T, n.d_head, dtype=dtype) for j in (0, 1)) for i, T in enumerate(lengths)]


def filled(got, expected, what, tol=1e-5):
    """Is this what an append gives: two tensors, the keys and the values of all positions in `expected`?"""
    holds(isinstance(got, tuple | list) and len(got) == 2, f"append should give two tensors, all keys and all values; it gave {type(got).__name__}")
    for name, tensors, result in zip(("keys", "values"), zip(*expected), got):
        close(result, torch.cat(tensors, dim=2), f"the tensor of {name} {what}", tol=tol)


# ---- KVCache


@exercise("KVCache", weight=3)
def test_all_keys_and_values_come_back_in_order(learner):
    """Each append gives the keys and the values of all positions so far, the oldest first: (B, H, P + T, d_head)."""
    lengths = shuffled(3, 1, 2, 5)
    n, seed = drawn(appended=lengths)
    parts = chunks(n, seed, lengths)
    cache = learner.KVCache()
    got = [cache.append(k, v) for k, v in parts]
    for i, pair in enumerate(got):
        filled(pair, parts[: i + 1], f"after append {i + 1}")


@exercise("KVCache", weight=2)
def test_length_counts_positions(learner):
    """`length` is 0 at first, and grows by the number of new positions with each append."""
    lengths = shuffled(4, 1, 2, 1)
    n, seed = drawn(appended=lengths)
    parts = chunks(n, seed, lengths)
    cache = learner.KVCache()
    counted = [cache.length]
    for k, v in parts:
        got = cache.append(k, v)
        counted.append(cache.length)
    same(counted, [sum(lengths[:i]) for i in range(len(lengths) + 1)], "the list of lengths, before and after each append,")
    filled(got, parts, "in the end")


@exercise("KVCache", weight=2)
def test_one_position_at_a_time_for_long(learner):
    """After a prompt, single positions can be added for as long as one likes, and nothing of the past is lost or rounded."""
    n, seed = drawn()
    parts = chunks(n, seed, [5] + 30 * [1])
    cache = learner.KVCache()
    got = [cache.append(k, v) for k, v in parts]
    for i in (0, 1, 7, 30):
        filled(got[i], parts[: i + 1], f"of a prompt of 5 and {i} single positions", tol=0.0)


@exercise("KVCache", weight=2)
def test_each_cache_is_its_own(learner):
    """Two caches filled by turns hold each its own positions, also when they differ in heads and width; a new one is empty."""
    lengths = shuffled(3, 1, 2)
    n, seed = drawn(appended=lengths)
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
    n, seed = drawn(appended_before_the_copy=before)
    got, counted, past, one, two = branched(learner, n, seed, before)
    for i, (mine, yours) in enumerate(got):
        filled(mine, past + one[: i + 1], f"of the cache, {i + 1} appends after it was copied")
        filled(yours, past + two[: i + 1], f"of the branch, {i + 1} appends after the copy")
    held = sum(before)
    same(counted, [held, held, held + 8, held + 5], "the list of lengths of cache and branch, at the copy and in the end,")


@exercise("KVCache", weight=4)
def test_a_branch_shares_nothing(learner):
    """copy() gives a cache with the same past; what is appended to one of the two afterwards never shows in the other."""
    for before in ([3], [3, 2], [2, 1, 1]):
        own_pasts(learner, before)


@exercise("KVCache")
def test_an_empty_cache_can_be_copied(learner):
    """copy() of a cache that holds nothing yet is another one that holds nothing yet."""
    own_pasts(learner, [])


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
    """Keys and values keep the dtype they came in, float64 and bfloat16 too, to the last digit, and stay on their device."""
    n, seed = drawn()
    parts = {dtype: chunks(n, seed, [2, 1, 4], dtype=dtype) for dtype in (torch.float64, torch.bfloat16)}
    got = {}
    for dtype, pairs in parts.items():
        cache = learner.KVCache()
        got[dtype] = [cache.append(k, v) for k, v in pairs][-1]
    for dtype, pairs in parts.items():
        filled(got[dtype], pairs, f"in {str(dtype).removeprefix('torch.')}", tol=0.0)
    k, v = parts[torch.float64][0]
    follows_its_inputs(learner, torch.cat([v, v, v], dim=2), learner.bring(Appending)(learner.KVCache), k, v)


# ---- CachedSelfAttention


def pair(learner, reference, n, seed, positions, **options):
    """The learner's module and the reference's plain one with the same random parameters, and those."""
    model = reference.CausalSelfAttention(n.D, n.H, positions, **options)
    values = randomise(model, seed, scale=1.5)
    mine = learner.CachedSelfAttention(n.D, n.H, positions, **options)
    load(mine, values)
    return mine, model, values


def read(mine, cache, x, lengths):
    """The outputs for `x`, chunk by chunk."""
    return [mine(part, cache) for part in x.split(lengths, dim=1)]


def agrees(outputs, expected, lengths, how):
    """Chunk by chunk, so that the first wrong chunk is the one shown."""
    done = 0
    for got, should, T in zip(outputs, expected.split(lengths, dim=1), lengths):
        where = f"positions {done} to {done + T - 1}" if T > 1 else f"position {done}"
        close(got, should, f"the output for {where}, {how},", tol=2e-5)
        done += T


def agrees_with_one_pass(learner, reference, lengths):
    n, seed = drawn(chunks=lengths)
    x = tensor(seed, n.B, sum(lengths), n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [read(mine, learner.KVCache(), x, lengths) for mine, _ in modules]
    for kind, outputs, (_, model) in zip(KINDS, results, modules):
        agrees(outputs, model(x), lengths, f"with positions={kind!r}")


@exercise("CachedSelfAttention", weight=2)
def test_without_a_cache_it_is_causal_attention(learner, reference):
    """With no cache, or an empty one, the output is CausalSelfAttention's, at every position and with every kind of positions."""
    n, seed = drawn()
    x = tensor(seed, n.B, 5, n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [(mine(x), mine(x, learner.KVCache()), mine(x, cache=None)) for mine, _ in modules]
    for kind, (without, empty, none), (_, model) in zip(KINDS, results, modules):
        close(without, model(x), f"the output with positions={kind!r}, without a cache,")
        close(empty, model(x), f"the output with positions={kind!r} and an empty cache")
        close(none, model(x), f"the output with positions={kind!r} and cache=None, after a pass with a cache,")


@exercise("CachedSelfAttention", weight=3)
def test_a_prompt_then_one_position_at_a_time(learner, reference):
    """A prompt read at once and then single positions give what one pass gives: each new position knows how many came before it."""
    agrees_with_one_pass(learner, reference, [3 + int(torch.randint(3, ())), 1, 1, 1])


@exercise("CachedSelfAttention", weight=2)
def test_one_position_at_a_time_from_the_start(learner, reference):
    """Position after position, the first one too, a text gives what it gives in one pass."""
    agrees_with_one_pass(learner, reference, 5 * [1])


@exercise("CachedSelfAttention", weight=4)
def test_chunks_of_any_length(learner, reference):
    """Read in chunks of several lengths, in any order, a text gives what it gives in one pass, at every position."""
    agrees_with_one_pass(learner, reference, [5, 4, 2, 1])
    agrees_with_one_pass(learner, reference, shuffled(5, 4, 2, 1))


@exercise("CachedSelfAttention", weight=2)
def test_the_cache_grows_by_what_was_read(learner, reference):
    """After each pass the cache's length is the number of positions read with it; a pass without a cache changes none."""
    n, seed = drawn()
    lengths = [3, 1, 2]
    x = tensor(seed, n.B, 6, n.D)
    mine, model, _ = pair(learner, reference, n, seed, KINDS[seed % 3])
    cache = learner.KVCache()
    outputs, counted = [], []
    for part in x.split(lengths, dim=1):
        outputs.append(mine(part, cache=cache))
        counted.append(cache.length)
        mine(part)
    counted.append(cache.length)
    same(counted, [3, 4, 6, 6], "the list of the cache's lengths after 3, 1 and 2 positions, and after a pass without it,")
    agrees(outputs, model(x), lengths, f"with positions={KINDS[seed % 3]!r}")


@exercise("CachedSelfAttention", weight=2)
def test_two_texts_by_turns(learner, reference):
    """Two texts read by turns, each with its own cache, and a branch of one of them, do not hear each other: the past is in the cache, not in the module."""
    n, seed = drawn()
    kind, lengths = KINDS[seed % 3], [3, 1, 2]
    texts = [tensor(seed + i, n.B, 6, n.D) for i in range(3)]
    texts[2][:, :4] = texts[0][:, :4]
    mine, model, _ = pair(learner, reference, n, seed, kind)
    learner.bring(frozen)(mine)
    caches = [learner.KVCache(), learner.KVCache()]
    outputs = [[], [], []]
    for start, end in ((0, 3), (3, 4), (4, 6)):
        if start == 4:
            caches.append(caches[0].copy())
        for text, cache, out in zip(texts, caches, outputs):
            out.append(mine(text[:, start:end], cache))
    agrees(outputs[0], model(texts[0]), lengths, f"of the first text with positions={kind!r}")
    agrees(outputs[1], model(texts[1]), lengths, f"of the second text with positions={kind!r}")
    close(outputs[2][0], model(texts[2])[:, 4:], f"the output of a branch with positions={kind!r}", tol=2e-5)


@exercise("CachedSelfAttention", weight=3)
def test_the_past_is_not_computed_again(learner, reference):
    """Each position goes through each projection once: to read a text position by position costs about what it costs at once, and kept keys and values stay."""
    n, seed = drawn()
    kind = KINDS[seed % 3]
    mine, model, values = pair(learner, reference, n, seed, kind)
    x = tensor(seed, n.B, 9, n.D)
    kept = reference.CachedSelfAttention(n.D, n.H, kind)
    load(kept, values)
    cache, expected = learner.KVCache(), reference.KVCache()
    outputs, before = read(mine, cache, x[:, :8], [5, 3]), read(kept, expected, x[:, :8], [5, 3])
    work = times_the_work(learner, mine, learner.KVCache, x)
    values = randomise(model, seed + 1, scale=1.5)
    load(mine, values)
    load(kept, values)
    after = mine(x[:, 8:], cache)
    close(torch.cat(outputs, dim=1), torch.cat(before, dim=1), f"the output with positions={kind!r}", tol=2e-5)
    holds(work <= 1, f"to read 9 positions one at a time takes about {work} times the multiplications of one pass over them; each should be projected once")
    close(after, kept(x[:, 8:], expected), "the output for position 8, read with other weights than those before it,", tol=2e-5)


@exercise("CachedSelfAttention")
def test_the_weights_are_those_of_causal_attention(learner, reference):
    """Parameters and state dict have the names and sizes of CausalSelfAttention, with bias=False as well, and no cache is in them, not even after use."""
    n, seed = drawn()
    x = tensor(seed, n.B, 4, n.D)
    for bias in (True, False):
        mine, model, values = pair(learner, reference, n, seed, "alibi", bias=bias)
        outputs = read(mine, learner.KVCache(), x, [3, 1])
        held, saved = parameters(mine), state(mine)
        agrees(outputs, model(x), [3, 1], f"with positions='alibi' and bias={bias}")
        same(sorted(held), sorted(values), "the names of the parameters")
        same(sorted(saved), sorted(values), "the names in the state dict")


@exercise("CachedSelfAttention")
def test_in_training_weights_are_dropped(learner, reference):
    """In training, dropout acts on the weights of old and new keys alike, before the values are mixed; in eval mode nothing is dropped."""
    n, seed = drawn()
    mine, model, values = pair(learner, reference, n, seed, "none", dropout=0.5)
    zero = {"W_q.weight": torch.zeros(n.D, n.D), "W_q.bias": torch.zeros(n.D), "W_v.weight": torch.zeros(n.D, n.D), "W_v.bias": torch.ones(n.D)}
    alike = values | zero | {"W_out.weight": torch.eye(n.D), "W_out.bias": torch.zeros(n.D)}
    x = tensor(seed, 40, 8, n.D)
    quiet = read(mine.eval(), learner.KVCache(), x[:3], [6, 2])
    load(mine, alike)
    cache = learner.KVCache()
    noisy = read(mine.train(), cache, x, [7, 1])
    agrees(quiet, model.eval()(x[:3]), [6, 2], "in eval mode")
    last = noisy[1].view(40, n.H, n.d_head)  # all values are 1: what comes out is the sum of the weights that are left
    holds(float((last - last[..., :1]).abs().max()) < 1e-5, "dropout should act on the weights, which all features of a head share; here it acts on the features")
    kept = last[..., 0] * 8 / 2  # of 8 equal weights, each kept with chance 1/2 and then doubled
    whole = float((kept - kept.round()).abs().max()) < 1e-4
    holds(whole, "in training each of 8 equal weights should be dropped, or doubled at dropout=0.5, and what is left should mix the values")
    spread = float(kept.std())
    holds(0.9 < spread < 2.0, f"with 8 equal weights about 4 should be kept, now more, now fewer, spread 1.41; the spread is {spread:.2f}")
    holds(abs(float(kept.mean()) - 4) < 0.8, f"about 4 of 8 weights should be kept at dropout=0.5; it was {float(kept.mean()):.1f} on average")


@exercise("CachedSelfAttention")
def test_without_a_cache_it_can_be_trained(learner, reference):
    """Without a cache the gradients of x and of every weight are those of CausalSelfAttention."""
    n, seed = drawn()
    x, cotangent = tensor(seed, n.B, 5, n.D), tensor(seed + 1, n.B, 5, n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [gradients(mine, x, cotangent=cotangent) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        expected = gradients(model, x, cotangent=cotangent)
        close(got.output, expected.output, f"the output with positions={kind!r}")
        holds(got.inputs[0] is not None, f"with positions={kind!r} no gradient reaches x: somewhere the result is cut off from it")
        close(got.inputs[0], expected.inputs[0], f"the gradient of x with positions={kind!r}", tol=5e-5)
        for name in ("W_q.weight", "W_k.weight", "W_v.weight", "W_out.weight"):
            holds(got.parameters.get(name) is not None, f"with positions={kind!r} no gradient reaches {name}")
            close(got.parameters[name], expected.parameters[name], f"the gradient of {name} with positions={kind!r}", tol=5e-5)


class Reading(nn.Module):
    """Attention that reads its input in two chunks, with a new cache."""

    def __init__(self, attend, make_cache):
        super().__init__()
        self.attend, self.make_cache = attend, make_cache

    def forward(self, x):
        cache = self.make_cache()
        self.attend(x[:, :3], cache)
        return self.attend(x[:, 3:], cache)


@exercise("CachedSelfAttention")
def test_cached_passes_follow_dtype_and_device(learner, reference):
    """In double precision the output is double, in bfloat16 it is bfloat16, and on another device no mask, bias or cache stays behind."""
    n, seed = drawn()
    x = tensor(seed, n.B, 5, n.D, dtype=torch.float64)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    reading = [learner.bring(Reading)(mine, learner.KVCache) for mine, _ in modules]
    for kind, whole, (_, model) in zip(KINDS, reading, modules):
        close(whole.double()(x), model.double()(x)[:, 3:], f"the output in float64 with positions={kind!r}", tol=2e-5)
        close(whole.bfloat16()(x.bfloat16()), model.bfloat16()(x.bfloat16())[:, 3:], f"the output in bfloat16 with positions={kind!r}", tol=8e-2)
    meta_is_ready()
    for whole in reading:
        follows_its_inputs(learner, x[:, 3:].bfloat16(), whole, x.bfloat16())
