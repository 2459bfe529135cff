"""The files that assistants read: written once, the same in a handout, and their configurations start a working server."""

import json
import os
import re
import subprocess
import sys

import pytest
from grader.classroom.handout.handout_folder import make_handout
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, ROOT
from grader.tutor.files import IGNORED, assistant_files
from test_tutor_tools import TOOLS
from tutoring import call, with_session

NAMES = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", ".mcp.json", ".vscode/mcp.json"]
PAGE = ROOT / "grader" / "teaching" / "book" / "pages" / "tutor.md"


def server_of(text, folder):
    """The command of a configuration, as the two assistants read it."""
    data = json.loads(text)
    [kind] = data
    assert kind in ("servers", "mcpServers") and list(data[kind]) == ["headway"]
    server = data[kind]["headway"]
    assert server.keys() == {"type", "command", "args"} and server["type"] == "stdio"
    return [server["command"].replace("${workspaceFolder}", str(folder)), *server["args"]]


def started(folder, command):
    """The names of the tools, and what one of them says."""

    async def use(session, _):
        tools = [tool.name for tool in (await session.list_tools()).tools]
        return tools, await call(session, "lesson", "softmax")

    tools, (lesson, is_error) = with_session(folder, use, command)
    assert tools == TOOLS and not is_error and "**`softmax`**" in lesson


def test_the_files_are_written_and_what_exists_stays(kit):
    (kit.root / "CLAUDE.md").write_text("mine")
    said = kit.run("tutor", "--files").splitlines()
    assert said == [f"{name} exists already and stays as it is" if name == "CLAUDE.md" else f"{name} is written" for name in NAMES]
    assert (kit.root / "CLAUDE.md").read_text() == "mine"
    rules = read_source(EXERCISES / "AGENTS.md")
    assert read_source(kit.root / "AGENTS.md") == read_source(kit.root / ".github" / "copilot-instructions.md") == rules
    assert len(rules.splitlines()) <= 20 and all(f"`{tool}`" in rules for tool in TOOLS)
    for name in (".mcp.json", ".vscode/mcp.json"):
        command = server_of(read_source(kit.root / name), kit.root)
        assert command[0] == sys.executable
        started(kit.root, command)
    assert all("exists already" in line for line in kit.run("tutor", "--files").splitlines())


def test_git_ignores_what_names_a_path_of_this_machine():
    ignored = read_source(ROOT / ".gitignore").partition(IGNORED)[2].splitlines()
    assert ignored == [f"/{name}" for name in assistant_files(["headway"])] == [f"/{name}" for name in NAMES]


@pytest.mark.parametrize("number", [0, 1])
def test_the_configurations_on_the_page_start_a_working_server(module_kit, tmp_path, number):
    command = server_of(re.findall(r"```json\n(.*?)```", read_source(PAGE), re.DOTALL)[number], module_kit.root)
    assert command == ["headway", "tutor"]
    program = tmp_path / ("headway.bat" if os.name == "nt" else "headway")  # as pip installs it
    call_it = f'"{sys.executable}" -P -m grader.cli'
    program.write_text(f"@set PYTHONPATH={module_kit.root}\n@{call_it} %*\n" if os.name == "nt" else f'#!/bin/sh\nPYTHONPATH="{module_kit.root}" exec {call_it} "$@"\n')
    program.chmod(0o755)
    started(tmp_path, [str(program), *command[1:]])


def test_a_handout_contains_them(tmp_path):
    folder = make_handout(tmp_path / "out", ["ch03"], []).folder
    rules = read_source(EXERCISES / "AGENTS.md")
    assert read_source(folder / "AGENTS.md") == read_source(folder / "exercises" / "AGENTS.md") == rules
    for name in (".mcp.json", ".vscode/mcp.json"):
        program, *arguments = server_of(read_source(folder / name), folder)
        assert program.endswith(".venv/bin/headway") and arguments == ["tutor"]
    assert not any(name in read_source(folder / ".gitignore") for name in NAMES), "the learners may commit them"
    started(folder, [sys.executable, "-m", "grader.cli", "tutor"])
    said = subprocess.run([sys.executable, "-m", "grader.cli", "tutor", "--files"], cwd=folder, capture_output=True, encoding="utf-8").stdout
    assert said.count("exists already") == len(NAMES)
