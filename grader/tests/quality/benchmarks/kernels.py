"""kernels: measures the kernels of chapter 21 on a GPU, as Triton's, against the same functions of torch.

It needs a GPU and the extra `kernels`. The kernels are the reference's, in float16 with blocks that are not tuned.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch21_kernels.check_again import KERNELS
from grader.chapters.ch21_kernels.triton_runs import load_file, triton_text
from grader.course.syllabus import ROOT
from grader.tests.quality.benchmarks.figures import format_seconds, print_figure
from torch import Tensor
from torch.nn import functional as F

MINUTES = 1

Case = tuple[str, tuple[int, ...], list[Any], dict[str, int], Callable[[], Tensor]]


def run(arguments: list[str]) -> int:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.tests.quality.benchmarks kernels", description=description)
    parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("kernels: not measured, there is no GPU (torch.cuda.is_available() is False)")
        return 0
    if not find_spec("triton"):
        print("kernels: not measured, Triton is not installed (the extra `kernels`)")
        return 0
    os.environ["TRITON_INTERPRET"] = "0"  # is read when Triton is imported
    from triton.testing import do_bench

    print(f"kernels: {torch.cuda.get_device_name()}, float16\nmedians\n")
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        file = Path(folder) / "kernels.py"
        file.write_text(triton_text((ROOT / "solutions/ch21_kernels.py").read_text("utf-8"), KERNELS), encoding="utf-8")
        compiled = load_file(file)
        for name, grid, given, constants, theirs in make_cases(torch.device("cuda")):
            launched = partial(compiled[name][grid], *given, **constants)
            mine = 1e-3 * do_bench(launched, return_mode="median")
            torchs = 1e-3 * do_bench(theirs, return_mode="median")
            print_figure(f"{name}: {format_seconds(mine)}, torch {format_seconds(torchs)}, {torchs / mine:.2f} times as fast")
    return 0


def make_cases(device: torch.device, rows: int = 4096, columns: int = 4096, heads: int = 32) -> Iterator[Case]:
    """For each kernel: its name, grid, arguments and constants, and the same with torch."""

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float16, device=device)

    x, y, weight, out = numbers(rows, columns), numbers(rows, columns), numbers(columns), numbers(rows, columns)
    block = {"BLOCK": 1 << (columns - 1).bit_length()}
    n, tiles, square = x.numel(), (math.ceil(rows / 64), math.ceil(columns / 64)), {"BM": 64, "BN": 64, "BK": 32}
    yield "add_kernel", (math.ceil(n / 1024),), [x, y, out, n], {"BLOCK": 1024}, lambda: x + y
    yield "softmax_kernel", (rows,), [x, out, columns, columns], block, lambda: x.softmax(1)
    yield "rms_norm_kernel", (rows,), [x, weight, out, columns, 1e-5], block, lambda: F.rms_norm(x, (columns,), weight, 1e-5)
    yield "long_softmax_kernel", (rows,), [x, out, columns], {"BLOCK": 1024}, lambda: x.softmax(1)

    b = numbers(columns, columns)
    yield "matmul_kernel", tiles, [x, b, out, rows, columns, columns], square, lambda: x @ b

    T, D = rows // 2, 64
    q, k, v = (numbers(heads, T, D) for _ in range(3))
    attention = [q, k, v, torch.empty_like(q), torch.empty_like(q[..., 0]), T, D**-0.5]
    sizes = {"D": D, "BQ": 64, "BK": 32}
    grid = (math.ceil(T / 64), heads)
    yield "attention_kernel", grid, attention, sizes, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    targets, loss = torch.randint(columns, (rows,), device=device), numbers(rows)
    yield "cross_entropy_kernel", (rows,), [x, targets, loss, out, columns], block, lambda: _loss_gradient(x, targets)

    integers = torch.randint(-127, 128, (columns, columns), dtype=torch.int8, device=device)
    scale = weight / 100
    given = [x, integers, scale, out, rows, columns, columns]
    yield "int8_matmul_kernel", tiles, given, square, lambda: x @ (integers * scale[:, None]).T


def _loss_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    leaf = logits.detach().requires_grad_()
    F.cross_entropy(leaf, targets, reduction="sum").backward()
    assert leaf.grad is not None
    return leaf.grad
