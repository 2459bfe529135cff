"""Builds Headway's wheel: setuptools', with the whole kit in one folder, as a clone has it.

`headway_kit/` has grader/, exercises/, solutions/, tests/ and the files beside them, and `headway_kit.pth` lets Python
import `grader` from there. So the installed kit finds everything where a clone does, and an instructor can grade and
make handouts without a clone. Only pip and `build` run this module; it imports nothing of the kit.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  (what pip asks of a build backend)
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

FOLDER = "headway_kit"
PARTS = (
    "grader", "exercises", "solutions", "tests", "pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md",
    "LICENSE", "Makefile", ".gitignore",
)  # fmt: skip
LEFT_OUT = {"__pycache__", "hunts", "my_tests", "progress.txt"}  # what a learner's work leaves
OWN_TESTS = Path("grader", "tests")


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None):
    """Called by pip; the file's name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, name)
    with zipfile.ZipFile(path) as made:
        metadata = {each: made.read(each) for each in made.namelist() if ".dist-info/" in each}
    content = {f"{FOLDER}/{place.as_posix()}": place.read_bytes() for place in _files()}
    content[f"{FOLDER}.pth"] = f"{FOLDER}\n".encode()
    content |= {name: data for name, data in metadata.items() if not name.endswith(("/RECORD", "/top_level.txt"))}
    record = next(name for name in metadata if name.endswith("/RECORD"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for each, data in content.items():
            file.writestr(each, data)
        lines = [f"{each},sha256={_digest(data)},{len(data)}\n" for each, data in content.items()]
        file.writestr(record, "".join(lines) + f"{record},,\n")
    return name


def _files() -> Iterator[Path]:
    for part in map(Path, PARTS):
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            inside = path.relative_to(part).parts
            hidden = any(each.startswith(".") for each in inside[:-1])
            if path.is_file() and not hidden and not LEFT_OUT & set(inside) and OWN_TESTS not in path.parents:
                yield path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
