"""Chapter 24, third part: how far two judges agree, and a judge that is asked in both orders."""

from __future__ import annotations

import itertools

import torch
from changing_models import Additions, call_changing
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

few = settings(max_examples=3)

# ---- agreement


def kappa(a, b):
    """From all pairs of a case of the first judge and a case of the second one, which is what a random order gives."""
    n = len(a)
    equal = sum(x == y for x, y in zip(a, b)) / n
    expected = sum(x == y for x in a for y in b) / n**2
    return 1.0 if expected == 1 else (equal - expected) / (1 - expected)


def check_agreement(learner, cases):
    """Each (a, b) whose agreement is another one."""
    got = [learner.agreement(a, b) for a, b in cases]
    for (a, b), mine in zip(cases, got):
        close(mine, kappa(a, b), f"agreement({a!r}, {b!r})")


labels = st.lists(st.tuples(st.sampled_from("xxyz"), st.sampled_from("xyyz")), min_size=4, max_size=9)


@exercise("agreement", weight=3)
@given(pairs=labels)
@example(pairs=list(zip("xxyyz", "xyyyx")))
def test_kappa_is_what_is_agreed_beyond_chance(learner, pairs):
    """The share of equal labels is compared with the share that both judges' own labels would give in random order: (o - e) / (1 - e). The arguments may be lists or tuples."""
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    check_agreement(learner, [(a, b), (b, a), (tuple(a), tuple(b)), (list("xxxxxxxxxy"), list("xxxxxxxxyx")), (list("xxxy"), list("xxyy"))])


@exercise("agreement", weight=2)
@few
@given(order=st.permutations(list("xxxyyz")))
@example(order=list("xxyzxy"))
def test_random_labels_have_no_agreement(learner, order):
    """Averaged over all orders of the second judge's labels, kappa is 0, however often each label occurs. Judges of whom one says always the same have 0, too."""
    a, b, other = list("xxyy"), list("xxxy"), list("xyyy")
    got = [learner.agreement(a, list(each)) for each in itertools.permutations(b)]
    uneven = [learner.agreement(other, list(each)) for each in itertools.permutations(b)]
    always = [learner.agreement(list("xxxxxx"), order), learner.agreement(order, list("zzzzzz"))]
    close(got, [kappa(a, list(each)) for each in itertools.permutations(b)], "kappa of x, x, y, y and each order of x, x, x, y")
    close(sum(got) / len(got), 0.0, "the mean of kappa over all orders")
    close(sum(uneven) / len(uneven), 0.0, "the mean of kappa over all orders, for judges with different favourites")
    close(always, [0.0, 0.0], "kappa of a judge that says always the same, and one that does not")


@exercise("agreement", weight=2)
@given(order=st.permutations(list("xxxyyz")))
def test_equal_labels_are_1_and_opposite_ones_below_0(learner, order):
    """Judges who agree always have 1, also if they give one label to all cases. Judges who agree less than by chance are below 0, down to -1; if each has its own single label, the result is 0."""
    check_agreement(learner, [
        (order, order), (list("xxxx"), list("xxxx")), (["x"], ["x"]), (["x"], ["y"]), (list("xxxx"), list("yyyy")), (list("xy"), list("yx")), (list("xxyy"), list("yyxx")), (list("xyz"), list("yzx")),
        (list("xxxy"), list("yxxx")), ([0, 0, 0], [0, 0, 0]),
    ])  # fmt: skip


@exercise("agreement", weight=2)
def test_labels_may_be_anything(learner):
    """Labels are texts, numbers, None, bools or tuples, also several kinds together, and 0 is one like any other. How far apart two numbers are has no effect, and a label that only one judge gives counts."""
    check_agreement(learner, [
        ([0, 1, 0, 1, 1], [0, 1, 1, 1, 0]), ([1, 5, 5, 1, 9], [1, 5, 9, 9, 9]), ([1, 2, 3, 1], [1, 3, 2, 2]), (["a", None, None, 3], ["a", None, 3, 3]), ([True, False, True], [True, True, True]),
        ([(1, 2), (0, 1), (1, 2)], [(1, 2), (1, 2), (1, 2)]), (["", "x", ""], ["", "", "x"]), (["first", "tie", "second", "tie"], ["first", "first", "second", "second"]), ([1, 2, 2, 4], [3, 2, 2, 5]),
        (["only a", "x", "x", "y"], ["only b", "x", "y", "y"]),
    ])  # fmt: skip


@exercise("agreement")
def test_both_judges_label_every_case(learner):
    """Different numbers of labels, or none at all, raise a ValueError that names a and b."""
    fine = learner.agreement(["x", "y"], ["x", "y"])
    for a, b in ((["x", "y"], ["x"]), (["x"], ["x", "x"]), ([], ["x"]), (["x"], []), ([], [])):
        refuses(lambda a=a, b=b: learner.agreement(a, b), naming=("a", "b"), because=f"there are {len(a)} and {len(b)} labels", example="a has {len(a)} labels and b has {len(b)}")
    close(fine, 1.0, "agreement(['x', 'y'], ['x', 'y'])")


# ---- judge_both_orders

WINS = {("first", "second"): "a", ("second", "first"): "b"}
SAYINGS = ("first", "second", "tie")


def verdict_by_table(judge_both_orders, table, a, b):
    """What becomes of a judge that says table[first answer][second answer]."""
    return judge_both_orders(lambda first, second: table[first][second], a, b)


def judged(learner, a, b, said, said_again):
    """The verdict over a judge that says these two words, about a and b, and about b and a."""
    return learner.bring(verdict_by_table)(learner.judge_both_orders, {a: {b: said}, b: {a: said_again}}, a, b)


@exercise("judge_both_orders", weight=3)
@given(answers=st.permutations(["yes", "It is 42.", "", "no"]))
def test_an_answer_wins_if_both_orders_prefer_it(learner, answers):
    """The result is "a" if a is preferred as the first and as the second answer, and "b" if b is. A win and a tie are a tie, and so are two wins of different answers."""
    a, b = answers[:2]
    got = {words: judged(learner, a, b, *words) for words in itertools.product(SAYINGS, repeat=2)}
    for words, verdict in got.items():
        same(verdict, WINS.get(words, "tie"), f"the verdict over a judge that says {words[0]!r} about (a, b), and {words[1]!r} about (b, a)")


def verdict_by_rule(judge_both_orders, rule, a, b):
    """What becomes of a judge that prefers the longer answer, or that also likes the place of an answer."""

    def judge(first, second):
        if rule in ("first", "second", "tie"):
            return rule
        bonus = {"longer": 0, "longer, with a liking for the first": 3, "longer, with a liking for the second": -3}[rule]
        difference = len(first) + bonus - len(second)
        return "first" if difference > 0 else "second" if difference < 0 else "tie"

    return judge_both_orders(judge, a, b)


@exercise("judge_both_orders", weight=2)
def test_a_liking_for_a_place_gives_a_tie(learner):
    """A judge that prefers the first answer, whatever it is, has no winner. One that likes the place a little still finds an answer that is much better."""
    short, long, longer = "x" * 3, "x" * 5, "x" * 9
    rules = ["longer", "longer, with a liking for the first", "longer, with a liking for the second", *SAYINGS]
    pairs = [(short, long), (long, short), (short, longer), (longer, short), ("abc", "xyz"), (long, long)]
    got = {(rule, pair): learner.bring(verdict_by_rule)(learner.judge_both_orders, rule, *pair) for rule in rules for pair in pairs}
    for (rule, (a, b)), verdict in got.items():
        clear = abs(len(a) - len(b)) > (0 if rule == "longer" else 3)
        expected = ("a" if len(a) > len(b) else "b") if rule.startswith("longer") and clear else "tie"
        same(verdict, expected, f"the verdict over answers of {len(a)} and {len(b)} letters by a judge that says {rule!r}")


def verdict_by_calls(judge_both_orders, a, b):
    """What becomes of a judge that says something else in each call, whatever the answers are; its words are out of the code's reach."""
    return judge_both_orders(lambda first, second: ("first", "second", "tie")[int(torch.special.bessel_y1(torch.zeros(1)))], a, b)


@exercise("judge_both_orders", weight=2)
def test_the_judge_is_called_twice_with_a_first_and_then_with_b_first(learner):
    """A judge may throw dice: it is called once for each order, with a first, then with b first, and not once more if the two results differ."""
    call, additions = learner.bring(call_changing), learner.bring(Additions)
    stories = [(*words, *rest) for words in itertools.product(range(3), repeat=2) for rest in ((0, 1), (1, 0), (2, 2))]
    got = [call(additions, torch.tensor(story)[:, None].float(), learner.bring(verdict_by_calls), learner.judge_both_orders, "x", "y") for story in stories]
    for story, verdict in zip(stories, got):
        said = [SAYINGS[i] for i in story]
        same(verdict, WINS.get(tuple(said[:2]), "tie"), f"the verdict over a judge that says {said[0]!r}, then {said[1]!r}, and would say {said[2]!r} and {said[3]!r} in further calls")


@exercise("judge_both_orders", weight=2)
def test_a_judge_that_says_something_else_is_refused(learner):
    """Anything but "first", "second" and "tie" raises a ValueError that names the judge and what it has said, in the first call and in the second one, whatever the other call says."""
    fine = [judged(learner, "x", "y", "first", "second"), judged(learner, "x", "y", "tie", "tie")]
    for word in ("a", "First", "neither", "firstly", "", None, 1):
        for said in SAYINGS:
            for words in ((word, word), (said, word), (word, said)):
                refuses(lambda words=words: judged(learner, "x", "y", *words), naming=("judge", str(word)), because=f"the judge says {words[0]!r}, and then {words[1]!r}", example="the judge said {word!r}")
    same(fine, ["a", "tie"], "the verdict over a judge that prefers a twice, and over one that says tie twice")
