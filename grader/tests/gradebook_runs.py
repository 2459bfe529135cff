"""Gradebooks that are created, filled and refused, in this process or in one that may be killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_class import EXERCISES, RULES, VERSIONS, verdict_of
from grader.classroom.exports import write_all
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import GradebookProblem

PATH = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])

GRADER = """
import sys
from pathlib import Path
from grader.classroom.gradebook import Gradebook, GradebookProblem
from example_class import *

def say(words):
    print(words, flush=True)

folder = Path(sys.argv[1])
"""
GRADE_ALL = """
with Gradebook(folder) as book:
    book.start_run(0, EXERCISES, VERSIONS)
    for one in book.submissions_to_do(a_class(int(sys.argv[2]))):
        sys.stdin.readline()
        book.store_verdict(one.digest, verdict_of(one.digest, seconds=len(sys.argv)))
        say(one.digest)
"""


def process(body: str, *arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-c", GRADER + body, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": PATH}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start_gradebook(folder: Path, people: list, seed: int = 0, exercises=EXERCISES, **changed) -> tuple[Gradebook, list, str]:
    book = Gradebook(folder)
    said = book.start_run(seed, exercises, VERSIONS | changed)
    return book, book.submissions_to_do(people), said


def graded(folder: Path, people: list, seed: int = 0, exercises=EXERCISES, **changed) -> int:
    """Grade all of it; return how many were graded in this run."""
    book, todo, _ = start_gradebook(folder, people, seed, exercises, **changed)
    with book:
        for one in todo:
            book.store_verdict(one.digest, verdict_of(one.digest, exercises))
    return len(todo)


def exported(book: Gradebook, folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in write_all(book.graded_class(RULES), folder)}


def refused(folder: Path) -> str:
    with pytest.raises(GradebookProblem) as caught:
        Gradebook(folder)
    return str(caught.value)
