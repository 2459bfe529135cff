"""The line that grows: what a model of the learner's own parts writes, and what is kept of it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from grader.chapters.ch00_first_model import growth
from grader.console.output import hide_progress
from grader.course.syllabus import load_syllabus
from grader.models.own_parts import find_own_parts


@pytest.fixture(scope="module")
def reference():
    own = find_own_parts(growth.exercises_of(growth.STAGES), hide_progress)
    yield own.parts
    own.close()


def test_every_stage_names_exercises_of_its_chapter_and_of_earlier_ones():
    course = load_syllabus()
    for stage in growth.STAGES:
        chapters = [int(course.exercise(name).module[2:4]) for name in stage.needs]
        assert max(chapters) == stage.chapter, stage.name


@pytest.mark.thorough
@pytest.mark.parametrize("stage", growth.STAGES, ids=lambda stage: stage.name)
def test_a_stage_learns_and_writes(reference, stage):
    """A few seconds are enough to be better than a model that knows nothing, whose loss is ln 470."""
    line = growth.measure(stage, reference, minutes=0.02)
    assert line.loss < math.log(470) - 0.1 and line.text.startswith("One day")


def test_lines_are_kept_and_a_damaged_file_is_as_none(monkeypatch, tmp_path):
    monkeypatch.setattr(growth, "KEPT_FILE", tmp_path / ".headway" / "growth.json")
    assert growth.load_lines() == {}
    for stage, loss in (("gpt", 1.5), ("bigrams", 2.5), ("gpt", 1.25)):
        growth.keep_line(growth.Line(stage, loss, "One day.", 1.0))
    assert list(growth.load_lines()) == ["bigrams", "gpt"] and growth.load_lines()["gpt"].loss == 1.25
    growth.KEPT_FILE.write_text("[{]")
    assert growth.load_lines() == {}


@pytest.mark.thorough
def test_headway_progress_shows_the_best_model_of_the_passed_parts(kit):
    out = " ".join(kit.run("progress").split())
    assert "Counted bigrams, chapter 0: needs count_bigrams, bigram_probabilities, average_loss and 1 more" in out
    kit.solve("ch00_first_model")
    out = " ".join(kit.run("progress").split())
    assert "Counted bigrams, chapter 0: loss 2.3" in out and "One day" in out
    assert "An embedding and a head, chapter 2: needs TokenEmbedding" in out
    kit.solve("ch02_embeddings")
    out = " ".join(kit.run("progress", "--minutes", "0.05").split())
    assert "An embedding and a head, chapter 2: loss" in out and "after 0.05 min" in out and "chapter 0: loss 2.3" in out


def test_on_a_path_a_stage_needs_only_what_is_on_the_path(kit):
    """`first-model` has no dropout: its GPT is the learner's all the same. `inside` has no GPT, so nothing is claimed there."""
    code = "from types import SimpleNamespace\nfrom grader.chapters.ch00_first_model.growth import STAGES\nprint([stage.missing(SimpleNamespace(learner=())) for stage in STAGES[-1:]])"
    said = []
    for path in ("all", "first-model", "inside"):
        kit.run("path", path)
        said.append(subprocess.run([sys.executable, "-c", code], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, check=True).stdout)
    assert "dropout" in said[0] and "'CausalSelfAttention'" in said[0]
    assert "dropout" not in said[1] and "'PreNormBlock', 'GPT'" in said[1]
    assert "'GPT'" in said[2]
