"""The tokenizers of chapters 1 and 16 against Hugging Face's: the same ids, the same text, the same merges."""

from __future__ import annotations

import importlib.util
import json
import unicodedata

import pytest
import torch
from grader.chapters.ch16_published_model.published.opening import PACKAGE, find_source
from grader.models.gpt2 import byte_alphabet
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = (
    "she sells sea shells by the sea shore; the shells she sells are sea shells, I'm sure.\n"
    "So if she sells sea shells on the sea shore, then I'm sure she sells sea shore shells.\n"
    "Größe, größer, am größten: über süße Äpfel für Östliche Bären.\n"
    "नमस्ते दुनिया, नमस्ते नमस्ते! 🙂🙂🙃 aaaaaaa bbbb\t\t\tend\n"
) * 2
TEXTS = [
    "", "a", "she", "sea shells", "shells she sells", "the shore of the sea", CORPUS, CORPUS[::-1], "aaaaa",
    "aaaaaa aaaaaaa", "größter", "Äpfel", "नमस्ते", "नम", "🙂🙃🙂", "\x00\x7f\n\t ", "日本語 and English",
    "se" * 40, "  she  ", "tab\tend", "é", "e\u0301", "\U0010ffff", "🏴‍☠️",
]  # fmt: skip


def names_of(merges: dict[tuple[int, int], int]) -> list[str]:
    names = [byte_alphabet()[byte] for byte in range(256)]
    for left, right in merges:
        names.append(names[left] + names[right])
    return names


def huggingface(merges: dict[tuple[int, int], int]) -> Tokenizer:
    """Hugging Face's byte-level BPE with our merges and our ids, the text in one piece."""
    names = names_of(merges)
    assert len(set(names)) == len(names), "two merges make the same token: their names would share an id"
    pairs = [(names[left], names[right]) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize("vocab_size", [256, 257, 400])
def test_byte_pair_encoding_is_hugging_faces(ours, vocab_size):
    merges = ours.train_bpe(CORPUS, vocab_size)
    mine, theirs = ours.BPETokenizer(merges), huggingface(merges)
    assert mine.vocab_size == theirs.get_vocab_size() == vocab_size
    pieces = sorted({CORPUS[i : i + n] for i in range(0, 300) for n in (1, 2, 3)})
    mixed = ["".join(pieces[i] for i in torch.randint(len(pieces), (30,)).tolist()) for _ in range(50)]
    for text in TEXTS + mixed:
        ids = mine.encode(text)
        assert ids == theirs.encode(text).ids
        assert mine.decode(ids) == theirs.decode(ids) == text
    for _ in range(100):  # broken characters too
        ids = torch.randint(vocab_size, (12,)).tolist()
        assert mine.decode(ids) == theirs.decode(ids)


@pytest.mark.parametrize(
    "text",
    [
        "she_sells_sea_shells_by_the_sea_shore;the_shells_she_sells_are_sea_shells,I'm_sure",
        "abracadabra,abracadabra;cadabra!",
        "to_be_or_not_to_be,that_is_the_question:whether_'tis_nobler_in_the_mind_to_suffer",
    ],
)
def test_training_learns_hugging_faces_merges(ours, text):
    """Printing ASCII only: in it their order of characters is the order of bytes, so ties are resolved alike."""
    merges = ours.train_bpe(text, 300)
    names = names_of(merges)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    options = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    theirs.train_from_iterator([text], trainers.BpeTrainer(vocab_size=300, min_frequency=2, **options))
    learned = [tuple(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    assert len(merges) > 4
    assert [(names[left], names[right]) for left, right in merges] == learned


# ---- chapter 16: SmolLM2 cuts at digits, and then as GPT-2 does

MIXED = [
    "一个", "第五个 三百", " 一 二", "１２ 三", "²³ ½¼", "ⅧⅨ Ⅻ", "٣٤ ५६", "the 12th in 3, 45", "7  the\n\n 8", "零〇", "x² + y² = 25",
    "she sells 40 shells", "a <|endoftext|> b", "<|im_end|>", "isn't it 'sure", "🙂🙃 2", "c'est 1'200",
]  # fmt: skip


def as_smollm(tokenizer: Tokenizer) -> Tokenizer:
    cuts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Sequence(cuts), decoders.ByteLevel()
    return tokenizer


def test_the_published_tokenizer_is_hugging_faces(ours):
    theirs = as_smollm(Tokenizer(models.BPE()))
    options = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    theirs.train_from_iterator([*TEXTS, *MIXED] * 3, trainers.BpeTrainer(vocab_size=700, **options))
    vocabulary, merges = theirs.get_vocab(), json.loads(theirs.to_str())["model"]["merges"]
    mine = ours.PublishedTokenizer(sorted(vocabulary, key=vocabulary.get), [" ".join(pair) for pair in merges])
    assert len(mine.encode("一个")) == 1 < len(mine.encode("½¼"))
    for text in [*TEXTS, *MIXED]:
        ids = mine.encode(text)
        assert ids == theirs.encode(text).ids, text
        assert mine.decode(ids) == theirs.decode(ids, skip_special_tokens=False) == text


def test_it_cuts_at_the_digits_that_hugging_face_cuts_at(ours):
    """Each character that is a numeral in some sense, twice: the only merge that could join its two bytes applies, or not."""
    numerals = [c for c in map(chr, range(0x110000)) if c.isnumeric() and c > "~"]
    digits = pre_tokenizers.Digits(individual_digits=True)
    names = byte_alphabet()
    for c in numerals:
        last, first = names[c.encode()[-1]], names[c.encode()[0]]
        mine = ours.PublishedTokenizer([*names.values(), last + first], [f"{last} {first}"])
        is_cut = 256 not in mine.encode(c + c)
        assert is_cut == (len(digits.pre_tokenize_str(c + c)) == 2) == unicodedata.category(c).startswith("N"), c


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed")
def test_ids_of_smollm2_are_hugging_faces(ours):
    source = find_source(None)
    merges = [tuple(merge.split(" ")) for merge in source.merges]
    theirs = as_smollm(Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(source.tokens)}, merges=merges)))
    mine = ours.PublishedTokenizer(source.tokens, source.merges, source.special)
    assert mine.encode("一个") == [43340]
    for text in [*TEXTS, *MIXED]:
        assert mine.encode(text) == theirs.encode(text).ids, text
