"""Reads the time of a git clone's last commit from the clone's files.

Running git in a stranger's clone is not safe: git reads the clone's own config, in which settings such as `gpg.program`, includes, and the
upload-pack command of a partial clone's remote can run programs, and no list of overrides is complete for every version of git.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.entries import open_regular_file, plausible_time
from grader.classroom.intake.problems import UnreadableSubmission

LONGEST_COMMIT = 65_536
MOST_PACKS = 200


def read_commit_time(folder: Path) -> datetime | None:
    """The committer's time of HEAD; None if this is not a git clone or its files do not show the time."""
    git = folder / ".git"
    try:
        name = _find_head(git)
        commit = name and (_read_loose(git, name) or _read_packed(git, name))
    except (UnreadableSubmission, OSError, ValueError, struct.error, zlib.error, StopIteration):
        return None
    header = (commit or b"").partition(b"\n\n")[0]
    committer = re.search(rb"^committer .*> (\d{1,12}) [+-]\d{4}$", header, re.MULTILINE)
    return plausible_time(int(committer[1])) if committer else None


def _find_head(git: Path) -> str:
    """The object name of the commit that HEAD points to; "" if it is not found."""
    text = _read(git, "HEAD").decode("ascii").strip()
    if not text.startswith("ref:"):
        return text if _is_object_name(text) else ""
    ref = text[4:].strip()
    if not re.fullmatch(r"refs(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)+", ref):
        return ""
    try:
        name = _read(git, *ref.split("/")).decode("ascii").strip()
    except UnreadableSubmission:
        lines = _read(git, "packed-refs", longest=10_000_000).decode("utf-8", "replace").splitlines()
        name = next((line.split()[0] for line in lines if line.split()[1:] == [ref]), "")
    return name if _is_object_name(name) else ""


def _read_loose(git: Path, name: str) -> bytes:
    try:
        packed = _read(git, "objects", name[:2], name[2:])
    except UnreadableSubmission:
        return b""
    head, _, body = zlib.decompressobj().decompress(packed, LONGEST_COMMIT).partition(b"\0")
    return body if head.startswith(b"commit ") else b""


def _read_packed(git: Path, name: str) -> bytes:
    folder = _path_without_links(git, "objects", "pack")
    for index in sorted(file for file in os.listdir(folder) if file.endswith(".idx"))[:MOST_PACKS]:
        offset = _find_offset(folder / index, bytes.fromhex(name))
        if offset is not None:
            return _read_object(folder / f"{index[:-4]}.pack", offset)
    return b""


def _find_offset(index: Path, name: bytes) -> int | None:
    """The object's place in a pack, from its index (version 2): a table of counts, then names, checksums and offsets."""
    with open_regular_file(index) as file:
        if file.read(8) != b"\xfftOc\0\0\0\2":
            return None
        counts = struct.unpack(">256I", file.read(1024))
        low, high, total, start = counts[name[0] - 1] if name[0] else 0, counts[name[0]], counts[255], 8 + 1024
        while low < high:
            middle = (low + high) // 2
            file.seek(start + middle * len(name))
            found = file.read(len(name))
            if found == name:
                file.seek(start + total * (len(name) + 4) + middle * 4)
                offset = struct.unpack(">I", file.read(4))[0]
                return offset if offset < 1 << 31 else None
            low, high = (middle + 1, high) if found < name else (low, middle)
    return None


def _read_object(pack: Path, offset: int) -> bytes:
    """The commit at this place, if it is stored in full. Git stores the newest commits in full and older ones as differences from them."""
    with open_regular_file(pack) as file:
        file.seek(offset)
        data = file.read(LONGEST_COMMIT)
    if not data or data[0] >> 4 & 7 != 1:
        return b""
    start = next(place for place, byte in enumerate(data[:12]) if not byte & 0x80) + 1
    return zlib.decompressobj().decompress(data[start:], LONGEST_COMMIT)


def _read(git: Path, *parts: str, longest: int = LONGEST_COMMIT) -> bytes:
    with open_regular_file(_path_without_links(git, *parts)) as file:
        return file.read(longest)


def _path_without_links(git: Path, *parts: str) -> Path:
    """A path in the clone; UnreadableSubmission if a part of it is a link."""
    path = git
    for part in ("", *parts):
        path = path / part
        if path.is_symlink():
            raise UnreadableSubmission("a path in the git repository is a link")
    return path


def _is_object_name(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", text))
