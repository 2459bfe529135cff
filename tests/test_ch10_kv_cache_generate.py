"""Chapter 10, fourth part: generating with caches, and how many bytes they take."""

import math
import numbers
from types import SimpleNamespace

import torch
from cached_decoding import check_work
from calls import recorded_call
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from grader.verdict.memory import StorageWatch
from hypothesis import given, settings
from memory_layouts import of_view
from strategies import distinct, token_ids
from torch import nn

TABLES, INSIDE = ("learned", "sinusoidal"), ("rope", "alibi")
GREEDY = {"temperature": 0.0}


def drawn(**others):
    """Sizes and a seed. One example for each test: a mistake in whole texts shows at every size, and another seed draws other sizes."""
    T, new, V = (low + int(torch.randint(3, ())) for low in (4, 6, 11))
    n = SimpleNamespace(B=3, T=T, new=new, max_len=T + new, V=V)
    sizes(**vars(n), **others)
    return n, int(torch.randint(10000, ()))


def values_of(reference, n, seed, positions, scale=2.0, **options):
    """A small GPT of the reference's, which may write by `generate`, and its random parameters; with a smaller scale all tokens are about as likely."""
    config = {"d_model": 8, "n_heads": 2, "n_layers": 1, "tie_weights": False} | options
    model = reference.CachedGPT(reference.GPTConfig(n.V, n.max_len, positions=positions, **config))
    return model, randomise(model, seed, scale)


def pair(learner, reference, n, seed, positions="rope", scale=2.0, **options):
    """The learner's CachedGPT and the reference's with the same random parameters."""
    model, values = values_of(reference, n, seed, positions, scale, **options)
    config = {"d_model": 8, "n_heads": 2, "n_layers": 1, "tie_weights": False} | options
    mine = learner.CachedGPT(learner.GPTConfig(n.V, n.max_len, positions=positions, **config))
    load(mine, values)
    return mine, model


def either(seed):
    """One kind of positions, another one with another seed."""
    return (TABLES + INSIDE)[seed % 4]


def prompt(n, seed, rows=None, length=None):
    return token_ids(seed, rows or n.B, length or n.T, vocab=n.V)


def noting(model):
    """From now on model.notes records for each call: the number of positions, whether all of the model was in eval mode, whether there was a graph."""
    forward, model.notes = model.forward, []

    def noted(*args, **options):
        result = forward(*args, **options)
        given = (args[0] if args else options["ids"]).size(1)
        model.notes.append([given, not any(part.training for part in model.modules()), result.requires_grad])
        return result

    model.forward = noted


# ---- generate_cached


@exercise("generate_cached", weight=3)
def test_the_text_equals_that_of_generate(learner, reference):
    """Greedy text is that of `generate`, token for token, in every row and with every kind of positions."""
    n, seed = drawn()
    texts = {}
    for positions in TABLES + INSIDE:
        mine, model = pair(learner, reference, n, seed, positions, n_layers=2)
        ids = prompt(n, seed)
        texts[positions] = learner.generate_cached(mine, ids, n.new, **GREEDY), reference.generate(model, ids, n.new, **GREEDY)
    for positions, (got, expected) in texts.items():
        same(got, expected, f'the text with positions="{positions}"')


def by_chance(generate, model, ids, new, options, seed, own=True):
    """A text drawn with a generator of this seed, or with torch's global generator."""
    torch.default_generator.manual_seed(seed)
    if own:
        options = {**options, "generator": torch.Generator().manual_seed(seed + 1)}
    return generate(model, ids, new, **options)


CHANCES = ({}, {"temperature": 0.4}, {"temperature": 30.0, "top_k": 2}, {"top_p": 0.6})  # the third draws one of two tokens for any model


@exercise("generate_cached", weight=3)
def test_the_same_generator_gives_the_text_of_generate(learner, reference):
    """From the same state of the same generator it draws what `generate` draws: temperature, top_k and top_p count, and without a generator torch's default generator."""
    n, seed = drawn()
    mine, _ = pair(learner, reference, n, seed, either(seed), scale=1.0)
    ids, text = prompt(n, seed), learner.bring(by_chance)
    asked = [(options, True) for options in CHANCES] + [({}, False)]
    texts = [[text(how, mine, ids, n.new, options, seed, own) for how in (learner.generate_cached, learner.generate)] for options, own in asked]
    for (options, own), (got, expected) in zip(asked, texts):
        how = ", ".join(f"{name}={value}" for name, value in options.items()) or "default options"
        same(got, expected, f"the text drawn with {how} and {'a' if own else 'no'} generator, from the state where generate began,")


@exercise("generate_cached")
def test_max_new_tokens_sets_the_number_of_tokens(learner, reference):
    """With max_new_tokens=0 the prompt comes back alone, with 1 one token follows, the likeliest; and a prompt may be a single token."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, either(seed))
    asked = [(prompt(n, seed), 1), (prompt(n, seed), 0), (prompt(n, seed, length=1), 3)]
    texts = [learner.generate_cached(mine, ids, new, **GREEDY) for ids, new in asked]
    for got, (ids, new) in zip(texts, asked):
        same(got, reference.generate(model, ids, new, **GREEDY), f"the text of a prompt of {ids.size(1)} and max_new_tokens={new}")


def endings(reference, n, seed, in_prompt=False):
    """A model, three prompts and an eos_id: greedily, the first row ends soon, the second later, the third never. With `in_prompt` the prompts contain it too."""
    for attempt in range(seed, seed + 50):
        model, values = values_of(reference, n, attempt, either(seed))
        prompts = prompt(n, attempt, rows=80)
        text = reference.generate(model, prompts, n.new, **GREEDY)[:, n.T :]
        for eos in range(1, n.V):
            able = (prompts[:, :-1] == eos).any(1) if in_prompt else torch.ones(80, dtype=torch.bool)
            first = [int((row == eos).nonzero()[0]) if (row == eos).any() else n.new for row in text]
            rows = [[row for row in range(80) if able[row] and low <= first[row] < high] for low, high in ((1, 3), (3, n.new - 1), (n.new, n.new + 1))]
            rows[0] = [row for row in rows[0] if (text[row, first[row] : 4] != eos).any()]  # it would write something else after its end
            if all(rows):
                return model, values, prompts[[found[0] for found in rows]], eos
    raise AssertionError("no such text was found")


def ending(learner, reference, n, seed, as_zero=False, **others):
    """The learner's model of `endings`, the reference's, the prompts and eos_id; `as_zero` gives the ending token the number 0."""
    model, values, ids, eos = endings(reference, n, seed, **others)
    if as_zero:
        values = {name: value.clone() for name, value in values.items()}
        for name in ("token_emb.weight", "lm_head.weight"):
            values[name][[0, eos]] = values[name][[eos, 0]]
        ids, eos = torch.where(ids == eos, 0, torch.where(ids == 0, eos, ids)), 0
        load(model, values)
    mine = learner.CachedGPT(learner.GPTConfig(n.V, n.max_len, d_model=8, n_heads=2, n_layers=1, tie_weights=False, positions=either(seed)))
    load(mine, values)
    return mine, model, ids, eos


@exercise("generate_cached", weight=2)
def test_a_finished_row_is_filled_with_eos(learner, reference):
    """A row that has written eos_id gets nothing but eos_id while others go on; eos_id may be 0, and without an eos_id nothing ends."""
    n, seed = drawn()
    mine, model, ids, eos = ending(learner, reference, n, seed, as_zero=True)
    texts = [learner.generate_cached(mine, ids, n.new, eos_id=end, **GREEDY) for end in (eos, None)]
    for got, end in zip(texts, (eos, None)):
        same(got, reference.generate(model, ids, n.new, eos_id=end, **GREEDY), f"the text with eos_id={end}")


@exercise("generate_cached", weight=2)
def test_the_text_ends_when_all_rows_are_finished(learner, reference):
    """When the last row has written its eos_id the text ends there, and not before: (B, T + n) with n below max_new_tokens."""
    n, seed = drawn()
    mine, model, ids, eos = ending(learner, reference, n, seed)
    asked = [ids[:2].clone(), ids[:1].clone()]
    texts = [learner.generate_cached(mine, some, n.new, eos_id=eos, **GREEDY) for some in asked]
    for got, some in zip(texts, asked):
        same(got, reference.generate(model, some, n.new, eos_id=eos, **GREEDY), f"the text of {len(some)} rows that all end")


@exercise("generate_cached")
def test_eos_in_the_prompt_finishes_nothing(learner, reference):
    """Only an eos_id that the model writes finishes a row; one in the prompt, or at its very end, does not."""
    n, seed = drawn()
    mine, model, ids, eos = ending(learner, reference, n, seed, in_prompt=True)
    last = torch.cat([ids[:, :-1], torch.full_like(ids[:, -1:], eos)], dim=1)
    got = [learner.generate_cached(mine, prompts, n.new, eos_id=eos, **GREEDY) for prompts in (ids, last)]
    same(got[0], reference.generate(model, ids, n.new, eos_id=eos, **GREEDY), "the text of prompts that contain eos_id")
    same(got[1], reference.generate(model, last, n.new, eos_id=eos, **GREEDY), "the text of prompts that end with eos_id")


def work_of_text(watch, generate, model, ids, new):
    """A greedy text, and how many times the multiplications of one pass over it all calls took, rounded; infinite if they are out of sight."""
    with watch(model=model) as seen:
        text = generate(model, ids, new, temperature=0.0)
    with torch.no_grad(), watch() as once:
        model(text)
    return text, round(seen.products / once.products) if not seen.left_torch() and once.products else math.inf


@exercise("generate_cached", weight=20)  # code that calls generate passes most of the others
def test_a_text_takes_the_work_of_one_pass(learner, reference):
    """All calls together take about as many multiplications as one pass over the whole text, with whatever copy of the model they are done."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, either(seed))
    ids = prompt(n, seed)
    text, work = learner.bring(work_of_text)(learner.bring(StorageWatch), learner.generate_cached, mine, ids, n.new)
    same(text, reference.generate(model, ids, n.new, **GREEDY), "the text")
    check_work(work, f"writing {n.new} tokens after {n.T} takes", "each position should go through the model only once")


@exercise("generate_cached", weight=6)
def test_each_position_goes_through_the_model_once(learner, reference):
    """The model gets the prompt, and then only new tokens: in all calls together at most as many positions as the text has (the last token is not needed)."""
    n, seed = drawn()
    asked = [(either(seed + 1), 1), (either(seed), n.T)]
    found = []
    for positions, length in asked:
        mine, model = pair(learner, reference, n, seed, positions)
        learner.bring(noting)(mine)
        ids = prompt(n, seed, length=length)
        text = learner.generate_cached(mine, ids, n.new, **GREEDY)
        found.append((text, reference.generate(model, ids, n.new, **GREEDY), [positions for positions, *_ in mine.notes]))
    for (positions, length), (got, expected, passes) in reversed(list(zip(asked, found))):
        same(got, expected, f'the text with positions="{positions}"')
        seen = f"for a prompt of {length} and {n.new} new tokens the model got {sum(passes)} positions ({' + '.join(map(str, passes))})"
        holds(sum(passes) <= length + n.new, f"{seen}; each should go through it only once")


@exercise("generate_cached", weight=2)
def test_a_text_longer_than_the_position_table_raises_an_error(learner, reference):
    """With learned or sinusoidal positions, prompt plus new tokens above max_len is a ValueError that names max_len, before the model is called; just max_len is fine."""
    n, seed = drawn()
    found = []
    for positions in TABLES:
        mine, model = pair(learner, reference, n, seed, positions)
        ids = prompt(n, seed)
        fits = learner.generate_cached(mine, ids, n.new, **GREEDY), reference.generate(model, ids, n.new, **GREEDY)
        learner.bring(noting)(mine)
        asked = [(ids, n.new + 5, int(fits[1][0, n.T])), (ids, n.new + 1, None)]  # the first would end early by itself
        calls = [recorded_call(lambda: learner.generate_cached(mine, some[:1].clone(), new, eos_id=eos, **GREEDY)) for some, new, eos in asked]
        found.append((positions, fits, [(new, again) for (_, new, _), again in zip(asked, calls)], len(mine.notes)))
    for positions, fits, refused, calls in found:
        same(*fits, f'the text that just fits, with positions="{positions}",')
        for new, again in refused:
            because = f"with {positions} positions {n.T} + {new} tokens do not fit into max_len = {n.max_len}"
            refuses(again, naming={"max_len": n.max_len}, because=because, example="prompt and new tokens are more than max_len = {max_len}")
        holds(calls == 0, "the model was called before the ValueError; check the length first")


@exercise("generate_cached", weight=3)
def test_rope_and_alibi_work_past_max_len_when_generating(learner, reference):
    """With rope and alibi max_len is no limit: dozens of tokens may follow, and beyond it nothing of the past is dropped or read again."""
    n, seed = drawn()
    found = []
    for positions in INSIDE:
        mine, model = pair(learner, reference, n, seed, positions)
        learner.bring(noting)(mine)
        ids, new = prompt(n, seed), n.new + (6 if positions == "rope" else 66)
        texts = learner.generate_cached(mine, ids, new, **GREEDY), reference.generate(model, ids, new, **GREEDY)
        found.append((positions, *texts, sum(given for given, *_ in mine.notes)))
    for positions, got, expected, through in found:
        length = expected.size(1)
        same(got, expected, f'the text of {length} tokens with positions="{positions}" and max_len={n.max_len}')
        holds(through <= length, f"{through} positions went through the model for a text of {length} tokens with {positions} and max_len={n.max_len}")


@exercise("generate_cached", weight=2)
def test_texts_do_not_affect_later_texts(learner, reference):
    """No text changes a later one: other prompts, longer ones, more rows, and calls without caches give the same results as alone."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, either(seed))
    asked = [prompt(n, seed), prompt(n, seed + 1), prompt(n, seed + 2, rows=5, length=n.T + 2), prompt(n, seed)]
    texts = [learner.generate_cached(mine, ids, 4, **GREEDY) for ids in asked]
    after = mine(asked[1])
    for number, (got, ids) in enumerate(zip(texts, asked), 1):
        same(got, reference.generate(model, ids, 4, **GREEDY), f"text number {number} written with one model")
    close(after, model(asked[1]), "the logits without caches, computed afterwards,")


def modes(model, training):
    """Every part's mode, after one part was put into the other mode."""
    model.train(training)
    model.blocks[0].train(not training)
    return [part.training for part in model.modules()]


def modes_now(model):
    return [part.training for part in model.modules()] + [torch.is_grad_enabled()]


def may_be_used_in_training(generate, model, ids, new, options):
    """Is the text an ordinary tensor, not one of inference mode?"""
    text = generate(model, ids, new, **options)
    return not isinstance(text, torch.Tensor) or not text.is_inference()


def written_without_gradient(generate, model, ids, new, options):
    """The text that is written where gradients are off, and whether they are still off afterwards."""
    with torch.no_grad():
        return generate(model, ids, new, **options), not torch.is_grad_enabled()


@exercise("generate_cached", weight=2)
def test_generating_does_not_change_the_model(learner, reference):
    """The model runs in eval mode and without gradient; afterwards each part, and torch's grad mode, is as before. The text may be used in training."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, either(seed), dropout=0.5)
    learner.bring(noting)(mine)
    ids, found = prompt(n, seed), []
    for training in (True, False):
        before = learner.bring(modes)(mine, training)
        found.append((learner.generate_cached(mine, ids, n.new, **GREEDY), before, learner.bring(modes_now)(mine)))
    quiet, still_off = learner.bring(written_without_gradient)(learner.generate_cached, mine, ids, n.new, GREEDY)
    usable, notes = learner.bring(may_be_used_in_training)(learner.generate_cached, mine, ids, n.new, GREEDY), mine.notes
    expected = reference.generate(model.eval(), ids, n.new, **GREEDY)
    for (text, *_), came in zip(found, ("training mode, one part of it in eval mode", "eval mode, one part of it in training mode")):
        same(text, expected, f"the text of a model with dropout that came in {came},")
    holds(all(quiet for _, quiet, _ in notes), "the model was called while a part of it was in training mode")
    holds(not any(graph for *_, graph in notes), "the model's logits carry a graph for gradients, which is never used: it grows with every token")
    for _, before, after in found:
        holds(after == [*before, True], "afterwards the model's parts, or torch's grad mode, are not in the mode they were in before")
    same(quiet, expected, "the text that is written where gradients are off")
    holds(still_off, "gradients were switched off before, and are switched on afterwards")
    holds(usable, "the text was made under torch.inference_mode: a model that is trained on it raises an error")


class Writing(nn.Module):
    """Greedy generation as a module that contains the model, so that both can be on another device."""

    def __init__(self, generate, model, eos):
        super().__init__()
        self.generate, self.model, self.eos = generate, model, eos

    def forward(self, ids):
        return self.generate(self.model, ids, 3, eos_id=self.eos, temperature=0.0)


@exercise("generate_cached")
def test_the_text_is_where_the_prompt_is(learner, reference):
    """The text is int64, and tensors made for each row are on the device of the prompt. The prompt may be a view."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, either(seed))
    ids = prompt(n, seed)
    expected = reference.generate(model, ids, 3, **GREEDY)
    eos = next(word for word in range(n.V) if not (expected[:, n.T :] == word).any())
    text = learner.bring(Writing)(learner.generate_cached, mine, eos)
    plain, of_a_view = text(ids), learner.bring(of_view)(text, ids)
    same(plain, expected, f"the text with eos_id={eos}")
    same(of_a_view, expected, "the text of a prompt that is a view, not contiguous in memory,")
    check_device_of_result(learner, expected, text, ids)


def written_in_float64(generate, model, ids, logits):
    """The greedy text of a model in float64 that gives these logits at every position."""
    model.double()
    with torch.no_grad():
        model.ln_f.weight.zero_()
        model.ln_f.bias.copy_(torch.arange(len(model.ln_f.bias)) == 0)
        model.lm_head.weight.zero_()
        model.lm_head.weight[:, 0] = logits
    return generate(model, ids, 3, temperature=0.0)


@exercise("generate_cached")
def test_float64_logits_are_not_rounded(learner, reference):
    """With float64 logits that are equal in float32, the greatest of them is the likeliest token."""
    n, seed = drawn()
    mine, _ = pair(learner, reference, n, seed, either(seed))
    ids, near = prompt(n, seed), torch.linspace(-1.0, 0.5, n.V, dtype=torch.float64)
    near[1:4] = torch.tensor([1.0, 1.0 + 1e-12, 1.0], dtype=torch.float64)
    text = learner.bring(written_in_float64)(learner.generate_cached, mine, ids, near)
    same(text, torch.cat([ids, torch.full((n.B, 3), 2)], dim=1), "the text of float64 logits that differ by 1e-12")


# ---- kv_cache_bytes

layers = distinct("layers", "heads", "rows", d_head=(5, 9), tokens=(10, 14))


def weighs(got, expected, what):
    """A whole number; 4.0 is one as well."""
    holds(isinstance(got, numbers.Real) and not isinstance(got, bool), f"{what} should be a number; it is a {type(got).__name__}")
    same(int(got) if got == int(got) else got, expected, what)


@exercise("kv_cache_bytes", weight=2)
@given(n=layers)
def test_keys_and_values_of_every_token_in_every_layer(learner, n):
    """Every token of every row stores a key and a value, d_head numbers each, in each head of each layer; a number takes bytes_per_value bytes."""
    by_place = learner.kv_cache_bytes(n.layers, n.heads, n.d_head, n.tokens, n.rows, 4)
    by_name = learner.kv_cache_bytes(bytes_per_value=1, batch=n.rows, seq_len=n.tokens, d_head=n.d_head, n_kv_heads=n.heads, n_layers=n.layers)
    numbers_kept = 2 * n.layers * n.heads * n.d_head * n.tokens * n.rows
    weighs(by_place, 4 * numbers_kept, "the number of bytes with bytes_per_value=4")
    weighs(by_name, numbers_kept, "the number of bytes with bytes_per_value=1")


@exercise("kv_cache_bytes")
@given(n=layers)
def test_one_row_in_half_precision(learner, n):
    """Left out, batch is 1 and bytes_per_value is 2."""
    one_row, half = learner.kv_cache_bytes(n.layers, n.heads, n.d_head, n.tokens), learner.kv_cache_bytes(n.layers, n.heads, n.d_head, n.tokens, n.rows)
    weighs(one_row, 4 * n.layers * n.heads * n.d_head * n.tokens, "the number of bytes with batch and bytes_per_value left out")
    weighs(half, 4 * n.layers * n.heads * n.d_head * n.tokens * n.rows, "the number of bytes with bytes_per_value left out")


@exercise("kv_cache_bytes", weight=2)
@settings(max_examples=1)
@given(n=layers)
def test_a_model_of_seven_billion(learner, n):
    """A 7B Llama (32 layers, 32 heads of 128) needs exactly 1 GiB for 2,048 tokens in half precision, a quarter with 8 key heads; terabytes are exact too."""
    found = [learner.kv_cache_bytes(32, heads, 128, tokens) for heads, tokens in ((32, 2048), (8, 2048), (32, 3000))]
    large = learner.kv_cache_bytes(81, 63, 127, 131071, 7, 3)
    for got, expected, what in zip(found, (2**30, 2**28, 3000 * 2**19), ("2,048 tokens", "2,048 tokens with 8 key heads", "3,000 tokens")):
        weighs(got, expected, f"the number of bytes for {what}")
    weighs(large, 2 * 81 * 63 * 127 * 131071 * 7 * 3, "the number of bytes for 7 texts of 131,071 tokens")
