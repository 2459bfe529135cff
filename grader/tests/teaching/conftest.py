"""Fixtures for tests of what learners look at."""

import threading

import pytest
from browser import Browser
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.book.serving import book_address, make_server
from grader.teaching.book.site import build


@pytest.fixture(scope="session")
def solutions():
    """The reference's chapters: `solutions("ch03_attention")` is a module."""
    last = load_syllabus().chapters[-1]
    package = ChapterPackage(package_sources(resolve("solutions"), last, whole=True), "tested")
    yield package.module
    package.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The built book."""
    folder = tmp_path_factory.mktemp("book") / "book"
    build(folder)
    return folder


@pytest.fixture(scope="session")
def address(folder):
    """The address of a server of the book."""
    with make_server(folder) as serving:
        threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield book_address(serving)
        serving.shutdown()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for many pages."""
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one
