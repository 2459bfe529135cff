"""Chapter 15, first part: beam search. The model is a table of logits, so that a test can calculate every score itself."""

import itertools
import math

import torch
from calls import as_list
from changing_models import Additions, call_changing
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import seeds, tensor
from table_models import MODES_AT_FIRST, TableModel

vocabularies = st.integers(4, 5)
PROMPT = torch.tensor([[2, 1, 3]])


def table_of(seed, V, scale=1.5):
    """Random logits after each pair of tokens, (V, V, V)."""
    sizes(V=V)
    return tensor(seed, V, V, V, scale=scale, dtype=torch.float64)


def model_of(side, table, **options):
    return side.bring(TableModel)(table, **options)


def beams(result):
    """The texts and the scores of what beam_search returned."""
    pairs = isinstance(result, list | tuple) and all(isinstance(beam, list | tuple) and len(beam) == 2 for beam in result)
    holds(pairs, f"beam_search should return a list of pairs (new ids, score); it returned {result!r:.80}")
    return [as_list(text) for text, _ in result], torch.tensor([float(score) for _, score in result], dtype=torch.float64)


def compare_beams(got, expected, what):
    """The same texts in the same order, with the same scores."""
    (texts, scores), (texts_expected, scores_expected) = beams(got), beams(expected)
    same(texts, texts_expected, f"the list of texts {what}")
    close(scores, scores_expected, f"the tensor of scores {what}", tol=1e-9)


def both(learner, reference, table, new, n_beams, eos_id=None, ids=PROMPT):
    """What the learner's beam_search and the reference find."""
    got = learner.beam_search(model_of(learner, table), ids, new, n_beams, eos_id)
    return got, reference.beam_search(model_of(reference, table), ids, new, n_beams, eos_id)


def log_probability(table, prompt, text):
    """The sum of the log-probabilities of a text's tokens."""
    tokens, score = [0, *prompt], 0.0
    for token in text:
        score += float(table[tokens[-2], tokens[-1]].log_softmax(-1)[token])
        tokens.append(token)
    return score


def all_texts(table, prompt, new, eos_id=None):
    """Every text of `new` tokens, or up to its first eos_id, with its score, best first."""
    V = table.size(-1)
    texts = {tuple(text[: text.index(eos_id) + 1] if eos_id in text else text) for text in itertools.product(range(V), repeat=new)}
    return sorted(((list(text), log_probability(table, prompt, text)) for text in texts), key=lambda beam: -beam[1])


@exercise("beam_search", weight=4)
@settings(max_examples=4)
@given(V=vocabularies, seed=seeds)
def test_the_best_continuations_of_all_texts_go_on(learner, reference, V, seed):
    """At each step every text is continued with every token, and the n_beams greatest sums of all go on, best first."""
    table = table_of(seed, V)
    found = [(n_beams, both(learner, reference, table, 5, n_beams)) for n_beams in (2, 3, 6)]
    for n_beams, answers in found:
        compare_beams(*answers, f"with {n_beams} beams")


@exercise("beam_search", weight=2)
def test_many_beams_over_many_tokens(learner, reference):
    """With 30 tokens and 25 beams, any number of a text's continuations may stay: the first step keeps 25 of 30."""
    table = tensor(8, 30, 30, scale=1.5, dtype=torch.float64)
    sizes(V=30)
    free, ended = both(learner, reference, table, 3, 25), both(learner, reference, table, 3, 25, eos_id=11)
    compare_beams(*free, "with 25 beams")
    compare_beams(*ended, "with 25 beams and eos_id=11")


@exercise("beam_search", weight=2)
def test_nearly_equal_texts_are_ranked_too(learner, reference):
    """Scores have the precision of the logits: with float64 logits, texts are in the order of scores that differ by a hundred-millionth."""
    table = table_of(5, 5, scale=1e-8)
    found = [(n_beams, both(learner, reference, table, 4, n_beams, eos)) for n_beams in (1, 3, 6) for eos in (None, 2)]
    for n_beams, answers in found:
        compare_beams(*answers, f"with {n_beams} beams and nearly equal probabilities")


@exercise("beam_search", weight=2)
def test_two_beams_find_what_greedy_misses(learner):
    """After token 2 greedy writes 0, 0 with probability 0.5 * 0.4 = 0.20; two beams find 1, 0 with 0.4 * 0.9 = 0.36."""
    chances = torch.tensor([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.5, 0.4, 0.1]], dtype=torch.float64)
    model, ids = model_of(learner, chances.log()), torch.tensor([[2]])
    greedy, wide = learner.beam_search(model, ids, 2, 1), learner.beam_search(model, ids, 2, 2)
    compare_beams(wide, [([1, 0], math.log(0.36)), ([0, 0], math.log(0.2))], "with two beams")
    compare_beams(greedy, [([0, 0], math.log(0.2))], "with one beam")


@exercise("beam_search", weight=2)
@settings(max_examples=3)
@given(V=vocabularies, seed=seeds)
def test_one_beam_is_greedy(learner, V, seed):
    """With n_beams = 1 the text is the greedy one, token for token, and its score is the sum of the tokens' log-probabilities."""
    table, expected, tokens = table_of(seed, V), [], [0, *PROMPT[0].tolist()]
    for _ in range(6):
        expected.append(int(table[tokens[-2], tokens[-1]].argmax()))
        tokens.append(expected[-1])
    got = learner.beam_search(model_of(learner, table), PROMPT, 6, 1)
    compare_beams(got, [(expected, log_probability(table, PROMPT[0].tolist(), expected))], "with one beam")


@exercise("beam_search", weight=3)
@settings(max_examples=2)
@given(V=st.integers(3, 4), seed=seeds)
def test_with_beams_for_all_texts_it_lists_them_all(learner, V, seed):
    """If there are as many beams as texts, or more, the result is the list of all texts, each once, best first; a text ends at its first eos_id."""
    table, prompt = table_of(seed, V), torch.tensor([[1, 2]])
    model, eos = model_of(learner, table), seed % V
    exact, spare = learner.beam_search(model, prompt, 3, V**3), learner.beam_search(model, prompt, 3, V**3 + 9)
    ended = learner.beam_search(model, prompt, 3, V**3, eos)
    compare_beams(exact, all_texts(table, [1, 2], 3), f"of three tokens with {V**3} beams")
    compare_beams(spare, all_texts(table, [1, 2], 3), f"of three tokens with {V**3 + 9} beams")
    compare_beams(ended, all_texts(table, [1, 2], 3, eos), f"of up to three tokens with {V**3} beams and eos_id={eos}")


@exercise("beam_search", weight=2)
@settings(max_examples=3)
@given(V=vocabularies, seed=seeds)
def test_scores_are_sums_of_log_probabilities(learner, V, seed):
    """The score of each text is the sum of the log-probabilities that the model gives to its new tokens, each after all tokens before it."""
    table = table_of(seed, V)
    texts, scores = beams(learner.beam_search(model_of(learner, table), PROMPT, 4, 4))
    sums = [log_probability(table, PROMPT[0].tolist(), text) for text in texts]
    same([len(text) for text in texts], 4 * [4], "the list of the texts' lengths, with 4 beams and max_new_tokens=4,")
    close(scores, torch.tensor(sums, dtype=torch.float64), "the tensor of scores", tol=1e-9)


@exercise("beam_search", weight=4)
@settings(max_examples=4)
@example(V=4, seed=14)
@example(V=5, seed=22)
@given(V=vocabularies, seed=seeds)
def test_finished_texts_stay_and_compete(learner, reference, V, seed):
    """A text that has written eos_id stays as it is, with its eos_id, and competes with the others; better texts can displace it."""
    table, eos = table_of(seed, V), seed % V
    found = [(n_beams, both(learner, reference, table, 5, n_beams, eos)) for n_beams in (2, 3, 5)]
    for n_beams, answers in found:
        compare_beams(*answers, f"with {n_beams} beams and eos_id={eos}")


@exercise("beam_search", weight=2)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_eos_in_the_prompt_finishes_no_beam(learner, reference, V, seed):
    """An eos_id in the prompt, or at its end, finishes nothing; eos_id may be 0, and without one no text is finished."""
    table = table_of(seed, V)
    cases = [(torch.tensor([[2, 1]]), 1), (torch.tensor([[1, 2]]), 1), (torch.tensor([[3, 0]]), 0), (torch.tensor([[1]]), 1), (torch.tensor([[3, 0]]), None)]
    found = [(ids, eos, both(learner, reference, table, 4, 3, eos, ids)) for ids, eos in cases]
    for ids, eos, answers in found:
        compare_beams(*answers, f"after the prompt {ids[0].tolist()} with eos_id={eos}")


@exercise("beam_search", weight=2)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_each_step_is_one_pass(learner, V, seed):
    """The model runs once a step, on all unfinished texts, and no more when all texts are finished."""
    table = table_of(seed, V)
    surely = table.clone()
    surely[:, 1, 2], surely[1, :, 0] = 60.0, 60.0  # token 2 after a 1, and then 0: the prompt ends with 1, so all texts end after two tokens
    surely[1, 2, 0] = 90.0
    five, ended = model_of(learner, table), model_of(learner, surely)
    plain = learner.beam_search(five, PROMPT, 5, 3)
    short = learner.beam_search(ended, torch.tensor([[3, 1]]), 9, 1, 0)
    counted, most_read = (five.passes, ended.passes), five.most_read
    same([len(text) for text in beams(plain)[0]], [5, 5, 5], "the list of the texts' lengths with max_new_tokens=5")
    same(beams(short)[0], [[2, 0]], "the list of texts where eos_id=0 is nearly certain after token 2")
    holds(most_read >= 7, f"the model should be given the whole text, which has 3 + 4 tokens before the last step; it was given at most {most_read}")
    holds(counted[0] == 5, f"three texts of five tokens should take 5 passes of the model, one a step; they took {counted[0]}")
    holds(counted[1] == 2, f"a text that is finished after two tokens should take 2 passes of the model; it took {counted[1]}")


@exercise("beam_search", weight=5)
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_all_texts_go_on_in_the_same_pass(learner, reference, V, seed):
    """If the model changes with each of its passes, all texts of a step are continued with the logits of one pass."""
    table, rows = table_of(seed, V), tensor(seed + 1, 5, V, dtype=torch.float64)
    found = []
    for side in (learner, reference):
        model = model_of(side, table, changing=True)
        found.append(side.bring(call_changing)(side.bring(Additions), rows, side.beam_search, model, PROMPT, 5, 3))
    compare_beams(*found, "by a model that changes with each of its passes")


@exercise("beam_search")
def test_long_texts_do_not_underflow(learner):
    """The score of a long text is a sum of logarithms; the product of its probabilities is below the smallest number that a float can store."""
    table = tensor(3, 150, 150, scale=0.3, dtype=torch.float64)
    (text, *_), scores = beams(learner.beam_search(model_of(learner, table), torch.tensor([[7, 5]]), 180, 2))
    expected = sum(float(table[a].log_softmax(-1)[b]) for a, b in zip([5, *text], text))
    same(len(text), 180, "the length of the best text with max_new_tokens=180")
    close(scores[:1], torch.tensor([expected], dtype=torch.float64), "the score of the best text", tol=1e-9)
    holds(len(scores) == 2 and expected < -700, f"there should be two texts with scores below -700; there are {len(scores)}, and the best has {expected:.1f}")


@exercise("beam_search")
@settings(max_examples=2)
@given(V=vocabularies, seed=seeds)
def test_searching_does_not_change_the_model(learner, reference, V, seed):
    """The model may return logits or a tuple; it runs in eval mode without gradient, and each module has its old mode afterwards."""
    table = table_of(seed, V)
    models = {kind: model_of(learner, table, kind=kind) for kind in ("logits", "tuple")}
    got = {kind: learner.beam_search(model, PROMPT, 3, 3) for kind, model in models.items()}
    facts = [(model.modes(), model.graph) for model in models.values()]
    for kind, result in got.items():
        compare_beams(result, reference.beam_search(model_of(reference, table), PROMPT, 3, 3), f"of a model with dropout that returns {kind}")
    for modes, graph in facts:
        same(modes, MODES_AT_FIRST, "the list of the modules' modes afterwards (model, dropout, a part that was in eval mode)")
        holds(not graph, "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")


@exercise("beam_search")
def test_at_least_one_beam(learner):
    """n_beams below 1 raises a ValueError that names it."""
    table = table_of(1, 4)
    texts, _ = beams(learner.beam_search(model_of(learner, table), PROMPT, 1, 9))
    same(texts, [text for text, _ in all_texts(table, PROMPT[0].tolist(), 1)], "the list of texts of one token with 9 beams")
    for n_beams in (0, -2):
        refuses(lambda n=n_beams: learner.beam_search(model_of(learner, table), PROMPT, 1, n), naming={"n_beams": n_beams})
