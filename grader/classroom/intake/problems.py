"""What can be wrong with what a class handed in."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

# What reading bytes that are not what they claim to be raises.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError, RuntimeError, struct.error, ValueError, IndexError, OverflowError)


class GradingProblem(ValueError):
    """The whole input makes no sense; the message is one sentence for the instructor."""


class UnreadableSubmission(ValueError):
    """One submission cannot be read; the message is one sentence, without the person's name."""


def describe_error(error: Exception) -> str:
    """Why something could not be read, where nothing better is known; the end of a sentence."""
    if isinstance(error, MemoryError):
        return "reading it takes more memory than the grader allows"
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return f"reading it failed ({type(error).__name__})"


def translate_damage(error: Exception) -> UnreadableSubmission:
    """An archive reader's complaint in our words."""
    if isinstance(error, UnreadableSubmission):
        return error
    if "password" in str(error) or "encrypted" in str(error):
        return UnreadableSubmission("the archive is protected by a password; hand it in without")
    return UnreadableSubmission("the archive is damaged or cut short; hand it in again")
