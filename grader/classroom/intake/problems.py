"""The errors of reading what a class submitted, and the sentences that describe them."""

from __future__ import annotations

from grader.files import UserProblem


class GradingProblem(UserProblem, ValueError):
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
