"""The reference's own functions and classes, for tests that compare them with published ones."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from transformers.utils import logging

logging.set_verbosity_error()


@pytest.fixture(scope="session")
def ours():
    """Every public function and class of the reference, as an attribute."""
    chapters = load_syllabus().chapters
    package = ChapterPackage(package_sources(resolve("solutions"), chapters[-1], whole=True), "tested")
    found = {}
    for chapter in chapters:
        module = package.module(chapter.name)
        for name, value in vars(module).items():
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__:
                found[name] = value
    yield SimpleNamespace(**found)
    package.close()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(13)
