"""`headway lsp`: the language server for an editor."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from grader.console.output import print_error
from grader.course.status import read_course

INSTALL = 'pip install -c constraints.txt -e ".[editor]"'


def lsp() -> int:
    """Show in your editor what the tests say, each time you save.

    Your editor starts this language server; the page "In your editor" of the book has the settings."""
    read_course()
    if find_spec("pygls") is None:
        print_error(f"the language server needs the extra `editor`, which is not installed: run {INSTALL}")
        return 1
    if sys.stdin.isatty():
        print_error("this is the language server that an editor starts; the page editor.md of the book says how")
        return 2
    from grader.language_server.server import serve

    return serve()
