"""A gzip, bzip2 or xz stream, unpacked a piece at a time under a limit on all that comes out."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import BinaryIO

from grader.classroom.intake.problems import DAMAGED, UnreadableSubmission, translate_damage

PIECE = 65_536
LZMA_MEMORY = 200_000_000  # what an xz file of the highest level asks for is 65 MB; a hostile one asks for 4 GB


class DecompressedStream:
    """Bytes in order; `read` gives fewer only at the end. UnreadableSubmission after `most` bytes, so that no stream is endless."""

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
            except DAMAGED as error:
                raise translate_damage(error) from None
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise UnreadableSubmission("the archive unpacks to far too much; hand in the chapters alone")
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Pass over this many bytes; EOFError where there are fewer."""
        while size > 0:
            piece = self.read(min(size, PIECE))
            if not piece:
                raise EOFError
            size -= len(piece)

    def finish(self) -> None:
        """Read a packed stream to its end, where its checksum is."""
        while self._engine is not None and self.read(PIECE):
            pass

    def _read_piece(self, size: int) -> bytes:
        if self._engine is None:
            return self._file.read(size)
        while not self._ended:
            if self._engine.eof:
                if not self._next_stream():
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

    def _next_stream(self) -> bool:
        """Packers may write several streams behind each other; what follows the last and is none of them does not count."""
        rest = self._engine.unused_data or self._file.read(PIECE)
        magic = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ"}[self._kind]
        if not rest.startswith(magic):
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
