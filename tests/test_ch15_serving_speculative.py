"""Chapter 15, third part: speculative decoding. Both models are tables of logits; passes of the large one are counted.

Draws are tested with `check_frequencies` of distributions.py. In a text whose next token depends only on the last one, the tokens after a given token
are independent draws from its row. So the first 250 of them are tested, a fixed number.
"""

from collections import Counter

import torch
from calls import recorded_call
from changing_models import Additions, call_changing
from distributions import check_frequencies
from grader.execution.proxy import load
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import randomise_for_text
from strategies import seeds, tensor, token_ids
from table_models import MODES_AT_FIRST, TableModel
from torch import nn

few = settings(max_examples=3)
vocabularies = st.integers(4, 6)
PROMPT = torch.tensor([[2, 3, 1]])
GREEDY = {"temperature": 0.0}


def table_of(seed, V):
    """Random logits after each pair of tokens, of which two are nearly equal in each row: the greatest one and another."""
    table = tensor(seed, V, V, V, scale=1.5, dtype=torch.float64)
    best = table.argmax(-1, keepdim=True)
    return table.scatter(-1, (best + 1) % V, table.amax(-1, keepdim=True) - 1e-7)


def model_of(side, table, **options):
    return side.bring(TableModel)(table, **options)


def greedy_text(table, prompt, new, eos_id=None):
    """The prompt (1, T) and the likeliest tokens after it, up to the first eos_id."""
    tokens = [0, *prompt[0].tolist()]
    for _ in range(new):
        tokens.append(int(table[tokens[-2], tokens[-1]].argmax()))
        if tokens[-1] == eos_id:
            break
    return torch.tensor([tokens[1:]])


def drafts_of(seed, V, table):
    """Three tables for a draft: the model's own, another one, and one that prefers what the model does not."""
    return {"the model's own": table, "another": table_of(seed + 1, V), "the opposite": -table}


@exercise("generate_speculative", weight=3)
@few
@given(V=vocabularies, seed=seeds)
def test_at_temperature_zero_it_is_the_greedy_text(learner, V, seed):
    """With temperature 0 the text is the one that generate writes, token for token, with any draft and any n_draft: (1, T) -> (1, T + n)."""
    sizes(V=V)
    table, found = table_of(seed, V), []
    for which, draft in drafts_of(seed, V, table).items():
        for n_draft in (1, 2, 5):
            model, small = model_of(learner, table), model_of(learner, draft)
            found.append((which, n_draft, learner.generate_speculative(model, small, PROMPT, 9, n_draft=n_draft, temperature=0.0)))
    for which, n_draft, got in found:
        same(got, greedy_text(table, PROMPT, 9), f"the text with n_draft={n_draft} and {which} table as the draft's")


@exercise("generate_speculative", weight=2)
@settings(max_examples=2)
@given(seed=seeds)
def test_a_gpt_drafts_for_a_larger_one(learner, reference, seed):
    """Two GPTs of chapter 7, the draft smaller than the model, write what generate writes with the model alone, up to max_len."""
    ids, found = token_ids(seed, 1, 3, vocab=11), []
    for positions in ("learned", "rope"):
        mine, model = (side.GPT(side.GPTConfig(11, 10, 8, 2, 2, 5, positions, False)) for side in (learner, reference))
        load(mine, randomise_for_text(model, seed))
        small, small_values = (side.GPT(side.GPTConfig(11, 10, 4, 1, 1, 5, positions, False)) for side in (learner, reference))
        load(small, randomise_for_text(small_values, seed + 1))
        found.append((positions, learner.generate_speculative(mine, small, ids, 7, temperature=0.0), reference.generate(model, ids, 7, temperature=0.0)))
    for positions, got, expected in found:
        same(got, expected, f"the text of a GPT with positions={positions!r} and max_len=10")


@exercise("generate_speculative", weight=2)
@few
@given(V=vocabularies, seed=seeds)
def test_it_ends_with_the_first_eos(learner, V, seed):
    """The text ends with the first eos_id that is written, also in the middle of accepted tokens; an eos_id in the prompt finishes nothing."""
    sizes(V=V)
    table, found = table_of(seed, V), []
    after = greedy_text(table, PROMPT, 9)[0, 3:].tolist()
    for eos in {after[0], after[1], after[-1], 1, 3, 0}:
        for draft in (table, table_of(seed + 1, V)):
            model, small = model_of(learner, table), model_of(learner, draft)
            found.append((eos, learner.generate_speculative(model, small, PROMPT, 9, 4, eos, 0.0)))
    for eos, got in found:
        same(got, greedy_text(table, PROMPT, 9, eos), f"the text with eos_id={eos} after the prompt {PROMPT[0].tolist()}")


@exercise("generate_speculative", weight=5)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_the_model_judges_all_drafts_in_one_pass(learner, V, seed):
    """With the model as its own draft n tokens take ceil(n / (n_draft + 1)) passes of the model, at any temperature; with any draft at most n."""
    sizes(V=V)
    table, found = table_of(seed, V), []
    for n, n_draft, temperature in ((10, 4, 0.0), (10, 4, 0.6), (9, 2, 0.0), (9, 2, 1.0), (7, 1, 1.5), (1, 3, 0.0), (6, 9, 0.7), (23, 11, 0.0)):
        model, small = model_of(learner, table), model_of(learner, table)
        generator = learner.bring(new_generator)(seed)
        text = learner.generate_speculative(model, small, PROMPT, n, n_draft, temperature=temperature, generator=generator)
        found.append((n, n_draft, temperature, text.shape, model.passes))
    bad, opposite = model_of(learner, table), model_of(learner, -table)
    refused = learner.generate_speculative(bad, opposite, PROMPT, 8, temperature=0.0)
    most = bad.passes
    model = model_of(learner, table)
    learner.generate_speculative(model, model_of(learner, table), PROMPT, 21, temperature=0.0)
    for n, n_draft, temperature, shape, passes in found:
        what = f"{n} tokens with n_draft={n_draft}, temperature {temperature} and the model as its own draft"
        same(tuple(shape), (1, 3 + n), f"the shape of the text of {what}")
        expected = -(-n // (n_draft + 1))
        holds(passes == expected, f"{what} should take {expected} passes of the model, because no draft is refused; they took {passes}")
    holds(model.passes == 5, f"21 tokens should take 5 passes of the model without n_draft given, because it is 4 then; they took {model.passes}")
    same(refused, greedy_text(table, PROMPT, 8), "the text with a draft that is always refused")
    holds(most <= 8, f"8 tokens should take at most 8 passes of the model with any draft; they took {most}")


def rounds_of(table, draft, prompt, new, n_draft, rows):
    """The text of `new` tokens at temperature 0 with n_draft guesses a round, and its rounds; round i adds rows[i] to the model's logits."""
    text, rounds = [0, *prompt[0].tolist()], 0
    end = len(text) + new
    while len(text) < end:
        guess = list(text)
        for place in range(len(text), len(text) + n_draft + 1):
            guess.append(int(draft[guess[-2], guess[-1]].argmax()))
            text.append(int((table[text[-2], text[-1]] + rows[rounds]).argmax()))
            if text[place] != guess[place]:
                break
        rounds += 1
    return torch.tensor([text[1:end]]), rounds


@exercise("generate_speculative", weight=3)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_the_drafts_own_guesses_save_passes(learner, V, seed):
    """A draft that often, but not always, guesses what the model writes saves passes: each round takes one, and goes on after the first wrong guess."""
    sizes(V=V)
    table, new, found = table_of(seed, V), 16, []
    draft = table.clone()
    draft[seed % 2 :: 2, ::2] = table_of(seed + 1, V)[seed % 2 :: 2, ::2]
    for n_draft in (1, 3, 6):
        model, small = model_of(learner, table), model_of(learner, draft)
        text = learner.generate_speculative(model, small, PROMPT, new, n_draft, temperature=0.0)
        found.append((n_draft, text, model.passes, *rounds_of(table, draft, PROMPT, new, n_draft, torch.zeros(new, V))))
    for n_draft, text, passes, expected, rounds in found:
        what = f"{new} tokens with n_draft={n_draft} and a draft that is sometimes right"
        same(text, expected, f"the text of {what}")
        holds(passes <= rounds, f"{what} should take {rounds} passes of the model, one a round; they took {passes}")


@exercise("generate_speculative", weight=12)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_each_round_is_one_pass_of_the_model(learner, V, seed):
    """If the model changes with each of its passes, the tokens of a round are those that it writes in one pass: what it wrote in another pass is another text."""
    sizes(V=V)
    table, new, found = table_of(seed, V), 16, []
    rows, call = tensor(seed + 2, new, V, dtype=torch.float64), learner.bring(call_changing)
    for n_draft in (1, 3, 6):
        model, small = model_of(learner, table, changing=True), model_of(learner, table)
        text = call(learner.bring(Additions), rows, learner.generate_speculative, model, small, PROMPT, new, n_draft, None, 0.0)
        found.append((n_draft, text, rounds_of(table, table, PROMPT, new, n_draft, rows)[0]))
    for n_draft, text, expected in found:
        same(text, expected, f"the text of {new} tokens with n_draft={n_draft} by a model that changes with each of its passes")


def new_generator(seed):
    return torch.Generator().manual_seed(seed)


def texts_written(generate, large, small, temperature, many, seed):
    """Texts of 100 tokens with one generator, by two models whose logits depend on the last token; brought to the far side."""

    class LastToken(nn.Module):
        def __init__(self, table):
            super().__init__()
            self.table = table

        def forward(self, ids):
            return self.table[ids]

    generator, prompt = torch.Generator().manual_seed(seed), torch.tensor([[1]])
    return [generate(LastToken(large), LastToken(small), prompt, 100, 2, None, temperature, generator)[0].tolist() for _ in range(many)]


# Chosen so that wrong texts show in few draws, and every token comes often: at temperature 0.3 the likeliest ones are nearly certain.
LARGE = torch.tensor([[-1.0, -1.4, -0.3], [0.4, -1.6, 0.1], [-1.1, 0.9, -2.2]], dtype=torch.float64)
SMALL = torch.tensor([[-2.0, -0.2, -0.3], [-0.4, 1.8, 1.5], [0.9, 0.6, 1.3]], dtype=torch.float64)


@exercise("generate_speculative", weight=4)
def test_tokens_are_distributed_as_the_models_own(learner):
    """Each token is drawn from the model's distribution at this temperature, as if there were no draft"""
    temperature, write, generate = 0.3, learner.bring(texts_written), learner.generate_speculative
    (other_logits,) = write(generate, 2 * LARGE + 0.5, 2 * SMALL + 0.5, 1.0, 1, 4)
    (at_half,) = write(generate, LARGE, SMALL, 0.5, 1, 4)
    texts = write(generate, LARGE, SMALL, temperature, 11, 3)
    after = {last: [] for last in range(3)}
    for text in texts:
        for last, token in zip(text, text[1:]):
            after[last].append(token)
    for last, chances in enumerate((LARGE / temperature).softmax(-1).tolist()):
        what = f"at temperature {temperature}, the token after token {last}"
        check_frequencies(Counter(after[last][:250]), dict(enumerate(chances)), what)
    same(at_half, other_logits, "the text at temperature 0.5, compared with that at temperature 1 of models whose logits are 2 x + 0.5,")


def with_generators(generate, model, draft, ids, seed):
    """Texts with two generators of one seed, of another seed, with temperature=1 given, and second texts with the first two; torch's seed differs."""
    first, again, other, third = (torch.Generator().manual_seed(seed + i) for i in (0, 0, 1, 0))
    found = []
    for i, (generator, options) in enumerate(((first, {}), (again, {}), (other, {}), (third, {"temperature": 1.0}), (first, {}), (again, {}))):
        torch.manual_seed(seed + 40 + i)
        found.append(generate(model, draft, ids, 20, generator=generator, **options))
    return found


@exercise("generate_speculative")
@settings(max_examples=2)
@given(seed=seeds)
def test_the_same_generator_writes_the_same_text(learner, seed):
    """All random numbers come from the generator: the same seed writes the same text, whatever torch's global seed is."""
    tables = (tensor(seed + i, 6, 6, 6, scale=0.5, dtype=torch.float64) for i in (0, 1))
    model, small = (model_of(learner, table) for table in tables)
    first, again, other, given, second, second_again = learner.bring(with_generators)(learner.generate_speculative, model, small, PROMPT, seed)
    same(again, first, "the text with a second generator of the same seed")
    same(given, first, "the text with temperature=1.0 and a generator of the same seed, compared with the one without a temperature,")
    same(second_again, second, "the second text with a second generator of the same seed")
    holds(not torch.equal(first, other), "a generator with another seed should write another text; it wrote the same 20 tokens")
    holds(not torch.equal(first, second), "a second text with the same generator should draw new numbers; it is the same")


@exercise("generate_speculative", weight=2)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_prompt_and_new_tokens_must_fit_both_models(learner, V, seed):
    """A text that just fits max_len is written, and neither model is given more; a longer one, or n_draft below 1, is a ValueError before any pass."""
    sizes(V=V)
    table, wide = table_of(seed, V), {"positions": "rope", "max_len": 4}
    tabled = {"positions": ("learned", "sinusoidal")[seed % 2], "max_len": 9}
    fits = [learner.generate_speculative(model_of(learner, table, **a), model_of(learner, table, **b), PROMPT, 6, **GREEDY) for a, b in ((tabled, wide), (wide, tabled))]
    refused = []
    for a, b, new, options in ((tabled, wide, 7, {}), (wide, tabled, 7, {}), (tabled, wide, 20, {}), (wide, wide, 7, {"n_draft": 0})):
        model, small = model_of(learner, table, **a), model_of(learner, table, **b)
        call = recorded_call(lambda m=model, s=small, new=new, o=options: learner.generate_speculative(m, s, PROMPT, new, temperature=0.0, **o))
        refused.append((call, options or {"max_len": 9}, (model.passes, small.passes)))
    for got in fits:
        same(got, greedy_text(table, PROMPT, 6), "the text of 3 + 6 tokens with max_len = 9")
    for call, naming, passes in refused:
        refuses(call, naming=naming)
        holds(passes == (0, 0), f"the error should come before anything is computed; the model had run {passes[0]} times, the draft {passes[1]} times")


@exercise("generate_speculative", weight=2)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_speculation_does_not_change_either_model(learner, V, seed):
    """Both models return logits or a tuple; both run in eval mode without gradient, and each module of both has its old mode afterwards."""
    sizes(V=V)
    table, found = table_of(seed, V), []
    for kinds in (("logits", "tuple"), ("tuple", "logits")):
        model, small = (model_of(learner, table, kind=kind) for kind in kinds)
        text = learner.generate_speculative(model, small, PROMPT, 8, 3, temperature=0.0)
        found.append((kinds, text, model.passes, [each.modes() for each in (model, small)], model.graph or small.graph))
    for kinds, text, passes, modes, graph in found:
        same(text, greedy_text(table, PROMPT, 8), f"the text of two models with dropout, of which the first returns {kinds[0]}, the second {kinds[1]},")
        holds(passes == 2, f"8 tokens with n_draft=3 and an equal draft should take 2 passes; they took {passes}: with dropout on, the draft differs from the model")
        same(modes[0], MODES_AT_FIRST, "the list of the model's modes afterwards (model, dropout, a part that was in eval mode)")
        same(modes[1], MODES_AT_FIRST, "the list of the draft's modes afterwards (draft, dropout, a part that was in eval mode)")
        holds(not graph, "a model ran with gradient, which keeps all intermediate results in memory, although they are never used")


@exercise("generate_speculative")
def test_any_number_of_new_tokens(learner):
    """max_new_tokens may be 0, 1, or more; the prompt may be a single token."""
    table = table_of(2, 5)
    cases = [(PROMPT, 0), (PROMPT, 1), (PROMPT[:, :1], 5), (PROMPT[:, 1:], 13)]
    found = [learner.generate_speculative(model_of(learner, table), model_of(learner, table_of(9, 5)), ids, new, temperature=0) for ids, new in cases]
    for (ids, new), got in zip(cases, found):
        same(got, greedy_text(table, ids, new), f"the text of a prompt of {ids.size(1)} with max_new_tokens={new}")
