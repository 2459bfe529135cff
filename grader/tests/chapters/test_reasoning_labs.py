"""The measurements of lesson 26's labs: what they compute is what they say, and their findings at three seeds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from grader.chapters.ch26_reasoning import baseline, bounds, compute, distillation, lengths
from grader.chapters.ch26_reasoning.bandit import Table
from grader.chapters.ch26_reasoning.reasoning.sums import Sum, sums
from grader.chapters.small_models import names_of
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import open_chapters
from lab_tables import printed
from torch import Tensor, nn

SEEDS = (0, 1, 2)
LABS = ("baseline", "bounds", "length", "compute", "distillation")


@pytest.fixture(scope="module")
def package() -> ChapterPackage:
    package = open_chapters()
    yield package
    package.close()


@pytest.fixture(scope="module")
def parts(package):
    with torch.random.fork_rng(devices=[]):
        yield names_of(*map(package.module, compute.CHAPTERS))


# ---- a table as policy


def test_a_table_gives_the_log_probabilities_of_its_answers_and_rewards_the_first():
    table = Table.of((0.2, 0.5, 0.3), 4)
    answers, rewards = table.draw(500, torch.Generator().manual_seed(0))
    assert answers.shape == (4, 500) and table.right() == pytest.approx(0.2)
    assert torch.equal(rewards.view(4, 500) == 1, answers == 0) and rewards.mean() == pytest.approx(0.2, abs=0.05)
    expected = torch.tensor([0.2, 0.5, 0.3]).log()[answers].reshape(-1, 1)
    torch.testing.assert_close(table.log_probs(answers).detach(), expected)


# ---- baseline


def test_the_expected_gradient_is_that_of_all_groups(parts):
    """Enumerated answer by answer, with gradients from torch."""
    share, size = 0.25, 3
    for name, one in baseline.baselines(parts).items():
        logits = nn.Parameter(torch.tensor([share, 1 - share], dtype=torch.float64).log())
        mean = square = 0.0
        for answers in itertools.product((0, 1), repeat=size):
            rewards = 1.0 - torch.tensor(answers).float()
            log_probs = torch.log_softmax(logits, 0)[list(answers)]
            [gradient] = torch.autograd.grad((one(rewards, size) * log_probs).mean(), [logits])
            estimate = float(gradient[0]) / (share * (1 - share))
            chance = math.prod((share, 1 - share)[answer] for answer in answers)
            mean, square = mean + chance * estimate, square + chance * estimate**2
        found = baseline.expected_gradient(one, size, share)
        assert found == pytest.approx((mean, math.sqrt(square - mean**2)), abs=1e-5), name


def test_the_groups_mean_makes_the_gradient_smaller_and_leaving_one_out_does_not(parts):
    for size in baseline.SIZES:
        found = {name: baseline.expected_gradient(one, size)[0] for name, one in baseline.baselines(parts).items()}
        assert found == pytest.approx({"none": 1.0, "mean": (size - 1) / size, "others": 1.0}, abs=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_two_answers_the_groups_mean_takes_twice_the_steps_with_sgd_and_none_more_with_adamw(parts, seed):
    both = [baseline.baselines(parts)[name] for name in ("mean", "others")]
    slow, fast = (baseline.steps_needed(parts, "SGD", one, 2, seed) for one in both)
    assert 1.8 < slow / fast < 2.2
    slow, fast = (baseline.steps_needed(parts, "AdamW", one, 2, seed) for one in both)
    assert abs(slow - fast) <= 1


# ---- bounds


def entropy_after_coins(parts, limits: tuple[float, float], seed: int) -> float:
    generator, table = torch.Generator().manual_seed(seed), Table.of(bounds.FAVOURITE, bounds.QUESTIONS)
    training = bounds.train_table(parts, table, limits, bounds.coin, generator)
    for _ in range(60):
        next(training)
    return bounds.mean_entropy(parts, table)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_upper_bound_lowers_the_entropy_and_the_lower_bound_keeps_it(parts, seed):
    table = Table.of(bounds.FAVOURITE, bounds.QUESTIONS)
    assert bounds.mean_entropy(parts, table) == pytest.approx(-sum(p * math.log(p) for p in bounds.FAVOURITE))
    both, wider, low_only, high_only, neither = (
        entropy_after_coins(parts, limits, seed)
        for limits in ((0.2, 0.2), (0.2, 0.5), (0.2, bounds.NONE), (1.0, 0.2), (1.0, bounds.NONE))
    )
    assert high_only < neither < low_only and high_only < both < wider


def test_a_coin_does_not_look_at_the_answers():
    generator = torch.Generator().manual_seed(0)
    for rewards in (torch.zeros(4000), torch.ones(4000)):
        assert bounds.coin(rewards, generator).mean() == pytest.approx(0.5, abs=0.05)


# ---- length


def test_log_probabilities_of_lengths_are_those_of_the_decisions():
    policy, generator = lengths.Lengths.new(), torch.Generator().manual_seed(0)
    policy.logits.data += torch.randn(policy.logits.shape, generator=generator)
    right, count = policy.draw(300, generator)
    log_probs, mask = policy.log_probs(right, count)
    stop = policy.logits.sigmoid()
    for row in range(40):
        kind, last = int(right[row]), int(count[row]) - 1
        expected = [1 - stop[kind, place] for place in range(last)]
        expected += [stop[kind, last]] if last < lengths.MOST_TOKENS - 1 else []
        assert mask[row].sum() == last + 1
        assert log_probs[row][mask[row]].sum().exp().item() == pytest.approx(math.prod(map(float, expected)), rel=1e-3)


def test_the_policy_begins_with_the_lengths_of_its_stop_probability():
    _, count = lengths.Lengths.new().draw(20_000, torch.Generator().manual_seed(0))
    expected = sum((1 - lengths.STOP) ** place for place in range(lengths.MOST_TOKENS))
    assert count.float().mean().item() == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_average_per_answer_makes_wrong_answers_long_and_right_ones_short(parts, seed):
    right, wrong = lengths.train_lengths(parts, "sequence", None, 150, seed)
    assert right < 2 and wrong > 20
    _, held = lengths.train_lengths(parts, "sequence", (12, 24), 150, seed)
    assert held < 16, "the penalty ends the growth"
    for average in ("token", "fixed"):
        assert all(5 < length < 12 for length in lengths.train_lengths(parts, average, None, 150, seed))


# ---- compute


def test_votes_and_the_verifier_choose_among_the_results(parts):
    one, choose = Sum(123, 456, 3), compute.choices(parts)
    assert choose["vote"](one, [None, 578, 579, 579]) == 579 and choose["first"](one, [None, 579]) is None
    assert choose["verifier"](one, [578, None, 570, 579]) == 570, "the first whose remainder by 9 agrees"
    assert compute.nines_agree(one, 579) and compute.nines_agree(one, 588) and not compute.nines_agree(one, 580)
    assert compute.share_chosen([one, one], [[579], [578]], choose["vote"]) == 0.5


def test_results_are_read_behind_the_end_of_thinking_and_each_way_has_its_first_token(parts):
    adder = compute.new_adder(parts, 0)
    asked = [one for one, _ in zip(sums(parts, "a", compute.DIGITS), range(3))]
    for thinks in (False, True):
        found = compute.draw_results(adder, asked, 5, thinks, 0)
        assert len(found) == 3 and all(len(one) == 5 for one in found)
        assert found == compute.draw_results(adder, asked, 5, thinks, 0)
        assert all(result is None or result >= 0 for one in found for result in one)


def test_every_budget_is_a_whole_number_of_both_kinds_of_answers():
    assert all(budget % compute._tokens(thinks) == 0 for budget in compute.BUDGETS for thinks in (False, True))


# ---- distillation


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_kl_covers_both_bumps_and_reverse_kl_picks_one(parts, seed):
    teacher = torch.softmax(distillation.two_bumps()[0, 0], 0)
    numbers = torch.arange(distillation.NUMBERS)

    def mean_and_width(p: Tensor) -> tuple[float, float]:
        mean = float((p * numbers).sum())
        return mean, float((p * (numbers - mean) ** 2).sum().sqrt())

    assert mean_and_width(distillation.fit_bump(parts, "forward", seed).exp()) == pytest.approx(mean_and_width(teacher), abs=0.1)
    mean, width = mean_and_width(distillation.fit_bump(parts, "reverse", seed).exp())
    assert mean == pytest.approx(5, abs=0.2) and width == pytest.approx(1.5, abs=0.2)


def test_the_teacher_walks_on_and_comes_back():
    table = torch.softmax(distillation.teacher_table(), -1)
    assert table.sum(-1) == pytest.approx(torch.ones(2 * distillation.PLACES))
    for state in range(2 * distillation.PLACES):
        assert int(table[state].argmax()) == (state + 1) % distillation.PLACES
    walks = distillation.walk(distillation.teacher_table(), 2000, torch.Generator().manual_seed(0))
    usual = walks[:, 1:] == (walks[:, :-1] + 1) % distillation.PLACES
    assert (walks[:, 0] == 0).all() and usual.float().mean().item() == pytest.approx(distillation.STEADY, abs=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_its_own_walks_a_student_learns_what_to_do_beside_the_path(parts, seed):
    for kind in ("forward", "reverse"):
        theirs, own = (
            distillation.distance(parts, distillation.distil(parts, kind, own, seed), beside=True) for own in (False, True)
        )
        assert own < theirs / 2


# ---- the commands


@pytest.mark.thorough
@pytest.mark.parametrize("lab", LABS)
def test_a_lab_repeats_with_its_seed(lab):
    options = ("--steps", "2") if lab == "compute" else ()
    once, again = (printed(f"reasoning_{lab}", *options, "--seed", "3") for _ in range(2))
    assert once == again and len(once.splitlines()) > 6


@pytest.mark.thorough
def test_thinking_first_buys_more_than_votes_for_the_same_tokens(parts):
    for seed in SEEDS:
        adder = compute.trained_adder(parts, seed, 1500, lambda: None)
        asked = [one for one, _ in zip(sums(parts, f"{seed} compute", compute.DIGITS, held_out=True), range(compute.QUESTIONS))]
        results = {thinks: compute.draw_results(adder, asked, 3 if not thinks else 1, thinks, seed) for thinks in (False, True)}
        short, thinking = (compute.share_chosen(asked, results[thinks], compute.choices(parts)["vote"]) for thinks in (False, True))
        assert thinking > short + 0.1
