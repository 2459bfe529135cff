"""The numbers that lesson 26 works out by hand are what the reference computes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in, tables_of

KINDS = ("forward", "reverse", "jsd")
MODELS = ((0.4, *[0.06] * 10), (0.4, 0.3, 0.3), (0.4, 0.6), (0.3, 0.1, 0.1))


def numbers(text):
    return [number for number, _ in shown(text)]


def table(heading, place=0):
    return table_in("ch26", heading, place)


def columns(heading):
    """The cells of a table by its columns, without the first one."""
    [found] = [table for table in tables_of(EXERCISES / "ch26_reasoning.md") if table.heading == heading]
    return [list(column) for column in zip(*found.rows)][1:]


def test_the_mean_of_the_others(ours):
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    advantages = ours.leave_one_out_advantages(rewards, 4).tolist()
    for (reward, mean, less, others, advantage), i in zip(table("The mean of the others"), (0, 1)):
        assert shows(reward, rewards[i]) and shows(mean, 0.25) and shows(less, rewards[i] - 0.25)
        assert shows(others, rewards[i] - advantages[i]) and shows(advantage, advantages[i])
        assert math.isclose((rewards[i] - 0.25) / advantages[i], 3 / 4, abs_tol=1e-6)


def test_groups_that_say_nothing(ours):
    kept = ours.informative_groups(torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 0.0]), 2).tolist()
    assert says("ch26", f"which answers to keep: {', '.join(map(str, kept))}.")


def test_too_long(ours):
    for tokens, penalty in columns("Too long"):
        assert shows(penalty, ours.long_answer_penalty(torch.tensor([int(tokens)]), 10, 20).item())


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_a_gradient_in_the_right_direction(kind, ours):
    reference = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
    for policy, k1, k2, k3, to_reference, from_reference in table("A gradient in the right direction"):
        logits = torch.tensor(numbers(policy), dtype=torch.float64).log().requires_grad_()
        log_p = logits.log_softmax(0)
        d = log_p - reference
        estimate = {"k1": d, "k2": d.square() / 2, "k3": torch.expm1(-d) + d}[kind]
        [expected] = torch.autograd.grad((log_p.exp().detach() * estimate).sum(), logits, retain_graph=True)
        assert shows({"k1": k1, "k2": k2, "k3": k3}[kind], expected[0].item() + 0.0), (kind, policy)
        kl = (log_p.exp() * d).sum(), (reference.exp() * -d).sum()
        for cell, distance in zip((to_reference, from_reference), kl):
            assert shows(cell, torch.autograd.grad(distance, logits, retain_graph=True)[0][0].item() + 0.0)
        if kind == "k2":  # what kl_loss does for each token, averaged as the policy draws them
            losses = [ours.kl_loss(log_p[i].view(1, 1), reference[i].view(1, 1), torch.tensor([[True]])) for i in (0, 1)]
            pulls = [torch.autograd.grad(loss, logits, retain_graph=True)[0][0].item() for loss in losses]
            assert shows(to_reference, sum(p * pull for p, pull in zip(log_p.exp().tolist(), pulls)) + 0.0)


def test_room_upwards():
    for p, narrow, wide, gain in table("Room upwards"):
        [p] = numbers(p)
        assert shows(narrow, 1.2 * p) and shows(wide, 1.28 * p) and shows(gain, 0.28 * p)


def test_two_bounds(ours):
    for ratio, advantage, product, clipped, smaller, gradient in table("Room upwards", 1):
        [r], [a] = numbers(ratio), numbers(advantage)
        assert shows(product, r * a) and shows(clipped, min(max(r, 0.8), 1.28) * a)
        log_prob = torch.tensor([[math.log(r)]], dtype=torch.float64, requires_grad=True)
        old, mask = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool)
        loss = ours.asymmetric_policy_loss(log_prob, old, torch.tensor([a], dtype=torch.float64), mask, 0.2, 0.28)
        assert shows(smaller, -loss.item())
        [slope] = torch.autograd.grad(loss, log_prob)
        assert (gradient == "yes") == bool(slope != 0)


def test_three_averages(ours):
    mask = torch.tensor([[True, False, False], [True, True, True]])
    for average, loss, first, second in table("Three averages"):
        kind, *length = average.replace('"', "").replace("length", "").replace(",", "").split()
        log_probs = torch.zeros(2, 3, requires_grad=True)
        found = ours.asymmetric_policy_loss(
            log_probs, torch.zeros(2, 3), torch.tensor([1.0, -1.0]), mask, 0.2, 0.28, kind, *map(float, length)
        )
        [gradient] = torch.autograd.grad(found, log_probs)
        assert shows(loss, found.item()) and shows(first, -gradient[0, 0].item()) and shows(second, gradient[1, 2].item())


def test_one_ratio_for_an_answer(ours):
    for ratios, mean, clipped in table("One ratio for an answer"):
        change = torch.tensor([numbers(ratios)]).log()
        mask = torch.ones_like(change, dtype=torch.bool)
        for cell, low, high in ((mean, 0.99, 9.0), (clipped, 0.2, 0.28)):
            loss = ours.sequence_policy_loss(change, torch.zeros_like(change), torch.ones(1), mask, low, high)
            assert shows(cell, -loss.item())
    mean = 2 * math.log(1.5) / 3
    assert says("ch26", "({} + {} + 0) / 3 = {}, and exp({}) = {}.", math.log(1.5), math.log(1.5), mean, mean, math.exp(mean))


def test_drawn_by_another_program(ours):
    train, rollout = torch.tensor([[0.3, 0.2]]).log(), torch.tensor([[0.2, 0.01]]).log()
    assert torch.allclose(ours.truncated_weights(train, rollout, 100.0), torch.tensor([[1.5, 20.0]]))
    assert torch.allclose(ours.truncated_weights(train, rollout, 2.0), torch.tensor([[1.5, 2.0]]))


def test_how_undecided_is_the_policy(ours):
    for probabilities, value in columns("How undecided is the policy?"):
        logits = torch.tensor([[numbers(probabilities)]]).log()
        assert shows(value, abs(ours.entropy(logits, torch.ones(1, 1, dtype=torch.bool)).item()))


def test_a_teachers_whole_opinion(ours):
    teacher, mask = torch.tensor([[[0.45, 0.45, *[0.1 / 3] * 3]]]).log(), torch.ones(1, 1, dtype=torch.bool)
    students = {"wide": [0.2] * 5, "narrow": [0.9, *[0.025] * 4]}
    for name, *cells in table("A teacher's whole opinion"):
        student = torch.tensor([[students[name]]]).log()
        for kind, cell in zip(KINDS, cells):
            assert shows(cell, ours.distillation_loss(student, teacher, mask, kind).item()), (name, kind)


def test_a_vote(ours):
    answers = [7, 3, None, 3, 7]
    assert ours.majority_vote(answers) == 7 and ours.majority_vote(answers, [1, 1, 5, 1, 0.5]) == 3


def test_what_a_vote_will_bring(ours):
    for (_, *cells), model in zip(table("What will a vote bring?"), MODELS):
        for cell, n in zip(cells, (1, 2, 3, 9, 33, 99)):
            assert shows(cell, ours.expected_vote(model, n)), (model, n)
    pairs = itertools.product((0, 1, 2, None), repeat=2)
    chance = dict(zip((0, 1, 2, None), (0.3, 0.1, 0.1, 0.5)))
    assert math.isclose(sum(chance[a] * chance[b] for a, b in pairs if ours.majority_vote([a, b]) == 0), 0.45)


def test_thinking_as_long_as_you_say(ours):
    words = ["so", "5", "</think>", "check", "</think>", "30"]
    ids = {word: i for i, word in enumerate(dict.fromkeys([*words, "wait", "end", "?"]))}

    class Script(torch.nn.Module):
        """Writes its words in order, and then ends; each of its passes is a next word."""

        def __init__(self, script):
            super().__init__()
            self.script, self.weight = iter([*script, "end"]), torch.nn.Parameter(torch.zeros(1))

        def forward(self, text):
            logits = torch.zeros(1, text.size(1), len(ids))
            logits[:, -1, ids[next(self.script)]] = 1.0
            return logits

    def think(script, maximum):
        return ours.think(Script(script), [ids["?"]], ids["</think>"], 3, maximum, [ids["wait"]], ids["end"])

    thinking, answer = think(words, 5)
    wanted = [row[1] for row in table("Thinking as long as you say")]
    assert [*thinking, ids["</think>"]] == [ids[word.strip("`")] for word in wanted] and answer == [ids["30"]]
    assert think([*words[:4], "30"], 4) == (thinking, answer)
