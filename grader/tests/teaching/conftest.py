"""Fixtures for tests of what learners look at."""

import threading

import pytest
from browser import Browser
from grader.teaching.book.build import make_server
from grader.teaching.book.site import build


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
        yield serving.address
        serving.shutdown()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for many pages."""
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one
