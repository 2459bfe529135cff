"""Names of several words on the command line."""

import re

import pytest
from grader.cli.arguments import join_words, split_names
from grader.cli.main import app
from grader.course.names import normalise
from grader.course.syllabus import UnknownName, load_syllabus
from typer.testing import CliRunner

COURSE = load_syllabus()


def test_the_words_of_every_title_are_one_name():
    for chapter in COURSE.chapters:
        words = normalise(chapter.title).split()
        assert COURSE.find(join_words(words)) is chapter and split_names(words) == [" ".join(words)]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("softmax causal_mask", ["softmax", "causal_mask"]),
        ("softmax kv cache ch03", ["softmax", "kv cache", "ch03"]),
        ("causal mask", ["causal mask"]),
        ("softmax softmaxx", ["softmax", "softmaxx"]),
        ("", []),
    ],
)
def test_several_names_stay_several(words, names):
    assert split_names(words.split()) == names


def test_words_that_may_mean_a_title_or_several_names_are_refused():
    sentence = "'attention positions' may mean ch04 (Positions in attention), or ch03 (Attention) and ch04 (Positions in attention); use the ids of the chapters"
    with pytest.raises(UnknownName, match=f"^{re.escape(sentence)}$"):
        split_names(["attention", "positions"])
    with pytest.raises(UnknownName, match="^'softmax causal_mask' is 2 names, and this command takes one: softmax or causal_mask$"):
        join_words(["softmax", "causal_mask"])
    assert join_words(["softmax", "softmaxx"]) == "softmax softmaxx", "the command itself says that there is no such name"


@pytest.mark.parametrize("command", ["check", "watch", "hint", "diff", "reset", "open", "book", "repro", "show", "dev-check", "walk"])
def test_every_command_that_takes_a_name_takes_several_words(command):
    said = CliRunner().invoke(app, [command, "xyzzy", "plugh"])
    text = f"{said.output} {said.exception}"
    assert "'xyzzy plugh'" in text or command == "dev-check" and "'xyzzy'" in text, text
