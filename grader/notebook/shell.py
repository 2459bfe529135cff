"""The IPython shell of this process, if it is one."""

from __future__ import annotations

import sys
from typing import Any


def notebook_shell() -> Any:
    """IPython's shell, which runs the cells; None outside IPython."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def command(text: str) -> str:
    """Text with the commands in it as they are typed here: in a cell, a command begins with an exclamation mark."""
    return text.replace("`headway ", "`!headway ") if notebook_shell() else text
