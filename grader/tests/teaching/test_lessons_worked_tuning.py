"""The numbers that lesson 17 works out by hand are what the reference computes."""

from __future__ import annotations

import math
import re

import pytest
import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in, tables_of

LESSON = (EXERCISES / "ch17_fine_tuning.md").read_text(encoding="utf-8")


def numbers(text):
    return [number for number, _ in shown(text)]


def vectors(text):
    return torch.tensor([numbers(part) for part in text.split("), (")])


def columns(heading, place=0):
    return [list(column) for column in zip(*table_in("ch17", heading, place))]


def test_a_small_change_beside_a_layer(ours):
    W, Wx, A, B = map(vectors, columns("A small change beside a layer")[1])
    linear, x = torch.nn.Linear(3, 2, bias=False), torch.tensor([1.0, 2.0, 3.0])
    with torch.no_grad():
        linear.weight.copy_(W)
    lora = ours.LoRALinear(linear, 1, 2.0)
    assert torch.equal(linear(x), Wx[0]) and says("ch17", "the input is x = ({}, {}, {}):", *x.tolist())
    with torch.no_grad():
        lora.A.copy_(A), lora.B.copy_(B.T)
    down = float(A @ x)
    assert says("ch17", "A · x = 0.5 + 1.5 = {}, and B turns it into a change of the output, ({}, {}).", down, *(down * B[0]).tolist())
    assert says("ch17", "so the change is ({}, {}), and the output is ({}, {}) + ({}, {}) = ({}, {}).",
                *(2 * down * B[0]).tolist(), *Wx[0].tolist(), *(2 * down * B[0]).tolist(), *lora(x).tolist())  # fmt: skip
    merged = lora.merged()
    assert says("ch17", "W + 2 · B A has the rows ({}, {}, {}) and ({}, {}, {}), and this matrix times x is ({}, {}), too.", *merged.weight.flatten().tolist(), *merged(x).tolist())


def test_how_many_numbers_are_trained(ours):
    with torch.device("meta"):
        model = ours.Llama(49_152, 576, 9, 3, 30, 1536, base=100_000.0)
    whole = sum(weight.numel() for weight in model.parameters())
    ours.add_lora(model, 8, 16.0, ["W_q", "W_v"])
    adapter = sum(weight.numel() for name, weight in model.named_parameters() if name.startswith("blocks.0.attn.W_q") and weight.requires_grad)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert says("ch17", "SmolLM2's query layer has 576 · 576 = {} weights. An adapter of rank 8 has 8 · (576 + 576) = {}.", 576 * 576, adapter)
    assert says("ch17", "of all 30 blocks these are {} trained numbers, {} % of the model.", trained, 100 * trained / whole)


def test_only_the_answer_counts(ours):
    [header, ids, targets] = [row for table in tables_of(EXERCISES / "ch17_fine_tuning.md") if table.heading == "Only the answer counts" for row in table.rows]
    first = int(header[1])
    every = [1, 4093, 198, 26843, 17, 2][:first] + [int(cell) for cell in ids[1:]]
    right = ours.answer_labels(every, [(11, 13)])
    assert [int(cell) for cell in targets[1:-1]] == right[first:] and targets[-1] == ""
    assert says("ch17", "The {} ids have {} targets, and two of them count.", len(every), len(right)) and sum(target >= 0 for target in right) == 2


def test_packing(ours):
    ids, targets, positions, mask = ours.pack([[1, 2, 3, 4], [5, 6, 7], [8, 9], [10]], 5, 0)
    for name, *rows in table_in("ch17", "Packing"):
        right = {"ids": ids, "targets": targets, "positions": positions}[name]
        assert [numbers(row) for row in rows] == right.tolist(), name
    drawn = [numbers(line) for line in re.findall(r"^    (?:[01] ){4}[01]$", LESSON, re.MULTILINE)]
    assert drawn == mask[1].long().tolist()
    parts, after = ours.pack([list(range(7))], 3, 0)[:2]
    assert parts.shape == (3, 3) and after[0, 2] == parts[1, 0]


def test_the_probability_of_an_answer(ours):
    probabilities = torch.tensor([0.5, 0.25, 0.8])
    logits = torch.stack([probabilities, 1 - probabilities], dim=-1).log()[None]
    total = ours.sequence_log_prob(logits, torch.zeros(1, 3, dtype=torch.int64)).item()
    logs = probabilities.log().abs().tolist()
    assert says("ch17", "In logs: -{} - {} - {} = {}, and exp({}) = {}.", *logs, total, total, math.exp(total))


def test_which_answer_is_better(ours):
    for row in table_in("ch17", "Which answer is better?"):
        chosen, rejected = numbers(row[0])[0], numbers(row[1])[0]
        loss = ours.reward_loss(torch.tensor([chosen]), torch.tensor([rejected])).item()
        assert shows(" ; ".join(row), chosen, rejected, chosen - rejected, math.exp(-loss), loss), row
    first, second = (torch.tensor([numbers(row[0])[0]]) - torch.tensor([numbers(row[1])[0]]) for row in table_in("ch17", "Which answer is better?")[:2])
    assert ours.reward_loss(first, torch.zeros(1), 1.0) == ours.reward_loss(second, torch.zeros(1))
    assert says("ch17", "Only the difference counts: σ(2) = {}.", math.exp(-ours.reward_loss(torch.tensor([1000.0]), torch.tensor([998.0])).item()))


def test_dpo(ours):
    rows = table_in("ch17", "DPO: the model is its own reward model")
    values = [torch.tensor([numbers(row[column])[0]], requires_grad=column == 1) for column in (1, 2) for row in rows]
    loss, chosen, rejected = ours.dpo_loss(*values, 0.1)
    loss.backward()
    assert [shows(row[3], reward.item()) for row, reward in zip(rows, (chosen, rejected))] == [True, True]
    assert says("ch17", "The difference is {}, σ(0.3) = {}, and the loss is {}.", (chosen - rejected).item(), math.exp(-loss.item()), loss.item())
    assert says("ch17", "is -0.1 · σ(-0.3) = {}, and that of the rejected one is {}.", values[0].grad.item(), values[1].grad.item())


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_how_far_has_the_policy_moved(ours, kind):
    *rows, expectation = table_in("ch17", "How far has the policy moved?")
    policy, fixed = (torch.tensor([numbers(row[column])[0] for row in rows], dtype=torch.float64) for column in (1, 2))
    column = {"k1": 3, "k2": 4, "k3": 5}[kind]
    estimates = ours.kl_estimate(policy.log(), fixed.log(), kind)
    assert all(shows(row[column], estimate) for row, estimate in zip(rows, estimates.tolist()))
    assert shows(expectation[column], (policy * estimates).sum().item())


def test_better_than_the_others(ours):
    first, second = (ours.group_advantages(torch.tensor(rewards), 4).tolist() for rewards in ([1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]))
    assert says("ch17", "The mean is {} and the standard deviation {}, so the **advantages** are {}, {}, {}, {}.", 0.5, torch.tensor([1.0, 0.0, 0.0, 1.0]).std().item(), *first)
    assert says("ch17", "they are {} for the right one and {} for the others", second[0], second[1])


def test_when_is_it_enough(ours):
    for row in table_in("ch17", "When is it enough?"):
        ratio, advantage = numbers(row[0])[0], numbers(row[1])[0]
        new = torch.tensor([[math.log(ratio)]], requires_grad=True)
        loss = ours.policy_loss(new, torch.zeros(1, 1), torch.tensor([advantage]), torch.ones(1, 1, dtype=torch.bool))
        loss.backward()
        clipped = min(max(ratio, 0.8), 1.2) * advantage
        assert shows(" ; ".join(row[:5]), ratio, advantage, ratio * advantage, clipped, -loss.item()), row
        assert row[5] == ("yes" if new.grad.item() else "none"), row
    mask, nothing = torch.tensor([[True, False, False], [True, True, True]]), torch.zeros(2, 3)
    losses = [ours.policy_loss(nothing, nothing, torch.tensor([1.0, -1.0]), mask, average=average).item() for average in ("token", "sequence")]
    assert says("ch17", 'With average="token" the loss is (-1 + 3) / 4 = {}: long answers count more.', losses[0])
    assert says("ch17", 'With average="sequence" it is (-1 + 1) / 2 = {}.', losses[1])
