"""Chapter 25, third part: a model that writes texts that match an automaton."""

from __future__ import annotations

import random
from collections import Counter

import torch
from changing_models import Additions, call_changing
from distributions import check_frequencies
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import given, settings
from small_automata import rows_of, table_by_hand, tokens_left
from strategies import seeds, tensor
from table_models import MODES_AT_FIRST, TableModel
from torch import nn

few = settings(max_examples=2)


def write(generate_matching, model, tokens, prompt, rows, start, accepting, limit, seed=None, **options):
    """What a model writes with these tokens, and the automaton whose steps are in `rows`. `tokens` may be a tokenizer."""
    from types import SimpleNamespace

    tokenizer = SimpleNamespace(token_bytes=tokens) if isinstance(tokens, list) else tokens
    if seed is not None:
        options["generator"] = torch.Generator().manual_seed(seed)
    return generate_matching(model, tokenizer, prompt, (start, accepting, lambda state, byte: rows[state].get(byte)), limit, **options)


def write_by_hand(logits_of, tokens, prompt, rows, start, accepting, limit, eos_id=None):
    """The ids of a model whose logits after some ids are logits_of(ids, passes), always the likeliest one; and the number of passes."""
    tokens = [b"" if i == eos_id else token for i, token in enumerate(tokens)]
    table = table_by_hand(rows, start, accepting, tokens)
    left, state, new, passes = tokens_left(table, accepting), start, [], 0
    while True:
        allowed = [i for i, after in table[state].items() if len(new) + 1 + left[after] <= limit]
        allowed += [eos_id] if eos_id is not None and state in accepting else []
        if not allowed:
            return new, passes
        best = allowed[0]
        if len(allowed) > 1:
            logits = logits_of([*prompt, *new], passes)
            passes, best = passes + 1, max(allowed, key=lambda i: float(logits[i]))
        if best == eos_id:
            return new, passes
        new.append(best)
        state = table[state][best]


def prefers(vocab, *order, after=()):
    """A table of logits by which these ids are the likeliest, in this order; and otherwise after some ids, in pairs (id, order)."""
    table = torch.zeros(vocab, vocab)
    for rank, one in enumerate(order):
        table[:, one] = float(len(order) - rank)
    for last, others in after:
        table[last] = torch.zeros(vocab)
        for rank, one in enumerate(others):
            table[last, one] = float(len(others) - rank)
    return table


def check_texts(learner, cases):
    """Each (tokens, table, steps, start, accepting, limit, options, ids, when); the prompt is a token that the model may know."""
    got = []
    for tokens, table, steps, start, accepting, limit, options, *_ in cases:
        model = learner.bring(TableModel)(table)
        got.append(learner.bring(write)(learner.generate_matching, model, list(tokens), [0], rows_of(steps), start, set(accepting), limit, **options))
    for mine, (*_, ids, when) in zip(got, cases):
        same(mine, ids, f"the ids {when}")


A_STAR_B = {1: {"a": 1, "b": 2}}  # starts in 1, accepts in 2
AB_STAR = {1: {"a": 2}, 2: {"b": 1}}  # (ab)*, starts in 1 and accepts there
TWO_WAYS = {1: {"x": 2, "y": 6}, 2: {"x": 3}, 3: {"x": 4}, 4: {"x": 6}}  # xxxx or y
A, B, C, E = 0, 1, 2, 3
ABCE = [b"a", b"b", b"c", b"<end>"]


@exercise("generate_matching", weight=3)
@few
@given(seed=seeds)
def test_a_model_writes_the_likeliest_text_that_matches(learner, seed):
    """At temperature 0, the next token is the likeliest of those that may come next, by the model's logits for the prompt and all tokens so far. Random automata, tokens and models, with and without eos_id."""
    cases = []
    for i in range(60):
        draw = random.Random(seed * 100 + i)
        states, eos = draw.sample(range(9), draw.randint(3, 5)), draw.choice([None, 2, 0])
        steps = {state: {letter: draw.choice(states) for letter in "ab" if draw.random() < 0.8} for state in states}
        tokens = [bytes(draw.choices(b"ab", k=draw.randint(1, 2))) for _ in range(4)] + [b""]
        rows, accepting = rows_of(steps), {draw.choice(states)}
        table = table_by_hand(rows, states[0], accepting, [b"" if t == eos else token for t, token in enumerate(tokens)])
        if states[0] in table:
            limit = tokens_left(table, accepting)[states[0]] + draw.randint(0, 5)
            cases.append((tensor(seed + i, 5, 5, 5), tokens, draw.choices(range(5), k=3), rows, states[0], accepting, limit, eos))
    cases = cases[:5]
    got = []
    for logits, *arguments, eos in cases:
        model = learner.bring(TableModel)(logits)
        got.append(learner.bring(write)(learner.generate_matching, model, *arguments, eos_id=eos))
    for mine, (logits, *arguments, eos) in zip(got, cases):
        expected, _ = write_by_hand(lambda ids, _, logits=logits: logits[ids[-2], ids[-1]], *arguments, eos)
        same(mine, expected, f"the ids with the tokens {arguments[0]}, max_new_tokens = {arguments[-1]} and eos_id = {eos}")


@exercise("generate_matching", weight=3)
def test_every_text_is_complete_within_the_budget(learner):
    """A token may come next only if the rest still fits: a text has at most max_new_tokens tokens, and matches. Without eos_id it is as long as it can be."""
    a_first, x_first = prefers(4, A, B, C, E), prefers(3, 0, 1, 2)
    xs = [b"x", b"xxx", b"y"]
    check_texts(learner, [
        (ABCE, a_first, A_STAR_B, 1, [2], 5, {}, [A, A, A, A, B], "of the pattern a*b by a model that prefers a, with max_new_tokens = 5"),
        (ABCE, a_first, A_STAR_B, 1, [2], 2, {}, [A, B], "of the pattern a*b, with max_new_tokens = 2"),
        (ABCE, a_first, A_STAR_B, 1, [2], 1, {}, [B], "of the pattern a*b, with max_new_tokens = 1"),
        (ABCE, prefers(4, B, A), A_STAR_B, 1, [2], 5, {}, [B], "of the pattern a*b by a model that prefers b"),
        (ABCE, a_first, AB_STAR, 1, [1], 5, {}, [A, B, A, B], "of the pattern (ab)*, with max_new_tokens = 5"),
        (ABCE, a_first, AB_STAR, 1, [1], 1, {}, [], "of the pattern (ab)*, with max_new_tokens = 1"),
        (ABCE, a_first, AB_STAR, 1, [1], 0, {}, [], "of the pattern (ab)*, with max_new_tokens = 0"),
        (xs, x_first, TWO_WAYS, 1, [6], 1, {}, [2], "of the pattern xxxx|y by a model that prefers x, with max_new_tokens = 1"),
        (xs, x_first, TWO_WAYS, 1, [6], 2, {}, [0, 1], "of the pattern xxxx|y with the tokens x, xxx and y, with max_new_tokens = 2"),
        (xs, x_first, TWO_WAYS, 1, [6], 3, {}, [0, 1], "of the pattern xxxx|y with the tokens x, xxx and y, with max_new_tokens = 3"),
        (xs, x_first, TWO_WAYS, 1, [6], 4, {}, [0, 0, 0, 0], "of the pattern xxxx|y with the tokens x, xxx and y, with max_new_tokens = 4"),
        (xs, x_first, TWO_WAYS, 1, [6], 40, {}, [0, 0, 0, 0], "of the pattern xxxx|y with max_new_tokens = 40"),
        ([b"x", b"y"], prefers(2, 0, 1), TWO_WAYS, 1, [6], 3, {}, [1], "of the pattern xxxx|y with the tokens x and y, with max_new_tokens = 3"),
        ([b"a", b"b", b"ab"], prefers(3, 0, 1, 2), {1: {"a": 2}, 2: {"b": 1}}, 1, [1], 4, {}, [0, 1, 0, 1], "of a model that writes a and b, although there is a token ab"),
        ([b"a", b"b", b"ab"], prefers(3, 0, 1, 2), {1: {"a": 2}, 2: {"b": 1}}, 1, [1], 3, {}, [0, 1, 2], "of the pattern (ab)* with the tokens a, b and ab, with max_new_tokens = 3"),
    ])  # fmt: skip


@exercise("generate_matching", weight=3)
def test_eos_ends_a_text_that_matches_and_no_other(learner):
    """eos_id may come next only where the text matches. It is not in the result and does not count as a token. Without eos_id, a token that ends texts is one like any other."""
    eos_first, eos_later = prefers(4, E, A, B), prefers(4, A, E, B)
    after_b = prefers(4, A, B, E, after=[(B, [E, A])])
    zero = [b"<end>", b"a", b"b"]
    check_texts(learner, [
        (ABCE, eos_first, A_STAR_B, 1, [2], 3, {"eos_id": E}, [A, A, B], "of the pattern a*b by a model that would rather stop at once"),
        (ABCE, eos_first, AB_STAR, 1, [1], 4, {"eos_id": E}, [], "of the pattern (ab)* by a model that stops as soon as it may"),
        (ABCE, eos_first, {1: {"a": 2}, 2: {"a": 3}, 3: {"a": 3}}, 1, [3], 9, {"eos_id": E}, [A, A], "of the pattern aaa* by a model that stops as soon as it may"),
        (ABCE, after_b, AB_STAR, 1, [1], 9, {"eos_id": E}, [A, B], "of the pattern (ab)* by a model that stops after b"),
        (ABCE, eos_later, AB_STAR, 1, [1], 4, {"eos_id": E}, [A, B, A, B], "of the pattern (ab)* by a model that goes on as long as it may, with max_new_tokens = 4"),
        (ABCE, eos_later, {1: {"a": 1}}, 1, [1], 3, {"eos_id": E}, [A, A, A], "of the pattern a* by a model that goes on as long as it may, with max_new_tokens = 3"),
        (ABCE, eos_first, {1: {"a": 1}}, 1, [1], 0, {"eos_id": E}, [], "of the pattern a* with max_new_tokens = 0"),
        (ABCE, eos_first, {1: {"a": 1}}, 1, [1], 3, {}, [A, A, A], "of the pattern a* without eos_id"),
        (zero, prefers(3, 0, 1, 2), AB_STAR, 1, [1], 4, {"eos_id": 0}, [], "of the pattern (ab)* with eos_id = 0 by a model that stops as soon as it may"),
        (zero, prefers(3, 0, 1, 2), A_STAR_B, 1, [2], 3, {"eos_id": 0}, [1, 1, 2], "of the pattern a*b with eos_id = 0"),
    ])  # fmt: skip


@exercise("generate_matching", weight=2)
def test_the_bytes_of_eos_are_never_written(learner):
    """If the bytes of eos_id would match, they do not count: eos_id ends the text and writes nothing. Another token with the same bytes may be written, and so may this one without eos_id. Tokens without bytes are never written."""
    alike, third = [b"a", b"b", b"c", b"a"], {1: {"a": 1, "b": 2}, 2: {"b": 2}}
    check_texts(learner, [
        (alike, prefers(4, E, B, A), A_STAR_B, 1, [2], 3, {"eos_id": E}, [B], "of the pattern a*b, if eos_id has the bytes of a"),
        (alike, prefers(4, E, B, A), A_STAR_B, 1, [2], 3, {}, [E, E, B], "of the pattern a*b, if two tokens have the bytes of a, without eos_id"),
        (alike, prefers(4, A, E, B), A_STAR_B, 1, [2], 3, {"eos_id": E}, [A, A, B], "of the pattern a*b, if eos_id has the bytes of a, by a model that prefers a"),
        (alike, prefers(4, E, B, A), third, 1, [1], 3, {"eos_id": E}, [], "of the pattern a*, if eos_id has the bytes of a"),
        ([b"a", b"", b"b", b""], prefers(4, 1, 3, 0, 2), A_STAR_B, 1, [2], 3, {"eos_id": 3}, [0, 0, 2], "with a special token that has no bytes"),
    ])  # fmt: skip
    go, model = learner.bring(write), learner.bring(TableModel)(prefers(2, 0, 1))
    fine = go(learner.generate_matching, model, [b"a", b"b"], [0], rows_of(A_STAR_B), 1, {2}, 2, eos_id=None)
    refuses(lambda: go(learner.generate_matching, model, [b"a", b"b"], [0], rows_of(A_STAR_B), 1, {2}, 2, eos_id=1), naming=("max_new_tokens",), because="only eos_id has a b, and it is never written")
    same(fine, [0, 1], "the ids of the pattern a*b without eos_id")


def write_counting(generate_matching, write, eos_id, *arguments):
    """The ids that a model writes which changes with each of its passes, and the number that its next pass would add to the first logit."""
    ids = write(generate_matching, *arguments, eos_id=eos_id)
    return [ids, float(torch.special.bessel_y1(torch.zeros(1))[0])]


@exercise("generate_matching", weight=3)
def test_a_single_choice_takes_no_pass_of_the_model(learner):
    """Where only one id may come next, also eos_id, it is taken without a pass. Otherwise there is one pass for each choice. The model here changes with each pass, so each one shows."""
    chars = [bytes([byte]) for byte in b"abcdefgh"]
    fork = {1: {"a": 2}, 2: {"b": 3, "c": 3}, 3: {"d": 4}, 4: {"e": 5}, 5: {"f": 6, "g": 6, "h": 2}}
    cases = [
        (chars, fork, 1, {6}, 20, None, "of a model with two choices in each round"),
        (chars, fork, 1, {6}, 6, None, "of a model with two choices, until the budget leaves fewer"),
        (chars, {1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}}, 1, {4}, 9, None, "of a text without any choice"),
        (chars, {1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}}, 1, {4}, 9, 7, "of a text without any choice, where eos_id alone is left at the end"),
        (chars, {1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}}, 1, {4, 2}, 9, 7, "of a text that may end in the middle"),
        (chars, {1: {"a": 1, "b": 2}, 2: {"c": 1}}, 1, {1, 2}, 5, None, "of a text whose length is limited only by the budget"),
        (chars, A_STAR_B, 1, {2}, 4, 7, "of the pattern a*b, whose last token is the only one that fits"),
        (chars, {1: {"a": 1}}, 1, {1}, 0, None, "of an empty text"),
    ]  # fmt: skip
    call, additions, go = learner.bring(call_changing), learner.bring(Additions), learner.bring(write_counting)
    got, shown = [], []
    for i, (tokens, steps, start, accepting, limit, eos, _) in enumerate(cases):
        rows, more = rows_of(steps), tensor(40 + i, 30, 8, scale=5.0)
        more[:, 0] = torch.arange(30.0) / 8 - 2  # tells which pass it is
        arguments = tokens, [0, 3], rows, start, accepting, limit
        model = learner.bring(TableModel)(torch.zeros(8, 8), changing=True)
        got.append(call(additions, more, go, learner.generate_matching, learner.bring(write), eos, model, *arguments))
        shown.append(write_by_hand(lambda ids, passes, more=more: more[passes], *arguments, eos))
    for mine, (ids, passes), (*_, when) in zip(got, shown, cases):
        same([mine[0], round((mine[1] + 2) * 8)], [ids, passes], f"the ids and the number of passes {when}")


def spoken(generate_matching, write, *arguments, vocab, quiet=False, positions=None, max_len=6, kind="tuple", **options):
    """What a model writes whose logits depend on its whole input, and what became of its modes.

    With `positions` it has a config, and refuses a text longer than max_len if they are a table.
    """
    from types import SimpleNamespace

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.drop, self.frozen = nn.Parameter(torch.ones(1)), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)).eval()
            self.always_eval, self.graph = True, False
            if positions is not None:
                self.config = SimpleNamespace(vocab_size=vocab, max_len=max_len, positions=positions)

        def forward(self, ids):
            T = ids.size(1)
            if positions == "learned" and T > max_len:
                raise ValueError(f"the model was given {T} tokens, and its table of positions ends at max_len = {max_len}")
            self.always_eval = self.always_eval and not any(module.training for module in self.modules())
            mixed = ((ids + 1) * torch.arange(1, T + 1) ** 2).cumsum(1)  # every token counts, by its place
            logits = (mixed[..., None] * (torch.arange(vocab) + 2) ** 2 % 1009) + torch.arange(vocab) / 100
            logits = self.frozen(self.drop(self.gain * logits))
            self.graph = self.graph or logits.requires_grad
            return logits if kind == "logits" else (logits, None)

    model = Speaker()
    before = [module.training for module in model.modules()]
    with torch.set_grad_enabled(not quiet):
        ids = write(generate_matching, model, *arguments, **options)
        grad_mode = torch.is_grad_enabled() != quiet
    return {
        "ids": ids,
        "always eval": model.always_eval,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": grad_mode,
    }


def speech(ids, vocab, window=None):
    """The logits of this model."""
    ids = ids if window is None else ids[-window:]
    mixed = sum((one + 1) * (place + 1) ** 2 for place, one in enumerate(ids))
    return [mixed * (v + 2) ** 2 % 1009 + v / 100 for v in range(vocab)]


BINARY = {1: {"a": 1, "b": 1, "c": 2}, 2: {"c": 1}}


@exercise("generate_matching", weight=2)
@few
@given(seed=seeds)
def test_each_choice_follows_from_the_prompt_and_all_new_tokens(learner, seed):
    """The model is given the prompt, which need not match, and all tokens so far, in this order, also those that were taken without a pass. If its positions are a table, it is given the last max_len of them."""
    tokens, draw = [b"a", b"b", b"cc", b"ab", b"x", b""], random.Random(seed)
    rows, cases = rows_of(BINARY), []
    for options in ({}, {"kind": "logits"}, {"eos_id": 5}, {"positions": "learned"}, {"positions": "rope"}):
        cases.append(([tokens, draw.choices(range(6), k=draw.randint(2, 4)), rows, 1, {1}, 8], options))
    steps = rows_of({1: {"a": 2, "b": 2}, 2: {"x": 3}, 3: {"c": 4}, 4: {"c": 1}})
    cases.append(([tokens, (4, 1), steps, 1, {1}, 12], {}))
    got = [learner.bring(spoken)(learner.generate_matching, learner.bring(write), *arguments, vocab=6, **options) for arguments, options in cases]
    for found, (arguments, options) in zip(got, cases):
        window = 6 if options.get("positions") == "learned" else None
        expected, _ = write_by_hand(lambda ids, _, window=window: speech(ids, 6, window), *arguments, options.get("eos_id"))
        same(found["ids"], expected, f"the ids after the prompt {arguments[1]} with {options or 'nothing else'}")


@exercise("generate_matching", weight=2)
def test_writing_leaves_the_model_as_it_is(learner):
    """The model runs in eval mode and without gradient. Afterwards each module has its old mode, and gradients are on or off as before."""
    arguments = [b"a", b"b", b"cc", b"ab"], [1, 2], rows_of(BINARY), 1, {1}, 6
    look, go = learner.bring(spoken), learner.bring(write)
    got = look(learner.generate_matching, go, *arguments, vocab=4)
    quiet = look(learner.generate_matching, go, *arguments, vocab=4, quiet=True)
    model = learner.bring(TableModel)(prefers(4, A, B))
    ids = go(learner.generate_matching, model, ABCE, [0], rows_of(A_STAR_B), 1, {2}, 3)
    modes = model.modes()
    same(got["ids"], write_by_hand(lambda ids, _: speech(ids, 4), *arguments)[0], "the ids of a model with dropout")
    same(ids, [A, A, B], "the ids of a model in train mode")
    holds(got["always eval"], "the model ran in train mode: with dropout it writes otherwise each time")
    holds(not got["graph"], "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")
    holds(got["modes"], "the model was in train mode, and a part of it in eval mode on purpose; afterwards a part is in another mode than before")
    same(modes, MODES_AT_FIRST, "the modes of the model, its dropout and its frozen part afterwards")
    holds(got["grad mode"] and quiet["grad mode"], "gradients are on or off in another way than before")


def empty_texts(generate_matching, write, many, eos_id, *arguments):
    """How many of these texts end at once; each is drawn with numbers of its own."""
    return sum(len(write(generate_matching, *arguments, seed, temperature=1.0, eos_id=eos_id)) == 0 for seed in range(many))


@exercise("generate_matching", weight=2)
def test_tokens_are_drawn_in_their_proportions_at_the_temperature(learner):
    """Tokens that may come next have the model's probabilities at the given temperature, divided by the sum of these, and the others 0. Without a temperature, the likeliest one is taken."""
    logits, many, tokens = torch.tensor([1.0, 0.4, 3.0, -0.5, 2.0]), 200, [b"a", b"b", b"x", b"c", b"y"]
    rows, possible = rows_of({1: {"a": 1, "b": 1, "c": 1}}), (0, 1, 3)
    model, go = learner.bring(TableModel)(logits.expand(5, 5).contiguous()), learner.bring(write)
    got = {T: go(learner.generate_matching, model, tokens, [2], rows, 1, {1}, many, 5, temperature=T) for T in (1.0, 0.25)}
    greedy = [go(learner.generate_matching, model, tokens, [2], rows, 1, {1}, 3, 5, **options) for options in ({}, {"temperature": 0.0})]
    stops = learner.bring(empty_texts)(learner.generate_matching, go, 60, 4, model, tokens, [2], rows, 1, {1}, 1)
    same(greedy, [[0, 0, 0]] * 2, "the ids without a temperature, and at temperature 0")
    for T, ids in got.items():
        powers = {i: float((logits[i] / T).exp()) for i in possible}
        same(len(ids), many, f"the number of tokens at temperature {T}")
        check_frequencies(Counter(ids), {i: power / sum(powers.values()) for i, power in powers.items()}, f"the tokens at temperature {T}")
    end = float(logits[4].exp() / logits[[0, 1, 3, 4]].exp().sum())
    check_frequencies({"eos_id": stops, "another token": 60 - stops}, {"eos_id": end, "another token": 1 - end}, "the first choice with eos_id")


def repeated(generate_matching, write, *arguments):
    """Whether equal seeds give equal texts, another seed another one, and no generator another text each time."""
    one, again, other, free, freely = (write(generate_matching, *arguments, seed, temperature=1.0) for seed in (1, 1, 2, None, None))
    return {"again": one == again, "other": one != other, "varied": len(set(one)) > 2, "free": free != freely}


@exercise("generate_matching", weight=2)
def test_the_same_generator_gives_the_same_text(learner):
    """Two generators with the same seed give the same text, with another seed another one. Each token has its own draw; without a generator the text differs each time."""
    model = learner.bring(TableModel)(torch.zeros(6, 6))
    tokens, rows = [b"a", b"b", b"c", b"d", b"x", b"y"], rows_of({1: dict.fromkeys("abcd", 1)})
    found = learner.bring(repeated)(learner.generate_matching, learner.bring(write), model, tokens, [5], rows, 1, {1}, 40)
    holds(found["again"], "two generators with the same seed gave different texts: a random number does not come from the generator")
    holds(found["other"], "two generators with different seeds gave the same text: the seed has no effect")
    holds(found["varied"], "the text repeats the same tokens, as if the generator was reset for each of them")
    holds(found["free"], "without a generator the text is the same each time, as if a fixed seed was set")


def never_called(generate_matching, write, *arguments, **options):
    """The same for a model that cannot be called."""

    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(1))

        def forward(self, ids):
            raise RuntimeError("the model was called")

    return write(generate_matching, Silent(), *arguments, **options)


@exercise("generate_matching", weight=2)
def test_a_budget_that_is_too_small_is_refused_at_once(learner):
    """If no text of at most max_new_tokens tokens matches, a ValueError names max_new_tokens before the model is called. What counts are tokens, not bytes, and only those that there are."""
    go, never = learner.bring(write), learner.bring(never_called)
    model, word = learner.bring(TableModel)(prefers(4, 0, 1, 2, 3)), {1: {"w": 2}, 2: {"o": 3, "a": 3}, 3: {"r": 4}, 4: {"d": 5}}
    tokens = [b"w", b"o", b"or", b"d"]
    fine = [go(learner.generate_matching, model, tokens, [0], rows_of(word), 1, {5}, 3), never(learner.generate_matching, go, tokens, [0], rows_of(word), 1, {5}, 3)]
    cases = [(tokens, word, {5}, limit, {}) for limit in (2, 1, 0)] + [(tokens, word, {5}, 2, {"eos_id": 3}), (tokens, word, {5}, 50, {"eos_id": 3}), (tokens, word, {4, 5}, 1, {})]
    cases += [([b"w", b"a", b"d"], word, {5}, 40, {}), (ABCE, A_STAR_B, {2}, 0, {}), (ABCE, A_STAR_B, {7}, 9, {}), (ABCE, {1: {"a": 1, "b": 2}, 2: {"b": 3}, 3: {"a": 3}}, {3}, 1, {"eos_id": E})]
    for those, steps, accepting, limit, options in cases:
        arguments = learner.generate_matching, go, those, [0], rows_of(steps), 1, accepting, limit
        refuses(lambda arguments=arguments, options=options: never(*arguments, **options), naming={"max_new_tokens": limit}, because="no text of so few tokens matches")
    same(fine, [[0, 2, 3], [0, 2, 3]], "the ids of the pattern w(o|a)rd with the tokens w, o, or and d, with max_new_tokens = 3")


MERGES = {(97, 98): 256, (0xC3, 0xA9): 257, (256, 0xC3): 258, (0xA9, 97): 259, (258, 259): 260}


class BytePairs:
    """Its tokens' bytes are where the BPETokenizer of chapter 1 has them."""

    def __init__(self, id_to_bytes):
        self.id_to_bytes, self.vocab_size = id_to_bytes, len(id_to_bytes)


@exercise("generate_matching", weight=2)
def test_tokens_may_have_several_characters_or_end_within_one(learner):
    """With the byte-pair tokens of chapter 1, (é|ab)* has many ways to be written, and the model chooses one. A token's bytes are those that token_bytes gives."""
    tokens = [bytes([byte]) for byte in range(256)]
    for one, other in MERGES:
        tokens.append(tokens[one] + tokens[other])
    rows = rows_of({1: {"a": 2, "\xc3": 3}, 2: {"b": 1}, 3: {"\xa9": 1}})
    tokenizer, cases = learner.bring(BytePairs)(dict(enumerate(tokens))), []
    for order in ([258, 259, 98, 0xC3, 97], [260, 98, 256, 0xA9], [0xC3, 0xA9, 97, 98], [97, 98, 257, 258, 0xA9]):
        for limit in (4, 5):
            cases.append((order, limit))
    got = []
    for order, limit in cases:
        model = learner.bring(TableModel)(prefers(261, *order))
        got.append(learner.bring(write)(learner.generate_matching, model, tokenizer, [65], rows, 1, {1}, limit))
    for mine, (order, limit) in zip(got, cases):
        expected, _ = write_by_hand(lambda ids, _, order=order: prefers(261, *order)[0], tokens, [65], rows, 1, {1}, limit)
        same(mine, expected, f"the ids of a model that prefers {[tokens[i] for i in order]}, with max_new_tokens = {limit}")


def on_second_device(generate_matching, write, *arguments):
    """What a model on the CPU writes while tensors without a device are made elsewhere, and whether it was handed ids from there."""
    seen = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(3.0))

        def forward(self, ids):
            seen.append(ids.device.type)
            if ids.device.type != "cpu":
                raise RuntimeError("the ids are on another device than the model")
            return self.gain * ((ids[..., None] * 3 + torch.tensor([1.0, 3.0, 2.0], device="cpu")) % 4)

    model = Counting()
    plain = write(generate_matching, model, *arguments)
    seen.clear()
    try:
        with torch.device("meta"):
            write(generate_matching, model, *arguments)
    except (RuntimeError, NotImplementedError):  # values cannot be moved away from `meta`: that may be right on other devices
        pass
    return {"ids": plain, "right device": all(device == "cpu" for device in seen)}


@exercise("generate_matching")
def test_ids_are_made_on_the_models_device(learner):
    """The ids that the model reads are on its own device, wherever tensors are made by default."""
    arguments = [b"a", b"b", b"c"], [2, 1], rows_of({1: {"a": 1, "b": 1, "c": 1}}), 1, {1}, 4
    found = learner.bring(on_second_device)(learner.generate_matching, learner.bring(write), *arguments)
    expected, _ = write_by_hand(lambda ids, _: [(ids[-1] * 3 + add) % 4 for add in (1, 3, 2)], *arguments)
    same(found["ids"], expected, "the ids of a model on the CPU")
    holds(found["right device"], "the model was given ids on another device than its own; make them on the device of its parameters")
