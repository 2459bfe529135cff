"""Build the book with messages for the user, or say in a sentence why it cannot be built; and serve the built one.

`make book` runs this module, which only builds.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

from grader.console.local_server import PageServer
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.paths import chosen_path
from grader.course.source import SourceProblem
from grader.course.status import current_scores, hours_left, is_passed, read_course, short_path
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


PROGRESS = "progress.js"  # the book's own file says that nothing is passed: it is for readers without this server


def progress_script() -> str:
    """Return the script with the exercises that the learner has passed by now, their number in each chapter, and the
    chosen path with the hours that are left of it."""
    try:
        course, scores, path = read_course(), current_scores(), chosen_path()
    except SourceProblem:
        return "window.headwayProgress = { passed: [], chapters: {}, path: null };\n"
    passed = [exercise.name for exercise in course.exercises if is_passed(exercise, scores)]
    chapters = {
        chapter.name: [sum(exercise.name in passed for exercise in chapter.exercises), len(chapter.exercises)]
        for chapter in course.chapters
    }
    chosen = path and {"name": path.name, "hours": path.course.hours, "left": hours_left(path.course, scores)}
    return f"window.headwayProgress = {json.dumps({'passed': passed, 'chapters': chapters, 'path': chosen})};\n"


def make_server(folder: Path, port: int = 0) -> PageServer:
    """Make a server of the book in `folder`. OSError if the port is in use."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return PageServer({**paths, "": folder / "index.html", PROGRESS: progress_script}, port)


if __name__ == "__main__":
    sys.exit(build_and_report())
