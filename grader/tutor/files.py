"""The files that assistants read: what this course is, and how to start the tutor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from grader.course.source import read_source
from grader.course.syllabus import EXERCISES
from grader.files import write_whole

COMMAND_OF_HANDOUT = (".venv/bin/headway", "tutor")  # `make learn` installs it there, in the handout's folder
IGNORED = "# headway tutor --files\n"  # in .gitignore: the files below it hold paths of one machine


def write_files(folder: Path, command: Sequence[str]) -> list[str]:
    """Write the files that do not exist yet; what happened to each, as a sentence."""
    said = []
    for name, text in assistant_files(command).items():
        path = folder / name
        if path.exists() or path.is_symlink():
            said.append(f"{name} exists already and stays as it is")
        else:
            write_whole(path, text)
            said.append(f"{name} is written")
    return said


def assistant_files(command: Sequence[str]) -> dict[str, str]:
    """The text of each file; the command starts the tutor. A program without a whole path is in the folder."""
    rules, (program, *arguments) = read_source(EXERCISES / "AGENTS.md"), command
    server = {"type": "stdio", "command": program, "args": arguments}
    in_workspace = program if Path(program).is_absolute() else f"${{workspaceFolder}}/{program}"
    return {
        "AGENTS.md": rules,
        "CLAUDE.md": "@AGENTS.md\n",  # Claude Code reads the file that is named here
        ".github/copilot-instructions.md": rules,
        ".mcp.json": _json({"mcpServers": {"headway": server}}),
        ".vscode/mcp.json": _json({"servers": {"headway": server | {"command": in_workspace}}}),
    }


def _json(data: dict) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
