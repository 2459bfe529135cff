"""The numbers that the lessons work out by hand are what the reference computes: chapters 16 to 18. Ids need the published vocabulary."""

from __future__ import annotations

import importlib.util
import math
import re

import pytest
import torch
from grader.course.syllabus import EXERCISES
from grader.execution.simulated_group import run_ranks
from grader.models.published.opening import PACKAGE, find_source
from grader.teaching.machines.pipeline import bubble, most_kept, time_steps, total_time
from lesson_tables import says, shown, shows, table_in, tables_of

LESSON, TUNING = ((EXERCISES / f"{name}.md").read_text(encoding="utf-8") for name in ("ch16_published_model", "ch17_fine_tuning"))
WITH_WEIGHTS = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed")


# ---- chapter 16


def test_the_block_of_4_bit_weights(ours):
    rows = table_in("ch16", "A block of 4-bit weights")
    raw, low, high = [], [], []
    for places, value, meaning in rows:
        first, _, last = places.replace(",", " to").partition(" to ")
        count = 1 + int(last or first) - int(first)
        numbers = [int(number) for number, _ in shown(value)]
        if "=" in value:
            byte, left, sixteen, right = numbers
            assert byte == left * sixteen + right and meaning == f"low bits {right}, high bits {left}"
            raw, low, high = raw + [byte] * count, low + [right] * count, high + [left] * count
        else:
            raw += numbers
            [number] = torch.tensor(numbers, dtype=torch.uint8).view(torch.float16).tolist()
            assert meaning.endswith(f"a float16: {number}")
    weights = ours.dequantize_q4_1(torch.tensor([raw], dtype=torch.uint8))[0].tolist()
    assert weights == [0.5 * number - 3 for number in low + high] and len(raw) == 20
    assert says("ch16", "So weights 0 to 3 are {}, {}, {} and {}, and weights 16 to 19 are {}, {}, {} and {}.", *weights[:4], *weights[16:20])
    assert set(weights[4:16] + weights[20:]) == {0} and says("ch16", "One weight costs 20 · 8 / 32 = {} bits.", 20 * 8 / 32)


def test_signed_bytes(ours):
    numbers = [4, 252, 127, 128]
    block = torch.tensor([[0, 52, *numbers, *[0] * 28], [0, 56, 255, *[0] * 31]], dtype=torch.uint8)
    weights = ours.dequantize_q8_0(block)
    assert says("ch16", "the bytes {}, {}, {} and {} are the numbers {}, {}, {} and {}, and the weights {}, {}, {} and {}.",
                *numbers, *(weights[0, :4] / 0.25).tolist(), *weights[0, :4].tolist())  # fmt: skip
    assert says("ch16", "{}. As a signed byte 255 is -1,", weights[1, 0])


def test_names_of_bytes(ours):
    names = ours.byte_names()
    own = [byte for byte in names if names[byte] == chr(byte)]
    assert says("ch16", "So {} bytes are written as their own Latin-1 character, and the other {}", len(own), 256 - len(own))
    assert (names[32], names[10], "".join(names[byte] for byte in "é".encode())) == ("Ġ", "Ċ", "Ã©")
    assert "A space is `Ġ`, a line end is `Ċ`" in LESSON and says("ch16", "and `é`, the bytes {} and {}, is written", *"é".encode())


def test_the_order_of_rows(ours):
    order = [int(number) for number in ours.interleave_rows(torch.arange(8.0), 2)]
    assert says("ch16", "rows 0 to 7 become {}, {}, {}, {}, {}, {}, {}, {}.", *order)
    assert says("ch16", "the partners must be neighbours: rows {}, {}, {}, {}.", *order[:4])


def test_sizes_of_the_published_model(ours):
    with torch.device("meta"):
        model = ours.Llama(49_152, 576, 9, 3, 30, 1536, base=100_000.0)
    weights, embedding = sum(weight.numel() for weight in model.parameters()), model.token_emb.weight.numel()
    assert says("ch16", "{} · 5 / 8 = {} million bytes.", weights, weights * 5 / 8e6)
    assert says("ch16", "{} million weights take {} MB in float32.", weights / 1e6, 4 * weights / 1e6)
    assert says("ch16", "98 MB, because its embedding, a fifth of all weights, is stored with {} bits", 8.5) and 0.2 < embedding / weights < 0.22
    assert model.blocks[0].attn.W_k.weight.shape == (192, 576) and "SmolLM2: 192, 3 heads of 64" in LESSON


@WITH_WEIGHTS
def test_ids_of_texts_and_of_a_message(ours):
    source = find_source(None)
    tokenizer = ours.PublishedTokenizer(source.tokens, source.merges, source.special)
    for text, tokens, ids in table_in("ch16", "Bytes that can be seen"):
        found = tokenizer.encode(text)
        assert found == [int(i) for i in ids.split(", ")] and [source.tokens[i] for i in found] == tokens.split(", ")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi!"}]
    found = ours.chat_ids(tokenizer, messages)
    said = re.search(r"These are (\d+) ids: ([\d, ]+)\.", LESSON)
    assert int(said[1]) == len(found) and [int(i) for i in said[2].split(", ")] == found
    assert tokenizer.decode(found).rstrip("\n") == re.search(r"```text\n(.*?)\n```", LESSON, re.DOTALL)[1]
    assert "the seven tokens `<`, `|`, `im`, `_`, `end`, `|`, `>`" in LESSON
    assert [source.tokens[i] for i in tokenizer.encode("<|im_end|>")] == ["<", "|", "im", "_", "end", "|", ">"]
    assert not {ours.byte_names()[byte] for byte in (192, 193)} & set(source.tokens) and len(source.tokens) == 49_152


# ---- chapter 17


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
    drawn = [numbers(line) for line in re.findall(r"^    (?:[01] ){4}[01]$", TUNING, re.MULTILINE)]
    assert drawn == mask[1].long().tolist()


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


# ---- chapter 18


def test_a_sum_around_a_ring(ours):
    """Each step of the table follows from the one before by the exercise's rule, and the last one is what the reference gives."""
    rows = [[numbers(cell) for cell in row[1:]] for row in table_in("ch18", "A sum around a ring")]
    for step, (before, after) in enumerate(zip(rows, rows[1:])):
        for rank in range(3):
            sender, place = (rank - 1) % 3, step if step < 2 else step - 2
            part = (sender - place) % 3 if step < 2 else (sender + 1 - place) % 3
            expected = list(before[rank])
            expected[part] = before[sender][part] + (expected[part] if step < 2 else 0)
            assert after[rank] == expected, (step, rank)
    results, counts = run_ranks(lambda group: ours.ring_all_reduce(torch.tensor(rows[0][group.rank]), group), 3)
    assert [result.tolist() for result in results] == rows[-1]
    assert says("ch18", "Each rank has sent {} numbers, 2 (n - 1) / n times the {} that it has.", counts[0].bytes / 4, 3)
    assert says("ch18", "With {} ranks and a tensor of 1 GB, each rank sends {} GB.", 100, 2 * 99 / 100)
    assert says("ch18", "its connection would carry {} GB in each direction.", 99)


def test_the_mean_of_means(ours):
    def mean_on(rank_of_row, n):
        rows = torch.tensor([1.0, 1.0, 1.0, 5.0])

        def one_rank(group):
            model = torch.nn.Linear(1, 1, bias=False)
            own = rows[[rank == group.rank for rank in rank_of_row]]
            (model.weight * own).mean().backward()
            ours.average_gradients(model, group)
            return model.weight.grad.item()

        return run_ranks(one_rank, n)[0][0]

    assert says("ch18", "the gradients 1, 1, 1 and 5, and their mean is {}.", mean_on([0] * 4, 1))
    assert says("ch18", "have the means 1 and 3, and the mean of these is {}, too.", mean_on([0, 0, 1, 1], 2))
    assert says("ch18", "the means are 1 and 5, and their mean is {}.", mean_on([0, 0, 0, 1], 2))


def test_where_the_memory_goes():
    weights, ranks = 7, 8  # billions
    expected = [(4, 4, 8), (4, 4, 8 / ranks), (4 / ranks, 4 / ranks, 8 / ranks)]
    for row, parts in zip(table_in("ch18", "Where the memory goes"), expected, strict=True):
        assert shows(" ; ".join(row[1:]), *[weights * part for part in parts], weights * sum(parts)), row


def test_a_layer_on_three_ranks(ours):
    linear = torch.nn.Linear(3, 2)
    shards, _ = run_ranks(lambda group: ours.FullyShardedLinear(linear, group).shard.detach(), 3)
    assert torch.equal(torch.cat(shards), torch.cat([linear.weight.detach().flatten(), linear.bias.detach(), torch.zeros(1)]))
    assert says("ch18", "has {} numbers. On 3 ranks, each keeps k = {} of them", 8, len(shards[0]))


def test_a_layer_that_two_ranks_compute_together(ours):
    rows = table_in("ch18", "A layer that two ranks compute together")
    whole = ours.FeedForward(2, 4, "relu")
    with torch.no_grad():
        whole.up.weight.copy_(torch.tensor([number for row in rows for number in numbers(row[1])]).view(4, 2)), whole.up.bias.zero_()
        whole.down.weight.copy_(torch.tensor([[1.0] * 4, [0.0] * 4])), whole.down.bias.zero_()

    def one_rank(group):
        part, x = ours.TensorParallelFeedForward(whole, group), torch.tensor([1.0, 2.0], requires_grad=True)
        hidden = torch.nn.functional.linear(x, part.up.weight).relu()
        own = (part.down.weight @ hidden)[0]
        alone = torch.autograd.grad(own, x)[0]
        y = part(x)[0]
        return hidden.tolist(), own.item(), alone.tolist(), y.item(), torch.autograd.grad(y, x)[0].tolist()

    results, counts = run_ranks(one_rank, 2)
    for row, (hidden, own, alone, _, _) in zip(rows, results):
        assert (numbers(row[2]), numbers(row[3]), numbers(row[4])) == (hidden, [own], alone)
    assert says("ch18", "One all-reduce gives 3 + 3 = {} on both ranks.", results[1][3])
    assert says("ch18", "The second all-reduce gives ({}, {}).", *results[0][4]) and counts[0].calls == ["all_reduce"] * 2


def test_a_pipeline(ours):
    rows = {row[0]: row[1:] for row in table_in("ch18", "A pipeline")}
    for kind in ("1f1b", "gpipe"):
        timed = time_steps(ours.pipeline_schedule(3, 4, kind), lambda stage, kind, micro: 1.0)
        for stage, steps in enumerate(timed):
            drawn = [(cell, time) for time, cell in enumerate(rows[f"{kind}, stage {stage}"], 1) if cell]
            assert drawn == [(f"{step.kind[0].upper()}{step.micro}", step.end) for step in steps], (kind, stage)
    assert says("ch18", "Each stage works {} of {} units.", 8, total_time(timed))
    assert says("ch18", "(n_stages - 1) / (n_micro + n_stages - 1) = {} / {}.", 2, 6) and math.isclose(bubble(timed), 2 / 6)
    assert says("ch18", "With 100 micro-batches the bubble is {} / {}, gpipe keeps {}, and 1f1b still {}.", 2, 102, 100, 3)
    assert [most_kept(ours.pipeline_schedule(3, 100, kind)[0]) for kind in ("gpipe", "1f1b")] == [100, 3]
