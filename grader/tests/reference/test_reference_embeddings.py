"""Chapters 1 and 2 of the reference against the outside world: Hugging Face tokenizers, nn.Embedding, the formula in double precision."""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import nn

CORPUS = (
    "she sells sea shells by the sea shore; the shells she sells are sea shells, I'm sure.\n"
    "So if she sells sea shells on the sea shore, then I'm sure she sells sea shore shells.\n"
    "Größe, größer, am größten: über süße Äpfel für Östliche Bären.\n"
    "नमस्ते दुनिया, नमस्ते नमस्ते! 🙂🙂🙃 aaaaaaa bbbb\t\t\tend\n"
) * 2

TEXTS = [
    "", "a", "she", "sea shells", "shells she sells", "the shore of the sea", CORPUS, CORPUS[::-1], "aaaaa", "aaaaaa aaaaaaa", "größter", "Äpfel",
    "नमस्ते", "नम", "🙂🙃🙂", "\x00\x7f\n\t ", "日本語 and English", "se" * 40, "  she  ", "tab\tend", "é", "e\u0301", "\U0010ffff", "🏴‍☠️",
]  # fmt: skip


@pytest.fixture(scope="module")
def chapter():
    """A function that imports a chapter of the reference."""
    packages = []

    def get(name: str):
        found = load_syllabus().chapter(name)
        packages.append(ChapterPackage(package_sources(resolve("solutions"), found, whole=True), "tested"))
        return packages[-1].module(found.name)

    yield get
    for package in packages:
        package.close()


def letters() -> list[str]:
    """The visible character that GPT-2 writes for each byte: the byte itself if it prints, else one from 256 on."""
    prints = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte if byte in prints else next(others)) for byte in range(256)]


def huggingface(merges: dict[tuple[int, int], int]) -> Tokenizer:
    """Hugging Face's byte-level BPE with our merges and our ids, the text in one piece."""
    names = letters()
    for left, right in merges:
        names.append(names[left] + names[right])
    assert len(set(names)) == len(names), "two merges make the same token: their names would share an id"
    pairs = [(names[left], names[right]) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_the_byte_alphabet_is_theirs():
    assert sorted(letters()) == sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize("vocab_size", [256, 257, 270, 320, 400])
def test_encoding_agrees_with_tokenizers(chapter, vocab_size):
    ch01 = chapter("ch01")
    merges = ch01.train_bpe(CORPUS, vocab_size)
    ours, theirs = ch01.BPETokenizer(merges), huggingface(merges)
    assert ours.vocab_size == theirs.get_vocab_size() == vocab_size
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == theirs.encode(text).ids
        assert ours.decode(ids) == theirs.decode(ids) == text


def test_encoding_agrees_on_random_text(chapter):
    ch01 = chapter("ch01")
    merges = ch01.train_bpe(CORPUS, 400)
    ours, theirs = ch01.BPETokenizer(merges), huggingface(merges)
    generator = torch.Generator().manual_seed(2)
    pieces = sorted({CORPUS[i : i + n] for i in range(0, 300) for n in (1, 2, 3)})
    for _ in range(200):
        text = "".join(pieces[i] for i in torch.randint(len(pieces), (30,), generator=generator).tolist())
        assert ours.encode(text) == theirs.encode(text).ids


def test_broken_bytes_decode_alike(chapter):
    ch01 = chapter("ch01")
    merges = ch01.train_bpe(CORPUS, 300)
    ours, theirs = ch01.BPETokenizer(merges), huggingface(merges)
    generator = torch.Generator().manual_seed(3)
    for _ in range(200):
        ids = torch.randint(ours.vocab_size, (12,), generator=generator).tolist()
        assert ours.decode(ids) == theirs.decode(ids)


@pytest.mark.parametrize(
    "text",
    [
        "she_sells_sea_shells_by_the_sea_shore;the_shells_she_sells_are_sea_shells,I'm_sure",
        "abracadabra,abracadabra;cadabra!",
        "to_be_or_not_to_be,that_is_the_question:whether_'tis_nobler_in_the_mind_to_suffer",
    ],
)
def test_training_agrees_with_tokenizers(chapter, text):
    """Printing ASCII only: in it their order of characters is the order of bytes, so ties are resolved alike."""
    merges = chapter("ch01").train_bpe(text, 300)
    names = letters()
    for left, right in merges:
        names.append(names[left] + names[right])
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator([text], trainers.BpeTrainer(vocab_size=300, min_frequency=2, initial_alphabet=alphabet, show_progress=False))
    learned = [tuple(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    assert len(merges) > 4
    assert [(names[left], names[right]) for left, right in merges] == learned


def test_words_agree_with_tokenizers(chapter):
    ch01 = chapter("ch01")
    vocab = ch01.build_vocab(["The crane swallowed a fish", "the Crane lifted\tsteel\n", "<unk>"])
    ours = ch01.WordTokenizer(vocab, unk="<unk>")
    theirs = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocab)}, unk_token="<unk>"))
    theirs.normalizer, theirs.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.WhitespaceSplit()
    for text in ("the crane", "THE  steel\n\tfish", "a whale swallowed the crane", "", "   "):
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("scale", [False, True])
def test_token_embedding_agrees_with_torch(chapter, scale):
    ours, theirs = chapter("ch02").TokenEmbedding(11, 6, scale), nn.Embedding(11, 6)
    theirs.load_state_dict(ours.state_dict())
    ids = torch.tensor([[3, 10, 0, 3], [3, 7, 7, 1]])
    factor = math.sqrt(6) if scale else 1.0
    torch.testing.assert_close(ours(ids), theirs(ids) * factor)
    cotangent = torch.randn(2, 4, 6)
    ours(ids).backward(cotangent)
    (theirs(ids) * factor).backward(cotangent)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_learned_positions_agree_with_torch(chapter):
    ours, theirs = chapter("ch02").LearnedPositions(9, 6), nn.Embedding(9, 6)
    theirs.load_state_dict(ours.state_dict())
    x, cotangent = torch.randn(3, 4, 6), torch.randn(3, 4, 6)
    for start in (0, 5):
        ours.zero_grad()
        theirs.zero_grad()
        torch.testing.assert_close(ours(x, start=start), x + theirs(torch.arange(start, start + 4)))
        ours(x, start=start).backward(cotangent)
        (x + theirs(torch.arange(start, start + 4))).backward(cotangent)
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize(("max_len", "d_model", "tolerance"), [(1, 1, 1e-6), (16, 7, 2e-6), (64, 512, 1e-5), (2048, 96, 4e-4), (2048, 33, 4e-4)])
def test_waves_agree_with_the_formula_in_double_precision(chapter, max_len, d_model, tolerance):
    """float32 angles of 2048 radians are exact to about 1e-4: the tolerance grows with the position."""
    table = chapter("ch02").sinusoidal_positions(max_len, d_model)
    assert table.shape == (max_len, d_model) and table.dtype == torch.float32
    for p in range(0, max_len, max(1, max_len // 50)):
        for column in range(d_model):
            angle = p * math.exp(-math.log(10000) * (column - column % 2) / d_model)
            assert abs(table[p, column].item() - (math.cos if column % 2 else math.sin)(angle)) <= tolerance


def test_waves_at_a_distance_are_one_rotation(chapter):
    """A matrix that depends only on the distance maps each row to the row k positions later."""
    table = chapter("ch02").sinusoidal_positions(200, 16).double()
    for k in (1, 17, 90):
        angles = [k * 10000 ** (-2 * i / 16) for i in range(8)]
        turn = torch.block_diag(*[torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]], dtype=torch.float64) for a in angles])
        torch.testing.assert_close(table[:-k] @ turn.T, table[k:], atol=5e-5, rtol=0)


def test_wave_layer_trains_and_saves_nothing_and_moves(chapter):
    ch02 = chapter("ch02")
    short, long = ch02.SinusoidalPositions(8, 6), ch02.SinusoidalPositions(32, 6)
    assert not list(short.parameters()) and not short.state_dict()
    long.load_state_dict(short.state_dict())
    x = torch.randn(2, 8, 6)
    torch.testing.assert_close(long(x), short(x))
    torch.testing.assert_close(copy.deepcopy(short)(x), short(x))
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        assert short(x.to(dtype)).dtype == dtype
    assert short.to("meta")(x.to("meta")).device.type == "meta"


def test_positions_leave_no_trace_in_their_input(chapter):
    ch02 = chapter("ch02")
    x = torch.randn(2, 4, 6)
    for module in (ch02.LearnedPositions(8, 6), ch02.SinusoidalPositions(8, 6)):
        before = x.clone()
        module(x, start=2)
        assert torch.equal(x, before)
        with pytest.raises(ValueError, match="8"):
            module(x, start=5)
