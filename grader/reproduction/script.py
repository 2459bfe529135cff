"""Writes the script of a failed example: a readable program that makes the failed call again, and prints what it
returns.

Of the example's requests it repeats those that made the objects in use and set their values. Where they are not enough
(a random state, a cache, a global variable), it repeats the earlier calls of the same objects too, and last of all
every earlier request.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.course.syllabus import load_syllabus
from grader.execution.errors import ChapterBroken
from grader.execution.target import Target, package_sources
from grader.execution.values import pack, unpack
from grader.reproduction.example import FailedExample
from grader.reproduction.statements import FAILED, Statements, parameter_names
from grader.verdict.trial import Trial
from torch import Tensor

# of chapters.py
_HELPERS = ("open_chapter", "set_parameters", "parameters", "state", "buffers", "gradients", "check_call")
_IMPORTED = ("torch", "nn", "F", "math", "Path", "contextlib", "saved", "got", "expected", *_HELPERS)
_RESULT_NAMES = ("result", "second_result", "third_result", "fourth_result")


@dataclass(frozen=True)
class Script:
    """A script, the values that it reads, and what `headway repro` needs to say whether it still fails."""

    text: str
    saved: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def chapter_digest(target: Target, module: str) -> str:
    """A digest of the chapter's text; empty if it cannot be read."""
    try:
        return hashlib.sha256(target.source(module).text.encode("utf-8", "replace")).hexdigest()[:16]
    except ChapterBroken:
        return ""


def choices_of_requests(example: FailedExample) -> list[tuple[int, ...]]:
    """The positions of the requests to repeat, in their order: the fewest first, and last all up to the failed ones."""
    if example.kind == "import":
        return [()]
    everything = tuple(range(max(example.positions) + 1))
    return list(dict.fromkeys([_needed(example, with_calls=False), _needed(example, with_calls=True), everything]))


def write_script(example: FailedExample, places: tuple[int, ...], trial: Trial) -> Script:
    """The script of a failed example: its last lines make the failed calls and print the results."""
    exercise, target = example.exercise, trial.target
    made = Statements(exercise.chapter, {})
    made.taken |= {*_IMPORTED, made.chapter}
    results: dict[str, Any] = {}
    if example.kind != "import":
        sources = package_sources(target, load_syllabus().chapter(exercise.chapter), trial.whole, example.replaced)
        made.parameters = parameter_names(source.text for source in sorted(sources, key=lambda source: source.name))
        results = _write_requests(made, example, places)
        made.lines += _ending(made, example, list(results))
    text = _layout(made, example, trial)
    call_lines = [number for number, line in enumerate(text.split("\n"), start=1) if line.endswith(FAILED)]
    replies = [exchange.reply for at, exchange in enumerate(example.log) if at in example.positions]
    errors = [reply["error"] for reply in replies if "error" in reply and reply["error"]["kind"] != "rule"]
    error = f"{errors[0]['type']}: {' '.join(errors[0]['message'].split())}" if errors else ""
    facts = {
        "exercise": exercise.name, "kind": example.kind, "tolerance": example.tolerance, "worker": example.in_worker,
        "digest": chapter_digest(target, exercise.module), "call_line": call_lines[-1] if call_lines else 0,
        "folder": str(target.folder.resolve()) if target.folder and not target.is_own_folder else "",
        "results": results if example.kind == "law" else {}, "error": error,
    }  # fmt: skip
    return Script(text, made.saved, facts)


def plain_copy(value: Any) -> Any:
    """The value with the name of its class or function for each object."""
    packed = pack(value, lambda part: [0, getattr(part, "__name__", type(part).__name__)])
    return unpack(*packed, lambda handle: str(handle[1]))


# ---- which requests


def _needed(example: FailedExample, with_calls: bool) -> tuple[int, ...]:
    """The failed requests, what made their objects, and what changed these; `with_calls` also their earlier calls."""
    needs = [_handles(tree) for _, tree, _ in example.requests]
    makes = [_handles(exchange.reply.get("value")) for exchange in example.log] + [[]]
    maker: dict[int, int] = {}
    constant: set[int] = set()  # functions and classes: calling one does not change it
    group: dict[int, int] = {}  # objects that were arguments or results of one request may change together

    def root(number: int) -> int:
        return root(group[number]) if group.get(number, number) != number else number

    for place, (op, _, _) in enumerate(example.requests):
        for number in makes[place]:
            maker.setdefault(number, place)
        constant |= set(makes[place]) if op in ("get", "bring") else set()
        first, *others = [root(number) for number in [*needs[place], *makes[place]] if number not in constant] or [-1]
        group |= {other: first for other in others if other != first}
    changes = {"fill", "set_attribute", "set_item"} | ({"call", "gradients"} if with_calls else set())
    chosen: set[int] = set()
    waiting = list(example.positions)
    while waiting:
        place = waiting.pop()
        if place in chosen:
            continue
        chosen.add(place)
        waiting += [maker[number] for number in needs[place] if number in maker]
        own = {root(number) for number in needs[place] if number not in constant}
        for earlier in range(place):
            touched = {root(number) for number in needs[earlier] + makes[earlier] if number not in constant}
            if example.requests[earlier][0] in changes and own & touched:
                waiting.append(earlier)
    return tuple(sorted(chosen))


def _handles(tree: Any) -> list[int]:
    """The numbers of the objects in a packed value, in order."""
    if isinstance(tree, dict) and "handle" in tree:
        return [tree["handle"][0]]
    parts: Iterable[Any] = tree if isinstance(tree, list) else ()
    if isinstance(tree, dict):
        parts = (body for kind, body in tree.items() if kind != "tensor")
    return [number for part in parts for number in _handles(part)]


# ---- the text


def _write_requests(made: Statements, example: FailedExample, places: tuple[int, ...]) -> dict[str, Any]:
    """Write these requests; the variables of the failed ones, with their values in the test as far as there are any."""
    results: dict[str, Any] = {}
    for place in places:
        request, exchange = example.requests[place], example.log[place] if place < len(example.log) else None
        reply = exchange.reply if exchange else {}
        failed, count = place in example.positions, len(made.lines)
        result = ""
        if failed:
            made.lines += [""] if made.lines and made.lines[-1] else []
            direct = example.kind == "compared" and not example.part
            result = "got" if direct else made.new_name(_RESULT_NAMES[min(len(results), 3)])
        made.write(request, reply, result, check=failed and example.kind == "rule" and request[0] == "call")
        if failed and exchange and "value" in reply:
            results[result] = plain_copy(unpack(reply["value"], exchange.out, lambda handle: str(handle[1])))
        if not failed and "error" in reply and len(made.lines) > count:
            expected = "with contextlib.suppress(Exception):  # this raises an error, as it should"
            made.lines[-1] = f"{expected}\n    {made.lines[-1]}"
    return results


def _ending(made: Statements, example: FailedExample, results: list[str]) -> list[str]:
    """The lines that print the results."""
    if example.kind in ("raised", "rule", "time"):
        return ['print("the call returned without an error")']
    if example.kind == "law":
        says = " ".join(f"The test says: {example.sentence}".split())
        return [*(f'print("{name}:", {name})' for name in results), f"print({says!r})"]
    is_gradient = example.requests[example.positions[0]][0] == "gradients"
    part = re.sub(r"^\['(\w+)'\]", r".\1", example.part) if is_gradient else example.part
    tall = ', sep="\\n"' if isinstance(example.expected, Tensor) and example.expected.ndim > 1 else ""
    return [
        *([f"got = {results[0]}{part}"] if part else []), f"expected = {made.literal(example.expected, 'expected')}",
        f'print("got", got{tall})', f'print("expected", expected{tall})',
    ]  # fmt: skip


def _layout(made: Statements, example: FailedExample, trial: Trial) -> str:
    """The docstring, the imports, the chapter, the test's helpers, and then the statements."""
    name, target = example.exercise.name, trial.target
    body, helpers = "\n".join(made.lines), "\n\n\n".join(helper.rstrip() for helper in made.helpers)
    code = f"{helpers}\n{body}"
    used = [helper for helper in _HELPERS if helper == "open_chapter" or re.search(rf"(?<![\w.]){helper}\(", body)]
    imports = [f"import {word}" for word in ("contextlib", "math") if f"{word}." in code]
    imports += ["from pathlib import Path"] if made.saved else []
    imports += [""] if imports else []
    imports += ["import torch"] if made.lines else []
    imports += ["import torch.nn.functional as F"] if re.search(r"\bF\.", code) else []
    imports += [f"from grader.reproduction.chapters import {', '.join(sorted(used))}"]
    imports += ["from torch import nn"] if re.search(r"(?<!torch\.)\bnn\.", code) else []
    options = f", seed={example.seed}" if made.lines else ""
    if target.folder and not target.is_own_folder:
        options += f", folder={json.dumps(str(target.folder.resolve()))}"
    options += ", whole=True" if trial.whole else ""
    options += f", replaced={json.dumps(example.replaced)}" if example.replaced else ""
    options += ", gradient=True" if "check_call" in used and example.exercise.gradient else ""
    reference = f"with the reference's {' and '.join([*example.replaced, 'earlier chapters'])}"
    yours = "and your own earlier chapters" if trial.whole else reference
    opening = [f'{example.exercise.chapter} = open_chapter("{example.exercise.module}"{options})  # your file, {yours}']
    if made.saved:
        file = 'Path(__file__).with_suffix(".pt")'
        opening.append(f'saved = torch.load({file}, weights_only=True)["saved"]  # the larger tensors')
    said = example.sentence.replace("\\", "\\\\").replace('"', "'").rstrip(".")
    test = example.test.partition("[")[0]
    lines = [
        '"""', f"{name} fails {test}: {said}.", "",
        f"Run it: headway repro {name}    (--pdb starts the debugger where it fails)", '"""', "",
        *imports, "", *opening, *(["", "", helpers, "", ""] if helpers else [""]), body.strip("\n"),
    ]  # fmt: skip
    return "\n".join(lines).rstrip("\n") + "\n"
