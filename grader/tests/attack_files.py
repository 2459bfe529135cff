"""Reads the attacks of grader/tests/attacks: chapters that try to gain points, to break the grader, or to harm others.

Each table of a TOML file is one attack. Its chapter consists of the file's `shared` lines and its own `code`. A
function softmax that returns `returns` is added where this is missing. {repeated} is replaced by `repeat`, `times`
times. An attack that has got what it wanted gives the right answer, or raises SystemExit("Success: ...").
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field

from grader.course.syllabus import ROOT

FOLDER = ROOT / "grader" / "tests" / "attacks"


@dataclass(frozen=True)
class Attack:
    name: str
    hopes: str
    not_in_process: str = ""  # why a run in process does not withstand it
    exercise: str = "softmax"  # the code for another one is appended to the reference's chapter
    message: str = ""  # what the author must read
    unreadable: bool = False  # the chapter gets a sentence instead of a verdict
    coding: str = ""
    shared: str = ""
    code: str = ""
    returns: str = ""
    repeat: str = ""
    times: int = 0
    files: dict[str, str] = field(default_factory=dict)  # handed in beside the chapter

    @property
    def text(self) -> str:
        code = self.shared + self.code
        if self.returns or "softmax" not in code and self.exercise == "softmax":
            code += f"\n\ndef softmax(x, dim=-1):\n    return {self.returns or 'x'}\n"
        coding = f"# coding: {self.coding}\n" if self.coding else ""
        return f'{coding}"""Hopes {self.hopes}."""\n\n{code}'.replace("{repeated}", self.repeat * self.times)


def attacks() -> list[Attack]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        shared = tables.pop("shared", "")
        found += [Attack(name, shared=shared, **table) for name, table in tables.items()]
    return found
