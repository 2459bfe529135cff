"""Back to the stub, and back again: what the learner wrote is kept in exercises/.headway/kept/."""

from __future__ import annotations

import re
from pathlib import Path

from grader.console.output import make_console, print_wrapped
from grader.course.source import (
    SourceProblem,
    append_definition,
    decode_source,
    definition,
    find_definition,
    read_bytes,
    read_source,
    replace_definition,
    write_source,
)
from grader.course.status import read_course, short_path
from grader.course.stubs import fingerprint, reference_stub
from grader.course.syllabus import EXERCISES, Chapter, Exercise
from grader.files import problem, write_whole

KEPT = EXERCISES / ".headway" / "kept"


def reset(name: str) -> int:
    """Put the stub of an exercise or a chapter back; what was there is kept."""
    found = read_course().find(name)
    file = _file(found)
    stub = reference_stub(file.stem)
    if isinstance(found, Chapter):
        kept = _reset_chapter(file, stub)
    else:
        kept = _reset_exercise(found, file, definition(stub, found.name, f"the stub of {file.name}").text)
    if kept is None:
        make_console().print(f"{_called(found)} is the stub already.")
    elif kept == "":
        make_console().print(f"{short_path(file)} was missing, and is the stub again.")
    else:
        print_wrapped(make_console(), f"{_called(found)} is the stub again. Yours is kept in {kept}; `headway reset {name} --undo` brings it back.")
    return 0


def undo_reset(name: str) -> int:
    """Exchange what is there for what the last reset put aside."""
    found = read_course().find(name)
    file, console = _file(found), make_console()
    kept = _kept(found)
    if not kept:
        console.print(f"There is nothing to bring back: no reset of {name} has put anything aside.")
        return 1
    newest = kept[-1]
    if isinstance(found, Chapter):
        data = read_bytes(newest)
        aside: str | None = _reset_to(file, data, reference_stub(file.stem))
    else:
        stub = definition(reference_stub(file.stem), found.name, f"the stub of {file.name}").text
        aside = _reset_exercise(found, file, read_source(newest), unless=stub)
    newest.unlink()
    print_wrapped(console, f"{_called(found)} is what you had before." + (f" What was there since is kept in {aside}." if aside else ""))
    return 0


def _reset_chapter(file: Path, stub: str) -> str | None:
    if not file.exists():
        write_whole(file, stub)
        return ""
    data = read_bytes(file)
    if _is_text(data, stub):
        return None
    kept = _keep(file.stem, data)
    write_whole(file, stub)
    return kept


def _reset_to(file: Path, data: bytes, stub: str) -> str:
    """Put `data` in the chapter; what was there is kept, unless it is the stub."""
    present = read_bytes(file) if file.exists() else stub.encode()
    kept = "" if _is_text(present, stub) else _keep(file.stem, present)
    write_whole(file, data)
    return kept


def _reset_exercise(exercise: Exercise, file: Path, new: str, unless: str | None = None) -> str | None:
    """Exchange one definition for `new`; what was there is kept unless it is `unless`. None where nothing changes."""
    try:
        text = read_source(file)
        present = find_definition(text, exercise.name, short_path(file))
    except SourceProblem as error:
        chapter = exercise.chapter
        raise SourceProblem(f"{error}; {exercise.name} cannot be told apart in it, so reset the whole chapter: `headway reset {chapter}`") from None
    if present is None:
        write_source(file, append_definition(text, new))
        return ""
    if _same(present.text, new):
        return None
    kept = "" if unless is not None and _same(present.text, unless) else _keep(f"{file.stem}.{exercise.name}", present.text.encode())
    write_source(file, replace_definition(text, exercise.name, new, short_path(file)))
    return kept


def _keep(stem: str, data: bytes) -> str:
    numbers = [_number(path) for path in _kept_under(stem)]
    path = KEPT / f"{stem}.{max(numbers, default=0) + 1}.py"
    try:
        write_whole(path, data)
    except OSError as error:
        raise SourceProblem(f"nothing is changed, for yours could not be kept: {problem(error, f'write {short_path(path)}')}") from error
    return short_path(path)


def _kept(found: Exercise | Chapter) -> list[Path]:
    return _kept_under(_file(found).stem if isinstance(found, Chapter) else f"{found.module}.{found.name}")


def _kept_under(stem: str) -> list[Path]:
    paths = [path for path in KEPT.glob(f"{stem}.*.py") if re.fullmatch(rf"{re.escape(stem)}\.\d+\.py", path.name)]
    return sorted(paths, key=_number)


def _number(path: Path) -> int:
    return int(path.name.split(".")[-2])


def _file(found: Exercise | Chapter) -> Path:
    return EXERCISES / f"{found.name if isinstance(found, Chapter) else found.module}.py"


def _called(found: Exercise | Chapter) -> str:
    return short_path(_file(found)) if isinstance(found, Chapter) else found.name


def _is_text(data: bytes, text: str) -> bool:
    try:
        return _same(decode_source(data), text)
    except SourceProblem:
        return False


def _same(one: str, other: str) -> bool:
    return fingerprint(one.strip()) == fingerprint(other.strip())
