"""Chapter 25, second part: which tokens an automaton allows, and logits under a constraint."""

from __future__ import annotations

import math
import random

import torch
from changing_models import Additions, call_changing
from devices_and_dtypes import load_meta_device
from grader.runner.marks import exercise
from grader.verdict.comparing import Mismatch, holds, refuses, same
from hypothesis import given, settings
from memory_layouts import of_views
from small_automata import row_of_state, rows_of, table_by_hand
from strategies import distinct, seeds, tensor

few = settings(max_examples=4)

# ---- token_table


def table_of(token_table, rows, start, accepting, tokens):
    """The table of the automaton whose step from `state` with `byte` leads to rows[state][byte], and is None if that is missing."""
    return token_table((start, accepting, lambda state, byte: rows[state].get(byte)), tokens)


def compare_table(got, expected, what):
    """Whatever the order of the states and ids is."""
    if not isinstance(got, dict) or not all(isinstance(row, dict) for row in got.values()):
        raise Mismatch(f"{what} should be a dict of dicts, {{state: {{token id: next state}}}}", got, expected, compared=True)
    same({state: dict(sorted(row.items())) for state, row in sorted(got.items())}, {state: dict(sorted(row.items())) for state, row in sorted(expected.items())}, what)


def check_tables(learner, cases):
    """Each (steps, start, accepting, tokens, when): steps are those of `rows_of`."""
    asked = [(rows_of(steps), start, set(accepting), list(tokens)) for steps, start, accepting, tokens, _ in cases]
    got = [learner.bring(table_of)(learner.token_table, *arguments) for arguments in asked]
    for mine, arguments, (*_, when) in zip(got, asked, cases):
        compare_table(mine, table_by_hand(*arguments), f"the table {when}")


A_BC = {1: {"a": 2}, 2: {"b": 3}, 3: {"c": 2}}  # a(bc)*, which starts in 1 and accepts in 2


@exercise("token_table", weight=3)
def test_a_token_may_come_next_if_the_automaton_can_make_all_its_steps(learner):
    """All bytes of a token count, not only the first ones, and not only the last one. It leads to the state after its last byte."""
    check_tables(learner, [
        (A_BC, 1, [2], [b"a", b"ab", b"b", b"c"], "of the pattern a(bc)* with the tokens a, ab, b and c"),
        (A_BC, 1, [2], [b"abc", b"bcbc", b"abb", b"bc", b"acb", b"a", b"cb", b"bcb", b"c"], "of the pattern a(bc)* with tokens of up to four bytes"),
        ({1: {"a": 1, "b": 2}, 2: {"a": 2}}, 1, [2], [b"a", b"aa", b"aba", b"abab", b"bb", b"ba", b"aab"], "of the pattern a*ba*"),
        ({4: {"x": 6, "y": 5}, 5: {"x": 4}, 6: {"y": 6}}, 4, [5, 6], [b"x", b"y", b"xy", b"yx", b"yxyx", b"xx"], "of an automaton with three states"),
    ])  # fmt: skip


@exercise("token_table", weight=3)
@few
@given(seed=seeds)
def test_tables_of_random_automata(learner, seed):
    """For each state that tokens reach: every token that may come next, with the state after it. So a sequence of tokens is in the table exactly if the automaton can make all its steps and can still reach the end."""
    cases = []
    for i in range(4):
        draw = random.Random(seed * 10 + i)
        states, letters = draw.sample(range(20), draw.randint(3, 6)), "abc"[: draw.randint(2, 3)]
        steps = {state: {letter: draw.choice(states) for letter in letters if draw.random() < 0.6} for state in states}
        tokens = [bytes(draw.choices(letters.encode(), k=draw.randint(1, 3))) for _ in range(draw.randint(3, 8))]
        cases.append((steps, states[0], draw.sample(states, 1 + draw.randint(0, 1)), tokens, f"of a random automaton, number {i + 1}"))
    check_tables(learner, cases)


@exercise("token_table", weight=3)
def test_a_token_that_leads_to_a_dead_end_is_left_out(learner):
    """Only what can end with these tokens is in the table: the automaton may go on, but if the tokens cannot, the state is a dead end."""
    line = {1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}, 4: {"d": 5}}
    loop = {1: {"a": 2, "x": 6}, 2: {"b": 2, "c": 3}, 6: {"e": 7}, 7: {"e": 6}}
    check_tables(learner, [
        (A_BC, 1, [2], [b"a", b"ab", b"b"], "of the pattern a(bc)* without the token c"),
        (line, 1, [3, 5], [b"a", b"b", b"c", b"cd", b"bc"], "of the pattern ab(cd)? without the token d"),
        (line, 1, [5], [b"a", b"abc", b"b", b"c", b"bcd"], "of the pattern abcd, where only a and bcd reach the end"),
        (loop, 1, [3], [b"a", b"b", b"c", b"e", b"x", b"xe", b"bc"], "of an automaton with a loop from which nothing leads to the end"),
        (loop, 1, [3], [b"a", b"b", b"x"], "of the pattern ab*c without a token that has c"),
        (loop, 1, [1], [b"a", b"b", b"c", b"x"], "of an automaton that accepts the empty text only, although tokens lead on"),
        ({1: {"a": 2, "b": 3}, 2: {"a": 1}, 3: {"a": 4}, 4: {"a": 5}, 5: {"a": 6}}, 1, [6], [b"b", b"a", b"aa"], "of an automaton whose end is four tokens away"),
    ])  # fmt: skip


@exercise("token_table", weight=2)
def test_the_table_has_the_states_that_tokens_reach(learner):
    """The start is a key, and each state that possible tokens reach. Other states of the automaton, where only single bytes lead, are none. A state where nothing may follow has an empty dict."""
    check_tables(learner, [
        ({1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}}, 1, [4], [b"ab", b"c"], "of the pattern abc with the tokens ab and c"),
        ({1: {"a": 2}, 2: {"b": 3}, 3: {"c": 4}}, 1, [4], [b"abc", b"b"], "of the pattern abc with the tokens abc and b"),
        ({1: {"a": 2, "b": 3}, 3: {"b": 1}, 2: {}, 9: {"a": 2}}, 1, [2, 9, 3], [b"a", b"bba", b"bb"], "of an automaton with accepting states that no token reaches"),
        ({5: {"a": 5}}, 5, [5], [b"b"], "of the pattern a* with the token b alone"),
        ({5: {"a": 5}}, 5, [5], [], "of the pattern a* without tokens"),
    ])  # fmt: skip


@exercise("token_table", weight=2)
def test_without_a_way_to_the_end_the_table_is_empty(learner):
    """If no sequence of tokens leads from the start to an accepting state, the table is {}, without the start. Otherwise it is not."""
    check_tables(learner, [
        ({1: {"a": 2}, 2: {"b": 3}}, 1, [3], [b"a", b"c"], "of the pattern ab without a token that has b"),
        ({1: {"a": 2}, 2: {"b": 3}}, 1, [3], [b"a", b"c", b"b"], "of the pattern ab with the tokens a, c and b"),
        ({1: {"a": 2}}, 1, [], [b"a"], "of an automaton that accepts nothing"),
        ({1: {"a": 1, "b": 1}}, 1, [4], [b"a", b"b"], "of an automaton that never reaches its accepting state"),
        ({1: {"a": 2}}, 1, [2], [], "of the pattern a without tokens"),
    ])  # fmt: skip


@exercise("token_table", weight=2)
def test_a_token_may_end_within_a_character(learner):
    """Tokens are bytes, and need be no characters: \\xc3 and \\xa9 are the two halves of é, and a token may have the second half of one character and the first half of the next."""
    accents = {1: {"\xc3": 2, "x": 1}, 2: {"\xa9": 1, "\xa8": 3}, 3: {"\x00": 4, "\xff": 1}, 4: {}}
    check_tables(learner, [
        (accents, 1, [1], [b"\xc3", b"\xa9", b"\xa9\xc3", b"\xc3\xa9", b"x\xc3", b"\xa9x", b"\xa9\xa9", b"x"], "of the pattern (é|x)* with tokens that cut é"),
        (accents, 1, [1, 4], [b"\xc3\xa8\x00", b"\x00", b"\xff\xc3", b"\xc3\xa8", b"\xff"], "of an automaton with the bytes 0 and 255"),
    ])  # fmt: skip


@exercise("token_table", weight=2)
def test_empty_tokens_never_come_next_and_equal_ones_come_together(learner):
    """A token without bytes is in no row, also where the text may end. Tokens with equal bytes are all in it, each with its id."""
    check_tables(learner, [
        (A_BC, 1, [2], [b"", b"a", b"bc", b"", b"a", b"b", b"bc", b"c", b"a"], "of the pattern a(bc)* with three tokens a, two tokens bc and two without bytes"),
        ({3: {"a": 3}}, 3, [3], [b"a", b""], "of the pattern a* with a token without bytes"),
        ({3: {"a": 3}}, 3, [3], [b"", b""], "of the pattern a* with nothing but tokens without bytes"),
        ({3: {"a": 4}}, 3, [4], [b"", b"aa", b"aa"], "of the pattern a with tokens that cannot come"),
    ])  # fmt: skip


@exercise("token_table", weight=2)
def test_states_may_have_any_numbers(learner):
    """States are ints in any numbering: 0 may be any state, not only the start, and they may be below 0 or large."""
    check_tables(learner, [
        ({-1: {"a": 0}, 0: {"b": -7, "c": 0}, -7: {}}, -1, [-7], [b"a", b"b", b"cb", b"c"], "of an automaton with the states -1, 0 and -7"),
        ({10**12: {"a": 5}, 5: {"a": 0}, 0: {"a": 10**12}}, 10**12, [0], [b"a", b"aa", b"aaa"], "of an automaton with the states 10**12, 5 and 0"),
        ({0: {"a": 1}, 1: {"b": 0}}, 0, [0], [b"a", b"b", b"ab", b"ba"], "of an automaton with the states 0 and 1"),
    ])  # fmt: skip


def table_by_steps(token_table, rows, start, accepting, tokens):
    """The same for an automaton whose states are those of `rows` and a number that is out of the code's reach; if that is 0, it makes no step any more."""

    def step(state, byte):
        number, after = int(torch.special.bessel_y1(torch.zeros(1))), rows[state].get(byte)
        return None if after is None or number == 0 else after + number

    return token_table((start, accepting, step), tokens)


KEY = 300


@exercise("token_table", weight=2)
def test_tokens_that_begin_alike_share_their_steps(learner):
    """From each state, the automaton is asked at most once for each different beginning of a token, and not behind a None. The automaton here counts its steps, and makes none after the last allowed one."""
    long = [b"abababab" + bytes([end]) for end in b"abcdefgh"]
    cases = [
        ({1: {"a": 2}, 2: {"b": 1, "c": 3}, 3: {}}, 1, [3], [*long, b"a", b"ab", b"abab", b"ababc", b"b", b"ba", b"c"], "of tokens that begin with ab"),
        ({1: dict.fromkeys("abcdefgh", 4), 4: dict.fromkeys("ab", 4)}, 1, [4], [*long, *long, b"abab"], "of tokens that all occur twice"),
        ({1: {"a": 2, "b": 3}, 2: {"a": 5}, 3: {"a": 5}, 5: {"c": 1}}, 1, [1], [b"aac", b"bac", b"aa", b"ba", b"c", b"cb", b"cba"], "of an automaton that comes back to its start"),
    ]  # fmt: skip
    asked = [(rows_of(steps), start, set(accepting), tokens) for steps, start, accepting, tokens, _ in cases]
    call, additions, counted = learner.bring(call_changing), learner.bring(Additions), learner.bring(table_by_steps)
    got, limits = [], []
    for rows, start, accepting, tokens in asked:
        # a row for each state that tokens reach, also those from which nothing can end
        reached = table_by_hand(rows, start, set(rows), tokens)
        limits.append(sum(row_of_state(rows, state, tokens)[1] for state in reached))
        numbers = torch.tensor([KEY] * limits[-1] + [0] * 9000)[:, None]
        hidden = {state: {byte: after - KEY for byte, after in row.items()} for state, row in rows.items()}
        got.append(call(additions, numbers, counted, learner.token_table, hidden, start, accepting, tokens))
    for mine, arguments, limit, (*_, when) in zip(got, asked, limits, cases):
        compare_table(mine, table_by_hand(*arguments), f"the table {when}, with an automaton that can be asked {limit} times and then makes no step any more,")


# ---- constrain


def constrained(constrain, logits, allowed, kind):
    """The result for allowed ids in another form."""
    forms = {"list": list, "set": set, "keys": lambda ids: dict.fromkeys(ids, "x").keys(), "tensor": lambda ids: torch.tensor(ids, dtype=torch.int64)}
    return constrain(logits, forms[kind](allowed))


def constrained_by_hand(logits, allowed):
    """Entry by entry."""
    return torch.stack([logits[..., i] if i in allowed else torch.full_like(logits[..., i], -math.inf) for i in range(logits.size(-1))], dim=-1)


def some_ids(seed, vocab, many):
    """Different ids, in any order, the first and the last of the vocabulary among them."""
    draw = random.Random(seed)
    ids = [0, vocab - 1, *draw.sample(range(1, vocab - 1), many - 2)]
    return draw.sample(ids, many)


sizes_of_logits = distinct("B", "T", "n", B=(2, 3), T=(2, 4), n=(3, 5)).filter(lambda n: len({n.B, n.T, n.n}) == 3)


@exercise("constrain", weight=3)
@few
@given(n=sizes_of_logits, seed=seeds)
def test_allowed_logits_stay_and_the_others_are_minus_infinity(learner, n, seed):
    """The logits of allowed ids are exactly those from before, and all others are -inf, in each row, whatever the shape in front is."""
    V, cases = 9, []
    for i, shape in enumerate(((V,), (n.B, V), (n.B, n.T, V), (1, V))):
        cases.append((tensor(seed + i, *shape, scale=3.0), some_ids(seed + i, V, n.n)))
    cases += [(tensor(seed, n.B, V), [0]), (tensor(seed, n.B, V), [V - 1]), (tensor(seed, V, scale=1e-3) - 2e9, [1, 4]), (tensor(seed, n.B, V), list(range(V)))]
    got = [learner.constrain(logits, allowed) for logits, allowed in cases]
    for mine, (logits, allowed) in zip(got, cases):
        same(mine, constrained_by_hand(logits, allowed), f"the logits {tuple(logits.shape)} with allowed = {allowed}")


@exercise("constrain", weight=2)
@few
@given(n=sizes_of_logits, seed=seeds)
def test_probabilities_keep_their_proportions(learner, n, seed):
    """After a softmax, the allowed ids have their old probabilities divided by the sum of these, and the others exactly 0. So the probabilities add up to 1."""
    V, logits = 8, tensor(seed, n.B, 8, scale=2.0, dtype=torch.float64)
    low = logits - 1e9 * (torch.arange(V) % 2 == 1)  # the odd ids are nearly impossible
    cases = [(logits, some_ids(seed, V, n.n)), (low, [1, 3, 5])]
    got = [learner.constrain(logits, allowed) for logits, allowed in cases]
    for mine, (logits, allowed) in zip(got, cases):
        weights = (logits - logits[:, allowed].amax(1, keepdim=True)).exp()
        weights = torch.stack([weights[:, i] if i in allowed else torch.zeros(n.B, dtype=torch.float64) for i in range(V)], dim=1)
        expected = weights / weights.sum(1, keepdim=True)
        holds(isinstance(mine, torch.Tensor) and mine.shape == logits.shape, "the result should be a tensor as large as the logits")
        probabilities = torch.softmax(mine.double(), dim=1)
        others = [i for i in range(V) if i not in allowed]
        holds(bool((probabilities[:, others] == 0).all()), f"an id that is not among the allowed ones, {allowed}, has a probability above 0 after the softmax")
        same(probabilities.isnan().any().item(), False, "whether a probability is nan")
        holds(bool((probabilities - expected).abs().max() < 1e-9), f"the probabilities of the allowed ids {allowed} have other proportions than before")


@exercise("constrain", weight=2)
@few
@given(seed=seeds)
def test_ids_may_be_a_list_a_set_keys_or_a_tensor(learner, seed):
    """All forms of `allowed` give the same: a list, a set, the keys of a dict and an int64 tensor. Ids may repeat."""
    V, logits, ids = 7, tensor(seed, 2, 7), some_ids(seed, 7, 3)
    cases = [(kind, ids) for kind in ("list", "set", "keys", "tensor")] + [("list", [*ids, *ids, ids[1]]), ("tensor", [*ids, ids[0]]), ("tensor", [V - 1]), ("set", [0]), ("list", [5, 5])]
    got = [learner.bring(constrained)(learner.constrain, logits, allowed, kind) for kind, allowed in cases]
    for mine, (kind, allowed) in zip(got, cases):
        same(mine, constrained_by_hand(logits, allowed), f"the logits with allowed = {allowed} as a {kind}")


def changed_by_the_result(constrain, logits, allowed):
    """The logits after the caller has overwritten the result, and after another call."""
    kept = logits.clone()
    constrain(kept, allowed).fill_(7.0)
    constrain(kept, allowed[:1])
    return kept


@exercise("constrain", weight=2)
def test_the_logits_themselves_stay_as_they_are(learner):
    """The result is a new tensor, also if all ids are allowed: the logits do not change, and share no memory with the result."""
    logits = tensor(3, 2, 5)
    got = [(allowed, learner.constrain(logits, allowed), learner.bring(changed_by_the_result)(learner.constrain, logits, allowed)) for allowed in ([1, 3], [0, 1, 2, 3, 4])]
    for allowed, result, after in got:
        same(result, constrained_by_hand(logits, allowed), f"the logits with allowed = {allowed}")
        same(after, logits, f"the caller's logits, after the result for allowed = {allowed} was overwritten,")


@exercise("constrain", weight=2)
@few
@given(seed=seeds)
def test_the_result_has_the_dtype_and_device_of_the_logits(learner, seed):
    """float16, bfloat16 and float64 logits stay what they are, and so does their device. Views with another layout in memory are fine."""
    V, ids = 6, [4, 0, 1]
    by_type = {dtype: tensor(seed, 3, V, dtype=dtype) for dtype in (torch.float16, torch.bfloat16, torch.float64)}
    got = {dtype: learner.constrain(logits, ids) for dtype, logits in by_type.items()}
    view, pairs = tensor(seed, 2, 3, V), tensor(seed, 1, V).expand(3, V)
    of_view = learner.bring(of_views)(learner.constrain, view, ids)
    of_rows = learner.constrain(pairs, ids)
    for dtype, logits in by_type.items():
        same(got[dtype], constrained_by_hand(logits, ids), f"the result for {str(dtype).removeprefix('torch.')}")
    same(of_view, constrained_by_hand(view, ids), "the result for a view with another layout in memory")
    same(of_rows, constrained_by_hand(pairs, ids), "the result for equal rows that share their memory")


def on_second_device(constrain, logits, allowed):
    """The result for logits on the device `meta`, whose tensors have no values; None if the code needs values, which may be right elsewhere."""
    try:
        return constrain(logits.to("meta"), allowed)
    except (RuntimeError, NotImplementedError) as problem:
        if any(words in str(problem) for words in ("item()", "meta tensor", "nonzero", "Meta kernel", "Meta' backend")):
            return None
        raise


@exercise("constrain")
def test_logits_may_be_on_another_device_than_the_ids(learner):
    """The result is on the device of the logits, whatever `allowed` is: a list, or a tensor on the CPU."""
    logits, ids = tensor(5, 2, 6), torch.tensor([1, 4])
    got = learner.constrain(logits, ids)
    load_meta_device()
    there = {kind: learner.bring(on_second_device)(learner.constrain, logits, allowed) for kind, allowed in (("a list", [1, 4]), ("a tensor", ids))}
    same(got, constrained_by_hand(logits, [1, 4]), "the result for ids in a tensor")
    for kind, result in there.items():
        if result is not None:
            same(result, torch.empty(2, 6, device="meta"), f"the result for logits on the device `meta` and allowed as {kind} on the CPU")


def check_wrong_ids(learner, cases, because):
    """Each (allowed ids, the wrong one) is refused as a list and as a tensor. 0 and V - 1 are fine."""
    logits, ids = tensor(3, 2, 5), learner.bring(constrained)
    fine = [ids(learner.constrain, logits, [0, 4], kind) for kind in ("list", "tensor")]
    for allowed, wrong in cases:
        for kind in ("list", "tensor"):
            refuses(lambda allowed=allowed, kind=kind: ids(learner.constrain, logits, allowed, kind), naming={"id": wrong}, because=because)
    for mine in fine:
        same(mine, constrained_by_hand(logits, [0, 4]), "the logits with allowed = [0, 4]")


@exercise("constrain", weight=2)
def test_ids_below_0_are_refused(learner):
    """An id below 0 raises a ValueError that names this id, also among others and in a tensor: it does not count from the end."""
    check_wrong_ids(learner, [([-1], -1), ([1, -3, 2], -3), ([-5, 3], -5), ([2, -6], -6)], "ids begin with 0")


@exercise("constrain", weight=2)
def test_ids_beyond_the_vocabulary_are_refused(learner):
    """An id that is not below V raises a ValueError that names this id, also among others and in a tensor."""
    check_wrong_ids(learner, [([5], 5), ([4, 0, 12], 12), ([1, 6, 2], 6)], "there are 5 logits, with the ids 0 to 4")


@exercise("constrain")
def test_something_must_be_allowed(learner):
    """Without ids, a ValueError names allowed, whatever form they have."""
    logits, ids = tensor(3, 2, 5), learner.bring(constrained)
    fine = ids(learner.constrain, logits, [3], "set")
    for kind in ("list", "set", "keys", "tensor"):
        refuses(lambda kind=kind: ids(learner.constrain, logits, [], kind), naming=("allowed",), because=f"no token would be possible with an empty {kind}")
    same(fine, constrained_by_hand(logits, [3]), "the logits with allowed = {3}")
