"""Writes the script of a failure in a notebook as the text of a cell, which calls the notebook's own functions.

Their code is in cells, so no file can be opened. The cell uses the notebook's variables by their names. What the notebook does not have (a name that
only the chapter's file defines, or an exercise whose reference was used) comes from `grader.notebook.cells.chapter_of`.
"""

from __future__ import annotations

import re
import sys
import textwrap
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.execution.overrides import DefinitionOverride, global_names
from grader.execution.target import Target
from grader.reproduction.body import start_statements, write_body
from grader.reproduction.example import FailedExample
from grader.reproduction.script import Script
from grader.reproduction.slicing import Slice
from grader.reproduction.statements import Statements
from torch import Tensor

_DATA = (Tensor, bool, int, float, complex, str, bytes, list, tuple, dict, set, type(None))  # what an earlier cell of this kind may have left


@dataclass
class CellStatements(Statements):
    expressions: dict[str, str] = field(default_factory=dict)  # name of the chapter → the notebook's code for it
    uses_chapter: bool = False

    def _get(self, place: int, op: str, name: str, **_: Any) -> str:
        if name in self.expressions:
            return self.expressions[name]
        self.uses_chapter = True
        return f"{self.chapter}.{name}"


def write_cell(example: FailedExample, chosen: Slice, target: Target) -> Script | None:
    """The cell of a failed example of this target, whose code is a notebook's; None if the notebook has no name for it."""
    override, notebook = target.override, vars(sys.modules["__main__"])
    assert override is not None
    expressions = _expressions(override, notebook, example.replaced)
    if override.name not in expressions or example.kind == "import":
        return None
    made = start_statements(example, target, False, CellStatements, reserved_names(notebook))
    assert isinstance(made, CellStatements)
    made.expressions = expressions
    made.parameters.add(override.text)
    write_body(made, example, chosen)
    return Script(_text(made, example, chosen), made.saved, {"exercise": override.name})


def _text(made: CellStatements, example: FailedExample, chosen: Slice) -> str:
    name, body, helpers = example.exercise.name, "\n".join(made.lines).strip("\n"), "\n\n\n".join(helper.rstrip() for helper in made.helpers)
    code = f"{helpers}\n{body}"
    opened = made.uses_chapter or bool(example.replaced)
    lines = [f"# {name} fails {example.test.partition('[')[0]}: {' '.join(example.sentence.split())}"]
    lines.append("# It does not end by itself: stop it." if example.kind == "time" else "# To run it in the debugger, write %%debug as the first line of the cell.")
    lines += [f"import {word}" for word in ("contextlib", "copy", "math") if re.search(rf"\b{word}\.", code)]
    lines += ["from random import seed as seed_random"] if chosen.seeded else []
    lines += ["", "import torch"] if lines[-1].startswith(("import", "from")) else ["import torch"]
    lines += ["import torch.nn.functional as F"] if re.search(r"\bF\.", code) else []
    helpers_of_kit = [word for word, used in (("chapter_of", opened), ("saved_tensors", made.saved)) if used]
    lines += [f"from grader.notebook.cells import {', '.join(helpers_of_kit)}"] if helpers_of_kit else []
    lines += ["from grader.reproduction.chapters import set_parameters"] if "set_parameters(" in body else []
    lines += ["from torch import nn"] if re.search(r"\bnn\.", code.replace("torch.nn.", "")) else []
    lines += [""]
    lines += [f'saved = saved_tensors("{name}")  # the larger tensors'] if made.saved else []
    lines += [f"torch.manual_seed({example.seed})", f"seed_random({example.seed})"] if chosen.seeded else []
    lines += ["", "", helpers, "", ""] if helpers else []
    if opened:
        replaced = f", replaced={list(example.replaced)!r}".replace("'", '"') if example.replaced else ""
        variable = f" as {made.chapter}" if made.uses_chapter else ""
        whose = f"  # with the reference's {' and '.join(example.replaced)}" if example.replaced else ""
        lines.append(f'with chapter_of("{name}", {made.expressions[name]}{replaced}){variable}:{whose}')
        body = textwrap.indent(body, "    ")
    return "\n".join([*lines, body]) + "\n"


def _expressions(override: DefinitionOverride, notebook: Mapping[str, Any], replaced: tuple[str, ...]) -> dict[str, str]:
    """The notebook's code for the names of the chapter that it defines."""
    found = {name: name for name, thing in override.others.items() if notebook.get(name) is thing and name not in replaced}
    if code := _expression_of(override, notebook):
        found[override.name] = code
    return found


def _expression_of(override: DefinitionOverride, notebook: Mapping[str, Any]) -> str:
    """The notebook's code for the object that was checked: a variable, an attribute of a module or class, or a lambda; empty if it is anything else."""
    value = override.value
    label = getattr(value, "__name__", "")
    variables = [name for name in notebook if not name.startswith("_") and notebook[name] is value]
    for name in (override.name, label):
        if name in variables:
            return name
    if variables:
        return variables[0]
    for name, owner in list(notebook.items()):
        found = vars(owner).get(label) if isinstance(owner, types.ModuleType | type) else None
        if not name.startswith("_") and (found is value or isinstance(found, staticmethod) and found.__func__ is value):
            return f"{name}.{label}"
    return f"({override.text})" if label == "<lambda>" and override.text and "\n" not in override.text else ""


def reserved_names(notebook: Mapping[str, Any]) -> set[str]:
    """The names that a cell must not bind: everything but data, and the data that the notebook's functions use."""
    things = list(notebook.items())
    own = [thing for _, thing in things if isinstance(thing, type | types.FunctionType) and thing.__module__ == notebook.get("__name__")]
    return {name for name, thing in things if not isinstance(thing, _DATA)}.union(*(global_names(thing) for thing in own))
