"""Chapter 24: whether a model's confidence means what it says, and how one number corrects it."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, describe_value, holds, refuses
from hypothesis import given, settings
from memory_layouts import of_views
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
DTYPES = (torch.float32, torch.float64)

# ---- calibration_error


def gap(confidence, correct, bins=10):
    """The expected calibration error, bin by bin."""
    members = {}
    for c, right in zip(confidence.double().tolist(), correct.double().tolist()):
        members.setdefault(min(int(c * bins), bins - 1), []).append((c, right))
    total = 0.0
    for pairs in members.values():
        n = len(pairs)
        total += n * abs(math.fsum(c for c, _ in pairs) / n - math.fsum(right for _, right in pairs) / n)
    return total / len(confidence)


def answers(seed, N, bins, dtype=torch.float64):
    """Confidences that are clear of the limits between bins, and right answers; the model is too sure."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.randint(bins, (N,), generator=generator)
    confidence = (place + 0.1 + 0.8 * torch.rand(N, generator=generator, dtype=torch.float64)) / bins
    correct = torch.rand(N, generator=generator, dtype=torch.float64) < 0.2 + 0.6 * confidence
    return confidence.to(dtype), correct


def errors_are(learner, cases):
    """Each (confidence, correct, bins, what) has its error; bins is None for the default."""
    got = [learner.calibration_error(confidence, correct, *([] if bins is None else [bins])) for confidence, correct, bins, _ in cases]
    for (confidence, correct, bins, what), mine in zip(cases, got):
        tol = 1e-9 if confidence.dtype == torch.float64 else 1e-5
        close(mine, gap(confidence, correct, bins or 10), f"the calibration error {what}", tol=tol)


@exercise("calibration_error", weight=2)
def test_the_error_of_one_bin_is_confidence_minus_accuracy(learner):
    """Ten answers have the confidence 0.9, and six of them are right: the error is 0.3. If nine are right it is 0, and if all are, 0.1."""
    nine = torch.full((10,), 0.9, dtype=torch.float64)
    got = [learner.calibration_error(nine, torch.arange(10) < right) for right in (6, 9, 10, 0)]
    mixed = learner.calibration_error(torch.tensor([0.62, 0.68, 0.64, 0.66], dtype=torch.float64), torch.tensor([True, False, True, True]))
    for found, expected, right in zip(got, (0.3, 0.0, 0.1, 0.9), (6, 9, 10, 0)):
        close(found, expected, f"the error of ten answers of 0.9, of which {right} are right", tol=1e-9)
    close(mixed, 0.1, "the error of 0.62, 0.68, 0.64, 0.66, of which three are right", tol=1e-9)


@exercise("calibration_error", weight=3)
@few
@given(n=distinct("N", "bins", N=(20, 40), bins=(3, 9)), seed=seeds)
def test_each_bin_counts_with_its_number_of_answers(learner, n, seed):
    """The gap of each bin is weighed with its number of answers: a bin with one answer counts little. Without bins there are ten. The order of the answers does not matter."""
    cases = []
    for dtype in DTYPES:
        for bins in (n.bins, None, 40):
            confidence, correct = answers(seed, n.N, bins or 10, dtype)
            cases.append((confidence, correct, bins, f"of {n.N} answers in {bins or 10} bins"))
    cases.append((confidence.flip(0), correct.flip(0), bins, "of the answers in the opposite order"))
    errors_are(learner, cases)


@exercise("calibration_error", weight=3)
def test_a_limit_belongs_to_the_bin_above_it(learner):
    """Bin i begins with i / bins itself. The last bin has 1.0 too, and the first one 0.0: no answer is left out."""
    cases = []
    for confidence, right, bins in (
        ([0.5, 0.9], [0, 1], 2), ([0.5, 0.1], [1, 0], 2), ([0.25, 0.5, 0.75, 0.3, 0.6, 0.9], [0, 1, 0, 1, 0, 1], 4), ([0.5, 0.55, 0.45], [0, 1, 1], 10),
        ([1.0, 0.8], [0, 1], 2), ([1.0, 0.95, 1.0], [0, 1, 1], 10), ([1.0], [0], 10), ([1.0, 0.2], [1, 0], 1),
        ([0.0, 0.3], [1, 0], 2), ([0.0, 0.05], [1, 0], 10), ([0.0], [1], 3), ([0.0, 1.0], [1, 0], 8),
    ):  # fmt: skip
        cases += [(torch.tensor(confidence, dtype=dtype), torch.tensor(right), bins, f"of {confidence}, right are {right}, with {bins} bins") for dtype in DTYPES]
    errors_are(learner, cases)


@exercise("calibration_error", weight=2)
def test_gaps_of_different_bins_do_not_cancel(learner):
    """Too sure in one bin and not sure enough in another do not make up for each other; within one bin they do. A single bin compares the means of all."""
    sure = torch.tensor([0.95, 0.95, 0.35, 0.35], dtype=torch.float64)
    right = torch.tensor([True, False, True, False])
    cases = [(sure, right, bins, f"of 0.95, 0.95, 0.35, 0.35, half of them right, with {bins} bins") for bins in (10, 2, 1, 3)]
    cases.append((torch.tensor([0.82, 0.88]), torch.tensor([1, 1]), 10, "of 0.82 and 0.88, both right"))
    errors_are(learner, cases)


@exercise("calibration_error", weight=2)
@few
@given(seed=seeds)
def test_right_answers_may_be_bools_or_numbers(learner, seed):
    """True and False, and 0 and 1 of any dtype, give the same error."""
    confidence, correct = answers(seed, 23, 10)
    kinds = (torch.bool, torch.int64, torch.uint8, torch.float32, torch.float64)
    errors_are(learner, [(confidence, correct.to(kind), None, f"with right answers as {str(kind).removeprefix('torch.')}") for kind in kinds])


@exercise("calibration_error")
@few
@given(seed=seeds)
def test_empty_bins_count_nothing(learner, seed):
    """Bins without answers change nothing, and give no NaN: one answer in 1,000 bins has an error, too."""
    confidence, correct = answers(seed, 5, 7)
    single = torch.tensor([0.4321], dtype=torch.float64)
    errors_are(learner, [(confidence, correct, 7, "of 5 answers in 7 bins"), (single, torch.tensor([True]), 1000, "of one answer in 1000 bins"), (single, torch.tensor([0]), None, "of one wrong answer")])


@exercise("calibration_error")
def test_confidences_are_probabilities(learner):
    """No answers, or a confidence below 0, above 1 or NaN, raise a ValueError that names confidence; another shape of correct names correct, and no bins name bins."""
    confidence, correct = torch.tensor([0.2, 0.7, 0.4]), torch.tensor([False, True, True])
    fine = learner.calibration_error(confidence, correct, 1)
    refuses(lambda: learner.calibration_error(torch.zeros(0), torch.zeros(0)), naming=("confidence",), because="there is no answer")
    for value in (-0.1, 1.5, math.nan):
        refuses(lambda value=value: learner.calibration_error(torch.tensor([0.2, value, 0.4]), correct), naming=("confidence",), because=f"{value} is no probability")
    for wrong in (correct[:2].clone(), torch.cat([correct, correct]), correct[:, None].clone(), correct[:1].clone()):
        refuses(lambda wrong=wrong: learner.calibration_error(confidence, wrong), naming=("correct",), because=f"correct has the shape {tuple(wrong.shape)}, and confidence (3,)")
    for bins in (0, -2):
        refuses(lambda bins=bins: learner.calibration_error(confidence, correct, bins), naming={"bins": bins}, because="there is at least one bin")
    close(fine, 0.7 / 3, "the error of 0.2, 0.7, 0.4, two of them right, in one bin", tol=1e-5)


# ---- fit_temperature

COLDEST, HOTTEST = 0.01, 100.0


def loss_at(logits, targets, temperature):
    """The mean cross-entropy of logits / temperature, in float64."""
    z = logits.double()
    z = (z - z.gather(1, targets[:, None])) / temperature  # of two large logits, only the difference counts
    return float(torch.logsumexp(z, dim=1).mean())


def best_temperature(logits, targets):
    """The slope of the loss by 1 / temperature only grows; the temperature at which it is 0, or one of the limits."""
    z = logits.double()
    z = z - z.gather(1, targets[:, None])
    cold, hot = math.log(COLDEST), math.log(HOTTEST)

    def slope(t):
        return float((torch.softmax(z / math.exp(t), dim=1) * z).sum(1).mean())

    if slope(cold) <= 0:
        return COLDEST
    if slope(hot) >= 0:
        return HOTTEST
    for _ in range(100):
        middle = (cold + hot) / 2
        cold, hot = (middle, hot) if slope(middle) > 0 else (cold, middle)
    return math.exp((cold + hot) / 2)


def are_temperatures(learner, cases):
    """Each (logits, targets, what) gets a temperature whose loss is the smallest one."""
    got = [learner.fit_temperature(logits, targets) for logits, targets, _ in cases]
    for (logits, targets, what), mine in zip(cases, got):
        is_temperature(mine, logits, targets, what)


def is_temperature(got, logits, targets, what):
    number = got.item() if isinstance(got, torch.Tensor) and got.numel() == 1 else got
    best = best_temperature(logits, targets)
    fits = isinstance(number, float | int) and COLDEST * (1 - 1e-6) <= number <= HOTTEST * (1 + 1e-6)
    holds(fits, f"the temperature {what} should be a number from 0.01 to 100, {best:.6g}; the result is {describe_value(got)}")
    excess = loss_at(logits, targets, min(max(number, COLDEST), HOTTEST)) - loss_at(logits, targets, best)
    holds(
        excess <= 1.01e-6,
        f"the loss {what} is smallest at the temperature {best:.6g}; the result is {number:.6g}, where it is larger by {excess:.3g}, and one millionth is allowed",
    )


def shares(k, right, wrong, dtype=torch.float64):
    """Two logits whose difference is k · log(right / wrong), for right + wrong answers of which so many are right: the best temperature is k."""
    logits = torch.tensor([[k * math.log(right / wrong), 0.0]], dtype=dtype).repeat(right + wrong, 1)
    return logits, (torch.arange(right + wrong) >= right).long()


def noisy(seed, N, C, scale, temperature, dtype=torch.float64):
    """Logits of this scale, and targets drawn at a temperature."""
    logits = tensor(seed, N, C, scale=scale, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return logits, torch.multinomial(torch.softmax(logits.double() / temperature, dim=1), 1, generator=generator)[:, 0]


@exercise("fit_temperature", weight=2)
def test_three_of_four_right_make_the_probability_three_quarters(learner):
    """Two logits differ by k · log 3, and three of four answers are right. At the temperature k, the probability is 3 / 4, as it should be: nothing is better. k may be anywhere between the limits."""
    cases = [(*shares(k, 3, 1), f"of logits that differ by {k} · log 3, three of four right,") for k in (1.0, 3.0, 0.4, 25.0, 80.0, 0.05, 0.013)]
    cases.append((*shares(2.0, 9, 2), "of logits that differ by 2 · log 4.5, nine of eleven right,"))
    are_temperatures(learner, cases)


@exercise("fit_temperature", weight=3)
@few
@given(n=distinct("N", "C", N=(30, 40), C=(4, 7)), seed=seeds)
def test_the_cross_entropy_is_smallest(learner, n, seed):
    """Of all temperatures, the result has the smallest mean cross-entropy, within one millionth: not the smallest error of the answers, and not the smallest squared error."""
    cases = []
    for scale, temperature in ((3.0, 2.0), (1.0, 0.5), (8.0, 8.0), (0.5, 1.0)):
        for dtype in DTYPES:
            cases.append((*noisy(seed, n.N, n.C, scale, temperature, dtype), f"of random logits of scale {scale:g}"))
    are_temperatures(learner, cases)


@exercise("fit_temperature", weight=2)
@few
@given(seed=seeds)
def test_larger_logits_get_a_higher_temperature(learner, seed):
    """If all logits are five times as large, so is the temperature. The same number added to a row's logits changes nothing, and twice the rows give the same."""
    logits, targets = noisy(seed, 30, 4, 2.0, 2.0)
    cases = [(factor * logits, targets, f"of the logits times {factor}") for factor in (1, 5, 0.2)]
    cases.append((logits + 50 * tensor(seed + 1, 30, 1, dtype=torch.float64), targets, "of logits with a number added to each row"))
    cases.append((logits.repeat(2, 1), targets.repeat(2), "of all rows twice"))
    are_temperatures(learner, cases)


@exercise("fit_temperature", weight=2)
def test_the_temperature_stays_within_its_limits(learner):
    """If all answers are right, a lower temperature is always better, down to 0.01. If most are wrong, a higher one is, up to 100."""
    right, wrong = torch.zeros(5, dtype=torch.long), torch.ones(5, dtype=torch.long)
    small = torch.tensor([[0.02, 0.0, -0.01]], dtype=torch.float64).repeat(5, 1)
    are_temperatures(learner, [
        (small, right, "of answers that are all right, by a little,"), (40 * small, right, "of answers that are all right,"), (900 * small, right, "of answers that are all right, by much,"),
        (500 * small, wrong, "of answers that are all wrong,"), (small, wrong, "of answers that are all wrong, by a little,"), (*shares(-3.0, 4, 1), "of answers of which most are wrong,"),
        (*shares(400.0, 3, 1), "of answers that are right less often than any temperature allows,"), (small[:1], right[:1], "of a single row,"),
    ])  # fmt: skip


@exercise("fit_temperature", weight=2)
@few
@given(seed=seeds)
def test_large_logits_do_not_overflow(learner, seed):
    """Logits of 10,000, far from each other or close together, give no NaN and are not rounded: they are computed in float64."""
    logits, targets = noisy(seed, 24, 5, 3.0, 2.0)
    cases = [(logits + 1e4, targets, "of logits around 10,000"), (logits - 1e4, targets, "of logits around -10,000"), (logits + 2.0**30, targets, "of float64 logits around a billion")]
    cases.append((1e4 * logits, targets, "of logits as large as 10,000, some of them wrong,"))
    cases.append((1e4 * logits.sign() + logits, logits.argmax(1), "of logits of about 10,000 and -10,000, all of them right,"))
    cases.append(((20 * logits).float(), targets, "of float32 logits of scale 60"))
    are_temperatures(learner, cases)


@exercise("fit_temperature")
@few
@given(seed=seeds)
def test_the_temperature_of_any_dtype_and_layout(learner, seed):
    """Logits of half precision are taken as the numbers that they are, and the arguments may be views."""
    logits, targets = noisy(seed, 30, 5, 3.0, 1.5)
    cases = [(logits.to(dtype), targets, f"of {str(dtype).removeprefix('torch.')} logits") for dtype in (torch.float32, torch.bfloat16, torch.float16)]
    cases += [((8 * logits + 300).to(dtype), targets, f"of {str(dtype).removeprefix('torch.')} logits around 300") for dtype in (torch.bfloat16, torch.float16)]
    view = learner.bring(of_views)(learner.fit_temperature, logits, targets)
    are_temperatures(learner, cases)
    is_temperature(view, logits, targets, "of views")


@exercise("fit_temperature")
def test_a_fit_needs_rows(learner):
    """Without any row there is nothing to fit: a ValueError names logits. One row is enough."""
    logits, targets = shares(1.0, 2, 1)
    fine = learner.fit_temperature(logits, targets)
    refuses(lambda: learner.fit_temperature(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)), naming=("logits",), because="there are no rows")
    is_temperature(fine, logits, targets, "of logits that differ by log 2, two of three right,")
