"""What `headway measure cache` counts is what torch counts, and lesson 10's table contains it."""

from __future__ import annotations

import re

import pytest
import torch
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import cache
from grader.teaching.measurements.cache import LAYERS, PROMPT, TOKENS, VOCABULARY, WIDTH, count_work, format_count, main, measure, multiply_adds, time_each_token
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.thorough

LESSON = EXERCISES / "ch10_kv_cache.md"


@pytest.fixture(scope="module")
def chapters():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch10"), whole=True), "tested")
    yield package.module("ch10_kv_cache"), package.module("ch09_sampling"), package.module("ch07_models")
    package.close()


def small(models, **others):
    return models.GPTConfig(**{"vocab_size": 11, "max_len": 40, "d_model": 12, "n_heads": 3, "n_layers": 2} | others)


def counted(f) -> int:
    with FlopCounterMode(display=False) as counter:
        f()
    assert counter.get_total_flops() % 2 == 0
    return counter.get_total_flops() // 2  # a multiplication and an addition are two


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_formula_is_what_torch_counts(chapters, positions, layers):
    chapter, _, models = chapters
    config = small(models, positions=positions, n_layers=layers)
    model = chapter.CachedGPT(config)
    for past, new in ((0, 9), (0, 1), (9, 1), (5, 4)):
        caches = model.new_caches()
        ids = torch.arange(past + new)[None] % 11
        if past:
            model(ids[:, :past], caches)
        assert counted(lambda: model(ids[:, past:], caches)) == multiply_adds(config, new, past + new)  # noqa: B023


@pytest.mark.parametrize(("prompt", "tokens"), [(1, 6), (9, 1), (7, 8)])
def test_whole_texts_are_counted_as_torch_counts_them(chapters, prompt, tokens):
    chapter, sampling, models = chapters
    config = small(models)
    model, ids = chapter.CachedGPT(config), torch.arange(prompt)[None] % 11
    ways = [lambda generate=generate: generate(model, ids, tokens, temperature=0.0) for generate in (sampling.generate, chapter.generate_cached)]
    assert tuple(counted(way) for way in ways) == count_work(config, prompt, tokens)


def test_rows_and_texts(chapters):
    chapter, sampling, models = chapters
    on_tokens = []
    rows, same = measure(chapter, sampling.generate, small(models), 8, (2, 6), 3, on_tokens.append)
    assert same and [row.tokens for row in rows] == [2, 6]
    assert all(row.seconds > 0 and row.seconds_cached > 0 and row.faster == row.seconds / row.seconds_cached for row in rows)
    assert [row.bytes for row in rows] == [2 * 2 * 3 * 4 * (8 + n) * 4 for n in (2, 6)]
    assert sum(on_tokens) == 3 * (6 + 2 + 6)


def test_another_text_is_noticed(chapters):
    chapter, _, models = chapters

    def stubborn(model, ids, tokens, temperature):
        for _ in range(tokens):
            model(ids)
        return torch.cat([ids, ids.new_full((1, tokens), 3)], dim=1)

    assert not measure(chapter, stubborn, small(models), 8, (4,), 1)[1]


def test_times_rise_from_token_to_token(chapters):
    chapter, sampling, models = chapters
    times, text = time_each_token(sampling.generate, chapter.CachedGPT(small(models)), torch.zeros(1, 3, dtype=torch.long), 5)
    assert len(times) == 5 and times == sorted(times) and text.shape == (1, 8)


@pytest.mark.parametrize(
    ("count", "said"), [(0.87, "0.9"), (3, "3.0"), (42, "42"), (999, "999"), (1234, "1.2k"), (9960, "10k"), (78_643_200, "79M"), (3e15, "3000T")]
)
def test_counts_in_few_digits(count, said):
    assert format_count(count) == said


def test_the_tables_are_printed(capsys):
    assert main(["--tokens", "3", "--prompt", "4", "--width", "16", "--layers", "1", "--runs", "1"]) == 0
    out = capsys.readouterr().out
    for word in ("one thread", "tokens/s", "faster", "multiply-adds", "a prompt of 4 tokens"):
        assert word in out
    assert "differ" not in out


def test_a_learner_without_a_cache_gets_a_message(capsys, tmp_path):
    for name in ("ch01_tokenizer", "ch10_kv_cache"):
        (tmp_path / f"{name}.py").write_text((EXERCISES / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["--target", str(tmp_path), "--tokens", "3", "--prompt", "4"])
    assert "Traceback" not in capsys.readouterr().err


def lesson_rows() -> list[list[str]]:
    """The table's rows: tokens, per second without and with, how much faster, multiply-adds without and with, how many fewer, memory."""
    text = LESSON.read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text[text.index("### Measured") :].splitlines() if re.match(r"\| [\d,]+ \|", line)]
    return cells[: len(TOKENS)]


def test_the_lessons_counts_are_those_of_the_formula(chapters):
    """Speeds differ from machine to machine; the numbers of operations and bytes do not."""
    chapter, _, models = chapters
    config = models.GPTConfig(VOCABULARY, PROMPT + max(TOKENS), d_model=WIDTH, n_heads=cache.HEADS, n_layers=LAYERS)
    rows = lesson_rows()
    assert [int(row[0].replace(",", "")) for row in rows] == list(TOKENS)
    for n, row in zip(TOKENS, rows):
        without, cached = count_work(config, PROMPT, n)
        cache_bytes = chapter.kv_cache_bytes(LAYERS, cache.HEADS, WIDTH // cache.HEADS, PROMPT + n, bytes_per_value=4)
        assert row[4:] == [format_count(without), format_count(cached), f"{without / cached:.0f}x", f"{cache_bytes / 2**20:.1f} MiB"]


def test_the_lessons_speed_up_is_the_promised_one():
    """Twenty times at 256 tokens and more, and the quotient of the speeds in the same row."""
    for tokens, without, cached, faster, *_ in lesson_rows():
        quotient = float(cached.replace(",", "")) / float(without.replace(",", ""))
        assert float(faster.rstrip("x")) == pytest.approx(quotient, rel=0.05, abs=0.6)
        assert int(tokens.replace(",", "")) < 200 or quotient >= 20
