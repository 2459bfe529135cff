"""Decompresses a gzip, bzip2 or xz stream piece by piece, with a limit on the total output."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import BinaryIO

from grader.classroom.intake.problems import DAMAGE, UnreadableSubmission, translate_damage

PIECE = 65_536
LZMA_MEMORY = 200_000_000  # bytes; an xz file of the highest level needs 65 MB, a malicious one may ask for 4 GB
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ"}


class DecompressedStream:
    """The decompressed bytes in order; `read` returns fewer than asked only at the end. UnreadableSubmission after `most` bytes.

    `kind` is "gz", "bz2" or "xz"; for any other kind the file is read as it is.
    """

    def __init__(self, file: BinaryIO, kind: str, most: int) -> None:
        self._file, self._kind, self._left = file, kind, most
        self._engine = self._new_engine()
        self._packed = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            try:
                piece = self._read_piece(min(size, PIECE))
            except DAMAGE as error:
                raise translate_damage(error) from None
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise UnreadableSubmission("the archive is far too large when unpacked; submit only the chapter files")
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Skip this many bytes; EOFError if the stream ends before."""
        while size > 0:
            piece = self.read(min(size, PIECE))
            if not piece:
                raise EOFError
            size -= len(piece)

    def finish(self) -> None:
        """Read a compressed stream to its end, where its checksum is verified."""
        while self._engine is not None and self.read(PIECE):
            pass

    def _read_piece(self, size: int) -> bytes:
        if self._engine is None:
            return self._file.read(size)
        while not self._ended:
            if self._engine.eof and not self._start_next_stream():
                break
            if not self._packed and self._needs_input():
                self._packed = self._file.read(PIECE)
                if not self._packed:
                    raise EOFError
            packed, self._packed = self._packed, b""
            piece = self._engine.decompress(packed, size)
            if self._kind == "gz" and not self._engine.eof:
                self._packed = self._engine.unconsumed_tail
            if piece:
                return piece
        return b""

    def _needs_input(self) -> bool:
        return self._kind == "gz" or self._engine.needs_input

    def _start_next_stream(self) -> bool:
        """A file may contain several compressed streams in a row; other bytes after the last one are ignored."""
        rest = self._engine.unused_data or self._file.read(PIECE)
        if not rest.startswith(MAGIC[self._kind]):
            self._ended = True
            return False
        self._engine, self._packed = self._new_engine(), rest
        return True

    def _new_engine(self):
        if self._kind == "gz":
            return zlib.decompressobj(31)
        if self._kind == "bz2":
            return bz2.BZ2Decompressor()
        if self._kind == "xz":
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LZMA_MEMORY)
        return None
