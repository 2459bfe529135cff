"""Headway in a notebook: `%%check` for the code of a cell, `check` and `hint` for an exercise, and `repro` for the call
of a failure."""

from grader.notebook.cells import notebook_shell
from grader.notebook.requests import check, hint, load_ipython_extension, repro

__all__ = ["check", "hint", "load_ipython_extension", "repro"]

if (shell := notebook_shell()) is not None:
    load_ipython_extension(shell)
