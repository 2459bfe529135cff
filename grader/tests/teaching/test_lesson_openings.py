"""Each chapter's lesson opens with something that the reader runs first: a command, or a few lines of Python and what they print."""

import io
import re
from contextlib import redirect_stdout

import pytest
import torch
from grader.cli.main import COMMANDS
from grader.course.syllabus import EXERCISES, load_syllabus

OPENING = re.compile(r"^# .*?^## Run this first\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAX_LINES, MAX_WORDS = 10, 150  # of code, and of words around it


@pytest.fixture(params=load_syllabus().chapters, ids=lambda chapter: chapter.id)
def opening(request):
    text = (EXERCISES / f"{request.param.name}.md").read_text(encoding="utf-8")
    match = OPENING.search(text)
    assert match and text.index("\n## ") + 1 == text.index("## Run this first"), "the first section is `## Run this first`"
    return match[1]


def test_the_opening_is_short_and_runs_a_command_or_some_lines_of_python(opening):
    (language, code), *_ = FENCE.findall(opening)
    assert len(code.splitlines()) <= MAX_LINES and len(FENCE.sub("", opening).split()) <= MAX_WORDS
    if language != "python":
        assert code.startswith("headway ") and code.split()[1] in COMMANDS


def test_the_lines_of_the_opening_print_what_the_lesson_shows(opening):
    (language, code), *more = FENCE.findall(opening)
    if language != "python":
        return
    [(_, shown)] = more
    printed = io.StringIO()
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    assert printed.getvalue() == shown


def test_what_goes_wrong_is_folded_after_the_exercises_one_line_each():
    for chapter in load_syllabus().chapters:
        text = (EXERCISES / f"{chapter.name}.md").read_text(encoding="utf-8")
        assert text.index("\n## Now build it\n") < text.index("\n## What goes wrong\n"), chapter.name
        section = re.search(r"^## What goes wrong\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
        folded = re.search(r"<details>\n<summary>.*?</summary>\n(.*?)</details>", section, re.DOTALL)[1]
        items = [line for line in folded.splitlines() if line.startswith("- ")]
        assert 3 <= len(items) <= 10 and "\n  " not in folded, chapter.name
