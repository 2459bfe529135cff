"""A definition handed over as an object, from a notebook's cell say, in place of what the chapter's file holds under that name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DefinitionOverride:
    name: str  # of the exercise
    module: str  # its chapter, "ch03_attention"
    value: Any  # a function or a class
    others: dict[str, Any] = field(default_factory=dict)  # more names of the chapter that stand where this one does
    text: str = ""  # its source; empty where that cannot be had
    files: dict[str, str] = field(default_factory=dict)  # what its author's code is compiled as → what to call that: "cell In[3]"
    forbidden: tuple[str, ...] = ()  # a sentence for each shortcut that its source shows
