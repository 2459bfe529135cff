"""Decodes a chapter that was submitted, and says which encoding it guessed.

Python reads a file as UTF-8, or in the encoding that its first lines declare. Editors on Windows also save UTF-16 and Windows-1252 (Latin-1 with a few
more letters) without declaring it. Such a file is still readable: its code is ASCII, and only letters in comments and texts may come out wrong.
"""

from __future__ import annotations

import codecs
import re

from grader.course.source import LARGEST, SourceProblem, decode_source, too_large

_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # longest first
_DECLARED = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.MULTILINE)


def decode_chapter(data: bytes, file: str) -> tuple[str, str]:
    """The text, and a sentence about the encoding if it was guessed, else "". SourceProblem if no guess is possible."""
    if encoding := _detect_wide(data):
        if len(data) > 4 * LARGEST:
            raise too_large(file)
        try:
            text = data.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise SourceProblem(f"{file} is damaged {encoding.upper()} text; save the file as UTF-8", file=file) from None
        if len(text.encode("utf-8", "replace")) > LARGEST:
            raise too_large(file)
        return text, f"{file} was saved as {encoding[:6].upper()} and was read as that; Python cannot run such a file, so save it as UTF-8"
    try:
        return decode_source(data, file), ""
    except SourceProblem:
        if len(data) > LARGEST or b"\0" in data or _declares_encoding(data):
            raise
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:  # five bytes have no meaning in Windows-1252
        text = data.decode("latin-1")
    return text, f"{file} is not UTF-8 and was read as Latin-1, so letters with accents may be wrong; save the file as UTF-8"


def _detect_wide(data: bytes) -> str:
    """The encoding of a text that has two or four bytes a character; "" for any other."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return encoding
    start = data[:200]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = start[first::2], start[1 - first :: 2]
        if len(start) >= 8 and zeros.count(0) > 0.9 * len(zeros) and not others.count(0):
            return encoding
    return ""


def _declares_encoding(data: bytes) -> bool:
    return bool(_DECLARED.search(b"\n".join(data.split(b"\n")[:2])))
