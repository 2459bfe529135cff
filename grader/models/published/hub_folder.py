"""Reads a model of the Llama family from a folder as Hugging Face publishes it: config.json, tokenizer.json and safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader.models.published.opening import CHAT_TOKENS, PublishedProblem, Sizes, Source
from torch import nn

CONFIG, TOKENIZER, WEIGHTS, INDEX = "config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"


def read_folder(folder: Path) -> Source:
    """The model in this folder. PublishedProblem, with a sentence, if it is none that chapter 16 can run."""
    if not folder.is_dir():
        raise PublishedProblem(f"there is no folder {folder}; give one with {CONFIG}, {TOKENIZER} and {WEIGHTS}")
    config, vocabulary = _read_json(folder, CONFIG), _read_json(folder, TOKENIZER)
    if config.get("model_type") != "llama":
        raise PublishedProblem(f"{folder} has a model of the kind {config.get('model_type')!r}; chapter 16's model has the kind 'llama'")
    differences = {"rope_scaling": None, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu"}
    for name, usual in differences.items():
        if config.get(name, usual) != usual:
            raise PublishedProblem(f"{folder}: {CONFIG} says {name} = {config[name]!r}, which chapter 16's model does not have")
    try:
        heads = config["num_attention_heads"]
        sizes = Sizes(
            config["vocab_size"], config["hidden_size"], heads, config.get("num_key_value_heads", heads), config["num_hidden_layers"],
            config["intermediate_size"], float(config.get("rope_theta", 10_000.0)), float(config.get("rms_norm_eps", 1e-6)),
            bool(config.get("tie_word_embeddings", False)),
        )  # fmt: skip
        model = vocabulary["model"]
        places = dict(model["vocab"]) | {entry["content"]: entry["id"] for entry in vocabulary.get("added_tokens", [])}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    except (KeyError, TypeError, ValueError) as missing:
        raise PublishedProblem(f"{folder} does not say {missing}; download {CONFIG} and {TOKENIZER} again") from None
    if not _splits_like_smollm(vocabulary) or not set(CHAT_TOKENS) <= set(places):
        raise PublishedProblem(f"{folder} splits or frames its texts in another way than SmolLM2; chapter 16's tokenizer cannot read it")
    tokens = [""] * max(sizes.vocab_size, 1 + max(places.values()))
    for token, place in places.items():
        tokens[place] = token
    special = [entry["content"] for entry in vocabulary.get("added_tokens", []) if entry.get("special")]
    return Source(folder.name, sizes, tokens, merges, special, lambda parts, model: _fill(parts, model, folder))


def _splits_like_smollm(vocabulary: dict[str, Any]) -> bool:
    steps = (vocabulary.get("pre_tokenizer") or {}).get("pretokenizers", [])
    kinds = [step.get("type") for step in steps]
    return kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits") is True and not steps[1].get("add_prefix_space")


def _fill(parts: Any, model: nn.Module, folder: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if not (folder / WEIGHTS).is_file():
        if not (folder / INDEX).is_file():
            raise PublishedProblem(f"{folder} has no {WEIGHTS}; download it from the model's page into this folder")
        names = sorted(set(_read_json(folder, INDEX).get("weight_map", {}).values()))
    tensors = {}
    for name in names:
        try:
            tensors |= load_file(folder / Path(name).name)
        except FileNotFoundError:
            raise PublishedProblem(f"{folder}: the weights are in {len(names)} files, and {name} is missing; download it into this folder") from None
        except (SafetensorError, ValueError, OSError):
            raise PublishedProblem(f"{folder / name} is damaged or is not a safetensors file; download it again") from None
    try:
        parts.load_llama(model, tensors)
    except ValueError as problem:
        raise PublishedProblem(f"{folder}: load_llama refuses these weights: {problem}") from None


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
