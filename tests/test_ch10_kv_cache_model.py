"""Chapter 10, third part: a whole GPT that continues from caches, one for each layer."""

from types import SimpleNamespace

import module_pairs
import small_models
import torch
from cached_decoding import check_work, compare_chunks, outputs_by_chunk, relative_work
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import load_meta_device, on_meta, stays_on_input_device_without_blocks
from grader.execution.proxy import gradients, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from mode_orders import compare_in_every_order, results_in_every_order
from pytest_check import check
from small_models import ATTENTION_POSITIONS, TABLE_POSITIONS, gpt_ids
from torch import nn

TOO_LONG = "{end} positions do not fit into max_len = {max_len}"


def drawn(**more):
    """Different sizes, and a seed. Each test has one example: a mistake in a whole model shows at every size, and another seed draws other sizes."""
    n = SimpleNamespace(B=3, L=2, H=4, max_len=9, V=13 + int(torch.randint(3, ())))
    sizes(**vars(n), **more)
    return n, int(torch.randint(10000, ()))


def made(side, n, kind="CachedGPT", **options):
    return small_models.make_gpt(side, n, kind, **{"d_model": 6 * n.H} | options)


def give(learner, mine, values):
    module_pairs.set_parameters(learner, mine, values, "CachedGPT", "the names that GPT's have")


def pair(learner, reference, n, seed, **options):
    """The learner's model and the reference's GPT with the same random parameters, and those."""
    model = made(reference, n, "GPT", **options)
    values = randomise(model, seed, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    mine = made(learner, n, **options)
    give(learner, mine, values)
    return mine, model, values


def tensor_of(logits):
    holds(isinstance(logits, torch.Tensor), f"a CachedGPT should return only its logits, a tensor; this one returned a {type(logits).__name__}")
    return logits


def agrees(outputs, expected, lengths, how):
    compare_chunks((tensor_of(logits) for logits in outputs), expected, lengths, "the tensor of logits", how, tol=5e-5)


def agrees_with_one_pass(learner, reference, *schedules):
    n, seed = drawn(chunks=schedules[0] if len(schedules) == 1 else schedules)
    ids = [gpt_ids(n, seed, sum(lengths)) for lengths in schedules]
    models = [pair(learner, reference, n, seed, positions=positions)[:2] for positions in TABLE_POSITIONS + ATTENTION_POSITIONS]
    results = [[outputs_by_chunk(mine, mine.new_caches(), *text) for text in zip(ids, schedules)] for mine, _ in models]
    for positions, texts, (_, model) in zip(TABLE_POSITIONS + ATTENTION_POSITIONS, results, models):
        for outputs, read_ids, lengths in zip(texts, ids, schedules):
            agrees(outputs, model(read_ids)[0], lengths, f"with {positions} positions")


@exercise("CachedGPT", weight=2)
def test_without_caches_it_is_a_gpt(learner, reference):
    """Without caches, or with new ones, the logits are those of GPT at every position, also with one layer or one token: (B, T) becomes (B, T, V), a tensor."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 5)
    kinds = TABLE_POSITIONS[seed % 2], ATTENTION_POSITIONS[seed % 2]
    models = [pair(learner, reference, n, seed, positions=positions)[:2] for positions in kinds]
    results = [(mine(ids), mine(ids, caches=mine.new_caches())) for mine, _ in models]
    again = models[0][0](ids, None)
    single, model_of_one, _ = pair(learner, reference, n, seed, n_layers=1)
    chunks = outputs_by_chunk(single, single.new_caches(), ids, [3, 2])
    one_token = single(ids[:1, :1].clone()), single(ids[:1, :1].clone(), single.new_caches())
    for positions, (without, new), (_, model) in zip(kinds, results, models):
        expected = model(ids)[0]
        close(tensor_of(without), expected, f"the tensor of logits with {positions} positions", tol=5e-5)
        close(tensor_of(new), expected, f"the tensor of logits with {positions} positions and new caches", tol=5e-5)
    close(tensor_of(again), tensor_of(results[0][0]), "the tensor of logits with caches=None, after a pass with caches,", tol=5e-5)
    agrees(chunks, model_of_one(ids)[0], [3, 2], "with one layer")
    for logits, how in zip(one_token, ("", " and new caches")):
        close(tensor_of(logits), model_of_one(ids[:1, :1].clone())[0], f"the tensor of logits of a single token, with one layer{how}", tol=5e-5)


@exercise("CachedGPT", weight=4)
def test_token_after_token(learner, reference):
    """A prompt read at once and then single tokens, or single tokens from the start, give the logits of one pass, for all kinds of positions."""
    agrees_with_one_pass(learner, reference, [4 + int(torch.randint(2, ())), 1, 1], 3 * [1])


@exercise("CachedGPT", weight=4)
def test_chunks_of_any_length(learner, reference):
    """A text that is read in chunks of several lengths gives the logits of one pass, at every position, up to the last one that max_len allows."""
    agrees_with_one_pass(learner, reference, [4, 2, 1, 2])


@exercise("CachedGPT", weight=2)
def test_every_layer_has_its_own_cache(learner, reference):
    """new_caches() gives new, empty caches, one for each layer; after each pass every one of them contains all positions read so far."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 6)
    mine, model, _ = pair(learner, reference, n, seed)
    caches = mine.new_caches()
    counted = [[cache.length for cache in caches]]
    outputs = []
    for part in ids.split([3, 1, 2], dim=1):
        outputs.append(mine(part, caches))
        counted.append([cache.length for cache in caches])
    fresh = [cache.length for cache in mine.new_caches()]
    same(counted, [n.L * [length] for length in (0, 3, 4, 6)], "the list of the caches' lengths at first, and after 3, 1 and 2 tokens,")
    agrees(outputs, model(ids)[0], [3, 1, 2], "in chunks")
    same(fresh, n.L * [0], "the lengths of other new caches, after the first ones were filled,")


@exercise("CachedGPT", weight=2)
def test_two_texts_read_alternately_do_not_mix(learner, reference):
    """Two texts read alternately, each with its own caches, do not mix; a branch that continues from copies does not mix either."""
    n, seed = drawn()
    positions, lengths = (TABLE_POSITIONS + ATTENTION_POSITIONS)[seed % 4], [3, 1, 2]
    texts = [gpt_ids(n, seed + i, 6) for i in range(3)]
    texts[2][:, :4] = texts[0][:, :4]
    mine, model, _ = pair(learner, reference, n, seed, positions=positions)
    learner.bring(module_pairs.freeze)(mine)
    caches = [mine.new_caches(), mine.new_caches()]
    outputs = [[], [], []]
    for start, end in ((0, 3), (3, 4), (4, 6)):
        if start == 4:
            caches.append([cache.copy() for cache in caches[0]])
        for text, own, out in zip(texts, caches, outputs):
            out.append(mine(text[:, start:end], own))
    agrees(outputs[0], model(texts[0])[0], lengths, f"of the first text with {positions} positions")
    agrees(outputs[1], model(texts[1])[0], lengths, f"of the second text with {positions} positions")
    close(tensor_of(outputs[2][0]), model(texts[2])[0][:, 4:], f"the tensor of logits of a branch with {positions} positions", tol=5e-5)


@exercise("CachedGPT", weight=14)  # with the next test more than half: code that computes the past again passes all others
def test_each_position_is_computed_once(learner, reference):
    """Each token goes through each layer once: reading a text token by token costs about as much as reading it at once."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 9)
    mine, model, _ = pair(learner, reference, n, seed)
    outputs = outputs_by_chunk(mine, mine.new_caches(), ids, [5, 3, 1])
    work = relative_work(learner, mine, mine.new_caches, ids)
    agrees(outputs, model(ids)[0], [5, 3, 1], "in chunks")
    check_work(work, "reading 9 tokens one at a time takes", "each should go through each layer once")


@exercise("CachedGPT", weight=14)
def test_keys_and_values_of_the_past_stay(learner, reference):
    """Keys and values of the past come from the caches: when the weights change between two passes, those of earlier tokens stay as they were."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 9)
    mine, model, values = pair(learner, reference, n, seed)
    kept = made(reference, n)
    give(reference, kept, values)
    expected = model(ids)[0][:, :8]
    caches, theirs = mine.new_caches(), kept.new_caches()
    outputs = outputs_by_chunk(mine, caches, ids[:, :8], [5, 3])
    outputs_by_chunk(kept, theirs, ids[:, :8], [5, 3])
    values = randomise(model, seed + 1, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    give(learner, mine, values)
    give(reference, kept, values)
    after = mine(ids[:, 8:], caches)
    agrees(outputs, expected, [5, 3], "in chunks")
    close(tensor_of(after), kept(ids[:, 8:], theirs), "the tensor of logits for token 8, with other weights than for earlier tokens,", tol=5e-5)


@exercise("CachedGPT", weight=2)
def test_input_longer_than_a_position_table_raises_an_error(learner, reference):
    """With learned and sinusoidal positions past and new tokens together may be max_len; one more is a ValueError that names max_len, with caches or without."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, n.max_len + 1)
    positions = TABLE_POSITIONS[seed % 2]
    mine, model, _ = pair(learner, reference, n, seed, positions=positions)
    caches = mine.new_caches()
    outputs = outputs_by_chunk(mine, caches, ids[:, :-1], [n.max_len - 2, 2])
    agrees(outputs, model(ids[:, :-1])[0], [n.max_len - 2, 2], f"with {positions} positions")
    refuses(lambda: mine(ids), naming={"max_len": n.max_len}, because="the table has no row for the last position", example=TOO_LONG)
    because = f"{n.max_len} positions are in the caches, and the table ends there"
    refuses(lambda: mine(ids[:, -1:], caches), naming={"max_len": n.max_len}, because=because, example=TOO_LONG)


@exercise("CachedGPT")
def test_rope_and_alibi_work_past_max_len(learner, reference):
    """RoPE and ALiBi have no table of limited length: with caches too, a text may be longer than max_len."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, n.max_len + 3)
    positions, lengths = ATTENTION_POSITIONS[seed % 2], [n.max_len - 1, 3, 1]
    mine, model, _ = pair(learner, reference, n, seed, positions=positions)
    agrees(outputs_by_chunk(mine, mine.new_caches(), ids, lengths), model(ids)[0], lengths, f"with {positions} positions")


def exchanged(cached, plain, ids):
    """The state dicts' names, and the logits after each model has loaded the other's weights."""
    names = [list(cached.state_dict()) == list(plain.state_dict()), sorted(cached.state_dict()) == sorted(plain.state_dict())]
    cached.load_state_dict(plain.state_dict())
    loaded = cached(ids)
    with torch.no_grad():
        for i, parameter in enumerate(cached.parameters()):
            parameter.copy_((torch.arange(parameter.numel()) + i).cos().reshape(parameter.shape))
    plain.load_state_dict(cached.state_dict())
    return names[1], loaded, cached(ids), plain(ids)[0]


@exercise("CachedGPT", weight=2)
def test_weights_load_both_ways(learner, reference):
    """The state dict has the names and sizes of GPT's, so that the weights of each load into the other, tied or not."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 6)
    results = []
    for options in ({}, {"positions": "rope", "tie_weights": False, "d_ff": 30, "activation": "relu"}):
        model = made(reference, n, "GPT", **options)
        values = randomise(model, seed, scale=1.5)
        values.setdefault("lm_head.weight", values["token_emb.weight"])
        theirs = made(learner, n, "GPT", **options)
        give(learner, theirs, values)
        results.append((options, model, learner.bring(exchanged)(made(learner, n, **options), theirs, ids)))
    for options, model, (names, loaded, after, given_back) in results:
        how = ", ".join(f"{name}={value!r}" for name, value in options.items())
        holds(names, f"the names in the state dict should be those of GPT's{', with ' + how if how else ''}")
        close(tensor_of(loaded), model(ids)[0], f"the tensor of logits with the weights of a GPT {how}", tol=5e-5)
        close(given_back, tensor_of(after), f"the tensor of logits of a GPT with the weights of the CachedGPT {how}", tol=5e-5)


def first_values(model):
    """Each parameter's spread, the head's and the embedding's being one tensor or not, and config."""
    spread = {name: (float(p.mean()), float(p.std()), p.dim()) for name, p in model.named_parameters(remove_duplicate=False)}
    return spread, model.lm_head.weight is model.token_emb.weight, vars(model.config)


@exercise("CachedGPT")
def test_it_starts_as_a_gpt_does(learner, reference):
    """A new model's matrices are N(0, 0.02), its biases 0, its norms 1 and 0; embedding and head are one tensor if tied; `config` is an attribute."""
    n, seed = drawn()
    wide = dict(d_model=40, dropout=0.1)
    mine, apart, model = made(learner, n, **wide), made(learner, n, tie_weights=False, **wide), made(reference, n, "GPT", **wide)
    (found, tied, config), (_, both, _) = learner.bring(first_values)(mine), learner.bring(first_values)(apart)
    logits = mine.eval()(gpt_ids(n, seed, 5))
    expected, _, kept = reference.bring(first_values)(model)
    same(sorted(found), sorted(expected), "the names of the parameters")
    for name, (mean, spread, dim) in found.items():
        if dim > 1:
            holds(0.016 < spread < 0.024, f"{name} should start with a spread of 0.02; it is {spread:.3f}")
        else:
            holds(abs(mean - expected[name][0]) < 1e-6 and spread < 1e-6, f"{name} should be {round(expected[name][0])} throughout at first")
    holds(tied and not both, "lm_head.weight and token_emb.weight should be one tensor if and only if tie_weights is True")
    same(config, kept, "the values of `config`")
    holds(0.02 < float(tensor_of(logits).std()) < 0.5, "the logits of a new model should be small, and not all equal")


@exercise("CachedGPT")
def test_dropout_acts_inside_the_blocks_only(learner, reference):
    """At dropout=1 in training the blocks add no more than a bias, with caches too; in eval mode nothing is dropped."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 6)
    mine, model, _ = pair(learner, reference, n, seed, dropout=1.0)
    dropped, expected = outputs_by_chunk(mine, mine.new_caches(), ids, [4, 2]), model(ids)[0]
    quiet = outputs_by_chunk(mine.eval(), mine.new_caches(), ids, [4, 2])
    agrees(dropped, expected, [4, 2], "in training at dropout=1")
    agrees(quiet, model.eval()(ids)[0], [4, 2], "in eval mode")


@exercise("CachedGPT")
def test_without_caches_it_can_be_trained(learner, reference):
    """Without caches every parameter gets the gradient that GPT's gets."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 5)
    mine, model, _ = pair(learner, reference, n, seed, tie_weights=False)
    mine, model = mine.double(), model.double()  # in float32 rounding hides small gradients
    cotangent = torch.linspace(-1, 1, n.B * 5 * n.V, dtype=torch.float64).cos().reshape(n.B, 5, n.V)
    found, expected = gradients(mine, ids, cotangent=cotangent), gradients(reference.bring(LogitsOf)(model), ids, cotangent=cotangent)
    close(tensor_of(found.output), expected.output, "the tensor of logits", tol=5e-5)
    for name in ("token_emb.weight", "pos_emb.weight", "blocks.0.attn.W_v.weight", "blocks.1.ffn.up.weight", "ln_f.weight", "lm_head.weight"):
        with check:
            holds(found.parameters.get(name) is not None, f"no gradient reaches {name}: it will never learn")
            close(found.parameters[name], expected.parameters["model." + name], f"the gradient of {name}", tol=1e-4)


def chunk_logits(model, ids, lengths):
    """The logits for `ids`, chunk by chunk, with new caches."""
    caches = model.new_caches()
    return [model(part, caches) for part in ids.split(lengths, dim=1)]


@exercise("CachedGPT", weight=2)
def test_without_gradient_the_logits_are_the_same(learner, reference):
    """Under torch.no_grad and torch.inference_mode the logits are those with gradient, with caches and without; between and after them the model can be trained."""
    lengths = [3, 1, 2]
    n, seed = drawn(chunks=lengths)
    ids = gpt_ids(n, seed, 6)
    kinds = TABLE_POSITIONS[seed % 2], ATTENTION_POSITIONS[seed % 2]
    models = [pair(learner, reference, n, seed, positions=positions)[:2] for positions in kinds]
    read_all = learner.bring(chunk_logits)
    found = [call_without_gradient(learner, read_all, mine, ids, lengths) for mine, _ in models]
    rounds = [(None, [ids[:, :3].clone()]), (None, [ids])]
    trained = [results_in_every_order(learner, mine, rounds) for mine, _ in models]
    for positions, outputs, in_order, (_, model) in zip(kinds, found, trained, models):
        for mode in GRADIENT_FREE_MODES:
            agrees(outputs[mode], model(ids)[0], lengths, f"with {positions} positions under torch.{mode}")
        compare_in_every_order(in_order, model, rounds, ["ids"], f"the tensor of logits with {positions} positions")


class LogitsOf(nn.Module):
    """A GPT's logits without its loss, to compute their gradients."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids)[0]


class Reading(nn.Module):
    """A model that reads ids in two chunks, with new caches."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        caches = self.model.new_caches()
        self.model(ids[:, :3], caches)
        return self.model(ids[:, 3:], caches)


@exercise("CachedGPT")
def test_cached_passes_follow_dtype_and_device(learner, reference):
    """In double precision the logits are double, in bfloat16 they are bfloat16, and with the model and the ids on another device nothing stays behind."""
    n, seed = drawn()
    ids = gpt_ids(n, seed, 5)
    models = [pair(learner, reference, n, seed, positions=positions)[:2] for positions in ("sinusoidal",)]
    reading = [learner.bring(Reading)(mine) for mine, _ in models]
    for whole, (_, model) in zip(reading, models):
        close(whole.double()(ids), model.double()(ids)[0][:, 3:], "the tensor of logits in float64", tol=5e-5)
        close(whole.bfloat16()(ids), model.bfloat16()(ids)[0][:, 3:], "the tensor of logits in bfloat16", tol=0.15)
    for (mine, _), whole in zip(models, reading):
        if not learner.bring(stays_on_input_device_without_blocks)(mine, ids):
            load_meta_device()
            there = learner.bring(on_meta)(whole, ids)
            holds(there is None or there.device.type == "meta", "the logits should be on the device of the ids")
