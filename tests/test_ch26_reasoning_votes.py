"""Chapter 26: choosing among many answers, by a vote or by a score, and how often a vote is right."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import torch
from changing_models import Additions, call_changing
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

few = settings(max_examples=3)

# ---- majority_vote


def winner(answers, weights=None):
    """The answer with the most votes; of equal ones, the one that comes first."""
    votes = Counter()
    for answer, weight in zip(answers, weights or [1] * len(answers)):
        votes[answer] += weight if answer is not None else 0
    found = [answer for answer in answers if answer is not None]
    return max(found, key=lambda answer: (votes[answer], -found.index(answer)), default=None)


def voted(learner, cases):
    """Each (answers, weights) whose vote has another result; weights is None for one vote each."""
    got = [learner.majority_vote(answers) if weights is None else learner.majority_vote(answers, weights) for answers, weights in cases]
    for (answers, weights), mine in zip(cases, got):
        same(mine, winner(answers, weights), f"majority_vote({answers!r}{'' if weights is None else f', {weights!r}'})")


@exercise("majority_vote", weight=2)
@given(answers=st.lists(st.sampled_from(["12", "7", "30", "4", None]), min_size=5, max_size=12))
def test_the_most_frequent_answer_wins(learner, answers):
    """The answer that occurs most often wins, whatever it is: a text, a number or a pair. Answers need no order."""
    voted(learner, [
        (answers, None), (tuple(answers), None), ([3, 8, 3], None), ([8, 3, 3, 8, 8], None), ([(1, 2), (0, 5), (1, 2)], None), (["x", 3, (1,), 3], None),
        (["10", 9, "9", "10"], None), ([7], None), (["b", "a", "c", "a"], None), (["1", 2, 2, 1], None), ([5, -1, -1], None), ([True, "no", "no"], None), (["a", "B", "A", "B"], None),
    ])  # fmt: skip


@exercise("majority_vote", weight=2)
def test_of_equal_answers_the_first_one_wins(learner):
    """Of answers with equally many votes, the one that comes first in the list wins. It need not have its votes first, nor be the smallest or largest."""
    voted(learner, [
        (["b", "a", "a", "b"], None), (["a", "b", "b", "a"], None), ([2, 1], None), ([1, 2], None), ([3, 5, 5, 4, 4, 3], None), ([None, "y", "x", "x", "y"], None),
        (["c", "a", "a", "b", "b"], None), (["c", "b", "b", "a", "a"], None), ([9, 30, 9, 30], None), ([30, 9, 9, 30], None), (["1", 1, 1, "1"], None),
    ])  # fmt: skip


@exercise("majority_vote", weight=2)
def test_the_answers_0_and_empty_have_votes(learner):
    """0, "" and () are answers like any other: only None is no answer."""
    voted(learner, [
        ([0, 5, 0], None), (["", "x", ""], None), ([(), (1,), ()], None), ([0, 5], None), (["", "x"], None), ([0], None), ([5, 0, 5], None),
        ([0.0, 1.5, 0.0, 1.5, 1.5], None), (["None", None, None], None), ([None, 0, None], None), ([0, 4], [2.0, 1.0]), (["x", ""], [0.5, 2.0]),
    ])  # fmt: skip


@exercise("majority_vote", weight=2)
def test_none_does_not_vote(learner):
    """None means that no answer was found: it never wins, however often it occurs, unless nothing else is there."""
    voted(learner, [
        ([None, None, None, 4], None), (["x", None, None], None), ([None, "x", "y", "y"], None), ([None, None], None), ([], None), ([None, 6, None, 8, 8], None),
        ([None, "x"], [100.0, 0.5]), ([None, "x", "y", None], [1.0, 1.0, 2.0, 9.0]), ([None], [3.0]), ([], []), (["a", None, "b", "b"], [1.5, 7.0, 0.5, 0.5]),
    ])  # fmt: skip


@exercise("majority_vote", weight=3)
@given(answers=st.lists(st.sampled_from(["p", "q", "r", None]), min_size=4, max_size=9), seed=seeds)
def test_weights_are_added_up(learner, answers, seed):
    """With weights, each answer's weights are added up, and the largest sum wins, also against more votes and against the largest single weight. Equal sums, also of 0: the first answer."""
    quarters = (torch.randint(1, 12, (len(answers),), generator=torch.Generator().manual_seed(seed)) / 4).tolist()
    voted(learner, [
        (answers, quarters), (tuple(answers), tuple(quarters)), (["a", "b", "b"], [3.0, 1.0, 1.0]), (["a", "b", "b"], [1.5, 1.0, 1.0]), (["a", "b", "a"], [1.0, 2.0, 1.0]),
        (["b", "a", "a"], [2.0, 1.0, 1.0]), (["a", "b", "c", "b"], [0.25, 0.5, 0.75, 0.5]), ([1, 2, 2, 3], [0.125, 0.0, 0.0, 0.25]), (["a", "b", "b", "a"], [3, 2, 2, 1]),
        (["a", "b", "a"], [1.0, 0.25, 0.0]), (["a", "b", "b"], [2.5, 1.5, 1.25]), (["a", "b"], [0.2, 0.7]), ([3, 3, 8], [10.0, 20.0, 25.0]), ([5, 6, 6], [200.0, 150.0, 75.0]), (["a", "b"], [0.0, 0.0]), ([None, "x"], [1.0, 0.0]),
    ])  # fmt: skip


@exercise("majority_vote")
def test_each_answer_needs_a_weight(learner):
    """Too few or too many weights raise a ValueError that names weights; None needs one too."""
    fine = learner.majority_vote(["a", None, "b"], [1.0, 5.0, 2.0])
    for answers, weights in ((["a", "b"], [1.0]), (["a", "b"], [1.0, 2.0, 3.0]), (["a", None, "b"], [1.0, 2.0]), (["a"], []), ([], [1.0])):
        refuses(lambda a=answers, w=weights: learner.majority_vote(a, w), naming=("weights",), because=f"there are {len(answers)} answers and {len(weights)} weights")
    same(fine, "b", "majority_vote(['a', None, 'b'], [1.0, 5.0, 2.0])")


# ---- best_of


def best_by_table(best_of, candidates, scores):
    """The best of these candidates, where candidate i of those that are not None has scores[i]; each may occur once only."""
    left = [candidate for candidate in candidates if candidate is not None]
    return best_of(candidates, lambda candidate: scores[left.index(candidate)])


def best_of_cases(learner, cases):
    """Each (candidates, scores, best) with another result."""
    got = [learner.bring(best_by_table)(learner.best_of, candidates, scores) for candidates, scores, _ in cases]
    for (candidates, scores, best), mine in zip(cases, got):
        same(mine, best, f"the best of {candidates!r} with the scores {scores!r}")


@exercise("best_of", weight=2)
@given(scores=st.permutations([-3.5, -1.0, 0.0, 0.25, 2.0, 7.0]))
def test_the_candidate_with_the_highest_score_wins(learner, scores):
    """The candidate with the highest score is returned, not its score and not its place, also if all scores are negative."""
    words, lists = ["it", "was", "so", "I", "say", "now"], [[3, 1], [2], [], [7, 7, 7], [0], [5]]
    best = scores.index(7.0)
    best_of_cases(learner, [
        (words, scores, words[best]), (tuple(words), scores, words[best]), (lists, scores, lists[best]), (words, [score - 9 for score in scores], words[best]),
        ([8, 2, 5], [1.0, 3.0, 2.0], 2), ([4, 0, 9], [1.0, 3.0, 2.0], 0), (["x", ""], [-2.0, -1.0], ""), (["only"], [-5.0], "only"), (["x", "y"], [-math.inf, -1e30], "y"),
        ([[1], [2]], [-math.inf, -math.inf], [1]), (["x", "y"], [0.0, 1e-9], "y"), (["b", "a"], [5, 12], "a"),
    ])  # fmt: skip


@exercise("best_of", weight=2)
def test_of_equal_scores_the_first_candidate_wins(learner):
    """Of candidates with equal scores the first one wins, not the last one, and not the smaller or larger one. Candidates need no order."""
    best_of_cases(learner, [
        (["b", "a", "c"], [1.0, 1.0, 1.0], "b"), ([4, 9, 2], [0.0, 3.0, 3.0], 9), ([4, 2, 9], [0.0, 3.0, 3.0], 2), ([None, "x", "w"], [2.0, 2.0], "x"),
        ([{"a": 1}, {"b": 2}], [1.0, 1.0], {"a": 1}), ([[5], "x", 7], [2.0, 2.0, 1.0], [5]), (["p", "q", "r", "s"], [1.0, 2.0, 2.0, 0.0], "q"),
    ])  # fmt: skip


@exercise("best_of", weight=2)
def test_none_cannot_win(learner):
    """None is never scored and cannot win, whatever the scores are. Without any candidate, the result is None."""
    best_of_cases(learner, [
        ([None, "x", None, "y"], [-4.0, -3.0], "y"), (["x", None], [-1.0], "x"), ([None, None], [], None), ([], [], None), ([None, 0, None], [-2.0], 0), ([None, ""], [0.0], ""),
        ([3, None, 5, 4], [1.0, 0.5, 2.0], 4), ([None, [], [1]], [1.0, 0.0], []),
    ])  # fmt: skip


def best_by_calls(best_of, candidates):
    """The best of these candidates by a score that is another number in each call; the numbers are out of the code's reach."""
    return best_of(candidates, lambda candidate: float(torch.special.bessel_y1(torch.zeros(1))) + 0 * len(candidate))


@exercise("best_of", weight=2)
def test_score_is_called_once_for_each_candidate_in_order(learner):
    """A score may be costly or a judge's dice: it is called once for each candidate that is not None, from the first to the last, and no further."""
    candidates, equal = ["p", None, "q", "r", None, "s"], ["p", "q", "p", "s"]
    cases = [([5.0, 1.0, 2.0, 0.0, 90.0, 80.0, 70.0, 60.0], "p"), ([1.0, 2.0, 0.0, 5.0, 90.0, 70.0, 80.0, 60.0], "s"), ([1.0, 5.0, 3.0, 4.0, 60.0, 70.0, 80.0, 90.0], "q")]
    cases += [([0.0, 3.0, 9.0, 4.0, 90.0, 0.0, 0.0, 0.0], "r"), ([9.0, 8.0, 8.0, 8.0, 0.0, 0.0, 0.0, 0.0], "p"), ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "s")]
    call, additions = learner.bring(call_changing), learner.bring(Additions)
    cases = [(candidates, *case) for case in cases] + [(equal, [1.0, 2.0, 9.0, 4.0, 90.0, 0.0, 0.0, 0.0], "p"), (equal, [9.0, 2.0, 3.0, 4.0, 0.0, 5.0, 90.0, 60.0], "p")]
    got = [call(additions, torch.tensor(rows)[:, None], learner.bring(best_by_calls), learner.best_of, those) for those, rows, _ in cases]
    for (those, rows, best), mine in zip(cases, got):
        same(mine, best, f"the best of {those!r} by a score whose first calls give {rows[:4]}")


# ---- expected_vote


def chance_by_enumeration(probabilities, n):
    """The sum over all sequences of n answers that majority_vote decides for the right one, 0."""
    answers = [*range(len(probabilities)), None]
    shares = [*probabilities, max(1 - sum(probabilities), 0.0)]
    total = 0.0
    for sequence in itertools.product(range(len(answers)), repeat=n):
        if winner([answers[i] for i in sequence]) == 0:
            total += math.prod(shares[i] for i in sequence)
    return total


def chance_by_counts(probabilities, n):
    """The same in polynomial time: weights[m][t] over the wrong answers, with 1 / k! for each count k."""
    right, *wrong = probabilities
    nothing, total = max(1 - math.fsum(probabilities), 0.0), 0.0
    for c in range(1, n + 1):
        ways = torch.zeros(n - c + 1, len(wrong) + 1, dtype=torch.float64)
        ways[0, 0] = 1.0
        for p in wrong:
            more = torch.zeros_like(ways)
            for k in range(min(c, n - c) + 1):
                share, tie = p**k / math.factorial(k), int(k == c)
                more[k:, tie:] += share * ways[: n - c + 1 - k, : len(wrong) + 1 - tie]
            ways = more
        silent = torch.tensor([nothing**m / math.factorial(m) for m in range(n - c, -1, -1)], dtype=torch.float64)
        ties = 1 / torch.arange(1.0, len(wrong) + 2, dtype=torch.float64)
        total += float(silent @ ways @ ties) * right**c * math.factorial(n) / math.factorial(c)
    return total


def expected(learner, cases, chance=chance_by_counts):
    """Each (probabilities, n) with another chance."""
    got = [learner.expected_vote(probabilities, n) for probabilities, n in cases]
    for (probabilities, n), mine in zip(cases, got):
        close(mine, chance(probabilities, n), f"expected_vote({[round(p, 3) for p in probabilities]}, {n})", tol=1e-6)


def shares_of(seed, many, nothing=0.0):
    """Probabilities of `many` answers, which leave `nothing` for None."""
    drawn = torch.rand(many, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    return [float(p) * (1 - nothing) for p in drawn / drawn.sum()]


@exercise("expected_vote", weight=3)
@few
@given(seed=seeds)
def test_the_chance_is_that_of_all_sequences_of_answers(learner, seed):
    """Each sequence of n answers has a probability. Those in which majority_vote chooses the right one add up to the result, with None too, for odd and even n."""
    cases = [(shares_of(seed, many, nothing), n) for many, nothing in ((2, 0.0), (3, 0.0), (3, 0.3), (1, 0.4)) for n in (2, 3, 5)]
    cases += [(shares_of(seed, 4), 4), (shares_of(seed, 2, 0.25), 6)]
    expected(learner, cases, chance_by_enumeration)


@exercise("expected_vote")
@few
@given(seed=seeds)
def test_one_answer_is_right_with_its_own_probability(learner, seed):
    """With n = 1 the result is probabilities[0]; two answers are no better than one if each has an answer."""
    shares = shares_of(seed, 4), shares_of(seed, 2, 0.5), [0.0, 1.0], [1.0]
    got = [[learner.expected_vote(p, n) for n in (1, 2)] for p in shares]
    for p, (one, two) in zip(shares, got):
        close(one, p[0], f"expected_vote({[round(each, 3) for each in p]}, 1)", tol=1e-6)
        close(two, p[0] * (2 - sum(p)), f"expected_vote({[round(each, 3) for each in p]}, 2)", tol=1e-6)


@exercise("expected_vote", weight=2)
def test_of_equally_many_votes_the_first_answer_counts(learner):
    """If the right answer and t wrong ones have equally many votes, each of them comes first equally often: the right one wins in one of 1 + t cases. Without a vote it never wins."""
    expected(learner, [
        ([0.5, 0.5], 2), ([0.6, 0.4], 2), ([0.6, 0.4], 4), ([0.6, 0.4], 3), ([0.5, 0.3, 0.2], 3), ([0.25, 0.25, 0.25, 0.25], 4), ([0.2, 0.4, 0.4], 6), ([0.1] * 10, 10),
        ([0.4, 0.1], 2), ([0.3, 0.3], 4), ([0.0, 0.2], 3), ([0.3], 4), ([0.2, 0.2, 0.2], 8),
    ])  # fmt: skip


@exercise("expected_vote", weight=2)
def test_none_does_not_count_as_a_vote(learner):
    """What is missing to 1 is the probability of None: a vote is wrong if all n are None, and otherwise None changes nothing."""
    expected(learner, [([0.3], 1), ([0.3], 5), ([0.01], 12), ([0.2, 0.1], 5), ([0.2, 0.1], 6), ([0.1, 0.2], 5), ([0.15, 0.1, 0.05], 7), ([0.45, 0.05], 4), ([1.0], 5)])


@exercise("expected_vote", weight=2)
def test_a_vote_makes_the_most_likely_answer_likelier(learner):
    """More votes bring the chance nearer to 1 if the right answer is the most likely one, also below one half. If a wrong one is, they bring it nearer to 0."""
    expected(learner, [(p, n) for p in ([0.6, 0.4], [0.4, 0.6], [0.4, 0.35, 0.25], [0.3, 0.4, 0.3], [0.2, 0.1, 0.1]) for n in (1, 3, 9, 27)])


@exercise("expected_vote", weight=2)
def test_many_answers_of_many_kinds_are_quick(learner):
    """64 answers of 10 kinds, 101 of two and 16 of 30 kinds: no number is too large, and no loop goes over all sequences."""
    ten, thirty = sorted(shares_of(5, 10, 0.1), reverse=True), [0.1, *shares_of(5, 29, 0.1)[1:]]
    expected(learner, [(ten, 64), ([0.51, 0.49], 101), (thirty, 16)])


@exercise("expected_vote")
@few
@given(seed=seeds)
def test_all_answers_together_have_the_rest_of_the_probability(learner, seed):
    """If each answer is taken for the right one in turn, the chances add up to 1, less the chance that all n are None. The order of the wrong answers does not matter."""
    found = []
    for many, nothing, n in ((3, 0.0, 5), (3, 0.3, 4), (4, 0.2, 6)):
        p = shares_of(seed, many, nothing)
        turns = [p[i:] + p[:i] for i in range(many)]
        found.append((p, n, [learner.expected_vote(turn, n) for turn in turns], learner.expected_vote([p[0], *p[:0:-1]], n)))
    for p, n, each, backwards in found:
        close(sum(map(float, each)), 1 - max(1 - math.fsum(p), 0.0) ** n, f"the sum of the chances of {[round(a, 3) for a in p]} in a vote of {n}", tol=1e-6)
        close(backwards, chance_by_counts(p, n), "the chance with the wrong answers in the opposite order", tol=1e-6)


@exercise("expected_vote")
def test_probabilities_of_0_and_sums_with_rounding_are_fine(learner):
    """An answer with the probability 0 changes nothing. A sum that is above 1 by rounding only is no error, and a tuple is fine too."""
    above = [0.1, 0.7, 0.2 + 1e-15]  # together 1.000000000000001
    expected(learner, [
        ([0.5, 0.0, 0.3], 5), ([0.5, 0.3], 5), ([0.0, 1.0], 4), ([1.0, 0.0], 4), ([0.0], 3), ([0.6, 0.4, 0.0, 0.0], 6), (above, 1), (above, 6), ([0.1] * 10, 7), ((0.3, 0.7), 3),
        ([0.0, 0.0, 0.0], 2), ([1 / 3] * 3, 3), ([1 / 49] * 49, 2),
    ])  # fmt: skip


@exercise("expected_vote")
def test_votes_and_probabilities_that_cannot_be_are_refused(learner):
    """An n below 1 raises a ValueError that names it. No probabilities, one below 0, or a sum above 1 raise one that names probabilities."""
    fine = [learner.expected_vote(p, n) for p, n in (([0.6, 0.4], 1), ([0.6, 0.4], 3))]
    for n in (0, -3):
        refuses(lambda n=n: learner.expected_vote([0.6, 0.4], n), naming={"n": n}, because="a vote needs at least one answer")
    for probabilities, why in (([], "there is no right answer"), ([0.5, -0.1], "one is below 0"), ([-0.2, 0.7], "one is below 0"), ([0.7, 0.4], "their sum is above 1"), ([1.2, -0.2], "one is below 0")):
        refuses(lambda p=probabilities: learner.expected_vote(p, 3), naming=("probabilities",), because=why)
    close(fine[0], 0.6, "expected_vote([0.6, 0.4], 1)", tol=1e-6)
    close(fine[1], 0.648, "expected_vote([0.6, 0.4], 3)", tol=1e-6)
