"""The texts of a handout: README.md, Makefile, and the workflows that grade a push on GitHub and on GitLab."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grader.course.progress import format_points
from grader.course.syllabus import Chapter


def readme(chapters: Sequence[Chapter], hidden: Collection[str]) -> str:
    """The README; `chapters` come from the handout's own syllabus, without hidden exercises."""
    rows = []
    for chapter in chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} | {format_points(chapter.points)} |")
    return _README.format(rows="\n".join(rows), first=chapters[0].name, hidden=_hidden(hidden), files=_files(chapters))


def _files(chapters: Collection[Chapter]) -> str:
    return ", ".join(f"`exercises/{chapter.name}.py`" for chapter in chapters)


def _hidden(names: Collection[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"`{name}`" for name in names)
    return f"\n\nOnly your instructor can grade {listed}: their tests are not here, but their stubs are in the files."


MAKEFILE = """\
# make learn   install Headway in .venv and show where you are
# make test    test all of your code as it will be graded
# make update FOLDER=../first    update an earlier handout with this one: your work there stays, and so does its environment

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \\
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

.PHONY: learn test update

learn: .venv/.learn
	@$(BIN)/headway

test: .venv/.learn
	@$(BIN)/python -m pytest --worker

update:
	@test -x "$(FOLDER)/.venv/bin/python" || { echo "Name the folder of your earlier handout, where you ran make learn: make update FOLDER=../first"; exit 1; }
	@"$(FOLDER)/.venv/bin/python" -m grader.cli handout --into "$(FOLDER)"

.venv/.learn: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Headway needs Python 3.11 or newer; name yours with make learn PYTHON=..."; exit 1; }
	@echo "Installing into .venv. The first time takes some minutes: torch is large."
	@$(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) -e ".[play]"
	@touch $@
"""

WORKFLOW = """\
# Grades every push: the points and the failures are on the run's page, and in a comment on the commit. It needs no other service.
# A red cross means that a test fails; a stub that is not implemented yet is not a failure.
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
        with:
          persist-credentials: false
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
        run: python -m grader.classroom.handout.summary results.json | tee summary.md >> "$GITHUB_STEP_SUMMARY"
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: verdict
          path: summary.md

  comment:  # in a job of its own, so that no code of the repository runs with the right to write
    needs: grade
    if: always()
    runs-on: ubuntu-latest
    permissions:
      contents: write
    steps:
      - uses: actions/download-artifact@v4
        with:
          name: verdict
      - name: Comment
        env:
          GH_TOKEN: ${{ github.token }}
        run: gh api --silent "repos/$GITHUB_REPOSITORY/commits/$GITHUB_SHA/comments" -F body=@summary.md
"""

GITLAB = """\
# Grades every push: the points and the failures are at the end of the job's log, in its artifact summary.md and, if you allow it, in a comment on the
# commit. For comments, make a project access token with the scope "api", and store it as the masked CI/CD variable HEADWAY_TOKEN.
# A red cross means that a test fails; a stub that is not implemented yet is not a failure.
grade:
  image: python:3.12
  timeout: 30 minutes
  script:
    - python -m pip install -c constraints.txt torch
    - python -m pip install -c constraints.txt -e .
    - python -m pytest --worker --results results.json
  after_script:
    - python -m grader.classroom.handout.summary results.json | tee summary.md
    - |
      if [ -n "$HEADWAY_TOKEN" ]; then
        curl --fail --silent --show-error --output /dev/null --header "PRIVATE-TOKEN: $HEADWAY_TOKEN" --form "note=<summary.md" \\
          "$CI_API_V4_URL/projects/$CI_PROJECT_ID/repository/commits/$CI_COMMIT_SHA/comments"
      fi
  artifacts:
    when: always
    paths: [summary.md, results.json]
"""

_README = """\
# Headway

Build a transformer by hand, one tested piece at a time. You fill in PyTorch stubs; the tests explain what is wrong and what to look at next.

```
make learn      # makes .venv, installs Headway, and shows where you are and what to do next
make test       # tests all of your code as it will be graded
```

Without make, or on Windows, with Python 3.11 or newer:

```
python -m venv .venv && .venv/bin/pip install -c constraints.txt -e ".[play]"   # Windows: .venv\\Scripts\\pip
.venv/bin/headway                                                               # Windows: .venv\\Scripts\\headway
```

## What you build

| chapter | exercises | points |
| --- | --- | --- |
{rows}{hidden}

Read the lesson `exercises/{first}.md`, open `exercises/{first}.py`, and write the lines that the numbered TODOs describe. Submit
{files}. Then (with the environment active: `. .venv/bin/activate`):

| command | what it does |
| --- | --- |
| `headway` | where you are, and the one next thing to do |
| `headway watch [NAME]` | runs next to your editor and tests each time you save |
| `headway check [NAME]` | tests an exercise, a chapter, or the current one |
| `headway repro [NAME]` | makes the call of the last failure again; `--pdb` stops there in the debugger |
| `headway hint [NAME]` | the next of three hints: a question, the idea, how to write it |
| `headway next`, `headway list`, `headway open NAME` | the next exercise; all of them; this one in your editor |
| `headway show NAME`, `headway walk` | draws what an exercise computes, your version next to the reference; guided tours of what works already |
| `headway book` | the lessons as a book in your browser, with stubs, hints and search |
| `headway reset NAME` | restores the stub and saves your version; `--undo` restores your version |
| `headway doctor` | checks that this machine is ready and that the tests run your code |

A stub that is not implemented yet is `todo`, not a failure. A failed test shows what should hold, the smallest example that breaks it, what you
returned next to what was expected, and which known mistake it is if your code behaves exactly like one. In a notebook, use
`from grader import check, hint, repro`; then a cell that begins with `%%check` is written into your file and tested.

Earlier chapters use the reference solution, so you can start here. The tests compare your code with the reference in `reference/`. It is sealed, so that
you do not read it by accident; a determined reader could open it. You learn most when you find your own solution.

Do you have an earlier handout with your work? Run `make update FOLDER=../first` here, with the path of that folder. It gets the chapters of this one, your
files stay as they are, and you go on there; you can delete this folder. Without make: `../first/.venv/bin/python -m grader.cli handout --into ../first`.

Your progress is the small text file `exercises/progress.txt`. On GitHub, `.github/workflows/grade.yml` tests every push and
writes the points in a comment on the commit; on GitLab, `.gitlab-ci.yml` does.
"""
