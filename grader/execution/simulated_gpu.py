"""A simulated GPU: it runs the programs of a kernel one after the other, in a random order, on memory that it watches.

A kernel is a function whose first parameter is the `tl` of `grader.execution.kernel_language`. `launch` runs it. In a
test only `Programs` is in the process of the tested code: `run_programs` has the memory, and checks and counts where
this code cannot reach it.
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.counts import format_count
from grader.execution.kernel_language import Block, KernelProblem, Language, Pointer
from grader.execution.simulated_group import END, Group, Ranks
from torch import Tensor

NONE, SEVERAL = -1, -2  # instead of the number of a program
MOST_ACCESSES = 10_000  # of one program: one with more is endless


class Programs:
    """Runs the programs of a launch one after the other, each in turns that end with a read, a write, or its end.

    A process has one launch at a time: a program that is not continued ends when the next one begins."""

    _running: Ranks | None = None

    def __init__(
        self, kernel: Callable[..., Any], arguments: Sequence[Any], constants: dict[str, Any], grid: Sequence[int]
    ) -> None:
        """Among the arguments, a tensor's dtype stands for the tensor."""
        self.names = list(inspect.signature(kernel).parameters)[1:]  # without tl
        self._kernel, self._constants, self._grid = kernel, constants, grid
        self._arguments = [self._argument(number, each) for number, each in enumerate(arguments)]

    def _argument(self, number: int, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return Pointer(number, value)
        is_constant = number < len(self.names) and self.names[number].isupper()
        if is_constant or type(value) is not int:
            return value
        return Block(torch.tensor(value, dtype=torch.int32 if -(2**31) <= value < 2**31 else torch.int64))

    def begin(self, place: Sequence[int]) -> list[tuple]:
        """Begin the program at this place of the grid. Returns its calls up to the first that needs an answer."""

        def program(group: Group) -> None:
            self._kernel(Language(group._thread, place, self._grid), *self._arguments, **self._constants)

        self.stop()
        Programs._running = Ranks(program, 1)
        return Programs._running.advance(0)

    def advance(self, answer: Tensor | None = None, problem: str = "") -> list[tuple]:
        """Let it go on with the numbers that it waits for, or with a KernelProblem."""
        assert Programs._running, "`begin` comes first"
        return Programs._running.advance(0, KernelProblem(problem) if problem else answer)

    def stop(self) -> None:
        if Programs._running:
            Programs._running.stop()


@dataclass
class Access:
    """One tl.load or tl.store of a program: the numbers of a tensor that it names, without the masked ones."""

    program: tuple[int, ...]
    kind: str  # "load" or "store"
    number: int  # of the argument
    name: str  # that the kernel gives it
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

    def __init__(self, name: str, tensor: Tensor, seen: dict[tuple, dict[str, Tensor]]) -> None:
        """`seen` has the programs for each memory: two tensors may share one."""
        storage, first = tensor.untyped_storage(), tensor.storage_offset()
        size, key = storage.nbytes() // tensor.element_size(), (storage.data_ptr(), tensor.dtype)
        self.name, self.numbers = name, tensor.detach().as_strided((size - first,), (1,), first)
        seen.setdefault(key, {kind: torch.full((size,), NONE) for kind in ("load", "store")})
        self._programs = {kind: programs[first:] for kind, programs in seen[key].items()}

    def takes(self, kind: str, parts: Sequence[Any]) -> bool:
        """Are these places and a mask of one shape, and for a store numbers of this shape and the tensor's dtype?"""
        if not all(type(part) is Tensor and part.is_cpu and part.shape == parts[0].shape for part in parts):
            return False
        dtypes = {"load": [torch.int64, torch.bool], "store": [torch.int64, torch.bool, self.numbers.dtype]}
        return [part.dtype for part in parts] == dtypes.get(kind)

    def access(self, kind: str, program: int, at: Tensor, name_of: Callable[[int], str]) -> str:
        """Note that this program reads or writes these numbers; or say why it may not."""
        does = f"{name_of(program)} {'reads' if kind == 'load' else 'writes'} {self.name}"
        if len(outside := at[(at < 0) | (at >= len(self.numbers))]):
            return f"{does}[{int(outside[0])}], which has {format_count(len(self.numbers), 'number')}"
        ordered = at.sort().values
        if kind == "store" and len(twice := ordered[1:][ordered.diff() == 0]):
            return f"{does}[{int(twice[0])}] twice in one tl.store"
        for other_kind, verb in {"store": "writes", "load": "reads"}.items():
            others = self._programs[other_kind][at]
            clash = ((others != NONE) & (others != program)).nonzero().flatten()
            if len(clash) and "store" in (kind, other_kind):
                other = int(others[clash[0]])
                who = "another program" if other == SEVERAL else name_of(other)
                return f"{does}[{int(at[clash[0]])}], which {who} {verb}; programs run in no fixed order"
        mine = self._programs[kind]
        mine[at] = torch.where((mine[at] == NONE) | (mine[at] == program), program, SEVERAL)
        return ""


def _read_calls(who: str, calls: Any, memories: dict[int, Memory]) -> tuple[int, Sequence[Any]]:
    """The products of these calls, and what they end with: the kind of an access, the number of a memory, places, mask
    and numbers to store; or END. The calls come from the other side, and may be anything."""
    products = 0
    for call in calls if isinstance(calls, list) else ():
        match call:
            case ("dot", int(count), None) if count >= 0:
                products += count
            case (str(kind), (int(number), *parts), None) if number in memories and memories[number].takes(kind, parts):
                return products, (kind, number, *parts)
            case (str(kind), _, None) if kind == END:
                return products, (END,)
            case _:
                break
    raise KernelProblem(f"{who} does something else than the functions of tl")


def run_programs(programs: Any, grid: Sequence[int], arguments: Sequence[Any], seed: int = 0) -> Traffic:
    """Run the program of each place of a grid, to its end. A KernelProblem is raised where the kernel makes the call.
    `programs` may be a handle of Programs on the other side of the boundary."""
    given = programs.names
    names = [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
    names += [f"argument {n}" for n in range(len(names), len(arguments))]
    seen: dict[tuple, dict[str, Tensor]] = {}
    memories = {n: Memory(names[n], each, seen) for n, each in enumerate(arguments) if isinstance(each, Tensor)}
    places, traffic = list(itertools.product(*map(range, grid))), Traffic()

    def name_of(program: int) -> str:
        return f"program {places[program][0] if len(grid) == 1 else places[program]}"

    def run(program: int) -> None:
        calls = programs.begin((*places[program], 0, 0)[:3])
        for count in itertools.count():
            products, (kind, *access) = _read_calls(name_of(program), calls, memories)
            traffic.products += products
            if kind == END:
                return
            number, at, mask, *values = access
            memory, wanted = memories[number], at[mask]
            problem = memory.access(kind, program, wanted, name_of)
            if count == MOST_ACCESSES:
                problem = f"{name_of(program)} reads and writes more than {MOST_ACCESSES:,} times, and does not end"
            if problem:
                programs.advance(None, problem)
                raise KernelProblem(problem)  # the kernel has caught it
            size = len(wanted) * memory.numbers.element_size()
            traffic.accesses.append(Access(places[program], kind, number, memory.name, wanted, size))
            if kind == "store":
                memory.numbers[wanted] = values[0][mask]
                calls = programs.advance()
            else:
                got = torch.zeros(at.shape, dtype=memory.numbers.dtype)
                got[mask] = memory.numbers[wanted]
                calls = programs.advance(got)

    try:
        for program in random.Random(seed).sample(range(len(places)), len(places)):
            run(program)
    except KernelProblem:
        programs.stop()
        raise
    return traffic


def launch(
    kernel: Callable[..., Any], grid: Sequence[int], *arguments: Any, seed: int = 0, **constants: Any
) -> Traffic:
    """Run a kernel for each place of a grid of one to three numbers. Tensors are read and written where they are."""
    if not 1 <= len(grid) <= 3 or not all(isinstance(size, int) and size > 0 for size in grid):
        raise ValueError(f"a grid has one to three whole numbers from 1 on, and this is {grid}")
    sent = [each.dtype if isinstance(each, Tensor) else each for each in arguments]
    programs = Programs(kernel, sent, constants, (*grid, 1, 1)[:3])
    try:
        return run_programs(programs, tuple(grid), arguments, seed)
    finally:
        programs.stop()
