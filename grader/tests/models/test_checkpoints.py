"""A checkpoint comes back as it was; a folder that is none gets a sentence."""

import json
import os

import pytest
import torch
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import Design, build_model
from grader.models.tokenizers import WordModelTokenizer
from own_models import GPT, MOE, TEXTS, TINY, TRANSLATOR, parameters, parts_of, solved


@pytest.fixture(scope="module")
def tokenizer(parts):
    return WordModelTokenizer.of_texts(parts, TEXTS)


def write(folder, parts, tokenizer, design=GPT, seed=0, **record):
    torch.manual_seed(seed)
    model = build_model(parts, design, tokenizer.vocab_size)
    checkpoint.save(folder, model, tokenizer, design, record)
    return model


@pytest.mark.parametrize("design", [GPT, MOE, TRANSLATOR, Design(positions="rope", norm="post", tie_weights=False, **TINY)], ids=str)
def test_a_model_comes_back_as_it_was(parts, tokenizer, tmp_path, design):
    model = write(tmp_path / "one", parts, tokenizer, design, steps=7)
    loaded = checkpoint.load(tmp_path / "one", parts)
    before, after = parameters(model), parameters(loaded.model)
    assert before.keys() == after.keys() and all(before[name].equal(after[name]) for name in before)
    assert (loaded.design, loaded.record["steps"], loaded.name) == (design, 7, "one")
    assert loaded.tokenizer.fingerprint == tokenizer.fingerprint and not loaded.model.training
    assert not (tmp_path / "one" / "anything.pt").exists() and sorted(os.listdir(tmp_path)) == ["one"]


def test_a_model_of_the_references_parts_runs_with_the_learners(parts, tokenizer, tmp_path):
    model = write(tmp_path / "one", parts, tokenizer)
    with parts_of(GPT, ch06_blocks=solved("ch06_blocks"), ch07_models=solved("ch07_models")) as theirs:
        loaded = checkpoint.load(tmp_path / "one", theirs)
        ids = torch.randint(tokenizer.vocab_size, (2, 6))
        assert type(loaded.model).__module__.endswith(".ch07_models") and loaded.model(ids)[0].equal(model.eval()(ids)[0])


def edit(data, **changes):
    return json.dumps(json.loads(data) | changes).encode()


def test_a_damaged_foreign_or_newer_file_is_a_sentence(parts, tokenizer, tmp_path):
    def of_design(**changes):
        return lambda data: edit(data, design=json.loads(data)["design"] | changes)

    for number, (name, change, says) in enumerate((
        ("model.safetensors", lambda data: data[:-9], "is damaged"),
        ("model.safetensors", lambda data: b"", "is damaged"),
        ("checkpoint.json", lambda data: data[:200], "is damaged"),
        ("checkpoint.json", lambda data: b"[" * 100_000, "is damaged"),
        ("checkpoint.json", lambda data: b"\xff\xfe", "is damaged"),
        ("checkpoint.json", lambda data: b"[]", "not written by `headway train`"),
        ("checkpoint.json", lambda data: edit(data, format=99), "newer version"),
        ("checkpoint.json", of_design(n_heads=7), "do not divide"),
        ("checkpoint.json", of_design(d_model=32), "has the shape"),
        ("checkpoint.json", of_design(n_layers=3), "which this model needs"),
        ("checkpoint.json", of_design(n_layers=1), "does not have"),
        ("checkpoint.json", lambda data: edit(data, tokenizer={"kind": "runes"}), "unknown kind"),
    )):  # fmt: skip
        folder = tmp_path / str(number)
        write(folder, parts, tokenizer)
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        with pytest.raises(CheckpointProblem, match=says) as caught:
            checkpoint.load(folder, parts)
        assert "\n" not in str(caught.value)


def test_what_is_missing_is_named(parts, tokenizer, tmp_path):
    with pytest.raises(CheckpointProblem, match="there is no checkpoint"):
        checkpoint.load(tmp_path / "none", parts)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointProblem, match="is not a checkpoint"):
        checkpoint.load(tmp_path / "empty", parts)
    write(tmp_path / "one", parts, tokenizer)
    (tmp_path / "one" / "model.safetensors").unlink()
    with pytest.raises(CheckpointProblem, match="is not complete"):
        checkpoint.load(tmp_path / "one", parts)


def test_without_room_the_old_checkpoint_stays(parts, tokenizer, tmp_path, monkeypatch):
    write(tmp_path / "one", parts, tokenizer, seed=1, step=1)
    (tmp_path / "file").write_text("a file, and no folder")
    with pytest.raises(CheckpointProblem, match="could not write the checkpoint"):
        write(tmp_path / "file" / "two", parts, tokenizer)
    monkeypatch.setattr(os, "fsync", lambda handle: os.write(os.open("/dev/full", os.O_WRONLY), b"0"))  # the real error of a full disk
    with pytest.raises(CheckpointProblem, match="no space left"):
        write(tmp_path / "one", parts, tokenizer, seed=2, step=2)
    assert checkpoint.load(tmp_path / "one", parts).record == {"step": 1} and sorted(os.listdir(tmp_path)) == ["file", "one"]
    assert sorted(os.listdir(tmp_path / "one")) == ["checkpoint.json", "model.safetensors"]


def test_a_checkpoint_is_found_by_its_name(parts, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "CHECKPOINTS", tmp_path)
    with pytest.raises(CheckpointProblem, match="no checkpoint yet"):
        checkpoint.find_checkpoint(None)
    for age, name in enumerate(("stories", "rope")):
        write(tmp_path / name, parts, tokenizer)
        os.utime(tmp_path / name / "checkpoint.json", (1000 - age, 1000 - age))
    assert checkpoint.find_checkpoint(None).name == "stories" and checkpoint.find_checkpoint("rope") == tmp_path / "rope"
    assert checkpoint.find_checkpoint(str(tmp_path / "rope")) == tmp_path / "rope"
    with pytest.raises(CheckpointProblem, match="did you mean stories"):
        checkpoint.find_checkpoint("storys")
