"""Puts the stub back, and undoes that: the learner's code is saved in exercises/.headway/kept/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from grader.cli.arguments import RequiredName, join_words, option
from grader.console.output import make_console, print_wrapped
from grader.course.kept import keep, kept_versions, same_text
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
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, Chapter, Exercise
from grader.files import write_whole


def reset(
    name: RequiredName, undo: Annotated[bool, option("--undo", help="Restore the code that the last reset saved.")] = False
) -> int:
    """Restore the stub of an exercise, and save your code."""
    found = read_course().find(join_words(name))
    if undo:
        return _undo(found)
    file = _file(found)
    stub = reference_stub(file.stem)
    if isinstance(found, Chapter):
        saved = _reset_chapter(file, stub)
    else:
        saved = _reset_exercise(found, file, definition(stub, found.name, f"the stub of {file.name}").text)
    if saved is None:
        make_console().print(f"{_display_name(found)} is already the stub; nothing was changed.")
    elif saved == "":
        make_console().print(f"{short_path(file)} now has the stub.")
    else:
        print_wrapped(make_console(), f"{_display_name(found)} is the stub again. Your code is saved in {saved}. To restore it: headway reset {_typed(found)} --undo")
    return 0


def _undo(found: Exercise | Chapter) -> int:
    """Put back the code that the last reset saved; the code that is there now is saved."""
    file, console = _file(found), make_console()
    saved = _saved_of(found)
    if not saved:
        console.print(f"There is nothing to restore: no code of {_display_name(found)} is saved.")
        return 1
    newest = saved[-1]
    if isinstance(found, Chapter):
        data = read_bytes(newest)
        replaced: str | None = _reset_to(file, data, reference_stub(file.stem))
    else:
        stub = definition(reference_stub(file.stem), found.name, f"the stub of {file.name}").text
        replaced = _reset_exercise(found, file, read_source(newest), unless=stub)
    newest.unlink()
    print_wrapped(console, f"{_display_name(found)} is your earlier code again." + (f" The code that it replaced is saved in {replaced}." if replaced else ""))
    return 0


def _reset_chapter(file: Path, stub: str) -> str | None:
    if not file.exists():
        write_whole(file, stub)
        return ""
    data = read_bytes(file)
    if _is_text(data, stub):
        return None
    saved = keep(file.stem, data)
    write_whole(file, stub)
    return saved


def _reset_to(file: Path, data: bytes, stub: str) -> str:
    """Write `data` as the chapter; the code that was there is saved unless it is the stub."""
    present = read_bytes(file) if file.exists() else stub.encode()
    saved = "" if _is_text(present, stub) else keep(file.stem, present)
    write_whole(file, data)
    return saved


def _reset_exercise(exercise: Exercise, file: Path, new: str, unless: str | None = None) -> str | None:
    """Replace one definition by `new`; the old one is saved unless it equals `unless`. None if nothing changes."""
    try:
        text = read_source(file)
        present = find_definition(text, exercise.name, short_path(file))
    except SourceProblem as error:
        chapter = exercise.chapter
        raise SourceProblem(f"{error}; so {exercise.name} cannot be found in the file; reset the whole chapter with `headway reset {chapter}`") from None
    if present is None:
        write_source(file, append_definition(text, new))
        return ""
    if same_text(present.text, new):
        return None
    saved = "" if unless is not None and same_text(present.text, unless) else keep(f"{file.stem}.{exercise.name}", present.text.encode())
    write_source(file, replace_definition(text, exercise.name, new, short_path(file)))
    return saved


def _saved_of(found: Exercise | Chapter) -> list[Path]:
    return kept_versions(_file(found).stem if isinstance(found, Chapter) else f"{found.module}.{found.name}")


def _file(found: Exercise | Chapter) -> Path:
    return EXERCISES / f"{found.name if isinstance(found, Chapter) else found.module}.py"


def _display_name(found: Exercise | Chapter) -> str:
    return short_path(_file(found)) if isinstance(found, Chapter) else found.name


def _typed(found: Exercise | Chapter) -> str:
    """The name to type in a command."""
    return found.id if isinstance(found, Chapter) else found.name


def _is_text(data: bytes, text: str) -> bool:
    try:
        return same_text(decode_source(data), text)
    except SourceProblem:
        return False
