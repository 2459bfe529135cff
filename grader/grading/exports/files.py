"""A folder with a file for each person: what changed is written, and files of people who are gone go too."""

from __future__ import annotations

from pathlib import Path

from ...files import problem, write_whole
from .. import harmless
from ..problems import GradingProblem


def put(path: Path, content: str) -> Path:
    """The file whole, or as it was; untouched where it says this already."""
    if _bytes(path) != content.encode("utf-8"):
        try:
            write_whole(path, content)
        except OSError as error:
            raise GradingProblem(problem(error, f"write {harmless.line(str(path))}")) from error
    return path


def put_each(folder: Path, suffix: str, contents: dict[str, str], mark: str) -> list[Path]:
    """A file for each name. `mark` is how every one of them begins: a file with another beginning is not ours, and is never removed."""
    paths = [put(folder / f"{name}{suffix}", content) for name, content in contents.items()]
    for path in set(folder.glob(f"*{suffix}")) - set(paths) if folder.is_dir() else ():
        if (_bytes(path) or b"").startswith(mark.encode("utf-8")):
            path.unlink()
    return paths


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
