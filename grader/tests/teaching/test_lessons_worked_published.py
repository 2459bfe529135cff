"""The numbers that lesson 16 works out by hand are what the reference computes. Ids need the published vocabulary."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from grader.course.syllabus import EXERCISES
from grader.models.published.opening import PACKAGE, find_source
from lesson_tables import says, shown, table_in

LESSON = (EXERCISES / "ch16_published_model.md").read_text(encoding="utf-8")
WITH_WEIGHTS = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed")


def test_the_block_of_4_bit_weights(ours):
    rows = table_in("ch16", "A block of 4-bit weights")
    raw, low, high = [], [], []
    for places, value, meaning in rows:
        first, _, last = places.replace(",", " to").partition(" to ")
        count = 1 + int(last or first) - int(first)
        numbers = [int(number) for number, _ in shown(value)]
        if "=" in value:
            byte, left, sixteen, right = numbers
            assert byte == left * sixteen + right and meaning == f"low bits {right}, high bits {left}"
            raw, low, high = raw + [byte] * count, low + [right] * count, high + [left] * count
        else:
            raw += numbers
            [number] = torch.tensor(numbers, dtype=torch.uint8).view(torch.float16).tolist()
            assert meaning.endswith(f"a float16: {number}")
    weights = ours.dequantize_q4_1(torch.tensor([raw], dtype=torch.uint8))[0].tolist()
    assert weights == [0.5 * number - 3 for number in low + high] and len(raw) == 20
    assert says("ch16", "So weights 0 to 3 are {}, {}, {} and {}, and weights 16 to 19 are {}, {}, {} and {}.", *weights[:4], *weights[16:20])
    assert set(weights[4:16] + weights[20:]) == {0} and says("ch16", "One weight costs 20 · 8 / 32 = {} bits.", 20 * 8 / 32)


def test_signed_bytes(ours):
    numbers = [4, 252, 127, 128]
    block = torch.tensor([[0, 52, *numbers, *[0] * 28], [0, 56, 255, *[0] * 31]], dtype=torch.uint8)
    weights = ours.dequantize_q8_0(block)
    assert says("ch16", "the bytes {}, {}, {} and {} are the numbers {}, {}, {} and {}, and the weights {}, {}, {} and {}.",
                *numbers, *(weights[0, :4] / 0.25).tolist(), *weights[0, :4].tolist())  # fmt: skip
    assert says("ch16", "{}. As a signed byte 255 is -1,", weights[1, 0])


def test_names_of_bytes(ours):
    names = ours.byte_names()
    own = [byte for byte in names if names[byte] == chr(byte)]
    assert says("ch16", "So {} bytes are written as their own Latin-1 character, and the other {}", len(own), 256 - len(own))
    assert (names[32], names[10], "".join(names[byte] for byte in "é".encode())) == ("Ġ", "Ċ", "Ã©")
    assert "A space is `Ġ`, a line end is `Ċ`" in LESSON and says("ch16", "and `é`, the bytes {} and {}, is written", *"é".encode())


def test_the_order_of_rows(ours):
    order = [int(number) for number in ours.interleave_rows(torch.arange(8.0), 2)]
    assert says("ch16", "rows 0 to 7 become {}, {}, {}, {}, {}, {}, {}, {}.", *order)
    assert says("ch16", "the partners must be neighbours: rows {}, {}, {}, {}.", *order[:4])


def test_sizes_of_the_published_model(ours):
    with torch.device("meta"):
        model = ours.Llama(49_152, 576, 9, 3, 30, 1536, base=100_000.0)
    weights, embedding = sum(weight.numel() for weight in model.parameters()), model.token_emb.weight.numel()
    assert says("ch16", "{} · 5 / 8 = {} million bytes.", weights, weights * 5 / 8e6)
    assert says("ch16", "{} million weights take {} MB in float32.", weights / 1e6, 4 * weights / 1e6)
    assert says("ch16", "98 MB, because its embedding, a fifth of all weights, is stored with {} bits", 8.5) and 0.2 < embedding / weights < 0.22
    assert model.blocks[0].attn.W_k.weight.shape == (192, 576) and "SmolLM2: 192, 3 heads of 64" in LESSON


@WITH_WEIGHTS
def test_ids_of_texts_and_of_a_message(ours):
    source = find_source(None)
    tokenizer = ours.PublishedTokenizer(source.tokens, source.merges, source.special)
    for text, tokens, ids in table_in("ch16", "Bytes that can be seen"):
        found = tokenizer.encode(text)
        assert found == [int(i) for i in ids.split(", ")] and [source.tokens[i] for i in found] == tokens.split(", ")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi!"}]
    found = ours.chat_ids(tokenizer, messages)
    said = re.search(r"These are (\d+) ids: ([\d, ]+)\.", LESSON)
    assert int(said[1]) == len(found) and [int(i) for i in said[2].split(", ")] == found
    assert tokenizer.decode(found).rstrip("\n") == re.search(r"```text\n(.*?)\n```", LESSON, re.DOTALL)[1]
    assert "the seven tokens `<`, `|`, `im`, `_`, `end`, `|`, `>`" in LESSON
    assert [source.tokens[i] for i in tokenizer.encode("<|im_end|>")] == ["<", "|", "im", "_", "end", "|", ">"]
    assert not {ours.byte_names()[byte] for byte in (192, 193)} & set(source.tokens) and len(source.tokens) == 49_152
