"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Block: TypeAlias = Any
Pointer: TypeAlias = Any
Language: TypeAlias = Any

MINUS_INFINITY: Final[float] = float("-inf")
IGNORED: Final[int] = -100


@dataclass(frozen=True)
class Row:
    """A row of a matrix in memory, or a part of one: where it begins, and its places."""

    tl: Language
    start: Block
    places: Block
    columns: int

    @classmethod
    def of_program(cls, tl: Language, columns: int, stride: int, size: int) -> Row:
        return cls(tl, tl.program_id(axis=0) * stride, tl.arange(0, size), columns)

    @property
    def mask(self) -> Block:
        return self.places < self.columns

    def load(self, pointer: Pointer, other: float) -> Block:
        return self.tl.load(pointer + self.start + self.places, mask=self.mask, other=other).to(self.tl.float32)

    def store(self, pointer: Pointer, value: Block) -> None:
        self.tl.store(pointer + self.start + self.places, value, mask=self.mask)

    def blocks(self, size: int) -> Iterator[Row]:
        for first in range(0, self.columns, size):
            yield Row(self.tl, self.start, first + self.tl.arange(0, size), self.columns)


def add_kernel(tl: Language, x: Pointer, y: Pointer, out: Pointer, n: int, BLOCK: int) -> None:
    offsets: Block = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask: Block = offsets < n
    left: Block = tl.load(x + offsets, mask=mask, other=0.0)
    right: Block = tl.load(y + offsets, mask=mask, other=0.0)
    tl.store(out + offsets, left + right, mask=mask)


def softmax_kernel(tl: Language, x: Pointer, out: Pointer, columns: int, stride: int, BLOCK: int) -> None:
    row: Row = Row.of_program(tl, columns, stride, BLOCK)
    numbers: Block = row.load(x, MINUS_INFINITY)
    exponentials: Block = tl.exp(numbers - tl.max(numbers, axis=0))
    row.store(out, exponentials / tl.sum(exponentials, axis=0))


def rms_norm_kernel(
    tl: Language, x: Pointer, weight: Pointer, out: Pointer, columns: int, eps: float, BLOCK: int
) -> None:
    row: Row = Row.of_program(tl, columns, columns, BLOCK)
    numbers: Block = row.load(x, 0.0)
    weights: Block = tl.load(weight + row.places, mask=row.mask, other=0.0).to(tl.float32)
    mean_square: Block = tl.sum(numbers * numbers, axis=0) / columns
    row.store(out, numbers / tl.sqrt(mean_square + eps) * weights)


@dataclass(frozen=True)
class OnlineSum:
    """The maximum of the numbers so far, and the sum of exp(number - maximum)."""

    tl: Language
    maximum: Block
    total: Block

    @property
    def subtracted(self) -> Block:
        return self.tl.where(self.maximum == MINUS_INFINITY, 0.0, self.maximum)

    def with_block(self, numbers: Block) -> OnlineSum:
        maximum: Block = self.tl.maximum(self.maximum, self.tl.max(numbers, axis=0))
        later: OnlineSum = OnlineSum(self.tl, maximum, self.total)
        shrink: Block = self.tl.exp(self.maximum - later.subtracted)
        added: Block = self.tl.sum(self.tl.exp(numbers - later.subtracted), axis=0)
        return OnlineSum(self.tl, maximum, self.total * shrink + added)


def long_softmax_kernel(tl: Language, x: Pointer, out: Pointer, columns: int, BLOCK: int) -> None:
    row: Row = Row.of_program(tl, columns, columns, BLOCK)
    sums: OnlineSum = OnlineSum(tl, tl.full((1,), MINUS_INFINITY, tl.float32), tl.zeros((1,), tl.float32))
    for block in row.blocks(BLOCK):
        sums = sums.with_block(block.load(x, MINUS_INFINITY))
    for block in row.blocks(BLOCK):
        block.store(out, tl.exp(block.load(x, MINUS_INFINITY) - sums.subtracted) / sums.total)


def cross_entropy_kernel(
    tl: Language, logits: Pointer, targets: Pointer, loss: Pointer, gradient: Pointer, columns: int, BLOCK: int
) -> None:
    program: Block = tl.program_id(axis=0)
    row: Row = Row.of_program(tl, columns, columns, BLOCK)
    target: Block = tl.load(targets + program)
    is_ignored: Block = target == IGNORED
    is_target: Block = row.places == target
    numbers: Block = row.load(logits, MINUS_INFINITY)
    largest: Block = tl.max(numbers, axis=0)
    exponentials: Block = tl.exp(numbers - largest)
    total: Block = tl.sum(exponentials, axis=0)
    of_target: Block = tl.sum(tl.where(is_target, numbers, 0.0), axis=0)
    value: Block = largest + tl.log(total) - of_target
    slope: Block = exponentials / total - is_target.to(tl.float32)
    tl.store(loss + program, tl.where(is_ignored, 0.0, value))
    row.store(gradient, tl.where(is_ignored, 0.0, slope))
