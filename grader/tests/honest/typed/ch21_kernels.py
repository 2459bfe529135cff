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


@dataclass(frozen=True)
class Span:
    """Places along one axis of a matrix, of which those below `end` exist."""

    places: Block
    end: int

    @classmethod
    def of_program(cls, tl: Language, axis: int, size: int, end: int) -> Span:
        return cls(tl.program_id(axis=axis) * size + tl.arange(0, size), end)

    @property
    def inside(self) -> Block:
        return self.places < self.end


@dataclass(frozen=True)
class Tile:
    """A part of a matrix in memory, whose rows begin `stride` numbers apart, the first one at `start`."""

    tl: Language
    rows: Span
    columns: Span
    stride: int
    start: Block | int = 0

    @property
    def offsets(self) -> Block:
        return self.start + self.rows.places[:, None] * self.stride + self.columns.places[None, :]

    @property
    def mask(self) -> Block:
        return self.rows.inside[:, None] & self.columns.inside[None, :]

    def load(self, pointer: Pointer) -> Block:
        return self.tl.load(pointer + self.offsets, mask=self.mask, other=0).to(self.tl.float32)

    def store(self, pointer: Pointer, value: Block) -> None:
        self.tl.store(pointer + self.offsets, value, mask=self.mask)


def steps_along(tl: Language, end: Block | int, size: int, limit: int) -> Iterator[Span]:
    """Blocks of `size` places that begin before `end`, of which those below `limit` exist."""
    for first in range(0, end, size):
        yield Span(first + tl.arange(0, size), limit)


def matmul_kernel(
    tl: Language, a: Pointer, b: Pointer, c: Pointer, M: int, N: int, K: int, BM: int, BN: int, BK: int
) -> None:
    rows: Span = Span.of_program(tl, 0, BM, M)
    columns: Span = Span.of_program(tl, 1, BN, N)
    total: Block = tl.zeros((BM, BN), tl.float32)
    for inner in steps_along(tl, K, BK, K):
        left: Block = Tile(tl, rows, inner, K).load(a)
        right: Block = Tile(tl, inner, columns, N).load(b)
        total += tl.dot(left, right)
    Tile(tl, rows, columns, N).store(c, total)


def grouped_place(program: int, n_rows: int, n_columns: int, group: int) -> tuple[int, int]:
    programs_of_a_band: int = group * n_columns
    first_row: int = program // programs_of_a_band * group
    rows_of_the_band: int = min(group, n_rows - first_row)
    place: int = program % programs_of_a_band
    row: int = first_row + place % rows_of_the_band
    column: int = place // rows_of_the_band
    return row, column


@dataclass(frozen=True)
class Attending:
    """What a block of queries knows of the keys so far: maximum, sum of exp, and the output that is not yet divided."""

    tl: Language
    maximum: Block
    total: Block
    output: Block

    @classmethod
    def of_nothing(cls, tl: Language, queries: int, width: int) -> Attending:
        maximum: Block = tl.full((queries,), MINUS_INFINITY, tl.float32)
        return cls(tl, maximum, tl.zeros((queries,), tl.float32), tl.zeros((queries, width), tl.float32))

    def with_block(self, scores: Block, values: Block) -> Attending:
        maximum: Block = self.tl.maximum(self.maximum, self.tl.max(scores, axis=1))
        shrink: Block = self.tl.exp(self.maximum - maximum)
        weights: Block = self.tl.exp(scores - maximum[:, None])
        total: Block = self.total * shrink + self.tl.sum(weights, axis=1)
        output: Block = self.output * shrink[:, None] + self.tl.dot(weights, values)
        return Attending(self.tl, maximum, total, output)


def attention_kernel(
    tl: Language, q: Pointer, k: Pointer, v: Pointer, out: Pointer, lse: Pointer, T: int, scale: float, D: int,
    BQ: int, BK: int,
) -> None:  # fmt: skip
    first_of_head: Block = tl.program_id(axis=1) * T
    rows: Span = Span.of_program(tl, 0, BQ, T)
    features: Span = Span(tl.arange(0, D), D)
    own: Tile = Tile(tl, rows, features, D, first_of_head * D)
    queries: Block = own.load(q)
    end: Block = tl.minimum((tl.program_id(axis=0) + 1) * BQ, T)
    state: Attending = Attending.of_nothing(tl, BQ, D)
    for keys in steps_along(tl, end, BK, T):
        block: Tile = Tile(tl, keys, features, D, first_of_head * D)
        scores: Block = tl.dot(queries, tl.trans(block.load(k))) * scale
        is_earlier: Block = keys.places[None, :] <= rows.places[:, None]
        state = state.with_block(tl.where(is_earlier, scores, MINUS_INFINITY), block.load(v))
    own.store(out, state.output / state.total[:, None])
    log_sum_exp: Block = state.maximum + tl.log(state.total)
    tl.store(lse + first_of_head + rows.places, log_sum_exp, mask=rows.inside)


def int8_matmul_kernel(
    tl: Language, x: Pointer, w: Pointer, scale: Pointer, out: Pointer, M: int, N: int, K: int, BM: int, BN: int,
    BK: int,
) -> None:  # fmt: skip
    rows: Span = Span.of_program(tl, 0, BM, M)
    columns: Span = Span.of_program(tl, 1, BN, N)
    factors: Block = tl.load(scale + columns.places, mask=columns.inside, other=0.0).to(tl.float32)
    total: Block = tl.zeros((BM, BN), tl.float32)
    for inner in steps_along(tl, K, BK, K):
        numbers: Block = Tile(tl, rows, inner, K).load(x)
        integers: Block = Tile(tl, columns, inner, K).load(w)
        total += tl.dot(numbers, tl.trans(integers))
    Tile(tl, rows, columns, N).store(out, total * factors[None, :])


def roofline(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> tuple[float, str]:
    seconds_of_computing: float = flops / peak_flops
    seconds_of_moving: float = bytes_moved / bandwidth
    if seconds_of_computing >= seconds_of_moving:
        return seconds_of_computing, "compute"
    return seconds_of_moving, "memory"
