"""Chapter 24: is it better, or lucky?

A score on some questions is a number with chance in it. Here you compute scores, say how sure they are, and compare two models.
Most of it is plain Python: an evaluation is arithmetic on a few hundred numbers.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch24_evaluation.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import takewhile
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor, nn

from .ch09_sampling import looking_at
from .ch19_data_and_scale import shingles


def choice_score(log_probs: Sequence[float], n_bytes: int, kind: str = "byte") -> float:
    """Return the score of one choice of a question: the choice with the highest score is the model's answer.

    `log_probs` are the log probabilities of the choice's tokens, and n_bytes is the length of its text in bytes. With
    the kind "sum" the score is their sum, with "token" their mean, and with "byte" the sum divided by n_bytes. Raises a
    ValueError that names `kind` for another one, one that names log_probs if there are none, and one that names n_bytes
    if it is below 1.
    """
    # TODO 1: check kind, log_probs and n_bytes
    # TODO 2: add up, and divide by what the kind says
    raise NotImplementedError


def score_choices(model: nn.Module, tokenizer: Any, question: str, choices: Sequence[str], kind: str = "byte") -> list[float]:
    """Return the choice_score of each choice, as a continuation of the question.

    A choice follows the question directly, as it is: its space at the beginning is a part of it. The model reads the
    ids of the whole text, tokenizer.encode(question + choice). The choice's tokens are all that come after what these
    ids have in common with tokenizer.encode(question) at their beginning: a token that is partly question and partly
    choice counts as the choice's. There is no token for an end. `n_bytes` is the length of the choice in UTF-8.

    `model(ids)` returns logits, (B, T) -> (B, T, V), or a tuple that begins with them. It is called once, for all
    choices together: shorter texts are padded on the right, with any id that the model knows. No position of the model
    depends on a later one. The model computes in eval mode and without gradients, and each module's mode is restored.
    It may be on any device and of any dtype; log probabilities are computed in float32.

    Raises a ValueError that names `question` if, for one of the choices, the question's first token is not the first
    one of the whole text, or the question has no token: then nothing is before the choice's tokens; raises one that
    names `choices` if there are none, or one of them adds no token to the question's.
    """
    # TODO 1: encode the question, and each whole text; find where the choice's tokens begin
    # TODO 2: check that there is a token before them, and at least one of them
    # TODO 3: pad the texts to a batch, and call the model once, inside looking_at
    # TODO 4: take the log probability of each token at the position before it
    # TODO 5: compute choice_score of each choice's own tokens
    raise NotImplementedError


def normalise_answer(text: str) -> str:
    """Return an answer without what does not matter, by the rules of the SQuAD benchmark.

    In this order: the text in lower case; without the ASCII punctuation marks (string.punctuation); without the words
    "a", "an" and "the"; its words with one space between them, and none at the ends. Words are what white space
    separates.
    """
    # TODO 1: apply the four rules in order
    raise NotImplementedError


def exact_match(text: str, answers: Sequence[str]) -> bool:
    """Return whether the text is one of the right answers, all compared after normalise_answer.

    Raises a ValueError that names `answers` if there are none.
    """
    # TODO 1: check that there are answers; compare
    raise NotImplementedError


def token_f1(text: str, answers: Sequence[str]) -> float:
    """Return how well the words of the text are those of a right answer, from 0 to 1; of several answers, the best result.

    Both become words by normalise_answer. A word is shared as often as it occurs in both. The result is 2 · p · r / (p
    + r), where p is the share of the text's words, and r the share of the answer's words, that are shared; it is 0 if
    no word is shared. If the text or the answer has no words, the result for this answer is 1 if neither has any, and 0
    otherwise. Raises a ValueError that names `answers` if there are none.
    """
    # TODO 1: check that there are answers
    # TODO 2: count the words of both, and how many are shared
    # TODO 3: compute the result for each answer, and return the best one
    raise NotImplementedError


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return an unbiased estimate of pass@k, the probability that at least one of k answers is right.

    A model has given n answers to a question, of which `correct` are right. The estimate is the share of all ways to
    choose k of these n answers that have a right one among them. It is exact within rounding, also for n = 10,000.
    Raises a ValueError that names `correct` if it is not from 0 to n, and one that names `k` if it is not from 1 to n.
    """
    # TODO 1: check correct and k
    # TODO 2: find the share of the choices that have no right answer, without numbers that overflow
    raise NotImplementedError


def bootstrap_interval(
    values: Sequence[float],
    level: float = 0.95,
    resamples: int = 2000,
    generator: torch.Generator | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float]:
    """Return the two ends of a bootstrap interval for the mean of the values, the lower one first.

    A resample draws as many values as there are, each time from all of them, so that some occur twice and others never.
    The ends are the quantiles (1 - level) / 2 and (1 + level) / 2 of the means of all resamples, as torch.quantile
    computes them.

    Values are numbers, also whole ones or bools. `clusters` has one name for each value. Then a resample draws as many
    whole clusters as there are, and its mean is that of all values in them: each cluster counts with all of its values,
    and as often as it is drawn.

    Draws are made with the generator, in any way, so the same seed gives the same interval each time. Raises a
    ValueError that names `values` if there are none, one that names `level` if it is not above 0 and below 1, one that
    names `resamples` if it is below 1, and one that names `clusters` if there are not as many as values.
    """
    # TODO 1: check the arguments
    # TODO 2: give every value its cluster; without clusters, each value is one by itself
    # TODO 3: compute the sum and the number of values of each cluster
    # TODO 4: draw clusters for every resample; a resample's mean is its sum of sums, divided by its sum of numbers
    # TODO 5: return both quantiles
    raise NotImplementedError


def paired_test(a: Sequence[float], b: Sequence[float], generator: torch.Generator | None = None) -> float:
    """Return the p-value of the difference between two models on the same questions: a sign-flip test with two sides.

    a[i] and b[i] are the scores of both models for question i, numbers or bools. If the models are equally good, each
    difference a[i] - b[i] could as well have the other sign. The p-value is the share of all ways to choose the signs
    of the differences whose sum is at least as far from 0 as the sum that was seen, in either direction. Sums that
    differ by rounding only, by less than a billionth of the sum of all |a[i] - b[i]|, count as equal. Differences of 0
    do not matter, and if there are no others, the result is 1.

    With up to 20 differences that are not 0, all ways are tried, so the result is exact. With more, 10,000 ways are
    drawn with the generator, and the result is (1 + those that are as far) / (1 + 10,000). It is never 0. Raises a
    ValueError that names `a` and `b` if they have different lengths or no values.
    """
    # TODO 1: check the lengths; keep the differences that are not 0
    # TODO 2: make rows of signs: all of them, or 10,000 random ones
    # TODO 3: compare the size of each row's sum with what was seen; leave room for rounding
    # TODO 4: return the share; among all ways, the one that was seen is there already
    raise NotImplementedError


def questions_needed(accuracy: float, difference: float, power: float = 0.8) -> int:
    """Return how many questions are needed to tell two models apart, of which the second one is better by `difference`.

    The first model is right with the probability `accuracy`, the second one with accuracy + difference. Each answers n
    questions of its own, and a test with two sides at the level 0.05 compares their shares of right answers. By the
    normal approximation, it finds the difference with the probability `power` if n = (z(0.975) + z(power))² · (v1 + v2)
    / difference². Here z is the inverse of the normal distribution function, and v = p · (1 - p) is the variance of one
    answer that is right with the probability p. The result is rounded up, and at least 1.

    Raises a ValueError that names `accuracy` if it is not from 0 to 1, one that names `difference` if it is not above 0
    or the second probability is above 1 by more than rounding (within rounding it counts as 1), and one that names
    `power` if it is not above 0.5 and below 1.
    """
    # TODO 1: check the arguments
    # TODO 2: compute both variances and both z; statistics.NormalDist has the inverse
    # TODO 3: put them into the formula, and round up
    raise NotImplementedError


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 10) -> float:
    """Return the expected calibration error: how far confidence is from accuracy, on average.

    `confidence` (N,) has the model's probability of each of its answers, and `correct` (N,) says whether the answer is
    right, as bools or as 0 and 1. The answers go into bins of equal width: bin i has the confidences from i / bins on
    and below (i + 1) / bins, and the last bin has 1.0 too; at an edge, rounding may decide. The result is the mean over
    the bins of |mean confidence - share of right answers|, each bin weighed with its number of answers; empty bins
    count nothing. Raises a ValueError that names `confidence` if there is none, or one is not from 0 to 1 (NaN is not),
    one that names `correct` if it has another shape, and one that names `bins` if it is below 1.
    """
    # TODO 1: check the arguments
    # TODO 2: find the bin of each answer
    # TODO 3: add up |mean confidence - share of right answers| · number of answers over the bins, and divide by N
    raise NotImplementedError


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    """Return the temperature from 0.01 to 100 at which the mean cross-entropy of logits / temperature is smallest.

    logits (N, C) of any dtype, targets (N,). It is found in float64, so precisely that the loss at it exceeds the
    smallest one by at most one millionth; where all are equally good, it is any of them. Logits of any finite size,
    such as 1e4, are no problem. The model's answers stay the same: only its confidence changes. Raises a ValueError
    that names `logits` if there are no rows.
    """
    # TODO 1: check that there are rows
    # TODO 2: the loss is convex in b = 1 / temperature; its slope is the mean of (average logit under the probabilities - the target's)
    # TODO 3: halve the range of log b until it is small, each time by the sign of the slope
    raise NotImplementedError


def contaminated(example: str, corpus_ngrams: Collection[str], n: int) -> bool:
    """Return whether n words in a row of the example are in the training texts.

    corpus_ngrams are the shingles (chapter 19) of n words of all training texts, each text after normalise_answer. The
    example is cut in the same way, so case, punctuation marks and articles do not matter. An example of fewer than n
    words, but at least one, has one shingle, as in chapter 19: all of its words. Raises a ValueError that names `n` if
    it is below 1.
    """
    # TODO 1: cut the example like the texts, and look for each of its shingles
    raise NotImplementedError


def bradley_terry(wins: Tensor) -> Tensor:
    """Return the rating of each player from how often each has won against each other: (P, P) -> (P,), float32.

    wins[i, j], of any dtype, counts the games that i won against j; a tie is half a win for both, and the diagonal has
    no effect. Before anything else, every two players are given one more game, a tie, so no rating is infinite. Player
    i beats j with the probability sigmoid(rating i - rating j). The ratings are those at which all games together are
    most likely, and their mean is 0. They are right within 1e-3. Raises a ValueError that names `wins` if it is not
    square, or a number in it is below 0.
    """
    # TODO 1: check wins; add half a win in both directions for every two players, and leave out the diagonal
    # TODO 2: begin with zeros; the slope of the log-likelihood for player i is its wins minus the wins that its ratings predict
    # TODO 3: repeat a step that makes the slopes smaller, such as Newton's, until the ratings do not change
    # TODO 4: subtract the mean
    raise NotImplementedError


def agreement(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Return Cohen's kappa of two judges: how often they agree, beyond what chance would give.

    a[i] and b[i] are the labels that both judges give to case i. With o, the share of cases with equal labels, and e,
    the share that is expected if each judge gave its own labels in random order, it is (o - e) / (1 - e). If both give
    one and the same label to all cases, it is 1. Raises a ValueError that names `a` and `b` if they have different
    lengths or no labels.
    """
    # TODO 1: check the lengths
    # TODO 2: compute o; e is the sum over the labels of the product of both judges' shares
    # TODO 3: put them into the formula
    raise NotImplementedError


def judge_both_orders(judge: Callable[[str, str], str], a: str, b: str) -> str:
    """Ask a judge which of two answers is better, in both orders, and return "a", "b" or "tie".

    judge(first, second) returns "first", "second" or "tie". It is called twice: with a first, then with b first. An
    answer wins if both calls prefer it; otherwise the result is "tie". Raises a ValueError that names `judge` and its
    word if the judge returns another word.
    """
    # TODO 1: ask twice, and check what is said
    # TODO 2: translate both results to "a", "b" or "tie", and compare them
    raise NotImplementedError
