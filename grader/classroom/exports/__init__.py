"""What is made of a graded class: one module a format, each with one function `write`, and the same bytes for the same class."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.judging.graded_class import GradedClass


def write_all(graded: GradedClass, folder: Path) -> list[Path]:
    """Every export in `folder`; GradingProblem, in a sentence, where one cannot be written."""
    from grader.classroom.exports import csv, feedback, files, gradescope, junit

    if folder.is_dir():
        files.remove_temporary_files(folder)
    return [path for export in (csv, gradescope, junit, feedback) for path in export.write(graded, folder)]
