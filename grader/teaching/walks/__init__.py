"""`headway walk NAME`: guided tours of what the learner has built, in the terminal, with the real numbers of this run.

To add one, write a module here (a hyphen in the walk's name is an underscore in the module's) and put the name in ORDER. `inference.py`
is the example to follow. A walk has

    a docstring       whose first line is the title: what there is to see
    NEEDS             the names of all exercises whose code will run, those that others call included; `parts.py` decides whose each is
    THEN              a sentence or two at the end: what to try next
    measure(parts, seed, working)
                      runs code and gives the numbers, as a frozen dataclass of plain values. `parts.GPT` is the learner's where its
                      tests pass now and ours where not, as is any other name of a chapter (`parts.GPTConfig`); `parts.chapter("ch07")`
                      is a module of them. Chance is seeded already; what is random and not torch's own takes `seed`. Around anything
                      longer than a second: `with working("training", epochs) as step:`, and `step()` as often as promised
    tell(tour, numbers)
                      prints the tour (see tour.py) from the numbers alone, and runs nobody's code
    draw(numbers)     gives the picture, an SVG of drawing.py, charts.py, sheet.py or maps.py

`guide.py` does the rest. The learner's code runs in `measure` only: what it prints there is left out, and if it raises, `guide.py` measures
once more with ours in its place and says so. So `measure` must not keep anything between two calls.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

from grader.course.source import read_source

ORDER = (
    "inference", "qkv", "qkv-training", "training", "kv-cache", "moe", "translation",
    "positions", "accumulation", "logit-lens", "heads", "induction", "patching",
)  # fmt: skip
FOLDER = Path(__file__).parent


def list_walks() -> dict[str, str]:
    """Every walk that is here, in the order of the course, with its title."""
    files = {name: FOLDER / f"{module_name(name)}.py" for name in ORDER}
    return {name: (ast.get_docstring(ast.parse(read_source(path))) or "").partition("\n")[0] for name, path in files.items() if path.is_file()}


def load(name: str) -> ModuleType:
    """The walk's module."""
    return import_module(f".{module_name(name)}", __name__)


def module_name(name: str) -> str:
    return name.replace("-", "_")
