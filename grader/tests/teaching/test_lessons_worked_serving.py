"""The numbers that lesson 15 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import torch
from lesson_tables import says, shown, shows, table_in
from torch import Tensor, nn

TARGET, DRAFT = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


class LastToken(nn.Module):
    """A model whose next token depends on the last one."""

    def __init__(self, chances: Tensor):
        super().__init__()
        self.logits = chances.log()

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits[ids]


def test_two_beams(solutions):
    chapter = solutions("ch15_serving")
    chances = torch.tensor([[value for value, _ in shown(" ; ".join(row[1:]))] for row in table_in("ch15", "Two beams")], dtype=torch.float64)
    model, ids = LastToken(chances), torch.tensor([[2]])
    step_1, step_2 = table_in("ch15", "Two beams", 1)
    for row, new in ((step_1, 1), (step_2, 2)):
        candidates = [cell.strip().rpartition(": ") for cell in row[1].split(",")]
        for text, _, chance in candidates:
            tokens = [2, *map(int, text.split())]
            assert len(tokens) == new + 1 and shows(chance, math.prod(chances[a, b].item() for a, b in zip(tokens, tokens[1:])))
        best = chapter.beam_search(model, ids, new, 2)
        assert row[2] == " and ".join(" ".join(map(str, text)) for text, _ in best)
    pairs = [chances[2, first] * chances[first, last] for first in (0, 1) for last in range(3)]
    assert shows(" ; ".join(cell.rpartition(": ")[2] for cell in step_2[1].split(",")), *pairs)
    [(greedy, score)], [(wide, better), _] = chapter.beam_search(model, ids, 2, 1), chapter.beam_search(model, ids, 2, 2)
    assert (greedy, wide) == ([0, 0], [1, 0])
    assert says("ch15", "The text 0, 0 has the probability 0.5 · 0.4 = {}.", math.exp(score))
    assert says("ch15", "The text 1, 0 has the probability {}, and greedy decoding cannot find it.", math.exp(better))
    assert says("ch15", "1,000 · ln 0.4 = {}.", 1000 * math.log(0.4)) and says("ch15", "the product is 10^{},", round(1000 * math.log10(0.4)))


def test_keeping_a_guess(solutions):
    chapter = solutions("ch15_serving")
    kept, residual = torch.minimum(TARGET, DRAFT), chapter.residual_distribution(TARGET, DRAFT)
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


def test_two_prompts_in_one_batch(solutions):
    serving, models = solutions("ch15_serving"), solutions("ch07_models")
    _, positions, _, others = table_in("ch15", "Two prompts in one batch")
    assert positions[1:] == ("-", "-", "0", "1") and others[1:] == ("0", "1", "2", "3")
    torch.manual_seed(0)
    model = serving.PaddedGPT(models.GPTConfig(9, 8, 8, 2, 1)).double()
    ids = torch.tensor([[0, 0, 3, 4], [5, 6, 7, 8]])
    batch = model(ids, torch.tensor([2, 0]))
    alone = models.GPT.forward(model, torch.tensor([[3, 4]]))[0]
    assert torch.allclose(batch[0, 2:], alone[0], atol=1e-9) and torch.allclose(batch[1], models.GPT.forward(model, ids[1:])[0][0], atol=1e-9)


def test_ten_positions_in_blocks_of_four(solutions):
    chapter = solutions("ch15_serving")
    pool = chapter.BlockPool(8, 4, 1, 1)
    text = chapter.PagedKVCache(pool)
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
    assert divmod(9, 4) == (2, 1)


def test_a_row_in_8_bits(solutions):
    chapter = solutions("ch15_serving")
    row, code, product, error = ([value for value, _ in shown(" ; ".join(cells[1:]))] for cells in table_in("ch15", "A row in 8 bits"))
    codes, scale = chapter.quantize_int8(torch.tensor([row], dtype=torch.float64))
    back = codes[0].double() * scale
    assert codes[0].tolist() == code and says("ch15", "Its scale is 1.27 / 127 = {}.", scale)
    assert torch.allclose(back, torch.tensor(product, dtype=torch.float64)) and torch.allclose((back - torch.tensor(row)).abs(), torch.tensor(error).double(), atol=1e-7)
    assert says("ch15", "The error is at most half a step, {}.", scale / 2)
    assert says("ch15", "2 bytes = {} GiB, and in 8 bits {} GiB.", 6.74e9 * 2 / 2**30, 6.74e9 / 2**30)


def test_four_requests_and_two_seats(solutions):
    chapter = solutions("ch15_serving")
    fixed, continuous = ([[int(number) for number in cell.split(",")] for cell in row[1:] if cell] for row in table_in("ch15", "Four requests, two seats"))
    assert continuous == chapter.continuous_batches([(0, 4), (0, 1), (0, 1), (0, 2)], 2)
    second = [[2 + number for number in step] for step in chapter.continuous_batches([(0, 1), (0, 2)], 2)]
    assert fixed == chapter.continuous_batches([(0, 4), (0, 1)], 2) + second
    assert says("ch15", "and needs {} steps instead of {}.", len(continuous), len(fixed))


def test_the_answers_of_predict_first(solutions):
    chapter = solutions("ch15_serving")
    model, passes = LastToken(torch.full((3, 3), 1 / 3, dtype=torch.float64)), []
    model.register_forward_hook(lambda *_: passes.append(1))
    draft = LastToken(torch.full((3, 3), 1 / 3, dtype=torch.float64))
    chapter.generate_speculative(model, draft, torch.tensor([[2]]), 10, 4)
    assert says("ch15", "So 10 tokens take {} passes.", len(passes))
    pool = chapter.BlockPool(8, 4, 1, 1)
    text = chapter.PagedKVCache(pool)
    text.append(torch.zeros(1, 8, 1), torch.zeros(1, 8, 1))
    fork = text.fork()
    fork.append(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    assert pool.n_free == 5 and fork.blocks[:2] == text.blocks
