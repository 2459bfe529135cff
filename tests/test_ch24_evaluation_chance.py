"""Chapter 24: how much chance is in a mean and in a difference, and how many questions are enough.

Random results are judged by what is promised of them. Where n draws give something of probability q, a share f of them has, by Chernoff's
bound, a probability below exp(-n KL(f, q)). Each comparison allows n KL up to 30, and a run makes fewer than 1000. So a correct
implementation, whatever its way of drawing, fails in less than 1000 * exp(-30) of all runs, which is one in ten billion.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, tensor

LUCK = 30.0
few = settings(max_examples=2)


def surprise(f, q):
    """KL(f, q) of two shares."""
    return sum(a * math.log(a / b) if b > 0 else math.inf for a, b in ((f, q), (1 - f, 1 - q)) if a > 0)


# ---- bootstrap_interval


def intervals(bootstrap_interval, values, draws, options):
    """The interval with each of these seeds, as pairs of floats; brought to the far side."""
    found = []
    for seed in draws:
        low, high = bootstrap_interval(values, generator=torch.Generator().manual_seed(seed), **options)
        found.append([float(low), float(high)])
    return found


def interval(learner, values, seed, **options):
    return learner.bring(intervals)(learner.bootstrap_interval, values, [seed], options)[0]


def means_of_resamples(values, clusters=None):
    """Every mean that a resample can have, in order, with its probability."""
    groups = {}
    for i, value in enumerate(values):
        groups.setdefault(i if clusters is None else clusters[i], []).append(value)
    groups, found = list(groups.values()), Counter()
    for chosen in itertools.combinations_with_replacement(range(len(groups)), len(groups)):
        drawn = [value for i in chosen for value in groups[i]]
        orders = math.factorial(len(groups)) // math.prod(map(math.factorial, Counter(chosen).values()))
        found[round(math.fsum(drawn) / len(drawn), 9)] += orders / len(groups) ** len(groups)
    return sorted(found.items())


def limits_of_quantile(means, q, resamples):
    """The smallest and the largest number that can be the quantile q of so many means; see the top of this file."""
    before = math.floor(q * (resamples - 1))  # the quantile lies between the mean with this place, from 0, and the next one
    lowest, highest, below = means[0][0], means[-1][0], 0.0
    for mean, probability in means:
        if below < (before + 1) / resamples and resamples * surprise((before + 1) / resamples, below) > LUCK:
            lowest = mean
        below += probability
    above = 0.0
    for mean, probability in reversed(means):
        f = (resamples - before - 1) / resamples
        if above < f and resamples * surprise(f, above) > LUCK:
            highest = mean
        above += probability
    return lowest, highest


def has_ends(got, means, level, resamples, what):
    """Both ends of the interval are quantiles of the means."""
    for end, q, name in zip(got, ((1 - level) / 2, (1 + level) / 2), ("lower", "upper")):
        lowest, highest = limits_of_quantile(means, q, resamples)
        room = 1e-5 * (1 + abs(end))
        holds(
            lowest - room <= end <= highest + room,
            f"the {name} end {what} is {end:.4f}; with {resamples} resamples it should be from {lowest:.4f} to {highest:.4f}",
        )


def has_shares(got, means, what):
    """With one resample, both ends are its mean, and each mean comes as often as its probability says."""
    counts = Counter()
    for low, high in got:
        holds(math.isclose(low, high, abs_tol=1e-5), f"with resamples = 1 both ends are the same mean; {what} they are {low:.4f} and {high:.4f}")
        nearest = min(means, key=lambda pair: abs(pair[0] - low))[0]
        holds(abs(nearest - low) < 1e-4, f"{what}, no resample has the mean {low:.4f}, but it came out with resamples = 1")
        counts[nearest] += 1
    for mean, probability in means:
        f = counts[mean] / len(got)
        holds(
            len(got) * surprise(f, probability) < LUCK,
            f"{what}, a resample has the mean {mean:.4f} with probability {probability:.3f}; it came {counts[mean]} times in {len(got)} draws",
        )


@exercise("bootstrap_interval", weight=3)
@settings(max_examples=1)
@given(seed=seeds)
def test_a_resample_draws_each_time_from_all_values(learner, seed):
    """A resample has as many draws as there are values, and each of them can be any value, also one that has been drawn before. With [0, 3, 10], each mean comes as often as it should."""
    draws, cases = list(range(seed, seed + 300)), ([0.0, 1.0], [0.0, 3.0, 10.0], [2.0, -7.0, 0.5, 1.0])
    got = [learner.bring(intervals)(learner.bootstrap_interval, values, draws, {"resamples": 1}) for values in cases]
    for values, found in zip(cases, got):
        has_shares(found, means_of_resamples(values), f"for the values {values}")


@exercise("bootstrap_interval", weight=3)
@few
@given(seed=seeds)
def test_the_ends_are_quantiles_of_the_means(learner, seed):
    """A share (1 - level) / 2 of all means is below the lower end, and the same share is above the upper end. The values are skewed, so the interval has no middle at their mean. Without a level it is 0.95."""
    values = [round(math.exp(x), 3) for x in (1.5 * tensor(seed, 6)).tolist()]
    many, skewed = 4000, [0.0, 0.0, 0.0, 0.0, 1.0, 20.0]
    cases = [(numbers, level) for numbers in (values, skewed) for level in (0.95, 0.8, 0.5)]
    got = [interval(learner, numbers, seed + 1, level=level, resamples=many) for numbers, level in cases]
    usual = interval(learner, values, seed + 2, resamples=3 * many)
    for (numbers, level), found in zip(cases, got):
        has_ends(found, means_of_resamples(numbers), level, many, f"for the values {numbers} with level = {level}")
    has_ends(usual, means_of_resamples(values), 0.95, 3 * many, f"for the values {values} without a level")


@exercise("bootstrap_interval", weight=2)
def test_an_end_can_be_between_two_means(learner):
    """torch.quantile goes on a straight line from one mean to the next. With resamples = 2 and level = 0.5, the ends are at a quarter and at three quarters of the way between both means."""
    two = {(a + (b - a) / 4, a + 3 * (b - a) / 4) for a, b in itertools.combinations_with_replacement((0.0, 0.5, 1.0), 2)}
    three = {(a + (b - a) * 0.8, b + (c - b) * 0.2) for a, b, c in itertools.combinations_with_replacement((0.0, 0.5, 1.0), 3)}
    got = [
        (learner.bring(intervals)(learner.bootstrap_interval, [0.0, 1.0], list(range(60)), {"level": level, "resamples": resamples}), level, resamples, possible)
        for level, resamples, possible in ((0.5, 2, two), (0.2, 3, three))
    ]
    for found, level, resamples, possible in got:
        for low, high in found:
            fits = any(abs(low - a) < 1e-5 and abs(high - b) < 1e-5 for a, b in possible)
            holds(fits, f"with the values [0, 1], level = {level} and resamples = {resamples}, no interval is ({low:.4f}, {high:.4f})")
        holds(any(high - low > 0.05 for low, high in found), f"with the values [0, 1], level = {level} and resamples = {resamples}, both ends are equal for 60 seeds")


NAMES = ["b", "a", "b", "c", "a", "b"]  # neighbours have different names, and the sizes are 3, 2 and 1
GROUPED = [1.0, 4.0, 2.0, 20.0, 8.0, 0.0]


@exercise("bootstrap_interval", weight=3)
@settings(max_examples=1)
@given(seed=seeds)
def test_whole_clusters_are_drawn(learner, seed):
    """A resample draws as many clusters as there are. Its mean is that of all values in them: a cluster of three values counts three times as much as one of one value, and again if it is drawn again."""
    draws, paired = list(range(seed, seed + 300)), [7, 7, -1, -1]
    cases = [(GROUPED, NAMES), ([0.0, 4.0, 10.0, 30.0], paired)]
    got = [learner.bring(intervals)(learner.bootstrap_interval, values, draws, {"resamples": 1, "clusters": names}) for values, names in cases]
    for (values, names), found in zip(cases, got):
        has_shares(found, means_of_resamples(values, names), f"for the values {values} with clusters = {names}")


@exercise("bootstrap_interval", weight=2)
@few
@given(seed=seeds)
def test_clusters_make_the_interval_right(learner, seed):
    """The ends are the quantiles of the means of the clusters' resamples. Names may be words, numbers or pairs. If each value is its own cluster, nothing changes, and one cluster alone always has the same mean."""
    kinds = [
        (["t0", "t2", "t1", "t0", "t3", "t2", "t0", "t4", "t3", "t0"], "words"),
        ([3, 0, 3, 3, 1, 0, 2, 2, 3, 9], "numbers"),
        ([(1, "x"), (1, "y"), (0, "x"), (1, "x"), (1, "x"), (0, "y"), (1, "y"), (1, "x"), (0, "x"), (1, "x")], "pairs"),
    ]
    many, cases = 4000, []
    for names, what in kinds:
        level = 0.8 if what == "words" else 0.6
        values = [round(x + 3 * names.index(name), 3) for x, name in zip(tensor(seed, len(names)).tolist(), names)]
        cases.append((values, names, level, interval(learner, values, seed, level=level, resamples=many, clusters=names)))
    single = [0.0, 1.0, 5.0, 9.0, 9.0]
    cases.append((single, list("abcde"), 0.8, interval(learner, single, seed, level=0.8, resamples=many, clusters=list("abcde"))))
    one = interval(learner, single, seed, clusters=["x"] * 5, resamples=20)
    for values, names, level, found in cases:
        has_ends(found, means_of_resamples(values, names), level, many, f"for the values {values} with clusters = {names} and level = {level}")
    close(one, [4.8, 4.8], "the interval of values that are one cluster", tol=1e-5)


@exercise("bootstrap_interval", weight=2)
@few
@given(seed=seeds)
def test_the_same_seed_gives_the_same_interval(learner, seed):
    """All draws are made with the generator: two with the same seed give the same interval, and other seeds give others, with and without clusters."""
    values, names = tensor(seed, 14).tolist(), [i % 7 for i in range(14)]
    draws = [seed, seed, seed + 1, seed + 2, seed + 3]
    for options in ({"resamples": 40}, {"resamples": 40, "clusters": names}):
        found = learner.bring(intervals)(learner.bootstrap_interval, values, draws, options)
        what = "with clusters" if "clusters" in options else "without clusters"
        holds(found[0] == found[1], f"{what}, two generators with the same seed give the intervals {found[0]} and {found[1]}")
        holds(any(other != found[0] for other in found[2:]), f"{what}, four seeds give the same interval, {found[0]}")
        holds(all(low <= high for low, high in found), f"{what}, the lower end should come first; an interval is {found[0]}")


@exercise("bootstrap_interval")
def test_values_may_be_any_numbers(learner):
    """Whole numbers, bools and tuples are fine, and a single value is both ends. Values near 100 million are not rounded to float32."""
    far, many = 100_000_000, 4000
    counts, bools, near = [0, 0, 1, 1, 1, 0], (True, False, True, True), [far, far + 1, far + 2, far + 5]
    got = [interval(learner, values, 5, level=0.8, resamples=many) for values in (counts, bools, near)]
    single, equal = interval(learner, [0.25], 5), interval(learner, (3, 3, 3), 5)
    for values, found in zip((counts, [float(each) for each in bools]), got):
        has_ends(found, means_of_resamples(values), 0.8, many, f"for the values {values}")
    has_ends([end - far for end in got[2]], means_of_resamples([0, 1, 2, 5]), 0.8, many, f"minus {far} for the values {near}")
    close(single, [0.25, 0.25], "the interval of the single value 0.25")
    close(equal, [3.0, 3.0], "the interval of the values 3, 3, 3")


@exercise("bootstrap_interval")
def test_an_interval_needs_values_and_fitting_arguments(learner):
    """No values, a level that is not between 0 and 1, no resamples, and too few or too many names of clusters raise a ValueError that names the argument."""
    def call(values, **options):
        return lambda: learner.bootstrap_interval(values, **options)

    fine = interval(learner, [2.0, 2.0], 3, level=0.01, resamples=1, clusters=["a", "a"])
    refuses(call([]), naming=("values",), because="there is no mean of no values")
    refuses(call([], clusters=[]), naming=("values",), because="there is no mean of no values")
    for level in (95, -0.5, 0, 1):
        refuses(call([1.0, 2.0], level=level), naming={"level": level}, because="a level is between 0 and 1")
    for resamples in (0, -3):
        refuses(call([1.0, 2.0], resamples=resamples), naming={"resamples": resamples}, because="at least one resample is needed")
    for names in (["a"], ["a", "b", "a"], []):
        refuses(call([1.0, 2.0], clusters=names), naming=("clusters",), because=f"there are {len(names)} names for 2 values")
    close(fine, [2.0, 2.0], "the interval of 2, 2 with one cluster, level = 0.01 and resamples = 1")


# ---- paired_test


def p_values(paired_test, a, b, draws):
    """The p-value with each of these seeds; brought to the far side."""
    return [float(paired_test(a, b, torch.Generator().manual_seed(seed))) for seed in draws]


def share_as_far(differences):
    """The share of all ways to choose signs whose sum is as far from 0 as the sum of these whole numbers; exact."""
    ways = {0: 1}
    for difference in differences:
        longer = Counter()
        for total, number in ways.items():
            longer[total + difference] += number
            longer[total - difference] += number
        ways = longer
    far = sum(number for total, number in ways.items() if abs(total) >= abs(sum(differences)))
    return float(Fraction(far, sum(ways.values())))


def have_p_values(learner, cases, what="the p-value", unit=1):
    """Each (a, b) of whole numbers, divided by `unit`, has its exact p-value."""
    got = [learner.paired_test(*([x / unit for x in scores] for scores in pair) if unit != 1 else pair) for pair in cases]
    for (a, b), mine in zip(cases, got):
        differences = [x - y for x, y in zip(a, b) if x != y]
        name = differences if unit == 1 else [difference / unit for difference in differences]
        close(mine, share_as_far(differences), f"{what} of the differences {name}", tol=1e-9)


def whole(seed, n, most):
    """Whole numbers from 0 to most."""
    return torch.randint(most + 1, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


@exercise("paired_test", weight=2)
def test_the_p_value_is_a_share_of_all_signs(learner):
    """With the differences 1, 2, 3 there are eight ways to choose signs, and two of their sums are 6 or more from 0: p = 2 / 8. A single difference has p = 1, and five of the same sign 2 / 32."""
    have_p_values(learner, [
        ([1, 2, 3], [0, 0, 0]), ([0, 0, 0], [1, 2, 3]), ([4], [1]), ([1], [4]), ([1, 1, 1, 1, 1], [0, 0, 0, 0, 0]), ([5, 0], [0, 1]), ([5, 0], [0, 5]),
        ([9, 0, 0, 0], [0, 1, 1, 1]), ([0, 3, 3, 3], [9, 0, 0, 0]), ([7, 2, 6, 4, 8, 3], [5, 1, 9, 0, 3, 1]),
    ])  # fmt: skip


@exercise("paired_test", weight=3)
@settings(max_examples=3)
@given(seed=seeds, n=st.integers(5, 9))
def test_signs_are_chosen_question_by_question(learner, seed, n):
    """The size of each difference stays, only its sign changes: neither ranks nor shuffled questions give the same. A question that is hard for both models changes nothing, and the order of questions and models does not matter."""
    a, b = whole(seed, n, 12), whole(seed + 1, n, 12)
    hard = whole(seed + 2, n, 300)
    have_p_values(learner, [
        (a, b), (b, a), ([x + h for x, h in zip(a, hard)], [y + h for y, h in zip(b, hard)]), (a[::-1], b[::-1]),
        (tuple(a), tuple(b)), ([6 * x for x in a], [6 * y for y in b]), ([x + 4 for x in a], b),
    ])  # fmt: skip


@exercise("paired_test", weight=2)
@settings(max_examples=3)
@given(seed=seeds)
def test_sums_that_differ_by_rounding_are_equal(learner, seed):
    """Scores such as 0.1 and 0.7 are rounded, and so are their differences. Sums that are equal without rounding count as equally far."""
    cases = [([3, 7, 4, 9], [4, 9, 1, 5]), ([3, 7, 6, 6], [5, 10, 4, 8]), ([1, 4, 4, 4], [3, 0, 2, 6]), ([1, 2, 0, 0], [0, 0, 3, 4])]
    cases += [(whole(seed + 2 * i, 7, 10), whole(seed + 2 * i + 1, 7, 10)) for i in range(4)]
    have_p_values(learner, cases, unit=10)


@exercise("paired_test", weight=2)
@settings(max_examples=2)
@given(seed=seeds)
def test_questions_without_a_difference_do_not_matter(learner, seed):
    """Equal scores add nothing: neither to the p-value nor to the 20 differences up to which all ways are tried. If all are equal, p is 1."""
    a, b, equal = whole(seed, 9, 12), whole(seed + 1, 9, 12), whole(seed + 2, 16, 12)
    nothing = [learner.paired_test(equal, equal), learner.paired_test([0.5], [0.5])]
    have_p_values(learner, [(a + equal, b + equal), (equal + a, equal + b), ([3, *equal], [1, *equal])], "with 16 equal scores besides, the p-value")
    for found in nothing:
        close(found, 1.0, "the p-value of equal scores")


@exercise("paired_test", weight=2)
def test_with_20_differences_all_ways_are_tried(learner):
    """20 differences have 1,048,576 ways, and all of them are tried: the result is exact, and the generator has no effect."""
    a, b = [1 + 3 * i % 17 for i in range(20)], [0] * 20
    a[3], b[3], a[8], b[8], a[15], b[15] = 0, 11, 0, 16, 0, 13
    found = learner.bring(p_values)(learner.paired_test, a, b, [4])
    few_of_them = learner.bring(p_values)(learner.paired_test, a[:12], b[:12], [1, 2])
    close(found[0], share_as_far([x - y for x, y in zip(a, b)]), "the p-value of 20 differences", tol=1e-9)
    for each in few_of_them:
        close(each, share_as_far([x - y for x, y in zip(a[:12], b[:12])]), "the p-value of 12 differences with a generator", tol=1e-9)


@exercise("paired_test", weight=3)
@settings(max_examples=1)
@given(seed=seeds)
def test_with_more_differences_ways_are_drawn(learner, seed):
    """With 21 or more differences, 10,000 ways are drawn. 1 is added to those that are as far, and to 10,000: so p times 10,001 is a whole number. Sums that differ by rounding only are equal here, too."""
    up = [1 + i % 2 for i in range(21)]
    tenths = ([3, 8] * 13, [2, 7] * 13)  # differences of 0.1, and eleven of -0.1
    for i in (0, 2, 5, 9, 10, 13, 16, 17, 20, 23, 25):
        tenths[0][i], tenths[1][i] = tenths[1][i], tenths[0][i]
    cases = [
        ([x if i % 3 else 0 for i, x in enumerate(up)], [0 if i % 3 else x for i, x in enumerate(up)], 1),
        (whole(seed, 45, 30), [x + 1 for x in whole(seed + 1, 45, 30)], 1),
        (*tenths, 10),
    ]
    got = [learner.bring(p_values)(learner.paired_test, [x / unit for x in a], [y / unit for y in b], [seed]) for a, b, unit in cases]
    for (a, b, _), (found,) in zip(cases, got):
        differences = [x - y for x, y in zip(a, b) if x != y]
        number, p = found * 10_001, share_as_far(differences)
        many = len(differences)
        holds(abs(number - round(number)) < 5e-3 and 1 <= round(number) <= 10_001, f"with {many} differences, p should be a whole number from 1 to 10,001, divided by 10,001; it is {found:.6f}")
        share = (round(number) - 1) / 10_000
        holds(10_000 * surprise(share, p) < LUCK, f"with {many} differences, a share {p:.4f} of all ways is as far from 0; 10,000 drawn ways gave p = {found:.4f}")


@exercise("paired_test", weight=2)
def test_the_p_value_is_never_0(learner):
    """If the signs that were seen are so rare that none of 10,000 drawn ways is as far, p is 1 / 10,001, and not 0."""
    up = [1.0 + i % 3 for i in range(90)]
    got = [learner.paired_test(up, [0.0] * 90), learner.paired_test([0.0] * 90, up)]
    for found, what in zip(got, ("above 0", "below 0")):
        close(found, 1 / 10_001, f"the p-value of 90 differences that are all {what}", tol=1e-7)


@exercise("paired_test")
@settings(max_examples=1)
@given(seed=seeds)
def test_ways_are_drawn_with_the_generator(learner, seed):
    """Two generators with the same seed give the same p-value, and other seeds give others."""
    differences = [(i % 7 + 1) * (-1 if i % 3 == 1 else 1) for i in range(26)]  # p is 0.2
    found = learner.bring(p_values)(learner.paired_test, differences, [0] * 26, [seed, seed, *range(seed + 1, seed + 6)])
    holds(found[0] == found[1], f"two generators with the same seed give the p-values {found[0]:.4f} and {found[1]:.4f}")
    holds(any(other != found[0] for other in found[2:]), f"six seeds give the same p-value, {found[0]:.4f}")


@exercise("paired_test")
def test_scores_may_be_any_numbers(learner):
    """Right and wrong answers may be bools. Scores near 100 million are not rounded to float32, and small differences count as large ones do."""
    a, b = [True, True, False, True, True, True, False], (False, True, True, False, False, False, False)
    far = [100_000_000 + x for x in (1, 5, 3, 9, 7)]
    small = [[x * 1e-7 for x in scores] for scores in ([3, 1, 4, 1, 5], [2, 7, 1, 8, 2])]
    got = [learner.paired_test(a, b), learner.paired_test(far, [100_000_000 + y for y in (2, 1, 0, 4, 4)]), learner.paired_test(*small)]
    for found, differences, what in (
        (got[0], [1, -1, 1, 1, 1], "of right and wrong answers"),
        (got[1], [-1, 4, 3, 5, 3], "of scores near 100 million with the differences -1, 4, 3, 5, 3"),
        (got[2], [1, -6, 3, -7, 3], "of the differences 1e-7, -6e-7, 3e-7, -7e-7, 3e-7"),
    ):
        close(found, share_as_far(differences), f"the p-value {what}", tol=1e-9)


@exercise("paired_test")
def test_a_test_needs_two_scores_for_each_question(learner):
    """Different numbers of scores, or none, raise a ValueError that names a and b."""
    fine = learner.paired_test([1.0, 2.0], [0.0, 0.0])
    for a, b in (([1.0, 2.0], [1.0]), ([1.0], [1.0, 2.0]), ([], [1.0]), ([], [])):
        refuses(lambda a=a, b=b: learner.paired_test(a, b), naming=("a", "b"), because=f"there are {len(a)} and {len(b)} scores")
    close(fine, 0.5, "the p-value of the differences 1, 2")


# ---- questions_needed


def needed(accuracy, difference, power=0.8):
    """The formula before it is rounded up."""
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(power)
    better = accuracy + difference
    return z**2 * (accuracy * (1 - accuracy) + better * (1 - better)) / difference**2


def planned(learner, cases):
    """Each (accuracy, difference) or (accuracy, difference, power) needs as many questions as the formula says."""
    for case in cases:
        part = needed(*case) % 1
        assert 0.003 < part < 0.997, f"the number of questions for {case} is too close to a whole number"
    got = [learner.questions_needed(*case) for case in cases]
    for case, mine in zip(cases, got):
        same(mine, math.ceil(needed(*case)), f"questions_needed{case}")


@exercise("questions_needed", weight=3)
def test_the_number_of_questions_follows_the_formula(learner):
    """To find 75 % against 70 % with the power 0.8, 1,248 questions are needed; a difference half as large needs about four times as many."""
    planned(learner, [(0.7, 0.05), (0.7, 0.025), (0.7, 0.1), (0.5, 0.02), (0.1, 0.3), (0.25, 0.11), (0.62, 0.07)])


@exercise("questions_needed", weight=2)
def test_both_models_add_chance(learner):
    """Both shares of right answers have chance in them, each with its own variance: a model that is always right, or never, adds none."""
    planned(learner, [(0.9, 0.1), (0.0, 0.2), (0.55, 0.45), (0.02, 0.9), (0.45, 0.1), (0.2, 0.6)])


@exercise("questions_needed", weight=2)
def test_a_higher_power_needs_more_questions(learner):
    """z(power) is added to z(0.975): with the power 0.95 more questions are needed than with 0.8, and with 0.55 fewer. Without a power it is 0.8."""
    planned(learner, [(0.6, 0.08, power) for power in (0.55, 0.7, 0.8, 0.9, 0.95, 0.999)] + [(0.6, 0.08), (0.3, 0.04, 0.51), (0.3, 0.04, 0.975)])


@exercise("questions_needed", weight=2)
def test_z_is_precise(learner):
    """For small differences, tens of millions of questions are needed, and their number is right to the last one: z(0.975) is not 1.96 exactly."""
    planned(learner, [(0.5, 0.004), (0.8, 0.0015), (0.35, 0.0008, 0.9), (0.97, 0.0001)])


@exercise("questions_needed")
def test_a_part_of_a_question_is_rounded_up(learner):
    """The result is a whole number, rounded up also if the part is small, and at least 1, also if no answer has chance in it."""
    planned(learner, [(0.05, 0.6), (0.4, 0.5), (0.3, 0.2, 0.7), (0.15, 0.29, 0.86), (0.01, 0.98), (0.001, 0.9985)])
    certain = [learner.questions_needed(0.0, 1.0), learner.questions_needed(0, 1, 0.9)]
    for found in certain:
        same(found, 1, "the number of questions for a model that is never right and one that always is")


@exercise("questions_needed")
def test_a_sum_above_1_by_rounding_is_allowed(learner):
    """1.1 - 0.2 + 0.1 is a little above 1 for a computer: such a sum counts as 1. Anything above that is no probability."""
    above = 1.1 - 0.2
    assert above + 0.1 > 1
    got = learner.questions_needed(above, 0.1), learner.questions_needed(1.1 - 0.2, 0.1, 0.95)
    for found, power in zip(got, (0.8, 0.95)):
        same(found, math.ceil(needed(0.9, 0.1, power)), f"questions_needed(1.1 - 0.2, 0.1, {power})")
    refuses(lambda: learner.questions_needed(0.9, 0.101), naming={"difference": 0.101}, because="the second model would be right with a probability above 1")


@exercise("questions_needed")
def test_plans_that_cannot_be_are_refused(learner):
    """An accuracy below 0 or above 1, a difference of 0 or below, or one that makes the second probability larger than 1, and a power that is not between 0.5 and 1 raise a ValueError that names the argument."""
    for accuracy in (-0.1, 1.2):
        refuses(lambda accuracy=accuracy: learner.questions_needed(accuracy, 0.3), naming={"accuracy": accuracy}, because="an accuracy is from 0 to 1")
    for difference in (0, -0.2, 0.6):
        refuses(lambda difference=difference: learner.questions_needed(0.5, difference), naming={"difference": difference}, because="the second model must be better, and right with a probability of at most 1")
    refuses(lambda: learner.questions_needed(1, 0.1), naming={"difference": 0.1}, because="nothing is better than a model that is always right")
    for power in (80, 1.5, 1, 0.5, 0.2, -0.8):
        refuses(lambda power=power: learner.questions_needed(0.5, 0.1, power), naming={"power": power}, because="a power is between 0.5 and 1")
    planned(learner, [(0.5, 0.1), (0.5, 0.1, 0.6)])
