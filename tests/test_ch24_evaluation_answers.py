"""Chapter 24, second part: written answers, how many attempts are right, and whether the training texts have the question."""

from __future__ import annotations

import itertools
import math
import string

from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

few = settings(max_examples=3)

# ---- normalise_answer

ARTICLES = ("a", "an", "the")


def normalised(text):
    """The four rules, one after the other."""
    for mark in string.punctuation:
        text = text.replace(mark, "")
    return " ".join(word for word in text.lower().split() if word not in ARTICLES)


def check_texts(learner, texts):
    """Each of these texts becomes what the four rules make of it."""
    got = [learner.normalise_answer(text) for text in texts]
    for text, mine in zip(texts, got):
        same(mine, normalised(text), f"normalise_answer({text!r})")


words = st.lists(st.sampled_from(["The", "a", "AN", "Cat", "banana", "other", "U.S.", "it's", "andes", "42"]), min_size=4, max_size=7)


@exercise("normalise_answer", weight=2)
@given(words=words)
def test_the_four_rules_together(learner, words):
    """Lower case, no ASCII punctuation marks, no articles, one space between the words: "The cat's hat!" becomes "cats hat"."""
    check_texts(learner, [" ".join(words), f" {'  '.join(words)}.", "The cat's hat!", "Eiffel Tower", "the Eiffel tower.", ""])


@exercise("normalise_answer", weight=2)
def test_articles_are_removed_as_whole_words_only(learner):
    """Only the words "a", "an" and "the" are removed, in any case, at every place and as often as they occur. The "a" in "cat" and the "the" in "other" stay, and so do other small words."""
    check_texts(learner, [
        "a cat and an ant on the other theme", "The the THE a An an cat", "the", "an a the", "cat the", "cat a", "a an the b a an the", "anthem bathe aa banana", "The Theatre",
        "one of this and that in it", "A", "a b c", "than a man", "then the thesis",
    ])  # fmt: skip


@exercise("normalise_answer", weight=2)
def test_each_ascii_punctuation_mark_is_removed(learner):
    """All 32 marks of string.punctuation are removed, and nothing is put into their place: "U.S." becomes "us", and "3.50" becomes "350". Other marks and letters of other alphabets stay."""
    marks = [f"x{mark}y {mark} z{mark}" for mark in string.punctuation]
    check_texts(learner, [*marks, "U.S.", "$3.50", "well-known", "snake_case", "it's", "5 + 5 = 10", "!?", "«Größe» – ñandú €5", "日本、東京。", "Ωmega³", "x…y"])


@exercise("normalise_answer", weight=2)
def test_punctuation_goes_before_articles(learner):
    """The rules have an order: "(the) end" has an article once its marks are gone, "t-h-e" becomes one, and "the-end" does not contain one any more. Spaces are counted last."""
    check_texts(learner, ["(the) end", "t-h-e end", "the-end", "a. b", '"A" is the', "THE, end", "the/an", "end - of the - line", "' a '", "a's", "the' end", "x -- y"])


@exercise("normalise_answer")
def test_words_have_one_space_between_them(learner):
    """Any white space, such as tabs, line ends and no-break spaces, becomes one space between two words, and none at the ends."""
    check_texts(learner, ["  two   words ", "two\twords\n", "two\n\n the\twords", "two\u00a0words", "\u2003two \r\n words\x0b", "   ", "\n", "the\u00a0end", "x\ty"])


@exercise("normalise_answer")
def test_lower_case_is_that_of_every_alphabet(learner):
    """Capital letters of every alphabet become small, and nothing else is changed: "ß" and accents stay."""
    check_texts(learner, ["ÉCOLE", "Straße", "ΑΘΗΝΑ", "МОСКВА", "naïve Café", "PARIS", "iPhone X"])


# ---- exact_match


def check_matches(learner, cases):
    """Each (text, answers) whose match is another one."""
    got = [learner.exact_match(text, answers) for text, answers in cases]
    for (text, answers), mine in zip(cases, got):
        same(mine, normalised(text) in [normalised(answer) for answer in answers], f"exact_match({text!r}, {answers!r})")


RIGHT = ["Eiffel Tower", "the tower in Paris", "42"]


@exercise("exact_match", weight=2)
@given(place=st.integers(0, 2))
def test_one_of_the_right_answers_is_enough(learner, place):
    """The text matches if it is any of the answers, wherever that is in the list, and does not match if it is none of them. The result is a bool."""
    answers = RIGHT[place:] + RIGHT[:place]
    check_matches(learner, [*((text, answers) for text in [*RIGHT, "Big Ben"]), ("42", ["7"]), ("Big Ben", ["Big Ben"]), ("7", tuple(answers)), ("42", tuple(answers))])


@exercise("exact_match", weight=2)
def test_both_sides_are_normalised(learner):
    """Case, punctuation marks, articles and spaces matter neither in the text nor in an answer."""
    check_matches(learner, [
        ("The Eiffel Tower.", ["Eiffel tower"]), ("eiffel tower", ["The Eiffel Tower!"]), ("  an   apple ", ["Apple"]), ("apple", [" An apple. "]), ("U.S.", ["us"]), ("us", ["the U.S."]),
        ("7", ["Seven", "7."]), ("The", ["a"]), ("", ["!"]), ("cat", ["the"]), ("ÉCOLE", ["école"]), ("it's", ["its"]),
    ])  # fmt: skip


@exercise("exact_match", weight=2)
def test_the_whole_text_must_be_the_answer(learner):
    """A part, a longer text, the same words in another order, or one word more often do not match. Nor does a letter that is another one."""
    check_matches(learner, [
        ("the Eiffel Tower in Paris", ["Eiffel Tower"]), ("Tower", ["Eiffel Tower"]), ("Tower Eiffel", ["Eiffel Tower"]), ("very very good", ["very good"]), ("4", ["42"]), ("42", ["4"]),
        ("", ["42"]), ("42", [""]), ("Paris", ["Parks"]), ("cafe", ["café"]), ("not Paris", ["Paris"]), ("blackbird", ["black bird"]), ("Paris or Rome", ["Paris", "Rome"]), ("ac", ["cat"]), ("Paris Rome", ["Paris", "Rome"]),
        ("good", ["good"]),
    ])  # fmt: skip


@exercise("exact_match")
def test_a_match_needs_a_right_answer_to_compare(learner):
    """Without answers, a ValueError names answers."""
    fine, empty = learner.exact_match("Paris", ["paris"]), learner.exact_match("", [""])
    for text in ("Paris", ""):
        for answers in ([], ()):
            refuses(lambda t=text, a=answers: learner.exact_match(t, a), naming=("answers",), because="there are no answers", example="answers is empty")
    same((fine, empty), (True, True), "exact_match('Paris', ['paris']) and exact_match('', [''])")


# ---- token_f1


def f1(text, answer):
    """Word by word: each word of the answer can be used once."""
    mine, left = normalised(text).split(), normalised(answer).split()
    if not mine or not left:
        return float(not mine and not left)
    count, shared = len(left), 0
    for word in mine:
        if word in left:
            left.remove(word)
            shared += 1
    p, r = shared / len(mine), shared / count
    return 2 * p * r / (p + r) if shared else 0.0


def check_f1(learner, cases):
    """Each (text, answers) whose F1 is another one."""
    got = [learner.token_f1(text, answers) for text, answers in cases]
    for (text, answers), mine in zip(cases, got):
        close(mine, max(f1(text, answer) for answer in answers), f"token_f1({text!r}, {answers!r})")


some_words = st.lists(st.sampled_from(["red", "blue", "green", "old", "car"]), min_size=1, max_size=6).map(" ".join)


@exercise("token_f1", weight=2)
@given(text=some_words, answer=some_words)
@example(text="red old car", answer="old red red car blue")
def test_f1_combines_both_shares_of_words(learner, text, answer):
    """With p, the share of the text's words that are shared, and r, the share of the answer's, the result is 2 · p · r / (p + r). The order of the words does not matter."""
    check_f1(learner, [(text, [answer]), (answer, [text]), ("Paris in France", ["Paris"]), ("Paris", ["Paris in France"]), ("in Paris", ["Paris in"]), ("four new red cars", ["two red cars"])])


@exercise("token_f1", weight=2)
def test_a_word_is_shared_as_often_as_it_occurs_in_both(learner):
    """ "very very good" shares one "very" with "very good", and two with "very very very bad"."""
    check_f1(learner, [
        ("very very good", ["very good"]), ("very good", ["very very good"]), ("very very good", ["very very very bad"]), ("no no no", ["no"]), ("no", ["no no no"]), ("no no", ["no no"]),
        ("x y x y", ["y x"]), ("x x y", ["x y y"]),
    ])  # fmt: skip


@exercise("token_f1", weight=2)
def test_of_several_answers_the_best_one_counts(learner):
    """The result is the largest of those of all answers, wherever that is in the list; their words are not put together. Answers may be a tuple."""
    answers = ["Paris", "in Paris", "the capital of France", "Lyon"]
    orders = [answers, answers[::-1], answers[2:] + answers[:2], tuple(answers)]
    check_f1(learner, [(text, order) for text in ("in Paris", "capital", "Rome", "Paris the capital") for order in orders] + [("Rome and Paris", ["Rome", "Paris"]), ("red car", ["red", "a red car, old, blue and green"])])


@exercise("token_f1", weight=2)
def test_words_are_those_of_the_normalised_texts(learner):
    """Case, punctuation marks, articles and spaces matter neither in the text nor in an answer, and parts of words are not shared."""
    check_f1(learner, [
        ("The Eiffel Tower.", ["eiffel tower"]), ("eiffel tower", ["An Eiffel  Tower!"]), ("a the cat", ["the a dog"]), ("the cat", ["the dog"]), ("U.S. army", ["us army"]), ("it's red", ["its a RED"]),
        ("cat", ["cats"]), ("abc", ["cba"]), ("the cat sat", ["a cat, it sat"]), ("red\ncar", ["Red\tcar"]),
    ])  # fmt: skip


@exercise("token_f1", weight=2)
def test_f1_without_words(learner):
    """If no word is shared, the result is 0. If text and answer have no words, it is 1, and 0 if only one of them has none; articles and marks are no words."""
    check_f1(learner, [
        ("cat", ["dog"]), ("", [""]), ("", ["cat"]), ("cat", [""]), ("The", ["a!"]), ("the", ["cat"]), ("cat", ["..."]), ("", ["cat", "the"]), ("cat", ["", "cat"]), ("?", ["cat", "dog"]), ("cat", ["cat"]),
    ])  # fmt: skip


@exercise("token_f1")
def test_f1_needs_a_right_answer_to_compare(learner):
    """Without answers, a ValueError names answers."""
    fine = learner.token_f1("red car", ["car"])
    for text in ("Paris", ""):
        for answers in ([], ()):
            refuses(lambda t=text, a=answers: learner.token_f1(t, a), naming=("answers",), because="there are no answers", example="answers is empty")
    close(fine, 2 / 3, "token_f1('red car', ['car'])")


# ---- pass_at_k


def share_with_a_right_one(n, correct, k):
    """Of all ways to choose k of n answers, of which the first ones are right."""
    ways = list(itertools.combinations(range(n), k))
    return sum(way[0] < correct for way in ways) / len(ways)


def ratio(n, correct, k):
    """The same for many answers, with whole numbers."""
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def check_passes(learner, cases, expected, tol=1e-9):
    """Each (n, correct, k) that has another estimate."""
    got = [learner.pass_at_k(*case) for case in cases]
    for case, mine in zip(cases, got):
        close(mine, expected(*case), "pass_at_k({}, {}, {})".format(*case), tol=tol)


@exercise("pass_at_k", weight=3)
@given(n=st.integers(4, 7), place=st.integers(0, 1000))
@example(n=5, place=7)
def test_it_is_the_share_of_choices_with_a_right_answer(learner, n, place):
    """Of all ways to choose k of the n answers, the share is counted in which at least one is right."""
    correct, k = 1 + place % (n - 1), 1 + place // 7 % n
    check_passes(learner, [(n, correct, k), (n, 2, 2), (n, 1, 3), (n, n - 1, 1), (10, 3, 4), (6, 2, 3)], share_with_a_right_one)


@exercise("pass_at_k", weight=3)
@few
@given(n=st.integers(4, 6), k=st.integers(2, 4), p=st.sampled_from([0.25, 0.5, 0.8]))
@example(n=4, k=3, p=0.5)
def test_the_estimate_is_unbiased(learner, n, k, p):
    """A model that is right with the probability p passes with 1 - (1 - p)^k. The mean of the estimates, each number of right answers as often as it occurs, is exactly that; with 1 - (1 - correct / n)^k it is less."""
    got = [learner.pass_at_k(n, correct, k) for correct in range(n + 1)]
    close(got, [share_with_a_right_one(n, correct, k) for correct in range(n + 1)], f"the estimates for 0 to {n} right answers of {n}, with k = {k}", tol=1e-9)
    mean = sum(math.comb(n, c) * p**c * (1 - p) ** (n - c) * value for c, value in enumerate(got))
    close(mean, 1 - (1 - p) ** k, f"the mean of the estimates with n = {n}, k = {k} and p = {p}", tol=1e-9)


@exercise("pass_at_k", weight=2)
def test_the_ends_are_exactly_0_and_1(learner):
    """Without a right answer the estimate is 0, with right ones only it is 1, and also if fewer than k answers are wrong. For k = 1 it is correct / n, and for k = n it is 1 with one right answer."""
    cases = [(5, 0, 1), (5, 0, 5), (7, 0, 3), (5, 5, 1), (5, 5, 5), (5, 3, 3), (5, 4, 2), (6, 3, 3), (6, 3, 4), (8, 3, 1), (8, 1, 8), (8, 1, 7), (1, 0, 1), (1, 1, 1), (4, 1, 4)]
    check_passes(learner, cases, share_with_a_right_one)


@exercise("pass_at_k", weight=2)
def test_ten_thousand_answers_are_no_problem(learner):
    """The estimate is exact within rounding for n = 10,000, where the numbers of choices have thousands of digits."""
    cases = [(10_000, 3, 100), (10_000, 1, 1), (10_000, 2_000, 5), (10_000, 9, 4_000), (10_000, 1, 5_000), (10_000, 0, 5_000), (10_000, 5_000, 5_001), (2_000, 7, 200), (200, 4, 64), (1_100, 2, 550)]
    check_passes(learner, cases, ratio, tol=1e-8)


@exercise("pass_at_k", weight=2)
def test_impossible_numbers_of_answers_are_refused(learner):
    """A ValueError names `correct` if it is not from 0 to n, and k if it is not from 1 to n."""
    fine = [learner.pass_at_k(4, 0, 4), learner.pass_at_k(4, 4, 1), learner.pass_at_k(5, 2, 1)]
    for n, correct in ((4, 5), (4, -1), (3, 9), (1, 2)):
        refuses(lambda n=n, c=correct: learner.pass_at_k(n, c, 1), naming={"correct": correct}, because=f"{n} answers cannot have {correct} right ones")
    for n, correct, k in ((4, 2, 5), (4, 0, 7), (4, 4, 6), (4, 2, 0), (4, 2, -1)):
        refuses(lambda n=n, c=correct, k=k: learner.pass_at_k(n, c, k), naming={"k": k}, because=f"{k} of {n} answers cannot be chosen")
    close(fine, [0.0, 1.0, 0.4], "pass_at_k(4, 0, 4), pass_at_k(4, 4, 1) and pass_at_k(5, 2, 1)")


# ---- contaminated

CORPUS = "which river flows through paris and under how many bridges"


def ngrams(text, n):
    cut = normalised(text).split()
    return {" ".join(cut[i : i + n]) for i in range(max(len(cut) - n, 0) + 1)} if cut else set()


def check_contaminated(learner, cases):
    """Each (example, corpus_ngrams, n) that has another result."""
    got = [learner.contaminated(text, grams, n) for text, grams, n in cases]
    for (text, grams, n), mine in zip(cases, got):
        same(mine, bool(ngrams(text, n) & set(grams)), f"contaminated({text!r}, …, {n})")


@exercise("contaminated", weight=3)
@few
@given(n=st.integers(2, 4), start=st.integers(0, 5))
@example(n=3, start=0)
@example(n=3, start=5)
def test_n_words_in_a_row_are_enough(learner, n, start):
    """One run of n words that is in the training texts is enough, at the beginning, in the middle or at the end of the example. One word less is not. The result is a bool."""
    grams, run = ngrams(CORPUS, n), CORPUS.split()[start : start + n]
    inside = " ".join(["so", *run, "it", "was"])
    shorter = " ".join(["so", *run[:-1], "it", "was"])
    most = " ".join([*CORPUS.split()[start : start + n + 1], "indeed"])  # two of its three runs
    check_contaminated(learner, [(text, grams, n) for text in (inside, shorter, most, " ".join(["so", *run]), " ".join([*run, "it"]), " ".join(run), CORPUS, "so it was not in any of them")])


@exercise("contaminated", weight=2)
def test_case_marks_and_articles_do_not_matter(learner):
    """The example is cut after normalise_answer: "Which the river, FLOWS" has the run "which river flows". The n-grams are already normalised."""
    grams = ngrams(CORPUS, 3)
    texts = ["Which the river, FLOWS?", "the Paris and (under)", "How many -- bridges!", "how\nmany  bridges", "Flows through Rome, and a bridge", "how many, an bridges", "u.n.d.e.r. how many"]
    check_contaminated(learner, [(text, grams, 3) for text in texts])


@exercise("contaminated", weight=2)
def test_words_must_follow_each_other(learner):
    """The same words in another order, with another word between them, or spread over several n-grams are not found. Nor are parts of words, or n-grams of another length."""
    grams = ngrams(CORPUS, 3)
    texts = ["ows through pari", "paris through flows", "flows through big paris", "which flows under bridges", "river paris how", "through paris", "flows through parisian", "flows through paris"]
    check_contaminated(learner, [(text, grams, 3) for text in texts] + [("which river flows", ngrams(CORPUS, 2), 3), ("which river", grams, 2), ("x flows y", {"flows"}, 1), ("paris", {"paris and under"}, 3)])


@exercise("contaminated", weight=2)
def test_a_short_example_is_looked_for_as_a_whole(learner):
    """An example of fewer than n words is contaminated if it is a short training text itself, not if it is a part of a longer one. An example without words is not contaminated."""
    short = ngrams("Seine river", 4) | ngrams("yes", 4) | ngrams(CORPUS, 4)
    cases = [("The Seine river.", short, 4), ("seine", short, 4), ("Yes!", short, 4), ("river flows", short, 4), ("", short, 4), ("the", short, 4), ("?!", {"", "x"}, 2), ("", {"", "x"}, 1), ("yes", {"yes"}, 1), ("yes", {"yes"}, 9), ("", {"yes"}, 1)]
    check_contaminated(learner, cases)


@exercise("contaminated")
def test_ngrams_may_be_any_collection(learner):
    """The n-grams may be a set, a list, a tuple or the keys of a dict; without any, nothing is contaminated."""
    grams = ["which river", "river flows"]
    kinds = [set(grams), grams, tuple(grams), dict.fromkeys(grams, 1), frozenset(grams)]
    check_contaminated(learner, [(text, kind, 2) for kind in (*kinds, set(), []) for text in ("a river flows here", "rivers flow here")])


@exercise("contaminated")
def test_a_run_needs_a_word(learner):
    """An n below 1 raises a ValueError that names n."""
    grams = {"which", "river", ""}
    fine = [learner.contaminated("the river", grams, 1), learner.contaminated("a lake", grams, 1)]
    for n in (0, -2):
        for text in ("which river", "lake"):
            refuses(lambda t=text, n=n: learner.contaminated(t, grams, n), naming={"n": n}, because="a run has at least one word")
    same(fine, [True, False], "whether 'the river' and 'a lake' are contaminated, with n = 1")
