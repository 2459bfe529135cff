"""Headway in a notebook: `check` and `hint` for the code of a cell."""

from grader.notebook.requests import check, hint

__all__ = ["check", "hint"]
