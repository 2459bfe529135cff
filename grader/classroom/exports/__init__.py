"""Exports of a graded class: one module per format, each with a function `write`. Equal classes give equal files."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.judging.graded_class import GradedClass


def write_all(graded: GradedClass, folder: Path) -> list[Path]:
    """Write every export into `folder`. GradingProblem if one cannot be written."""
    from grader.classroom.exports import csv, feedback, gradescope

    return [path for export in (csv, gradescope, feedback) for path in export.write(graded, folder)]
