"""What a handout says to its learner: README.md, Makefile and the workflow that grades a push on GitHub."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grader.course.progress import format_points
from grader.course.syllabus import Chapter


def readme(chapters: Sequence[Chapter], hidden: Collection[str]) -> str:
    """`chapters` as the handout's own syllabus has them, without what is hidden."""
    rows = []
    for chapter in chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} | {format_points(chapter.points)} |")
    return _README.format(rows="\n".join(rows), first=chapters[0].name, example=chapters[0].exercises[0].name, hidden=_hidden(hidden), files=_files(chapters))


def _files(chapters: Collection[Chapter]) -> str:
    return ", ".join(f"`exercises/{chapter.name}.py`" for chapter in chapters)


def _hidden(names: Collection[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"`{name}`" for name in names)
    return f"\n\nGraded by your instructor alone, with tests that are not here: {listed}. Their stubs are in the files like all the others."


MAKEFILE = """\
# make learn   install Headway in .venv and show where you are
# make test    test all of your code the way it will be graded

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \\
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

.PHONY: learn test

learn: .venv/.learn
	@$(BIN)/headway

test: .venv/.learn
	@$(BIN)/python -m pytest --worker

.venv/.learn: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Headway needs Python 3.11 or newer; name yours with make learn PYTHON=..."; exit 1; }
	@echo "Installing into .venv. The first time takes some minutes: torch is large."
	@$(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) -e .
	@touch $@
"""

WORKFLOW = """\
# Grades every push, and shows the points and what is wrong on the run's page.
# A red cross means that something fails; a stub that is not written yet is no failure.
name: grade
on: [push, workflow_dispatch]

permissions:
  contents: read

jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install
        run: |
          python -m pip install -c constraints.txt torch
          python -m pip install -c constraints.txt -e .
      - name: Grade
        run: python -m pytest --worker --results results.json
      - name: Summary
        if: always()
        run: python -m grader.classroom.handout.summary results.json >> "$GITHUB_STEP_SUMMARY"
"""

_README = """\
# Headway

Build a transformer by hand, one tested piece at a time. You fill in PyTorch stubs; the tests tell you, in words, what is wrong and what to look at next.

```
make learn      # makes .venv, installs what is needed, and shows where you are and what to do next
make test       # tests all of your code the way it will be graded
```

Without make, or on Windows, with Python 3.11 or newer:

```
python -m venv .venv && .venv/bin/pip install -c constraints.txt -e .           # Windows: .venv\\Scripts\\pip
.venv/bin/headway                                                               # Windows: .venv\\Scripts\\headway
```

## What you build

| chapter | exercises | points |
| --- | --- | --- |
{rows}{hidden}

Read the lesson `exercises/{first}.md`, open `exercises/{first}.py`, and write the lines the numbered TODOs ask for. What you hand in is
{files}. Then (with the environment active: `. .venv/bin/activate`):

| command | what it does |
| --- | --- |
| `headway` | where you are, and the one next thing to do |
| `headway watch [NAME]` | keeps watching beside your editor: a verdict at every save |
| `headway check [NAME]` | tests an exercise, a chapter, or the current one |
| `headway hint [NAME]` | the next of three hints: a question, the idea, nearly the line |
| `headway next`, `headway list`, `headway open NAME` | the next exercise; all of them; this one in your editor |
| `headway show NAME`, `headway walk` | draws what an exercise computes, yours beside ours; guided tours of what works already |
| `headway book` | the lessons as a book in your browser, with stubs, hints and search |
| `headway reset NAME` | back to the stub; your version is kept, and `--undo` brings it back |
| `headway doctor` | is this machine ready, and do the tests reach your code? |

A stub that is not written yet is `todo`, which is no failure. A failed test shows the promise, the smallest example that breaks it, what you returned
beside what was expected, and, when your code behaves exactly like a known mistake, which one it is. In a notebook,
`from grader import check, hint` and then `check("{example}", {example})` test what a cell defines.

The chapters before yours are ours, so you can begin here. The reference in `reference/` is sealed: the tests compare your code with it, and it cannot be
read like a text, which is a curtain and no lock. Finding your own way is what the exercises are for.

Your progress is the small text file `exercises/progress.txt`. On GitHub, `.github/workflows/grade.yml` tests every push and shows the points on the run's page.
"""
