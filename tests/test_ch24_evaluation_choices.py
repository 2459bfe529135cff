"""Chapter 24, first part: the score of a choice, and the scores of all choices of a question."""

from __future__ import annotations

import math

import torch
from changing_models import Additions, call_changing
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from model_states import check_hooks_and_modes, check_other_runs, check_trainable, observed
from small_models import make_gpt
from strategies import distinct, seeds, tensor
from table_models import MODES_AT_FIRST, TableModel
from torch import nn

few = settings(max_examples=2)  # what is broken here is broken at every example
KINDS = ("sum", "token", "byte")


def score(log_probs, n_bytes, kind="byte"):
    """The score by its definition."""
    return math.fsum(log_probs) / {"sum": 1, "token": len(log_probs), "byte": n_bytes}[kind]


# ---- choice_score


def check_scores(learner, cases):
    """Each (log_probs, n_bytes, kind) that has another score; the kind None is left out of the call."""
    got = [learner.choice_score(values, n, *([] if kind is None else [kind])) for values, n, kind in cases]
    for (values, n, kind), mine in zip(cases, got):
        shown = [round(value, 3) for value in values]
        close(mine, score(values, n, kind or "byte"), f"choice_score({shown}, {n}{'' if kind is None else f', {kind!r}'})")


@exercise("choice_score", weight=3)
@given(probabilities=st.lists(st.sampled_from([0.9, 0.5, 0.25, 0.1, 0.03, 1e-4]), min_size=3, max_size=6), n_bytes=st.integers(8, 15))
def test_the_kind_says_what_the_sum_is_divided_by(learner, probabilities, n_bytes):
    """ "sum" is the sum of the log probabilities, "token" their mean, and "byte" the sum divided by n_bytes. They may be a list or a tuple."""
    values = [math.log(p) for p in probabilities]
    check_scores(learner, [(those, n_bytes, kind) for kind in KINDS for those in (values, tuple(values))])


@exercise("choice_score", weight=2)
def test_averages_make_long_choices_comparable(learner):
    """Two tokens with the probability 0.5 have the sum -1.39, and four have -2.77. Their means are both -0.69. A choice of one token has its log probability as sum and as mean."""
    half, third = math.log(0.5), math.log(1 / 3)
    choices = [([half] * 2, 8), ([half] * 4, 16), ([half] * 4, 8), ([third], 5), ([third], 1), ([third, half], 1)]
    check_scores(learner, [(*choice, kind) for choice in choices for kind in KINDS])


@exercise("choice_score", weight=2)
def test_the_mean_is_that_of_the_logarithms(learner):
    """Tokens with the probabilities 0.9 and 0.1 have the mean (log 0.9 + log 0.1) / 2 = -1.20, not log 0.5 = -0.69. Certain tokens have the score 0, and 1,000 unlikely ones a finite one."""
    uneven, certain, unlikely = [math.log(0.9), math.log(0.1)], [0.0, 0.0, 0.0], [-20.0] * 999 + [-40.0]
    check_scores(learner, [(values, 7, kind) for values in (uneven, uneven[::-1], certain, unlikely) for kind in KINDS])


@exercise("choice_score")
@given(values=st.lists(st.sampled_from([-0.25, -1.0, -2.5, -4.0]), min_size=2, max_size=5))
def test_without_a_kind_the_score_is_the_one_for_bytes(learner, values):
    """The default kind is "byte"."""
    check_scores(learner, [(values, 9, None), ([-3.0], 4, None), (values, 1, None)])


@exercise("choice_score", weight=2)
def test_a_score_needs_a_known_kind_tokens_and_bytes(learner):
    """A ValueError names `kind` if it is not one of three, log_probs if there are none, and n_bytes if it is below 1, whatever the kind is."""
    fine = [learner.choice_score([-2.0, -4.0], 1, kind) for kind in KINDS]
    for kind in ("word", "bytes", "Sum", ""):
        refuses(lambda kind=kind: learner.choice_score([-1.0, -2.0], 6, kind), naming={"kind": kind}, because="there are only sum, token and byte")
    for kind in ("token", "byte", "sum"):
        refuses(lambda kind=kind: learner.choice_score([], 6, kind), naming=("log_probs",), because=f"a choice has at least one token, also for kind {kind!r}", example="log_probs is empty")
    for kind in ("byte", "token", "sum"):
        for n in (0, -3):
            refuses(lambda kind=kind, n=n: learner.choice_score([-1.0, -2.0], n, kind), naming={"n_bytes": n}, because=f"a choice has at least one byte, also for kind {kind!r}")
    close(fine, [-6.0, -3.0, -6.0], "the scores of [-2.0, -4.0] with n_bytes = 1, as sum, token and byte")


# ---- score_choices

WORDS = ["the", "capital", "of", "france", "is", "paris", "rome", "not", "and", "a"]
QUESTION = "The capital of France is"
CHOICES = [" Paris", " not Rome", " Paris and not Rome", " a capital"]
V = len(WORDS)


def word_ids(text):
    return [WORDS.index(word) for word in text.lower().split()]


def log_probs_in_table(table, ids):
    """Of each token but the first, for a model with this table: (V, V, V), after two tokens, or (V, V), after one."""
    logs = table.double().log_softmax(-1)
    befores = [0, *ids]
    rows = [logs[now] if table.dim() == 2 else logs[before, now] for before, now in zip(befores, ids)]
    return [float(row[following]) for row, following in zip(rows, ids[1:])]


def word_scores(table, question, choices, kind="byte"):
    """The scores by hand: the words of each choice, behind all words of the question."""
    first, found = len(word_ids(question)), []
    for choice in choices:
        own = log_probs_in_table(table, word_ids(question + choice))[first - 1 :]
        found.append(score(own, len(choice.encode()), kind))
    return found


def with_table(learner, table, question=QUESTION, choices=tuple(CHOICES), *kind, model_kind="logits", **options):
    """What a model with this table gives to the choices."""
    model = learner.bring(TableModel)(table, model_kind, **options)
    return learner.score_choices(model, learner.WordTokenizer(WORDS), question, list(choices), *kind), model


@exercise("score_choices", weight=3)
@few
@given(seed=seeds)
def test_a_choice_is_scored_by_its_own_tokens(learner, seed):
    """Each token of the choice has its log probability at the position before it; the question's tokens, and an end, count nothing. The kind is passed on. A model may return logits, or a tuple that begins with them."""
    table = tensor(seed, V, V, V, scale=2.0)
    cases = [(QUESTION, CHOICES, kind) for kind in KINDS] + [("not", [" a", " the capital of"], "sum"), (QUESTION, [" Rome"], "token")]
    found = [with_table(learner, table, *case)[0] for case in cases]
    plain, pair = with_table(learner, table)[0], with_table(learner, table, model_kind="tuple")[0]
    those = learner.score_choices(learner.bring(TableModel)(table, "logits"), learner.WordTokenizer(WORDS), QUESTION, tuple(CHOICES))
    for (question, choices, kind), got in zip(cases, found):
        close(got, word_scores(table, question, choices, kind), f"the scores of kind {kind!r} of {choices} after {question!r}", tol=1e-4)
    for got, what in ((plain, "without a kind"), (pair, "by a model that returns a tuple"), (those, "of choices in a tuple")):
        close(got, word_scores(table, QUESTION, CHOICES), f"the scores {what}", tol=1e-4)


class Mixing(nn.Module):
    """A model whose logits depend on every token so far and on its place, and on no later token."""

    def __init__(self, vocab, strength=3.0):
        super().__init__()
        self.strength, self.vocab = nn.Parameter(torch.tensor(strength)), vocab

    def forward(self, ids):
        mixed = ((ids + 1) * torch.arange(1, ids.size(1) + 1) ** 2).cumsum(1) % 97
        return self.strength * torch.cos(mixed[..., None] * (torch.arange(self.vocab) + 1.0) * 0.37)


def scores_of_ids(asked, texts, choices, kind, vocab):
    """The scores by `Mixing`: of the tokens behind what the ids of the question and of the whole text have in common."""
    found = []
    for ids, choice in zip(texts, choices):
        start = next((i for i, (one, other) in enumerate(zip(asked, ids)) if one != other), min(len(asked), len(ids)))
        logs = Mixing(vocab)(torch.tensor([ids]))[0].double().log_softmax(-1).tolist()
        own = [logs[t - 1][ids[t]] for t in range(start, len(ids))]
        found.append(score(own, len(choice.encode()), kind))
    return found


def merges(*pairs):
    """Merges of these pairs of texts, which are learned in this order: ("t", " ") becomes the token "t "."""
    ids, found = {}, {}
    for left, right in pairs:
        pair = tuple(ids.get(part, part.encode()[0]) for part in (left, right))
        ids[left + right] = found[pair] = 256 + len(found)
    return found


def bytes_and(merged, *parts):
    """The ids of a text that is cut by hand into these parts: single characters in ASCII, and merged texts."""
    names = {left + right: 256 + i for i, (left, right) in enumerate(merged)}
    return [id for part in parts for id in ([names[part]] if part in names else list(part.encode()))]


class FromTheRight:
    """A tokenizer that cuts a number into groups of three digits from the right, and anything else into characters."""

    def encode(self, text):
        import re

        groups = re.findall(r"\d{1,3}(?=(?:\d{3})*(?!\d))|\D", text)
        return [ord(group) if len(group) == 1 else 100 * len(group) - 72 + int(group) for group in groups]


PAIRS = (("t", " "), ("a", "t"), (" ", "b"), ("o", "n"), (".", "."), ("..", "."))


@exercise("score_choices", weight=3)
def test_text_is_encoded_as_a_whole(learner):
    """The model reads the ids of question + choice. A token that is partly question and partly choice counts as the choice's, and so does each one from where these ids and those of the question alone first differ, although later ones may be equal again: "7=22 222" goes on as "7=222 222". Each choice has its own beginning."""
    tokenizer, V = learner.BPETokenizer(merges(*PAIRS)), 256 + len(PAIRS)

    def ids(*parts):
        return bytes_and(PAIRS, *parts)

    cases = [
        ("a cat", [" on", "..", " box"], ids("a c", "at"), [ids("a ca", "t ", "on"), ids("a c", "at", ".."), ids("a ca", "t ", "box")]),
        ("the do", ["n", " box", "g"], ids("the do"), [ids("the d", "on"), ids("the do", " b", "ox"), ids("the dog")]),
        ("so.", ["..", ".", "!"], ids("so."), [ids("so", "..."), ids("so", ".."), ids("so.!")]),
        ("no match", [" on", "on"], ids("no m", "at", "ch"), [ids("no m", "at", "ch ", "on"), ids("no m", "at", "ch", "on")]),
    ]
    found = []
    for question, choices, *_ in cases:
        for kind in KINDS:
            found.append(learner.score_choices(learner.bring(Mixing)(V), tokenizer, question, choices, kind))
    question, choices, groups = "7=22222", ["2", "0", ".5", "222"], FromTheRight()
    numbers = learner.score_choices(learner.bring(Mixing)(1228), learner.bring(FromTheRight)(), question, choices, "sum")
    expected = scores_of_ids(groups.encode(question), [groups.encode(question + choice) for choice in choices], choices, "sum", 1228)
    close(numbers, expected, f"the scores of {choices} after {question!r}, by a tokenizer that groups digits from the right", tol=1e-4)
    for i, got in enumerate(found):
        (question, choices, asked, texts), kind = cases[i // 3], KINDS[i % 3]
        close(got, scores_of_ids(asked, texts, choices, kind, V), f"the scores of kind {kind!r} of {choices} after {question!r}", tol=1e-4)


@exercise("score_choices", weight=2)
def test_a_choice_follows_the_question_as_it_is(learner):
    """No space is added between question and choice, and none is removed: " b", "b" and "b " are three choices. n_bytes is the length of the choice in UTF-8, in which "é" has 2 bytes, with its spaces."""
    tokenizer = learner.BPETokenizer({})
    cases = [("a:", [" b", "b", "b ", "  b", "\nb"]), ("a: ", ["b", " b"]), (" a\n", ["B", "b"]), ("caf", ["é", "e", "és!"]), ("日", ["本", "x", "😀 ß"])]
    found = [learner.score_choices(learner.bring(Mixing)(256), tokenizer, question, choices, kind) for question, choices in cases for kind in KINDS]
    for i, got in enumerate(found):
        (question, choices), kind = cases[i // 3], KINDS[i % 3]
        texts = [list((question + choice).encode()) for choice in choices]
        close(got, scores_of_ids(list(question.encode()), texts, choices, kind, 256), f"the scores of kind {kind!r} of {choices} after {question!r}", tol=1e-4)


@exercise("score_choices", weight=2)
@few
@given(n=distinct("H", "L", H=(2, 3), L=(1, 2)), seed=seeds)
def test_a_longer_choice_changes_no_other_score(learner, reference, n, seed):
    """Choices of 1 to 9 tokens have the scores that they have alone, whatever their order: what a text is padded with counts nothing. The models are a GPT of chapter 7, and one whose logits depend on the number of tokens so far."""
    choices, alone = [" is", " not a", " and Paris is not the capital of Rome", " of the capital"], []
    tokenizer, n.V, n.max_len = learner.WordTokenizer(WORDS), V, 16
    model, mine = (make_gpt(side, n, dropout=0.1) for side in (reference, learner))
    load(mine, randomise(model, seed, scale=1.5))
    found = [learner.score_choices(mine, tokenizer, QUESTION, order, kind) for order in (choices, choices[::-1]) for kind in ("sum", "byte")]
    mixed = learner.score_choices(learner.bring(Mixing)(V), tokenizer, QUESTION, choices, "token")
    for kind in ("sum", "byte"):
        alone.append([score_alone(model, QUESTION, choice, kind) for choice in choices])
    for got, expected, what in zip(found, (*alone, *(scores[::-1] for scores in alone)), ("sum", "byte", "sum, in another order", "byte, in another order")):
        close(got, expected, f"the scores of kind {what}", tol=1e-4)
    close(mixed, scores_of_ids(word_ids(QUESTION), [word_ids(QUESTION + choice) for choice in choices], choices, "token", V), "the scores of kind token", tol=1e-4)


def score_alone(model, question, choice, kind):
    """The score of one choice by the reference's GPT, without padding."""
    ids, first = word_ids(question + choice), len(word_ids(question))
    logs = model.eval()(torch.tensor([ids]))[0][0].double().log_softmax(-1).tolist()
    return score([logs[t - 1][ids[t]] for t in range(first, len(ids))], len(choice.encode()), kind)


@exercise("score_choices", weight=2)
@few
@given(seed=seeds)
def test_the_model_is_called_once_for_all_choices(learner, seed):
    """All choices are in one batch: a second call, whose logits are others here, is not made."""
    table, rows = tensor(seed, V, V), tensor(seed + 1, 6, V, scale=2.0)
    model = learner.bring(TableModel)(table, "logits", changing=True)
    got = learner.bring(call_changing)(learner.bring(Additions), rows, learner.score_choices, model, learner.WordTokenizer(WORDS), QUESTION, CHOICES, "sum")
    close(got, word_scores(table + rows[0], QUESTION, CHOICES, "sum"), "the scores by a model that adds other numbers to its logits in each call", tol=1e-4)


@exercise("score_choices", weight=2)
@few
@given(n=distinct("H", "L", H=(2, 3), L=(1, 2)), seed=seeds)
def test_scoring_leaves_the_model_as_it_is(learner, reference, n, seed):
    """The model runs in eval mode and without gradient. Afterwards each module has its old mode, and hooks, gradients and weights are as before."""
    n.V, n.max_len, table = V, 16, tensor(seed, V, V, scale=2.0)
    model, mine = (make_gpt(side, n, dropout=0.5) for side in (reference, learner))
    load(mine, randomise(model, seed, scale=1.5))
    found = learner.bring(observed)(learner.score_choices, mine, learner.WordTokenizer(WORDS), QUESTION, CHOICES)
    got, other = with_table(learner, table)
    modes, graph = other.modes(), other.graph
    expected = [score_alone(model, QUESTION, choice, "byte") for choice in CHOICES]
    close(found["seen"], expected, "the scores by a model with dropout, of which some parts are in train mode", tol=1e-4)
    close(got, word_scores(table, QUESTION, CHOICES), "the scores by a model in train mode", tol=1e-4)
    same(modes, MODES_AT_FIRST, "the modes of the model, its dropout and its frozen part afterwards")
    holds(not graph, "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")
    check_hooks_and_modes(found)
    check_trainable(found)
    check_other_runs(found, expected, "the scores", judge=lambda mine, theirs, what: close(mine, theirs, what, tol=1e-4))


@exercise("score_choices", weight=2)
@few
@given(seed=seeds)
def test_log_probabilities_are_computed_in_float32(learner, seed):
    """A model of bfloat16, float16 or float64 may be asked. Its logits are made float32 before the log softmax, so that scores are not rounded to three digits. Logits of 1,000 are no problem."""
    half = [dtype for dtype in (torch.bfloat16, torch.float16, torch.float64)]
    tables = [tensor(seed, V, V, scale=2.0, dtype=dtype) for dtype in half] + [tensor(seed, V, V, scale=1000.0)]
    found = [with_table(learner, table, QUESTION, CHOICES, "sum")[0] for table in tables]
    for table, got in zip(tables, found):
        what = f"the scores by a model of {str(table.dtype).removeprefix('torch.')}"
        shaped(torch.tensor(got) if isinstance(got, list) else got, (len(CHOICES),), what)
        close(got, word_scores(table, QUESTION, CHOICES, "sum"), what, tol=1e-4)


def device_of_ids(score_choices, tokenizer, question, choices):
    """On which device the ids are that a model on the device `meta` is called with, whose tensors have no numbers; None if it is not called."""

    class Found(Exception):
        pass

    class Elsewhere(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1, device="meta"))

        def forward(self, ids):
            raise Found(ids.device.type)

    try:
        score_choices(Elsewhere(), tokenizer, question, choices)
    except Found as found:
        return str(found)
    return None


@exercise("score_choices")
def test_ids_are_on_the_models_device(learner):
    """The ids that the model reads are on the device of its parameters."""
    table = tensor(3, V, V)
    got = learner.bring(device_of_ids)(learner.score_choices, learner.WordTokenizer(WORDS), QUESTION, CHOICES)
    on_cpu = with_table(learner, table)[0]
    same(got, "meta", "the device of the ids for a model on the device `meta`")
    close(on_cpu, word_scores(table, QUESTION, CHOICES), "the scores by a model on the CPU", tol=1e-4)


@exercise("score_choices", weight=2)
def test_each_choice_needs_a_token_before_it_and_one_of_its_own(learner):
    """A ValueError names `question` if its first token is another one in a whole text, or if it has none. It names `choices` if there are none, or one of them adds no token."""
    tokenizer, words, V = learner.BPETokenizer(merges(*PAIRS)), learner.WordTokenizer(WORDS), 256 + len(PAIRS)
    model, small = learner.bring(Mixing)(V), learner.bring(Mixing)(len(WORDS))
    fine = learner.score_choices(model, tokenizer, "t", ["o", "est"], "sum")
    lost = {"nothing is before the choice's first token": [("", ["on"]), ("t", [" on"]), ("t", ["o", " on", "est"]), ("a", ["x", "t"])]}
    for because, cases in lost.items():
        for question, choices in cases:
            refuses(lambda q=question, c=choices: learner.score_choices(model, tokenizer, q, c), naming=("question",), because=because, example="question has no token before the choice")
    refuses(lambda: learner.score_choices(small, words, "", [" Paris"]), naming=("question",), because="the question is empty", example="question has no token before the choice")
    refuses(lambda: learner.score_choices(model, tokenizer, "a cat", []), naming=("choices",), because="there are no choices", example="choices is empty")
    for choices in ([""], [" on", ""], ["", " on"]):
        refuses(lambda c=choices: learner.score_choices(model, tokenizer, "a cat", c), naming=("choices",), because="an empty choice has no token", example="choices has one without a token")
    refuses(lambda: learner.score_choices(small, words, QUESTION, [" Paris", "  "]), naming=("choices",), because="a choice of spaces has no word", example="choices has one without a token")
    close(fine, scores_of_ids([116], [[116, 111], list(b"test")], ["o", "est"], "sum", V), "the scores of 'o' and 'est' after 't'", tol=1e-4)
