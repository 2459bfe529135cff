"""Chapter 18 on simulated ranks: times and bytes follow their laws, the walk says what happened, and the labs' tables are what their commands print."""

from __future__ import annotations

import io
import random
from contextlib import redirect_stdout

import pytest
import torch
from grader.chapters.ch18_many_machines import labs as machine_labs
from grader.chapters.ch18_many_machines import one_block, one_step
from grader.chapters.ch18_many_machines.counting import CountedGroup
from grader.chapters.ch18_many_machines.pipeline import (
    ScheduleProblem,
    bubble,
    most_kept,
    pass_time,
    time_steps,
    total_time,
)  # fmt: skip
from grader.chapters.small_models import small_gpt
from grader.course.syllabus import EXERCISES
from grader.execution.simulated_group import run_ranks
from grader.teaching.measurements import run_measurement
from grader.teaching.walks import load
from grader.teaching.walks.parts import MixedChapters
from lesson_tables import words_of
from walk_runs import changed, check_walk, printed_text, run_once


@pytest.fixture(scope="module")
def parts():
    parts = MixedChapters(load("machines").REQUIRED_EXERCISES, ())
    yield parts
    parts.close()


# ---- the times of a pipeline


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("n", "m"), [(1, 3), (3, 5), (5, 2)])
def test_each_step_begins_as_soon_as_what_it_needs_has_ended(parts, kind, n, m):
    draw = random.Random(n * m)
    times = {(stage, pass_, micro): draw.randint(1, 9) for stage in range(n) for pass_ in ("forward", "backward") for micro in range(m)}
    schedule = parts.pipeline_schedule(n, m, kind)
    timed = time_steps(schedule, lambda *step: times[step])
    assert [[(step.kind, step.micro) for step in steps] for steps in timed] == schedule
    ends = {(stage, step.kind, step.micro): step.end for stage, steps in enumerate(timed) for step in steps}
    for stage, steps in enumerate(timed):
        for before, step in zip([None, *steps], steps):
            needed = [(stage - 1, "forward", step.micro)] if step.kind == "forward" else [(stage + 1, "backward", step.micro), (stage, "forward", step.micro)]
            found = [ends[one] for one in needed if one in ends] + ([before.end] if before else [])
            assert step.start == max(found, default=0) and step.end - step.start == times[stage, step.kind, step.micro]


def test_the_bubble_is_that_of_the_formula_and_1f1b_keeps_as_many_as_there_are_stages(parts):
    for n, m in ((1, 4), (2, 3), (4, 8), (4, 1), (3, 10)):
        for kind in ("gpipe", "1f1b"):
            schedule = parts.pipeline_schedule(n, m, kind)
            timed = time_steps(schedule, pass_time)
            assert bubble(timed) == pytest.approx((n - 1) / (m + n - 1)) and total_time(timed) == 3 * (m + n - 1)
            assert [most_kept(steps) for steps in schedule] == [m if kind == "gpipe" else min(n - stage, m) for stage in range(n)]


def test_stages_that_wait_for_each_other_are_a_sentence():
    crossed = [[("forward", 0), ("backward", 0)], [("forward", 1), ("backward", 1)]]
    with pytest.raises(ScheduleProblem, match="^no stage can go on: stage 0 waits to do backward 0, stage 1 waits to do forward 1$"):
        time_steps(crossed, pass_time)
    with pytest.raises(ScheduleProblem, match="^no stage can go on: stage 0 waits to do backward 0$"):
        time_steps([[("backward", 0), ("forward", 0)]], pass_time)


# ---- what is sent and kept


@pytest.mark.parametrize("n", [1, 3])
def test_the_bytes_of_a_ring_are_those_that_ring_all_reduce_sends(parts, n):
    t = torch.randn(n * 4)

    def both(group):
        by_hand, call, halves = CountedGroup(group), CountedGroup(group), CountedGroup(group)
        parts.ring_all_reduce(t.clone(), by_hand)
        call.all_reduce(t)
        halves.all_gather(halves.reduce_scatter(t))
        return by_hand.ring_bytes(), call.ring_bytes(), halves.ring_bytes()

    for by_hand, call, halves in run_ranks(both, n)[0]:
        assert by_hand == call == pytest.approx(halves) == pytest.approx(2 * (n - 1) * 4 * 4)


def test_every_way_computes_the_gradient_of_one_process_and_keeps_its_share(parts):
    n = 4
    model, ids = small_gpt(parts, 64, 0), torch.randint(64, (8, 9), generator=torch.Generator().manual_seed(0))
    [alone] = one_step.train_one_step(parts, one_step.PLAIN, model, ids, 1)
    plain, state, full = (one_step.train_one_step(parts, way, model, ids, n) for way in one_step.WAYS)
    for rank in (*plain, *state, *full):
        assert torch.allclose(rank.gradient, alone.gradient, atol=1e-6) and alone.gradient.abs().max() > 0.01
    assert torch.allclose(state[0].updated, plain[0].updated, atol=1e-6) and not torch.allclose(plain[0].updated, torch.zeros(()))
    N = sum(parameter.numel() for parameter in model.parameters())
    inside = sum(parameter.numel() for module in model.blocks.modules() if isinstance(module, torch.nn.Linear) for parameter in module.parameters())
    assert (plain[0].kept, state[0].kept, full[0].kept) == (16 * N, 8 * N + 8 * N // n, 16 * (N - inside) + 16 * inside // n)
    share = 4 * (n - 1) / n
    assert [ranks[0].sent for ranks in (plain, state, full)] == pytest.approx([2 * share * N, 3 * share * N, 2 * share * (N - inside) + 3 * share * inside])


def test_a_divided_block_computes_what_the_whole_one_computes(parts):
    torch.manual_seed(0)
    whole, x = one_block.make_block(parts, 32, 4), torch.randn(3, 5, 32)
    for rank in one_block.run_block_in_parts(parts, whole, x, 4):
        assert rank.output_differs < 1e-5 and rank.gradient_differs < 1e-6
        assert rank.calls == {"all_reduce": 4} and rank.shape == (3, 5, 32) and rank.sent == 4 * 1.5 * 4 * x.numel()


# ---- the walk


def test_the_walk_is_found_fits_the_page_and_names_exactly_the_exercises_that_run():
    check_walk("machines")


def test_the_ring_of_the_walk_adds_up():
    n, text = run_once("machines").numbers, run_once("machines").text
    total = torch.tensor(n.ring_given).sum(0).tolist()
    assert n.ring_sums == [total] * 3 and f"the same sum, {' '.join(f'{x:g}' for x in total)}" in " ".join(text.split())
    assert n.ring[0][0] == n.ring_given[0][:2] and n.ring[2][2] in [total[i : i + 2] for i in (0, 2, 4)]
    assert n.ring_bytes == 4 * 8 and n.sent == {2: 32_000, 4: 48_000, 8: 56_000}
    wrong = changed(n, ring_sums=[total, total, [0.0] * 6])
    assert "The ranks have different sums" in printed_text("machines", wrong)


def test_the_walk_says_what_ranks_keep_send_and_compute():
    n, text = run_once("machines").numbers, " ".join(run_once("machines").text.split())
    N = n.parameters
    assert f"plain {4 * N:,} {4 * N:,} {8 * N:,} {16 * N:,} ShardedAdamW {4 * N:,} {4 * N:,} {2 * N:,} {10 * N:,}" in text
    assert n.rank_rows == [2, 2, 2, 2] and sum(n.rank_losses) / 4 == pytest.approx(n.loss, abs=1e-5)
    assert max(n.gradient_differs, n.updates_differ, n.pipeline_differs) < 1e-6 < n.largest_gradient
    assert "4 all_reduce, each of a tensor (2, 12, 32)" in text and "a rank sends 18,432 bytes" in text
    assert n.pipeline_sent == [12_288, 24_576, 24_576, 12_288]


def test_the_time_tables_of_the_walk_are_those_of_the_schedules():
    n, text = run_once("machines").numbers, run_once("machines").text
    assert "  stage 3   .  .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .  .  .  .  .\n" in text
    said = " ".join(text.split())
    assert "Both schedules take 21 units of time. Each stage works for 12 of them. The rest is the bubble, 43% of the time." in said
    assert n.kept_micro == {"gpipe": [4, 4, 4, 4], "1f1b": [4, 3, 2, 1]}
    slower = changed(n, timed=n.timed | {"gpipe": time_steps([[("forward", 0), ("backward", 0)]], pass_time)})
    assert "With 1f1b the pipeline takes 21 units" in printed_text("machines", slower)


# ---- the labs


def printed(*words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        run_measurement(words[0], words[1:])
    return out.getvalue()


@pytest.mark.parametrize("lab", ["bytes", "memory", "bubble", "straggler"])
def test_the_tables_of_a_lab_are_what_its_command_prints(lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = next(text for path in EXERCISES.glob("ch18_*.md") if f"## Lab {lab}:" in (text := path.read_text(encoding="utf-8")))
    section = text[text.index(f"## Lab {lab}:") :].split("\n## ")[0]
    assert f"    headway measure machines_{lab}\n" in section
    rows = [words_of(line.strip("|").split("|")) for line in section.splitlines() if line.startswith("| ") and "---" not in line]
    lines = [words_of(line) for line in printed(f"machines_{lab}").splitlines()]
    assert len(rows) > 7
    assert [row for row in rows if row not in lines] == []


def test_what_waits_more_often_waits_longer():
    draws = 1.0 + 2.0 * (torch.rand(4, 48, generator=torch.Generator().manual_seed(0)) < 0.1)
    once, always = machine_labs.waiting_times(draws)
    assert draws.mean().item() < once < always
    constant = torch.tensor([2.0, 1, 1, 1])[:, None].expand(4, 48)
    assert machine_labs.waiting_times(constant) == (2.0, 2.0)


def test_without_pauses_or_costs_the_tables_say_so():
    rows = [words_of(line) for line in printed("machines_straggler", "--percent", "0").splitlines()]
    assert ["tensor", "1.00", "1.00", "1.00"] in rows and ["pipeline", "1.19", "1.19", "1.00"] in rows
    rows = [words_of(line) for line in printed("machines_bubble", "--cost", "0").splitlines()]
    assert ["16", "4", "228", "228"] in rows


def test_an_option_out_of_range_is_one_sentence(capsys):
    with pytest.raises(SystemExit):
        run_measurement("machines_bytes", ["--bandwidth", "50", "0"])
    assert "--bandwidth must be from 1 to 1000000, not 0" in capsys.readouterr().err
