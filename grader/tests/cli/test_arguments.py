"""Names of several words on the command line, and wrong values of options."""

import importlib.util
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["grade", "x", "-j", "x"], "'x' is not a whole number"),
        (["grade", "x", "--seed", "1.5"], "'1.5' is not a whole number"),
        (["grade", "x", "-j", "99"], "'99' is too large; the largest value is 64"),
        (["note", "--revoke", "x"], "'x' is not a whole number"),
        (["walk", "--seed", "-1"], "'-1' is too small; the smallest value is 0"),
        (["train", "--minutes", "x"], "'x' is not a number"),
        (["train", "--minutes", "nan"], "'nan' is not a number"),
        (["train", "--minutes", "inf"], "'inf' is too large; the largest value is 100000"),
        (["train", "--minutes", "0.01"], "'0.01' is too small; the smallest value is 0.05"),
        (["book", "--port", "99999"], "'99999' is too large; the largest value is 65535"),
    ],
)
def test_a_wrong_value_of_an_option_is_described_in_plain_words(arguments, sentence):
    ran = CliRunner().invoke(app, arguments)
    said = " ".join(ran.output.split())
    assert ran.exit_code == 2 and "Input should be" not in said
    assert said.endswith(sentence) or not uses_pydantic()


def uses_pydantic() -> bool:
    return importlib.util.find_spec("typer._coercion") is not None
