"""The measurements of lesson 19's labs: what they compute is what they say, and what the lesson concludes holds."""

from __future__ import annotations

import io
import math
from collections import Counter
from contextlib import redirect_stdout
from functools import cache

import pytest
import torch
from grader.chapters.ch19_data_and_scale import bands, copies, filters, mixtures
from grader.chapters.ch19_data_and_scale.small_gpt import loss_on, read_stories, train
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.teaching.measurements import list_measurements, run_measurement

LABS = ("bands", "duplicates", "filters", "mixture")


@pytest.fixture(scope="module")
def chapters():
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
    with torch.random.fork_rng(devices=[]):
        yield package
    package.close()


@pytest.mark.parametrize("similarity", bands.SIMILARITIES)
def test_a_pair_has_exactly_its_similarity(chapters, similarity):
    chapter = chapters.module("ch19_data_and_scale")
    assert chapter.jaccard(*bands.make_pair("x", similarity)) == pytest.approx(similarity)
    assert not set.union(*bands.make_pair("x", similarity)) & set.union(*bands.make_pair("y", similarity))


def test_bands_find_what_the_formula_says(chapters):
    """Within five standard deviations of 30 pairs."""
    chapter = chapters.module("ch19_data_and_scale")
    for similarity in (0.3, 0.6):
        for number, found in zip(bands.BANDS, bands.shares_found(chapter, similarity, 30, 0)):
            expected = bands.share_expected(similarity, number)
            assert abs(found - expected) <= 5 * math.sqrt(expected * (1 - expected) / 30) + 0.01, number


def test_the_pages_are_what_their_names_say(chapters):
    words = filters.prose(0, 3).split()
    for make in (filters.shuffled, filters.backwards):
        assert Counter(make(0, 3).split()) == Counter(words) and make(0, 3).split() != words
    reasons = {name: chapters.module("ch19_data_and_scale").quality_reasons(make(0, 3)) for name, make in filters.PAGES.items()}
    assert reasons["three stories"] == reasons["words backwards"] == []
    assert "bullets" in reasons["as a list with -"] and "symbols" in reasons["every sixth word a hashtag"]


def test_each_text_is_in_the_training_set_so_many_times_and_held_out_ones_are_not(chapters):
    stories = read_stories(chapters, 0, 40)
    rows = copies.in_some_order(stories.training, 3, 0)
    assert set(Counter(map(tuple, rows)).values()) == {3} and len(rows) == 120
    assert not set(map(tuple, rows)) & set(map(tuple, stories.held_out)) and len(stories.held_out) == 100
    assert stories.tokenizer.decode(mixtures.backwards(stories.training[0])) != stories.tokenizer.decode(stories.training[0])
    assert mixtures.backwards(mixtures.backwards(stories.training[0])) == stories.training[0]


def test_what_is_trained_on_again_and_again_is_repeated(chapters):
    stories = read_stories(chapters, 0, 40)
    texts = [ids[:24] for ids in stories.training[:2]]
    model = train(stories, iter(texts * 200), 40, 0, lambda: None)
    assert copies.mean_repeated(stories, model, texts) > copies.mean_repeated(stories, model, stories.held_out) + 1
    assert loss_on(stories, model, texts) < loss_on(stories, model, stories.held_out) - 1


# ---- the commands, and what the lesson says about them


@cache
def printed(name: str, *options: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "200")
        run_measurement(f"data_{name}", options)
    return out.getvalue()


def test_each_lab_is_a_command_and_repeats_with_its_seed():
    assert {f"data_{name}" for name in LABS} <= set(list_measurements())
    once, other = (printed("filters", "--pages", "3", "--seed", seed) for seed in "01")
    printed.cache_clear()
    assert once == printed("filters", "--pages", "3", "--seed", "0") and once.count("100%") > 4 and other


@pytest.mark.thorough
@pytest.mark.parametrize("name", ("duplicates", "mixture"))
def test_a_training_repeats_with_its_seed(name):
    once, other = (printed(name, "--steps", "4", "--seed", seed) for seed in "01")
    printed.cache_clear()
    assert once == printed(name, "--steps", "4", "--seed", "0") != other


@pytest.mark.thorough
@pytest.mark.parametrize("name", LABS)
def test_the_tables_of_a_lab_are_nearly_what_its_command_prints(name):
    """Losses are rounded differently on other machines from the first step on; what is counted is equal."""
    text = "".join(path.read_text(encoding="utf-8") for path in EXERCISES.glob("ch19_*.md"))
    section = text[: text.rindex(f"headway measure data_{name}")].rpartition("\n## Lab")[2]
    section += text[text.rindex(f"headway measure data_{name}") :].split("\n## ")[0]
    rows = [line.replace("|", " ").split() for line in section.splitlines() if line.startswith("| ") and "---" not in line]
    lines = [line.split() for line in printed(name).splitlines()]
    assert len(rows) > 4 and [row for row in rows if not any(agree(row, line) for line in lines)] == []


def agree(row: list[str], line: list[str]) -> bool:
    return len(row) == len(line) and all(a == b or close(a, b) for a, b in zip(row, line))


def close(said: str, measured: str) -> bool:
    try:
        return "." in said and abs(math.log(float(said) / float(measured))) < 0.4
    except (ValueError, ZeroDivisionError):
        return False
