"""The numbers that lesson 18 works out by hand are what the reference computes, and what is said about bytes is what a ring sends."""

from __future__ import annotations

import re
import tomllib

import pytest
import torch
from grader.chapters.ch18_many_machines.counting import CountedGroup
from grader.chapters.ch18_many_machines.pipeline import bubble, most_kept, time_steps
from grader.course.syllabus import ROOT
from grader.execution.simulated_group import run_ranks
from lesson_tables import says, shown, shows, table_in

MISTAKES = tomllib.loads((ROOT / "tests/misconceptions/ch18_many_machines.toml").read_text(encoding="utf-8"))


def numbers(text):
    return [number for number, _ in shown(text)]


def sent(n, *calls):
    """What rank 0 of n sends in a ring, in bytes, if each rank makes these calls with so many float32 numbers."""

    def make(group):
        counted = CountedGroup(group)
        for call, count in calls:
            getattr(counted, call)(torch.ones(count))
        return counted.ring_bytes()

    return run_ranks(make, n)[0][0]


def test_a_sum_around_a_ring(ours):
    rows = table_in("ch18", "A sum around a ring")
    given = [torch.tensor(numbers(cell)) for cell in rows[0][1:]]
    changed = [[], [], []]

    def ring(group):
        counted = CountedGroup(group)
        total = ours.ring_all_reduce(given[group.rank], counted)
        changed[group.rank] = [message.tensor for message in counted.messages]
        return total

    for rank, total in enumerate(run_ranks(ring, 3)[0]):
        assert shows(rows[-1][1 + rank], *total.tolist())
        assert sum(tensor.numel() for tensor in changed[rank]) == 4
        for step, tensor in enumerate(changed[rank][1:], start=1):  # what a rank has changed in one step, it sends in the next
            assert tensor.item() in set(numbers(rows[step][1 + rank])) - (set(numbers(rows[step - 1][1 + rank])) if step < 3 else set())
    assert says("ch18", "each rank sends {} GB.", 2 * 99 / 100) and says("ch18", "its connection would carry {} GB in each direction.", 99)


def test_the_mean_of_means_and_who_divides(ours):
    rows = torch.tensor([1.0, 1.0, 1.0, 5.0])
    layer = torch.nn.Linear(1, 1, bias=False)
    layer(rows[:, None]).mean().backward()

    def shard_gradient(group):
        part = ours.FullyShardedLinear(layer, group)
        part(ours.shard_batch(rows, group.rank, group.size)[:, None]).mean().backward()
        return part.shard.grad[0].item()

    total = run_ranks(shard_gradient, 2)[0][0]
    means = [half.mean().item() for half in rows.split(2)]
    assert says("ch18", "the sum is {} + {} = {}, and 4 / 2 = {} is the gradient of the whole batch.", *means, total, layer.weight.grad.item())
    assert total / 2 == layer.weight.grad.item() == rows.mean().item()
    assert "the sum over all ranks, not the mean" in " ".join(ours.FullyShardedLinear.__doc__.split())
    assert "divides the shard's gradient by n" in " ".join(ours.FullyShardedLinear.__doc__.split())


def test_where_the_memory_goes(ours):
    gigabytes, n = 28, 8
    for row, sharded in zip(table_in("ch18", "Where the memory goes"), ((1, 1, 1), (1, 1, n), (n, n, n)), strict=True):
        kept = [size / parts for size, parts in zip((gigabytes, gigabytes, 2 * gigabytes), sharded)]
        assert shows(" ; ".join(row[1:]), *kept, sum(kept))
    assert says("ch18", "Data parallel sends 2 · 7/8 · 28 = {} GB", 2 * 7 / 8 * gigabytes)
    assert says("ch18", "a step is an all-reduce and an all-gather: {} GB,", 3 * 7 / 8 * gigabytes)
    assert says("ch18", "Both together are an all-reduce, {} GB,", 2 * 7 / 8 * gigabytes)
    assert says("ch18", "gradients are reduce-scattered: {} GB.", 3 * 7 / 8 * gigabytes)

    def step(group):
        torch.manual_seed(0)
        model, counted = torch.nn.Linear(7, 8), CountedGroup(group)  # 64 numbers
        model(torch.ones(1, 7)).sum().backward()
        ours.average_gradients(model, counted)
        ours.ShardedAdamW(model.parameters(), counted).step()
        return counted.ring_bytes()

    whole = sent(n, ("all_reduce", 64))
    assert run_ranks(step, n)[0][0] == 1.5 * whole  # ShardedAdamW
    assert sent(n, ("reduce_scatter", 64), ("all_gather", 64 // n)) == whole  # ZeRO's stages 1 and 2
    assert sent(n, ("all_gather", 64 // n), ("all_gather", 64 // n), ("reduce_scatter", 64)) == 1.5 * whole


def test_a_layer_that_two_ranks_compute_together(ours):
    rows = table_in("ch18", "A layer that two ranks compute together")
    up = torch.nn.Linear(2, 4, bias=False)
    up.weight.data = torch.tensor([pair for row in rows for pair in zip(*[iter(numbers(row[1]))] * 2)])
    down = torch.nn.Linear(4, 1, bias=False)
    down.weight.data.fill_(1.0)

    def together(group):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        hidden = ours.ColumnParallelLinear(up, group)(x).relu()
        part = torch.autograd.grad(hidden.sum(), hidden, retain_graph=True)[0] @ (ours.ColumnParallelLinear(up, group).weight * (hidden > 0)[:, None])
        output = ours.RowParallelLinear(down, group)(hidden)
        output.backward()
        return hidden.tolist(), part.tolist(), output.item(), x.grad.tolist()

    for row, (hidden, part, output, gradient) in zip(rows, run_ranks(together, 2)[0], strict=True):
        assert shows(row[2], *hidden) and shows(row[3], sum(hidden)) and shows(row[4], *part)
        assert output == 6 and gradient == [2, 2]


def test_a_pipeline(ours):
    rows = table_in("ch18", "A pipeline")
    for kind in ("1f1b", "gpipe"):
        schedule = ours.pipeline_schedule(3, 4, kind)
        timed = time_steps(schedule, lambda *step: 1)
        for row, steps in zip([row for row in rows if row[0].startswith(kind)], timed, strict=True):
            at = {step.start: f"{step.kind[0].upper()}{step.micro}" for step in steps}
            assert list(row[1:]) == [at.get(time, "") for time in range(12)]
        assert bubble(timed) == pytest.approx(4 / 12) and (12 - 8) / 8 == (3 - 1) / 4
        assert [max(map(most_kept, ours.pipeline_schedule(3, m, kind))) for m in (4, 100)] == ([4, 100] if kind == "gpipe" else [3, 3])
    assert says("ch18", "which is (n_stages - 1) / (n_micro + n_stages - 1) = {} / {}.", 3 - 1, 4 + 3 - 1)
    assert says("ch18", "{} / {}, which is (n_stages - 1) / n_micro = {} / {}.", 4, 8, 3 - 1, 4)
    assert says("ch18", "With 100 micro-batches the bubble is {} / {} of the whole time", 3 - 1, 100 + 3 - 1)


def test_the_sum_of_the_gradients_changes_gradient_descent_and_clipping_but_hardly_adamw(ours):
    n = 4
    torch.manual_seed(0)
    x, y, whole = torch.randn(16, 4), torch.randn(16, 1), torch.nn.Linear(4, 1)

    def move(make_optimizer, factor, steps=10):
        model = torch.nn.Linear(4, 1)
        model.load_state_dict(whole.state_dict())
        optimizer = make_optimizer(model.parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            (factor * (model(x) - y).square().mean()).backward()
            optimizer.step()
        return (model.weight - whole.weight).detach()

    descent = [move(lambda parameters: torch.optim.SGD(parameters, 1e-3), factor, steps=1) for factor in (1, n)]
    assert torch.allclose(descent[1], n * descent[0], rtol=1e-3, atol=1e-7)
    adamw = [move(lambda parameters: ours.AdamW(parameters, lr=1e-3), factor) for factor in (1, n)]
    assert (adamw[1] - adamw[0]).abs().max() < 1e-4 * adamw[0].abs().max()
    norms = []
    for factor in (1, n):
        whole.zero_grad()
        (factor * (whole(x) - y).square().mean()).backward()
        norms.append(float(ours.clip_gradients(whole.parameters(), 1e9)))
    assert norms[1] == pytest.approx(n * norms[0])


@pytest.mark.parametrize("n", [2, 4])
def test_the_mistakes_that_say_how_much_more_is_sent_say_it_truly(n):
    N = 8
    true = {
        "twice as much as an all_gather of": sent(n, ("all_reduce", N)) / sent(n, ("all_gather", N // n)) == 2,
        "n / 2 times as much as an all_reduce": sent(n, ("all_gather", N)) / sent(n, ("all_reduce", N)) == n / 2,
        "n - 1 times the tensor instead of less than twice": 4 * N * (n - 1) >= sent(n, ("all_reduce", N)) < 2 * 4 * N,
    }
    said = [re.search(r"sends ((?:n\b|twice)[^.]*)", mistake["says"]) for exercise in MISTAKES.values() for mistake in exercise.values()]
    said = [match[1] for match in said if match]
    assert len(said) == 5 and all(any(sentence.startswith(start) and true[start] for start in true) for sentence in said), said


def test_both_tables_of_the_lab_about_bytes_have_one_unit():
    counted, speeds = (table_in("ch18", "Lab bytes: what costs less to send, gradients or activations?", place) for place in (0, 1))
    n, D = 4, 32
    parameters = 12 * D**2 + 13 * D  # with four biases of attention, two of the feed-forward layer, and two norms
    for tokens, data, tensor in counted:
        assert shows(data, 4 * 2 * (n - 1) / n * parameters) and shows(tensor, 4 * 2 * (n - 1) / n * 4 * numbers(tokens)[0] * D)
    n, D, layers, speed = 8, 4096, 32, 2e14
    for tokens, *gains in speeds:
        tokens = numbers(tokens)[0]
        alone = 6 * 12 * layers * D**2 * tokens / speed
        messages = [4 * 2 * (n - 1) / n * count for count in (12 * layers * D**2, 4 * layers * tokens * D)]
        assert shows(" ; ".join(gains), *(alone / (alone / n + sent / (link * 1e9)) for link in (10, 50, 400) for sent in messages))


def test_what_slow_ranks_cost():
    assert says("ch18", "the chance that at least one has a pause is 1 - 0.9⁴ = {} %, and 1 + 2 · 0.344 = {} is close", 100 * (1 - 0.9**4), 1 + 2 * (1 - 0.9**4))
    assert says("ch18", "a rank at half the speed would cost {} % instead of 100 %.", 100 * (4 / (3 + 1 / 2) - 1))
