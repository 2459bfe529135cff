"""Chapter 16, third part: the layers of a Llama, and the model. Loading is in test_ch16_published_model.py."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from backward_laws import on_views
from calls import call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import given, settings
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=3)


def with_heads(n):
    """Two key heads of width 6, each for a group of query heads."""
    n.K, n.d, n.H = 2, 6, 2 * n.group
    sizes(K=n.K, d=n.d, H=n.H)
    return n


attention_sizes = distinct("B", "T", "group", B=(1, 3), T=(5, 7), group=(3, 4)).map(with_heads)


def attentions(learner, reference, n, seed, base=100.0):
    """The learner's attention and the reference's with the same random weights."""
    model = reference.LlamaAttention(n.H * n.d, n.H, n.K, base)
    mine = learner.LlamaAttention(n.H * n.d, n.H, n.K, base)
    load(mine, randomise(model, seed, scale=2.0))
    return mine, model


# ---- LlamaAttention


@exercise("LlamaAttention", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_groups_of_query_heads_share_a_key_head(learner, reference, n, seed):
    """Query head h reads key head h // group; queries and keys are turned by their positions with the given base, values are not."""
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    found = [(*attentions(learner, reference, n, seed, base), base) for base in (100.0, 10_000.0)]
    outputs = [(mine(x), model(x), base) for mine, model, base in found]
    for got, expected, base in outputs:
        close(got, expected, f"the output with base = {base:g}", tol=1e-4)


@exercise("LlamaAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_the_linear_layers_have_no_bias(learner, reference, n, seed):
    """W_q and W_out are D -> D, W_k and W_v D -> n_kv_heads · d, none has a bias, and the state dict has nothing else; the base is 10,000 unless given."""
    D, mine = n.H * n.d, learner.LlamaAttention(n.H * n.d, n.H, n.K)
    shapes = {name: tuple(value.shape) for name, value in parameters(mine).items()}
    expected = {"W_q.weight": (D, D), "W_k.weight": (n.K * n.d, D), "W_v.weight": (n.K * n.d, D), "W_out.weight": (D, D)}
    same(dict(sorted(shapes.items())), dict(sorted(expected.items())), "the shapes of the parameters")
    same(sorted(state(mine)), sorted(expected), "the names in the state dict")
    values, x = randomise(mine, seed), tensor(seed + 1, n.B, n.T, D)
    model = reference.LlamaAttention(D, n.H, n.K, 10_000.0)
    load(model, values)
    close(mine(x), model(x), "the output with the default base", tol=1e-4)


def numbers_of_heads(module):
    return [getattr(module, name, "missing") for name in ("n_heads", "n_kv_heads")]


@exercise("LlamaAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_later_chapters_find_the_numbers_of_heads(learner, reference, n, seed):
    """The numbers of query heads and of key heads are stored as `n_heads` and `n_kv_heads`."""
    mine, model = attentions(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    output, found = mine(x), learner.bring(numbers_of_heads)(mine)
    close(output, model(x), "the output", tol=1e-4)
    same(found, [n.H, n.K], "the attributes `n_heads` and `n_kv_heads`")


@exercise("LlamaAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_no_position_sees_a_later_one(learner, reference, n, seed):
    """A change at the last position changes no output before it, and the order of the positions matters."""
    mine, _ = attentions(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    other = torch.cat([x[:, :-1], tensor(seed + 2, n.B, 1, n.H * n.d)], dim=1)
    swapped = torch.cat([x[:, 1:2], x[:, :1], x[:, 2:]], dim=1)
    plain, changed, turned = mine(x), mine(other), mine(swapped)
    close(changed[:, :-1], plain[:, :-1], "the outputs before the position that was changed")
    holds(not torch.allclose(changed[:, -1], plain[:, -1], atol=1e-3), "the output of the last position does not depend on its input")
    holds(not torch.allclose(turned[:, -1], plain[:, -1], atol=1e-4), "the order of the earlier positions has no effect on the last output")


def noting_cache():
    """A cache that also records the shapes that it gets."""

    class NotingCache:
        def __init__(self):
            self.length, self.k, self.v, self.shapes = 0, None, None, []

        def append(self, k, v):
            self.shapes.append([list(k.shape), list(v.shape)])
            self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
            self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
            self.length = self.k.size(2)
            return self.k, self.v

    return NotingCache()


@exercise("LlamaAttention", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_piece_by_piece_from_a_cache_equals_one_pass(learner, reference, n, seed):
    """New positions continue after those in the cache, with their own angles; whatever the lengths of the pieces, the outputs are those of one pass."""
    mine, model = attentions(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    lengths = [2, 1, n.T - 4, 1]
    cache, single = learner.KVCache(), learner.KVCache()
    pieces = [mine(part, cache) for part in x.split(lengths, dim=1)]
    ones = [mine(part, single) for part in x.split(1, dim=1)]
    whole = model(x)
    close(torch.cat(pieces, dim=1), whole, f"the outputs of pieces of {', '.join(map(str, lengths))}", tol=1e-4)
    close(torch.cat(ones, dim=1), whole, "the outputs of single positions", tol=1e-4)
    same(cache.length, n.T, "the length of the cache")


@exercise("LlamaAttention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_the_cache_has_each_key_once(learner, reference, n, seed):
    """The cache gets n_kv_heads heads, (B, n_kv_heads, T, d): keys and values are repeated for their groups after they were stored."""
    mine, model = attentions(learner, reference, n, seed)
    cache, x = learner.bring(noting_cache)(), tensor(seed + 1, n.B, n.T, n.H * n.d)
    got = mine(x, cache)
    close(got, model(x), "the output of a whole text with an empty cache", tol=1e-4)
    same([list(map(list, shapes)) for shapes in cache.shapes], [[[n.B, n.K, n.T, n.d]] * 2], "the shapes of the keys and values that the cache got")


@exercise("LlamaAttention")
@few
@given(n=attention_sizes, seed=seeds)
def test_gradients_reach_the_input_and_every_weight(learner, reference, n, seed):
    """Without a cache, the gradients of the input and of all four weights are those of the formula; and a pass without gradient gives the same output."""
    mine, model = attentions(learner, reference, n, seed)
    x, cotangent = tensor(seed + 1, n.B, n.T, n.H * n.d), tensor(seed + 2, n.B, n.T, n.H * n.d)
    quiet = call_without_gradient(learner, mine, x)
    got, expected = gradients(mine, x, cotangent=cotangent), gradients(model, x, cotangent=cotangent)
    for mode, output in quiet.items():
        close(output, expected.output, f"the output in torch.{mode}", tol=1e-4)
    with check:
        close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=1e-4)
    for name, gradient in expected.parameters.items():
        with check:
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=1e-4)


@exercise("LlamaAttention")
def test_the_output_follows_dtype_and_device(learner, reference):
    """In double precision the output is double, with its digits, and on another device no mask and no position stays behind. x may be a view."""
    n = with_heads(SimpleNamespace(B=2, T=5, group=3))
    mine, model = attentions(learner, reference, n, 7)
    x = tensor(8, n.B, n.T, n.H * n.d, dtype=torch.float64)
    got, first = mine.double()(x), mine(x[:, :1])
    view = learner.bring(on_views)(mine, x)
    close(got, model.double()(x), "the output in float64", tol=2e-5)
    close(view, model(x), "the output in float64, of an x that is not contiguous,", tol=2e-5)
    close(first, model(x[:, :1]), "the output in float64 of position 0 alone, which is not turned,", tol=1e-12)
    check_device_of_result(learner, x, mine, x)


@exercise("LlamaAttention")
def test_sizes_that_do_not_fit_are_named(learner, reference):
    """n_heads must divide d_model, n_kv_heads must divide n_heads, and d_head must be even; a ValueError names what does not fit."""
    x, mine, model = tensor(1, 2, 3, 24), learner.LlamaAttention(24, 6, 3), reference.LlamaAttention(24, 6, 3)
    load(mine, randomise(model, 4))
    close(mine(x), model(x), "the output with sizes that fit", tol=1e-4)
    refuses(lambda: learner.LlamaAttention(24, 5, 5)(x), naming={"d_model": 24, "n_heads": 5}, because="the width cannot be cut into heads")
    refuses(lambda: learner.LlamaAttention(24, 6, 4)(x), naming={"n_heads": 6, "n_kv_heads": 4}, because="the groups would differ")
    refuses(lambda: learner.LlamaAttention(24, 8, 4)(x), naming={"d_head": 3}, because="features are turned in pairs")


# ---- LlamaBlock

block_sizes = distinct("B", "T", "group", "F", B=(1, 3), T=(4, 5), group=(2, 3), F=(19, 23)).map(with_heads)


def blocks(learner, reference, n, seed, base=100.0, eps=0.3):
    model = reference.LlamaBlock(n.H * n.d, n.H, n.K, n.F, base, eps)
    mine = learner.LlamaBlock(n.H * n.d, n.H, n.K, n.F, base, eps)
    load(mine, randomise(model, seed, scale=1.5))
    return mine, model


@exercise("LlamaBlock", weight=3)
@few
@given(n=block_sizes, seed=seeds)
def test_both_halves_add_to_the_stream(learner, reference, n, seed):
    """The block is x + attn(ln1(x)), and then that sum y gives y + ffn(ln2(y)): two RMSNorms with eps, and SwiGLU."""
    mine, model = blocks(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    close(mine(x), model(x), "the output", tol=1e-4)


@exercise("LlamaBlock")
@few
@given(n=block_sizes, seed=seeds)
def test_the_parts_have_their_names(learner, reference, n, seed):
    """The parameters are those of ln1, attn, ln2 and ffn, and none has a bias; base and eps have the usual defaults."""
    D, kv = n.H * n.d, n.K * n.d
    mine, model = learner.LlamaBlock(D, n.H, n.K, n.F), reference.LlamaBlock(D, n.H, n.K, n.F, 10_000.0, 1e-5)
    shapes = {name: tuple(value.shape) for name, value in parameters(mine).items()}
    expected = {
        "attn.W_k.weight": (kv, D), "attn.W_out.weight": (D, D), "attn.W_q.weight": (D, D), "attn.W_v.weight": (kv, D),
        "ffn.down.weight": (D, n.F), "ffn.gate.weight": (n.F, D), "ffn.up.weight": (n.F, D), "ln1.weight": (D,), "ln2.weight": (D,),
    }  # fmt: skip
    same(dict(sorted(shapes.items())), expected, "the shapes of the parameters")
    same(sorted(state(mine)), list(expected), "the names in the state dict")
    load(model, randomise(mine, seed))
    x = tensor(seed + 1, n.B, n.T, D, scale=0.003)
    close(mine(x), model(x), "the output with the defaults, of a small x", tol=1e-4)


@exercise("LlamaBlock", weight=2)
@few
@given(n=block_sizes, seed=seeds)
def test_a_block_continues_from_a_cache(learner, reference, n, seed):
    """With a cache, pieces of a text give the outputs of one pass."""
    mine, model = blocks(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d)
    cache = learner.KVCache()
    pieces = [mine(part, cache) for part in x.split([2, 1, n.T - 3], dim=1)]
    close(torch.cat(pieces, dim=1), model(x), "the outputs of pieces", tol=1e-4)


@exercise("LlamaBlock")
@few
@given(n=block_sizes, seed=seeds)
def test_a_block_can_be_trained(learner, reference, n, seed):
    """The gradients of x and of every parameter are those of the formula."""
    mine, model = blocks(learner, reference, n, seed)
    x, cotangent = tensor(seed + 1, n.B, n.T, n.H * n.d), tensor(seed + 2, n.B, n.T, n.H * n.d)
    got, expected = gradients(mine, x, cotangent=cotangent), gradients(model, x, cotangent=cotangent)
    with check:
        close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=2e-4)
    for name, gradient in expected.parameters.items():
        with check:
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=2e-4)


@exercise("LlamaBlock")
@few
@given(n=block_sizes, seed=seeds)
def test_a_block_computes_in_the_dtype_of_x(learner, reference, n, seed):
    """In double precision the output is double, and at position 0, which is not turned, it has all digits. x may be a view."""
    mine, model = blocks(learner, reference, n, seed)
    x = tensor(seed + 1, n.B, n.T, n.H * n.d, dtype=torch.float64)
    first, view = mine.double()(x[:, :1]), learner.bring(on_views)(mine, x)
    close(first, model.double()(x[:, :1]), "the output in float64 of position 0 alone", tol=1e-12)
    close(view, model(x), "the output in float64 of an x that is not contiguous", tol=2e-5)


# ---- Llama


def with_layers(n):
    n.N = 2
    sizes(N=n.N)
    return with_heads(n)


model_sizes = distinct("B", "T", "group", "F", "V", B=(1, 3), T=(4, 5), group=(2, 3), F=(9, 10), V=(13, 17)).map(with_layers)


def models(learner, reference, n, seed, tied=True, base=100.0, eps=0.3):
    sizes_ = (n.V, n.H * n.d, n.H, n.K, n.N, n.F, base, eps, tied)
    model, mine = reference.Llama(*sizes_), learner.Llama(*sizes_)
    load(mine, randomise(model, seed, scale=1.5))
    return mine, model


@exercise("Llama", weight=3)
@few
@given(n=model_sizes, seed=seeds)
def test_ids_become_logits(learner, reference, n, seed):
    """The ids go through the embedding, every block, the last norm and the head, tied or not; base and eps reach all parts."""
    ids = token_ids(seed + 1, n.B, n.T, vocab=n.V)
    found = [(tied, *models(learner, reference, n, seed, tied)) for tied in (True, False)]
    logits = [(tied, mine(ids), model(ids)) for tied, mine, model in found]
    for tied, got, expected in logits:
        close(got, expected, f"the logits with tied={tied}", tol=1e-4)


@exercise("Llama")
@few
@given(n=model_sizes, seed=seeds)
def test_a_tied_head_is_the_embedding(learner, reference, n, seed):
    """If tied, the head's weight is the embedding's own Parameter: one change reaches both. Otherwise they are two. The default is tied."""
    usual, tied, untied = (learner.Llama(n.V, n.H * n.d, n.H, n.K, n.N, n.F, **options) for options in ({}, {"tied": True}, {"tied": False}))
    new, ids = tensor(seed, n.V, n.H * n.d), token_ids(seed + 1, n.B, n.T, vocab=n.V)
    mine, theirs = models(learner, reference, n, seed)
    close(mine(ids), theirs(ids), "the logits of a tied model", tol=1e-4)
    for model, which in ((usual, "the default model"), (tied, "a tied model")):
        load(model, {"token_emb.weight": new})
        close(parameters(model)["lm_head.weight"], new, f"lm_head.weight of {which} after the embedding was loaded")
    before = parameters(untied)["lm_head.weight"]
    load(untied, {"token_emb.weight": new})
    close(parameters(untied)["lm_head.weight"], before, "lm_head.weight of a model that is not tied, after the embedding was loaded")
    names = {"token_emb.weight", "ln_f.weight", "lm_head.weight"} | {
        f"blocks.{i}.{part}.weight" for i in range(n.N) for part in
        ("ln1", "ln2", "attn.W_q", "attn.W_k", "attn.W_v", "attn.W_out", "ffn.gate", "ffn.up", "ffn.down")
    }  # fmt: skip
    same(sorted(parameters(untied)), sorted(names), "the names of the parameters")
    same(sorted(state(untied)), sorted(names), "the names in the state dict")


@exercise("Llama")
@few
@given(n=model_sizes, seed=seeds)
def test_base_and_eps_have_the_usual_defaults(learner, reference, n, seed):
    """Unless given, the base is 10,000 and eps is 1e-5, also for token vectors that are so small that eps counts."""
    ids = token_ids(seed + 1, n.B, n.T, vocab=n.V)
    sizes_ = (n.V, n.H * n.d, n.H, n.K, n.N, n.F)
    mine, model = learner.Llama(*sizes_, tied=False), reference.Llama(*sizes_, 10_000.0, 1e-5, False)
    values = randomise(model, seed, scale=2.0)
    logits = []
    for size in (1.0, 0.003):
        load(mine, values | {"token_emb.weight": size * values["token_emb.weight"]})
        load(model, values | {"token_emb.weight": size * values["token_emb.weight"]})
        logits.append((mine(ids), model(ids), f"the logits with the defaults, of token vectors times {size:g}"))
    for got, expected, what in logits:
        close(got, expected, what, tol=1e-4)


@exercise("Llama", weight=3)
@few
@given(n=model_sizes, seed=seeds)
def test_every_block_has_a_cache_of_its_own(learner, reference, n, seed):
    """new_caches gives an empty cache for each block; with them, pieces of a text give the logits of one pass."""
    mine, model = models(learner, reference, n, seed)
    ids = token_ids(seed + 1, n.B, n.T, vocab=n.V)
    caches, others = mine.new_caches(), mine.new_caches()
    lengths = [cache.length for cache in caches]
    pieces = [mine(part, caches) for part in ids.split([2, 1, n.T - 3], dim=1)]
    after = [cache.length for cache in caches], [cache.length for cache in others]
    same(lengths, [0] * n.N, "the lengths of new caches")
    close(torch.cat(pieces, dim=1), model(ids), "the logits of pieces", tol=1e-4)
    same(after[0], [n.T] * n.N, "the lengths of the caches after the text")
    same(after[1], [0] * n.N, "the lengths of other caches of the same model")


@exercise("Llama")
@few
@given(n=model_sizes, seed=seeds)
def test_logits_have_the_dtype_of_the_parameters(learner, reference, n, seed):
    """In double precision the logits are double, and at position 0 they have all digits. The ids may be a slice of a larger tensor."""
    mine, model = models(learner, reference, n, seed)
    ids = token_ids(seed + 1, n.B, n.T, vocab=n.V)
    first, view = mine.double()(ids[:, :1]), learner.bring(on_views)(mine, ids)
    close(first, model.double()(ids[:, :1]), "the logits in float64 of position 0 alone", tol=1e-12)
    close(view, model(ids), "the logits in float64 of ids that are not contiguous", tol=2e-5)


@exercise("Llama")
@few
@given(n=model_sizes, seed=seeds)
def test_gradients_reach_every_parameter(learner, reference, n, seed):
    """Without caches the model can be trained: each parameter gets its gradient, the tied matrix from both of its uses."""
    mine, model = models(learner, reference, n, seed)
    ids, cotangent = token_ids(seed + 1, n.B, n.T, vocab=n.V), tensor(seed + 2, n.B, n.T, n.V)
    got, expected = gradients(mine, ids, cotangent=cotangent), gradients(model, ids, cotangent=cotangent)
    for name, gradient in expected.parameters.items():
        with check:
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=2e-4)
