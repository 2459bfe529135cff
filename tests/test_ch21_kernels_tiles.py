"""Chapter 21, third part: matrix products tile by tile, and the order of the tiles."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_gpus import run, unwritten, watch
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
few_watched = settings(max_examples=1)
matrices = distinct("M", "N", "K", M=(3, 9), N=(3, 9), K=(3, 9))
blocks = st.sampled_from([(2, 4, 8), (8, 2, 4), (4, 8, 2), (4, 2, 8)])  # BM, BN, BK


def grid_of(M, N, BM, BN):
    return -(-M // BM), -(-N // BN)


# ---- matmul_kernel


def multiply(with_memory, side, a, b, c, seed, BM, BN, BK):
    """What `run` or `watch` gives for matmul_kernel."""
    (M, K), N = a.shape, b.size(1)
    return with_memory(side, "matmul_kernel", grid_of(M, N, BM, BN), a, b, c, M, N, K, seed=seed, BM=BM, BN=BN, BK=BK)


@exercise("matmul_kernel", weight=3)
@few
@given(n=matrices, sizes=blocks, seed=seeds)
@example(n=at(M=5, N=9, K=7), sizes=(4, 2, 8), seed=0)
@example(n=at(M=9, N=3, K=5), sizes=(2, 4, 8), seed=1)
def test_the_tiles_make_up_the_matrix_product(learner, n, sizes, seed):
    """c is the matrix product of a and b, whether or not the blocks divide M, N and K; a and b stay as they are."""
    a, b = tensor(seed, n.M, n.K), tensor(seed + 1, n.K, n.N)
    *inputs, c = multiply(run, learner, a, b, unwritten(n.M, n.N), seed, *sizes)
    close(c, a @ b, "the result in c")
    close(inputs, [a, b], "a and b after the launch")


@exercise("matmul_kernel", weight=3)
@few_watched
@given(sizes=blocks, seed=seeds)
@example(sizes=(4, 8, 2), seed=0)
def test_each_program_reads_its_rows_and_columns_once(learner, sizes, seed):
    """All programs together read M * K * ⌈N / BN⌉ + K * N * ⌈M / BM⌉ numbers, and write M * N."""
    M, N, K = 5, 9, 7
    a, b, (down, across) = tensor(seed, M, K), tensor(seed + 1, K, N), grid_of(M, N, *sizes[:2])
    (*_, c), traffic = multiply(watch, learner, a, b, unwritten(M, N), seed, *sizes)
    close(c, a @ b, "the result in c")
    same(traffic.bytes_read, (M * K * across + K * N * down) * 4, "the number of bytes that all programs read")
    same(traffic.bytes_written, M * N * 4, "the number of bytes that all programs write")


@exercise("matmul_kernel")
@few
@given(seed=seeds)
def test_one_tile_may_be_larger_than_the_matrices(learner, seed):
    """Matrices that are smaller than their blocks are one tile of one program, and blocks may also fit exactly."""
    a, b = tensor(seed, 3, 2), tensor(seed + 1, 2, 5)
    *_, c = multiply(run, learner, a, b, unwritten(3, 5), seed, 16, 8, 4)
    a2, b2 = tensor(seed + 2, 4, 8), tensor(seed + 3, 8, 2)
    *_, c2 = multiply(run, learner, a2, b2, unwritten(4, 2), seed, 4, 2, 8)
    close(c, a @ b, "the result in c")
    close(c2, a2 @ b2, "the result in c")


@exercise("matmul_kernel")
@few
@given(sizes=blocks, seed=seeds)
def test_nothing_behind_the_matrices_is_used(learner, sizes, seed):
    """What lies in memory behind a and b does not change c, and what lies behind c is not written."""
    a, b = tensor(seed, 5, 7), tensor(seed + 1, 7, 9)
    longer = [torch.cat([a, unwritten(4, 7)]), torch.cat([b, unwritten(8, 9)]), unwritten(9, 9)]
    *_, c = run(learner, "matmul_kernel", grid_of(5, 9, *sizes[:2]), *longer, 5, 9, 7, seed=seed, **dict(zip(("BM", "BN", "BK"), sizes)))
    close(c, torch.cat([a @ b, unwritten(4, 9)]), "the memory from c on")


def with_large_products(seed, M, N, K):
    """Float16 matrices: the first and the last product of each sum are 65,536 and -65,536, the others are small multiples of an eighth."""
    a, b = (tensor(seed, M, K) * 8).round() / 8, (tensor(seed + 1, K, N) * 2).round()
    a[:, 0], a[:, -1], b[0], b[-1] = 256, -256, 256, 256
    return a.half(), b.half()


@exercise("matmul_kernel", weight=2)
@few
@given(seed=seeds)
def test_float16_matrices_are_summed_in_float32(learner, seed):
    """Where a, b and c are float16, the sum is float32 until it is written: it may be larger than float16 can hold on the way, and keeps small parts."""
    a, b = with_large_products(seed, 3, 5, 11)
    *_, c = multiply(run, learner, a, b, unwritten(3, 5, dtype=torch.float16), seed, 2, 4, 2)
    long, ones = torch.cat([torch.full((2, 1), 2048.0), torch.ones(2, 40)], 1).half(), torch.ones(41, 1).half()
    *_, counts = multiply(run, learner, long, ones, unwritten(2, 1, dtype=torch.float16), seed, 2, 1, 1)
    close(c, (a.double() @ b.double()).half(), "the result in c")
    close(counts, torch.full((2, 1), 2088.0).half(), "2,048 and 40 ones", tol=1e-3)


# ---- grouped_place


def bands(n_rows, n_columns, group):
    """The tiles in their order: bands of rows, in a band column by column, in a column from the top down."""
    return [
        (row, column)
        for first in range(0, n_rows, group)
        for column in range(n_columns)
        for row in range(first, min(first + group, n_rows))
    ]  # fmt: skip


def places(learner, n_rows, n_columns, group):
    return [learner.grouped_place(program, n_rows, n_columns, group) for program in range(n_rows * n_columns)]


@exercise("grouped_place", weight=3)
@few
@given(n=distinct("bands", "columns", "group", bands=(2, 3), columns=(3, 6), group=(2, 4)), seed=seeds)
def test_bands_are_taken_column_by_column(learner, n, seed):
    """The tiles are taken in bands of `group` rows, in a band column by column, and in a column from the top down."""
    n_rows = n.bands * n.group
    program = seed % (n_rows * n.columns)
    one = learner.grouped_place(program, n_rows, n.columns, n.group)
    found = places(learner, n_rows, n.columns, n.group)
    same(one, bands(n_rows, n.columns, n.group)[program], f"the tile of program {program}")
    same(found, bands(n_rows, n.columns, n.group), "the tiles of all programs, in their order")


@exercise("grouped_place", weight=3)
@few
@given(n=distinct("rows", "columns", "group", rows=(5, 8), columns=(2, 4), group=(3, 5)).filter(lambda n: n.rows % n.group))
@example(n=at(rows=7, columns=2, group=4))
@example(n=at(rows=5, columns=2, group=3))
def test_the_last_band_has_the_rows_that_are_left(learner, n):
    """If `group` does not divide n_rows, the last band has the rows that are left. Each tile is computed by one program."""
    found = places(learner, n.rows, n.columns, n.group)
    same(found, bands(n.rows, n.columns, n.group), "the tiles of all programs, in their order")


@exercise("grouped_place", weight=2)
def test_one_row_a_band_and_one_band_for_all(learner):
    """With group 1 the order is row by row. A group of all rows, or of more than there are, is one band: column by column."""
    by_row, exactly, larger, line = places(learner, 3, 4, 1), places(learner, 3, 4, 3), places(learner, 3, 4, 8), places(learner, 1, 5, 2)
    same(by_row, [(row, column) for row in range(3) for column in range(4)], "the tiles with group 1")
    same(exactly, [(row, column) for column in range(4) for row in range(3)], "the tiles with a group of all 3 rows")
    same(larger, [(row, column) for column in range(4) for row in range(3)], "the tiles with group 8 and 3 rows")
    same(line, [(0, column) for column in range(5)], "the tiles with group 2 and a single row")


def count_misses(tiles, size):
    """How often the rows of a or the columns of b for a tile are not among the last `size` that were used."""
    kept, misses = [], 0
    for row, column in tiles:
        for strip in (("row", row), ("column", column)):
            misses += strip not in kept
            kept = [*(each for each in kept if each != strip), strip][-size:]
    return misses


@exercise("grouped_place", weight=2)
def test_a_small_cache_misses_less_often_than_row_by_row(learner):
    """A cache for 6 rows of a or columns of b, which forgets what was not used for longest, misses less often than row by row: 8 x 8 tiles in bands of 4 read 24 from memory, and not 72."""
    by_row = places(learner, 8, 8, 1)
    grouped = places(learner, 8, 8, 4)
    for tiles in (by_row, grouped):
        holds(all(isinstance(tile, tuple) and len(tile) == 2 for tile in tiles), "grouped_place should return a tuple of two numbers")
        holds(set(tiles) == set(bands(8, 8, 1)), "the 64 programs should compute the 64 tiles of 8 rows and 8 columns, each of them once")
    same(count_misses(by_row, 6), 72, "how often the cache misses row by row")
    same(count_misses(grouped, 6), 24, "how often the cache misses in bands of 4 rows")


# ---- int8_matmul_kernel


def quantized(seed, N, K, dtype=torch.float32):
    """A matrix of integers from -128 to 127, and a factor for each row, none like another."""
    w = (tensor(seed, N, K, scale=60.0)).round().clamp(-128, 127).to(torch.int8)
    return w, (0.01 * (1 + tensor(seed + 1, N).abs())).to(dtype)


def right_product(x, w, scale):
    return (x.double() @ (w.double() * scale.double()[:, None]).T).to(x.dtype)


def multiply_integers(with_memory, side, x, w, scale, seed, BM, BN, BK):
    """What `run` or `watch` gives for int8_matmul_kernel."""
    (M, K), N = x.shape, w.size(0)
    grid, out = grid_of(M, N, BM, BN), unwritten(M, N, dtype=x.dtype)
    return with_memory(side, "int8_matmul_kernel", grid, x, w, scale, out, M, N, K, seed=seed, BM=BM, BN=BN, BK=BK)


@exercise("int8_matmul_kernel", weight=3)
@few
@given(n=matrices, sizes=blocks, seed=seeds)
@example(n=at(M=5, N=9, K=7), sizes=(4, 2, 8), seed=0)
@example(n=at(M=9, N=3, K=5), sizes=(2, 4, 8), seed=1)
def test_integers_times_their_scales_are_the_matrix(learner, n, sizes, seed):
    """out is x times the transpose of w * scale[:, None], whether or not the blocks divide M, N and K; x, w and scale stay as they are."""
    x, (w, scale) = tensor(seed, n.M, n.K), quantized(seed + 1, n.N, n.K)
    *inputs, out = multiply_integers(run, learner, x, w, scale, seed, *sizes)
    close(out, right_product(x, w, scale), "the result in out")
    close(inputs, [x, w, scale], "x, w and scale after the launch")


@exercise("int8_matmul_kernel", weight=3)
@few_watched
@given(sizes=blocks, seed=seeds)
@example(sizes=(4, 8, 2), seed=0)
def test_a_weight_is_one_byte_and_a_scale_is_read_once(learner, sizes, seed):
    """All programs together read M * K * ⌈N / BN⌉ numbers of x, N * K * ⌈M / BM⌉ of w, each of one byte, and each program the scales of its columns once."""
    M, N, K = 5, 9, 7
    x, (w, scale), (down, across) = tensor(seed, M, K), quantized(seed + 1, N, K), grid_of(M, N, *sizes[:2])
    (*_, out), traffic = multiply_integers(watch, learner, x, w, scale, seed, *sizes)
    with check:
        close(out, right_product(x, w, scale), "the result in out")
    with check:
        same(traffic.bytes_read, M * K * across * 4 + N * K * down + N * down * 4, "the number of bytes that all programs read")
    with check:
        same(traffic.bytes_written, M * N * 4, "the number of bytes that all programs write")


@exercise("int8_matmul_kernel")
@few
@given(sizes=blocks, seed=seeds)
def test_nothing_behind_the_integers_is_used(learner, sizes, seed):
    """What lies in memory behind x, w and scale does not change out, and what lies behind out is not written. One tile may be larger than the matrices."""
    x, (w, scale) = tensor(seed, 5, 7), quantized(seed + 1, 9, 7)
    behind = torch.full((8, 7), 99, dtype=torch.int8)
    longer = torch.cat([x, unwritten(4, 7)]), torch.cat([w, behind]), torch.cat([scale, unwritten(8)]), unwritten(9, 9)
    *_, out = run(learner, "int8_matmul_kernel", grid_of(5, 9, *sizes[:2]), *longer, 5, 9, 7, seed=seed, **dict(zip(("BM", "BN", "BK"), sizes)))
    *_, small = multiply_integers(run, learner, x[:3, :2].clone(), w[:5, :2].clone(), scale[:5].clone(), seed, 16, 8, 4)
    close(out, torch.cat([right_product(x, w, scale), unwritten(4, 9)]), "the memory from out on")
    close(small, right_product(x[:3, :2], w[:5, :2], scale[:5]), "the result in out of a single tile")


@exercise("int8_matmul_kernel", weight=2)
@few
@given(seed=seeds)
def test_float16_inputs_and_integers_are_multiplied_in_float32(learner, seed):
    """Where x, scale and out are float16, the sum is float32 and no scaled weight is rounded: differences of large numbers are right, and the sum may be larger than float16 can hold."""
    K, (_, scale) = 12, quantized(seed, 5, 1, torch.float16)
    x, w = 100.0 * (-1) ** torch.arange(K).repeat(3, 1), 127 - torch.arange(K) - torch.arange(5)[:, None]
    x[:, 0], x[:, -1], w[:, 0], w[:, -1] = 600, -600, 127, 127
    x, w = x.half(), w.to(torch.int8)
    *_, out = multiply_integers(run, learner, x, w, scale, seed, 2, 4, 2)
    close(out, right_product(x, w, scale), "the result in out")
