"""Unknown names on the command line, and wrong values of options."""

import importlib.util

import pytest
from grader.cli.main import app
from typer.testing import CliRunner


@pytest.mark.parametrize("command", ["check", "watch", "hint", "diff", "reset", "open", "book", "repro", "show", "dev-check", "walk"])
def test_every_command_that_takes_a_name_says_that_there_is_none(command):
    said = CliRunner().invoke(app, [command, "xyzzy plugh"])
    assert "'xyzzy plugh'" in said.output and said.exit_code == 2, said.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["grade", "x", "-j", "x"], "'x' is not a whole number"),
        (["grade", "x", "--seed", "1.5"], "'1.5' is not a whole number"),
        (["grade", "x", "-j", "99"], "'99' is too large; the largest value is 64"),
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
