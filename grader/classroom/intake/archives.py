"""What an archive holds, read in memory under hard limits; never unpacked to disk, and never trusted."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import IO, BinaryIO

from grader.classroom.intake.decompression import DecompressedStream
from grader.classroom.intake.entries import FoundFile, plausible_time
from grader.classroom.intake.file_names import is_wanted, split_member_path
from grader.classroom.intake.problems import DAMAGED, UnreadableSubmission, translate_damage
from grader.classroom.intake.tar import read_tar

MB = 1_000_000
HEAD = 520  # bytes that tell what a file is


@dataclass(frozen=True)
class Limits:
    size: int  # bytes of the archive itself
    unpacked: int  # bytes of everything in it
    members: int
    names: int  # bytes of a zip's list of names


PERSON = Limits(100 * MB, 300 * MB, 20_000, 8 * MB)
CLASS = Limits(20_000 * MB, 50_000 * MB, 1_000_000, 200 * MB)


def detect_kind(head: bytes) -> str:
    """What the first bytes of a file say it is: "zip", "tar", "gz", "bz2", "xz", "7z", "rar", "zst", or ""."""
    for kind, magic in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[257:262] == b"ustar" or (len(head) >= 512 and _is_old_tar(head[:512])):
        return "tar"
    return ""


def read_members(file: BinaryIO, size: int, limits: Limits = PERSON) -> Iterator[FoundFile]:
    """What is in this archive. A member must be read before the next is asked for. UnreadableSubmission, in one sentence, for every trouble."""
    if size > limits.size:
        raise UnreadableSubmission(f"the archive is {_format_size(size)} large, and at most {_format_size(limits.size)} are read; hand in the chapters alone")
    head = file.read(HEAD)
    file.seek(0)
    kind = detect_kind(head)
    if kind in ("7z", "rar", "zst"):
        raise UnreadableSubmission(f"it is a {kind} archive, which the grader does not read; hand in a zip or tar archive")
    if not kind:
        raise UnreadableSubmission("it is called an archive and is none" + (" (it is an empty file)" if not head else ""))
    try:
        if kind == "zip":
            yield from _read_zip(file, limits)
        else:
            yield from read_tar(DecompressedStream(file, kind, limits.unpacked), limits.members, kind)
    except DAMAGED as error:
        raise translate_damage(error) from None


class _LimitedFile:
    """A file for zipfile, which refuses to read its list of names in one go where that is too long."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self.seek, self.tell, self._file, self._longest = file.seek, file.tell, file, longest

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._longest + 1 if size < 0 else min(size, self._longest + 1))
        if len(data) > self._longest:
            raise UnreadableSubmission("the archive holds far too many files; hand in the chapters alone")
        return data


class _ZipMember:
    """A member's bytes, with zipfile's complaints in our words, and one it does not have: fewer bytes than were announced."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
            self._left -= len(data)
            if len(data) < size and self._left > 0:
                raise EOFError
            return data
        except DAMAGED as error:
            raise translate_damage(error) from None

    def __enter__(self) -> _ZipMember:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _read_zip(file: BinaryIO, limits: Limits) -> Iterator[FoundFile]:
    with zipfile.ZipFile(_LimitedFile(file, limits.names)) as archive:
        infos = [(info, split_member_path(_decode_name(info))) for info in archive.infolist()]
        wanted = [(info, path) for info, path in infos if is_wanted(path)]
        if len(wanted) > limits.members:
            raise UnreadableSubmission(f"the archive holds {len(wanted)} files, and at most {limits.members} are read; hand in the chapters alone")
        if sum(info.file_size for info, _ in wanted) > limits.unpacked:
            raise UnreadableSubmission(f"the archive unpacks to more than {_format_size(limits.unpacked)}; hand in the chapters alone")
        _refuse_overlaps([info for info, _ in wanted])
        for info, path in wanted:
            time, zone_known = _parse_zip_time(info)
            yield FoundFile(path, _detect_zip_kind(info, path), info.file_size, time, zone_known, open=partial(_open_member, archive, info))


def _decode_name(info: zipfile.ZipInfo) -> str:
    """Some packers write UTF-8 and do not say so; what reads as such is."""
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


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _ZipMember:
    if info.flag_bits & 0x1:
        raise UnreadableSubmission("the archive is protected by a password; hand it in without")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # Python unpacks the others without a limit on memory
        raise UnreadableSubmission("the archive is packed in an unusual way; make a plain zip of the chapters")
    try:
        return _ZipMember(archive.open(info), info.file_size)
    except DAMAGED as error:
        raise translate_damage(error) from None


def _refuse_overlaps(infos: list[zipfile.ZipInfo]) -> None:
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise UnreadableSubmission("the archive is not an honest one: its files lie on top of each other")
        end = info.header_offset + 30 + info.compress_size


def _parse_zip_time(info: zipfile.ZipInfo) -> tuple[datetime | None, bool]:
    """When a member was last written: exactly where the archive says so, else by the packer's clock, whose time zone nobody noted."""
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
    """Before "ustar" was written into it, a tar header had nothing but its checksum."""
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
