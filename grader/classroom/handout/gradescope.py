"""Makes an autograder archive for Gradescope: two scripts, and the kit with its reference, which students must not get.

Gradescope unpacks it into /autograder/source, runs setup.sh once as root when it builds the image, copies run_autograder to /autograder,
and runs that for each submission in /autograder/submission. Both scripts use paths relative to their own location, so they can be tried
in any folder. run_autograder starts `commands/autograde.py`.
"""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules, format_rules
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS, Chapter, Exercise, load_syllabus
from grader.files import write_whole

SETTINGS, RULES, SECRET = "headway.json", "rules.toml", "secret"  # setup.sh makes the last one, so that equal kits give equal archives
NOT_NEEDED = frozenset({"__pycache__", "variants"})
NOT_NEEDED_OF_GRADER = ("tests/", "quality/", "teaching/pictures.py")
ALWAYS = (2020, 1, 1, 0, 0, 0)  # so that equal kits give equal archives

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image. It makes a Python environment for Headway.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

find_python() {  # the first Python that is new enough and can make an environment
    for python in python3 python3.13 python3.12 python3.11; do
        "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$python" && return
    done
    return 1
}

if ! find_python > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y python3.12 python3.12-venv || apt-get install -y python3.11 python3.11-venv
fi
python="$(find_python)" || { echo "Headway needs Python 3.11 or newer; choose a newer base image (Ubuntu 24.04)."; exit 1; }

"$python" -m venv "$here/venv"
cd "$here/kit"
index=TORCH_INDEX  # a package index with a CPU build of torch, which is much smaller; empty: the usual index
"$here/venv/bin/python" -m pip install -c constraints.txt ${index:+--index-url "$index"} torch || {
    echo "torch could not be installed from ${index:-the usual index}. Make the archive again with another headway gradescope --torch-index ADDRESS."
    exit 1
}
"$here/venv/bin/python" -m pip install -c constraints.txt -e .

umask 077  # the secret decides which examples are drawn besides the common ones
[ -s "$here/secret" ] || "$here/venv/bin/python" -c 'import secrets; print(secrets.token_hex(16))' > "$here/secret"
"""

RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission. It writes results/results.json; only instructors see what it prints.
base="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$base/source/kit" && exec "$base/source/venv/bin/python" -m grader.cli.commands.autograde "$base"
"""


@dataclass(frozen=True)
class Autograder:
    """An archive that was made."""

    path: Path
    exercises: tuple[Exercise, ...]

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return tuple(chapter for chapter in load_syllabus().chapters if any(exercise in self.exercises for exercise in chapter.exercises))


def write_archive(
    path: Path, chapters: Iterable[str], exercises: Iterable[str] = (), seed: int = 0, rules: Rules | None = None, hidden: Iterable[str] = (), torch_index: str = ""
) -> Autograder:
    """Write the archive for these chapters and exercises, or for all; the results of hidden exercises are shown after publishing.

    UnknownName for an unknown name, GradingProblem for a path that cannot be used.
    """
    course = load_syllabus()
    graded = tuple(course.chosen([*(course.chapter(name).id for name in chapters), *exercises]))
    secret = [course.exercise(name) for name in hidden]
    for exercise in secret:
        if exercise not in graded:
            raise GradingProblem(f"--hidden {exercise.name}: this exercise is not graded here; add it to --exercises, or its chapter {exercise.chapter} to --chapters")
    path = check_path(path)
    _check_index(torch_index)
    settings = {"chapters": [], "exercises": [exercise.name for exercise in graded], "hidden": [exercise.name for exercise in secret], "seed": seed}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "setup.sh", SETUP.replace("TORCH_INDEX", shlex.quote(torch_index)), 0o755)
        _add(archive, "run_autograder", RUN, 0o755)
        _add(archive, SETTINGS, json.dumps(settings) + "\n")
        if rules is not None:
            _add(archive, RULES, format_rules(rules))
        for name, content in _kit():
            _add(archive, f"kit/{name}", content)
    write_whole(path, packed.getvalue())
    return Autograder(path, graded)


def check_path(path: Path) -> Path:
    """The archive's path, which ends with .zip. GradingProblem if it is a folder, is in a missing one, or would replace another file than an earlier archive."""
    if path.is_dir():
        raise GradingProblem(f"{path} is a folder; name the archive's file, like {path / 'autograder.zip'}")
    if path.suffix.lower() != ".zip":  # Gradescope accepts no other
        path = path.with_name(f"{path.name}.zip")
    if path.parent.exists() and not path.parent.is_dir():
        raise GradingProblem(f"could not write {path}: {path.parent} is a file, not a folder")
    if not path.parent.is_dir():
        raise GradingProblem(f"the folder {path.parent} does not exist; make it first, or choose another")
    if path.exists() and not _is_autograder(path):
        raise GradingProblem(f"{path} exists and is not an autograder of Headway, so it is not replaced; choose another name")
    return path


def _is_autograder(path: Path) -> bool:
    """Whether this command wrote the file; one of a person's other zip files may be a class's submissions."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"setup.sh", "run_autograder", SETTINGS, "kit/pyproject.toml"} <= set(archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError):
        return False


def _check_index(address: str) -> None:
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fits = False
    if address and (not fits or not address.isprintable() or " " in address):
        raise GradingProblem(f"--torch-index {address}: this is not the address of a package index, which begins with https:// or http://")


def hide_results(results: dict, hidden: Collection[str]) -> dict:
    """One person's results.json without what students may see only after the instructor has published the grades.

    Gradescope hides the total too while a test is hidden, so the sentence with the points is left out.
    """
    if not any(set(test["tags"]) & set(hidden) for test in results["tests"]):
        return results
    tests = [test | {"visibility": "after_published"} if set(test["tags"]) & set(hidden) else test for test in results["tests"]]
    _, _, rest = results["output"].partition("\n\n")
    later = f"Your instructor shows the results of {' and '.join(sorted(hidden))} and your points later."
    return results | {"tests": tests, "output": f"{later}\n\n{rest}" if rest else later}


def _kit() -> Iterator[tuple[str, str | bytes]]:
    """The files of the kit that grading needs. Stubs are made from the solutions, since the instructor may have edited exercises/."""
    for name in ("LICENSE", "README.md", "constraints.txt", "pyproject.toml"):
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_bytes()
    yield "exercises/syllabus.toml", (EXERCISES / "syllabus.toml").read_bytes()
    for chapter in load_syllabus().chapters:
        if chapter.exercises:
            yield f"exercises/{chapter.name}.py", reference_stub(chapter.name)
    for folder in (ROOT / "grader", SOLUTIONS, TESTS):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            left_out = NOT_NEEDED & set(inside.parts) or (folder.name == "grader" and inside.as_posix().startswith(NOT_NEEDED_OF_GRADER))
            if path.is_file() and not left_out and not path.name.startswith("."):
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _add(archive: zipfile.ZipFile, name: str, content: str | bytes, mode: int = 0o644) -> None:
    entry = zipfile.ZipInfo(name, ALWAYS)
    entry.external_attr, entry.create_system, entry.compress_type = (0o100000 | mode) << 16, 3, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
