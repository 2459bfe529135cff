"""The errors of reading what a class submitted, and the sentences that describe them."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

DAMAGED = "the archive is damaged or incomplete; submit it again"

# Exceptions that readers of archives raise when the bytes do not match the format.
DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError, RuntimeError, struct.error, ValueError, IndexError, OverflowError)


class GradingProblem(ValueError):
    """Grading cannot start or go on; the message is one sentence for the instructor."""


class UnreadableSubmission(ValueError):
    """One submission cannot be read; the message is one sentence, without the person's name."""


def describe_error(error: Exception) -> str:
    """The end of the sentence "it cannot be read: ..." for an unexpected error."""
    if isinstance(error, MemoryError):
        return "reading it takes more memory than the grader allows"
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return f"reading it failed ({type(error).__name__})"


def translate_damage(error: Exception) -> UnreadableSubmission:
    """The error of an archive reader as a sentence."""
    if isinstance(error, UnreadableSubmission):
        return error
    if "password" in str(error) or "encrypted" in str(error):
        return UnreadableSubmission("the archive is protected by a password; submit it without one")
    return UnreadableSubmission(DAMAGED)
