"""Headway in a notebook: `check` and `hint` for the code of a cell, and `repro` for the call of a failure."""

from grader.notebook.requests import check, hint, repro

__all__ = ["check", "hint", "repro"]
