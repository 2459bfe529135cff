"""A definition passed as an object, for example from a notebook's cell, that replaces the one in the chapter's file."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class DefinitionOverride:
    name: str  # of the exercise
    module: str  # its chapter, "ch03_attention"
    value: Any  # a function or a class
    others: dict[str, Any] = field(default_factory=dict)  # other names of the chapter that are defined in the same place
    text: str = ""  # its source; empty if unknown
    files: dict[str, str] = field(default_factory=dict)  # file name that the code is compiled with → what messages call it: "cell In[3]"
    forbidden: tuple[str, ...] = ()  # a sentence for each forbidden function that its source uses
    space: dict[str, Any] | None = None  # the globals of its code, where it finds its helpers

    def names_used(self, names: Iterable[str]) -> set[str]:
        """The names that these definitions of the same place use, directly or through others of that place."""
        here = self.others | {self.name: self.value}
        found: set[str] = set()
        waiting = [name for name in names if name in here]
        while waiting:
            new = global_names(here[waiting.pop()]) - found
            found |= new
            waiting += new & here.keys()
        return found


def global_names(value: Any) -> set[str]:
    """The global names in the code of a function, or of a class's methods; of a class also those of its base classes."""
    methods = [getattr(method, "__func__", method) for method in vars(value).values()] if isinstance(value, type) else [value]
    waiting = [code for method in methods if isinstance(code := getattr(inspect.unwrap(method), "__code__", None), CodeType)]
    found = {base.__name__ for base in value.__mro__[1:]} if isinstance(value, type) else set()
    while waiting:
        code = waiting.pop()
        found |= {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
    return found
