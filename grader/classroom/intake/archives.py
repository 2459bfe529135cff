"""Reads archives in memory with limits on size and number of files. Nothing is unpacked to disk, and no number in an archive is trusted."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import IO, BinaryIO

from grader.classroom.intake.decompression import DecompressedStream
from grader.classroom.intake.entries import FoundFile, plausible_time
from grader.classroom.intake.file_names import is_wanted, split_member_path
from grader.classroom.intake.problems import DAMAGE, UnreadableSubmission, translate_damage
from grader.classroom.intake.tar import read_tar

MB = 1_000_000
HEAD = 520  # bytes at the start of a file that show its format


@dataclass(frozen=True)
class Limits:
    size: int  # bytes of the archive itself
    unpacked: int  # bytes of all members together
    members: int
    names: int  # bytes of a zip's central directory


PERSON = Limits(100 * MB, 300 * MB, 20_000, 8 * MB)
CLASS = Limits(20_000 * MB, 50_000 * MB, 1_000_000, 200 * MB)


def detect_kind(head: bytes) -> str:
    """The format of a file by its first bytes: "zip", "tar", "gz", "bz2", "xz", "7z", "rar", "zst", or ""."""
    kind = next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), "")
    if kind:
        return kind
    if head[257:262] == b"ustar" or (len(head) >= 512 and _is_old_tar(head[:512])):
        return "tar"
    return ""


def read_members(file: BinaryIO, size: int, limits: Limits = PERSON) -> Iterator[FoundFile]:
    """The members of this archive. Read each before you take the next. Every problem is an UnreadableSubmission, one sentence."""
    if size > limits.size:
        raise UnreadableSubmission(f"the archive has {_format_size(size)}, and at most {_format_size(limits.size)} are allowed; submit only the chapter files")
    head = file.read(HEAD)
    file.seek(0)
    kind = detect_kind(head)
    if kind in ("7z", "rar", "zst"):
        raise UnreadableSubmission(f"this is a {kind} archive, which the grader cannot read; submit a zip or tar archive")
    if not kind:
        raise UnreadableSubmission("this file is " + ("empty" if not head else "not a valid archive") + "; submit a zip or tar archive")
    try:
        if kind == "zip":
            yield from _read_zip(file, limits)
        else:
            yield from read_tar(DecompressedStream(file, kind, limits.unpacked), limits.members, kind)
    except DAMAGE as error:
        raise translate_damage(error) from None


class _LimitedFile:
    """A file for zipfile that limits the size of one read: zipfile reads the whole central directory at once."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self.seek, self.tell, self._file, self._longest = file.seek, file.tell, file, longest

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._longest + 1 if size < 0 else min(size, self._longest + 1))
        if len(data) > self._longest:
            raise UnreadableSubmission("the archive contains far too many files; submit only the chapter files")
        return data


class _ZipMember:
    """The bytes of a member of a zip. Also detects what zipfile does not: fewer bytes than the header says."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
            self._left -= len(data)
            if len(data) < size and self._left > 0:
                raise EOFError
            return data
        except DAMAGE as error:
            raise translate_damage(error) from None

    def close(self) -> None:
        self._file.close()


def _read_zip(file: BinaryIO, limits: Limits) -> Iterator[FoundFile]:
    with zipfile.ZipFile(_LimitedFile(file, limits.names)) as archive:
        infos = [(info, split_member_path(_decode_name(info))) for info in archive.infolist()]
        wanted = [(info, path) for info, path in infos if is_wanted(path)]
        if len(wanted) > limits.members:
            raise UnreadableSubmission(f"the archive contains {len(wanted)} files, and at most {limits.members} are allowed; submit only the chapter files")
        if sum(info.file_size for info, _ in wanted) > limits.unpacked:
            raise UnreadableSubmission(f"the archive has more than {_format_size(limits.unpacked)} when unpacked; submit only the chapter files")
        _refuse_overlaps([info for info, _ in wanted])
        for info, path in wanted:
            time, zone_known = _parse_zip_time(info)
            yield FoundFile(path, _detect_zip_kind(info, path), info.file_size, time, zone_known, open=partial(_open_member, archive, info))


def _decode_name(info: zipfile.ZipInfo) -> str:
    """The member's name. Some programs write UTF-8 without setting the flag for it, so a name that is valid UTF-8 is read as UTF-8."""
    if info.flag_bits & 0x800:
        return info.orig_filename
    try:
        return info.orig_filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.orig_filename


def _detect_zip_kind(info: zipfile.ZipInfo, path: tuple[str, ...]) -> str:
    mode = info.external_attr >> 16
    if ".." in path:
        return "escape"
    if stat.S_ISLNK(mode):
        return "link"
    if info.is_dir() or info.orig_filename.endswith("\\"):
        return "folder"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "special"
    return "file"


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> closing[_ZipMember]:
    if info.flag_bits & 0x1:
        raise UnreadableSubmission("the archive is protected by a password; submit it without one")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile unpacks the others without a limit on memory
        raise UnreadableSubmission("the archive uses an unusual compression method; create a plain zip archive of the chapter files")
    try:
        return closing(_ZipMember(archive.open(info), info.file_size))
    except DAMAGE as error:
        raise translate_damage(error) from None


def _refuse_overlaps(infos: list[zipfile.ZipInfo]) -> None:
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise UnreadableSubmission("the files in the archive overlap, which no valid zip archive does; create it again from the chapter files")
        end = info.header_offset + 30 + info.compress_size


def _parse_zip_time(info: zipfile.ZipInfo) -> tuple[datetime | None, bool]:
    """When a member was last changed, and whether the time zone is known: a zip's standard field has only the local time of the packing machine."""
    extra = info.extra
    while len(extra) >= 4:
        tag, length = struct.unpack("<HH", extra[:4])
        if tag == 0x5455 and length >= 5 and len(extra) >= 9 and extra[4] & 1:
            return plausible_time(struct.unpack("<i", extra[5:9])[0]), True
        extra = extra[4 + length :]
    try:
        clock = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None, True
    return plausible_time(clock.timestamp()), False


def _is_old_tar(block: bytes) -> bool:
    """Is this a header of the old tar format, which has no magic bytes but a checksum?"""
    try:
        checksum = int(block[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    return block[0] != 0 and checksum == sum(block[:148]) + sum(block[156:]) + 8 * 32


def _format_size(size: int) -> str:
    return f"{size / 1000 / MB:.1f} GB" if size >= 1000 * MB else f"{size / MB:.0f} MB"


_MAGIC: dict[str, bytes | tuple[bytes, ...]] = {
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "gz": b"\x1f\x8b",
    "bz2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "7z": b"7z\xbc\xaf\x27\x1c",
    "rar": b"Rar!\x1a\x07",
    "zst": b"\x28\xb5\x2f\xfd",
}
