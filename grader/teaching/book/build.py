"""Build the book with messages for the user, or say in a sentence why it cannot be built. `make book` runs this."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.util import find_spec

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import short_path
from grader.files import problem

PACKAGES = ("jinja2", "markdown_it", "pygments")
INSTALL = "pip install -c constraints.txt -e '.[book]'"


def build_and_report() -> int:
    """Build the book and print where it is; return 1 if that fails."""
    if is_extra_missing() or not build():
        return 1
    from grader.teaching.book.site import FOLDER

    where, front = short_path(FOLDER), short_path(FOLDER / "index.html")
    print_wrapped(make_console(), f"The book is in {where}: open {front}, or read it with `headway book`.")
    return 0


def is_extra_missing() -> bool:
    """Return whether a package that the book needs is not installed, and print what to do."""
    if all(find_spec(name) for name in PACKAGES):
        return False
    print_error(f"the book needs the extra `book`, which is not installed: run {INSTALL}")
    return True


def build() -> bool:
    """Build it with a progress message; if that fails, print why and return False."""
    from grader.teaching.book import site

    console = make_console(stderr=True)
    if not console.is_terminal:
        console.print("Building the book ...")
    try:
        with console.status("Building the book ...") if console.is_terminal else nullcontext():
            site.build()
    except OSError as error:
        print_error("the book is not built: " + problem(error, f"write {short_path(site.FOLDER)}"))
        return False
    return True


if __name__ == "__main__":
    sys.exit(build_and_report())
