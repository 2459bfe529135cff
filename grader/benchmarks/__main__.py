"""`python -m grader.benchmarks [NAME] [OPTIONS]`: all benchmarks, or the one called NAME with options of its own (`NAME --help`)."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable

from grader import benchmarks
from grader.benchmarks.figures import ratios

Benchmark = Callable[[list[str]], int]


def known() -> dict[str, Benchmark]:
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("__"))
    modules = {name: importlib.import_module(f"grader.benchmarks.{name}") for name in names}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def main(arguments: list[str]) -> int:
    everything = known()
    if not arguments:
        return one_after_another(everything)
    name, *options = arguments
    if name not in everything:
        print(f"there is no benchmark called {name}; there are {', '.join(everything)}", file=sys.stderr)
        return 2
    return everything[name](options)


def one_after_another(everything: dict[str, Benchmark]) -> int:
    """All of them; what they found stands together at the end."""
    status = 0
    for benchmark in everything.values():
        status = max(status, benchmark([]))
        print(flush=True)
    print("All in short:", *ratios, sep="\n- ")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
