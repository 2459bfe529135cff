"""Writes the script of a failed example: a readable program that makes the failed calls again, and prints what they return."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from grader.execution.errors import ChapterBroken
from grader.execution.target import Target
from grader.reproduction.body import start_statements, write_body
from grader.reproduction.example import FailedExample
from grader.reproduction.slicing import Slice
from grader.reproduction.statements import FAILED, Statements


@dataclass(frozen=True)
class Script:
    """A script, the values that it reads, and what `headway repro` needs to say whether it still fails."""

    text: str
    saved: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # plain data


def chapter_digest(target: Target, module: str) -> str:
    """A digest of the chapter's text; empty if it cannot be read."""
    try:
        return hashlib.sha256(target.source(module).text.encode("utf-8", "replace")).hexdigest()[:16]
    except ChapterBroken:
        return ""


def write_script(example: FailedExample, chosen: Slice, target: Target, whole: bool) -> Script:
    """The script of a failed example of this target. Its last lines make the failed calls and print the results."""
    exercise = example.exercise
    name = exercise.chapter
    if example.kind == "import":
        lines: list[str] = []
        made, shown = None, []
    else:
        made = start_statements(example, target, whole)
        shown = write_body(made, example, chosen)
        lines = made.lines
    text = _header(example, made, name, target, whole, chosen, "\n".join(lines))
    facts = {
        "exercise": exercise.name, "test": example.test, "sentence": example.sentence, "kind": example.kind, "tolerance": example.tolerance,
        "worker": example.in_worker, "exact": chosen.exact, "digest": chapter_digest(target, exercise.module),
        "folder": str(target.folder.resolve()) if target.folder and not target.is_own_folder else "",
        "shown": shown, "results": [_packed_reply(example, place) for place in example.positions] if example.kind != "import" else [],
        "call_line": _call_line(text),
    }  # fmt: skip
    return Script(text, made.saved if made else {}, facts)


def _call_line(text: str) -> int:
    """The line of the failed call; 0 if there is none."""
    found = [number for number, line in enumerate(text.split("\n"), start=1) if line.endswith(FAILED)]
    return found[-1] if found else 0


def _packed_reply(example: FailedExample, place: int) -> dict[str, Any]:
    if place >= len(example.log):
        return {}
    exchange = example.log[place]
    return {"op": exchange.op, "reply": exchange.reply, "out": [base64.b64encode(part).decode() for part in exchange.out]}


def _header(example: FailedExample, made: Statements | None, chapter: str, target: Target, whole: bool, chosen: Slice, body: str) -> str:
    """The docstring, the imports, the chapter, the random seed, the test's helpers, and then the body."""
    name = example.exercise.name
    said = example.sentence.replace("\\", "\\\\").replace('"', "'").rstrip(".")
    lines = [
        '"""', f"{name} fails {example.test.partition('[')[0]}: {said}.".replace("..", "."), "",
        f"Run it: headway repro {name}    (--pdb starts the debugger where it fails)", '"""', "",
    ]  # fmt: skip
    helpers = "\n\n\n".join(helper.rstrip() for helper in made.helpers) if made else ""
    code = f"{helpers}\n{body}"
    uses = {word for word in ("contextlib", "copy", "math", "random") if re.search(rf"\b{word}\.", code)}
    uses |= {"random"} if chosen.seeded and made else set()
    saved = bool(made and made.saved)
    lines += [f"import {word}" for word in sorted(uses)]
    lines += ["from pathlib import Path"] if saved else []
    lines += [""] if uses or saved else []
    lines += ["import torch"] if made else []
    lines += ["import torch.nn.functional as F"] if re.search(r"\bF\.", code) else []
    lines += [f"from grader.reproduction.chapters import open_chapter{', set_parameters' if 'set_parameters(' in body else ''}"]
    lines += ["from torch import nn"] if re.search(r"\bnn\.", code.replace("torch.nn.", "")) else []
    lines += [""]
    options = ""
    if target.folder is not None and not target.is_own_folder:
        options += f", folder={json.dumps(str(target.folder.resolve()))}"
    options += ", whole=True" if whole else ""
    options += f", replaced={json.dumps(example.replaced)}" if example.replaced else ""
    others = " and ".join([*example.replaced, "earlier chapters"])
    yours = f"your file, with the reference's {others}" if not whole else "your file, and your own earlier chapters"
    lines.append(f'{chapter} = open_chapter("{example.exercise.module}"{options})  # {yours}')
    if made:
        lines += [f'{variable} = open_chapter("{earlier}", beside={chapter})' for earlier, variable in made.opened.items()]
    if saved:
        lines.append('saved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)  # the larger tensors')
    if chosen.seeded and made:
        lines += [f"torch.manual_seed({example.seed})", f"random.seed({example.seed})"]
    if helpers:
        lines += ["", "", helpers, "", ""]
    else:
        lines.append("")
    return "\n".join([*lines, body.strip("\n")]).rstrip("\n") + "\n"
