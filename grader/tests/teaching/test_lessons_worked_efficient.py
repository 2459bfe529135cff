"""The worked examples of chapter 14's lesson, computed again with the reference."""

import math
import weakref

import pytest
import torch
from grader.verdict.memory import StorageWatch
from lesson_tables import says, shown, shows, table_in
from torch import tensor as T

SCORES = T([1.0, 2.0, 3.0, 6.0], dtype=torch.float64).log()
VALUES = T([[4.0], [8.0], [0.0], [2.0]], dtype=torch.float64)
QUERY = torch.ones(1, 1, dtype=torch.float64)


@pytest.fixture(scope="module")
def chapter(solutions):
    return solutions("ch14_efficient_attention")


def attend(chapter, first, last):
    """The output and lse of the keys from `first` to before `last`."""
    output, lse = chapter.attention_with_lse(QUERY, SCORES[first:last, None], VALUES[first:last])
    return output.item(), lse.item()


def test_two_groups_of_keys(chapter):
    for row, score, value in zip(table_in("ch14", "Two groups of keys"), SCORES, VALUES, strict=True):
        assert shows("; ".join(row[1:]), score, score.exp(), value[0])
    for row, part in zip(table_in("ch14", "Two groups of keys", 1), [(0, 2), (2, 4), (0, 4)], strict=True):
        output, lse = attend(chapter, *part)
        assert shows("; ".join(row[1:]), round(math.exp(lse), 9), lse, output)
    pairs = [[torch.full((1, 1), output), torch.full((1,), lse)] for output, lse in (attend(chapter, 0, 2), attend(chapter, 2, 4))]
    merged, lse = chapter.merge_attention(*pairs[0], *pairs[1])
    assert merged.item() == pytest.approx(32 / 12) and lse.exp().item() == pytest.approx(12)
    assert says("ch14", "= 32 / 12 = {}", merged) and says("ch14", "The new lse is 2.1972 + ln(1/3 + 1) = {}.", lse)
    assert math.exp(attend(chapter, 0, 2)[1] - attend(chapter, 2, 4)[1]) == pytest.approx(1 / 3)


def test_one_strip_after_the_other(chapter):
    rows = table_in("ch14", "One strip after the other")
    assert rows[0][2:] == ("0", "-inf", "0")
    for i, row in enumerate(rows[1:]):
        output, lse = attend(chapter, 0, i + 1)
        assert shows("; ".join(row[1:]), SCORES[i], round(math.exp(lse), 9), lse, output), row
        tiled = chapter.tiled_attention(QUERY, SCORES[: i + 1, None], VALUES[: i + 1], 1)
        assert tiled[0].item() == pytest.approx(output) and tiled[1].item() == pytest.approx(lse)


def test_the_way_back(chapter):
    output, lse = chapter.attention_with_lse(QUERY, SCORES[:, None], VALUES)
    _, grad_k, grad_v = chapter.tiled_attention_backward(QUERY, SCORES[:, None], VALUES, output, lse, torch.ones(1, 1).double(), 2)
    for row, score, value, of_score, weight in zip(table_in("ch14", "The way back"), SCORES, VALUES, grad_k, grad_v, strict=True):
        assert (score - lse).exp().item() == pytest.approx(weight.item())
        assert shows("; ".join(row[1:]), weight, value[0], value[0] - output[0, 0], of_score), row
    assert grad_k.sum().item() == pytest.approx(0, abs=1e-12)
    assert says("ch14", "0.0833 · 4 + 0.1667 · 8 = {}, where it should be {}.", 4 / 12 + 16 / 12, output)


def test_the_window(chapter):
    mask = chapter.sliding_window_mask(4, 2).int().tolist()
    assert says("ch14", " ".join(" ".join(map(str, row)) for row in mask))
    causal, band = 4096 * 4097 // 2, int(chapter.sliding_window_mask(4096, 256).sum())
    assert says("ch14", "over 4,096 positions has {} pairs. With a window of 256 positions it has {}.", causal, band)


def test_what_a_block_keeps(solutions):
    block, x = solutions("ch06_blocks").PreNormBlock(64, 4), torch.randn(2, 32, 64, requires_grad=True)
    known, saved = StorageWatch([x, block]).known, []

    class Saved:  # lives as long as autograd keeps the tensor: an unused result is freed during the pass, and its address is used again
        def __init__(self, tensor):
            self.tensor = tensor

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
