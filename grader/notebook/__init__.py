"""Headway in a notebook: `%%check` for the code of a cell, `check` and `hint` for an exercise, and `repro` for the call
of a failure."""

from grader.notebook.requests import check, hint, load_ipython_extension, repro
from grader.notebook.shell import notebook_shell

__all__ = ["check", "hint", "load_ipython_extension", "repro"]

if (shell := notebook_shell()) is not None:
    load_ipython_extension(shell)
