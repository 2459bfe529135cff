"""Archives and folders as strangers hand them in, for the tests of the class grader's input."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

from grader.classroom.intake.reader import read_submissions
from grader.classroom.intake.submissions import Submission

CHAPTER = "ch03_attention.py"
DAMAGED = "the archive is damaged or incomplete; submit it again"


def write(path: Path, content: str | bytes = "x = 1\n", time: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if time is not None:
        os.utime(path, (time, time))
    return path


def by_name(path: Path) -> dict[str, Submission]:
    return {submission.name: submission for submission in read_submissions(path)}


def one(path: Path) -> Submission:
    (submission,) = read_submissions(path)
    return submission


def archive(tmp_path: Path, data: bytes, name: str = "alpha.zip") -> Submission:
    """The submission read from one person's archive in a class's folder."""
    write(tmp_path / "class" / name, data)
    return one(tmp_path / "class")


def zipped(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip with these members, whatever their names."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("x", (2026, 11, 20, 12, 30, 0))
            info.filename, info.compress_type, info.external_attr = name, compression, 0o644 << 16
            archive.writestr(info, content)
    return target.getvalue()


def tarred(members: dict[str, str | bytes], mode: str = "w:gz", time: int = 1_795_000_000, **options) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode, **options) as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), time
            archive.addfile(info, io.BytesIO(data))
    return target.getvalue()


def tar_header(name: bytes, size: int = 0, kind: bytes = b"0", link: bytes = b"", size_field: bytes | None = None) -> bytes:
    """One header block with a correct checksum and any claims."""
    block = bytearray(512)
    block[:100] = name[:100].ljust(100, b"\0")
    block[100:108], block[108:116], block[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    block[124:136] = size_field or b"%011o\0" % size
    block[136:148], block[156:157] = b"%011o\0" % 1_795_000_000, kind
    block[157:257] = link[:100].ljust(100, b"\0")
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def tar_member(name: bytes, data: bytes = b"x = 1\n", kind: bytes = b"0") -> bytes:
    return tar_header(name, len(data), kind) + data + bytes(-len(data) % 512)


def patched(archive: bytes, **fields: int) -> bytes:
    """The zip with a field changed in every header: flags, method, size (unpacked) or crc."""
    places = {"flags": (6, 8, "<H"), "method": (8, 10, "<H"), "crc": (14, 16, "<I"), "size": (22, 24, "<I")}
    data = bytearray(archive)
    for name, value in fields.items():
        local, central, form = places[name]
        for magic, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
            start = data.find(magic)
            while start >= 0:
                struct.pack_into(form, data, start + offset, value)
                start = data.find(magic, start + 4)
    return bytes(data)
