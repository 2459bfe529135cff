"""Puts the stub back, and undoes that: the learner's code is saved in exercises/.headway/kept/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from grader.cli.arguments import RequiredName, named, option
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
from grader.course.status import short_path
from grader.course.stubs import keep, kept_versions, reference_stub, same_text
from grader.course.syllabus import EXERCISES, Chapter, Exercise
from grader.files import write_whole


def reset(
    name: RequiredName, undo: Annotated[bool, option("Restore the code that the last reset saved.", "--undo")] = False
) -> int:
    """Restore the stub of an exercise, and save your code."""
    found, console = named(name), make_console()
    whole = isinstance(found, Chapter)
    file = EXERCISES / f"{found.name if isinstance(found, Chapter) else found.module}.py"
    shown, typed = (short_path(file), found.id) if isinstance(found, Chapter) else (found.name, found.name)
    stub = reference_stub(file.stem)
    own_stub = stub if whole else definition(stub, found.name, f"the stub of {file.name}").text
    stem = file.stem if whole else f"{file.stem}.{found.name}"
    saved = kept_versions(stem)
    if undo and not saved:
        console.print(f"There is nothing to restore: no code of {shown} is saved.")
        return 1
    present = _read_present(found, file)
    is_stub = present is not None and _is_text(present, own_stub)
    if is_stub and not undo:
        console.print(f"{shown} is already the stub; nothing was changed.")
        return 0
    new = read_bytes(saved[-1]) if undo else own_stub.encode()
    kept = keep(stem, present) if present is not None and not is_stub and present != new else ""
    _write(found, file, new)
    if undo:
        saved[-1].unlink()
        replaced = f" The code that it replaced is saved in {kept}." if kept else ""
        print_wrapped(console, f"{shown} is your earlier code again.{replaced}")
    elif not kept:
        console.print(f"{short_path(file)} now has the stub.")
    else:
        saved_in = f"Your code is saved in {kept}. To restore it: headway reset {typed} --undo"
        print_wrapped(console, f"{shown} is the stub again. {saved_in}")
    return 0


def _read_present(found: Exercise | Chapter, file: Path) -> bytes | None:
    """The code that is there now: of a chapter its file, of an exercise its definition. None if it is missing."""
    if isinstance(found, Chapter):
        return read_bytes(file) if file.exists() else None
    try:
        present = find_definition(read_source(file), found.name, short_path(file))
    except SourceProblem as error:
        advice = f"reset the whole chapter with `headway reset {found.chapter}`"
        raise SourceProblem(f"{error}; so {found.name} cannot be found in the file; {advice}") from None
    return present.text.encode() if present else None


def _write(found: Exercise | Chapter, file: Path, new: bytes) -> None:
    if isinstance(found, Chapter):
        write_whole(file, new)
        return
    text, code = read_source(file), decode_source(new)
    if find_definition(text, found.name, short_path(file)):
        write_source(file, replace_definition(text, found.name, code, short_path(file)))
    else:
        write_source(file, append_definition(text, code))


def _is_text(data: bytes, text: str) -> bool:
    try:
        return same_text(decode_source(data), text)
    except SourceProblem:
        return False
