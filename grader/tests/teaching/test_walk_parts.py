"""Whose code runs in a walk: the learner's definitions and ours are mixed by name, in both directions, within a chapter and across chapters."""

import pytest
import torch
from grader.chapters.small_models import GPT_PARTS
from grader.course.source import definition
from grader.execution.target import Target
from grader.teaching.walks.parts import MixedChapters
from grader.tests.models.own_models import solved


@pytest.fixture
def mixed():
    """Make parts, and remove them afterwards."""
    made = []

    def make(passed, **chapters) -> MixedChapters:
        made.append(MixedChapters(GPT_PARTS, passed, Target("theirs", texts=chapters)))
        return made[-1]

    yield make
    for parts in made:
        parts.close()


LAYERS = "ch05_layers"
MARKED_GELU = ("    if approximate:\n", '    x = x + 100  # so that it is known again\n    if approximate:\n')


def test_our_modules_use_the_learners_passing_code(mixed):
    """Our FeedForward calls their gelu."""
    parts = mixed({"gelu"}, ch05_layers=solved(LAYERS, MARKED_GELU))
    assert parts.gelu(torch.zeros(1)) > 99 and parts.from_learner == {"gelu"} and "gelu" not in parts.from_reference
    feed = parts.FeedForward(2)
    assert feed.forward.__globals__["gelu"] is parts.gelu and type(feed).__module__.endswith("._ch05_layers")


def test_the_learners_modules_use_our_code_for_what_does_not_pass(mixed):
    """Their FeedForward calls our gelu, and our block uses their LayerNorm."""
    parts = mixed({"FeedForward", "LayerNorm"}, ch05_layers=solved(LAYERS, MARKED_GELU))
    assert parts.gelu(torch.zeros(1)) == 0
    feed = parts.FeedForward(2)
    assert type(feed).__module__.endswith(".ch05_layers") and feed.forward.__globals__["gelu"] is parts.gelu
    block = parts.PreNormBlock(4, 2)
    assert type(block).__module__.endswith(".ch06_blocks") and type(block.ln1) is parts.LayerNorm and type(block.ffn) is parts.FeedForward
    assert type(block.ln1).__module__.endswith(".ch05_layers")


def test_a_config_is_the_learners_if_the_model_is(mixed):
    """They may have added a field, which only their model uses."""
    theirs = solved("ch07_models", ("    positions: str = \"learned\"\n    tie_weights", "    extra: int = 5\n    positions: str = \"learned\"\n    tie_weights"))
    assert mixed({"GPT"}, ch07_models=theirs).GPTConfig(vocab_size=7, max_len=5).extra == 5
    assert not hasattr(mixed(set(), ch07_models=theirs).GPTConfig(vocab_size=7, max_len=5), "extra")


def test_the_exercise_that_raised_is_found_behind_helpers_of_theirs(mixed):
    text = solved(LAYERS, ("    if approximate:\n", "    helped(x)\n    if approximate:\n"))
    text += "\n\ndef helped(x):\n    raise RuntimeError('deep inside')\n"
    parts = mixed({"gelu", "FeedForward"}, ch05_layers=text)
    with pytest.raises(RuntimeError) as raised:
        parts.FeedForward(2)(torch.zeros(1, 2))
    assert parts.find_raising_exercise(raised.value) == "gelu", "the innermost exercise, though a helper of it raised"
    with pytest.raises(AttributeError) as raised:
        mixed(set()).GPT(None)
    assert parts.find_raising_exercise(raised.value) is None


def test_a_chapter_that_does_not_import_is_replaced_by_ours_and_reported(mixed, capsys):
    parts = mixed({"gelu", "softmax"}, ch05_layers="print('hello')\nraise SystemExit('not today')\n", ch03_attention=solved("ch03_attention"))
    assert parts.from_learner == {"softmax"} and parts.broken == {LAYERS: "ch05_layers.py does not import: SystemExit: not today"}
    assert parts.gelu(torch.zeros(1)) == 0 and capsys.readouterr().out == ""


def test_an_exercise_below_an_if_that_raised_is_found_too(mixed):
    text = solved(LAYERS, ("    if approximate:\n", "    raise RuntimeError('inside')\n    if approximate:\n"))
    start, end = definition(text, "gelu").start, definition(text, "gelu").end
    lines = text.splitlines(keepends=True)
    lines[start - 1 : end] = ["if True:\n", *("    " + line for line in lines[start - 1 : end])]
    parts = mixed({"gelu"}, ch05_layers="".join(lines))
    with pytest.raises(RuntimeError) as raised:
        parts.gelu(torch.zeros(1))
    assert parts.find_raising_exercise(raised.value) == "gelu"
