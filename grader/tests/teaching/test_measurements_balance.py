"""The measurement of chapter 11's lesson, reduced to seconds: do collapsed experts spread out?"""

from __future__ import annotations

import re

import pytest
import torch
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import balance
from grader.teaching.measurements.balance import EXPERTS, FACTORS, TOP_KS, make_collapsed_layer, make_rows, measure

pytestmark = pytest.mark.thorough

LESSON = EXERCISES / "ch11_moe.md"


@pytest.fixture(scope="module")
def chapter():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch11"), whole=True), "tested")
    yield package.module("ch11_moe")
    package.close()


@pytest.fixture(scope="module")
def runs(chapter):
    return {(run.top_k, run.factor): run.checkpoints for run in measure(chapter, steps=200, factors=(0.0, 0.1))}


def test_all_begin_collapsed_and_alike(runs):
    for top_k in TOP_KS:
        without, with_loss = runs[top_k, 0.0][0], runs[top_k, 0.1][0]
        assert without == with_loss
        assert without.shares == pytest.approx([1 / top_k] * top_k + [0.0] * (EXPERTS - top_k))
        assert without.loss > 0.9 * EXPERTS / top_k and without.effective_experts == pytest.approx(top_k)


@pytest.mark.parametrize("top_k", TOP_KS)
def test_with_the_balance_loss_they_spread_out_and_without_it_they_do_not(runs, top_k):
    before, without, with_loss = runs[top_k, 0.0][0], runs[top_k, 0.0][200], runs[top_k, 0.1][200]
    assert without.shares == pytest.approx(before.shares, abs=0.02) and without.loss > 0.9 * before.loss
    assert min(with_loss.shares) > 0.08 and with_loss.effective_experts > 3.5 and with_loss.loss < 1.25
    assert max(with_loss.error, without.error) < 0.5 * before.error


def test_with_one_expert_a_token_nothing_but_the_loss_moves_the_router(chapter):
    """Exactly: the weight is the constant 1 for every score."""
    layer = make_collapsed_layer(chapter, 1, seed=3)
    x = torch.randn(5, 6, balance.D_MODEL)
    x[..., 0] = 1.0
    found, aux_loss = layer(x)
    by_task, by_loss = (torch.autograd.grad(part, layer.router.weight, retain_graph=True, allow_unused=True)[0] for part in (found.square().sum(), aux_loss))
    assert by_task is None or float(by_task.abs().max()) < 1e-5
    assert float(by_loss[0].abs().max()) > 0.01


def test_with_two_the_task_moves_only_the_chosen_ones_scores(chapter):
    layer = make_collapsed_layer(chapter, 2, seed=3)
    x = torch.randn(5, 6, balance.D_MODEL)
    x[..., 0] = 1.0
    found, aux_loss = layer(x)
    by_task, by_loss = (torch.autograd.grad(part, layer.router.weight, retain_graph=True)[0] for part in (found.square().sum(), aux_loss))
    assert by_task[:2].abs().max() > 0.01 and by_task[2:].abs().max() < 1e-5
    assert all(by_loss.abs().amax(1) > 1e-4)


def test_a_seed_gives_the_same_numbers_and_leaves_the_random_state_alone(chapter):
    before = torch.get_rng_state()
    once, again, other = (measure(chapter, seed, steps=10, top_ks=(2,), factors=(0.1,)) for seed in (3, 3, 4))
    assert once == again != other
    assert torch.equal(before, torch.get_rng_state())


def test_a_table_is_printed_and_the_lesson_has_the_same_one(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    threads = torch.get_num_threads()
    try:
        assert balance.main(["--steps", "10"]) == 0
    finally:
        torch.set_num_threads(threads)
    out = capsys.readouterr().out
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    printed = [re.findall(r"step \d+|\S+", line) for line in out.splitlines() if re.match(r" (k factor|\d +[\d.]+) ", line)]
    runs = [[str(k), f"{factor:g}"] for k in TOP_KS for factor in FACTORS]
    assert [line[:2] for line in printed] == [["k", "factor"], *runs]
    section = LESSON.read_text(encoding="utf-8").split("### Measured")[1].split("\n#")[0]
    written = [[cell.strip(" `*") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    assert [line[:2] for line in written if not line[0].startswith("-")] == [["k", "factor"], *runs]
    assert [re.sub(r"step \d+", "step", word) for word in written[0]] == [re.sub(r"step \d+", "step", word) for word in printed[0]]
    for line in written[2:]:
        for shares in line[2:-3]:
            assert sum(map(int, shares.split())) == pytest.approx(100, abs=2) and len(shares.split()) == EXPERTS


def test_rows_contain_shares_in_percent_and_the_end_of_the_run():
    seen = {0: balance.Checkpoint([1.0, 0.0, 0.0, 0.0], 3.9, 1.1), 10: balance.Checkpoint([0.25] * 4, 1.0, 0.2)}
    assert make_rows([balance.Run(1, 0.01, seen)]) == [["1", "0.01", "100 0 0 0", "25 25 25 25", "4.0", "1.00", "0.20"]]


def test_a_failed_measurement_is_one_sentence(capsys, tmp_path):
    nowhere, unwritten, short = ["--target", str(tmp_path / "nowhere")], ["--target", "exercises"], ["--steps", "3"]
    for words, said in ((nowhere, "there is no folder"), (unwritten, "not implemented yet"), (short, "at least 10")):
        with pytest.raises(SystemExit) as ended:
            balance.main(words)
        assert ended.value.code == 2 and said in capsys.readouterr().err
