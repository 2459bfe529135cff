"""Published models on disk, against transformers and tokenizers on the same files; and what damaged files and other kinds are answered with."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import nullcontext
from dataclasses import astuple, replace
from types import SimpleNamespace

import pytest
import torch
from grader.chapters.ch16_published_model.published.opening import build, find_source
from grader.chapters.ch16_published_model.published.source import PublishedProblem
from grader.tests.models.published_models import gguf_bytes, metadata_of, reference_parts, write_model

TEXTS = ("The causal mask hides 1234 later keys.", "  two  spaces\n\n\tand a tab", "naïve café, 小猫 हिन्दी 🙂", "it's 7", "")


@pytest.fixture(scope="module")
def own():
    with reference_parts() as own:
        yield own


@pytest.fixture(scope="module", params=[dict(tied=True, num_key_value_heads=1), dict(tied=False, num_key_value_heads=4)])
def various(request, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("published"), **request.param)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def folder(small, tmp_path):
    return shutil.copytree(small.folder, tmp_path / "Tiny-Llama")


def logits(published, ids):
    with torch.no_grad():
        return published.model(ids)


def test_a_folder_is_loaded_with_the_order_of_rows_and_a_gguf_file_without(small, own):
    """The exercises whose code loads the weights are those that `headway chat` tests and counts."""
    for place, loading in ((small.gguf, {"dequantize_q8_0", "dequantize_q4_1"}), (small.folder, {"interleave_rows", "load_llama"})):
        source, used = find_source(place), set()

        def recording(name, used=used):
            def call(*arguments):
                used.add(name)
                return getattr(own.parts, name)(*arguments)

            return call

        everything = {name: recording(name) for name in ("dequantize_q8_0", "dequantize_q4_1", "interleave_rows", "load_llama")}
        source.fill(SimpleNamespace(**everything), own.parts.Llama(*astuple(source.sizes)))
        assert set(source.loading) == loading and used and used <= loading


def test_the_folder_and_the_gguf_file_have_the_logits_of_transformers(various, own):
    ids = torch.randint(0, 320, (2, 19))
    with torch.no_grad():
        expected = various.theirs(ids).logits
    for place in (various.folder, various.gguf):
        torch.testing.assert_close(logits(build(find_source(place), own), ids), expected, rtol=0, atol=2e-4)
    assert expected.std() > 0.1  # the comparison means something


@pytest.mark.parametrize("fails", [False, True])
def test_a_model_is_opened_on_one_thread_and_runs_on_as_many_as_before(small, own, fails):
    source, before, seen = find_source(small.gguf), torch.get_num_threads(), []

    def fill(parts, model):
        seen.append(torch.get_num_threads())
        if fails:
            raise PublishedProblem("it ends here")
        source.fill(parts, model)

    torch.set_num_threads(2)
    try:
        with pytest.raises(PublishedProblem, match="it ends here") if fails else nullcontext():
            build(replace(source, fill=fill), own)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_weights_in_half_precision_are_read(small, own, tmp_path):
    ids = torch.randint(0, 320, (1, 9))
    type(small.theirs).from_pretrained(small.folder, dtype=torch.bfloat16).save_pretrained(tmp_path)
    shutil.copy(small.folder / "tokenizer.json", tmp_path)
    read = build(find_source(tmp_path), own)
    assert read.model.lm_head.weight.dtype == torch.float32
    torch.testing.assert_close(logits(read, ids), logits(build(find_source(small.folder), own), ids), rtol=0, atol=0.2)


def test_texts_have_the_ids_of_tokenizers(written, own):
    for place in (written.folder, written.gguf):
        tokenizer = build(find_source(place), own).tokenizer
        for text in TEXTS:
            ids = tokenizer.encode(text)
            assert ids == written.their_tokenizer.encode(text).ids and tokenizer.decode(ids) == text


def test_huge_weights_are_read_though_their_sum_is_infinite(small, own, tmp_path):
    path, huge = tmp_path / "huge.gguf", torch.full((64,), 3e38)
    path.write_bytes(gguf_bytes(metadata_of(small.theirs.config, small.folder), small.tensors | {"output_norm.weight": (0, (64,), huge.numpy().tobytes())}))
    assert torch.equal(build(find_source(path), own).model.ln_f.weight, huge)
    path.write_bytes(path.read_bytes().replace(huge[-1:].numpy().tobytes(), torch.tensor([-torch.inf]).numpy().tobytes(), 1))
    assert "huge.gguf: output_norm.weight has values that are infinite" in problem(path, own)


# ---- damaged files


def problem(place, own=None):
    with pytest.raises(PublishedProblem) as caught:
        source = find_source(place)
        if own is not None:
            build(source, own)
    sentence = str(caught.value)
    assert "\n" not in sentence and caught.value.exit_status == 1
    return sentence


def test_a_file_that_is_cut_off_anywhere_gets_a_sentence(small, own, tmp_path):
    data, path = small.gguf.read_bytes(), tmp_path / "cut.gguf"
    for length in (*range(0, 400, 29), *range(400, len(data), 15_013), len(data) - 33):
        path.write_bytes(data[:length])
        said = problem(path)
        assert "download it again" in said or (length < 4 and "is not a GGUF file" in said), (length, said)


def test_damaged_bytes_give_a_sentence_or_a_model_and_nothing_else(small, own, tmp_path):
    data, path, draw = small.gguf.read_bytes(), tmp_path / "flipped.gguf", random.Random(3)
    refused = 0
    for _ in range(100):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[draw.randrange(9000)] = draw.choice((0, 1, 127, 255, draw.randrange(256)))
        path.write_bytes(damaged)
        try:
            find_source(path)
        except PublishedProblem as problem:
            refused += "\n" not in str(problem)
    assert refused > 7


def test_a_folder_that_is_cut_off_gets_a_sentence(folder, own):
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    for length in (0, 5, 300, len(data) - 1):
        weights.write_bytes(data[:length])
        assert "model.safetensors is damaged, cut off, or no safetensors file; download it again" in problem(folder, own)
    weights.unlink()
    assert "has no model.safetensors; download it" in problem(folder)
    for name in ("tokenizer.json", "config.json"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text[: len(text) // 2], encoding="utf-8")
        assert f"{name} cannot be read or is damaged; download it again" in problem(folder)
        (folder / name).unlink()
        assert f"has no {name}; download it" in problem(folder)


# ---- other kinds


def test_a_folder_with_another_model_is_refused(folder, own):
    config = json.loads((folder / "config.json").read_text())
    impossible = "sizes that chapter 16's model cannot have"
    for changes, sentence in (
        (dict(model_type="mistral"), "is a model of the kind 'mistral'; chapter 16's model has the kind 'llama'"),
        (dict(attention_bias=True), "says attention_bias = True, which chapter 16's model does not have"),
        (dict(rope_parameters={"rope_type": "llama3", "factor": 8.0}), "says rope_type = 'llama3'"),
        (dict(rope_scaling={"type": "linear", "factor": 2.0}), "says rope_scaling"),
        (dict(head_dim=32), "says head_dim = 32"),
        (dict(num_key_value_heads=3), impossible),
        (dict(num_hidden_layers=0), "config.json says num_hidden_layers = 0; it must be a whole number from 1 to 4,096; download"),
        (dict(hidden_size="many"), "config.json says hidden_size = 'many'; it must be a whole number"),
        (dict(vocab_size=100), "tokenizer.json has the id 319, and"),
        (dict(intermediate_size=None), "config.json says intermediate_size = nothing; it must be"),
        (dict(num_hidden_layers=400), "numbers in 400 layers; are these files of different models?"),
        (dict(hidden_size=6400, head_dim=1600), "numbers in 2 layers; are these files of different models?"),
        (dict(intermediate_size=32), "load_llama refuses the weights of"),
    ):
        (folder / "config.json").write_text(json.dumps(config | changes))
        assert sentence in problem(folder, own)
    del config["num_hidden_layers"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "config.json does not say num_hidden_layers; download it again, or take another model" in problem(folder)


def test_another_tokenizer_is_refused(folder):
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    for damage in (
        lambda vocabulary: vocabulary.update(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False}),
        lambda vocabulary: (vocabulary["model"]["vocab"].pop("<|im_start|>"), vocabulary.update(added_tokens=[])),
        lambda vocabulary: vocabulary.update(model={"type": "Unigram", "vocab": []}),
    ):
        vocabulary = json.loads(text)
        damage(vocabulary)
        (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
        assert "splits or frames its texts in another way than SmolLM2" in problem(folder)


NORM = {"output_norm.weight": (0, (64,), bytes(256))}


def test_other_gguf_files_are_refused(small, tmp_path):
    path, metadata = tmp_path / "other.gguf", metadata_of(small.theirs.config, small.folder)
    for changes, sentence in (
        ({"general.architecture": "gemma"}, "is a model of the kind 'gemma'"),
        ({"tokenizer.ggml.pre": "llama-bpe"}, "splits or frames its texts in another way than SmolLM2"),
        ({"llama.embedding_length": 66}, "sizes that chapter 16's model cannot have"),
        ({"llama.attention.head_count": [4, 4]}, "other.gguf says llama.attention.head_count = [...]; it must be a whole number from 1"),
        ({"general.alignment": 0}, "says general.alignment = 0; it must be a whole number from 1 to 1,048,576; download it again"),
        ({}, "does not have the tensors that its sizes ask for, for example blk.0.attn_k.weight"),
    ):
        path.write_bytes(gguf_bytes(metadata | changes, NORM))
        assert sentence in problem(path)
    del metadata["llama.block_count"]
    for content, sentence in (
        (gguf_bytes(metadata, {"output_norm.weight": (12, (256,), bytes(144))}), "stores output_norm.weight in a way that Headway does not read; take a file with F32, F16, Q4_1, Q8_0"),
        (gguf_bytes(metadata, NORM, version=9), "has version 9 of GGUF; Headway reads the versions 2 and 3"),
        (gguf_bytes(metadata, NORM), "does not say llama.block_count"),
        (b"version https://git-lfs.github.com/spec/v1\n", "other.gguf is not a GGUF file"),
        (b"", "other.gguf is empty; download it again"),
    ):
        path.write_bytes(content)
        assert sentence in problem(path)
    assert "there is no file or folder" in problem(tmp_path / "nothing")
    assert "has no config.json; download it" in problem(tmp_path)


@pytest.mark.parametrize("d_ff", [10**10, 10**30])
def test_a_model_that_is_too_large_for_the_memory_gets_a_sentence(small, own, d_ff):
    source = find_source(small.gguf)
    with pytest.raises(PublishedProblem, match="Tiny-Llama does not fit into the memory of this machine: it needs about"):
        build(replace(source, sizes=replace(source.sizes, d_ff=d_ff)), own)
