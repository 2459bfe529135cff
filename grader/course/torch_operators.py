"""Families of torch's operators: which ones are tools of the course, and which ones compute a whole building block
(torch_operators.toml).

An exercise forbids names. While the code runs, each of these names means its family: `softmax` means every operator
that computes a softmax, whatever its name is. So the syllabus need not list torch's own names, and a new name in torch
opens no gap. A test fails when a new torch has an operator that torch_operators.toml does not list.

To forbid something new, add its name to a chapter's or an exercise's `forbids` in the syllabus, an attack
(`grader/tests/attacks/`), and correct code in other styles (`grader/tests/execution/test_shortcuts_fair.py`). With
`gradient = true`, every result must carry gradient.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOOLS = "tools"
ANOTHER_PACKAGE = "another package"  # what is reported for the import of a package that is not on the list
BELOW_TORCH = "ctypes"  # for a torch function that is called past the dispatcher
GRADER_STATE = "the grader's state"  # for a look into frames, or into all objects of the process
OTHER_RUNTIME = "another runtime"  # for a switch that lets operators run outside the dispatcher


def canonical_name(name: str) -> str:
    """The common name of torch's variants of one operation: `_softmax`, `softmax_`, `_safe_softmax`."""
    name = name.strip("_")
    for prefix in ("special_", "native_", "safe_"):
        name = name.removeprefix(prefix)
    return name


def match_forbidden(name: str, forbids: Collection[str]) -> str | None:
    """The forbidden name that this name matches, or None."""
    return name if name in forbids else spelled if (spelled := canonical_name(name)) in forbids else None


@dataclass(frozen=True)
class Family:
    """One family of the data file."""

    name: str
    operators: frozenset[str]
    says: str = ""
    pattern: str = ""
    functions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    packages: bool = False
    task: str = ""

    def is_meant_by(self, name: str) -> bool:
        """Does this name, in an exercise's `forbids`, mean this family?"""
        if is_gradient_of_one(name):
            return False
        return (
            name in self.classes or name in self.functions or canonical_name(name) in _canonical_names(self.operators)
        )


def is_gradient_of_one(name: str) -> bool:
    """Does this name mean the gradient of one operator, as `gelu_backward` does? An exercise that computes it may use
    the operator itself."""
    return "_backward" in name and canonical_name(name) != "backward"


@cache
def _canonical_names(operators: frozenset[str]) -> frozenset[str]:
    return frozenset(map(canonical_name, operators))


@cache
def _data() -> dict:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def families() -> tuple[Family, ...]:
    return tuple(
        Family(
            name, frozenset(entry["operators"]), entry.get("says", ""), entry.get("pattern", ""),
            tuple(entry.get("functions", ())),
            tuple(entry.get("modules", ())), tuple(entry.get("classes", ())), entry.get("packages", False),
            entry.get("task", ""),
        )
        for name, entry in _data().items() if isinstance(entry, dict)
    )  # fmt: skip


@cache
def allowed_packages() -> frozenset[str]:
    return frozenset(_data()["packages"])


def families_of(forbids: Iterable[str]) -> tuple[Family, ...]:
    """The families that these forbidden names mean."""
    names = tuple(forbids)
    return tuple(family for family in families() if family.name != TOOLS and any(map(family.is_meant_by, names)))


def family_of(operator: str) -> str:
    """The family of an operator ("softmax" of aten, or "quantized::softmax"): as listed; by its name where no list has
    it; else tools."""
    listed = next((family.name for family in families() if operator in family.operators), None)
    fitting = (family.name for family in families() if family.pattern and re.search(family.pattern, operator))
    return listed or next(fitting, TOOLS)


@cache
def operators() -> dict[str, str]:
    """Every operator of this torch with its family; one of the aten library without the library's name."""
    # here: it imports torch, which commands that only read the course do not need
    from grader.course.torch_internals import operator_names

    names = {name.partition(".")[0].removeprefix("aten::") for name in operator_names()}
    return {name: family_of(name) for name in sorted(names)}


@cache
def forbidden_operators(forbids: tuple[str, ...]) -> tuple[str, ...]:
    """The operators of this torch that an exercise with these forbidden names may not run."""
    denied = {family.name for family in families_of(forbids)}
    return tuple(name for name, family in operators().items() if family in denied or match_forbidden(name, forbids))


@cache
def reportable(forbids: tuple[str, ...]) -> frozenset[str]:
    """Every name that the run-time check may report when these names are forbidden. The grader accepts no other. A look
    at the grader's state is reported where nothing is forbidden, too."""
    if not forbids:
        return frozenset({GRADER_STATE})
    denied = families_of(forbids)
    names = {*forbids, *forbidden_operators(forbids), OTHER_RUNTIME, BELOW_TORCH, GRADER_STATE}
    for family in denied:
        names.update(family.functions, family.modules)
    return frozenset(names if may_import_anything(forbids) else names | {ANOTHER_PACKAGE})


@cache
def reportable_at_import(forbids: tuple[str, ...]) -> frozenset[str]:
    """The same while a chapter is imported, which happens once for all its exercises: another of them may forbid
    packages."""
    return reportable(forbids) | {ANOTHER_PACKAGE} if forbids else reportable(forbids)


@cache
def may_import_anything(forbids: tuple[str, ...]) -> bool:
    """False if an exercise forbids functions: another package may contain them too."""
    denied = families_of(forbids)
    return all(family.packages for family in denied) and all(
        any(family.is_meant_by(name) for family in denied) for name in forbids
    )


def describe_forbidden(forbids: Iterable[str]) -> str:
    """These forbidden names as a phrase for a learner: a family by its most used functions, another name as it is."""
    names, denied = tuple(forbids), families_of(forbids)
    alone = [name for name in names if not any(family.is_meant_by(name) for family in denied)]
    kernels = [f"`{name}`" for name in alone if is_gradient_of_one(name)]
    described = [
        f"`nn.{name}`" if name[:1].isupper() else f"`{name}`" for name in alone if not is_gradient_of_one(name)
    ]
    if kernels:
        described.append("torch's own " + " and ".join(filter(None, [", ".join(kernels[:-1]), kernels[-1]])))
    return " and without ".join([*(family.says for family in denied), *described])


def chapter_rule(forbids: Iterable[str]) -> str:
    """A sentence for the learners of a chapter in which these names are forbidden."""
    rules = [f"write {family.task} yourself, without {family.says}" for family in families_of(forbids)]
    return f"In this chapter, {'; '.join(rules)}."


def describe_shortcuts(exercise: str, seen: Collection[str]) -> list[str]:
    """A sentence for each kind of shortcut that these reported names show."""
    found = []
    if ANOTHER_PACKAGE in seen:
        found.append(
            "the chapter imports a package that this exercise does not allow; use torch, NumPy and the standard library"
        )
    if OTHER_RUNTIME in seen or BELOW_TORCH in seen:
        found.append(f"{exercise} calls torch in a way that cannot be checked; call only torch's public functions")
    if GRADER_STATE in seen:
        found.append(
            f"{exercise} looks into its callers or into all objects of the process, where the grader's own "
            "are; compute the result from the arguments"
        )
    names: dict[str, str] = {}
    ran = set(seen) - {ANOTHER_PACKAGE, OTHER_RUNTIME, BELOW_TORCH, GRADER_STATE}
    # the gradient follows from the function that was called
    ran = {name for name in ran if "backward" not in name} or ran
    for name in sorted(ran, key=lambda name: (name.startswith("_"), len(name), name)):
        names.setdefault(canonical_name(name), name)
    if names:
        which = " and ".join(f"`{name}`" for name in list(names.values())[:3])
        advice = "use arithmetic, reductions, indexing and matrix products"
        found.append(f"{exercise} ran torch's {which}, which is not allowed in this exercise; {advice}")
    return found
