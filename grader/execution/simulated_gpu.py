"""A simulated GPU: it runs the programs of a kernel one after the other, in a random order, on memory that it watches.

A kernel is a function whose first parameter is the `tl` of `grader.execution.kernel_language`. `launch` runs it. In a
test only `Programs` is in the process of the tested code: `run_programs` has the memory, and checks and counts where
this code cannot reach it.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from grader.counts import format_count
from grader.execution.kernel_language import KernelProblem, Language, Pointer
from grader.execution.simulated_group import END, Group, Ranks
from torch import Tensor

NONE, SEVERAL = -1, -2  # instead of the number of a program


class Programs:
    """Runs the programs of a launch one after the other, each in turns that end with a read, a write, or its end."""

    def __init__(
        self, kernel: Callable[..., Any], arguments: Sequence[Any], constants: dict[str, Any], grid: Sequence[int]
    ) -> None:
        """Among the arguments, a tensor's dtype stands for the tensor."""
        self.names = list(inspect.signature(kernel).parameters)[1:]  # without tl
        self._kernel, self._constants, self._grid = kernel, constants, grid
        self._arguments = [
            Pointer(number, each, torch.tensor(0)) if isinstance(each, torch.dtype) else each
            for number, each in enumerate(arguments)
        ]
        self._running: Ranks | None = None

    def begin(self, place: Sequence[int]) -> list[tuple]:
        """Begin the program at this place of the grid. Returns its calls up to the first that needs an answer."""

        def program(group: Group) -> None:
            self._kernel(Language(group._thread, place, self._grid), *self._arguments, **self._constants)

        self.stop()
        self._running = Ranks(program, 1)
        return self._running.advance(0)

    def advance(self, answer: Tensor | None = None, problem: str = "") -> list[tuple]:
        """Let it go on with the numbers that it waits for, or with a KernelProblem."""
        assert self._running, "`begin` comes first"
        return self._running.advance(0, KernelProblem(problem) if problem else answer)

    def stop(self) -> None:
        if self._running:
            self._running.stop()


@dataclass
class Access:
    """One tl.load or tl.store of a program: the numbers of a tensor that it names, without the masked ones."""

    program: tuple[int, ...]
    kind: str  # "load" or "store"
    name: str  # of the tensor
    at: Tensor
    bytes: int


@dataclass
class Traffic:
    """What the programs of a launch did, in the order in which they ran."""

    accesses: list[Access] = field(default_factory=list)
    products: int = 0  # of tl.dot: two for each pair of numbers, since a product is also added

    def count_bytes(self, kind: str, name: str | None = None) -> int:
        return sum(each.bytes for each in self.accesses if each.kind == kind and name in (None, each.name))

    @property
    def bytes_read(self) -> int:
        return self.count_bytes("load")

    @property
    def bytes_written(self) -> int:
        return self.count_bytes("store")


class Memory:
    """The numbers from a tensor's first one to the end of its memory, and which program has read or written each."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        first = tensor.storage_offset()
        size = tensor.untyped_storage().nbytes() // tensor.element_size() - first
        self.name, self.numbers = name, tensor.detach().as_strided((size,), (1,), first)
        self._programs = {kind: torch.full((size,), NONE) for kind in ("load", "store")}

    def access(self, kind: str, program: int, at: Tensor, name_of: Callable[[int], str]) -> str:
        """Note that this program reads or writes these numbers; or say why it may not."""
        does = f"{name_of(program)} {'reads' if kind == 'load' else 'writes'} {self.name}"
        if len(outside := at[(at < 0) | (at >= len(self.numbers))]):
            return f"{does}[{int(outside[0])}], which has {format_count(len(self.numbers), 'number')}"
        if kind == "store" and len(at.unique()) < len(at):
            twice = at.sort().values
            return f"{does}[{int(twice[1:][twice.diff() == 0][0])}] twice in one tl.store"
        for other_kind in ("store", "load") if kind == "store" else ("store",):
            others = self._programs[other_kind][at]
            for place, other in zip(at.tolist(), others.tolist()):
                if other not in (NONE, program):
                    who = "another program" if other == SEVERAL else name_of(other)
                    verb = "reads" if other_kind == "load" else "writes"
                    return f"{does}[{place}], which {who} {verb}; programs run in no fixed order"
        mine = self._programs[kind]
        mine[at] = torch.where((mine[at] == NONE) | (mine[at] == program), program, SEVERAL)
        return ""


def run_programs(programs: Any, grid: Sequence[int], arguments: Sequence[Any], seed: int = 0) -> Traffic:
    """Run the program of each place of a grid, to its end. A KernelProblem is raised where the kernel makes the call.
    `programs` may be a handle of Programs on the other side of the boundary."""
    names = [*programs.names, *(f"argument {n}" for n in range(len(arguments)))]
    memories = {n: Memory(names[n], each) for n, each in enumerate(arguments) if isinstance(each, Tensor)}
    places, traffic = list(product(*map(range, grid))), Traffic()

    def name_of(program: int) -> str:
        return f"program {places[program][0] if len(grid) == 1 else places[program]}"

    for program in random.Random(seed).sample(range(len(places)), len(places)):
        calls = programs.begin((*places[program], 0, 0)[:3])
        while True:
            traffic.products += sum(given for kind, given, _ in calls if kind == "dot")
            kind, given, _ = calls[-1]
            if kind == END:
                break
            number, at, mask, *values = given
            memory, wanted = memories[number], at[mask]
            if problem := memory.access(kind, program, wanted, name_of):
                programs.advance(None, problem)
                raise KernelProblem(problem)  # the kernel has caught it
            size = len(wanted) * memory.numbers.element_size()
            traffic.accesses.append(Access(places[program], kind, memory.name, wanted, size))
            if kind == "load":
                calls = programs.advance(memory.numbers[torch.where(mask, at, 0)])
            else:
                memory.numbers[wanted] = values[0][mask]
                calls = programs.advance()
    return traffic


def launch(
    kernel: Callable[..., Any], grid: Sequence[int], *arguments: Any, seed: int = 0, **constants: Any
) -> Traffic:
    """Run a kernel for each place of a grid of one to three numbers. Tensors are read and written where they are."""
    sent = [each.dtype if isinstance(each, Tensor) else each for each in arguments]
    programs = Programs(kernel, sent, constants, (*grid, 1, 1)[:3])
    try:
        return run_programs(programs, tuple(grid), arguments, seed)
    finally:
        programs.stop()
