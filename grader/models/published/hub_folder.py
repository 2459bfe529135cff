"""Reads a model of the Llama family from a folder as Hugging Face publishes it: config.json, tokenizer.json and
safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader.models.published.source import (
    CHAT_TOKENS,
    PublishedProblem,
    Sizes,
    Source,
    other_kind,
    other_sizes,
    other_texts,
)
from torch import nn

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
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
        frames = _splits_like_smollm(vocabulary) and set(CHAT_TOKENS) <= set(places)
        last = max(places.values(), default=0)
    except (KeyError, TypeError, AttributeError):
        raise other_texts(folder.name) from None
    if not frames:
        raise other_texts(folder.name)
    if last >= sizes.vocab_size:
        raise other_sizes(folder.name)
    tokens = [""] * (last + 1)
    for token, place in places.items():
        tokens[place] = token
    said = config.get("max_position_embeddings")
    context = said if isinstance(said, int) else 2048
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise PublishedProblem(f"{folder} has no {WEIGHTS}; download it from the model's page into this folder")
    name = folder.resolve().name
    return Source(name, sizes, context, tokens, merges, special, lambda parts, model: _fill(parts, model, weights))


def _read_sizes(folder: Path, config: dict[str, Any]) -> Sizes:
    rope = config.get("rope_parameters") or {}  # transformers 5 writes it
    try:
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        unusual = {name: config[name] for name, usual in USUAL.items() if config.get(name, usual) != usual}
        if rope.get("rope_type", "default") != "default":
            unusual["rope_type"] = rope["rope_type"]
        if (config.get("head_dim") or width // max(heads, 1)) * heads != width:
            unusual["head_dim"] = config["head_dim"]
        sizes = Sizes(
            int(config["vocab_size"]), width, heads, int(config.get("num_key_value_heads") or heads),
            int(config["num_hidden_layers"]), int(config["intermediate_size"]),
            float(rope.get("rope_theta", config.get("rope_theta", 10_000.0))), float(config.get("rms_norm_eps", 1e-6)),
            bool(config.get("tie_word_embeddings", False)),
        )  # fmt: skip
    except KeyError as missing:
        raise PublishedProblem(f"{folder / CONFIG} does not say {missing.args[0]}; download it again") from None
    except (TypeError, ValueError, AttributeError):
        raise other_sizes(folder.name) from None
    for name, value in unusual.items():
        what = f"{folder / CONFIG} says {name} = {value!r}"
        raise PublishedProblem(f"{what}, which chapter 16's model does not have; take another model")
    if not sizes.are_possible():
        raise other_sizes(folder.name)
    return sizes


def _splits_like_smollm(vocabulary: dict[str, Any]) -> bool:
    steps = (vocabulary.get("pre_tokenizer") or {}).get("pretokenizers", [])
    kinds = [step.get("type") for step in steps]
    return (
        kinds == ["Digits", "ByteLevel"]
        and steps[0].get("individual_digits") is True
        and not steps[1].get("add_prefix_space")
    )


def _fill(parts: Any, model: nn.Module, file: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(file)
    except (SafetensorError, ValueError, OSError):
        raise PublishedProblem(f"{file} is damaged, cut off, or no safetensors file; download it again") from None
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
