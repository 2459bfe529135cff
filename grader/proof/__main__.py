"""`python -m grader.proof [NAME] [OPTIONS]`: all proofs, or the one called NAME with options of its own (`NAME --help`)."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable

from grader import proof

Proof = Callable[[list[str]], int]


def known() -> dict[str, Proof]:
    names = sorted(module.name for module in pkgutil.iter_modules(proof.__path__) if not module.name.startswith("__"))
    modules = {name: importlib.import_module(f"grader.proof.{name}") for name in names}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def main(arguments: list[str]) -> int:
    everything = known()
    if not arguments:
        return max((attempt([]) for attempt in everything.values()), default=0)
    name, *options = arguments
    if name not in everything:
        print(f"there is no proof called {name}; there are {', '.join(everything)}", file=sys.stderr)
        return 2
    return everything[name](options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
