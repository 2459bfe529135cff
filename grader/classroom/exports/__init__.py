"""Exports of a graded class: one module per format, each with a function `write`. Equal classes give equal files, byte for byte."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.judging.graded_class import GradedClass


def write_all(graded: GradedClass, folder: Path) -> list[Path]:
    """Write every export into `folder`. GradingProblem if one cannot be written."""
    from grader.classroom.exports import csv, feedback, files, gradescope, junit

    if folder.is_dir():
        files.remove_temporary_files(folder)
    return [path for export in (csv, gradescope, junit, feedback) for path in export.write(graded, folder)]
