"""The numbers that the lessons work out by hand are what the reference computes: chapters 14 and 15."""

from __future__ import annotations

import math
import weakref

import torch
from grader.verdict.memory import StorageWatch
from lesson_tables import says, shown, shows, table_in
from torch import Tensor, nn
from torch import tensor as T

TARGET, DRAFT = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


# ---- chapter 15


class LastToken(nn.Module):
    """A model whose next token depends on the last one."""

    def __init__(self, chances: Tensor):
        super().__init__()
        self.logits = chances.log()

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits[ids]


def test_two_beams(ours):
    chances = torch.tensor([[value for value, _ in shown(" ; ".join(row[1:]))] for row in table_in("ch15", "Two beams")], dtype=torch.float64)
    model, ids = LastToken(chances), torch.tensor([[2]])
    step_1, step_2 = table_in("ch15", "Two beams", 1)
    for row, new in ((step_1, 1), (step_2, 2)):
        candidates = [cell.strip().rpartition(": ") for cell in row[1].split(",")]
        for text, _, chance in candidates:
            tokens = [2, *map(int, text.split())]
            assert len(tokens) == new + 1 and shows(chance, math.prod(chances[a, b].item() for a, b in zip(tokens, tokens[1:])))
        best = ours.beam_search(model, ids, new, 2)
        assert row[2] == " and ".join(" ".join(map(str, text)) for text, _ in best)
    pairs = [chances[2, first] * chances[first, last] for first in (0, 1) for last in range(3)]
    assert shows(" ; ".join(cell.rpartition(": ")[2] for cell in step_2[1].split(",")), *pairs)
    [(greedy, score)], [(wide, better), _] = ours.beam_search(model, ids, 2, 1), ours.beam_search(model, ids, 2, 2)
    assert (greedy, wide) == ([0, 0], [1, 0])
    assert says("ch15", "The text 0, 0 has the probability 0.5 · 0.4 = {}.", math.exp(score))
    assert says("ch15", "The text 1, 0 has the probability {}, and greedy decoding cannot find it.", math.exp(better))
    assert says("ch15", "1,000 · ln 0.4 = {}.", 1000 * math.log(0.4)) and says("ch15", "the product is 10^{},", round(1000 * math.log10(0.4)))


def test_keeping_a_guess(ours):
    kept, residual = torch.minimum(TARGET, DRAFT), ours.residual_distribution(TARGET, DRAFT)
    refused = 1 - kept.sum()
    expected = [TARGET, DRAFT, (TARGET / DRAFT).clamp(max=1), kept, (TARGET - DRAFT).clamp(min=0), residual, kept + refused * residual]
    for row, values in zip(table_in("ch15", "Keeping a guess"), expected, strict=True):
        assert shows(" ; ".join(row[1:4]), *values.tolist()), row
        assert not row[4] or shows(row[4], values.sum().item()), row
    assert torch.allclose(expected[-1], TARGET, atol=1e-12)
    assert says("ch15", "All tokens together stay with probability {}. In the other {} of all cases", kept.sum(), refused)
    assert says("ch15", "token 0 would have 0.2 + 0.4 · 0.6 = {} instead of {}.", kept[0] + refused * TARGET[0], TARGET[0])
    tokens = sum(0.8**i for i in range(5))
    assert says("ch15", "1 + 0.8 + 0.8² + 0.8³ + 0.8⁴ = {}", tokens)
    assert says("ch15", "a round costs {} passes, and writing is {} / 1.4 = {} times as fast.", 1 + 4 * 0.1, tokens, tokens / 1.4)


def test_ten_positions_in_blocks_of_four(ours):
    pool = ours.BlockPool(8, 4, 1, 1)
    text = ours.PagedKVCache(pool)
    text.append(torch.zeros(1, 10, 1), torch.zeros(1, 10, 1))
    states = [(len(text.blocks), None, pool.n_free)]
    fork = text.fork()
    states.append((len(text.blocks), len(fork.blocks), pool.n_free))
    fork.append(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    states.append((len(text.blocks), len(fork.blocks), pool.n_free))
    for row, (own, forked, free) in zip(table_in("ch15", "Ten positions in blocks of four"), states, strict=True):
        assert (row[1], row[2].partition(",")[0], row[3]) == (str(own), "" if forked is None else str(forked), str(free)), row
    assert [pool.holders(block) for block in fork.blocks] == [2, 2, 1]
    assert says("ch15", "In the solution the tables are then {}, {}, {} and {}, {}, {}.", *text.blocks, *fork.blocks)


def test_a_row_in_8_bits(ours):
    row, code, product, error = ([value for value, _ in shown(" ; ".join(cells[1:]))] for cells in table_in("ch15", "A row in 8 bits"))
    codes, scale = ours.quantize_int8(torch.tensor([row], dtype=torch.float64))
    back = codes[0].double() * scale
    assert codes[0].tolist() == code and says("ch15", "Its scale is 1.27 / 127 = {}.", scale)
    assert torch.allclose(back, torch.tensor(product, dtype=torch.float64)) and torch.allclose((back - torch.tensor(row)).abs(), torch.tensor(error).double(), atol=1e-7)
    assert says("ch15", "The error is at most half a step, {}.", scale / 2)
    assert says("ch15", "2 bytes = {} GiB, and in 8 bits {} GiB.", 6.74e9 * 2 / 2**30, 6.74e9 / 2**30)


def test_four_requests_and_two_seats(ours):
    fixed, continuous = ([[int(number) for number in cell.split(",")] for cell in row[1:] if cell] for row in table_in("ch15", "Four requests, two seats"))
    assert continuous == ours.continuous_batches([(0, 4), (0, 1), (0, 1), (0, 2)], 2)
    second = [[2 + number for number in step] for step in ours.continuous_batches([(0, 1), (0, 2)], 2)]
    assert fixed == ours.continuous_batches([(0, 4), (0, 1)], 2) + second
    assert says("ch15", "and needs {} steps instead of {}.", len(continuous), len(fixed))


def test_the_answers_of_predict_first(ours):
    model, passes = LastToken(torch.full((3, 3), 1 / 3, dtype=torch.float64)), []
    model.register_forward_hook(lambda *_: passes.append(1))
    draft = LastToken(torch.full((3, 3), 1 / 3, dtype=torch.float64))
    ours.generate_speculative(model, draft, torch.tensor([[2]]), 10, 4)
    assert says("ch15", "So 10 tokens take {} passes.", len(passes))


# ---- chapter 14


SCORES = T([1.0, 2.0, 3.0, 6.0], dtype=torch.float64).log()
VALUES = T([[4.0], [8.0], [0.0], [2.0]], dtype=torch.float64)
QUERY = torch.ones(1, 1, dtype=torch.float64)


def attend(ours, first, last):
    """The output and lse of the keys from `first` to before `last`."""
    output, lse = ours.attention_with_lse(QUERY, SCORES[first:last, None], VALUES[first:last])
    return output.item(), lse.item()


def test_two_groups_of_keys(ours):
    for row, score, value in zip(table_in("ch14", "Two groups of keys"), SCORES, VALUES, strict=True):
        assert shows("; ".join(row[1:]), score, score.exp(), value[0])
    for row, part in zip(table_in("ch14", "Two groups of keys", 1), [(0, 2), (2, 4), (0, 4)], strict=True):
        output, lse = attend(ours, *part)
        assert shows("; ".join(row[1:]), round(math.exp(lse), 9), lse, output)
    pairs = [[torch.full((1, 1), output), torch.full((1,), lse)] for output, lse in (attend(ours, 0, 2), attend(ours, 2, 4))]
    merged, lse = ours.merge_attention(*pairs[0], *pairs[1])
    assert says("ch14", "= 32 / 12 = {}", merged) and says("ch14", "The new lse is 2.1972 + ln(1/3 + 1) = {}.", lse)


def test_one_strip_after_the_other(ours):
    rows = table_in("ch14", "One strip after the other")
    assert rows[0][2:] == ("0", "-inf", "0")
    for i, row in enumerate(rows[1:]):
        output, lse = attend(ours, 0, i + 1)
        assert shows("; ".join(row[1:]), SCORES[i], round(math.exp(lse), 9), lse, output), row


def test_the_way_back(ours):
    output, lse = ours.attention_with_lse(QUERY, SCORES[:, None], VALUES)
    _, grad_k, grad_v = ours.tiled_attention_backward(QUERY, SCORES[:, None], VALUES, output, lse, torch.ones(1, 1).double(), 2)
    for row, value, of_score, weight in zip(table_in("ch14", "The way back"), VALUES, grad_k, grad_v, strict=True):
        assert shows("; ".join(row[1:]), weight, value[0], value[0] - output[0, 0], of_score), row
    assert says("ch14", "0.0833 · 4 + 0.1667 · 8 = {}, where it should be {}.", 4 / 12 + 16 / 12, output)


def test_the_window(ours):
    mask = ours.sliding_window_mask(4, 2).int().tolist()
    assert says("ch14", " ".join(" ".join(map(str, row)) for row in mask))
    causal, band = 4096 * 4097 // 2, int(ours.sliding_window_mask(4096, 256).sum())
    assert says("ch14", "over 4,096 positions has {} pairs. With a window of 256 positions it has {}.", causal, band)


def test_what_a_block_keeps(ours):
    block, x = ours.PreNormBlock(64, 4), torch.randn(2, 32, 64, requires_grad=True)
    known, saved = StorageWatch([x, block]).known, []

    class Saved:  # lives as long as autograd keeps the tensor: an unused result is freed during the pass, and its address is used again
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # an output that is kept with its graph would keep an operation whose result is not used

    def save(tensor):
        saved.append(weakref.ref(kept := Saved(tensor)))
        return kept

    with torch.autograd.graph.saved_tensors_hooks(save, lambda kept: kept.tensor):
        output = block(x)
    tensors = [kept.tensor for kept in (ref() for ref in saved) if kept]
    numbers = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in tensors}
    assert output.requires_grad
    assert says("ch14", "autograd keeps {} numbers from inside the block", sum(many for key, many in numbers.items() if key not in known))


def test_bytes_of_scores_and_logits():
    GiB, MiB = 2**30, 2**20
    assert says("ch14", "one layer needs 32 · 8,192 · 8,192 · 2 bytes = {} GiB", 32 * 8192 * 8192 * 2 / GiB)
    assert says("ch14", "64 keys are 32 · 8,192 · 64 · 2 bytes = {} MiB, and lse takes {} MiB", 32 * 8192 * 64 * 2 / MiB, 32 * 8192 * 4 / MiB)
    assert says("ch14", "are {} numbers: {} GiB in float32.", 8192 * 128256, 8192 * 128256 * 4 / GiB)
    assert says("ch14", "they are {} MiB at a time", 512 * 128256 * 4 / MiB)


def test_the_loss_in_chunks():
    rows = table_in("ch14", "The logits of a large vocabulary")
    kept, means, sums = ([shown(row[i])[0][0] for row in rows] for i in (1, 2, 3))
    assert [k * m for k, m in zip(kept, means)] == sums
    assert kept[3] == sum(kept[:3]) and sums[3] == sum(sums[:3])
