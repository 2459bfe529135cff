"""Imports run one way: no module of the kit imports, at any depth, a module that imports it. Read from the source, so that an import inside a function counts too."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from grader.course.syllabus import ROOT

GRADER = ROOT / "grader"
DIVIDED = ("chapters", "classroom", "teaching")
Name = tuple[str, ...]


def _modules() -> dict[Name, Path]:
    """Every module of the kit, without its tests, and with what proves it beside them."""
    found = {}
    for path in GRADER.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[1] != "tests" or parts[2] == "quality" and not path.name.startswith("test_"):
            found[parts[:-1] if parts[-1] == "__init__" else parts] = path
    return found


def _imported(name: Name, path: Path, modules: dict[Name, Path]) -> Iterator[Name]:
    package = name if path.name == "__init__.py" else name[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            wanted = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = package[: len(package) - node.level + 1] if node.level else ()
            origin += tuple(node.module.split(".")) if node.module else ()
            wanted = [(*origin, alias.name) if (*origin, alias.name) in modules else origin for alias in node.names]
        else:
            continue
        yield from (module for module in wanted if module in modules and module != name)


def _graph() -> dict[Name, set[Name]]:
    modules = _modules()
    return {name: set(_imported(name, path, modules)) for name, path in modules.items()}


def _circle(graph: dict[Name, set[Name]]) -> list[Name]:
    """Names of which each imports the next, and the last the first; empty if imports run one way."""
    done: set[Name] = set()

    def follow(name: Name, above: list[Name]) -> list[Name]:
        if name in above:
            return above[above.index(name) :]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if circle := follow(other, [*above, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in sorted(graph) if (circle := follow(name, []))), [])


def _room(name: Name) -> Name:
    """The room that contains a module; the largest rooms are divided into several rooms."""
    return name[:3] if name[1] in DIVIDED else name[:2]


def test_no_room_of_the_kit_imports_what_imports_it():
    rooms: dict[Name, set[Name]] = {}
    for name, imported in _graph().items():
        if len(name) > 1:
            rooms.setdefault(_room(name), set()).update(_room(other) for other in imported if len(other) > 1 and _room(other) != _room(name))
    assert {room[1] for room in rooms} >= {"course", "execution", "processes", "verdict", "plugin", "cli", "classroom", "teaching", "tests"}
    assert _circle(rooms) == []


def test_no_module_imports_what_imports_it():
    assert _circle(_graph()) == []


def test_a_cycle_is_found():
    assert _circle({("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("b",)}}) == [("b",), ("c",)]


def test_private_interfaces_of_libraries_are_used_in_one_module_each():
    """pytest's and hypothesis's, which may change with every version."""
    private = {
        re.compile(r"\b_pytest\b|\._initrequest\b|\._fixtureinfo\b|\._tw\b"): "grader/plugin/pytest_internals.py",
        re.compile(r"hypothesis\.(internal|_(?!_)|core|extra)|_hypothesis_internal"): "grader/verdict/examples.py",
    }
    for path in _modules().values():
        text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#"))
        for pattern, module in private.items():
            assert path == ROOT / module or not pattern.search(text), f"{path}: {pattern.search(text)}"
