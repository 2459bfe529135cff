"""GPT-2's byte-level BPE against Hugging Face's tokenizer, with merges that are trained on shipped texts."""

from __future__ import annotations

import unicodedata

import pytest
from grader.models.gpt2 import END_OF_TEXT, GPT2Tokenizer, byte_alphabet, read_tokenizer
from grader.teaching.walks.parts import Parts
from grader.tests.fuzzing import fuzzed
from grader.tests.models.published_gpt2 import VOCAB_SIZE, write_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import GPT2Tokenizer as HuggingFaceTokenizer
from transformers import GPT2TokenizerFast

ALPHABET = byte_alphabet()
ASSIGNED = st.characters(exclude_categories=("Cn", "Cs"))  # versions of Unicode disagree about characters that are not assigned
SCRIPTS = "éßпрмגשعربहिन्दी中文字かな한국ไทย" + "e\u0301a\u0308" + "😀👩\u200d👩🏽❤\ufe0f" + "٣४五Ⅷ½²" + "\u00a0\u3000\u2009\u2028\x85\x1c\x1f\u200b\ufeff\x00"
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "’s", " '", "  ", " \n", "\n\n", "\t", "the", " the", " 12", "12a", "...", "<|endoftext|>", "<|endof", "�"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.sampled_from(SCRIPTS) | st.sampled_from("aest 019.!?\n ") | ASSIGNED, max_size=30).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def parts():
    parts = Parts(("split_for_bpe",), ())
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def own(folder, parts) -> GPT2Tokenizer:
    return read_tokenizer(folder, parts)


@pytest.fixture(scope="module")
def others(folder):
    return [kind.from_pretrained(folder) for kind in {HuggingFaceTokenizer, GPT2TokenizerFast}]  # one class since transformers 5


def test_ids_and_text_equal_hugging_faces(own, others):
    @fuzzed(400)
    @given(TEXTS)
    def compare(text):
        ids = own.encode(text)
        for other in others:
            assert ids == other(text)["input_ids"]
            assert own.decode(ids) == other.decode(ids, clean_up_tokenization_spaces=False) == text
            assert "".join(own.pieces(ids)) == text

    compare()


def test_any_ids_decode_as_hugging_faces(own, others):
    """Also half a character, which becomes U+FFFD."""

    @fuzzed(200)
    @given(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=12))
    def compare(ids):
        assert {own.decode(ids)} == {other.decode(ids, clean_up_tokenization_spaces=False) for other in others}

    compare()


def published_pieces(text: str) -> list[str]:
    return [piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]


def own_pieces(parts: Parts, text: str) -> list[str]:
    """The pieces in the byte alphabet."""
    return ["".join(ALPHABET[byte] for byte in piece.encode()) for piece in parts.split_for_bpe(text)]


def test_a_text_is_split_as_published(parts):
    @fuzzed(400)
    @given(TEXTS)
    def compare(text):
        for part in text.split(END_OF_TEXT):  # the published pattern knows nothing of this mark
            assert own_pieces(parts, part) == published_pieces(part)

    compare()


def test_every_character_is_split_as_published(parts):
    kinds = {character: unicodedata.category(character) for character in map(chr, range(0x110000))}
    ideographs = [character for character, kind in kinds.items() if kind == "Lo"]  # 130,000 characters, of which a few thousand are enough
    others = [character for character, kind in kinds.items() if kind not in ("Lo", "Cn", "Cs", "Co")]
    text = "".join(f"a{c}1 {c}  {c}" for c in [*others, *ideographs[::40]])
    assert own_pieces(parts, text) == published_pieces(text)


def test_the_pieces_of_a_sentence(parts):
    text = "We'll see 3 dogs,  and\n\nshe's O'Neil "
    assert parts.split_for_bpe(text) == ["We", "'ll", " see", " 3", " dogs", ",", " ", " and", "\n", "\n", "she", "'s", " O", "'", "Neil", " "]
    assert parts.split_for_bpe("") == []


def test_the_byte_alphabet_is_the_published_one(own):
    assert set(byte_alphabet().values()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert byte_alphabet()[ord(" ")] == "Ġ" and byte_alphabet()[ord("\n")] == "Ċ"
    assert set(byte_alphabet().values()) <= own.vocab.keys()


def test_end_of_text_is_one_token(own):
    assert own.encode("a<|endoftext|>b") == [*own.encode("a"), own.end_id, *own.encode("b")]


def test_tokenizers_with_equal_files_have_equal_fingerprints(own, folder, parts):
    assert read_tokenizer(folder, parts).fingerprint == own.fingerprint
    assert GPT2Tokenizer(own.vocab, own.merges[:-1], own.split).fingerprint != own.fingerprint
