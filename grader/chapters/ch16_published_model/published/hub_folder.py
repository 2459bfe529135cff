"""Reads a model of the Llama family from a folder as Hugging Face publishes it: config.json, tokenizer.json and
safetensors."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from grader.chapters.ch16_published_model.published.source import (
    BASE,
    BLOCKS,
    CONTEXT,
    EPS,
    HEADS,
    SIZE,
    WORDS,
    PublishedProblem,
    Sizes,
    Source,
    check_values,
    other_kind,
    other_texts,
)
from grader.models.file_values import (
    ANY,
    explaining_damage,
    named,
    optional,
    read_shapes,
    require_finite,
    show,
    whole,
    yes_or_no,
)
from torch import nn

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
VALUES = {
    "vocab_size": SIZE, "hidden_size": SIZE, "num_attention_heads": HEADS, "num_hidden_layers": BLOCKS,
    "intermediate_size": SIZE,
}  # fmt: skip
OPTIONAL = {
    "num_key_value_heads": optional(HEADS), "head_dim": optional(SIZE), "max_position_embeddings": CONTEXT,
    "rope_theta": BASE, "rms_norm_eps": EPS, "tie_word_embeddings": yes_or_no(),
    "rope_parameters": optional(named(ANY)),
}  # fmt: skip
PLACE = whole(0, 1 << 24)
LOADING = ("interleave_rows", "load_llama")
USUAL = {"rope_scaling": None, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu"}


def read_folder(folder: Path) -> Source:
    """The model in this folder. PublishedProblem, with a sentence, if chapter 16's model cannot run it."""
    config = _read_json(folder, CONFIG)
    if config.get("model_type") != "llama":
        raise other_kind(folder.name, config.get("model_type"))
    vocabulary = _read_json(folder, TOKENIZER)
    sizes = _read_sizes(folder, config)
    try:
        added = {entry["content"]: entry["id"] for entry in vocabulary.get("added_tokens", [])}
        special = [entry["content"] for entry in vocabulary.get("added_tokens", []) if entry.get("special")]
        places = {**vocabulary["model"]["vocab"], **added}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in vocabulary["model"]["merges"]]
        splits = _splits_like_smollm(vocabulary)
    except (KeyError, TypeError, AttributeError):
        raise other_texts(folder.name) from None
    if not splits:
        raise other_texts(folder.name)
    tokenizer = folder / TOKENIZER
    kinds = {"vocab": named(PLACE), "tokens": WORDS, "merges": WORDS}
    check_values({"vocab": places, "tokens": list(places), "merges": merges}, kinds, str(tokenizer), ())
    if (last := max(places.values(), default=0)) >= sizes.vocab_size:
        raise PublishedProblem(
            f"{tokenizer} has the id {last:,}, and {folder / CONFIG} says vocab_size = {sizes.vocab_size:,}; "
            "are these files of different models?"
        )
    tokens = [""] * (last + 1)
    for token, place in places.items():
        tokens[place] = token
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise PublishedProblem(f"{folder} has no {WEIGHTS}; download it from the model's page into this folder")
    name, context = folder.resolve().name, config.get("max_position_embeddings", 2048)
    source = Source(
        name, sizes, context, tokens, merges, special, LOADING, lambda parts, model: _fill(parts, model, weights)
    )  # fmt: skip
    _require_enough(weights, sizes)
    return source


def _require_enough(weights: Path, sizes: Sizes) -> None:
    """PublishedProblem if the file is too small for a model of these sizes, before such a model is built."""
    with explaining_damage(weights, PublishedProblem, "download it again"):
        shapes = read_shapes(weights).values()
    found, needed = sum(map(prod, shapes)), sizes.bytes // 4
    if found < needed or len(shapes) < sizes.n_layers:
        raise PublishedProblem(
            f"{weights} has {found:,} numbers in {len(shapes):,} tensors, and a model of the sizes in {CONFIG} has "
            f"{needed:,} numbers in {sizes.n_layers:,} layers; are these files of different models?"
        )


def _read_sizes(folder: Path, config: dict[str, Any]) -> Sizes:
    check_values(config, VALUES | OPTIONAL, str(folder / CONFIG), VALUES)
    rope = config.get("rope_parameters") or {}  # transformers 5 writes it
    check_values(rope, {"rope_theta": BASE}, str(folder / CONFIG), ())
    heads, width = config["num_attention_heads"], config["hidden_size"]
    unusual = {name: config[name] for name, usual in USUAL.items() if config.get(name, usual) != usual}
    if rope.get("rope_type", "default") != "default":
        unusual["rope_type"] = rope["rope_type"]
    if (config.get("head_dim") or width // heads) * heads != width:
        unusual["head_dim"] = config["head_dim"]
    for name, value in unusual.items():
        what = f"{folder / CONFIG} says {name} = {show(value)}"
        raise PublishedProblem(f"{what}, which chapter 16's model does not have; take another model")
    return Sizes(
        config["vocab_size"], width, heads, config.get("num_key_value_heads") or heads, config["num_hidden_layers"],
        config["intermediate_size"], float(rope.get("rope_theta", config.get("rope_theta", 10_000))),
        float(config.get("rms_norm_eps", 1e-6)), config.get("tie_word_embeddings", False),
    )  # fmt: skip


def _splits_like_smollm(vocabulary: dict[str, Any]) -> bool:
    steps = (vocabulary.get("pre_tokenizer") or {}).get("pretokenizers", [])
    kinds = [step.get("type") for step in steps]
    return (
        kinds == ["Digits", "ByteLevel"]
        and steps[0].get("individual_digits") is True
        and not steps[1].get("add_prefix_space")
    )


def _fill(parts: Any, model: nn.Module, file: Path) -> None:
    from safetensors.torch import load_file

    with explaining_damage(file, PublishedProblem, "download it again"):
        tensors = load_file(file)
    require_finite(tensors, file, PublishedProblem, "download it again")
    try:
        parts.load_llama(model, tensors)
    except ValueError as problem:
        raise PublishedProblem(f"load_llama refuses the weights of {file.parent}: {problem}") from None


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        data = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PublishedProblem(f"{folder} has no {name}; download it from the model's page into this folder") from None
    except (OSError, ValueError, RecursionError):
        raise PublishedProblem(f"{folder / name} cannot be read or is damaged; download it again") from None
    if not isinstance(data, dict):
        raise PublishedProblem(f"{folder / name} does not describe a model; download it again")
    return data
