"""A definition passed as an object, for example from a notebook's cell, that replaces the one in the chapter's file."""

from __future__ import annotations

from dataclasses import dataclass, field
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
