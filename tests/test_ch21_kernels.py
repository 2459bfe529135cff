"""Chapter 21, first part: kernels that read a block or a row once."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated_gpus import run, unwritten, watch
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=5)
blocks = st.sampled_from((2, 4, 8))


def grid_of(n, BLOCK):
    return (-(-n // BLOCK),)


@exercise("add_kernel", weight=3)
@few
@given(n=st.integers(3, 30), BLOCK=blocks, seed=seeds)
@example(n=10, BLOCK=4, seed=0)
def test_every_number_of_out_is_a_sum(learner, n, BLOCK, seed):
    """Each number of out is the sum of the numbers of x and y at the same place. x and y do not change."""
    x, y = tensor(seed, n), tensor(seed + 1, n)
    x_after, y_after, out = run(learner, "add_kernel", grid_of(n, BLOCK), x, y, unwritten(n), n, seed=seed, BLOCK=BLOCK)
    close(out, x + y, "the result in out")
    same(x_after, x, "x after the launch")
    same(y_after, y, "y after the launch")


@exercise("add_kernel", weight=2)
@few
@given(n=st.integers(3, 30), BLOCK=blocks, behind=st.integers(1, 9), seed=seeds)
@example(n=10, BLOCK=4, behind=2, seed=0)
@example(n=3, BLOCK=8, behind=6, seed=0)
def test_what_lies_behind_the_vectors_is_left_alone(learner, n, BLOCK, behind, seed):
    """Each of the n numbers of x and y is read once, and each number of out is written once. What lies behind them in memory is neither read nor written."""
    x, y = tensor(seed, n + behind), tensor(seed + 1, n + behind)
    (_, _, out), traffic = watch(learner, "add_kernel", grid_of(n, BLOCK), x, y, unwritten(n + behind), n, seed=seed, BLOCK=BLOCK)
    close(out, torch.cat([(x + y)[:n], unwritten(behind)]), f"the result in out, with {behind} more numbers behind it,")
    same(traffic.bytes_read, 2 * n * 4, "the bytes that all programs read")
    same(traffic.bytes_written, n * 4, "the bytes that all programs write")


@exercise("add_kernel")
def test_the_last_block_may_be_full_or_the_only_one(learner):
    """The last block may be full, there may be one block only, and a block may have one number."""
    cases = [(8, 4), (4, 4), (3, 8), (1, 2), (5, 1)]
    got = [
        run(learner, "add_kernel", grid_of(n, BLOCK), tensor(1, n), tensor(2, n), unwritten(n), n, seed=n, BLOCK=BLOCK)[2]
        for n, BLOCK in cases
    ]
    for (n, BLOCK), out in zip(cases, got):
        close(out, tensor(1, n) + tensor(2, n), f"the result in out for n = {n} and BLOCK = {BLOCK}")


@exercise("add_kernel")
@few
@given(n=st.integers(9, 30), seed=seeds)
@example(n=10, seed=0)
def test_each_program_adds_a_block(learner, n, seed):
    """Each program adds BLOCK numbers, and the last one those that are left."""
    x, y, BLOCK = tensor(seed, n), tensor(seed + 1, n), 4
    (_, _, out), traffic = watch(learner, "add_kernel", grid_of(n, BLOCK), x, y, unwritten(n), n, seed=seed, BLOCK=BLOCK)
    close(out, x + y, "the result in out")
    written = [0] * grid_of(n, BLOCK)[0]
    for access in traffic.accesses:
        written[access.program[0]] += len(access.at) if access.kind == "store" else 0
    same(written, [min(BLOCK, n - first) for first in range(0, n, BLOCK)], "the numbers that each program writes")


# ---- rows


def spread(rows, stride, between):
    """The memory of rows that begin `stride` numbers apart, with `between` in the places between them; nothing lies behind the last row."""
    memory = torch.full((len(rows), stride), between, dtype=rows.dtype)
    memory[:, : rows.size(1)] = rows
    return memory.flatten()[: (len(rows) - 1) * stride + rows.size(1)]


def softmax_of(learner, x, BLOCK, seed=0):
    """out of softmax_kernel for rows that lie one after the other."""
    rows, columns = x.shape
    return run(learner, "softmax_kernel", (rows,), x, unwritten(rows, columns, dtype=x.dtype), columns, columns, seed=seed, BLOCK=BLOCK)[1]


@exercise("softmax_kernel", weight=3)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_each_row_gets_its_softmax(learner, n, seed):
    """Each row of out is the softmax of the same row of x. x does not change."""
    x = tensor(seed, n.rows, n.columns)
    x_after, out = run(learner, "softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, n.columns, seed=seed, BLOCK=32)
    close(out, torch.softmax(x, 1), "the result in out")
    same(x_after, x, "x after the launch")


@exercise("softmax_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_each_number_is_read_once(learner, n, seed):
    """Each number of x is read once, and each number of out is written once."""
    x = tensor(seed, n.rows, n.columns)
    (_, out), traffic = watch(learner, "softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, n.columns, seed=seed, BLOCK=32)
    same(traffic.bytes_read, x.numel() * 4, "the bytes that all programs read")
    same(traffic.bytes_written, x.numel() * 4, "the bytes that all programs write")
    close(out, torch.softmax(x, 1), "the result in out")


@exercise("softmax_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", "between", columns=(3, 12)), seed=seeds)
@example(n=at(rows=2, columns=3, between=1), seed=0)
def test_what_lies_between_two_rows_is_left_alone(learner, n, seed):
    """Rows may begin more than `columns` numbers apart. What lies between two rows is neither read nor written."""
    rows, stride = tensor(seed, n.rows, n.columns), n.columns + n.between
    memory, out = spread(rows, stride, 9.0), spread(torch.full_like(rows, float("nan")), stride, -1.0)
    (_, out), traffic = watch(learner, "softmax_kernel", (n.rows,), memory, out, n.columns, stride, seed=seed, BLOCK=16)
    close(out, spread(torch.softmax(rows, 1), stride, -1.0), "the memory of out, with -1 between its rows,")
    same(traffic.bytes_read, rows.numel() * 4, "the bytes that all programs read")


@exercise("softmax_kernel")
def test_a_row_may_fill_its_block_or_have_one_number(learner):
    """A row may have as many numbers as a block, or a single one."""
    cases = [(4, 4), (1, 8), (1, 1), (5, 8)]
    got = [softmax_of(learner, tensor(columns, 3, columns), BLOCK) for columns, BLOCK in cases]
    for (columns, BLOCK), out in zip(cases, got):
        close(out, torch.softmax(tensor(columns, 3, columns), 1), f"the result in out for columns = {columns} and BLOCK = {BLOCK}")


@exercise("softmax_kernel", weight=2)
@few
@given(columns=st.integers(3, 14), seed=seeds)
@example(columns=3, seed=0)
def test_rows_of_large_numbers_and_of_minus_infinity(learner, columns, seed):
    """Numbers may be large, positive or negative, and some of a row may be -inf."""
    x = tensor(seed, 4, columns, scale=3) + torch.tensor([0.0, 300.0, -1200.0, 0.0])[:, None]
    x[3, 1:] = -float("inf")
    x[1, seed % columns] = -float("inf")
    close(softmax_of(learner, x, 16, seed), torch.softmax(x, 1), "the result in out for rows of large numbers and of -inf", tol=1e-4)


@exercise("softmax_kernel", weight=2)
@few
@given(columns=st.integers(3, 14), seed=seeds)
@example(columns=7, seed=1)
def test_float16_rows_are_computed_in_float32(learner, columns, seed):
    """For x and out in float16, the softmax is computed in float32 and rounded at the end: small probabilities are as accurate as large ones."""
    x = (tensor(seed, 3, columns, scale=0.5) + torch.linspace(-9, 0, columns)).half()
    x[2] = torch.linspace(60000, -60000, columns)
    out, right = softmax_of(learner, x, 16, seed), torch.softmax(x.float(), 1)
    close(out, right.half(), "the result in out")
    close(out[:2].float() / right[:2], torch.ones(2, columns), "the result in out divided by the softmax in float32", tol=1e-3)


def norm_of(x, weight, eps):
    """RMSNorm in float64, rounded to the dtype of x."""
    wide = x.double()
    return (wide / (wide.square().mean(1, keepdim=True) + eps).sqrt() * weight.double()).to(x.dtype)


def rms_norm_of(learner, x, weight, eps, BLOCK, seed=0):
    return run(learner, "rms_norm_kernel", (len(x),), x, weight, unwritten(*x.shape, dtype=x.dtype), x.size(1), eps, seed=seed, BLOCK=BLOCK)[2]


@exercise("rms_norm_kernel", weight=3)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_each_row_is_divided_by_its_root_mean_square(learner, n, seed):
    """Each row is divided by the root of the mean of its squares, and multiplied by weight. x and weight do not change."""
    x, weight = tensor(seed, n.rows, n.columns), tensor(seed + 1, n.columns)
    x_after, weight_after, out = run(
        learner, "rms_norm_kernel", (n.rows,), x, weight, unwritten(n.rows, n.columns), n.columns, 1e-6, seed=seed, BLOCK=32
    )
    close(out, norm_of(x, weight, 1e-6), "the result in out")
    same(x_after, x, "x after the launch")
    same(weight_after, weight, "weight after the launch")


@exercise("rms_norm_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_a_norm_reads_each_number_once(learner, n, seed):
    """Each number of x is read once, and each number of out is written once."""
    x, weight = tensor(seed, n.rows, n.columns), tensor(seed + 1, n.columns)
    (_, _, out), traffic = watch(
        learner, "rms_norm_kernel", (n.rows,), x, weight, unwritten(n.rows, n.columns), n.columns, 1e-6, seed=seed, BLOCK=32
    )
    same(traffic.count_bytes("load", "x"), x.numel() * 4, "the bytes of x that all programs read")
    same(traffic.bytes_written, x.numel() * 4, "the bytes that all programs write")
    close(out, norm_of(x, weight, 1e-6), "the result in out")


@exercise("rms_norm_kernel", weight=2)
@few
@given(columns=st.integers(3, 14), seed=seeds)
@example(columns=3, seed=0)
def test_eps_is_added_under_the_root(learner, columns, seed):
    """eps is added to the mean of squares, under the root, so a row of zeros stays zeros."""
    x, weight = tensor(seed, 3, columns), tensor(seed + 1, columns)
    x[1] = 0
    for eps in (0.3, 4.0):
        out = rms_norm_of(learner, x, weight, eps, 16, seed)
        close(out, norm_of(x, weight, eps), f"the result in out with eps = {eps}")


@exercise("rms_norm_kernel")
def test_a_norm_of_rows_that_fill_the_block_or_have_one_number(learner):
    """A row may have as many numbers as a block, or a single one."""
    cases = [(4, 4), (1, 8), (1, 1), (5, 8)]
    inputs = [(tensor(columns, 3, columns), tensor(columns + 1, columns)) for columns, _ in cases]
    got = [rms_norm_of(learner, x, weight, 1e-5, BLOCK) for (x, weight), (_, BLOCK) in zip(inputs, cases)]
    for (x, weight), (columns, BLOCK), out in zip(inputs, cases, got):
        close(out, norm_of(x, weight, 1e-5), f"the result in out for columns = {columns} and BLOCK = {BLOCK}")


@exercise("rms_norm_kernel", weight=2)
@few
@given(columns=st.integers(3, 14), seed=seeds)
@example(columns=5, seed=0)
def test_float16_norms_are_computed_in_float32(learner, columns, seed):
    """For tensors in float16, the norm is computed in float32: squares that float16 cannot hold do no harm."""
    x, weight = tensor(seed, 3, columns).half(), tensor(seed + 1, columns).half()
    x[1] *= 1000
    x[2] *= 1e-3
    close(rms_norm_of(learner, x, weight, 1e-8, 16, seed), norm_of(x, weight, 1e-8), "the result in out")
