"""Writes the requests of an example as Python statements on the learner's own objects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.execution.values import unpack
from grader.reproduction.literals import WRITTEN, has_tensors, literal, value_key, wrap_code
from grader.reproduction.names import NameSpace, Parameters, argument_name, object_name
from grader.verdict.value_code import NotCode, value_code
from torch import Tensor

FAILED = "  # the failed call"  # `headway repro --pdb` stops there
INLINE = 40  # characters of an argument that is written in the call
Request = tuple[str, Any, list[bytes]]


@dataclass(frozen=True)
class Ref:
    """An object of the implementation, by its number."""

    number: int
    label: str


@dataclass
class Statements:
    """The statements so far, and what they use."""

    chapter: str  # the variable of the opened chapter
    module: str
    own_names: frozenset[str]  # what the chapter's module defines or imports
    earlier: dict[str, str]  # name → the earlier chapter that defines it
    parameters: Parameters
    names: NameSpace
    lines: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)  # sources of the test's helpers
    brought: dict[str, str] = field(default_factory=dict)  # source of a helper → its name in the script
    saved: dict[str, Any] = field(default_factory=dict)  # values in the file next to the script
    code: dict[int, str] = field(default_factory=dict)  # of each object
    kinds: dict[int, tuple[str, str]] = field(default_factory=dict)  # of each object: class or function, and method
    known: dict[str, str] = field(default_factory=dict)  # the code of a value → its variable
    opened: dict[str, str] = field(default_factory=dict)  # earlier chapter → its variable
    leaves: dict[tuple[int, int], str] = field(default_factory=dict)  # of a `gradients` request: its place and an input → the variable
    modules: dict[int, str] = field(default_factory=dict)  # of a `gradients` request: the module that is called
    objects: dict[tuple[type, Any], Any] | None = None  # the numbers and texts in arguments so far; None if the code does not compare identities

    # ---- a request

    def write(self, place: int, request: Request, reply: dict, out: list[bytes], result: str = "") -> str:
        """Write one request; the code of its result. `result` is the variable that the result must have, if any."""
        op, tree, buffers = request
        arguments = unpack(tree, buffers, lambda handle: Ref(handle[0], str(handle[1])))
        code = getattr(self, f"_{op}", self._inspect)(place, op, *arguments, reply=reply, result=result)
        if "value" in reply:
            self._register(reply["value"], code)
        return code

    def _register(self, tree: Any, code: str) -> None:
        """Note the code of each object in a reply."""
        if isinstance(tree, list):
            for number, part in enumerate(tree):
                self._register(part, f"{code}[{number}]")
        elif isinstance(tree, dict):
            if "handle" in tree:
                number, label = tree["handle"]
                self.code.setdefault(number, code)
                self.kinds.setdefault(number, (label, ""))
            for number, part in enumerate(tree.get("tuple", ())):
                self._register(part, f"{code}[{number}]")
            for key, part in tree.get("dict", ()):
                self._register(part, f"{code}[{key!r}]")

    def _get(self, place: int, op: str, name: str, **_: Any) -> str:
        where = self.earlier.get(name) if name not in self.own_names else None
        if where is None:
            return f"{self.chapter}.{name}"
        if where not in self.opened:
            self.opened[where] = self.names.new(where.partition("_")[0])
        return f"{self.opened[where]}.{name}"

    def _bring(self, place: int, op: str, name: str, source: str, **_: Any) -> str:
        if source not in self.brought:
            self.brought[source] = self.names.new(name)
            self.helpers.append(re.sub(rf"\b{name}\b", self.brought[source], source))
            self.parameters.add(source)
        return self.brought[source]

    def _attribute(self, place: int, op: str, owner: Ref, name: str, reply: dict, **_: Any) -> str:
        if "handle" in str(reply.get("value"))[:12]:
            number = reply["value"]["handle"][0]
            if reply["value"]["handle"][1] == name:
                self.kinds.setdefault(number, (self.kinds.get(owner.number, ("", ""))[0], name))
        return f"{self.object_code(owner)}.{name}"

    def _item(self, place: int, op: str, owner: Ref, index: Any, **_: Any) -> str:
        return f"{self.object_code(owner)}[{self._value(index, 'index')}]"

    def _list(self, place: int, op: str, owner: Ref, **_: Any) -> str:
        return f"list({self.object_code(owner)})"

    def _len(self, place: int, op: str, owner: Ref, **_: Any) -> str:
        return f"len({self.object_code(owner)})"

    def _contains(self, place: int, op: str, owner: Ref, item: Any, **_: Any) -> str:
        return f"{self._value(item, 'item')} in {self.object_code(owner)}"

    def _set_attribute(self, place: int, op: str, owner: Ref, name: str, value: Any, **_: Any) -> str:
        self.lines.append(f"{self.object_code(owner)}.{name} = {self._value(value, name)}")
        return "None"

    def _set_item(self, place: int, op: str, owner: Ref, index: Any, value: Any, **_: Any) -> str:
        self.lines.append(f"{self.object_code(owner)}[{self._value(index, 'index')}] = {self._value(value, 'value')}")
        return "None"

    def _fill(self, place: int, op: str, module: Ref, values: dict, **_: Any) -> str:
        owner = self.object_code(module)
        self.lines.append(f"set_parameters({owner}, {self.variable(values, object_name(self._label(module)) + '_values')})")
        return owner

    def _inspect(self, place: int, op: str, module: Ref, **_: Any) -> str:
        """What the test reads from a module."""
        owner = self.object_code(module)
        return {
            "parameters": f"dict(sorted({owner}.named_parameters(remove_duplicate=False)))",
            "state": f"dict(sorted({owner}.state_dict().items()))",
            "buffers": f"dict(sorted({owner}.named_buffers()))",
        }.get(op, f"{{name: (value.shape, value.dtype) for name, value in {owner}.named_parameters()}}")

    def _call(self, place: int, op: str, target: Any, args: tuple, options: dict, reply: dict, result: str) -> str:
        names = self.parameter_names(target)
        parts = [self._value(value, argument_name(names, number)) for number, value in enumerate(args)]
        parts += [f"{name}={self._value(value, name)}" for name, value in options.items()]
        return self._assign(_call_text(f"{self._callee(target)}(", parts), reply, result)

    def _gradients(self, place: int, op: str, target: Any, inputs: list, options: dict, cotangent: Any, reply: dict, result: str) -> str:
        """The call with inputs that require a gradient, and `backward`."""
        names = self.parameter_names(target)
        parts = []
        for number, value in enumerate(inputs):
            if isinstance(value, Tensor) and value.is_floating_point():
                self.leaves[place, number] = variable = self._leaf(value, argument_name(names, number))
                parts.append(variable)
            else:
                parts.append(self._value(value, argument_name(names, number)))
        parts += [f"{name}={self._value(value, name)}" for name, value in options.items()]
        owner = self._callee(target)
        self.modules[place] = module = owner.rpartition(".")[0] if isinstance(target, Ref) and self.kinds.get(target.number, ("", ""))[1] else owner
        if module in self.modules.values() and any(known != place and self.modules[known] == module for known in self.modules):
            self.lines.append(f"{module}.zero_grad()") if "." not in module else None
        output = result or self.names.new("out")
        self.lines.append(f"{output} = {_call_text(f'{owner}(', parts)}{FAILED if result else ''}")
        if "value" not in reply:  # the call or the backward pass raised an error
            first = self.names.new("first")
            self.lines.append(f"{first} = {output}[0] if isinstance({output}, tuple | list) else {output}")
            sum_of = f"({first} * {self.variable(cotangent, 'weights_of_the_sum')})" if isinstance(cotangent, Tensor) else first
            self.lines.append(f"{sum_of}.sum().backward()")
            return output
        self._backward(reply["value"], output, cotangent)
        return output

    def _backward(self, tree: Any, output: str, cotangent: Tensor | None) -> None:
        found = {key: value for key, value in tree["dict"]}
        first, code = found["output"], output
        if isinstance(first, list) or (isinstance(first, dict) and "tuple" in first):
            parts = first if isinstance(first, list) else first["tuple"]
            first, code = (parts[0] if parts else None), f"{output}[0]"
        if not (isinstance(first, dict) and "tensor" in first):
            return
        dtype, shape, _, _ = first["tensor"]
        if cotangent is None:
            numbers = torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7 + 0.3).reshape(shape)
            cotangent = numbers.to(getattr(torch, dtype)) if getattr(torch, dtype).is_floating_point else numbers
        weights = self.variable(cotangent, "weights_of_the_sum")
        backward = f"({code} * {weights}).sum().backward()"
        flows = any(part is not None for part in found["inputs"]) or any(part is not None for _, part in found["parameters"]["dict"])
        self.lines.append(backward if flows else f"if {code}.requires_grad:\n    {backward}")

    # ---- parts

    def _assign(self, call: str, reply: dict, result: str) -> str:
        made = "handle" in repr(reply.get("value"))
        if not result and not made:
            self.lines.append(call)
            return "None"
        mark = FAILED if result else ""
        label = reply["value"]["handle"][1] if made and isinstance(reply["value"], dict) and "handle" in reply["value"] else "result"
        name = result or self.names.new(object_name(label))
        self.lines.append(f"{name} = {call}{mark}")
        return name

    def _callee(self, target: Any) -> str:
        return self.object_code(target) if isinstance(target, Ref) else self._value(target, "target")

    def object_code(self, ref: Any) -> str:
        return self.code.get(ref.number, ref.label) if isinstance(ref, Ref) else self._value(ref, "value")

    def _label(self, ref: Any) -> str:
        return self.kinds.get(ref.number, (ref.label, ""))[0] if isinstance(ref, Ref) else "value"

    def parameter_names(self, target: Any) -> list[str]:
        if not isinstance(target, Ref):
            return []
        label, method = self.kinds.get(target.number, (target.label, ""))
        found = self.parameters.of(label, method)
        if not method and re.fullmatch(r"\w+", self.code.get(target.number, "")):  # an object that is called
            found = self.parameters.of(label, "forward") or self.parameters.of(label, "__call__") or found
        return found

    def _value(self, value: Any, name: str) -> str:
        """The code of an argument: short values are written in the call, others are variables."""
        if isinstance(value, Ref):
            return self.object_code(value)
        if _has_refs(value):
            return self._container(value, name)
        if isinstance(value, Tensor) or has_tensors(value):
            return self.variable(value, name)
        try:
            text = value_code(value, WRITTEN, self._apart)
        except NotCode:
            return self.variable(value, name)
        if isinstance(value, list | dict | set) and wrap_code(text) in self.known:
            return self.known[wrap_code(text)]  # the very object, which the call may change
        return text if len(text) <= INLINE else self.variable(value, name)

    def _container(self, value: Any, name: str) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._value(key, name)}: {self._value(part, str(key))}" for key, part in value.items()) + "}"
        inside = ", ".join(self._value(part, name) for part in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"

    def variable(self, value: Any, name: str) -> str:
        text = literal(value, self._apart)
        key = text or f"saved {value_key(value)}"
        if key not in self.known:
            variable = self.known[key] = self.names.new(name)
            if not text:
                self.saved[variable] = value
            self.lines.append(f"{variable} = {text}" if text else f'{variable} = saved["{variable}"]')
        return self.known[key]

    def _apart(self, value: Any) -> str | None:
        """Code that makes another object, for a number or a text that equals an earlier one and is not the same object: equal literals would be."""
        if self.objects is None or type(value) not in (int, float, str) or value != value:
            return None
        if self.objects.setdefault((type(value), value), value) is value:
            return None
        return f'"".join({value!r})' if isinstance(value, str) else f'{type(value).__name__}("{value!r}")'

    def _leaf(self, value: Tensor, name: str) -> str:
        variable, text = self.names.new(name), literal(value)
        if not text:
            self.saved[variable] = value
        code = f"{text[:-1]}, requires_grad=True)" if text else f'saved["{variable}"].requires_grad_()'
        self.lines.append(f"{variable} = {code}")
        return variable

    def literal_or_saved(self, value: Any, name: str) -> str:
        """The code of a value that no variable has."""
        if text := literal(value):
            return text
        self.saved[name] = value
        return f'saved["{name}"]'


def _has_refs(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_refs, value.values()))
    return isinstance(value, Ref) or (isinstance(value, list | tuple | set) and any(map(_has_refs, value)))


def _call_text(start: str, parts: list[str]) -> str:
    return f"{start}{', '.join(parts)})"
