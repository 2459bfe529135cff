"""Finds the files of a folder or of an archive, without reading their content. Nothing is unpacked into a folder.

`zipfile` and `tarfile` read archives. The limits here bound what they unpack; the limits of the reading process
(reader.py) bound their memory and time.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from grader.classroom.intake.submissions import UnreadableSubmission, describe_error
from grader.classroom.sanitize import shorten

SKIPPED = frozenset({"__macosx", "__pycache__", "node_modules", "venv", "env", "site-packages", "hunts"})
MAX_FOLDER_LEVELS = 60
MAX_FOLDER_ENTRIES = 100_000
MB = 1_000_000
HEAD_BYTES = 512  # at the start of a file, which show its format
PIECE_BYTES = 65_536
MEMORY_FOR_TAR_BYTES = 10 * MB  # an unpacked tar archive that is larger is stored in a temporary file
ADVICE = "submit a zip or tar archive"
DAMAGED = "the archive is damaged or incomplete; submit it again"


@dataclass(frozen=True)
class Limits:
    packed_bytes: int
    unpacked_bytes: int
    members: int


PERSON = Limits(100 * MB, 300 * MB, 20_000)
CLASS_LIMITS = Limits(20_000 * MB, 50_000 * MB, 1_000_000)


def _no_file(most: int) -> NoReturn:
    raise AssertionError('only entries of kind "file" can be read')


@dataclass(frozen=True)
class FoundFile:
    path: tuple[str, ...]  # folders and file name, relative to the folder or archive
    # "file", "folder", "link", "special" (a pipe), "closed" or "deep" (folders that are not read), or "escape" (a path
    # that leads out of its archive).
    kind: str
    size: int = 0
    time: datetime | None = None  # only compared: zip archives have local time without a time zone
    load: Callable[[int], bytes] = _no_file  # the first bytes, at most so many
    order: tuple[str, ...] = ()  # the path by which files are sorted, where `path` has neutral names

    def read(self, most: int) -> bytes:
        """The first bytes, at most so many. UnreadableSubmission if that fails."""
        try:
            return self.load(most)
        except OSError as error:
            raise UnreadableSubmission(f"{shorten(self.path[-1])} cannot be opened: {describe_error(error)}") from None


# ---- folders


def is_skipped(part: str) -> bool:
    """Is this a hidden file or folder, or one that tools create?"""
    return part.startswith(".") or part.casefold() in SKIPPED


def walk_folder(folder: Path, path: tuple[str, ...] = ()) -> Iterator[FoundFile]:
    """All entries below a folder, sorted by name. Links are not followed, and ignored folders are not entered."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(islice((entry.name for entry in entries if not is_skipped(entry.name)), MAX_FOLDER_ENTRIES))
    except OSError:
        yield FoundFile((*path, folder.name), "closed")
        return
    for name in names:
        found = describe_entry(folder / name, (*path, name))
        if found.kind == "folder" and len(found.path) == MAX_FOLDER_LEVELS:
            found = FoundFile(found.path, "deep")
        yield found
        if found.kind == "folder":
            yield from walk_folder(folder / name, found.path)


def describe_entry(file: Path, path: tuple[str, ...]) -> FoundFile:
    """What this path is."""
    try:
        status = os.lstat(file)
    except OSError:
        return FoundFile(path, "special")
    if stat.S_ISLNK(status.st_mode):
        return FoundFile(path, "link")
    if stat.S_ISDIR(status.st_mode):
        return FoundFile(path, "folder")
    if not stat.S_ISREG(status.st_mode):
        return FoundFile(path, "special")
    return FoundFile(path, "file", status.st_size, plausible_time(status.st_mtime), load=partial(_load_file, file))


def _load_file(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(most)


def plausible_time(seconds: float) -> datetime | None:
    """A file's time; None if it is before 1981 or after 2200, as placeholders are."""
    return datetime.fromtimestamp(int(seconds), UTC) if 347_155_200 <= seconds <= 7_258_118_400 else None


# ---- archives


def split_member_path(name: str) -> tuple[str, ...]:
    """The folders and file of a member's name, with either kind of slash; it starts with ".." if it leads out."""
    name = name.replace("\\", "/")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return ("..", *parts) if name.startswith("/") or re.match(r"[A-Za-z]:(/|$)", name) else tuple(parts)


def is_wanted(path: tuple[str, ...]) -> bool:
    """Should this path be read? Paths that lead out of their archive are included, so that they are reported.

    The path is empty for the entry "./" that `tar` writes for the whole folder.
    """
    return ".." in path or (bool(path) and not any(is_skipped(part) for part in path))


def detect_kind(head: bytes) -> str:
    """The format of an archive by its first bytes: "zip", "tar" or a key of _MAGIC; "" for any other file."""
    if kind := next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), ""):
        return kind
    try:
        tarfile.TarInfo.frombuf(head[:HEAD_BYTES], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return ""
    return "tar"


def is_archive(found: FoundFile) -> bool:
    """Whether this file is an archive; False if it cannot be read."""
    try:
        return bool(detect_kind(found.read(HEAD_BYTES)))
    except UnreadableSubmission:
        return False


def list_members(file: BinaryIO, size: int, limits: Limits = PERSON) -> list[FoundFile]:
    """The members of this archive, which can be read while `file` is open. UnreadableSubmission if it is invalid."""
    if size > limits.packed_bytes:
        raise _too_large(f"has {_format_size(size)}, and at most {_format_size(limits.packed_bytes)} are allowed")
    head = file.read(HEAD_BYTES)
    file.seek(0)
    kind = detect_kind(head)
    if kind in ("7z", "rar", "zst"):
        raise UnreadableSubmission(f"this is a {kind} archive, which the grader cannot read; {ADVICE}")
    if not kind:
        raise UnreadableSubmission(f"this file is {'not a valid archive' if head else 'empty'}; {ADVICE}")
    with _damage_in_words():
        members = _list_zip(file) if kind == "zip" else _list_tar(file, kind, limits)
        if len(members) > limits.members:
            raise _too_large(f"contains {len(members)} files, and at most {limits.members} are allowed")
        if sum(member.size for member in members) > limits.unpacked_bytes:
            raise _too_large(f"has more than {_format_size(limits.unpacked_bytes)} when unpacked")
        return members


def _too_large(how: str) -> UnreadableSubmission:
    return UnreadableSubmission(f"the archive {how}; submit only the chapter files")


@contextmanager
def _damage_in_words() -> Iterator[None]:
    """Whatever a reader of archives raises means that the bytes do not match the format."""
    try:
        yield
    except (UnreadableSubmission, MemoryError):
        raise
    except NotImplementedError:
        raise UnreadableSubmission(
            "the archive uses an unusual compression method; create a plain zip archive of the chapter files"
        ) from None
    except Exception as error:
        if "password" in str(error) or "encrypted" in str(error):
            raise UnreadableSubmission("the archive is protected by a password; submit it without one") from None
        raise UnreadableSubmission(DAMAGED) from None


def _list_zip(file: BinaryIO) -> list[FoundFile]:
    try:  # some programs write names in UTF-8 without the flag for it
        archive = zipfile.ZipFile(file, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        archive = zipfile.ZipFile(file)
    members = []
    for info in archive.infolist():
        path = split_member_path(info.filename)
        if is_wanted(path):
            try:
                time = plausible_time(datetime(*info.date_time, tzinfo=UTC).timestamp())
            except ValueError:
                time = None
            load = partial(_load_member, partial(archive.open, info))
            members.append(FoundFile(path, _zip_kind(info, path), info.file_size, time, load=load))
    return members


def _zip_kind(info: zipfile.ZipInfo, path: tuple[str, ...]) -> str:
    mode = info.external_attr >> 16
    if ".." in path:
        return "escape"
    if info.filename.endswith(("/", "\\")):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "special"


def _list_tar(file: BinaryIO, kind: str, limits: Limits) -> list[FoundFile]:
    unpacked = file if kind == "tar" else _unpack(file, kind, limits)
    head = unpacked.read(HEAD_BYTES)
    if kind != "tar" and detect_kind(head) != "tar" and head != bytes(HEAD_BYTES):
        raise UnreadableSubmission(f"this {kind} file does not contain a tar archive; {ADVICE}")
    unpacked.seek(0)
    members = []
    archive = tarfile.open(fileobj=unpacked, mode="r:")
    for info in archive:
        if info.size < 0:  # some versions of tarfile would go back, and never end
            raise UnreadableSubmission(DAMAGED)
        path = split_member_path(info.name)
        if is_wanted(path):
            load = partial(_load_member, partial(archive.extractfile, info))
            members.append(FoundFile(path, _tar_kind(info, path), info.size, plausible_time(info.mtime), load=load))
    unpacked.seek(archive.offset)
    if unpacked.read(HEAD_BYTES) != bytes(HEAD_BYTES):  # tarfile takes a damaged header for the end
        raise UnreadableSubmission(DAMAGED)
    return members


def _tar_kind(info: tarfile.TarInfo, path: tuple[str, ...]) -> str:
    if ".." in path:
        return "escape"
    if info.issym() or info.islnk():
        return "link"
    if info.isdir():
        return "folder"
    return "file" if info.isreg() else "special"


def _unpack(file: BinaryIO, kind: str, limits: Limits) -> BinaryIO:
    """The unpacked bytes as a file that exists only while it is open."""
    packed_file: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    unpacked = tempfile.SpooledTemporaryFile(MEMORY_FOR_TAR_BYTES)
    with packed_file[kind](file) as packed:
        while piece := packed.read(PIECE_BYTES):
            unpacked.write(piece)
            if unpacked.tell() > limits.unpacked_bytes:
                raise _too_large("is far too large when unpacked")
    unpacked.seek(0)
    return cast(BinaryIO, unpacked)


def _load_member(open_member: Callable[[], Any], most: int) -> bytes:
    with _damage_in_words(), open_member() as opened:
        return opened.read(most)


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
