"""What `python -m grader.quality.benchmarks` and `python -m grader.quality.proof` share: a module of their folder that has a function `run` is run by its name."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from types import ModuleType

from grader.quality.benchmarks.figures import printed_figures

Run = Callable[[list[str]], int]  # options -> exit status


def run_by_name(package: ModuleType, kind: str, arguments: list[str]) -> int:
    """Run all modules of the package that have `run`, or the one named first, with the other arguments as its options."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("__"))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    known = {name: module.run for name, module in modules.items() if hasattr(module, "run")}
    if not arguments:
        return one_after_another(known)
    name, *options = arguments
    if name not in known:
        print(f"there is no {kind} called {name}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return known[name](options)


def one_after_another(everything: dict[str, Run]) -> int:
    """Run all of them, and repeat their figures at the end. Returns the worst exit status."""
    status = 0
    for run in everything.values():
        status = max(status, run([]))
        print(flush=True)
    if printed_figures:
        print("Summary:", *printed_figures, sep="\n- ")
    return status
