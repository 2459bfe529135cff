"""The numbers that lesson 20 works out by hand are what the reference computes."""

from __future__ import annotations

import math
import tomllib

import torch
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from lesson_tables import says, shown, shows, table_in, tables_of


def numbers(text):
    return [number for number, _ in shown(text)]


def columns(heading):
    """The cells of a table by its columns, without the first one."""
    [table] = [table for table in tables_of(EXERCISES / "ch20_modern_block.md") if table.heading == heading]
    return [list(column) for column in zip(*table.rows)][1:]


def test_a_limit_without_a_corner(ours):
    for logit, capped in columns("A limit without a corner"):
        assert shows(capped, ours.soft_cap(torch.tensor(numbers(logit)[0]), 5.0).item())


def test_a_place_for_unused_weight(ours):
    for scores, sink, weights, without in table_in("ch20", "A place for unused weight"):
        q, k = torch.ones(1, 1, 1, 1), torch.tensor(numbers(scores)).view(1, 1, 2, 1)
        found = ours.attention_with_sink(q, k, k, torch.tensor(numbers(sink)))[1]
        assert shows(weights, *found.flatten().tolist())
        assert shows(without, *torch.tensor(numbers(scores)).softmax(0).tolist())


def test_a_gate():
    for gate, opened in columns("A gate"):
        assert shows(opened, torch.tensor(numbers(gate)[0]).sigmoid().item())


def test_lengths_that_cannot_grow(ours):
    norm = ours.RMSNorm(2)
    q, k, longer = (norm(torch.tensor(vector)).tolist() for vector in ([3.0, 4.0], [4.0, 3.0], [30.0, 40.0]))
    size = math.sqrt(12.5)
    assert says("ch20", "√((9 + 16) / 2) = {}. Divided by it, the query is ({}, {}). The key (4, 3) becomes ({}, {}). Their product is {}.", size, *q, *k, q[0] * k[0] + q[1] * k[1])
    assert torch.allclose(torch.tensor(q), torch.tensor(longer))
    assert says("ch20", "its weight is e⁸ / (e⁸ + 999) = {}.", math.exp(8) / (math.exp(8) + 999))


def test_one_vector_for_all_heads():
    W, c, q = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0, 1.0])
    assert (W @ c).tolist() == [1, 3, 4] and (W.T @ q).tolist() == [1, 2] and q @ W @ c == 5
    assert says("ch20", "would be 2 · 128 · 128 = {} numbers for each layer.", 2 * 128 * 128)
    assert says("ch20", "576 together: {} times less.", 2 * 128 * 128 / 576)


def test_stretching_positions(ours):
    angles, scale = ours.yarn_angles(torch.tensor([1]), 8, 4.0, 1024)
    plain = ours.rope_angles(torch.tensor([1]), 8)
    for i, row in enumerate(table_in("ch20", "Stretching positions")):
        old, new = plain[0, i].item(), angles[0, i].item()
        assert shows(row[4], new) and shows(row[3], (old - new) / (old - old / 4)) and shows(row[1], old)
        assert math.isclose(numbers(row[2])[0], 1024 * old / 2 / math.pi, rel_tol=0.01)
    fast, slow = (4 * math.log(1024 / (2 * math.pi * turns)) / math.log(10_000) for turns in (32, 1))
    assert says("ch20", "i_fast is {} and i_slow is {}, so pair 1 is at (1 - {}) / ({} - {}) = {} of the way.", fast, slow, fast, slow, fast, (1 - fast) / (slow - fast))
    low, high = max(math.floor(fast), 0), min(math.ceil(slow), 8 - 1)  # as transformers rounds and limits them
    assert says("ch20", "here to {} and {}, and pair 1 is at {} of the way.", low, high, (1 - low) / (high - low))
    assert says("ch20", "The scale is 0.1 · log 4 + 1 = {}. Queries and keys are both multiplied by it, so scores grow by {}:", scale, scale**2)


def test_one_norm_for_all_features_is_another_design_wherever_it_is_named():
    mistakes = tomllib.loads((ROOT / "tests/misconceptions/ch20_modern_block.toml").read_text(encoding="utf-8"))["QKNormAttention"]
    hints = load_syllabus().exercise("QKNormAttention").hints
    lesson = (EXERCISES / "ch20_modern_block.md").read_text(encoding="utf-8")
    for text in (mistakes["qk_norm_over_all_features"]["says"], hints[-1], lesson[lesson.index("**QK norm over all D features.**") :][:200]):
        assert "OLMo 2" in text


def test_pushing_singular_values_to_1(ours):
    for start, *steps in table_in("ch20", "Pushing singular values to 1"):
        values = []
        for count in range(1, 6):
            # beside a value that makes the norm 1
            matrix = torch.diag(torch.tensor([numbers(start)[0], math.sqrt(1 - numbers(start)[0] ** 2)], dtype=torch.float64))
            values.append(ours.newton_schulz(matrix, count)[0, 0].item())
        assert shows(" ; ".join(steps), *values), start
    pushed = ours.newton_schulz(torch.tensor([[3.0, 0.0], [0.0, 0.1]])).diagonal().tolist()
    assert says("ch20", "becomes (({}, 0), (0, {})).", *pushed)


def test_heads_that_look_ahead(ours):
    table = columns("Heads that look ahead")
    tokens = [column[1] for column in table]
    assert [column[2] for column in table] == [*tokens[1:], "the"]
    assert [column[3] for column in table] == [*tokens[2:], "the", "none"]
    logits, targets = torch.zeros(2, 1, 4, 5), torch.tensor([[1, 2, 3, 0]])
    logits[1, 0, 0, targets[0, 1]], logits[1, 0, 1, targets[0, 2]], logits[1, 0, 2, targets[0, 3]] = 40.0, 40.0, 40.0
    assert math.isclose(ours.multi_token_loss(logits, targets).item(), math.log(5) / 2, rel_tol=1e-5)


def test_warm_up_stable_decay(ours):
    for step, rate in columns("Warm-up, stable, decay"):
        assert shows(rate, ours.schedule_wsd(int(step), 10, 20, 100, 1.0))
