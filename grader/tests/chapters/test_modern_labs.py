"""The measurements of lesson 20's labs: what they compute is what they say."""

from __future__ import annotations

import pytest
import torch
from grader.chapters.ch20_modern_block import stretching, updates
from grader.chapters.ch20_modern_block.small_model import read_stories, train
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.teaching.measurements import run_measurement


@pytest.fixture(scope="module")
def stories():
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
    yield read_stories(package, 0)
    package.close()


def small_gpt(stories, seed: int = 0):
    torch.manual_seed(seed)
    sizes = dict(d_model=stretching.WIDTH, n_heads=stretching.HEADS, n_layers=2, positions="rope")
    model = stories.parts.GPT(stories.parts.GPTConfig(stories.vocab_size, 8, **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model.eval()


def test_plain_angles_change_nothing_and_the_others_do(stories):
    model, ids = small_gpt(stories), stories.held_out[:32][None]
    expected, ways = model(ids)[0], stretching.ways(stories.parts, 8)
    for name, angles in ways.items():
        logits = stretching.stretched(stories.parts, model, angles)(ids)[0]
        assert logits.allclose(expected, atol=1e-4) == (name == "plain RoPE")
    positions = torch.arange(32)
    assert ways["all frequencies divided"](positions)[0].allclose(ways["plain RoPE"](positions / 4)[0])
    assert ways["YaRN"](positions)[1] > 1 == ways["YaRN, fast = 4, no scale"](positions)[1]


@torch.no_grad()
def test_losses_are_those_of_the_positions_that_the_columns_name(stories):
    model = small_gpt(stories)
    found = stretching.losses(stories, model, 8, 3)
    ids = stories.held_out[: 3 * 32 + 1]
    logits = model(ids[:-1].view(3, 32))[0]
    surprise = -torch.log_softmax(logits, -1).gather(-1, ids[1:].view(3, 32, 1))[..., 0].mean(0)
    assert found == pytest.approx([float(surprise[part].mean()) for part in (slice(8), slice(8, 16), slice(16, 32))], rel=1e-4)


def test_a_training_ends_with_a_lower_loss_and_repeats(stories):
    parts, finals = stories.parts, []
    for _ in range(2):
        model = small_gpt(stories)
        before = stretching.losses(stories, model, 8, 3)
        train(stories, model, parts.AdamW(model.parameters(), lr=3e-3), 5, 8, 0, lambda: None)
        finals.append(stretching.losses(stories, model, 8, 3))
        assert sum(finals[-1]) < sum(before)
    assert finals[0] == finals[1]


def test_a_share_is_a_singular_value_divided_by_the_largest():
    left, right = (torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)))[0] for seed in (1, 2))
    matrix = left @ torch.diag(torch.linspace(2.0, 0.74, 64)) @ right
    assert updates.shares(matrix) == pytest.approx([(2 - 0.02 * (place - 1)) / 2 for place in updates.SINGULAR_VALUE_PLACES], abs=1e-4)


def test_both_measurements_print_their_tables(capsys):
    run_measurement("muon_values", ["--steps", "3"])
    run_measurement("yarn_lengths", ["--steps", "3", "--later", "2", "--length", "16", "--texts", "2"])
    said = capsys.readouterr().out
    assert "blocks.1.ffn.up: Muon" in said and "number 48" in said and "Training loss after 3 steps" in said
    assert "After 2 steps on long rows" in said and "32-63" in said and said.count("all frequencies divided") == 2
