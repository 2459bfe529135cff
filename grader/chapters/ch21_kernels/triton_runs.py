"""Runs kernels in Triton too: the process that check_again.py starts.

`triton_text` makes a kernel's text Triton's. The kernel then runs on the small inputs of `make_launches`, and its
numbers are compared with those of the simulated GPU.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch21_kernels.check_again import RESULTS, SOURCE
from grader.execution.simulated_gpu import launch
from torch import Tensor

TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3}  # a difference, divided by 1 + |number|
TEXT = "kernels_for_triton.py"  # in the folder of a process


# ---- the text


def triton_text(source: str, names: Collection[str]) -> str:
    """The same kernels for Triton, with the functions and constants of their module that they use."""
    statements = [_converted(statement) for statement in _needed(ast.parse(source), names)]
    return "\n\n".join(["import triton\nimport triton.language as tl", *map(ast.unparse, statements)]) + "\n"


def _needed(module: ast.Module, names: Collection[str]) -> list[ast.stmt]:
    """The statements of a module that define these names, and what those use."""
    needed, found = set(names), -1
    while found < len(needed):
        found = len(needed)
        chosen = [statement for statement in module.body if needed.intersection(_defined(statement))]
        needed |= {node.id for each in chosen for node in ast.walk(each) if isinstance(node, ast.Name)}
    return chosen


def _defined(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name for alias in aliases)


def _converted(statement: ast.stmt) -> ast.stmt:
    """The tl of Triton is a module, no parameter; parameters in CAPITALS and a module's numbers are its constants."""
    match _WithoutTl().visit(statement):
        case ast.FunctionDef() as function:
            function.decorator_list = [ast.Name("triton.jit")]
            if ast.get_docstring(function) is not None:
                function.body = function.body[1:] or [ast.Pass()]
            return function
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value) if value:
            return ast.Assign([target], ast.Call(ast.Name("tl.constexpr"), [value], []), lineno=0)
        case other:
            return other


class _WithoutTl(ast.NodeTransformer):
    def visit_FunctionDef(self, function: ast.FunctionDef) -> ast.AST:
        self.generic_visit(function)
        function.returns = None
        return function

    def visit_arguments(self, arguments: ast.arguments) -> ast.AST:
        arguments.args = [each for each in arguments.args if each.arg != "tl"]
        for each in (*arguments.args, *arguments.kwonlyargs):
            each.annotation = ast.Name("tl.constexpr") if each.arg.isupper() else None
        return arguments

    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        call.args = [each for each in call.args if not (isinstance(each, ast.Name) and each.id == "tl")]
        call.keywords = [each for each in call.keywords if each.arg != "tl"]
        return call


# ---- the inputs


@dataclass(frozen=True)
class Launch:
    """What a kernel is launched with: tensors and numbers in the order of its parameters, and constants by name."""

    grid: tuple[int, ...]
    arguments: Sequence[Any]
    constants: Mapping[str, int]

    def copy_arguments(self, device: str) -> list[Any]:
        return [each.to(device, copy=True) if isinstance(each, Tensor) else each for each in self.arguments]


def make_launches(dtype: torch.dtype) -> dict[str, Launch]:
    """Inputs for each kernel of the chapter. Blocks go beyond the edges, and those of tl.dot have 16 rows and columns,
    the fewest that a GPU multiplies."""
    draw = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).to(dtype)

    def unwritten(*shape: int) -> Tensor:
        return torch.full(shape, math.nan, dtype=dtype)

    (H, T, D), (M, N, K) = (2, 37, 16), (33, 21, 50)
    long = numbers(3, 50)
    long[0, :20] = -math.inf
    targets = torch.tensor([3, -100, 20, 0])
    integers = torch.randint(-127, 128, (N, K), generator=draw, dtype=torch.int8)
    tiles, square = (3, 2), {"BM": 16, "BN": 16, "BK": 16}
    attention = [*(numbers(H, T, D) for _ in "qkv"), unwritten(H, T, D), unwritten(H, T), T, 1 / math.sqrt(D)]
    return {
        "add_kernel": Launch((4,), [numbers(100), numbers(100), unwritten(100), 100], {"BLOCK": 32}),
        "softmax_kernel": Launch((7,), [numbers(7, 32), unwritten(7, 32), 21, 32], {"BLOCK": 32}),
        "rms_norm_kernel": Launch((5,), [numbers(5, 21), numbers(21), unwritten(5, 21), 21, 1e-5], {"BLOCK": 32}),
        "long_softmax_kernel": Launch((3,), [long, unwritten(3, 50), 50], {"BLOCK": 16}),
        "matmul_kernel": Launch(tiles, [numbers(M, K), numbers(K, N), unwritten(M, N), M, N, K], square),
        "attention_kernel": Launch((3, H), attention, {"D": D, "BQ": 16, "BK": 16}),
        "cross_entropy_kernel": Launch(
            (4,), [numbers(4, 21), targets, unwritten(4), unwritten(4, 21), 21], {"BLOCK": 32}
        ),
        "int8_matmul_kernel": Launch(
            tiles, [numbers(M, K), integers, numbers(N).abs() / 100, unwritten(M, N), M, N, K], square
        ),
    }


# ---- in a process


def main(folder: Path, device: str, names: Sequence[str]) -> None:
    """Run these kernels of the folder's source, and write after each one what came out so far."""
    results: dict[str, str] = {}
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    for name in names:
        results[name] = next(_problems(folder, name, device), "")
        (folder / "next.json").write_text(json.dumps([gpu, results]), encoding="utf-8")
        (folder / "next.json").replace(folder / RESULTS)


def _problems(folder: Path, name: str, device: str) -> Iterator[str]:
    source = (folder / SOURCE).read_text(encoding="utf-8")
    (folder / TEXT).write_text(triton_text(source, [name]), encoding="utf-8")  # Triton reads a kernel's text in a file
    plain: dict[str, Any] = {}
    exec(compile(ast.Module(_needed(ast.parse(source), [name]), type_ignores=[]), SOURCE, "exec"), plain)
    parameters = list(inspect.signature(plain[name]).parameters)[1:]
    for dtype, tolerance in TOLERANCES.items():
        case = make_launches(dtype)[name]
        expected = case.copy_arguments("cpu")
        launch(plain[name], case.grid, *expected, **case.constants)
        try:
            arguments = case.copy_arguments(device)
            load_file(folder / TEXT)[name][case.grid](*arguments, **case.constants)
        except Exception as error:
            cause = error.__cause__ or error  # Triton's own exceptions say where
            yield f"raises {type(cause).__name__}: {(str(cause).strip().splitlines() or [''])[-1]}"
            return
        for parameter, there, here in zip(parameters, arguments, expected):
            if isinstance(here, Tensor):
                there = there.to("cpu")
                same = torch.isclose(there.double(), here.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
                for place in (~same).nonzero()[:1].tolist():
                    numbers = f"{there[tuple(place)]:.6g}, and {here[tuple(place)]:.6g} on the simulated GPU"
                    yield f"gives other numbers: {parameter}{place} is {numbers} ({str(dtype).removeprefix('torch.')})"


def load_file(file: Path) -> dict[str, Any]:
    """Import a file, and return what it defines."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
