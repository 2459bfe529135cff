"""`headway tutor`: tools for the assistant that a learner uses."""

from __future__ import annotations

import sys
from typing import Annotated

from grader.cli.arguments import option
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.syllabus import ROOT
from grader.models.packages import require_packages


def tutor(
    files: Annotated[
        bool, option("Write the files that tell assistants of this course and of the tutor.", "--files")
    ] = False,
) -> int:
    """Let your AI assistant ask you questions, without solutions.

    Your assistant starts this command (MCP on standard input and output)."""
    if files:
        from grader.tutor.files import write_files

        for sentence in write_files(ROOT, (sys.executable, "-m", "grader.cli", "tutor")):
            print_wrapped(make_console(), sentence)
        return 0
    require_packages("tutor", ("mcp",), extra="tutor")
    from grader.tutor.mcp_server import serve

    if sys.stdin.isatty():
        print_error("an assistant starts this command, and talks to it; Control-D ends it")
    serve()
    return 0
