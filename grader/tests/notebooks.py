"""A real notebook: cells are sent to an IPython kernel, and what a browser would receive comes back."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from kit_copy import Kit
from nbclient import NotebookClient

RIGHT = """
def softmax(x, dim=-1):
    largest = x.amax(dim, keepdim=True).clamp(min=-1e38)
    powers = (x - largest).exp()
    total = powers.sum(dim, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)
"""


@dataclass
class Shown:
    """What one cell displayed."""

    text: str  # the text of its last line's value
    printed: str
    error: str  # the name of the exception that ended it
    traceback: str

    @property
    def line(self) -> str:
        """The text without its line breaks: sentences are wrapped."""
        return " ".join(self.text.split())


class Notebook:
    def __init__(self, client: NotebookClient, kit: Kit) -> None:
        self.client, self.kit = client, kit
        self.cells = 0

    def run(self, source: str) -> Shown:
        """Execute a new cell at the end."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        self.cells += 1
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1, execution_count=self.cells)
        return shown(cell.outputs)

    def stop(self) -> None:
        """The stop button."""
        asyncio.run(self.client.km.interrupt_kernel())


def shown(outputs: list) -> Shown:
    data = next((output.data for output in outputs if output.output_type == "execute_result"), {})
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    error = next((output for output in outputs if output.output_type == "error"), None)
    traceback = "\n".join(error.traceback) if error else ""
    return Shown(data.get("text/plain", ""), printed, error.ename if error else "", traceback)


@contextmanager
def opened(kit: Kit, folder: Path) -> Iterator[Notebook]:
    """A notebook in `folder`, with its kernel running."""
    folder.mkdir()
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=300, allow_errors=True, resources=resources)
    client.reset_execution_trackers()
    dropped = ("OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in kit.environment(IPYTHONDIR=str(folder.parent / "ipython")).items() if name not in dropped}
    with client.setup_kernel(env=environment):
        yield Notebook(client, kit)


@contextmanager
def with_check(template: Path, folder: Path) -> Iterator[Notebook]:
    """A notebook that has imported `check` and `hint`, in another folder than the copy of the kit that it uses."""
    shutil.copytree(template, folder / "kit")
    with opened(Kit(folder / "kit"), folder / "elsewhere") as notebook:
        notebook.run("import math, torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\nfrom grader import check, hint, repro")
        yield notebook
