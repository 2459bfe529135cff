"""The numbers that the lessons work out by hand are what the reference computes: chapters 0 to 6."""

from __future__ import annotations

import math
import re

import pytest
import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, show_rows, shown, shows, table_in
from torch import Tensor

T = torch.tensor


def numbers(rows) -> Tensor:
    """The numbers of a table without its first column, one row for each row."""
    return T([[value for cell in row[1:] for value, _ in shown(cell)] for row in rows])


# ---- chapter 0


TEXT = "the cat sat . the cat ran . the dog sat .".split()


@pytest.fixture
def ids():
    vocab = sorted(set(TEXT))
    return [vocab.index(word) for word in TEXT]


def test_the_ids_and_the_counts(ours, ids):
    assert says("ch00_first", "So the ids are `[{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]`", *ids)
    rows = table_in("ch00_first", "A worked example", 1)
    assert [[int(cell) for cell in row[1:]] for row in rows] == ours.count_bigrams(ids, 6).tolist()


def test_the_losses_with_smoothing_and_without(ours, ids):
    counts = ours.count_bigrams(ids, 6)
    plain, smooth = ours.bigram_probabilities(counts, 0.0), ours.bigram_probabilities(counts, 1.0)
    vocab = sorted(set(TEXT))
    new = [vocab.index(word) for word in "the dog ran .".split()]
    steps = [-math.log(smooth[a, b]) for a, b in zip(new, new[1:])]
    mean = ours.average_loss(smooth, new)
    assert says("ch00_first", "The three losses are {}, {} and {}, and their mean is {}.", *steps, mean)
    assert says("ch00_first", "below ln 6 = {}, the loss of a model that knows nothing", math.log(6))
    assert ours.average_loss(plain, new) == math.inf
    assert says("ch00_first", "without smoothing has the loss {}, and", ours.average_loss(plain, ids))
    assert says("ch00_first", "with smoothing 1 it has {}.", ours.average_loss(smooth, ids))


# ---- chapter 1


def test_the_merges_of_the_example(ours):
    merges = ours.train_bpe("hot pot hotpot", 300)
    assert merges == {(111, 116): 256, (104, 256): 257, (112, 256): 258}
    ids = list(b"hot pot hotpot")
    for place, (pair, new) in enumerate(merges.items()):
        counts = ours.count_pairs(ids)
        if place < 2:
            said = {tuple(int(value) for value, _ in shown(row[1])): int(row[2]) for row in table_in("ch01", "Byte pairs", place)}
            assert said == counts
        ids = ours.merge_pair(ids, pair, new)
    assert ids == [257, 32, 258, 32, 257, 258]
    bpe = ours.BPETokenizer(merges)
    for row in table_in("ch01", "Encoding new texts"):
        assert shows(row[1], *bpe.encode(row[0]))
    hotel = ours.BPETokenizer({(116, 101): 256, (104, 111): 257, (257, 116): 258})
    assert hotel.encode("hotel") == [257, 256, 108] and says("ch01", "into ho, te, l: `[{}, {}, {}]`", 257, 256, 108)


# ---- chapter 2


def test_the_embeddings_of_the_example(ours):
    place = "A worked example"
    layer, positions = ours.TokenEmbedding(5, 4, scale=True), ours.SinusoidalPositions(8, 4)
    layer.weight.data = numbers([row[1:] for row in table_in("ch02", place)])
    ids = T([[1, 0, 1]])
    scaled = layer(ids)
    result = positions(scaled)
    rows = ours.sinusoidal_positions(8, 4)
    assert show_rows([row[1:] for row in table_in("ch02", place, 1)], scaled[0])
    assert show_rows([(row[0], *row[2:]) for row in table_in("ch02", place, 2)], rows[:3])
    assert show_rows([row[1:] for row in table_in("ch02", place, 3)], result[0])
    assert says("ch02", "Row 5 of the table begins {}, {}.", *rows[5, :2].tolist())
    third = positions(layer(T([[1]])), start=2)[0, 0].tolist()
    assert says("ch02", "the same vector as here: ({}, {}, {}, {}).", *third)


# ---- chapter 3


def test_a_word_with_two_meanings(ours):
    heading = "One word, two meanings, by hand"
    words = numbers(table_in("ch03", heading))
    crane, fish, steel = words
    keys = torch.stack([crane, fish])
    output, weights = ours.scaled_dot_product_attention(crane[None], keys, keys)
    dots = keys @ crane
    step = dict(zip(("dot", "root", "power", "sum"), table_in("ch03", heading, 1), strict=True))
    assert [shown(cell)[-1][0] for cell in step["dot"][1:]] == dots.tolist()
    assert shows("; ".join(step["root"][1:]), *(dots / 2**0.5)) and shows("; ".join(step["power"][1:]), *(dots / 2**0.5).exp())
    assert shows("; ".join(step["sum"][1:]), *weights[0]) and shows(step["sum"][0], (dots / 2**0.5).exp().sum().item())
    angle = math.degrees(math.atan2(output[0, 1], output[0, 0]))
    assert says("ch03", "**({}, {})**. Its angle is now {}°", *output[0].tolist(), angle)
    keys = torch.stack([crane, steel])
    other = ours.scaled_dot_product_attention(crane[None], keys, keys)[0][0]
    assert says("ch03", "= **({}, {})**, at {}°", *other.tolist(), 90 - angle)


def test_attention_over_four_words(ours):
    heading = "A worked example"
    tokens, projected, scores, scaled, masked, weights, output = (table_in("ch03", heading, place) for place in range(7))
    x = numbers(tokens)
    text = (EXERCISES / "ch03_attention.md").read_text(encoding="utf-8")
    brackets = [[float(number) for number in row.split()] for row in re.findall(r"\[((?:[01] ){2}[01])\]", text)[:6]]
    maps = [T([brackets[which], brackets[which + 3]]) for which in range(3)]  # W_q, W_k, W_v, printed side by side
    q, k, v = (x @ W.T for W in maps)
    mask = ours.causal_mask(4)
    found, found_weights = ours.scaled_dot_product_attention(q, k, v, mask)
    assert show_rows(projected, torch.cat([q, k, v], 1))
    assert show_rows(scores, q @ k.T) and show_rows(scaled, q @ k.T / 2**0.5)
    assert show_rows(masked, (q @ k.T / 2**0.5).masked_fill(~mask, -math.inf))
    assert show_rows(weights, found_weights) and show_rows(output, found)
    powers = (q @ k.T / 2**0.5)[3].exp()
    assert says("ch03", "The last row gives {}, 1, 1 and {}, with the sum {}.", powers[0], powers[3], powers.sum())
    head = ours.SelfAttentionHead(3, 2)
    head.qkv.weight.data = torch.cat(maps)
    free = head(x[None])[0]
    sentence = "given above without the mask: ({}, {}) and ({}, {}). For `for` and `the` they are ({}, {}) and ({}, {})."
    assert says("ch03", sentence, *free[[0, 3, 1, 2]].flatten().tolist())
    assert says("ch03", "would give {} of its weight to `crane`", ours.scaled_dot_product_attention(q, k, v)[1][0, 3])


def test_the_mask_comes_before_the_softmax(ours):
    before, after = table_in("ch03", "Why the mask comes before the softmax")
    scores, allowed = T([2.0, 1.0, 3.0]), T([True, True, False])
    right = ours.softmax(scores.masked_fill(~allowed, -math.inf))
    wrong = ours.softmax(scores) * allowed
    assert shows("; ".join(before[1:]), *right, right.sum()) and shows("; ".join(after[1:]), *wrong, wrong.sum())
    assert says("ch03", "the two remaining weights would be {} and {}.", *ours.softmax(T([2.0, 1.0, 5.0]))[:2].tolist())


def test_two_heads_of_two_positions(ours):
    right, wrong = table_in("ch03", "Splitting (1, 4, 768) into twelve heads")
    x = torch.arange(12).view(1, 2, 6)
    for row, heads in ((right, ours.split_heads(x, 2)), (wrong, x.reshape(1, 2, 2, 3))):
        assert [value for cell in row[1:] for value, _ in shown(cell)] == heads.flatten().tolist()
    with torch.device("meta"):
        whole = ours.MultiHeadAttention(768, 12)
    assert says("ch03", "four biases of 768, together {}.", sum(parameter.numel() for parameter in whole.parameters()))


# ---- chapter 4


def test_rotations_and_scores(ours):
    angles = ours.rope_angles(torch.arange(4), 8)
    assert show_rows(table_in("ch04", "How fast each pair rotates"), angles)
    pair = T([[3.0, 1.0]]).expand(4, 2)
    turned = ours.apply_rope(pair, torch.arange(4))
    assert show_rows(table_in("ch04", "One pair, rotated by hand"), torch.cat([turned, turned.norm(dim=-1, keepdim=True)], 1))
    query, key = T([[2.0, 1.0]]), T([[1.0, 1.0]])
    for row in table_in("ch04", "Scores depend only on the distance"):
        q, k = ours.apply_rope(query, T([int(row[0])])), ours.apply_rope(key, T([int(row[1])]))
        assert shows("; ".join(row[2:]), *q[0], *k[0], (q @ k.T).item()), row
    values = ours.apply_rope(pair[:2], torch.arange(2)).mean(0)
    assert says("ch04", "and their average is ({}, {}).", *values.tolist())


def test_slopes_and_biases(ours):
    slopes = ours.alibi_slopes(4).tolist()
    for row, slope in zip(table_in("ch04", "Four slopes by hand"), slopes, strict=True):
        assert shows("; ".join(row[2:]), slope, slope, math.log(2) / slope)
    assert "1/4, 1/16, 1/64, 1/256, 1/2, 1/8" in (EXERCISES / "ch04_positions_in_attention.md").read_text(encoding="utf-8")
    assert ours.alibi_slopes(6).tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    bias = ours.alibi_bias(4, 4, 4)
    assert show_rows(table_in("ch04", "The bias of one head"), bias[0])
    assert show_rows(table_in("ch04", "The bias of one head", 1), bias[[0, 3], -1].softmax(-1))
    assert says("ch04", "is {}, {}, {} and 1, and the sum is {}.", *bias[0, -1, :3].exp().tolist(), bias[0, -1].exp().sum().item())


# ---- chapter 5


def test_gelu(ours):
    heading = "gelu of 1 and of -1"
    x = T([1.0, -1.0])
    root, erf, below, found = table_in("ch05", heading)
    assert shows("; ".join(root[1:]), *(x / 2**0.5)) and shows("; ".join(erf[1:]), *torch.erf(x / 2**0.5))
    assert shows("; ".join(below[1:]), *(0.5 + torch.erf(x / 2**0.5) / 2)) and shows("; ".join(found[1:]), *ours.gelu(x))
    assert says("ch05", "gelu(3) is {}, and gelu(-3) is {}.", *ours.gelu(T([3.0, -3.0])).tolist())
    assert says("ch05", "= **{}** (and {} for -1)", *ours.gelu(x, approximate=True).tolist())
    far = torch.linspace(-5, 5, 100_001, dtype=torch.float64)
    apart = (ours.gelu(far) - ours.gelu(far, approximate=True)).abs()
    assert says("ch05", "difference between the two forms is {}, at x = ±{}.", apart.max().item(), far[apart.argmax()].abs().item())
    least, silu = ours.gelu(far), far * far.sigmoid()
    bottom = [least.min().item(), far[least.argmin()].item(), silu.min().item(), far[silu.argmin()].item()]
    assert says("ch05", "gelu to {} at {}, silu to {} at {}.", *bottom)


def test_dropout_of_four_numbers():
    x, drawn, kept, result = table_in("ch05", "Dropout of four numbers")
    values = [value if chance >= 0.5 else 0.0 for (value, _), (chance, _) in zip(*(shown("; ".join(row[1:])) for row in (x, drawn)))]
    assert shows("; ".join(result[1:]), *(value / 0.5 for value in values))
    assert [cell == "yes" for cell in kept[1:]] == [bool(value) for value in values]


def test_norms(ours):
    norm, rms = ours.LayerNorm(3), ours.RMSNorm(3)
    x = T([1.0, 2.0, 6.0])
    plain = norm(x)
    norm.weight.data, norm.bias.data = T([2.0, 1.0, 0.5]), T([0.0, 1.0, 0.0])
    first, _, _, variance, divided, weighted, biased = table_in("ch05", "LayerNorm of (1, 2, 6)")
    assert shows("; ".join(first[1:]), *x) and shows(variance[0].partition("=")[2], (x - 3).square().mean(), (x - 3).square().mean().sqrt())
    assert shows("; ".join(divided[1:]), *plain) and shows("; ".join(weighted[1:]), *(norm(x) - norm.bias)) and shows("; ".join(biased[1:]), *norm(x))
    assert says("ch05", "the variance would be 7 and the row {}, {}, {}.", *((x - 3) / x.std()).tolist())
    small = x / 1000
    deviations, eps = small - small.mean(), 1e-5
    spread = deviations.square().mean()
    divisors = [(spread + eps).sqrt(), spread.sqrt() + eps, (spread.sqrt() + eps).sqrt()]
    for row, divisor in zip(table_in("ch05", "LayerNorm of (1, 2, 6)", 1), divisors, strict=True):
        assert shows("; ".join(row[1:]), divisor, *(deviations / divisor))
    _, squared, mean, result = table_in("ch05", "RMSNorm of the same vector")
    assert shows("; ".join(squared[1:]), *x.square()) and shows(mean[0].partition("=")[2], x.square().mean(), x.square().mean().sqrt())
    assert shows("; ".join(result[1:]), *rms(x)) and says("ch05", "but (11, 12, 16) gives {}, {}, {}.", *rms(x + 10).tolist())
    half = T([300.0, -300.0, 200.0], dtype=torch.float16)
    assert says("ch05", "convert back to float16, the result is {}, {}, {}.", *rms(half).tolist())


def test_feed_forward_and_gate(ours):
    wide = ours.FeedForward(2, 3)
    wide.up.weight.data, wide.down.weight.data = T([[1.0, 1], [1, -1], [-1, 1]]), T([[1.0, 0, 1], [0, 1, 1]])
    wide.up.bias.data.zero_(), wide.down.bias.data.zero_()
    assert says("ch05", "0.8413 - 0.1587) = **({}, {})**.", *wide(T([2.0, 1.0])).tolist())
    gate = ours.SwiGLU(1, 1)
    gate.up.weight.data, gate.gate.weight.data, gate.down.weight.data = T([[3.0]]), T([[1.0]]), T([[1.0]])
    for row in table_in("ch05", "The gate"):
        g = shown(row[0])[0][0]
        silu = g / (1 + math.exp(-g))
        gate.gate.weight.data = T([[g]])
        assert shows("; ".join(row[1:]), silu, 3 * silu) and gate(T([1.0])).item() == pytest.approx(3 * silu)


def test_parameters_of_feed_forward_layers(ours):
    with torch.device("meta"):
        made = [ours.FeedForward(768), ours.SwiGLU(768, 2048), ours.SwiGLU(768, 3072)]
    for row, layer in zip(table_in("ch05", "What it costs"), made, strict=True):
        assert shown(row[2])[-1][0] == sum(parameter.numel() for parameter in layer.parameters())


# ---- chapter 6


def test_blocks_by_hand(ours):
    x = numbers(table_in("ch06", "A worked example"))

    def make(kind):
        block = kind(4, 1, d_ff=4, activation="relu").requires_grad_(False)
        for name, parameter in block.named_parameters():
            parameter.zero_() if name.endswith("bias") or "W_q" in name or "W_k" in name else None
        for linear in (block.attn.W_v, block.attn.W_out, block.ffn.up, block.ffn.down):
            linear.weight.copy_(torch.eye(4))
        return block

    pre, post = make(ours.PreNormBlock), make(ours.PostNormBlock)
    normed = pre.ln1(x)
    stream = x + pre.attn(normed[None])[0]
    assert show_rows(table_in("ch06", "A worked example", 1), torch.cat([normed, stream - x, stream], 1))
    second = pre.ln2(stream)
    assert show_rows(table_in("ch06", "A worked example", 2), torch.cat([second, pre.ffn(second), pre(x[None])[0]], 1))
    summed = x + post.attn(x[None])[0]
    h = post.ln1(summed)
    assert show_rows(table_in("ch06", "A worked example", 3), torch.cat([summed, h, h + post.ffn(h), post(x[None])[0]], 1))


def test_parameters_of_blocks(ours):
    with torch.device("meta"):
        block, encoder, decoder = ours.PreNormBlock(768, 12), ours.EncoderBlock(512, 8, 2048), ours.DecoderBlock(512, 8, 2048)
    size = {name: sum(p.numel() for p in part.parameters()) for name, part in (("attn", block.attn), ("ffn", block.ffn), ("all", block))}
    norms = size["all"] - size["attn"] - size["ffn"]
    said = [shown(row[1])[0][0] for row in table_in("ch06", "What a block costs")]
    assert said == [size["attn"], size["ffn"], norms, size["all"], 12 * size["all"]]
    counts = [sum(p.numel() for p in part.parameters()) for part in (encoder, decoder)]
    assert says("ch06", "encoder block has {} parameters and a decoder block {}.", *counts)
