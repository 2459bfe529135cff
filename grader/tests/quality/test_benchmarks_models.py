"""`make bench ONLY=train` and `ONLY=play` on a small scale: both sides compute the same. The times themselves are not checked."""

import re

import pytest
import torch
from grader.models.design import PRESETS, Design, build_model
from grader.models.training import corpora
from grader.quality.benchmarks import play, train
from grader.quality.benchmarks.torch_layers import EXCHANGES, TorchGPT

SMALL = Design(d_model=16, n_heads=2, n_layers=2, max_len=32)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(PRESETS, "tiny", SMALL)
    monkeypatch.setattr(corpora, "VOCABULARY_STORIES", 60)
    monkeypatch.setattr(corpora, "VALIDATION_STORIES", 4)
    monkeypatch.setattr(play, "VOCABULARY", 60)


def test_the_model_of_torchs_layers_is_the_same_function_with_the_same_gradients():
    parts = train._parts(SMALL)
    torch.manual_seed(3)
    ours, theirs = build_model(parts, SMALL, 40), TorchGPT(SMALL, 40)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(0, 0.3)
    theirs.copy_from(ours)
    ids = torch.randint(40, (3, 9))
    a, b = ours(ids)[0], theirs(ids)
    assert torch.allclose(a, b, atol=1e-4) and sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    a.square().mean().backward()
    b.square().mean().backward()
    assert torch.allclose(ours.token_emb.weight.grad, theirs.token_emb.weight.grad, atol=1e-4)
    parts.close()


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_model_with_one_part_exchanged_is_the_same_function(name):
    parts, exchanged = train._parts(SMALL), train._parts(SMALL, name)
    torch.manual_seed(3)
    ours, other = build_model(parts, SMALL, 40), build_model(exchanged, SMALL, 40)
    other.load_state_dict(ours.state_dict())
    ids = torch.randint(40, (3, 9))
    assert torch.allclose(ours(ids)[0], other(ids)[0], atol=1e-5)
    assert exchanged.from_learner == {name} and not parts.from_learner
    for each in (parts, exchanged):
        each.close()


@pytest.mark.thorough
def test_training_is_measured_beside_torchs_own_layers(small, capsys):
    assert train.run(["--steps", "2", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    time = r"[\d.]+ m?s"
    for row in ("forward, with the loss", "backward", "clipping the gradient", "AdamW's update", "sum"):
        assert re.search(rf"^{row} +{time} +{time} +[\d.]+$", out, re.M), out
    rates = re.search(r"^tokens a second +([\d,]+) +([\d,]+) +([\d.]+)$", out, re.M)
    ours, theirs = (int(rates[i].replace(",", "")) for i in (1, 2))
    assert float(rates[3]) == pytest.approx(ours / theirs, abs=0.02)
    assert all(f"torch's part for {name}" in out for name in EXCHANGES)
    assert re.search(r"^→ `headway train` learns from [\d,]+ tokens a second; the same model of torch's own layers from [\d,]+: ", out, re.M), out


def test_another_model_is_not_compared(small, monkeypatch, capsys):
    monkeypatch.setattr(TorchGPT, "copy_from", lambda self, model: None)
    assert train.run(["--steps", "1", "--threads", "1"]) == 1
    assert "not the same model" in capsys.readouterr().out


def test_playing_is_measured_with_the_cache_and_without(small, capsys):
    assert play.run(["--tokens", "4", "40", "--runs", "1", "--threads", "1", "--clock", "processor"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^ +4 +\d+ ms +\d+ ms +\d+ +\d+ +[\d.]+\n +40 ", out, re.M), out
    assert "writes 4 and 40 tokens at " in out and "a second of processor time with the KV cache" in out


def test_a_cache_that_changes_the_text_is_not_measured(small, monkeypatch, capsys):
    write = play._write
    monkeypatch.setattr(play, "_write", lambda engine, length: write(engine, length)[: None if engine.cached else -1])
    assert play.run(["--tokens", "4", "--runs", "1", "--threads", "1"]) == 1
    assert "cannot be compared" in capsys.readouterr().out
