"""`headway lsp`: the language server for an editor."""

from __future__ import annotations

import sys

from grader.console.output import print_error
from grader.course.status import read_course
from grader.models.packages import require_packages


def lsp() -> int:
    """Show in your editor what the tests say, each time you save.

    Your editor starts this language server; the page "In your editor" of the book has the settings."""
    read_course()
    require_packages("lsp", ("pygls",), extra="editor")
    if sys.stdin.isatty():
        print_error("this is the language server that an editor starts; the page editor.md of the book says how")
        return 2
    from grader.language_server.editor_server import serve

    return serve()
