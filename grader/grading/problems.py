"""What can be wrong with what a class handed in."""

from __future__ import annotations


class GradingProblem(ValueError):
    """The whole input makes no sense; the message is one sentence for the instructor."""


class Unreadable(ValueError):
    """One submission cannot be read; the message is one sentence, without the person's name."""
