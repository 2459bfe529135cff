"""A real client of `headway tutor`: the SDK's own, over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from kit_copy import Kit
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

COMMAND = [sys.executable, "-m", "grader.cli", "tutor"]


@asynccontextmanager
async def connected(root: Path, command: list[str] = COMMAND):
    """A session with a server that this command starts in the folder."""
    server = StdioServerParameters(command=command[0], args=command[1:], cwd=root)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        yield session


def with_session(root: Path, use: Callable[[ClientSession, Any], Any], command: list[str] = COMMAND) -> Any:
    """What `use` returns, which gets the session and the server's answer to `initialize`."""

    async def main():
        async with connected(root, command) as session:
            return await use(session, await session.initialize())

    return anyio.run(main)


async def call(session: ClientSession, tool: str, name: str | None = None) -> tuple[str, bool]:
    """The text of a tool's answer, and whether it is an error."""
    answer = await session.call_tool(tool, {} if name is None else {"name": name})
    assert all(part.type == "text" for part in answer.content)
    return "\n".join(part.text for part in answer.content), bool(answer.is_error)


def ask(kit: Kit, *calls: tuple[str, ...]) -> list[tuple[str, bool]]:
    """The answers of one server to these calls, in their order."""

    async def use(session, _):
        return [await call(session, *one) for one in calls]

    return with_session(kit.root, use)
