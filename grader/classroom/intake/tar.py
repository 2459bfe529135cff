"""The members of a tar, read forwards once. Python's own reader keeps whole headers in memory and trusts their numbers; this one does neither."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO

from grader.classroom.intake.decompression import Unpacked
from grader.classroom.intake.entries import Found, plausible
from grader.classroom.intake.file_names import is_wanted, parts_of
from grader.classroom.intake.problems import Unreadable

BLOCK = 512
LONGEST_NAME = 65_536
LONGEST_HEADER = 262_144  # bytes of a pax header; real ones have a few hundred
SPARSE = "the archive has sparse files in it, which the grader does not read; make it without --sparse"
FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class _Window:
    """The bytes of one member, as far as they are wanted."""

    def __init__(self, stream: Unpacked, size: int) -> None:
        self._stream, self.left = stream, size

    def opened(self) -> _Window:
        return self

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self.left))
        if not data and min(size, self.left):
            raise Unreadable("the archive is damaged or cut short; hand it in again")
        self.left -= len(data)
        return data

    def __enter__(self) -> _Window:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def tar_members(stream: Unpacked, most: int, kind: str) -> Iterator[Found]:
    """Everything in the tar but what is skipped. EOFError, ValueError or OSError where it is damaged."""
    extra: dict[str, str] = {}
    shared: dict[str, str] = {}
    count = headers = 0
    while True:
        block = stream.read(BLOCK)
        if len(block) == BLOCK and not any(block):
            stream.finish()
            return
        if len(block) < BLOCK:
            raise EOFError if headers else _not_tar(kind)
        header = _header(block, kind, headers)
        headers += 1
        if headers > 10 * most:
            raise _too_many(most)
        if header.type == tarfile.GNUTYPE_SPARSE and block[482]:
            raise Unreadable(SPARSE)  # more headers follow, and where its bytes end only they say
        size, padding = header.size, -header.size % BLOCK
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            text = _small(stream, size, LONGEST_NAME).split(b"\0")[0].decode("utf-8", "surrogateescape")
            if header.type == tarfile.GNUTYPE_LONGNAME:
                extra["path"] = text
            stream.skip(padding)
            continue
        if header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE):
            records = _pax(_small(stream, size, LONGEST_HEADER))
            (shared if header.type == tarfile.XGLTYPE else extra).update(records)
            stream.skip(padding)
            continue
        told = {**shared, **extra}
        extra = {}
        if "size" in told:
            size, padding = _number(told["size"]), -_number(told["size"]) % BLOCK
        if header.type in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE):  # these have no bytes, whatever they say
            size = padding = 0
        window = _Window(stream, size)
        path = parts_of(told.get("path", header.name))
        if is_wanted(path):
            count += 1
            if count > most:
                raise _too_many(most)
            yield Found(path, _kind(header, path, told), size, _time(told, header), open=window.opened)
        stream.skip(window.left + padding)


def _header(block: bytes, kind: str, headers: int) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise (ValueError("a header is damaged") if headers else _not_tar(kind)) from None
    if header.size < 0:
        raise ValueError("a size is below zero")
    return header


def _not_tar(kind: str) -> Unreadable:
    if kind == "tar":
        return Unreadable("the archive is damaged or cut short; hand it in again")
    return Unreadable(f"it is a {kind} file with no tar archive in it; hand in a zip or tar archive")


def _too_many(most: int) -> Unreadable:
    return Unreadable(f"the archive holds more than {most} files; hand in the chapters alone")


def _small(stream: Unpacked, size: int, most: int) -> bytes:
    if size > most:
        raise Unreadable("the archive is not an honest one: a name in it is longer than any file could have")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _pax(data: bytes) -> dict[str, str]:
    """The records of a pax header, each "LENGTH KEY=VALUE\\n"."""
    records = {}
    reader = BytesIO(data)
    while start := re.match(rb"(\d{1,7}) ", data[reader.tell() : reader.tell() + 8]):
        record = reader.read(int(start[1]))
        if len(record) <= len(start[0]) or len(record) < int(start[1]):
            raise ValueError("a pax record is damaged")
        key, _, value = record[len(start[0]) :].rstrip(b"\n").partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return records


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError("a number is damaged")
    return int(text)


def _kind(header: tarfile.TarInfo, path: tuple[str, ...], told: dict[str, str]) -> str:
    if ".." in path:
        return "escape"
    if header.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in told):
        return "sparse"
    if header.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        return "link"
    if header.type == tarfile.DIRTYPE:
        return "folder"
    return "file" if header.type in FILES else "special"


def _time(told: dict[str, str], header: tarfile.TarInfo) -> datetime | None:
    try:
        return plausible(float(told.get("mtime", header.mtime)))
    except ValueError:
        return None
