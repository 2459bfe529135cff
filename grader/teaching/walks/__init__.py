"""`headway walk NAME`: guided tours through the parts that the learner has built, with the numbers of this run.

A walk is a template and a module. The template `exercises/walks/chNN_name.md` is what a reader sees; `guide.py` says
how it is written. Its number is the last chapter that the walk needs. The module is `walk_name.py` in this chapter's
folder of grader/chapters/. It has

    REQUIRED_EXERCISES  the names of all exercises whose code runs, also of those that other exercises call; `parts.py`
                        decides whether each one is the learner's or the reference's
    measure(parts, seed, report_progress)
                        runs the code and returns the numbers, as a SimpleNamespace of plain values. `parts.GPT` is the
                        learner's if its tests pass now, otherwise the reference's; the same holds for any other name of
                        a chapter (`parts.GPTConfig`). `parts.chapter("ch07")` is a module of these names. The random
                        generators of Python and torch are seeded already; other generators use `seed`. Wrap work of
                        more than a second in `with report_progress("training", epochs) as step:` and call `step()` as
                        often as announced
    describe(numbers)   returns what the template needs besides these numbers and the module's constants: tables, grids,
                        curves (see terminal_drawing.py), and numbers that follow from others

A module may have `require()`, which raises a UserProblem if the walk cannot run on this machine.

`guide.py` does the rest. The learner's code runs only in `measure`. Its prints are suppressed. If it raises an
exception, `guide.py` measures again with the reference's code for that exercise and reports it. So `measure` must keep
no state between two calls. Use `walk_inference.py` of chapter 9 and its template as the example.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from grader.chapters import find_files, module_name
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES

TEMPLATES = EXERCISES / "walks"


def list_walks() -> dict[str, str]:
    """Return the title of every walk by its name, in the order of the course."""
    return {name: read_source(path).partition("\n")[0].removeprefix("# ") for name, path in _templates().items()}


def template_path(name: str) -> Path:
    return _templates()[name]


def _templates() -> dict[str, Path]:
    return {path.stem.partition("_")[2].replace("_", "-"): path for path in sorted(TEMPLATES.glob("ch*.md"))}


def load(name: str) -> ModuleType:
    chapter, _, own = template_path(name).stem.partition("_")
    [path] = find_files(f"walk_{own}.py", f"{chapter}_*")
    return import_module(module_name(path))
