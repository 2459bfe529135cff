"""`headway walk NAME`: guided tours through the parts that the learner has built, in the terminal, with the numbers of this run.

To add a walk, write a module here and put the walk's name in ORDER. A hyphen in the name is an underscore in the module's name.
Use `inference.py` as the example. A walk has

    a docstring         its first line is the title and says what the walk shows
    REQUIRED_EXERCISES  the names of all exercises whose code runs, also of those that other exercises call; `parts.py` decides
                        whether each one is the learner's or the reference's
    NEXT_STEP           a sentence or two at the end: what to try next
    measure(parts, seed, report_progress)
                        runs the code and returns the numbers, as a frozen dataclass of plain values. `parts.GPT` is the learner's if
                        its tests pass now, otherwise the reference's; the same holds for any other name of a chapter
                        (`parts.GPTConfig`). `parts.chapter("ch07")` is a module of these names. The random generators of Python and
                        torch are seeded already; other generators use `seed`. Wrap work of more than a second in
                        `with report_progress("training", epochs) as step:` and call `step()` as often as announced
    print_walk(page, numbers)
                        prints the walk on a `WalkPage` from the numbers alone and runs no exercise
    draw(numbers)       returns the picture, an SVG made with drawing/, picture_stack.py or maps.py

`guide.py` does the rest. The learner's code runs only in `measure`. Its prints are suppressed. If it raises an exception, `guide.py`
measures again with the reference's code for that exercise and reports it. So `measure` must keep no state between two calls.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

from grader.course.source import read_source

ORDER = (
    "inference", "qkv", "qkv-training", "training", "kv-cache", "moe", "translation",
    "positions", "accumulation", "logit-lens", "heads", "induction", "patching", "backward", "tiles",
    "speculation", "paging",
)  # fmt: skip
FOLDER = Path(__file__).parent


def list_walks() -> dict[str, str]:
    """Return the title of every available walk by its name, in the order of the course."""
    files = {name: FOLDER / f"{module_name(name)}.py" for name in ORDER}
    return {name: (ast.get_docstring(ast.parse(read_source(path))) or "").partition("\n")[0] for name, path in files.items() if path.is_file()}


def load(name: str) -> ModuleType:
    """Import the walk's module."""
    return import_module(f".{module_name(name)}", __name__)


def module_name(name: str) -> str:
    return name.replace("-", "_")
