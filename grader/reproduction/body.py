"""Writes the statements of a script: the requests of a failed example, and the lines that print what they return."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import Any

from grader.course.source import SourceProblem, module_names, parse
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target, package_sources
from grader.execution.values import unpack
from grader.reproduction.example import FailedExample
from grader.reproduction.named_results import RESULT
from grader.reproduction.names import NameSpace, Parameters
from grader.reproduction.slicing import Slice
from grader.reproduction.statements import FAILED, Ref, Statements

IMPORTED = ("torch", "nn", "F", "math", "random", "Path", "open_chapter", "set_parameters", "saved", "got", "expected", "holds")
READINGS = ("attribute", "item", "list", "parameters", "state", "buffers", "len", "contains", "shapes", "get")
_ORDER = ("result", "second_result", "third_result", "fourth_result")


def start_statements(example: FailedExample, target: Target, whole: bool) -> Statements:
    """No statements yet; the names of the chapter, and of the earlier chapters that it can use, are known."""
    chapter = load_syllabus().chapter(example.exercise.chapter)
    sources = package_sources(target, chapter, whole, example.replaced)
    defined: dict[str, str] = {}
    own: set[str] = set()
    for source in sorted(sources, key=lambda source: source.name, reverse=True):
        names = _module_names(source.text)
        if source.name == chapter.name:
            own |= names
        elif source.text:
            defined.update(dict.fromkeys(names, source.name))
    for exercise in load_syllabus().exercises:
        if exercise.module < chapter.name:
            defined.setdefault(exercise.name, exercise.module)
    objects: dict[tuple[type, Any], Any] | None = {} if any(source.name == chapter.name and _compares_identity(source.text) for source in sources) else None
    parameters = Parameters(source.text for source in sorted(sources, key=lambda source: source.name))
    return Statements(chapter.id, chapter.name, frozenset(own), defined, parameters, NameSpace((*IMPORTED, chapter.id)), objects=objects)


def _compares_identity(text: str) -> bool:
    """Does the code compare by `is` with anything but None, a truth value or a type?"""
    try:
        nodes = list(ast.walk(parse(text)))
    except SourceProblem:
        return False
    comparisons = [node for node in nodes if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)]
    return any(not any(isinstance(side, ast.Constant) or _calls_type(side) for side in (node.left, *node.comparators)) for node in comparisons)


def _calls_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def _module_names(text: str) -> set[str]:
    try:
        return module_names(text)
    except SourceProblem:
        return set()


def write_body(made: Statements, example: FailedExample, chosen: Slice) -> list[str]:
    """Write the requests of the slice, and the lines that print the results; the variables or the code of the failed requests."""
    shown = _requests(made, example, chosen)
    made.lines += _ending(made, example, shown)
    return shown


def _requests(made: Statements, example: FailedExample, chosen: Slice) -> list[str]:
    """Write the requests of the slice; the variables or the code of the failed ones."""
    shown: list[str] = []
    one = len(example.positions) == 1
    replies = [exchange.reply for exchange in example.log]
    for place in chosen.places:
        failed = place in example.positions
        reply, out = (replies[place], example.log[place].out) if place < len(replies) else ({}, [])
        request = example.requests[place]
        result = ""
        if failed and request[0] in ("call", "gradients"):
            if made.lines and made.lines[-1]:
                made.lines.append("")
            direct = one and example.kind == "compared" and example.tested and example.tested.text == f"_{place}"
            result = "got" if direct else made.names.new(_ORDER[min(len(shown), 3)])
        if failed and example.kind == "rule":
            _before_rule(made, example, request)
        count = len(made.lines)
        code = made.write(place, request, reply, out, result)
        if not failed and "error" in reply and len(made.lines) > count:
            made.lines[-1] = "with contextlib.suppress(Exception):  # this raises an error, as it should\n" + textwrap.indent(made.lines[-1], "    ")
        if failed and request[0] in READINGS and any(example.requests[later][0] not in READINGS for later in chosen.places if later > place):
            name = made.names.new("before")  # a later request may change what was read
            made.lines.append(f"{name} = copy.deepcopy({code})")
            code = name
        if failed:
            shown.append(code)
            if request[0] not in ("call", "gradients", "fill", "set_attribute", "set_item") and example.kind in ("raised", "rule", "time"):
                made.lines.append(f"{code}{FAILED}")
    return shown


def _before_rule(made: Statements, example: FailedExample, request: tuple) -> None:
    """For a call that changed its argument: nothing to prepare unless the argument is a variable, which is copied first."""
    if "changed its argument" not in example.sentence or request[0] != "call":
        return
    arguments = unpack(request[1], request[2], lambda handle: Ref(handle[0], str(handle[1])))
    _, args, options = arguments
    found = re.search(r"changed its argument(?: number (\d+)| `(\w+)`)?", example.sentence)
    names = made.parameter_names(arguments[0])
    if found and found[2]:
        value, name = options.get(found[2]), found[2]
    else:
        number = int(found[1]) - 1 if found and found[1] else 0
        value = args[number] if number < len(args) else next(iter(options.values()), None)
        name = names[number] if number < len(names) else "x"
    variable = made.variable(value, name)
    made.names.taken.add("copy")
    made.lines.append(f"before = copy.deepcopy({variable})")
    made.known["changed argument"] = variable


def _ending(made: Statements, example: FailedExample, shown: list[str]) -> list[str]:
    """The lines that print the results."""
    if example.kind in ("raised", "time"):
        return ['print("the call returned without an error")']
    if example.kind == "rule":
        return _rule_ending(made, example, shown)
    tested = _rendered(made, example, shown) if example.tested else ""
    if example.kind == "compared":
        lines = [f"got = {tested}"] if tested != "got" else []
        lines.append(f"expected = {made.literal_or_saved(example.expected, 'expected')}")
        return [*lines, *_prints("got", "expected", tall=_is_tall(example.expected))]
    lines = [f'print("{_one_line(part)}:", {part})' for part in shown]
    if tested:
        lines = [f"holds = {tested}", *lines, 'print("the condition of the test holds:", bool(holds))']
    return [*lines, f"print({_plain_text('The test says: ' + example.sentence)!r})"]


def _one_line(code: str) -> str:
    return code.replace("\\", "\\\\").replace('"', "'")


def _plain_text(text: str) -> str:
    return " ".join(text.split())


def _rule_ending(made: Statements, example: FailedExample, shown: list[str]) -> list[str]:
    code, sentence = shown[0] if shown else "None", example.sentence
    print_both = _prints("got", "expected")
    if "changed argument" in made.known:
        return [f"got, expected = {made.known['changed argument']}, before  # the call must not change its argument", *_prints("got", "expected", tall=True)]
    if found := re.search(r"has no parameter `([^`]+)`", sentence):
        owner = _filled(example, made)
        return [f"got, expected = {found[1]!r} in dict({owner}.named_parameters()), True  # is there a parameter of this name?", *print_both]
    if found := re.search(r"parameter `([^`]+)` has shape (\(.*?\)); it should be (\(.*?\))", sentence):
        return [f"got, expected = tuple({_filled(example, made)}.get_parameter({found[1]!r}).shape), {found[3]}", *print_both]
    if "an nn.Module is expected" in sentence:
        return [f"got, expected = isinstance({_filled(example, made)}, torch.nn.Module), True", *print_both]
    if "something callable is expected" in sentence:
        return [f"got, expected = callable({_filled(example, made)}), True", *print_both]
    if "has no gradient back" in sentence:
        return [f"got, expected = {code}.requires_grad, True  # does the gradient reach the inputs and parameters?", *print_both]
    return [f'print("returned:", {code})', f"print({_plain_text('The test says: ' + sentence)!r})"]


def _filled(example: FailedExample, made: Statements) -> str:
    """The object that the failed request is about."""
    _, tree, buffers = example.requests[example.positions[-1]]
    first = unpack(tree, buffers, lambda handle: Ref(handle[0], str(handle[1])))[0]
    return made.object_code(first)


def _prints(*names: str, tall: bool = False) -> list[str]:
    return [f'print("{name}", {name}, sep="\\n")' if tall else f'print("{name}", {name})' for name in names]


def _is_tall(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 1


def _rendered(made: Statements, example: FailedExample, shown: list[str]) -> str:
    """The tested value as code over the script's variables."""
    assert example.tested is not None
    variables = dict(zip(example.positions, shown))
    text = example.tested.text
    constants = [made.variable(constant, "constant") for constant in example.tested.constants]
    text = re.sub(r"\b_c(\d+)\b", lambda found: constants[int(found[1])], text)

    def parameter(found: re.Match) -> str:
        module = made.modules[int(found[1])]
        return f"{module}.get_parameter({found[2]}).grad"

    text = re.sub(r"\b_(\d+)_parameters\[((?:'[^']*')|(?:\"[^\"]*\"))\]", parameter, text)
    text = re.sub(r"\b_(\d+)_parameters\b", lambda found: f"{{name: value.grad for name, value in {made.modules[int(found[1])]}.named_parameters()}}", text)

    def result(found: re.Match) -> str:
        place, part = int(found[1]), found[2] or ""
        if part.startswith("inputs_"):
            variable = made.leaves.get((place, int(part.removeprefix("inputs_"))))
            return f"{variable}.grad" if variable else "None"
        return variables[place]

    return RESULT.sub(result, text)
