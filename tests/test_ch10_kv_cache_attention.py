"""Chapter 10, second part: attention that continues from a cache. A whole GPT with caches is in test_ch10_kv_cache_model.py."""

import torch
from cached_decoding import check_work, compare_chunks, draw_cache_sizes, outputs_by_chunk, relative_work, shuffled
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import check_device_of_result, load_meta_device
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same, sizes
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import freeze
from pytest_check import check
from strategies import tensor
from torch import nn

KINDS = ("none", "rope", "alibi")


# ---- CachedSelfAttention


def pair(learner, reference, n, seed, positions, **options):
    """The learner's module and the reference's plain one with the same random parameters, and those."""
    model = reference.CausalSelfAttention(n.D, n.H, positions, **options)
    values = randomise(model, seed, scale=1.5)
    mine = learner.CachedSelfAttention(n.D, n.H, positions, **options)
    load(mine, values)
    return mine, model, values


def agrees(outputs, expected, lengths, how):
    compare_chunks(outputs, expected, lengths, "the output", how, tol=2e-5)


def agrees_with_one_pass(learner, reference, lengths):
    n, seed = draw_cache_sizes(chunks=lengths)
    x = tensor(seed, n.B, sum(lengths), n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [outputs_by_chunk(mine, learner.KVCache(), x, lengths) for mine, _ in modules]
    for kind, outputs, (_, model) in zip(KINDS, results, modules):
        agrees(outputs, model(x), lengths, f"with positions={kind!r}")


@exercise("CachedSelfAttention", weight=2)
def test_without_a_cache_it_is_causal_attention(learner, reference):
    """With no cache, or an empty one, the output is CausalSelfAttention's, at every position and with every kind of positions."""
    n, seed = draw_cache_sizes()
    x = tensor(seed, n.B, 5, n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [(mine(x), mine(x, learner.KVCache()), mine(x, cache=None)) for mine, _ in modules]
    for kind, (without, empty, none), (_, model) in zip(KINDS, results, modules):
        close(without, model(x), f"the output with positions={kind!r}, without a cache,")
        close(empty, model(x), f"the output with positions={kind!r} and an empty cache")
        close(none, model(x), f"the output with positions={kind!r} and cache=None, after a pass with a cache,")


@exercise("CachedSelfAttention", weight=3)
def test_a_prompt_then_one_position_at_a_time(learner, reference):
    """A prompt read at once and then single positions give the results of one pass: each new position depends on the number of earlier ones."""
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


@exercise("CachedSelfAttention")
def test_a_text_may_be_long_and_a_batch_may_have_one_row(learner, reference):
    """There is no longest text: after more than a thousand positions the next ones still see all of them. The batch may have one row, and x may be a view."""
    n, seed = draw_cache_sizes()
    n.H, n.D, lengths = 2, 4, [3, 1030, 1, 2]
    sizes(B=1, H=2, d_head=2, chunks=lengths)
    x, view = tensor(seed, 1, sum(lengths), n.D), tensor(seed, 3, 5, n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS[1:]]
    results = [outputs_by_chunk(mine, learner.KVCache(), x, lengths) for mine, _ in modules]
    views = [learner.bring(of_view)(mine, view) for mine, _ in modules]
    for kind, outputs, of_views, (_, model) in zip(KINDS[1:], results, views, modules):
        agrees(outputs, model(x), lengths, f"with positions={kind!r}")
        close(of_views, model(view), f"the output for x that is a view, not contiguous in memory, with positions={kind!r}")


@exercise("CachedSelfAttention", weight=2)
def test_the_cache_grows_by_what_was_read(learner, reference):
    """After each pass the cache's length is the number of positions read with it; a pass without a cache changes none."""
    n, seed = draw_cache_sizes()
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
def test_two_texts_read_alternately_do_not_mix(learner, reference):
    """Two texts read alternately, each with its own cache, and a branch of one of them, do not mix: the past is in the cache, not in the module."""
    n, seed = draw_cache_sizes()
    kind, lengths = KINDS[seed % 3], [3, 1, 2]
    texts = [tensor(seed + i, n.B, 6, n.D) for i in range(3)]
    texts[2][:, :4] = texts[0][:, :4]
    mine, model, _ = pair(learner, reference, n, seed, kind)
    learner.bring(freeze)(mine)
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


@exercise("CachedSelfAttention", weight=12)  # with the next test more than half: code that computes the past again passes all others
def test_each_position_is_computed_once(learner, reference):
    """Each position goes through each projection once: reading position by position costs about as much as reading at once."""
    n, seed = draw_cache_sizes()
    kind = KINDS[seed % 3]
    mine, model, _ = pair(learner, reference, n, seed, kind)
    x = tensor(seed, n.B, 9, n.D)
    outputs = outputs_by_chunk(mine, learner.KVCache(), x, [5, 3, 1])
    work = relative_work(learner, mine, learner.KVCache, x)
    agrees(outputs, model(x), [5, 3, 1], f"with positions={kind!r}")
    check_work(work, "reading 9 positions one at a time takes", "each should be projected once")


@exercise("CachedSelfAttention", weight=12)
def test_keys_and_values_of_the_past_stay(learner, reference):
    """Keys and values of the past come from the cache: when the weights change between two passes, those of earlier positions stay as they were."""
    n, seed = draw_cache_sizes()
    kind = KINDS[seed % 3]
    mine, model, values = pair(learner, reference, n, seed, kind)
    x = tensor(seed, n.B, 9, n.D)
    kept = reference.CachedSelfAttention(n.D, n.H, kind)
    load(kept, values)
    cache, expected = learner.KVCache(), reference.KVCache()
    outputs, before = outputs_by_chunk(mine, cache, x[:, :8], [5, 3]), outputs_by_chunk(kept, expected, x[:, :8], [5, 3])
    values = randomise(model, seed + 1, scale=1.5)
    load(mine, values)
    load(kept, values)
    after = mine(x[:, 8:], cache)
    close(torch.cat(outputs, dim=1), torch.cat(before, dim=1), f"the output with positions={kind!r}", tol=2e-5)
    close(after, kept(x[:, 8:], expected), "the output for position 8, with other weights than for earlier positions,", tol=2e-5)


@exercise("CachedSelfAttention")
def test_the_weights_are_those_of_causal_attention(learner, reference):
    """Parameters and state dict have the names and sizes of CausalSelfAttention, with bias=False as well, and no cache is in them, not even after use."""
    n, seed = draw_cache_sizes()
    x = tensor(seed, n.B, 4, n.D)
    for bias in (True, False):
        mine, model, values = pair(learner, reference, n, seed, "alibi", bias=bias)
        outputs = outputs_by_chunk(mine, learner.KVCache(), x, [3, 1])
        held, saved = parameters(mine), state(mine)
        agrees(outputs, model(x), [3, 1], f"with positions='alibi' and bias={bias}")
        same(sorted(held), sorted(values), "the names of the parameters")
        same(sorted(saved), sorted(values), "the names in the state dict")


@exercise("CachedSelfAttention")
def test_in_training_weights_are_dropped(learner, reference):
    """In training, dropout acts on the weights of old and new keys, before the values are averaged; in eval mode nothing is dropped."""
    n, seed = draw_cache_sizes()
    mine, model, values = pair(learner, reference, n, seed, "none", dropout=0.5)
    zero = {"W_q.weight": torch.zeros(n.D, n.D), "W_q.bias": torch.zeros(n.D), "W_v.weight": torch.zeros(n.D, n.D), "W_v.bias": torch.ones(n.D)}
    alike = values | zero | {"W_out.weight": torch.eye(n.D), "W_out.bias": torch.zeros(n.D)}
    x = tensor(seed, 40, 8, n.D)
    quiet = outputs_by_chunk(mine.eval(), learner.KVCache(), x[:3], [6, 2])
    load(mine, alike)
    cache = learner.KVCache()
    noisy = outputs_by_chunk(mine.train(), cache, x, [7, 1])
    agrees(quiet, model.eval()(x[:3]), [6, 2], "in eval mode")
    last = noisy[1].view(40, n.H, n.d_head)  # all values are 1: what comes out is the sum of the weights that are left
    holds(float((last - last[..., :1]).abs().max()) < 1e-5, "dropout should act on the weights, which all features of a head share; here it acts on the features")
    kept = last[..., 0] * 8 / 2  # of 8 equal weights, each kept with chance 1/2 and then doubled
    whole = float((kept - kept.round()).abs().max()) < 1e-4
    holds(whole, "in training each of 8 equal weights should be dropped, or doubled at dropout=0.5, and the remaining weights should average the values")
    spread = float(kept.std())
    holds(0.9 < spread < 2.0, f"with 8 equal weights about 4 should be kept, with a standard deviation of 1.41 over the draws; it is {spread:.2f}")
    holds(abs(float(kept.mean()) - 4) < 0.8, f"about 4 of 8 weights should be kept at dropout=0.5; it was {float(kept.mean()):.1f} on average")


@exercise("CachedSelfAttention")
def test_without_a_cache_it_can_be_trained(learner, reference):
    """Without a cache the gradients of x and of every weight are those of CausalSelfAttention."""
    n, seed = draw_cache_sizes()
    x, cotangent = tensor(seed, n.B, 5, n.D), tensor(seed + 1, n.B, 5, n.D)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    results = [gradients(mine, x, cotangent=cotangent) for mine, _ in modules]
    for kind, got, (_, model) in zip(KINDS, results, modules):
        expected = gradients(model, x, cotangent=cotangent)
        with check:
            close(got.output, expected.output, f"the output with positions={kind!r}")
        with check:
            holds(got.inputs[0] is not None, f"with positions={kind!r} no gradient reaches x: somewhere the result is cut off from it")
            close(got.inputs[0], expected.inputs[0], f"the gradient of x with positions={kind!r}", tol=5e-5)
        for name in ("W_q.weight", "W_k.weight", "W_v.weight", "W_out.weight"):
            with check:
                holds(got.parameters.get(name) is not None, f"with positions={kind!r} no gradient reaches {name}")
                close(got.parameters[name], expected.parameters[name], f"the gradient of {name} with positions={kind!r}", tol=5e-5)


def chunk_outputs(attend, make_cache, x, lengths):
    """The outputs for `x`, chunk by chunk, with a new cache."""
    cache = make_cache()
    return [attend(part, cache) for part in x.split(lengths, dim=1)]


@exercise("CachedSelfAttention", weight=2)
def test_without_gradient_the_output_is_the_same(learner, reference):
    """Under torch.no_grad and torch.inference_mode chunks give what they give with gradient; between and after them the module can be trained, on longer x too."""
    lengths = [3, 1, 2]
    n, seed = draw_cache_sizes(chunks=lengths)
    x, longer = tensor(seed, n.B, 6, n.D), tensor(seed + 1, 2, 40, n.D)
    read_all = learner.bring(chunk_outputs)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    found = [call_without_gradient(learner, read_all, mine, learner.KVCache, x, lengths) for mine, _ in modules]
    rounds = [(None, [x]), (None, [longer])]
    trained = [results_in_every_order(learner, mine, rounds) for mine, _ in modules]
    for kind, outputs, in_order, (_, model) in zip(KINDS, found, trained, modules):
        for mode in GRADIENT_FREE_MODES:
            agrees(outputs[mode], model(x), lengths, f"with positions={kind!r} under torch.{mode}")
        compare_in_every_order(in_order, model, rounds, ["x"], f"the output with positions={kind!r}")


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
    """In double precision the output is double, with its digits, in bfloat16 it is bfloat16, and on another device no mask, bias or cache stays behind."""
    n, seed = draw_cache_sizes()
    x = tensor(seed, n.B, 5, n.D, dtype=torch.float64)
    modules = [pair(learner, reference, n, seed, kind)[:2] for kind in KINDS]
    reading = [learner.bring(Reading)(mine, learner.KVCache) for mine, _ in modules]
    for kind, whole, (_, model) in zip(KINDS, reading, modules):
        close(whole.double()(x), model.double()(x)[:, 3:], f"the output in float64 with positions={kind!r}", tol=1e-9 if kind == "none" else 2e-5)
        close(whole.bfloat16()(x.bfloat16()), model.bfloat16()(x.bfloat16())[:, 3:], f"the output in bfloat16 with positions={kind!r}", tol=8e-2)
    load_meta_device()
    for whole in reading:
        check_device_of_result(learner, x[:, 3:].bfloat16(), whole, x.bfloat16())
