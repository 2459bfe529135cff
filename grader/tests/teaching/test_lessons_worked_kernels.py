"""The numbers that lesson 21 works out by hand are what the reference computes on the simulated GPU."""

from __future__ import annotations

import math
import re

import pytest
import torch
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH, FLOAT16, FLOAT32, PROCESSORS
from grader.chapters.ch21_kernels.simulated_cache import count_misses, tile_reads
from grader.chapters.ch21_kernels.walk_kernels import touched
from grader.course.syllabus import EXERCISES
from grader.execution.simulated_gpu import launch
from lesson_tables import says, shown, shows, table_in, tables_of


def numbers(text):
    return [number for number, _ in shown(text)]


def table(heading, place=0):
    return table_in("ch21", heading, place)


def header(heading, place=0):
    return [table for table in tables_of(EXERCISES / "ch21_kernels.md") if table.heading == heading][place].rows[0]


def pairs(text):
    return [(int(a), int(b)) for a, b in re.findall(r"\((\d+), (\d+)\)", text)]


def softmax_of(ours, row, block=4):
    x, out = torch.tensor([row]), torch.zeros(1, len(row))
    launch(ours.softmax_kernel, (1,), x, out, len(row), len(row), BLOCK=block)
    return out[0]


def test_the_bytes_that_the_opening_prints_are_32_megabytes():
    text = (EXERCISES / "ch21_kernels.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\w+\.\w+ +(\d+)$", text, re.MULTILINE)
    assert len(printed) == 5 and says("ch21", "In all, {} MB are moved.", sum(map(int, printed)) / 1e6)


def test_a_block_and_its_mask(ours):
    traffic = launch(ours.add_kernel, (3,), torch.ones(10), torch.ones(10), torch.zeros(10), 10, BLOCK=4)
    read = {each.program[0]: each.at.tolist() for each in traffic.accesses if each.name == "x"}
    for program, places, mask in table("A block and its mask"):
        places, mask = numbers(places), [word == "True" for word in mask.split(", ")]
        assert len(places) == 4 and [place for place, keep in zip(places, mask, strict=True) if keep] == read[int(program)]
    assert says("ch21", "The grid is 10 / 4, rounded up: {} programs.", math.ceil(10 / 4))


def test_what_a_mask_leaves_out(ours):
    for other, block, maximum, total, shares in table("What a mask leaves out"):
        whole = torch.tensor([*numbers("1, 3, 2"), *numbers(other)])
        assert whole.tolist() == numbers(block) and shows(maximum, whole.max().item())
        e = (whole - whole.max()).exp()
        assert shows(total, e.sum().item()) and shows(shares, *(e / e.sum())[:3].tolist())
    assert shows(table("What a mask leaves out")[0][4], *softmax_of(ours, [1.0, 3.0, 2.0]).tolist())
    assert says("ch21", "and the result sums to {}. If all", (e / e.sum())[:3].sum().item())
    assert torch.tensor(-1000.0).exp() == 0  # what a 0 does to a row of such numbers
    view = torch.arange(10.0).view(2, 5)[:, :3]
    assert says("ch21", "its row 1 begins at place {}, and not at place {}.", view[1, 0].item(), 3)


def test_a_mean_of_three_numbers(ours):
    row = torch.tensor([1.0, 2.0, 2.0])
    for divided_by, root, result in table("A mean of three numbers"):
        mean = (row.square().sum() / numbers(divided_by)[0]).sqrt()
        assert shows(root, mean.item()) and shows(result, *(row / mean).tolist())
    out = torch.zeros(3)
    launch(ours.rms_norm_kernel, (1,), row, torch.ones(3), out, 3, 0.0, BLOCK=4)
    assert shows(table("A mean of three numbers")[0][2], *out.tolist())
    assert says("ch21", "float16, whose largest number is {}.", torch.finfo(torch.float16).max)
    assert says("ch21", "The square of 300 is {}, so", 300**2)


def test_a_row_in_pieces(ours):
    best, total = -math.inf, 0.0
    for after, maximum, old, new, together in table("A row in pieces"):
        block = torch.tensor(numbers(after))
        grown = max(best, block.max().item())
        kept, part = total * math.exp(best - grown), (block - grown).exp().sum().item()
        best, total = grown, kept + part
        assert shows(" ; ".join((maximum, old, new, together)), best, kept, part, total)
    assert says("ch21", "multiplied by exp(2 - 4) = {}.", math.exp(-2))
    out, row = torch.zeros(4), torch.tensor([1.0, 2.0, 4.0, 3.0])
    traffic = launch(ours.long_softmax_kernel, (1,), row, out, 4, BLOCK=2)
    assert says("ch21", "writes exp(x - 4) / {}: {}, {}, {}, {}.", total, *out.tolist()) and traffic.bytes_read == 2 * 16


def multiply(ours, tile, step=2):
    a, b, c = torch.ones(4, 6), torch.ones(6, 4), torch.zeros(4, 4)
    grid = (math.ceil(4 / tile),) * 2
    traffic = launch(ours.matmul_kernel, grid, a, b, c, 4, 4, 6, BM=tile, BN=tile, BK=step)
    assert torch.equal(c, a @ b)
    return traffic


def test_tiles(ours):
    own = [each for each in multiply(ours, 2).accesses if each.program == (0, 1)]
    for number, (_, of_a, of_b) in enumerate(table("Tiles")):
        for name, places in (("a", of_a), ("b", of_b)):
            assert [each.at.tolist() for each in own if each.name == name][number] == numbers(places)
    for tile, programs, *counts in table("Tiles", 1):
        size = int(tile.split()[0])
        traffic = multiply(ours, size)
        found = [traffic.count_bytes("load", name) / 4 for name in ("a", "b")]
        assert shows(" ; ".join(counts), *found, sum(found)) and sum(found) == 4 * 4 * 6 * (1 / size + 1 / size)
        assert shows(programs, len({each.program for each in traffic.accesses}))
        assert says("ch21", "2 · 4 · 4 · 6 = {}, a product", traffic.products)


def test_an_order_of_the_tiles(ours):
    for group, tiles, rows, columns, both in table("An order of the tiles"):
        places = [ours.grouped_place(program, 4, 4, int(group)) for program in range(4)]
        assert pairs(tiles) == places and shows(" ; ".join((rows, columns, both)), *touched(places), sum(touched(places)))
    places = [ours.grouped_place(program, 3, 3, 2) for program in range(9)]
    assert header("An order of the tiles", 1)[1:] == tuple(map(str, range(9)))
    for row, found in zip(table("An order of the tiles", 1), zip(*places), strict=True):
        assert numbers(" ; ".join(row[1:])) == list(found)
    large = [sum(touched([ours.grouped_place(program, 32, 32, group) for program in range(64)])) for group in (1, 8)]
    assert says("ch21", "on a large product it is {} against {}.", *large)


def test_attention_that_stores_no_score(ours):
    best, total, output = -math.inf, 0.0, 0.0
    values = torch.tensor([[10.0, 20.0], [40.0, 80.0]])
    for (_, scores, maximum, shrink, summed, result), value in zip(table("Attention that stores no score"), values, strict=True):
        block = torch.tensor(numbers(scores))
        grown = max(best, block.max().item())
        factor, weights = math.exp(best - grown), (block - grown).exp()
        before = output
        total, output, best = total * factor + weights.sum().item(), output * factor + (weights * value).sum().item(), grown
        assert shows(" ; ".join((maximum, shrink, summed, result)), best, factor, total, output)
    assert says("ch21", "0.135 · 23.68 + 1 · 40 = {}. The result is 43.20 / 1.185 = {}.", output, output / total)
    assert says("ch21", "it would be {} / 1.185 = {}, more", before + 40, (before + 40) / total)
    assert says("ch21", "lse = 4 + ln 1.185 = {}, the", best + math.log(total))

    # query 2 of three has these scores: its query is 1, and the keys are the scores
    keys, out, lse = torch.tensor([1.0, 2.0, 4.0]), torch.zeros(1, 3, 1), torch.zeros(1, 3)
    launch(ours.attention_kernel, (2, 1), torch.ones(1, 3, 1), keys.view(1, 3, 1), values.flatten()[:3].view(1, 3, 1), out, lse, 3, 1.0, D=1, BQ=2, BK=2)
    assert out[0, 2].item() == pytest.approx(output / total) and lse[0, 2].item() == pytest.approx(best + math.log(total))

    q, out, lse = torch.randn(1, 10, 2), torch.zeros(1, 10, 2), torch.zeros(1, 10)
    traffic = launch(ours.attention_kernel, (3, 1), q, q, q, out, lse, 10, 1.0, D=2, BQ=4, BK=4)
    read = [sum(each.bytes for each in traffic.accesses if each.name == "k" and each.program == (i, 0)) // 8 for i in range(3)]
    assert says("ch21", "the programs read {}, {} and {} keys.", *read)
    assert says("ch21", "one head has {} scores, {} MB in float32.", 8192**2, 4 * 8192**2 / 1e6)
    assert says("ch21", "outputs have {} MB, for heads of {} features.", 4 * 4 * 8192 * 64 / 1e6, 64)


def test_a_loss_and_its_gradient(ours):
    loss, gradient = torch.zeros(1), torch.zeros(1, 3)
    launch(ours.cross_entropy_kernel, (1,), torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), loss, gradient, 3, BLOCK=4)
    total = math.exp(-2) + 1 + math.exp(-1)
    assert says("ch21", "the sum of exp is {}. The loss is 3 + {} - 2 = {}.", total, math.log(total), loss.item())
    assert says("ch21", "1 subtracted at the target: {}, {}, {}.", *gradient[0].tolist())


def test_weights_of_one_byte(ours):
    rows = table("Weights of one byte")
    w = torch.tensor([numbers(row[0]) for row in rows]).to(torch.int8)
    scale, x, out = torch.tensor([numbers(row[1])[0] for row in rows]), torch.tensor([[1.0, 2.0, 3.0]]), torch.zeros(1, 2)
    launch(ours.int8_matmul_kernel, (1, 1), x, w, scale, out, 1, 2, 3, BM=1, BN=2, BK=4)
    for row, total, result in zip(rows, (w.float() @ x[0]).tolist(), out[0].tolist(), strict=True):
        assert shows(row[2], total) and shows(row[3], result)
    for (name, megabytes, microseconds), size in zip(table("Weights of one byte", 1), (4, 2, 1), strict=True):
        assert name in ("float32", "float16", "int8")
        moved = size * 4096**2
        assert shows(megabytes, moved / 1e6) and shows(microseconds, 1e6 * ours.roofline(0, moved, FLOAT16, BANDWIDTH)[0])


def test_what_does_it_wait_for(ours):
    n, weights = 4096, 7e9
    work = [
        (2 * n**3, 3 * 2 * n**2, FLOAT16),
        (5 * n**2, 2 * 4 * n**2, FLOAT32),
        (5 * n**2, 8 * 4 * n**2, FLOAT32),
        (2 * weights, 2 * weights, FLOAT16),
        (256 * 2 * weights, 2 * weights, FLOAT16),
    ]
    times = []
    for (_, operations, moved, computing, moving, limit), (flops, size, peak) in zip(table("What does it wait for?"), work, strict=True):
        for said, value in ((operations, flops), (moved, size)):
            digits, power = re.fullmatch(r"([\d.]+) · 10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", said).groups()
            exponent = int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))
            assert shows(digits, value / 10**exponent)
        assert shows(computing, 1e3 * flops / peak) and shows(moving, 1e3 * size / BANDWIDTH)
        seconds, name = ours.roofline(flops, size, peak, BANDWIDTH)
        times.append(seconds)
        assert limit == name and shows(computing if name == "compute" else moving, 1e3 * seconds)
    assert says("ch21", "The softmax has a {}th of the operations of the product.", work[0][0] / work[1][0])
    assert says("ch21", "In five kernels it takes {} % of the time.", 100 * times[2] / times[0])
    assert says("ch21", "it writes at most {} tokens a second", 1 / times[3])
    assert says("ch21", "312 / 1.555 = {} operations for each byte.", FLOAT16 / BANDWIDTH)
    assert says("ch21", "arrives, an A100 can do {} operations with", 4 / BANDWIDTH * FLOAT32)
    assert says("ch21", "it does {} · 10¹² operations a second with", FLOAT32 / 1e12)
    assert says("ch21", "On its tensor cores it does {} · 10¹² with", FLOAT16 / 1e12)
    assert says("ch21", "It moves {} · 10⁹ bytes a second.", BANDWIDTH / 1e9)
    assert says("ch21", "All {} processors of an A100 share a cache", PROCESSORS)


def test_tf32_is_as_coarse_as_the_lesson_says():
    """10 bits after the leading one: a number is off by half of the last one at most, 2 to the power of -11."""
    assert says("ch21", "each number is rounded to {} bits after its leading one, which is as coarse as float16.", -math.log2(torch.finfo(torch.float16).eps))
    assert 1e-4 < torch.finfo(torch.float16).eps / 2 < 1e-3  # in the fourth digit


def test_the_dots_of_the_roofline_are_where_its_description_says(ours):
    n = 4096
    says_dots = "softmax in five kernels at {}, softmax in one kernel at {}, one token at {}, 64 tokens at once at {}."
    assert says("ch21", says_dots, 5 / 32, 5 / 8, 1, 64)
    assert says("ch21", "the matrix product at {}.]", 2 * n**3 / (6 * n**2))
    assert says("ch21", "flat at {} from {} operations for each byte on, the one with tensor cores at {} from {} on.", 19.5, FLOAT32 / BANDWIDTH, 312, FLOAT16 / BANDWIDTH)


def test_what_the_lab_about_the_order_explains(ours):
    rounds, steps = 32 * 32 // 64, 8

    def misses(group, size):
        return count_misses(tile_reads(ours.grouped_place, 32, 32, steps, group, 64), size)

    for group in (1, 8, 32):
        together = [ours.grouped_place(program, 32, 32, group) for program in range(64)]
        assert misses(group, 64) == rounds * steps * sum(touched(together))
    assert says("ch21", "16 · 8 · 16 = {} blocks for a group of 8.", misses(8, 64))
    for group, size, bands in ((8, 128, 4), (16, 256, 2)):  # a band's rows are read once, and all columns for each band
        kept = group * steps
        assert says("ch21", {8: "For a group of 8 these are {} blocks", 16: "For a group of 16 they are {}, and"}[group], kept)
        assert misses(group, size) == bands * (kept + 32 * steps)


def test_what_the_other_labs_explain():
    softmax, added, together = (moved * 4 * 8192**2 / BANDWIDTH * 1e3 for moved in (2, 5, 3))
    assert says("ch21", "costs {} ms as a kernel of its own and {} ms inside.", added - softmax, together - softmax)
    assert says("ch21", "need three rounds, the last of which has {}.", 256 - 2 * PROCESSORS)
    assert says("ch21", "Four times the bytes, and not five") and (5 + 3) / 2 == 4
