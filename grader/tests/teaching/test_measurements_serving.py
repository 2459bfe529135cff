"""The measurements of lesson 15: what they count is right, and the models that they compare are what they say."""

import re

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import int8, serving


@pytest.fixture(scope="module")
def package():
    found = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch15_serving"), whole=True), "tested")
    yield found
    found.close()


@pytest.fixture
def model(package):
    models = package.module("ch07_models")
    torch.manual_seed(0)
    with torch.no_grad():
        model = models.GPT(models.GPTConfig(20, 16, 16, 2, 2, tie_weights=False)).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def test_it_says_first_what_it_does_and_how_long_it_takes(package, monkeypatch):
    monkeypatch.setattr(serving, "trained", lambda *_: pytest.fail("a model was trained before anything was printed"))
    assert "Training a model and a draft" in (first := next(iter(serving.report(package, 0)))) and "about a minute" in first


def test_outliers_do_not_change_what_the_model_computes(model):
    ids, changed = torch.randint(20, (3, 9)), int8.with_outliers(model)
    with torch.no_grad():
        assert torch.allclose(model(ids)[0], changed(ids)[0], atol=1e-4)
    before, after = (one.blocks[0].attn.W_q.weight.abs().amax() for one in (model, changed))
    assert after > 10 * before


def test_bytes_are_those_of_the_matrices_of_the_blocks(package, model):
    matrices = sum(linear.weight.numel() for _, _, linear in int8.linear_layers(model))
    rows = sum(linear.out_features for _, _, linear in int8.linear_layers(model))
    assert len(int8.linear_layers(model)) == 12 and matrices == 2 * 12 * 16 * 16
    assert int8.stored_bytes(model) == 4 * matrices
    changed = int8.with_quantized_layers(model, package.module("ch15_serving"))
    assert int8.stored_bytes(changed) == matrices + 4 * rows
    assert int8.linear_layers(changed) == [] and len(int8.linear_layers(model)) == 12


def test_the_ways_to_quantize_are_what_their_names_say(package, model):
    weight = model.blocks[0].ffn.up.weight.detach()
    codes, scale = package.module("ch15_serving").quantize_int8(weight)
    cut, cut_scale = int8.cut_off(weight)
    assert torch.equal(cut_scale, scale) and (cut.abs() <= codes.float().abs()).all() and not torch.equal(cut, codes.float())
    common, scales = int8.one_scale(weight)
    assert scales.unique().numel() == 1 and common.abs().max() == 127
    four, _ = int8.four_bits(weight)
    assert four.abs().amax(1).eq(7).all()
    exact = int8.rounded(model, lambda matrix: (matrix, torch.ones(matrix.size(0))))
    assert all(torch.equal(value, exact.state_dict()[name]) for name, value in model.state_dict().items())


def test_passes_of_each_model_are_counted(monkeypatch):
    monkeypatch.setattr(serving, "RUNS", 1)
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def call():
        return [one(torch.ones(2)), one(torch.ones(2)), other(torch.ones(2))]

    seconds, passes, result = serving.timed(call, one, other)
    assert passes == [2, 1] and len(result) == 3 and seconds > 0 and not one._forward_hooks


def test_batches_and_guesses_of_small_models(package, monkeypatch, capsys):
    """Every number of passes that the tables show follows from the sizes and from the texts."""
    monkeypatch.setattr(serving, "WIDTH", 16)
    monkeypatch.setattr(serving, "LAYERS", 1)
    monkeypatch.setattr(serving, "STEPS", 2)
    monkeypatch.setattr(serving, "DRAFT_STEPS", 1)
    monkeypatch.setattr(serving, "RUNS", 1)
    monkeypatch.setattr(serving, "N_DRAFTS", (1, 4))
    monkeypatch.setenv("COLUMNS", "120")
    assert serving.main([]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if re.match(r" *(\d+|none) .*x *$", line)]
    assert [row[:2] for row in rows[:4]] == [["1", "200"], ["4", "50"], ["10", "20"], ["20", "10"]] and rows[4][:2] == ["none", "200"]
    for row in rows[5:]:
        passes = int(row[1])
        assert 200 / (int(row[0]) + 1) <= passes <= 200 and row[3] == f"{200 / passes:.2f}"
