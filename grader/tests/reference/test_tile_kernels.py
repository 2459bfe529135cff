"""Chapter 21's kernels for tiles against torch, and against earlier chapters, with tiles of real sizes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from agreement import normal, same
from grader.execution.simulated_gpu import launch
from torch.utils.flop_counter import FlopCounterMode

TILE = 16  # the smallest that the matrix units of a GPU multiply
HEADS, T, D = 2, 37, 16


def rounding(dtype):
    return 1e-5 if dtype == torch.float32 else 4e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_product_is_that_of_torch(ours, dtype):
    a, b = normal(33, 50, dtype=dtype).detach(), normal(50, 21, dtype=dtype).detach()
    c = torch.empty(33, 21, dtype=dtype)
    launch(ours.matmul_kernel, (3, 2), a, b, c, 33, 21, 50, BM=TILE, BN=TILE, BK=2 * TILE)
    same(c, (a.double() @ b.double()).to(dtype), rounding(dtype))


def test_the_products_are_as_many_as_torch_counts_and_tell_the_roofline(ours):
    """Torch counts 2 M N K operations of a product, and so does the simulated GPU where the tiles fit."""
    M, N, K = 2 * TILE, 3 * TILE, 4 * TILE
    a, b, c = torch.randn(M, K), torch.randn(K, N), torch.empty(M, N)
    with FlopCounterMode(display=False) as counted:
        a @ b
    traffic = launch(ours.matmul_kernel, (2, 3), a, b, c, M, N, K, BM=TILE, BN=TILE, BK=TILE)
    assert traffic.products == counted.get_total_flops() == 2 * M * N * K
    moved = traffic.bytes_read + traffic.bytes_written
    assert ours.roofline(traffic.products, moved, 1e15, 4.8e12) == (moved / 4.8e12, "memory")
    assert ours.roofline(traffic.products, moved, 1e12, 4.8e12) == (traffic.products / 1e12, "compute")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("BQ", "BK"), [(16, 8), (8, 32)])
def test_attention_is_that_of_torch_and_of_chapter_14(ours, dtype, BQ, BK):
    q, k, v = (normal(HEADS, T, D, dtype=dtype).detach() for _ in range(3))
    out, lse = torch.empty(HEADS, T, D, dtype=dtype), torch.empty(HEADS, T, dtype=dtype)
    launch(ours.attention_kernel, (math.ceil(T / BQ), HEADS), q, k, v, out, lse, T, D**-0.5, D, BQ=BQ, BK=BK)
    wide = [t.float()[None] for t in (q, k, v)]
    theirs, logs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*wide, 0.0, True)
    same(out, theirs[0].to(dtype), rounding(dtype))
    same(lse, logs[0].to(dtype), rounding(dtype))
    same(out, F.scaled_dot_product_attention(*wide, is_causal=True)[0].to(dtype), rounding(dtype))
    earlier, sums = ours.tiled_attention(*wide, 8, causal=True)
    same(out, earlier[0].to(dtype), rounding(dtype))
    same(lse, sums[0].to(dtype), rounding(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_eight_bit_weights_are_those_of_chapter_15(ours, dtype):
    layer = torch.nn.Linear(50, 21, bias=False)
    weight, scale = ours.quantize_int8(layer.weight.detach())
    x, out = normal(9, 50, dtype=dtype).detach(), torch.empty(9, 21, dtype=dtype)
    scale = scale.flatten().to(dtype)
    launch(ours.int8_matmul_kernel, (1, 2), x, weight, scale, out, 9, 21, 50, BM=TILE, BN=TILE, BK=TILE)
    same(out, F.linear(x.float(), weight.float() * scale.float()[:, None]).to(dtype), rounding(dtype))
    if dtype == torch.float32:
        same(out, ours.QuantizedLinear(layer)(x).detach(), rounding(dtype))


def test_every_tile_is_computed_by_one_program_in_the_order_of_grouped_place(ours):
    """A matrix product whose programs find their tile by grouped_place is the same, and every tile is written once."""
    a, b, c = torch.randn(7 * 4, 8), torch.randn(8, 3 * 4), torch.full((7 * 4, 3 * 4), math.nan)

    def grouped(tl, a, b, c, M, N, K, BM, BN, BK):
        row, column = ours.grouped_place(int(tl.program_id(0)), tl.cdiv(M, BM), tl.cdiv(N, BN), 3)
        i, j, k = row * BM + tl.arange(0, BM)[:, None], column * BN + tl.arange(0, BN)[None, :], tl.arange(0, BK)
        product = tl.dot(tl.load(a + i * K + k[None, :]), tl.load(b + k[:, None] * N + j))
        tl.store(c + i * N + j, product)

    traffic = launch(grouped, (21,), a, b, c, 28, 12, 8, BM=4, BN=4, BK=8)
    same(c, a @ b, 1e-5)
    assert traffic.bytes_written == c.numel() * 4
