"""The measurements of lesson 22's labs: what they compute is what they say."""

from __future__ import annotations

import re

import pytest
import torch
from grader.chapters.ch22_recurrent import capacity, chunks, text_lengths
from grader.chapters.small_models import names_of
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.verdict.memory import StorageWatch
from lab_tables import is_near, missing_rows, numbers_in, printed


@pytest.fixture(scope="module")
def parts():
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
    with torch.random.fork_rng(devices=[]):
        yield names_of(*map(package.module, text_lengths.CHAPTERS))
    package.close()


# ---- growth


@torch.no_grad()
def test_a_cache_and_a_state_are_those_of_a_text_that_was_read(parts):
    """And the bytes are those of the positions alone: the cache of chapter 10 has room for more."""
    torch.manual_seed(0)
    attention, layer = parts.CachedSelfAttention(16, 2).eval(), parts.GatedDeltaNet(16, 2).eval()
    torch.manual_seed(1)
    cache, state = text_lengths.read_text(parts, attention, layer, 5)
    torch.manual_seed(1)
    x, expected = torch.randn(1, 5, 16), parts.KVCache()
    attention(x, expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(text_lengths.cache_tensors(cache), text_lengths.cache_tensors(expected)))
    assert text_lengths.count_bytes(text_lengths.cache_tensors(cache)) == 2 * 5 * 16 * 4 == parts.kv_cache_bytes(1, 2, 8, 5, bytes_per_value=4)
    assert torch.allclose(state[1], layer.step(x, layer.new_state(1))[1][1])
    attention(torch.randn(1, 1, 16), cache)
    assert text_lengths.count_bytes(text_lengths.cache_tensors(cache)) == 2 * 6 * 16 * 4 < text_lengths.count_bytes((cache.k, cache.v))


def test_work_is_the_multiplications_of_matrix_products():
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    assert text_lengths.count_multiplications(lambda: a @ b) == 3 * 4 * 5


@torch.no_grad()
def test_a_step_of_each_layer_is_about_as_many_operations_as_the_lesson_says(parts):
    attention, layer, token, cache = parts.CachedSelfAttention(256, 4), parts.GatedDeltaNet(256, 4), torch.randn(1, 1, 256), parts.KVCache()
    attention(token, cache)
    counts = []
    for way in (lambda: layer.step(token, layer.new_state(1)), lambda: attention(token, cache)):
        with StorageWatch((token,)) as seen:
            way()
        counts.append(seen.operators)
    [path] = EXERCISES.glob("ch22_*.md")
    said = re.search(r"is about (\d+) small operations of torch, and one of attention about (\d+)\.", " ".join(path.read_text(encoding="utf-8").split()))
    assert counts == pytest.approx([int(number) for number in said.groups()], rel=0.15)


def is_time(said: str, found: str) -> bool:
    """Counts are the same on every machine. A number with one decimal is a time, which may differ."""
    return said[-2:-1] == "." == found[-2:-1] and numbers_in(said, found) is not None


def test_the_tables_of_lab_growth_are_what_its_command_prints():
    assert missing_rows("ch22", "growth", "recurrent_growth", is_time, "--rounds", "2") == []


# ---- chunks


def test_each_way_computes_the_delta_rule(parts):
    arguments = chunks.make_arguments(13, 4, 2, 0)
    expected = parts.delta_rule(*arguments)
    for name, way in chunks.ways(parts, (1, 5, 99)).items():
        for found, wanted in zip(way(*arguments), expected):
            assert torch.allclose(found, wanted, atol=1e-5), name
    q, k, v, beta, log_decay = arguments
    assert torch.allclose(k.norm(dim=-1), torch.ones(1, 2, 13)) and 0 <= beta.min() and beta.max() <= 1 and -0.1 <= log_decay.min() and log_decay.max() <= 0


def test_the_multiplications_of_a_triangular_system_are_counted():
    system, right = torch.eye(5)[None], torch.ones(1, 5, 3)
    with chunks.WorkWatch((system, right)) as seen:
        torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    assert seen.products == 3 * (4 + 3 + 2 + 1)


def test_the_table_of_lab_chunks_is_what_its_command_prints():
    assert missing_rows("ch22", "chunks", "recurrent_chunks", is_time, "--rounds", "1") == []


# ---- capacity


def test_a_state_holds_as_many_keys_at_right_angles_as_it_is_wide(parts):
    keys, values = torch.eye(6)[None, None], torch.randn(1, 1, 6, 3, generator=torch.Generator().manual_seed(0))
    for name, way in capacity.ways(parts).items():
        state = way(keys, values)
        assert torch.allclose(keys @ state, values, atol=1e-5), name
        assert capacity.errors_of(state, keys, values).max() < 1e-9 and capacity.is_right(state, keys, values).all()


def test_an_error_of_1_is_to_return_nothing_and_a_wrong_answer_is_nearer_to_another_value():
    keys, values = torch.eye(2)[None, None], torch.tensor([[[[3.0, 0.0], [0.0, 3.0]]]])
    nothing = torch.zeros(1, 1, 2, 2)
    assert capacity.errors_of(nothing, keys, values).tolist() == [[1, 1]]
    exchanged = values.flip(2)
    assert capacity.is_right(exchanged, keys, values).tolist() == [[False, False]]
    assert capacity.score(lambda k, v: exchanged, keys, values) == "2.00, 0%"


def test_keys_have_the_length_1_and_the_sum_has_the_error_that_the_lesson_derives(parts):
    keys, values = capacity.draw_pairs(24, 16, 400, torch.Generator().manual_seed(0))
    assert torch.allclose(keys.norm(dim=-1), torch.ones(1, 400, 24))
    state = capacity.ways(parts)["sum"](keys, values)
    assert float(capacity.errors_of(state, keys, values).mean()) == pytest.approx(23 / 16, rel=0.05)


def test_the_tables_of_lab_capacity_are_nearly_what_its_command_prints():
    def near(said: str, found: str) -> bool:
        return is_near(said.strip(","), found.strip(","))

    assert missing_rows("ch22", "capacity", "recurrent_capacity", near) == []


def test_another_seed_gives_other_numbers():
    run = [printed("recurrent_capacity", "--draws", "2", "--width", "8", *seed) for seed in ((), (), ("--seed", "1"))]
    assert run[0] == run[1] != run[2]
