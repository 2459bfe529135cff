"""Checks the installation: prints one line for each finding; a line about a problem says how to fix it."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from grader.cli.arguments import option
from grader.console.output import make_console, print_wrapped, wrap_text
from grader.counts import format_count
from grader.course.reference import reference_of
from grader.course.source import SourceProblem, parse, read_source
from grader.course.status import read_course, short_path
from grader.course.syllabus import EXERCISES, ROOT, TESTS, is_handout, suites_of
from grader.execution.sandbox import isolation, namespaces
from grader.models.packages import missing_packages
from grader.processes import kept_server
from rich.text import Text

_PROBE = """
import socket
def {exercise}(*args, **kwargs):
    reached = []
    for what, attempt in (("files of the kit", lambda: open({file!r})), ("the network", socket.socket)):
        try:
            attempt()
            reached.append(what)
        except OSError:
            pass
    raise RuntimeError({secret!r} + " reached <" + " and ".join(reached) + ">")
"""

NEEDED = ("torch", "pytest", "pytest-check", "hypothesis", "rich", "typer")


@dataclass(frozen=True)
class Finding:
    state: str  # "ok", "note" or "wrong"
    sentence: str


def doctor(
    grading: Annotated[
        bool, option("Also check the sandbox, for those who grade other people's code.", "--grading")
    ] = False,
) -> int:
    """Check the installation, and whether the tests find your code."""
    console, wrong = make_console(), 0
    for finding in examine(grading):
        wrong += finding.state == "wrong"
        style = {"ok": "green", "note": "yellow", "wrong": "bold red"}[finding.state]
        for number, line in enumerate(wrap_text(finding.sentence, console.width - 8)):
            console.print(Text.assemble((f" {finding.state if number == 0 else '':<5}  ", style), line), soft_wrap=True)
    console.print()
    found = f"{format_count(wrong, 'problem')} found; the lines above say what to do."
    console.print(found if wrong else "Everything works.")
    if not grading and not is_handout():
        print_wrapped(console, "Do you grade other people's code? `headway doctor --grading` also checks the sandbox.")
    return int(wrong > 0)


def examine(grading: bool) -> Iterator[Finding]:
    """All checks, quick ones first; those of the sandbox are for grading."""
    yield Finding("ok", f"Python {platform.python_version()}, {sys.executable}")
    yield from _packages()
    yield _find_other_kit()
    if kept := kept_server.find():
        ends = f"it ends after {kept_server.IDLE_SECONDS / 60:g} minutes without use, and with `headway stop`"
        yield Finding("ok", f"a server waits for your next `headway check` (process {kept.pid}); {ends}")
    if grading:
        yield from _isolation()
    yield from _chapters()
    yield _tests_reach_code(grading)


def _packages() -> Iterator[Finding]:
    tested, other = _constraints(), []
    for name in NEEDED:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            advice = "run `make learn`, or `pip install -c constraints.txt -e .`"
            yield Finding("wrong", f"{name} is not installed; {advice}")
            continue
        if name in tested and version.partition("+")[0] != tested[name]:
            other.append(f"{name} {version} (tested with {tested[name]})")
    if other:
        yield Finding("note", f"these packages are not the versions that Headway was tested with: {', '.join(other)}")
    else:
        yield Finding("ok", "all packages have the versions that Headway was tested with (constraints.txt)")
    if find_spec("torch") and (sentence := missing_packages("train")):
        yield Finding("note", sentence)
    if find_spec("triton"):
        yield Finding("ok", "Triton is installed: `headway check` runs the kernels of chapter 21 in it too")


def _constraints() -> dict[str, str]:
    try:
        text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, flags=re.MULTILINE))


def _find_other_kit() -> Finding:
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "grader" / "cli" / "main.py").exists() and (folder / "exercises").is_dir() and folder != ROOT:
            advice = "run `make learn` here and use the `headway` in .venv"
            return Finding("wrong", f"you are in {folder}, but this `headway` tests the code in {ROOT}; {advice}")
    return Finding("ok", f"this `headway` tests the code in {EXERCISES}")


def _isolation() -> Iterator[Finding]:
    """The layers of the sandbox, one line each."""
    layers = isolation.layers()
    if not any(layer.on for layer in layers):
        danger = "a worker can read files and use the network (only Linux has isolation)"
        yield Finding("note", f"no isolation on this system: {danger}; {layers[0].remedy}")
        return
    for layer in layers:
        yield Finding("ok" if layer.on else "note", f"isolation, {layer}")
    if not any(layer.on for layer in layers if layer.name == "landlock"):
        return
    if namespaces.available():
        found = "a worker sees no other process, and reading a file changes no access time"
        yield Finding("ok", f"isolation, namespaces: {found}")
    else:
        danger = "two workers can exchange information through access times"
        yield Finding("note", f"isolation, namespaces are off: this system allows no user namespaces; {danger}")
    if os.getuid() == 0:
        yield Finding("note", "you are root, and root has no limit on the number of threads; grade as an ordinary user")


def _chapters() -> Iterator[Finding]:
    if not os.access(EXERCISES, os.W_OK):
        yield Finding("note", f"{short_path(EXERCISES)} is not writable, so your progress cannot be saved")
    read = 0
    for chapter in read_course().chapters:
        file = EXERCISES / f"{chapter.name}.py"
        if not chapter.exercises or reference_of(chapter.name) is None:
            continue
        try:
            parse(read_source(file), short_path(file))
            read += 1
        except SourceProblem as error:
            missing = f"{short_path(file)} is missing; `headway reset {chapter.id}` creates the stub again"
            yield Finding("wrong", str(error) if file.exists() else missing)
    yield Finding("ok", f"{format_count(read, 'chapter')} in {short_path(EXERCISES)} can be read")


def _tests_reach_code(grading: bool) -> Finding:
    """Point the tests at a generated chapter, in a worker, and check that they call its code."""
    chapter = next((chapter for chapter in read_course().chapters if chapter.exercises and suites_of(chapter.id)), None)
    if chapter is None:
        return Finding("wrong", f"{short_path(TESTS)} has no graded tests; `git checkout tests` restores them")
    exercise, secret = chapter.exercises[0].name, f"doctor {secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        text = _PROBE.format(exercise=exercise, secret=secret, file=str(ROOT / "pyproject.toml"))
        (Path(folder) / f"{chapter.name}.py").write_text(text, encoding="utf-8")
        results = Path(folder) / "results.json"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--target", folder, "--exercise", exercise]
        command += ["--worker", "--results", str(results), *map(str, suites_of(chapter.id))]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=300)
            tests = json.loads(results.read_text(encoding="utf-8"))["exercises"][0]["tests"]
        except subprocess.TimeoutExpired as error:
            return Finding("wrong", f"the tests do not run: {error}")
        except (OSError, ValueError, LookupError):
            last = ([line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no output"])[-1]
            advice = "if a package is broken, `make learn` installs it again"
            return Finding("wrong", f"the tests do not run: {last.strip()}; {advice}")
    reached = {found for test in tests for found in re.findall(rf"{secret} reached <(.+?)>", test["message"])}
    layers = isolation.available(bubblewrap=False)
    if grading and reached and layers.landlock and layers.seccomp:
        danger = f"code in a worker could use {', '.join(sorted(reached))}"
        return Finding("wrong", f"the isolation does not work: {danger}; do not grade other people's code here")
    if all(secret in test["message"] for test in tests):
        return Finding("ok", "tests call the code that they are given")
    advice = f"run `pip install -e .` in {ROOT} to fix it"
    return Finding("wrong", f"tests call other code than they are given; {advice}")
