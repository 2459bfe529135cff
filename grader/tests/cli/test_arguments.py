"""Unknown names on the command line, wrong values of options, and Tab completion."""

import importlib.util

import pytest
from grader.cli.main import app
from typer.testing import CliRunner


@pytest.mark.parametrize("command", ["check", "watch", "hint", "diff", "reset", "open", "book", "repro", "show", "dev-check", "walk", "list", "next"])
def test_every_command_that_takes_a_name_says_that_there_is_none(command):
    said = CliRunner().invoke(app, [command, "xyzzy plugh"])
    assert "'xyzzy plugh'" in said.output and said.exit_code == 2, said.output


@pytest.mark.parametrize(
    ("arguments", "offer"),
    [
        (("hint", "Sofmax"), "did you mean softmax"),
        (("reset", "ch33"), "there is no chapter 33; the chapters are ch00 to ch26"),
        (("list", "averge_loss"), "did you mean average_loss?"),
        (("next", "chapter", "33"), "there is no chapter 33"),
        (("check", "softmax", "causal_msk"), "did you mean causal_mask"),
        (("check", "xyzzy"), "`headway list` lists them all"),
        (("diff", "attention"), "is a chapter (ch03 Attention), and an exercise is needed here: softmax, "),
        (("chekc",), "Did you mean 'check'"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(arguments, offer):
    said = CliRunner().invoke(app, arguments)
    assert offer in said.output and said.exit_code == 2


@pytest.mark.parametrize(("typed", "command"), [("softmax", "softmax"), ("chapter 3", "ch03"), ("Causal-Mask softmax", "causal_mask softmax")])
def test_a_name_without_a_command_gets_the_command(typed, command):
    said = CliRunner().invoke(app, typed.split())
    assert f"is not a command; to test your code: `headway check {command}`" in said.output and said.exit_code == 2


def test_help_is_a_command_too():
    def pages(*lines):
        return {CliRunner().invoke(app, line.split()).output for line in lines}

    assert len(pages("help", "--help")) == len(pages("help check", "check --help")) == 1
    assert "No such command 'chekc'" in CliRunner().invoke(app, ["help", "chekc"]).output


@pytest.mark.parametrize("command", ["watch", "hint", "diff", "reset", "open", "book", "repro", "show", "next"])
def test_a_command_for_one_name_says_so(command):
    said = CliRunner().invoke(app, [command, "softmax", "causal_mask"])
    assert "this command takes one name, and softmax and causal_mask are 2; run it once for each of them" in said.output and said.exit_code == 2
    usage = CliRunner().invoke(app, [command, "--help"]).output.strip().splitlines()[0]
    assert "NAME" in usage and "..." not in usage


@pytest.mark.parametrize("name", ["3", "ch3", "ch03", "chapter3", "chapter 3", "ch03_attention", "exercises/ch03_attention.py", "ATTENTION"])
def test_a_chapter_may_be_written_in_many_ways_in_every_command(name):
    for command in ("open", "next", "show"):
        out = {CliRunner().invoke(app, [command, *words]).output for words in ([name], name.split(), ["ch03"])}
        assert len(out) == 1 and "no exercise" not in out.pop()
    if name != "ATTENTION":  # also a subject, of several chapters
        assert CliRunner().invoke(app, ["list", *name.split()]).output == CliRunner().invoke(app, ["list", "ch03"]).output


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
        (["train", "--preset", "minni"], "for '--preset': 'minni' is not one of 'mini', 'tiny', 'small'. Did you mean 'mini'?"),
        (["train", "--preset", "Small"], "'Small' is not one of 'mini', 'tiny', 'small'. Did you mean 'small'?"),
        (["tune", "--task", "sum"], "'sum' is not one of 'sums', 'format'. Did you mean 'sums'?"),
        (["capstone", "--minutes", "0.1"], "'0.1' is too small; the smallest value is 0.5"),
        (["train", "--device", "gpu"], "'gpu' is not one of 'auto', 'cpu', 'cuda'."),
        (["export", "moodel"], "Did you mean 'moodle'?"),
    ],
)
def test_a_wrong_value_of_an_option_is_described_in_plain_words(arguments, sentence):
    ran = CliRunner().invoke(app, arguments)
    said = " ".join(ran.output.split())
    assert ran.exit_code == 2 and "Input should be" not in said and "Value error" not in said
    assert said.endswith(sentence) or not uses_pydantic()


def uses_pydantic() -> bool:
    return importlib.util.find_spec("typer._coercion") is not None
