"""Unknown names on the command line, wrong values of options, and Tab completion."""

import importlib.util

import pytest
from grader.cli.main import app
from typer.testing import CliRunner


@pytest.mark.parametrize("command", ["check", "watch", "hint", "diff", "reset", "open", "book", "repro", "show", "dev-check", "walk"])
def test_every_command_that_takes_a_name_says_that_there_is_none(command):
    said = CliRunner().invoke(app, [command, "xyzzy plugh"])
    assert "'xyzzy plugh'" in said.output and said.exit_code == 2, said.output


@pytest.mark.parametrize(
    ("arguments", "offer"),
    [
        (("hint", "Sofmax"), "did you mean softmax"),
        (("reset", "ch33"), "ch03"),
        (("check", "xyzzy"), "`headway list` lists them all"),
        (("diff", "attention"), "is a chapter (ch03 Attention), and an exercise is needed here: softmax, "),
        (("chekc",), "Did you mean 'check'"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(arguments, offer):
    said = CliRunner().invoke(app, arguments)
    assert offer in said.output and said.exit_code == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("headway check soft", {"softmax"}),
        ("headway open ch0", {"ch01", "ch02", "ch03"}),
        ("headway diff xy", set()),
        ("headway hint merge_", {"merge_pair", "merge_heads"}),
    ],
)
def test_names_complete(words, expected):
    completion = {"_HEADWAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
    found = set(CliRunner().invoke(app, prog_name="headway", env=completion).output.split())
    assert expected <= found and (expected or not found)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["grade", "x", "-j", "x"], "'x' is not a whole number"),
        (["grade", "x", "--seed", "1.5"], "'1.5' is not a whole number"),
        (["hint", "--level", "4"], "'4' is too large; the largest value is 3"),
        (["walk", "--seed", "-1"], "'-1' is too small; the smallest value is 0"),
        (["train", "--minutes", "nan"], "'nan' is not a number"),
        (["train", "--minutes", "inf"], "'inf' is too large; the largest value is 100000"),
        (["train", "--minutes", "0.01"], "'0.01' is too small; the smallest value is 0.05"),
    ],
)
def test_a_wrong_value_of_an_option_is_described_in_plain_words(arguments, sentence):
    ran = CliRunner().invoke(app, arguments)
    said = " ".join(ran.output.split())
    assert ran.exit_code == 2 and "Input should be" not in said
    assert said.endswith(sentence) or not uses_pydantic()


def uses_pydantic() -> bool:
    return importlib.util.find_spec("typer._coercion") is not None
