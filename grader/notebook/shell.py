"""The IPython shell of this process, if it is one."""

from __future__ import annotations

import re
import sys
from typing import Any


def notebook_shell() -> Any:
    """IPython's shell, which runs the cells; None outside IPython."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def command(text: str) -> str:
    """Text with the commands in it as they are typed here: `check("softmax")`; in a cell, a command of the shell begins
    with an exclamation mark."""
    text = re.sub(r"\bheadway (check|hint|repro) (\w+)", r'\1("\2")', text)
    return re.sub(r"(?<!!)\bheadway (?=[a-z])", "!headway ", text) if notebook_shell() else text
