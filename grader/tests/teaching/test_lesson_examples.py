"""The code in lessons does what the lesson says: examples in a Python prompt, and the training at the end of chapter 2."""

from __future__ import annotations

import doctest
import re

import pytest
import torch
from lesson_tables import lessons

WITH_EXAMPLES = [path for path in lessons() if ">>>" in path.read_text(encoding="utf-8")]


@pytest.fixture(autouse=True)
def keep_random_state():
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        yield


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_of_a_lesson_give_what_it_shows(path):
    failed, tried = doctest.testfile(str(path), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS)
    assert tried and not failed, "the differences are printed above"


def test_the_training_of_chapter_2_reaches_the_loss_that_the_lesson_says(ours, capsys):
    [lesson] = [path for path in lessons() if path.stem == "ch02_embeddings"]
    text = lesson.read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "from exercises." in block]
    exec(re.sub(r"^from exercises\..*$", "", code, flags=re.MULTILINE), dict(vars(ours)))
    losses = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    first, last = map(float, re.search(r"starts near ln 6 = ([\d.]+) and falls to ([\d.]+)\.", text).groups())
    assert abs(losses[0] - first) < 0.1 and abs(losses[-1] - last) < 0.01
