"""`headway tutor`: tools for the assistant that a learner uses."""

from __future__ import annotations

import sys

from grader.console.output import print_error
from grader.models.packages import require_packages


def tutor() -> int:
    """Serve tools to your AI assistant: it asks you questions, and has no solutions.

    Your assistant starts this command (MCP on standard input and output)."""
    require_packages("tutor", ("mcp",), extra="tutor")
    from grader.tutor.server import serve

    if sys.stdin.isatty():
        print_error("an assistant starts this command, and talks to it; Control-D ends it")
    serve()
    return 0
