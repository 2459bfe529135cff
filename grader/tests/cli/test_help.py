"""The help of every command can be read by somebody who does not know Python."""

import re

import pytest
import typer
from grader.cli.main import COMMANDS as grader_commands
from grader.cli.main import _summary, app
from typer.testing import CliRunner

COMMAND = typer.main.get_command(app)
TOP = {name: COMMAND.get_command(None, name) for name in COMMAND.list_commands(None)}
COMMANDS = TOP | {f"{name} {inner}": one for name, group in TOP.items() for inner, one in getattr(group, "commands", {}).items()}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_help_of_a_command_explains_every_argument_in_plain_words(name):
    said = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"})
    assert said.exit_code == 0
    assert not re.search(r"<\w+[>[]|\w\[", said.output), "types of Python are not for the reader"
    assert max(map(len, said.output.splitlines())) <= 80
    params = COMMANDS[name].params if name else COMMAND.params
    assert all(param.help for param in params if param.name not in {"install_completion", "show_completion"})
    if name:
        summary = COMMANDS[name].get_short_help_str(200)
        assert summary.endswith((".", ")")) and summary[0].isupper()


@pytest.mark.parametrize("name", TOP)
def test_the_list_of_commands_has_the_first_line_of_each_help(name):
    summary = _summary(grader_commands[name])
    assert TOP[name].get_short_help_str(200).startswith(summary) and summary.endswith(".")
    assert len(summary) <= 80 - 6 - max(map(len, TOP)), "it fits on a line"
