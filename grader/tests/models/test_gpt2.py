"""A downloaded GPT-2 in the learner's GPT, and its tokenizer, against Hugging Face's; and what a wrong folder is answered with. Nothing is downloaded."""

from __future__ import annotations

import json
import shutil
import unicodedata
from pathlib import Path

import pytest
import torch
from grader.chapters import corpora
from grader.course.syllabus import EXERCISES
from grader.models.checkpoint import CheckpointProblem
from grader.models.file_values import show
from grader.models.gpt2 import GPT2Tokenizer, byte_alphabet, load_folder, read_tokenizer
from grader.teaching.walks.parts import MixedChapters
from grader.tests.fuzzing import fuzzed
from grader.tests.reference.agreement import sharpened
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast
from transformers import GPT2Tokenizer as HuggingFaceTokenizer

VOCAB_SIZE = 700
SIZES = dict(n_positions=48, n_embd=24, n_head=3, n_layer=2)


def write_tokenizer(folder: Path) -> None:
    """`vocab.json` and `merges.txt` of a byte-level BPE that is trained on shipped texts."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - 1, initial_alphabet=alphabet, show_progress=False)
    lessons = (path.read_text(encoding="utf-8") for path in sorted(EXERCISES.glob("*.md")))
    bpe.train_from_iterator([*lessons, *(f"{english} {hindi}" for english, hindi in corpora.ENGLISH_HINDI)], trainer)
    bpe.model.save(str(folder))
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    vocab["<|endoftext|>"] = len(vocab)  # the last id, as in the published vocabulary
    assert len(vocab) == VOCAB_SIZE
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")


def make_model(**config) -> GPT2LMHeadModel:
    torch.manual_seed(3)
    return sharpened(GPT2LMHeadModel(GPT2Config(**SIZES | dict(vocab_size=VOCAB_SIZE, bos_token_id=None, eos_token_id=None) | config)))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    write_tokenizer(folder)
    model = make_model()
    model.save_pretrained(folder)
    return folder, model


@pytest.fixture
def folder(published, tmp_path):
    return shutil.copytree(published[0], tmp_path / "gpt2")


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def sentence(folder, parts) -> str:
    with pytest.raises(CheckpointProblem) as caught:
        load_folder(folder, parts)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(folder), "FOLDER")


@torch.no_grad()
def assert_same(model, other, ids):
    torch.testing.assert_close(model(ids)[0], other(ids).logits, rtol=1e-4, atol=1e-4)


def test_logits_and_greedy_texts_equal_hugging_faces(published, parts):
    folder, other = published
    loaded = load_folder(folder, parts)
    model, tokenizer, design = loaded.model, loaded.tokenizer, loaded.design
    assert not model.training and design.activation == "gelu_tanh" and design.tie_weights
    assert (design.max_len, design.n_heads, design.n_layers) == (SIZES["n_positions"], SIZES["n_head"], SIZES["n_layer"])
    assert_same(model, other, torch.randint(VOCAB_SIZE, (3, SIZES["n_positions"])))
    for prompt in ("Attention is", "लड़का दूध"):
        ids = torch.tensor([tokenizer.encode(prompt)])
        theirs = other.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0)
        own = parts.generate(model, ids, 20, temperature=0)
        assert tokenizer.decode(own[0].tolist()) == tokenizer.decode(theirs[0].tolist())


def test_names_without_a_prefix_are_read(published, parts, tmp_path):
    """openai-community/gpt2 itself has names without `transformer.`, and masks among its tensors."""
    folder, other = published
    ids = torch.randint(VOCAB_SIZE, (2, 9))
    plain = tmp_path / "plain"
    other.transformer.save_pretrained(plain)
    shutil.copy(folder / "vocab.json", plain)
    shutil.copy(folder / "merges.txt", plain)
    tensors = load_file(plain / "model.safetensors")
    assert "wte.weight" in tensors
    save_file(tensors | {"h.0.attn.bias": torch.ones(1, 1, 48, 48)}, plain / "model.safetensors")
    assert_same(load_folder(plain, parts).model, other, ids)


def test_an_untied_head_and_the_exact_gelu_are_read(published, parts, tmp_path):
    folder, _ = published
    untied = shutil.copytree(folder, tmp_path / "untied")
    other = make_model(tie_word_embeddings=False, activation_function="gelu")
    other.save_pretrained(untied)
    loaded = load_folder(untied, parts)
    assert not loaded.design.tie_weights and loaded.design.activation == "gelu"
    assert_same(loaded.model, other, torch.randint(VOCAB_SIZE, (2, 9)))


def test_a_folder_without_its_files_is_answered_with_a_sentence(folder, parts, tmp_path):
    assert "there is no folder" in sentence(tmp_path / "nowhere", parts)
    for name in ("merges.txt", "vocab.json", "config.json", "model.safetensors"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert sentence(folder, parts).startswith(f"FOLDER has no {name}; download model.safetensors, vocab.json, merges.txt and config.json of openai-community/gpt2")
        (folder / name).write_bytes(content)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "Headway opens no pickle such as pytorch_model.bin" in sentence(folder, parts)


def test_a_damaged_file_is_answered_with_a_sentence(folder, parts):
    good = (folder / "model.safetensors").read_bytes()
    for bad in (b"", good[: len(good) // 2], b"PK\x03\x04" + good):
        (folder / "model.safetensors").write_bytes(bad)
        assert sentence(folder, parts) == "FOLDER/model.safetensors is damaged, cut off, or no safetensors file; download it again"
    (folder / "model.safetensors").write_bytes(good)
    merges = (folder / "merges.txt").read_text(encoding="utf-8")
    for bad in (merges + "qqq zzz\n", merges + "one\n"):
        (folder / "merges.txt").write_text(bad, encoding="utf-8")
        assert "FOLDER/vocab.json and merges.txt are damaged" in sentence(folder, parts)
    for bad in ("{", "[]", '{"a": "b"}', '{"a": 1, "b": 1}', '{"a": 0}', '{"two words": 0}', "[" * 100_000):
        (folder / "vocab.json").write_text(bad)
        assert sentence(folder, parts).startswith("FOLDER/vocab.json")


def test_a_model_of_another_kind_is_answered_with_a_sentence(folder, parts):
    change_config(folder, model_type="llama")
    assert "config.json says model_type = 'llama', which your GPT does not have" in sentence(folder, parts)
    for name, value in (("activation_function", "silu"), ("activation_function", []), ("layer_norm_epsilon", 1e-6), ("scale_attn_weights", False)):
        change_config(folder, model_type="gpt2", activation_function="gelu_new", layer_norm_epsilon=1e-5, **{})
        change_config(folder, **{name: value})
        assert f"config.json says {name} = {show(value)}, which your GPT does not have" in sentence(folder, parts)
    change_config(folder, scale_attn_weights=True, n_head=5)
    assert "FOLDER/config.json does not fit the weights: 5 heads do not divide d_model = 24" in sentence(folder, parts)
    change_config(folder, n_head=3)
    save_file({"model.embed_tokens.weight": torch.ones(3, 3)}, folder / "model.safetensors")
    assert "not the weights of a GPT-2, because there is no matrix wte.weight" in sentence(folder, parts)


def test_tensors_that_do_not_fit_are_answered_with_a_sentence(folder, parts):
    tensors = load_file(folder / "model.safetensors")
    layer = "transformer.h.1.ln_1.weight"
    save_file({name: tensor for name, tensor in tensors.items() if name != layer}, folder / "model.safetensors")
    assert "load_gpt2 refuses these weights: the state dict has no h.1.ln_1.weight" in sentence(folder, parts)
    save_file(tensors | {"transformer.wte.weight": tensors["transformer.wte.weight"][:300].clone()}, folder / "model.safetensors")
    assert f"vocab.json has {VOCAB_SIZE} tokens, but the weights have 300" in sentence(folder, parts)


# ---- the tokenizer, with merges that are trained on shipped texts


ALPHABET = byte_alphabet()
ASSIGNED = st.characters(exclude_categories=("Cn", "Cs"))  # versions of Unicode disagree about characters that are not assigned
SCRIPTS = "éßпрмגשعربहिन्दी中文字かな한국ไทย" + "e\u0301a\u0308" + "😀👩\u200d👩🏽❤\ufe0f" + "٣४五Ⅷ½²" + "\u00a0\u3000\u2009\u2028\x85\x1c\x1f\u200b\ufeff\x00"
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "’s", " '", "  ", " \n", "\n\n", "\t", "the", " the", " 12", "12a", "...", "<|endoftext|>", "<|endof", "�"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.sampled_from(SCRIPTS) | st.sampled_from("aest 019.!?\n ") | ASSIGNED, max_size=30).map("".join)


@pytest.fixture(scope="module")
def own(published, parts) -> GPT2Tokenizer:
    return read_tokenizer(published[0], parts)


@pytest.fixture(scope="module")
def others(published):
    return [kind.from_pretrained(published[0]) for kind in {HuggingFaceTokenizer, GPT2TokenizerFast}]  # one class since transformers 5


def test_ids_and_text_equal_hugging_faces(own, others):
    @fuzzed(100)
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

    @fuzzed(50)
    @given(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=12))
    def compare(ids):
        assert {own.decode(ids)} == {other.decode(ids, clean_up_tokenization_spaces=False) for other in others}

    compare()


def published_pieces(text: str) -> list[str]:
    return [piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]


def own_pieces(parts: MixedChapters, text: str) -> list[str]:
    """The pieces in the byte alphabet."""
    return ["".join(ALPHABET[byte] for byte in piece.encode()) for piece in parts.split_for_bpe(text)]


def test_characters_of_every_kind_are_split_as_published(parts):
    """All of the small categories of Unicode, and some of the large ones."""
    kinds: dict[str, list[str]] = {}
    for character in map(chr, range(0x110000)):
        kinds.setdefault(unicodedata.category(character), []).append(character)
    chosen = [c for kind, members in kinds.items() if kind not in ("Cn", "Cs", "Co") for c in members[:: 1 + len(members) // 1000]]
    text = "".join(f"a{c}1 {c}  {c}" for c in chosen)
    assert own_pieces(parts, text) == published_pieces(text)


def test_tokenizers_with_equal_files_have_equal_fingerprints(own, published, parts):
    assert read_tokenizer(published[0], parts).fingerprint == own.fingerprint
    assert GPT2Tokenizer(own.vocab, own.merges[:-1], own.split).fingerprint != own.fingerprint
