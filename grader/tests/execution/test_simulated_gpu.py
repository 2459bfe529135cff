"""The simulated GPU: what it computes, counts and refuses, and that a kernel cannot change what the tests' side counts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading

import pytest
import torch
from boundaries import QUICK_KINDS, forks, opened
from grader.execution import simulated_gpu
from grader.execution.errors import LearnerError, OutOfTime
from grader.execution.kernel_language import LANGUAGE, UNDEFINED, Block, KernelProblem
from grader.execution.proxy import Implementation
from grader.execution.simulated_gpu import launch, run_programs
from torch import float16, float32, int8, int32, int64


def numbers(*shape, dtype=float32):
    return torch.arange(1, torch.Size(shape).numel() + 1).reshape(shape).to(dtype)


# ---- what it refuses


def four(tl):
    return tl.arange(0, 4)


REFUSED = {  # each for the three programs of a grid, on x and out of six numbers
    # what a program reads and writes
    "program 1 reads x[6], which has 6 numbers": lambda tl, x, out: tl.load(x + tl.program_id(0) * 4 + four(tl)),
    "program 0 reads x[-1], which has 6 numbers": lambda tl, x, out: tl.load(x - 1),
    "program 0 reads x[4294967296], which has 6 numbers": lambda tl, x, out: tl.load(x + 65536 * 65536),
    "program 0 writes out[6], which has 6 numbers": lambda tl, x, out: tl.store(out + 6, 1.0),
    "program 0 writes out[-1], which has 6 numbers": lambda tl, x, out: tl.store(out - four(tl), 1.0),
    "program 1 writes out[2], which program 0 writes; programs run in no fixed order": (
        lambda tl, x, out: tl.store(out + tl.program_id(0) * 2 + four(tl), 1.0)
    ),
    "program 1 reads x[0], which program 0 writes; programs run in no fixed order": (
        lambda tl, x, out: tl.load(x) if tl.program_id(0) == 1 else tl.store(x, 2.0)
    ),
    "program 1 writes x[1], which program 0 reads; programs run in no fixed order": (
        lambda tl, x, out: tl.store(x + 1, 1.0) if tl.program_id(0) == 1 else tl.load(x + 1)
    ),
    "program 2 writes x[2], which another program reads; programs run in no fixed order": (
        lambda tl, x, out: [tl.load(x + four(tl)), tl.program_id(0) == 2 and tl.store(x + 2, 1.0)]
    ),
    "program 0 writes out[1] twice in one tl.store": lambda tl, x, out: tl.store(out + four(tl) // 2 + 1, 1.0, mask=four(tl) < 3),
    # blocks
    "there is no block of shape (3,): each size of a block is a power of two": lambda tl, x, out: tl.arange(3, 6),
    "there is no block of shape (2, 6): each size of a block is a power of two": lambda tl, x, out: tl.zeros((2, 6), tl.float32),
    "there is no block of shape (0,): each size of a block is a power of two": lambda tl, x, out: tl.full([0], 1, tl.float32),
    "the size of a block is a constant, such as a parameter in CAPITALS, and this is a single number": (
        lambda tl, x, out: tl.arange(0, tl.num_programs(0))
    ),
    "the size of a block is a constant, such as a parameter in CAPITALS, and this is 4.0": (
        lambda tl, x, out: tl.zeros((8 / 2,), tl.float32)
    ),
    "a block of shape (4,) is indexed by : and None only; read from memory with tl.load": lambda tl, x, out: four(tl)[0],
    "a block of shape (2,) is indexed by : and None only; read from memory with tl.load": (
        lambda tl, x, out: tl.arange(0, 2)[tl.arange(0, 2)]
    ),
    "a pointer of shape (2,) is indexed by : and None only; read from memory with tl.load": (
        lambda tl, x, out: (x + tl.arange(0, 2))[1:]
    ),
    "a single pointer is indexed by : and None only; read from memory with tl.load": lambda tl, x, out: x[3],
    "a block of shape (4,) has fewer axes than its index has :": lambda tl, x, out: four(tl)[:, :, None],
    "a block of shape (4,) has no single numbers to go through; compute with all of them at once": (
        lambda tl, x, out: max(four(tl))
    ),
    "if, while, and, or, min and max need one number, and this is a block of shape (4,); use tl.where, & or |": (
        lambda tl, x, out: 0 if 0 <= four(tl) < 2 else 1
    ),
    "a whole number is needed here, and this is a single number of float32": lambda tl, x, out: range(tl.load(x)),
    "a whole number is needed here, and this is a block of shape (4,) of int32": lambda tl, x, out: range(four(tl)),
    ".to needs a dtype, such as tl.float32, and not 'float32'": lambda tl, x, out: four(tl).to("float32"),
    ".to needs a dtype, such as tl.float32, and not the dtype of a pointer; that of its numbers is .dtype.element_ty": lambda tl, x, out: four(tl).to(x.dtype),
    "a block of shape (4,) has no .sum, only .to, .T, .shape and .dtype; a kernel computes with the functions of tl": (
        lambda tl, x, out: four(tl).sum()
    ),
    "a single pointer has no .T, only .shape and .dtype; a kernel computes with the functions of tl": lambda tl, x, out: x.T,
    "math and float cannot compute with a single number; use functions of tl, such as tl.exp": (
        lambda tl, x, out: math.sqrt(tl.load(x))
    ),
    # operations
    "the language has no **; multiply instead": lambda tl, x, out: four(tl) ** 2,
    "a block of shape (4,) + a block of shape (2,): the shapes do not fit": lambda tl, x, out: four(tl) + tl.arange(0, 2),
    "a block of shape (4,) + a block of shape (4,): masks are combined by &, | and ~": (
        lambda tl, x, out: (four(tl) < 2) + (four(tl) > 2)
    ),
    "a single number & 1: & is for whole numbers, and these are float32": lambda tl, x, out: tl.load(x) & 1,
    "2.5 // a block of shape (4,): // is for whole numbers, and these are float32": lambda tl, x, out: 2.5 // four(tl),
    "7 // a block of shape (4,): a whole number is divided by 0": lambda tl, x, out: 7 // four(tl),
    "7 % a block of shape (4,): a whole number is divided by 0": lambda tl, x, out: 7 % four(tl),
    "1099511627776 is no number of int32": lambda tl, x, out: four(tl) < 1 << 40,
    "a kernel computes with blocks and numbers, and this is a Tensor": lambda tl, x, out: four(tl) + torch.ones(4),
    "a kernel computes with blocks and numbers, and this is a NoneType": lambda tl, x, out: tl.where(None, 1, 2),
    "a kernel computes with blocks and numbers, and this is a single pointer": lambda tl, x, out: tl.maximum(1, x),
    "a pointer plus a single pointer is no place: add whole numbers": lambda tl, x, out: x + out,
    "a pointer plus a single number is no place: add whole numbers": lambda tl, x, out: x + tl.load(x),
    "a pointer plus 0.5 is no place: add whole numbers": lambda tl, x, out: 0.5 + x,
    "a pointer of shape (4,) + a block of shape (2,): the shapes do not fit": (
        lambda tl, x, out: x + four(tl) + tl.arange(0, 2)
    ),
    # functions
    f"there is no tl.softmax here; tl has {LANGUAGE}": lambda tl, x, out: tl.softmax(four(tl)),
    f"torch's softmax cannot compute with a block; a kernel uses tl, which has {LANGUAGE}": (
        lambda tl, x, out: torch.softmax(four(tl), 0)
    ),
    "a grid, for tl.program_id, has no axis 3": lambda tl, x, out: tl.program_id(3),
    "a grid, for tl.num_programs, has no axis -1": lambda tl, x, out: tl.num_programs(-1),
    "tl.full with a block of shape (4,): the shapes do not fit": lambda tl, x, out: tl.full((2,), four(tl), tl.float32),
    "tl.load needs a pointer, such as x + offsets, and this is a block of shape (4,)": lambda tl, x, out: tl.load(four(tl)),
    "tl.store needs a pointer, such as x + offsets, and this is 3": lambda tl, x, out: tl.store(3, 1.0),
    "the mask of tl.load is a block of shape (4,) of int32; compare numbers, such as i < n": (
        lambda tl, x, out: tl.load(x + four(tl), mask=four(tl))
    ),
    "tl.load at a pointer of shape (4,) with a block of shape (2,) as mask: the shapes do not fit": (
        lambda tl, x, out: tl.load(x + four(tl), mask=tl.arange(0, 2) < 1)
    ),
    "tl.store at a single pointer with a block of shape (2,) as mask: the shapes do not fit": (
        lambda tl, x, out: tl.store(out, 1.0, mask=tl.arange(0, 2) < 1)
    ),
    "tl.load of a pointer of shape (4,) with a block of shape (2,) as `other`: the shapes do not fit": (
        lambda tl, x, out: tl.load(x + four(tl), mask=four(tl) < 2, other=tl.arange(0, 2))
    ),
    "tl.store of a block of shape (4,) at a single pointer: the shapes do not fit": lambda tl, x, out: tl.store(out, four(tl)),
    "tl.where of a block of shape (4,), a block of shape (2,) and 0: the shapes do not fit": (
        lambda tl, x, out: tl.where(four(tl) < 2, tl.arange(0, 2), 0)
    ),
    "tl.dot multiplies (m, k) by (k, n) of the same dtype, and not a block of shape (2, 4) of float32 and a block of shape (2, 4) of float32": (
        lambda tl, x, out: tl.dot(tl.zeros((2, 4), tl.float32), tl.zeros((2, 4), tl.float32))
    ),
    "tl.dot multiplies (m, k) by (k, n) of the same dtype, and not a block of shape (2, 2) of float16 and a block of shape (2, 2) of float32": (
        lambda tl, x, out: tl.dot(tl.zeros((2, 2), tl.float16), tl.zeros((2, 2), tl.float32))
    ),
    "tl.dot multiplies (m, k) by (k, n) of the same dtype, and not a block of shape (4,) of int32 and a block of shape (4,) of int32": (
        lambda tl, x, out: tl.dot(four(tl), four(tl))
    ),
    "tl.dot is for blocks, and this is 2": lambda tl, x, out: tl.dot(2, four(tl)),
    "tl.trans is for blocks, and this is a single pointer": lambda tl, x, out: tl.trans(x),
    "tl.trans exchanges two axes, and this is a block of shape (4,)": lambda tl, x, out: four(tl).T,
    "tl.sum is for blocks, and this is 0.5": lambda tl, x, out: tl.sum(0.5),
    "a block of shape (4,), for tl.max, has no axis 1": lambda tl, x, out: tl.max(four(tl), axis=1),
    "tl.exp is for float32, and this is a single number of float16; convert it by .to": (
        lambda tl, x, out: tl.exp(tl.load(x).to(tl.float16))
    ),
    "tl.log is for float32, and this is a block of shape (4,) of int32; convert it by .to": lambda tl, x, out: tl.log(four(tl)),
    "tl.sqrt is for float32, and this is 2 of int32; convert it by .to": lambda tl, x, out: tl.sqrt(2),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_no_gpu_does_is_refused_in_one_sentence_at_the_kernels_line(sentence):
    kernel = REFUSED[sentence]
    with pytest.raises(KernelProblem) as found:
        launch(kernel, (3,), numbers(6), numbers(6), seed=IN_ORDER)
    assert str(found.value) == sentence
    assert any(entry.frame.code.raw is kernel.__code__ for entry in found.traceback)


def order(*grid, seed=0):
    """The programs of a launch in the order in which they run."""
    return [each.program for each in launch(lambda tl, x: tl.load(x), grid, numbers(1), seed=seed).accesses]


IN_ORDER = next(seed for seed in range(100) if order(3, seed=seed) == [(0,), (1,), (2,)])


def wrong_in_its_third_line(tl, x, out):
    i = four(tl)
    block = tl.load(x + i)
    tl.store(out + i * 2, block)  # here
    return block


def test_a_traceback_names_the_line_of_the_wrong_read_or_write():
    with pytest.raises(KernelProblem, match="writes out.6., which has 6 numbers") as found:
        launch(wrong_in_its_third_line, (1,), numbers(6), numbers(6))
    [line] = [str(entry.statement) for entry in found.traceback if entry.frame.code.raw is wrong_in_its_third_line.__code__]
    assert line.endswith("# here")


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (0,), (2, 1.5), (-1,)])
def test_a_grid_has_one_to_three_sizes(grid):
    with pytest.raises(ValueError, match="a grid has one to three whole numbers from 1 on, and this is"):
        launch(lambda tl, x: None, grid, numbers(1))


def test_a_program_that_reads_for_ever_is_refused(monkeypatch):
    def endless(tl, x):
        while True:
            tl.load(x)

    monkeypatch.setattr(simulated_gpu, "MOST_ACCESSES", 1_200)
    with pytest.raises(KernelProblem, match="program 0 reads and writes more than 1,200 times, and does not end"):
        launch(endless, (1,), numbers(1))
    assert no_program_is_left()


def no_program_is_left() -> bool:
    programs = [thread for thread in threading.enumerate() if thread.name.startswith("rank ")]
    for program in programs:
        program.join(timeout=30)
    return not any(program.is_alive() for program in programs)


# ---- what it computes

VALUES = {  # a16 and a32 are 0.5, -1.25, 3, 2; i8 and i64 are 1, -2, 100, 4; i is 0 to 3; n is 5, e is 0.25, B is 4
    "a16 + 0.5": (float16, [1, -0.75, 3.5, 2.5]),
    "a16 * e": (float16, [0.125, -0.3125, 0.75, 0.5]),
    "a16 + n": (float16, [5.5, 3.75, 8, 7]),
    "a16 + i": (float16, [0.5, -0.25, 5, 5]),
    "a16 + a32": (float32, [1, -2.5, 6, 4]),
    "2 - a16": (float16, [1.5, 3.25, -1, 0]),
    "-a16": (float16, [-0.5, 1.25, -3, -2]),
    "a16 / 2": (float32, [0.25, -0.625, 1.5, 1]),
    "a16 / a16": (float32, [1, 1, 1, 1]),
    "a16 / (i + 1)": (float32, [0.5, -0.625, 1, 0.5]),
    "a16 % 2": (float32, [0.5, -1.25, 1, 0]),
    "a32 % 2": (float32, [0.5, -1.25, 1, 0]),
    "i + 0.5": (float32, [0.5, 1.5, 2.5, 3.5]),
    "i / 2": (float32, [0, 0.5, 1, 1.5]),
    "i8 / 2": (float32, [0.5, -1, 50, 2]),
    "i8 + 1": (int8, [2, -1, 101, 5]),
    "i8 * i8": (int8, [1, 4, 16, 16]),
    "i8 + i": (int32, [1, -1, 102, 7]),
    "-i8": (int8, [-1, 2, -100, -4]),
    "i64 + i": (int64, [1, -1, 102, 7]),
    "i + n": (int32, [5, 6, 7, 8]),
    "i + True": (int32, [1, 2, 3, 4]),
    "(i - 2) // 2": (int32, [-1, 0, 0, 0]),
    "(i - 2) % 3": (int32, [-2, -1, 0, 1]),
    "-(-n // 2)": (int32, 2),
    "tl.cdiv(n, 2)": (int32, 3),
    "n / 2": (float32, 2.5),
    "n + e": (float32, 5.25),
    "~i": (int32, [-1, -2, -3, -4]),
    "i & 1": (int32, [0, 1, 0, 1]),
    "i ^ 3 | 4": (int32, [7, 6, 5, 4]),
    "m + 1": (int32, [2, 2, 1, 1]),
    "m * 2": (int32, [2, 2, 0, 0]),
    "m * 1.0": (float32, [1, 1, 0, 0]),
    "m * a16": (float16, [0.5, -1.25, 0, 0]),
    "m & (i > 0)": (torch.bool, [False, True, False, False]),
    "m | (i == 3)": (torch.bool, [True, True, False, True]),
    "m ^ m": (torch.bool, [False, False, False, False]),
    "~m": (torch.bool, [False, False, True, True]),
    "m & True": (torch.bool, [True, True, False, False]),
    "a16 <= 0.5": (torch.bool, [True, True, False, False]),
    "i >= 2.5": (torch.bool, [False, False, False, True]),
    "i != a16": (torch.bool, [True, True, True, True]),
    "1 > i": (torch.bool, [True, False, False, False]),
    "tl.sum(a16, 0)": (float16, 4.25),
    "tl.sum(a32)": (float32, 4.25),
    "tl.sum(i8, 0)": (int32, 103),
    "tl.sum(i64, 0)": (int64, 103),
    "tl.sum(a32[:, None] * i[None, :], axis=0)": (float32, [0, 4.25, 8.5, 12.75]),
    "tl.sum(a32[:, None] * i[None, :], 1)": (float32, [3, -7.5, 18, 12]),
    "tl.sum(a32[:, None] * i[None, :], -2)": (float32, [0, 4.25, 8.5, 12.75]),
    "tl.sum(a32[:, None] * i[None, :])": (float32, 25.5),
    "tl.max(a16, 0)": (float32, 3),
    "tl.max(a32[:, None] * i[None, :], 1)": (float32, [1.5, 0, 9, 6]),
    "tl.max(i8, 0)": (int32, 100),
    "tl.max(i64)": (int64, 100),
    "tl.max(m, 0)": (int32, 1),
    "tl.where(m, 1, 0)": (int32, [1, 1, 0, 0]),
    "tl.where(m, 1.0, 0.0)": (float32, [1, 1, 0, 0]),
    "tl.where(m, a16, 0.0)": (float16, [0.5, -1.25, 0, 0]),
    "tl.where(m, i, 0.5)": (float32, [0, 1, 0.5, 0.5]),
    "tl.where(m, a16, a32)": (float32, [0.5, -1.25, 3, 2]),
    "tl.where(m[:, None], i[None, :], -1)": (int32, [[0, 1, 2, 3], [0, 1, 2, 3], [-1] * 4, [-1] * 4]),
    "tl.maximum(i, 2)": (int32, [2, 2, 2, 3]),
    "tl.maximum(i, 0.5)": (float32, [0.5, 1, 2, 3]),
    "tl.maximum(1, 2)": (int32, 2),
    "tl.minimum(a16, a32)": (float32, [0.5, -1.25, 3, 2]),
    "tl.minimum(a32, 0.0)": (float32, [0, -1.25, 0, 0]),
    "tl.exp(a32 * 0)": (float32, [1, 1, 1, 1]),
    'tl.exp(-float("inf"))': (float32, 0),
    "tl.log(a32 * 0 + 1)": (float32, [0, 0, 0, 0]),
    "tl.sqrt(e)": (float32, 0.5),
    "tl.sqrt(i64.to(tl.float32) * 0 + 9)": (float32, [3, 3, 3, 3]),
    "tl.abs(a16)": (float16, [0.5, 1.25, 3, 2]),
    "tl.abs(i8)": (int8, [1, 2, 100, 4]),
    "tl.abs(-3)": (int32, 3),
    "tl.program_id(0)": (int32, 0),
    "tl.num_programs(0)": (int32, 1),
    "tl.program_id(1) * 0.5": (float32, 0),
    "tl.full((4,), 1, tl.float16)": (float16, [1, 1, 1, 1]),
    "tl.full((1, 2), n, tl.float32)": (float32, [[5, 5]]),
    "tl.zeros([2], tl.int8)": (int8, [0, 0]),
    "tl.zeros((), tl.float32)": (float32, 0),
    "tl.arange(1, 5)": (int32, [1, 2, 3, 4]),
    "tl.arange(0, B)": (int32, [0, 1, 2, 3]),
    "a32[None, :]": (float32, [[0.5, -1.25, 3, 2]]),
    "tl.trans(i[:, None])": (int32, [[0, 1, 2, 3]]),
    "(i[:, None] + i[None, :] * 4).T": (int32, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]),
    "a32.to(tl.int8)": (int8, [0, -1, 3, 2]),
    "n.to(tl.float32)": (float32, 5),
    "i.to(a16.dtype)": (float16, [0, 1, 2, 3]),
    "tl.dot(a16[:, None] + i[None, :], a16[:, None] * i[None, :])": (
        float32, [[0, 12.875, 25.75, 38.625], [0, 5.4375, 10.875, 16.3125], [0, 23.5, 47, 70.5], [0, 19.25, 38.5, 57.75]],
    ),
    "tl.dot(i8[:, None] * m[None, :].to(tl.int8), i8[:, None] * m[None, :].to(tl.int8))": (
        int32, [[-1, -1, 0, 0], [2, 2, 0, 0], [-100, -100, 0, 0], [-4, -4, 0, 0]],
    ),
    "tl.dot(a32[:, None] * i[None, :], tl.trans(a32[:, None] + i[None, :]), tl.full((4, 4), 1.0, tl.float32))": (
        float32, [[9.5, 4.25, 17, 14], [-20.25, -7.125, -39, -31.5], [52, 20.5, 97, 79], [35, 14, 65, 53]],
    ),
    "tl.load(p16 + i, mask=m, other=0.5)": (float16, [0.5, -1.25, 0.5, 0.5]),
    "tl.load(p8 + i, mask=m, other=0.5)": (int8, [1, -2, 0, 0]),
    "tl.load(p32 + i, mask=m, other=i)": (float32, [0.5, -1.25, 2, 3]),
    "tl.load(p32 + (3 - i))": (float32, [2, 3, -1.25, 0.5]),
    "tl.load(p64 + 3 - 1)": (int64, 100),
    "tl.load((p32 + i)[:, None] + tl.zeros((1, 1), tl.int32))": (float32, [[0.5], [-1.25], [3], [2]]),
    "tl.load(p32, mask=n > 5, other=7)": (float32, 7),
    "min(tl.program_id(0) + 3, B)": (int32, 3),
}  # fmt: skip
KERNEL = """
def kernel(tl, p16, p32, p8, p64, n, e, B):
    i = tl.arange(0, 4)
    a16, a32, i8, i64, m = tl.load(p16 + i), tl.load(p32 + i), tl.load(p8 + i), tl.load(p64 + i), i < 2
    see({text!r}, {text})
"""
ARGUMENTS = """
a = torch.tensor([0.5, -1.25, 3, 2])
whole = torch.tensor([1, -2, 100, 4])
arguments = [a.half(), a, whole.to(torch.int8), whole, 5, 0.25]
"""


def test_each_operation_has_the_dtype_and_the_numbers_that_are_expected():
    seen, names = {}, {"torch": torch}
    names["see"] = lambda text, block: seen.update({text: (block.dtype, block._t.tolist())})
    exec(ARGUMENTS, names)
    for text in VALUES:
        exec(KERNEL.format(text=text), names)
        launch(names["kernel"], (1,), *names["arguments"], B=4)
    assert seen == VALUES
    assert all(f"tl.{name}" in " ".join(VALUES) for name in LANGUAGE.split(", ") if name not in ("int32", "int64", "store"))


def test_triton_has_the_same_dtypes_and_numbers(tmp_path):
    """In its interpreter, in a process of its own: an environment variable chooses it when Triton is imported."""
    pytest.importorskip("triton", reason="the extra `kernels` is not installed")
    kernels = "".join(
        KERNEL.format(text=text).replace("def kernel(tl, ", f"@triton.jit\ndef kernel{number}(").replace("B):", "B: tl.constexpr):")
        for number, text in enumerate(VALUES)
    )
    text = f"""
import json, torch, triton
import triton.language as tl
seen = {{}}
def see(text, block):
    data = torch.as_tensor(block.handle.data).squeeze() if not block.shape else torch.as_tensor(block.handle.data)
    seen[text] = [str(block.dtype), data.tolist()]
{kernels}{ARGUMENTS}
for number in range({len(VALUES)}):
    globals()[f"kernel{{number}}"][(1,)](*arguments, B=4)
print(json.dumps(seen))
"""
    (tmp_path / "kernels.py").write_text(text)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, tmp_path / "kernels.py"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    names = {"fp16": float16, "fp32": float32, "int1": torch.bool, "int8": int8, "int32": int32, "int64": int64}
    assert {text: (names[dtype], values) for text, (dtype, values) in json.loads(done.stdout).items()} == VALUES


@pytest.mark.parametrize("dtype", [float32, float16])
def test_exp_log_sqrt_and_dot_give_the_numbers_of_torch(dtype):
    def kernel(tl, x, out):
        i = tl.arange(0, 8)
        a = tl.load(x + i[:, None] * 8 + i[None, :])
        places, wide = i[:, None] * 8 + i[None, :], a.to(tl.float32)
        for number, block in enumerate((tl.exp(wide), tl.log(wide), tl.sqrt(wide), tl.dot(a, tl.trans(a)))):
            tl.store(out + number * 64 + places, block)

    x, out = torch.rand(8, 8).to(dtype) + 0.5, torch.empty(4, 8, 8)
    launch(kernel, (1,), x, out)
    wide = x.float()
    torch.testing.assert_close(out, torch.stack([wide.exp(), wide.log(), wide.sqrt(), wide @ wide.T]))


def test_numbers_that_a_mask_leaves_out_are_not_defined():
    def kernel(tl, x, whole, out):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + i, mask=i < 2))
        tl.store(out + i + 4, tl.load(whole + i, mask=i < 2))

    out = numbers(8)
    launch(kernel, (1,), numbers(2), numbers(2, dtype=int64), out)
    torch.testing.assert_close(out, torch.tensor([1, 2, torch.nan, torch.nan, 1, 2, UNDEFINED, UNDEFINED]), equal_nan=True)


def test_a_number_that_is_stored_takes_the_dtype_of_the_memory():
    def kernel(tl, whole, half):
        tl.store(whole, 2.75)
        tl.store(half, tl.load(whole) / 3)

    whole, half = numbers(1, dtype=int8), numbers(1, dtype=float16)
    launch(kernel, (1,), whole, half)
    assert (whole.item(), half.item()) == (2, torch.tensor(2 / 3).half().item())


def test_only_whole_numbers_among_the_arguments_become_single_numbers():
    got = {}

    def kernel(tl, x, n, e, M, SIZE):
        got.update(n=n, e=e, M=M, SIZE=SIZE, numbers=[*range(1, n)], least=min(n, SIZE))

    launch(kernel, (1,), numbers(1), 3, 0.5, 5, SIZE=8)
    assert isinstance(got["n"], Block) and got["n"].dtype == int32 and got["numbers"] == [1, 2] and int(got["least"]) == 3
    assert (got["e"], got["M"], got["SIZE"]) == (0.5, 5, 8)


# ---- where it reads and writes, and what it counts


def double_all(tl, x, out, n, BLOCK):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def test_reads_and_writes_are_listed_with_their_programs_places_and_bytes():
    x, out = numbers(6, dtype=float16), torch.zeros(6)
    traffic = launch(double_all, (2,), x, out, 6, seed=IN_ORDER, BLOCK=4)
    assert out.tolist() == [2, 4, 6, 8, 10, 12]
    listed = [(each.program, each.kind, each.name, each.at.tolist(), each.bytes) for each in traffic.accesses]
    expected = [((0,), "load", "x", [0, 1, 2, 3], 8), ((0,), "store", "out", [0, 1, 2, 3], 16)]
    expected += [((1,), "load", "x", [4, 5], 4), ((1,), "store", "out", [4, 5], 8)]
    assert sorted(listed) == sorted(expected)
    assert (traffic.bytes_read, traffic.bytes_written, traffic.products) == (12, 24, 0)
    assert (traffic.count_bytes("load", "x"), traffic.count_bytes("store", "x"), traffic.count_bytes("load", "y")) == (12, 0, 0)


def test_a_number_counts_each_time_that_it_is_read_and_masked_ones_do_not():
    def kernel(tl, x):
        i = tl.arange(0, 4)
        tl.load(x + i * 0, mask=i < 3)
        tl.load(x + i + 1000, mask=i < 0)
        tl.load(x)

    assert launch(kernel, (5,), numbers(1)).bytes_read == 5 * (3 + 0 + 1) * 4


def test_products_are_two_for_each_pair_of_numbers_that_tl_dot_multiplies():
    def kernel(tl):
        a = tl.zeros((4, 8), tl.float32)
        tl.dot(a, tl.trans(a))
        tl.dot(tl.trans(a), a, tl.zeros((8, 8), tl.float32))

    assert launch(kernel, (3,)).products == 3 * 2 * (4 * 8 * 4 + 8 * 4 * 8)


def test_a_program_may_read_what_it_writes_itself():
    x = numbers(6)
    traffic = launch(double_all, (2,), x, x, 6, BLOCK=4)
    assert x.tolist() == [2, 4, 6, 8, 10, 12] and traffic.bytes_read == traffic.bytes_written == 24


def test_two_arguments_of_one_memory_are_watched_together():
    def shift(tl, x, out):
        tl.store(out + tl.program_id(0) + 1, tl.load(x + tl.program_id(0)))

    x = numbers(6)
    launch(shift, (5,), x, numbers(6))
    sentence = r"program \d (reads|writes) (x|out)\[\d\], which (another program|program \d) (reads|writes); programs run in no fixed order"
    for seed in range(4):
        with pytest.raises(KernelProblem, match=sentence):
            launch(shift, (5,), x, x, seed=seed)
        with pytest.raises(KernelProblem, match=sentence):
            launch(shift, (4,), x, x[1:], seed=seed)  # writes x[2 + program]


def test_a_view_begins_at_its_first_number_and_ends_with_its_memory():
    def kernel(tl, x, out):
        i = tl.arange(0, 2)
        tl.store(out + i[:, None] * 2 + i[None, :], tl.load(x + i[:, None] * 5 + i[None, :]))

    whole, out = numbers(4, 5), torch.zeros(2, 2)
    launch(kernel, (1,), whole[2:, 3:], out)
    assert out.tolist() == [[14, 15], [19, 20]]
    launch(kernel, (1,), whole.T[1:], out)  # memory knows no axes
    assert out.tolist() == [[2, 3], [7, 8]]
    with pytest.raises(KernelProblem, match=r"reads x\[5\], which has 5 numbers"):
        launch(kernel, (1,), whole[3], out)


def test_a_view_is_written_where_it_is():
    whole = torch.zeros(3, 4)
    launch(double_all, (1,), numbers(2), whole[1, 1:], 2, BLOCK=2)
    assert whole.tolist() == [[0] * 4, [0, 2, 4, 0], [0] * 4]
    leaf = torch.zeros(2, requires_grad=True)
    launch(double_all, (1,), numbers(2), leaf, 2, BLOCK=2)
    assert leaf.tolist() == [2, 4]


def test_memory_without_numbers_can_be_masked():
    assert launch(double_all, (1,), numbers(0), numbers(0), 0, BLOCK=2).bytes_read == 0


@pytest.mark.parametrize("grid", [(5,), (3, 2), (2, 3, 2)])
def test_each_place_of_a_grid_has_one_program(grid):
    def kernel(tl, out):
        place = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
        tl.store(out + place, place)

    out = torch.full(grid, -1)
    traffic = launch(kernel, grid, out)
    assert out.flatten().tolist() == [*range(out.numel())]
    assert {each.program: each.at.tolist() for each in traffic.accesses} == {
        tuple(place.tolist()): [number] for number, place in enumerate((out >= 0).nonzero())
    }


def test_programs_of_a_grid_with_axes_are_named_by_their_place():
    with pytest.raises(KernelProblem, match=r"program \(\d, \d\) reads x\[9\], which has 1 number$"):
        launch(lambda tl, x: tl.load(x + 9), (2, 2), numbers(1))


def test_the_order_of_programs_is_random_and_depends_on_the_seed_only():
    orders = [order(8, seed=seed) for seed in range(20)]
    assert all(sorted(each) == [(n,) for n in range(8)] for each in orders)
    assert len(set(map(tuple, orders))) == 20 and {each[0] for each in orders} == {(n,) for n in range(8)}
    torch.manual_seed(5)
    for seed in range(20):
        state = torch.get_rng_state()
        assert order(8, seed=seed) == orders[seed] and torch.equal(torch.get_rng_state(), state)


# ---- through the boundary

TOY = """
import torch
from grader.execution import simulated_gpu


def add_one(tl, x, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(x + i) + 1)


def reads_outside(tl, x, out):
    tl.load(x + 100)


def goes_on(tl, x, out):
    try:
        tl.load(x + 100)
    except BaseException:
        tl.store(out, 5.0)


def endless(tl, x, out):
    while True:
        pass


def stays(tl, x, out):
    try:
        tl.load(x + 100)
    except BaseException:
        while True:
            pass


def changes_its_place(tl, x, out):
    tl._place, tl._grid = (7, 7, 7), (9, 9, 9)
    add_one(tl, x, out)


def changes_its_pointer(tl, x, out):
    x._number, x._kind = 1, torch.float32
    add_one(tl, x, out)


def patches(tl, x, out):
    simulated_gpu.Traffic.count_bytes = lambda *_: 0
    simulated_gpu.Access.__init__ = simulated_gpu.Memory.access = lambda *_: ""
    simulated_gpu.run_programs = simulated_gpu.launch = simulated_gpu._read_calls = None
    add_one(tl, x, out)
    tl.load(x + 100)


def renames(tl, x, out):
    simulated_gpu.Programs.names = property(lambda self: [7, "y" * 9], lambda *_: None)
    add_one(tl, x, out)


def answers(tl, x, out, WHICH):
    simulated_gpu.Programs.advance = lambda *_: ANSWERS[WHICH]
    tl.load(x)


ANSWERS = [7, None, "end", [], {}, (("end", None, None),), ["end"], [["end"]], [("dot", 1, None)], [object()], object()]


def sends(tl, x, out, WHICH):
    at, mask, values = torch.arange(4), torch.ones(4, dtype=torch.bool), torch.ones(4)
    tl._thread.ask(*{
        "a kind": ("steal", (0, at, mask), None),
        "no kind": (None, (0, at, mask), None),
        "numbers": (7, 7, 7),
        "a memory that is not there": ("load", (2, at, mask), None),
        "a negative memory": ("load", (-1, at, mask), None),
        "a name for a memory": ("load", ("x", at, mask), None),
        "a list for a memory": ("load", ([0], at, mask), None),
        "too few parts": ("load", (0, at), None),
        "no parts": ("load", (0,), None),
        "too many parts": ("load", (0, at, mask, values), None),
        "no numbers": ("store", (1, at, mask), None),
        "places that are fractions": ("load", (0, at.float(), mask), None),
        "places that are no tensor": ("load", (0, [0, 1, 2, 3], mask), None),
        "places without memory": ("load", (0, at.to("meta"), mask.to("meta")), None),
        "a mask of another shape": ("load", (0, at, mask[:2]), None),
        "a wider mask": ("load", (0, at, mask.expand(3, 4)), None),
        "a mask of numbers": ("load", (0, at, at), None),
        "numbers of another dtype": ("store", (1, at, mask, values.double()), None),
        "numbers of another shape": ("store", (1, at, mask, values[:1]), None),
        "more than an access": ("load", (0, at, mask), 3),
        "an end that goes on": ("end", None, 5),
    }[WHICH])
    tl.store(out, 5.0)


def multiplies(tl, x, out, COUNT):
    tl._thread.calls.append(("dot", COUNT, None))


def writes_at(tl, x, out, WHERE):
    at = torch.tensor([0, WHERE])
    tl._thread.ask("store", (1, at, torch.tensor([True, True]), torch.ones(2)), None)
"""
SENT = [line.split('"')[1] for line in TOY.split("def sends")[1].splitlines() if '": (' in line]


@pytest.fixture(params=QUICK_KINDS, scope="module")
def boundary(request, worker_pool):
    """A boundary to these kernels, with a time limit of a second for each call."""
    with opened(request.param, worker_pool, TOY, seconds=1.0) as boundary:
        yield boundary


@pytest.fixture
def toy(boundary):
    boundary.begin(0)
    return Implementation(boundary)


def programs_of(kernel, arguments, grid):
    from grader.execution.simulated_gpu import Programs

    return Programs(kernel, arguments, {}, grid)


def watch(toy, name, *more, programs=1):
    """The tensors x and out after a launch whose memory is on this side, and its Traffic or the problem."""
    x, out = numbers(4), torch.zeros(4)
    sent = toy.bring(programs_of)(getattr(toy, name), [x.dtype, out.dtype, *more], (programs, 1, 1))
    try:
        found = run_programs(sent, (programs,), [x, out, *more])
    except (Exception, OutOfTime) as problem:
        found = problem
    return x.tolist(), out.tolist(), found


def test_a_kernel_behind_the_boundary_computes_on_memory_of_this_side(toy):
    x, out, traffic = watch(toy, "add_one")
    assert (x, out) == ([1, 2, 3, 4], [2, 3, 4, 5])
    assert (traffic.bytes_read, traffic.bytes_written) == (16, 16) and [each.name for each in traffic.accesses] == ["x", "out"]


def test_a_wrong_read_behind_the_boundary_is_raised_in_the_kernel(toy):
    *_, problem = watch(toy, "reads_outside")
    assert isinstance(problem, LearnerError) and "program 0 reads x[100], which has 4 numbers" in str(problem)
    line = TOY.splitlines().index("def reads_outside(tl, x, out):") + 2
    assert problem.where and problem.where.line == line


def test_a_kernel_that_catches_the_problem_does_not_go_on(toy):
    _, out, problem = watch(toy, "goes_on")
    assert isinstance(problem, KernelProblem) and str(problem) == "program 0 reads x[100], which has 4 numbers"
    assert out == [0, 0, 0, 0] and no_program_is_left()


@pytest.mark.parametrize("name", ["stays", "endless"])
def test_a_kernel_in_an_endless_loop_is_ended_by_the_time_limit(toy, name):
    _, out, problem = watch(toy, name)
    assert isinstance(problem, OutOfTime) and out == [0, 0, 0, 0] and no_program_is_left()


def test_what_a_kernel_changes_on_its_side_does_not_change_the_counts(toy):
    x, out, traffic = watch(toy, "changes_its_place", programs=1)
    assert [each.program for each in traffic.accesses] == [(0,), (0,)] and out == [2, 3, 4, 5]
    x, out, traffic = watch(toy, "changes_its_pointer")
    assert [each.name for each in traffic.accesses] == ["out", "out"] and traffic.bytes_read == 16 and x == [1, 2, 3, 4]


@pytest.mark.parametrize("which", SENT)
def test_a_message_of_another_form_is_one_error_and_changes_nothing(toy, which):
    x, out, problem = watch(toy, "sends", which)
    assert (x, out) == ([1, 2, 3, 4], [0, 0, 0, 0]) and no_program_is_left()
    assert isinstance(problem, KernelProblem) and str(problem) == "program 0 does something else than the functions of tl"


@pytest.mark.parametrize("count", [-1, 0.5, "many", None])
def test_products_are_whole_numbers(toy, count):
    *_, problem = watch(toy, "multiplies", count)
    assert isinstance(problem, KernelProblem) and "does something else" in str(problem)
    assert watch(toy, "multiplies", 2**70)[2].products == 2**70


@pytest.mark.parametrize("where", [4, -1, 2**62, -(2**63), 2**63 - 1])
def test_places_far_outside_are_neither_read_nor_written(toy, where):
    x, out, problem = watch(toy, "writes_at", where)
    assert f"program 0 writes out[{where}], which has 4 numbers" in str(problem)
    assert (x, out) == ([1, 2, 3, 4], [0, 0, 0, 0])


@forks
def test_a_kernel_that_patches_the_simulated_gpu_changes_that_of_its_own_process_only(worker_pool):
    with opened("fork", worker_pool, TOY) as boundary:
        boundary.begin(0)
        toy = Implementation(boundary)
        _, out, problem = watch(toy, "patches")
        assert "program 0 reads x[100], which has 4 numbers" in str(problem) and out == [2, 3, 4, 5]
        x, out, traffic = watch(toy, "add_one")
        assert (traffic.bytes_read, traffic.bytes_written) == (16, 16) and out == [2, 3, 4, 5]
        watch(toy, "renames")
        x, out, traffic = watch(toy, "add_one")
        assert out == [2, 3, 4, 5] and len(traffic.accesses) == 2


@forks
@pytest.mark.parametrize("which", range(11))
def test_anything_that_comes_instead_of_calls_is_one_error(worker_pool, which):
    with opened("fork", worker_pool, TOY) as boundary:
        boundary.begin(0)
        *_, problem = watch(Implementation(boundary), "answers", which)
    assert isinstance(problem, KernelProblem) and str(problem) == "program 0 does something else than the functions of tl"
