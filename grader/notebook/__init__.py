"""The kit in a notebook: `check` and `hint` for what a cell defines."""

from grader.notebook.requests import check, hint

__all__ = ["check", "hint"]
