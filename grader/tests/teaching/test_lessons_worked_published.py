"""The numbers that the lessons work out by hand are what the reference computes: chapters 16 to 18. Ids need the published vocabulary."""

from __future__ import annotations

import importlib.util
import math
import re
from itertools import product

import pytest
import torch
from grader.chapters.ch16_published_model.published.opening import PACKAGE, find_source
from grader.chapters.ch18_many_machines.pipeline import bubble, most_kept, time_steps, total_time
from grader.course.syllabus import EXERCISES
from grader.execution.simulated_group import run_ranks
from lesson_tables import says, shown, shows, table_in, tables_of
from transformers import AutoConfig, AutoModelForCausalLM

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
    assert says("ch16", "98 MB, because its embedding, a fifth of all weights, is stored in Q8_0 with {} bits", 34 * 8 / 32) and 0.2 < embedding / weights < 0.22
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
    assert tokenizer.decode(found).rstrip("\n") == re.search(r"```text\n(<.*?)\n```", LESSON, re.DOTALL)[1]
    assert "the seven tokens `<`, `|`, `im`, `_`, `end`, `|`, `>`" in LESSON
    assert [source.tokens[i] for i in tokenizer.encode("<|im_end|>")] == ["<", "|", "im", "_", "end", "|", ">"]
    assert len(source.tokens) == 49_152


@WITH_WEIGHTS
def test_bytes_without_a_token(ours):
    names, tokens = ours.byte_names(), set(find_source(None).tokens)
    missing = [byte for byte in names if names[byte] not in tokens]
    assert says("ch16", "{} of the 256 bytes have no token", len(missing)) and {4, 6} < set(missing)
    in_no_text = set(range(256)) - {byte for c in map(chr, range(0x110000)) if not "\ud800" <= c <= "\udfff" for byte in c.encode()}
    assert {192, 193} < in_no_text <= set(missing)
    words = " ".join(LESSON.split())
    assert "no UTF-8 text contains the bytes 192 and 193" in words and "such as the control characters 4 and 6." in words


@WITH_WEIGHTS
def test_chinese_numerals_are_no_digits(ours):
    source = find_source(None)
    tokenizer = ours.PublishedTokenizer(source.tokens, source.merges, source.special)
    assert says("ch16", "is a single token, {}. Cut behind `一`, it would be two, {} and {}.", *(i for text in ("一个", "一", "个") for i in tokenizer.encode(text)))
    assert len(tokenizer.encode("一个")) == 1 and "`一个`" in LESSON


@pytest.mark.parametrize("name, biased, normed", [("qwen2", True, False), ("qwen3", False, True), ("llama", False, False)])
def test_which_models_have_biases_or_a_norm_of_queries(name, biased, normed):
    """As transformers builds them: the file of a published model has what its architecture has."""
    sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=11)
    with torch.device("meta"):
        theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **sizes))
    names = {key.split("self_attn.")[1] for key in theirs.state_dict() if "self_attn" in key}
    assert ({name for name in names if "bias" in name} == {"q_proj.bias", "k_proj.bias", "v_proj.bias"}) is biased
    assert ({"q_norm.weight", "k_norm.weight"} <= names) is normed
    assert "Qwen 2 and 2.5 have biases in the query, key and value layers. Qwen 3 has no biases there, but a norm of queries and keys," in " ".join(LESSON.split())


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
    second = sum(weight.numel() for name, weight in model.named_parameters() if name.startswith("blocks.0.attn.W_v") and weight.requires_grad)
    assert says("ch17", "The value layer has {} outputs, three heads of 64, so its adapter has 8 · (576 + {}) = {}.", 192, 192, second)
    assert says("ch17", "these are 30 · ({} + {}) = {} trained numbers, {} % of the model.", adapter, second, trained, 100 * trained / whole)


def change_of_a_layer(ours, make_optimizer, alpha, lr, steps):
    """How far an adapter has moved the weight of a layer."""
    draw = torch.Generator().manual_seed(0)
    weight, target = (torch.randn(64, 64, generator=draw, dtype=torch.float64) / 8 for _ in range(2))
    linear = torch.nn.Linear(64, 64, bias=False, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(weight)
    torch.manual_seed(0)
    lora = ours.LoRALinear(linear, 8, alpha)
    optimizer = make_optimizer([lora.A, lora.B], lr=lr)
    for _ in range(steps):
        x = torch.randn(32, 64, generator=draw, dtype=torch.float64)
        loss = (lora(x) - x @ (weight + target).T).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (lora.merged().weight - weight).norm().item()


def test_twice_the_alpha_and_half_the_rate(ours):
    ratios = {}
    for make_optimizer in (ours.AdamW, torch.optim.SGD):
        for steps in (1, 10, 50):
            changes = [change_of_a_layer(ours, make_optimizer, alpha, lr, steps) for alpha, lr in ((16, 0.005), (8, 0.01))]
            ratios[make_optimizer, steps] = changes[0] / changes[1]
    adam, sgd = ([ratios[optimizer, steps] for steps in (1, 10, 50)] for optimizer in (ours.AdamW, torch.optim.SGD))
    assert says("ch17", "In an example here (width {}, rank {}, alpha {} or {}, rate {} or {})", 64, 8, 8, 16, 0.01, 0.005)
    assert says("ch17", "the change is {} times the other one after 1 step, {} times after 10 steps and {} times after 50.", *adam)
    assert says("ch17", "The change is {} times as large after 1 step, and {} times after 50.", sgd[0], sgd[2])


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
    rows = table_in("ch17", "DPO: the model is its own reward model", 1)
    values = [torch.tensor([numbers(row[column])[0]], requires_grad=column == 1) for column in (1, 2) for row in rows]
    loss, chosen, rejected = ours.dpo_loss(*values, 0.1)
    loss.backward()
    assert [shows(row[3], reward.item()) for row, reward in zip(rows, (chosen, rejected))] == [True, True]
    assert says("ch17", "The difference is {}, σ(0.3) = {}, and the loss is {}.", (chosen - rejected).item(), math.exp(-loss.item()), loss.item())
    assert says("ch17", "is -0.1 · σ(-0.3) = {}, and that by the rejected one is {}.", values[0].grad.item(), values[1].grad.item())


def test_the_small_case_of_the_best_policy():
    best = 0.5 * math.exp(2) / (0.5 * math.exp(2) + 0.5)
    for row, better in zip(table_in("ch17", "DPO: the model is its own reward model"), (0.5, best, 1.0), strict=True):
        kl = sum(share * math.log(share / 0.5) for share in (better, 1 - better) if share)
        assert shows(" ; ".join(row[1:]), better, kl, better - 0.5 * kl)
    assert says("ch17", "0.5 · e² / (0.5 · e² + 0.5) = {}.", best)
    assert says("ch17", "in the small case {}.", 0.5 * math.log(0.5 * math.exp(2) + 0.5))


def test_the_best_policy_under_a_reward_and_a_kl_penalty():
    """Both lines of the derivation are the same number for every policy; it is largest for the one that is called the best."""
    draw = torch.Generator().manual_seed(0)
    fixed, *policies = torch.randn(6, 5, generator=draw, dtype=torch.float64).softmax(-1)
    reward, beta = torch.randn(5, generator=draw, dtype=torch.float64), 0.3
    unnormalised = fixed * (reward / beta).exp()
    Z = unnormalised.sum()
    best = unnormalised / Z

    def kl(one, other):
        return (one * (one / other).log()).sum()

    def objective(policy):
        return (policy * reward).sum() - beta * kl(policy, fixed)

    for policy in policies:
        torch.testing.assert_close(objective(policy), -beta * kl(policy, best) + beta * Z.log())
        assert objective(policy) < objective(best)
    assert "-β · E(log π - log π_best) + β · log Z = -β · KL(π, π_best) + β · log Z\n" in TUNING


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_how_far_has_the_policy_moved(ours, kind):
    *rows, expectation = table_in("ch17", "How far has the policy moved?")
    policy, fixed = (torch.tensor([numbers(row[column])[0] for row in rows], dtype=torch.float64) for column in (1, 2))
    column = {"k1": 3, "k2": 4, "k3": 5}[kind]
    estimates = ours.kl_estimate(policy.log(), fixed.log(), kind)
    assert all(shows(row[column], estimate) for row, estimate in zip(rows, estimates.tolist()))
    assert shows(expectation[column], (policy * estimates).sum().item())


def test_the_expected_gradient_of_each_estimate(ours):
    """What a loss on drawn tokens does to the policy's logits, and which divergence has this gradient."""
    *rows, _ = table_in("ch17", "How far has the policy moved?")
    policy, fixed = (torch.tensor([numbers(row[column])[0] for row in rows], dtype=torch.float64) for column in (1, 2))
    for name, *said in table_in("ch17", "How far has the policy moved?", 1):
        logits = policy.log().requires_grad_()
        probabilities = logits.softmax(-1)
        if name.startswith("k"):
            losses = ours.kl_estimate(logits.log_softmax(-1), fixed.log(), name)
            (policy * losses).sum().backward()  # the tokens are drawn: their probabilities have no gradient
        else:
            one, other = (probabilities, fixed) if name == "KL(policy ‖ reference)" else (fixed, probabilities)
            (one * (one / other).log()).sum().backward()
        assert shows(" ; ".join(said), *[0.0 if abs(number) < 1e-9 else number for number in logits.grad.tolist()]), name


def test_the_mean_of_a_group_contains_the_reward_itself(ours):
    """The expected gradient over all groups of four that can be drawn, against that without a mean."""
    chances, rewards, n = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64), torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64), 4
    scores = torch.eye(3, dtype=torch.float64) - chances  # the gradient of log π of each answer
    unbiased = (chances * rewards) @ scores
    found = torch.zeros(3, dtype=torch.float64)
    for drawn in product(range(3), repeat=n):
        group = torch.tensor(drawn)
        advantages = ours.group_advantages(rewards[group], n, normalise=False)
        found += chances[group].prod() * (advantages @ scores[group]) / n
    torch.testing.assert_close(found, (n - 1) / n * unbiased)
    assert says("ch17", "is (n - 1) / n of the unbiased one, so {} of it with four.", (n - 1) / n)


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
    assert says("ch18", "Each stage works for {} of the {} units.", 8, total_time(timed))
    assert says("ch18", "(n_stages - 1) / (n_micro + n_stages - 1) = {} / {}.", 2, 6) and math.isclose(bubble(timed), 2 / 6)
    assert says("ch18", "With 100 micro-batches the bubble is {} / {} of the whole time, gpipe keeps {}, and 1f1b still {}.", 2, 102, 100, 3)
    assert [most_kept(ours.pipeline_schedule(3, 100, kind)[0]) for kind in ("gpipe", "1f1b")] == [100, 3]
