"""Loads a downloaded GPT-2, a folder as Hugging Face publishes it, into the learner's GPT: weights through their
`load_gpt2`, and the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from grader.models.checkpoint import CheckpointProblem, Loaded
from grader.models.design import Design, DesignProblem, build_model
from grader.models.gpt2.tokenizer import END_OF_TEXT, GPT2Tokenizer, byte_alphabet
from torch import Tensor

WEIGHTS, VOCAB, MERGES, CONFIG = "model.safetensors", "vocab.json", "merges.txt", "config.json"
# their names -> chapter 5's
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
NEEDED = {"model_type": "gpt2", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True}  # what a GPT of chapter 7 has
FILES = f"{WEIGHTS}, {VOCAB}, {MERGES} and {CONFIG}"
DOWNLOAD = f"download {FILES} of openai-community/gpt2 from Hugging Face into one folder"


def load_folder(folder: Path, parts: Any) -> Loaded:
    """The learner's GPT with the weights in `folder`, and its tokenizer. CheckpointProblem, with a sentence, if the
    folder is not a GPT-2."""
    if not folder.is_dir():
        raise CheckpointProblem(f"there is no folder {folder}; {DOWNLOAD}")
    tokenizer = read_tokenizer(folder, parts)
    tensors = _read_tensors(folder)
    design, vocab_size = _read_design(folder, tensors)
    if tokenizer.vocab_size > vocab_size:
        raise CheckpointProblem(
            f"{folder}: {VOCAB} has {tokenizer.vocab_size} tokens, but the weights have "
            f"{vocab_size}; these files belong to different models"
        )
    model = build_model(parts, design, vocab_size)
    try:
        parts.load_gpt2(model, tensors)
    except ValueError as problem:
        raise CheckpointProblem(f"{folder}: load_gpt2 refuses these weights: {problem}") from problem
    return Loaded(model.eval(), tokenizer, design, {}, folder)


# ---- the tokenizer


def read_tokenizer(folder: Path, parts: Any) -> GPT2Tokenizer:
    """The tokenizer in `vocab.json` and `merges.txt`, which splits texts with the learner's `split_for_bpe`."""
    vocab = _read_json(folder, VOCAB)
    if (
        not isinstance(vocab, dict)
        or not all(type(i) is int and i >= 0 for i in vocab.values())
        or len(set(vocab.values())) < len(vocab)
    ):
        raise CheckpointProblem(f"{folder / VOCAB} does not give each token an id of its own; {DOWNLOAD}")
    alphabet = set(byte_alphabet().values())
    if not alphabet <= vocab.keys() or not alphabet.issuperset("".join(vocab.keys() - {END_OF_TEXT})):
        raise CheckpointProblem(f"{folder / VOCAB} is not written in the byte alphabet of a GPT-2; {DOWNLOAD}")
    lines = _read_text(folder, MERGES).split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    wrong = next(
        (pair for pair in merges if len(pair) != 2 or not {pair[0], pair[1], pair[0] + pair[1]} <= vocab.keys()), None
    )
    if wrong is not None:
        raise CheckpointProblem(
            f"{folder / MERGES} does not fit {VOCAB}: the merge {' '.join(wrong)!r} has no token there; {DOWNLOAD}"
        )
    return GPT2Tokenizer(vocab, [(left, right) for left, right in merges], parts.split_for_bpe)


# ---- the weights


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / WEIGHTS).is_file():
        raise CheckpointProblem(
            f"{folder} has no {WEIGHTS}; {DOWNLOAD} (Headway opens no pickle such as pytorch_model.bin, because a "
            "pickle can run any code)"
        )
    try:
        return load_file(folder / WEIGHTS)
    except (SafetensorError, ValueError) as problem:
        raise CheckpointProblem(
            f"{folder / WEIGHTS} is damaged or is not a safetensors file; download it again"
        ) from problem


def _read_design(folder: Path, tensors: dict[str, Tensor]) -> tuple[Design, int]:
    """The design, and the size of the vocabulary. The tensors have the sizes; `config.json` has the number of heads and
    the activation. CheckpointProblem for what chapter 7's GPT cannot do."""
    config = _read_json(folder, CONFIG)
    if not isinstance(config, dict):
        raise CheckpointProblem(f"{folder / CONFIG} does not describe a model; download it again")
    activation = config.get("activation_function", "gelu_new")
    wrong = [name for name, value in NEEDED.items() if config.get(name, value) != value]
    if wrong or activation not in list(ACTIVATIONS):
        name = wrong[0] if wrong else "activation_function"
        raise CheckpointProblem(
            f"{folder}: {CONFIG} says {name} = {config[name]!r}, which your GPT does not have; take another GPT-2"
        )
    named = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    for name in ("wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight"):
        if len(shapes.get(name, ())) != 2:
            raise CheckpointProblem(
                f"{folder}: these are not the weights of a GPT-2, because there is no matrix {name}; {DOWNLOAD}"
            )
    head = named.get("lm_head.weight")
    tied = head is None or torch.equal(head, named["wte.weight"]) if config.get("tie_word_embeddings", True) else False
    try:
        design = Design(
            d_model=shapes["wte.weight"][1],
            n_heads=config.get("n_head", 12),
            n_layers=len({name.split(".")[1] for name in named if name.startswith("h.")}),
            max_len=shapes["wpe.weight"][0],
            d_ff=shapes["h.0.mlp.c_fc.weight"][1],
            activation=ACTIVATIONS[activation],
            tie_weights=tied,
        )
    except DesignProblem as problem:
        raise CheckpointProblem(f"{folder / CONFIG} does not fit the weights: {problem}") from None
    return design, shapes["wte.weight"][0]


# ---- files


def _read_text(folder: Path, name: str) -> str:
    try:
        # universal newlines would also split at U+0085
        return (folder / name).read_bytes().decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        raise CheckpointProblem(f"{folder} has no {name}; {DOWNLOAD}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise CheckpointProblem(f"{folder / name} cannot be read: {problem}; download it again") from problem


def _read_json(folder: Path, name: str) -> Any:
    try:
        return json.loads(_read_text(folder, name))
    except (ValueError, RecursionError) as problem:
        raise CheckpointProblem(f"{folder / name} is damaged: it is not JSON; download it again") from problem
