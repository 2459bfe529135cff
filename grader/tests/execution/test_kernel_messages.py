"""What a kernel reads when it uses Python or torch where the language of kernels has something else."""

from __future__ import annotations

import math

import pytest
import torch
from grader.execution.kernel_language import KernelProblem
from grader.execution.simulated_gpu import launch


def of_block(use):
    """Launch a kernel that uses a block of four numbers in this way."""

    def kernel(tl, x):
        use(tl.load(x + tl.arange(0, 4)), x, tl)

    launch(kernel, (1,), torch.arange(4.0))


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda block, x, tl: math.exp(block), r"math and float cannot compute with a block of shape \(4,\); .* tl.exp"),
        (lambda block, x, tl: block.max(), r"a block of shape \(4,\) has no .max, only .to, .T, .shape and .dtype"),
        (lambda block, x, tl: x.load(), "a single pointer has no .load, only .shape and .dtype"),
        (lambda block, x, tl: x[tl.arange(0, 4)], "a single pointer is indexed by : and None only"),
        (lambda block, x, tl: block[0], r"a block of shape \(4,\) is indexed by : and None only"),
        (lambda block, x, tl: block.to("float32"), ".to needs a dtype, such as tl.float32, and not 'float32'"),
        (lambda block, x, tl: max(block, 0.0), "and, or, min and max need one number"),
        (lambda block, x, tl: sum(block), "has no single numbers to go through"),
        (lambda block, x, tl: torch.exp(block), "torch's exp cannot compute with a block"),
        (lambda block, x, tl: tl.softmax(block), "there is no tl.softmax here; tl has float32"),
        (lambda block, x, tl: block**2, "multiply instead"),
    ],
)  # fmt: skip
def test_what_the_language_lacks_is_named(use, words):
    with pytest.raises(KernelProblem, match=words):
        of_block(use)


def test_a_block_is_printed_with_its_numbers(capsys):
    of_block(lambda block, x, tl: print(block[:, None], x + 1))
    assert capsys.readouterr().out == "a block of shape (4, 1): [[0.0], [1.0], [2.0], [3.0]] a single pointer: 1\n"


def test_a_mask_without_other_leaves_numbers_that_spoil_a_result():
    read = []

    def kernel(tl, x):
        read.append(tl.sum(tl.load(x + tl.arange(0, 4), mask=tl.arange(0, 4) < 3), axis=0))

    launch(kernel, (1,), torch.arange(4.0))
    launch(kernel, (1,), torch.arange(4))
    assert str(read) == "[a single number: nan, a single number: -74]"
