"""Reads the members of a tar archive in one pass.

`tarfile` keeps whole headers in memory and trusts the numbers in them, which an archive made by an attacker must not be allowed to exploit.
So this reader limits both; it uses `tarfile` only to parse a single header block.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from io import BytesIO

from grader.classroom.intake.decompression import DecompressedStream
from grader.classroom.intake.entries import FoundFile, plausible_time
from grader.classroom.intake.file_names import is_wanted, split_member_path
from grader.classroom.intake.problems import DAMAGED, UnreadableSubmission

BLOCK = 512
LONGEST_NAME = 65_536
LONGEST_HEADER = 262_144  # bytes of a pax header; usual ones have a few hundred
SPARSE = "the archive contains sparse files, which the grader cannot read; create it again without --sparse"
FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
WITHOUT_DATA = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE)  # whatever size their header claims


class _MemberReader:
    """The bytes of one member, read on demand."""

    def __init__(self, stream: DecompressedStream, size: int) -> None:
        self._stream, self.left = stream, size

    def open(self) -> nullcontext[_MemberReader]:
        return nullcontext(self)

    def read(self, size: int) -> bytes:
        size = min(size, self.left)
        data = self._stream.read(size)
        if not data and size:
            raise UnreadableSubmission(DAMAGED)
        self.left -= len(data)
        return data


def read_tar(stream: DecompressedStream, most: int, kind: str) -> Iterator[FoundFile]:
    """All members but the ignored ones, at most `most`. EOFError, ValueError or OSError if the archive is damaged."""
    own_attributes: dict[str, str] = {}  # of the next member, from headers of its own
    global_attributes: dict[str, str] = {}
    count = headers = 0
    while True:
        block = stream.read(BLOCK)
        if len(block) == BLOCK and not any(block):
            stream.finish()
            return
        if len(block) < BLOCK:
            raise EOFError if headers else _not_a_tar_error(kind)
        header = _parse_header(block, kind, headers)
        headers += 1
        if headers > 10 * most:
            raise _too_many_error(most)
        if header.type == tarfile.GNUTYPE_SPARSE and block[482]:
            raise UnreadableSubmission(SPARSE)  # only further headers say where its data ends
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            text = _read_limited(stream, header.size, LONGEST_NAME).split(b"\0")[0].decode("utf-8", "surrogateescape")
            if header.type == tarfile.GNUTYPE_LONGNAME:
                own_attributes["path"] = text
        elif header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE):
            records = _parse_pax(_read_limited(stream, header.size, LONGEST_HEADER))
            (global_attributes if header.type == tarfile.XGLTYPE else own_attributes).update(records)
        else:
            attributes, own_attributes = {**global_attributes, **own_attributes}, {}
            size = _parse_number(attributes["size"]) if "size" in attributes else header.size
            member = _MemberReader(stream, 0 if header.type in WITHOUT_DATA else size)
            padding = -member.left % BLOCK
            path = split_member_path(attributes.get("path", header.name))
            if is_wanted(path):
                count += 1
                if count > most:
                    raise _too_many_error(most)
                kind_of_member, time = _detect_kind(header, path, attributes), _parse_time(attributes, header)
                yield FoundFile(path, kind_of_member, member.left, time, open=member.open)
            stream.skip(member.left + padding)
            continue
        stream.skip(-header.size % BLOCK)


def _parse_header(block: bytes, kind: str, headers: int) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        raise (ValueError("a header is damaged") if headers else _not_a_tar_error(kind)) from None
    if header.size < 0:
        raise ValueError("a size is negative")
    return header


def _not_a_tar_error(kind: str) -> UnreadableSubmission:
    if kind == "tar":
        return UnreadableSubmission(DAMAGED)
    return UnreadableSubmission(f"this {kind} file does not contain a tar archive; submit a zip or tar archive")


def _too_many_error(most: int) -> UnreadableSubmission:
    return UnreadableSubmission(f"the archive contains more than {most} files; submit only the chapter files")


def _read_limited(stream: DecompressedStream, size: int, most: int) -> bytes:
    if size > most:
        raise UnreadableSubmission("the archive contains a file name that is far too long; create it again from the chapter files")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _parse_pax(data: bytes) -> dict[str, str]:
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


def _parse_number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError("a number is damaged")
    return int(text)


def _detect_kind(header: tarfile.TarInfo, path: tuple[str, ...], attributes: dict[str, str]) -> str:
    if ".." in path:
        return "escape"
    if header.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in attributes):
        return "sparse"
    if header.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        return "link"
    if header.type == tarfile.DIRTYPE:
        return "folder"
    return "file" if header.type in FILES else "special"


def _parse_time(attributes: dict[str, str], header: tarfile.TarInfo) -> datetime | None:
    try:
        return plausible_time(float(attributes.get("mtime", header.mtime)))
    except ValueError:
        return None
