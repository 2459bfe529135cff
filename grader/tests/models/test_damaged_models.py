"""Every value of a model's files, replaced by wrong ones, with the real commands: an exit status and one sentence, no traceback, no control character."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from grader.chapters.ch17_fine_tuning.tuning import tuning_run as tune_run
from grader.cli.main import app
from grader.models import own_parts
from grader.models.training import training_run
from grader.tests.models.published_models import gguf_bytes, gguf_parts, write_model
from grader.tests.models.trainings import Silent, small_trainings
from grader.tests.models.tunings import Tunings
from safetensors import safe_open
from safetensors.torch import save_file
from typer.testing import CliRunner

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MISSING, NESTED = "missing", "@nested@"
EVIL = "evil\x1b]0;owned\x07\x9b2J"
WRONG = (
    MISSING, None, EVIL, "", [], {}, ["a"], [math.inf], True, -1, 0, 0.5, 7, 10**7, 2**70, -(2**70), math.inf, -math.inf, math.nan, NESTED, [[[[[[[1]]]]]]],
)  # fmt: skip

SHARES = [pytest.param(1, marks=pytest.mark.thorough), 7]  # in the usual run, each value gets some of the wrong ones


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Small trainings and tunings, and a GGUF file and a folder with a published model; each set of parts is made once."""
    root = tmp_path_factory.mktemp("models")
    with small_trainings(root / "checkpoints") as trainings, pytest.MonkeyPatch.context() as patch:
        made: dict[frozenset, own_parts.OwnParts] = {}

        def own(names, report_progress):
            if (key := frozenset(names)) not in made:
                made[key] = trainings._own(names, report_progress)
                made[key].close = lambda: None
            return made[key]

        for module in ("own_parts", "play.opening", "comparison.measuring", "training.training_run"):
            patch.setattr(f"grader.models.{module}.find_own_parts", own)
        patch.setattr("grader.chapters.ch17_fine_tuning.tuning.base.find_own_parts", own)
        tunings = Tunings(patch, trainings)
        trainings.written = write_model(root / "published", hidden_size=32, intermediate_size=32, num_hidden_layers=1)
        for name in ("one", "two"):
            assert training_run.run(trainings.begin(name, seed=int(name == "two"), steps=2), Silent())
        tuning = tunings.begin(str(trainings.written.gguf), "tuned", n_steps=1)
        tune_run.run(tuning, Silent(), lambda: tuning.progress.phase == "rewards")
        for module in (training_run, tune_run):  # what is read is read by then; a changed number of steps would take years
            patch.setattr(module, "run", lambda *_: False)
        yield trainings


def command(*arguments: str, text: str = "") -> tuple[int, str]:
    """Run it; a traceback, a control character or several sentences in its output is a failure."""
    done = CliRunner().invoke(app, list(arguments), input=text)
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exc_info)
    assert not CONTROL.search(done.output), (arguments, done.output)
    assert done.exit_code in (0, 1, 2, 130), done.output
    if done.exit_code in (1, 2):
        [*_, sentence] = done.stderr.strip().splitlines()
        assert sentence.startswith(("headway: ", "Error: ")) and not re.search(r"\w+Error|Value error|object has|unexpected keyword|NoneType|\bint\b|float\(", sentence), (arguments, sentence)
    return done.exit_code, done.output


def paths(data: Any, path: tuple = ()) -> Iterator[tuple]:
    """The way to each value inside, also to tables and lists."""
    for key, value in data.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from paths(value, (*path, key))


def changed(data: Any, path: tuple, value: Any) -> Any:
    data = copy.deepcopy(data)
    inside = data
    for key in path[:-1]:
        inside = inside[key]
    if value is MISSING:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return data


def as_json(data: Any) -> str:
    return json.dumps(data).replace(f'"{NESTED}"', "[" * 100_000 + "]" * 100_000)


def wrong(number: int, share: int) -> tuple:
    """Every wrong value, or a share of them, other ones for the next number."""
    return WRONG[number % share :: share]


def json_mutations(data: Any, share: int, leave: tuple = ()) -> Iterator[tuple[tuple, str]]:
    for number, path in enumerate(paths(data)):
        if path[: len(leave)] != leave or not leave:
            for value in wrong(number, share):
                yield path, as_json(changed(data, path, value))


# ---- checkpoints


@pytest.mark.parametrize("share", SHARES)
def test_every_value_of_a_checkpoint(place, share):
    folder, refused = shutil.copytree(place.folder / "one", place.folder / f"damaged-{share}"), 0
    data = json.loads((folder / "checkpoint.json").read_text())
    data["tokenizer"]["cased"] = {}
    for path, text in json_mutations(data, share):
        (folder / "checkpoint.json").write_text(text)
        refused += command("train", "--resume", "--name", folder.name)[0] == 1
        if path[0] != "record":
            command("play", folder.name, text="mia\n")
        if path[:2] == ("record", "history"):
            command("compare", "one", folder.name)
    assert refused > 500 / share
    shutil.rmtree(folder)


def test_a_model_that_its_file_is_too_small_for_is_not_built(place):
    folder = shutil.copytree(place.folder / "one", place.folder / "deep")
    data = json.loads((folder / "checkpoint.json").read_text())
    for name, value, says in (("n_layers", 1000, "1,000 layers"), ("n_layers", 10**7, "n_layers is 10000000; it must be a whole number from 1 to 1,024"), ("d_ff", 1 << 20, "at least")):
        (folder / "checkpoint.json").write_text(json.dumps(changed(data, ("design", name), value)))
        for words in (("train", "--resume", "--name", "deep"), ("play", "deep")):
            assert says in command(*words)[1]
    shutil.rmtree(folder)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_weights_that_are_no_numbers(place, value):
    folder = shutil.copytree(place.folder / "one", place.folder / "infinite")
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = min(tensors)
    tensors[name].view(-1)[0] = value
    save_file(tensors, folder / "model.safetensors")
    assert f"{name} has values that are infinite or not numbers; train the model again" in command("play", "infinite")[1]
    shutil.rmtree(folder)


# ---- adapters


@pytest.mark.parametrize("share", SHARES)
def test_every_value_of_an_adapter_file(place, share):
    folder, refused = shutil.copytree(place.folder / "tuned", place.folder / f"tuned-{share}"), 0
    with safe_open(folder / "adapters.safetensors", framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for _, text in json_mutations(json.loads(metadata["record"]), share):
        save_file(tensors, folder / "adapters.safetensors", metadata | {"record": text})
        refused += command("tune", "--resume", "--name", folder.name)[0] == 1
        command("chat", str(place.written.gguf), "--adapter", folder.name)
    assert refused > 100 / share
    for value in (math.inf, math.nan):
        save_file({**tensors, min(tensors): torch.full_like(tensors[min(tensors)], value)}, folder / "adapters.safetensors", metadata)
        assert "infinite or not numbers; tune the model again" in command("tune", "--resume", "--name", folder.name)[1]
    shutil.rmtree(folder)


# ---- published models


@pytest.mark.parametrize("share", SHARES)
def test_every_value_of_a_gguf_file(place, share, tmp_path):
    metadata, tensors, path, refused = *gguf_parts(place.written), tmp_path / "damaged.gguf", 0
    for number, name in enumerate(metadata):
        for value in (*wrong(number, share), ["a b", "Ġ"], [1, 2], ["\u732b"] * len(metadata["tokenizer.ggml.tokens"])):
            if value != [] and value is not None and value != {} and value is not NESTED and not (type(value) is int and abs(value) >= 2**63):
                path.write_bytes(gguf_bytes(changed(metadata, (name,), value), tensors))
                refused += command("chat", str(path))[0] == 1
    assert refused > 60 / share
    for name, (kind, shape, data) in tensors.items():
        scales = b"\x00\x7c" if kind else b"\x00\x00\x80\x7f"  # infinity in half and in single precision
        path.write_bytes(gguf_bytes(metadata, {**tensors, name: (kind, shape, scales + data[len(scales) :])}))
        assert f"{name} has values that are infinite or not numbers; download it again" in command("chat", str(path))[1]


@pytest.mark.parametrize("share", SHARES)
def test_every_value_of_a_folder(place, share, tmp_path):
    folder, refused = shutil.copytree(place.written.folder, tmp_path / "model"), 0
    for file in ("config.json", "tokenizer.json"):
        whole = json.loads((folder / file).read_text(encoding="utf-8"))
        if file == "tokenizer.json":
            whole["model"]["vocab"] = {token: i for token, i in whole["model"]["vocab"].items() if i < 5 or i == 319}
            whole["model"]["merges"] = []
        for _, text in json_mutations(whole, share):
            (folder / file).write_text(text, encoding="utf-8")
            refused += command("chat", str(folder))[0] == 1
        (folder / file).write_text(json.dumps(whole), encoding="utf-8")
    assert refused > 200 / share


# ---- names of files


def test_a_control_character_in_a_name_does_not_reach_the_terminal(place, tmp_path):
    (tmp_path / EVIL).mkdir()
    gguf = shutil.copy(place.written.gguf, tmp_path / f"{EVIL}.gguf")
    text = tmp_path / f"{EVIL}.txt"
    text.write_text("too short")
    checkpoint_folder = shutil.copytree(place.folder / "one", place.folder / EVIL)
    assert "evil" in command("chat", str(gguf))[1] and "evil" in command("play", EVIL)[1]
    for words in (
        ("chat", str(tmp_path / EVIL)), ("chat", str(text)), ("chat", "--adapter", EVIL), ("play", "--gpt2", str(tmp_path / EVIL)),
        ("play", f"{EVIL}x"), ("train", "--text", str(text)), ("train", "--text", str(tmp_path / EVIL)), ("train", "--name", EVIL),
        ("train", "--resume", "--name", EVIL), ("tune", "--base", str(text)), ("tune", "--base", EVIL), ("tune", "--resume", "--name", EVIL),
        ("compare", "one", EVIL), ("compare", EVIL, f"{EVIL}2"), ("compare", "one", "two", "--picture", str(tmp_path / "no" / EVIL)),
        ("train", "--preset", EVIL), ("scale", "--minutes", EVIL),
        ("capstone", "--resume", "--name", EVIL), ("capstone", "--compare", str(text)), ("capstone", str(text)), ("capstone", "--compare", str(tmp_path / EVIL)),
    ):  # fmt: skip
        command(*words)
    shutil.rmtree(checkpoint_folder)


def test_a_process_prints_one_sentence(kit, tmp_path):
    path = tmp_path / f"{EVIL}\n.gguf"
    path.write_bytes(b"GGUF")
    done = subprocess.run([sys.executable, "-m", "grader.cli", "chat", str(path)], cwd=kit.root, env=kit.environment(), capture_output=True, text=True)
    assert done.returncode == 1 and not CONTROL.search(done.stderr) and done.stderr.count("\n") == 1
    assert done.stderr.startswith("headway: evil") and "is damaged or cut off; download it again" in done.stderr
