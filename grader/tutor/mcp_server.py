"""The MCP server: the tools of tools.py and the prompts of prompts.md, on standard input and output."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

from grader.files import UserProblem
from grader.tutor.tools import TOOLS
from grader.version import __version__
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt

PROMPT = re.compile(r"^## (\w+): ([^\n]+)\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def make_server() -> MCPServer:
    instructions, prompts = _read_prompts(Path(__file__).with_name("prompts.md").read_text(encoding="utf-8"))
    server = MCPServer("headway", instructions=instructions, version=__version__, log_level="WARNING")
    for tool in TOOLS:
        server.add_tool(_with_tool_errors(tool), structured_output=False)
    for prompt in prompts:
        server.add_prompt(prompt)
    return server


def serve() -> None:
    """Serve until the client closes standard input."""
    make_server().run("stdio")


def _with_tool_errors(tool: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(tool)
    def run(*arguments: str, **named: str) -> str:
        try:
            return tool(*arguments, **named)
        except UserProblem as problem:
            raise ToolError(str(problem)) from problem

    return run


def _read_prompts(text: str) -> tuple[str, list[Prompt]]:
    """The instructions, which come first in the file, and the prompts below them."""
    instructions = text.partition("\n## ")[0].partition("\n")[2].strip()
    return instructions, [_make_prompt(*match.groups()) for match in PROMPT.finditer(text)]


def _make_prompt(name: str, title: str, text: str) -> Prompt:
    def prompt(exercise: str) -> str:
        return text.strip().replace("EXERCISE", exercise)

    return Prompt.from_function(prompt, name=name, description=title)
