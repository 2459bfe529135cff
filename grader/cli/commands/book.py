"""`headway book`: serves the lessons as a book on this machine; builds it first if it is missing or out of date.

`make book` only builds it.
"""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import AnyName, named, option
from grader.console.local_server import open_browser, print_address
from grader.console.output import make_console, print_error
from grader.course.status import current_chapter, current_scores, read_course
from grader.course.stubs import modified_chapters
from grader.course.syllabus import EXERCISES, Chapter, Exercise
from grader.teaching.book.build import build, is_extra_missing, make_server


def book(
    name: AnyName = None,
    port: Annotated[
        int, option("The port of the book's server (default: any free port).", min=0, max=65535, metavar="N")
    ] = 0,
    browser: Annotated[bool, option("Open your browser, or only print the address.", "--browser/--no-browser")] = True,
) -> int:
    """Read the lessons as a book in your browser.

    It opens at the current chapter, or at NAME; Control-C stops it."""
    where = _page_of(named(name) if name else None)
    if is_extra_missing():
        return 1
    from grader.teaching.book.site import FOLDER, is_current

    if not is_current() and not build():
        return 1
    try:
        serving = make_server(FOLDER, port)
    except (OSError, OverflowError):
        print_error(f"port {port} is in use or not allowed; leave out --port to use a free one")
        return 1
    with serving:
        try:
            address = serving.address + where
            print_address(address, "The book", browser and open_browser(address), "read the book")
            serving.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            make_console().print("\nStopped.")
    return 0


def _page_of(found: Exercise | Chapter | None) -> str:
    """The page of an exercise or a chapter; else of the current chapter, or the front page before any work."""
    if found is None:
        scores, chapters = current_scores(), [chapter.name for chapter in read_course().chapters]
        chapter = current_chapter(scores) if scores or modified_chapters(chapters) else None
        where = f"{chapter.name}.html" if chapter else "index.html"
    else:
        where = f"{found.module}.html#{found.name}" if isinstance(found, Exercise) else f"{found.name}.html"
    lesson = EXERCISES / (where.partition("#")[0].removesuffix("html") + "md")
    return where if lesson.is_file() else "index.html"
