"""Loads a downloaded GPT-2, a folder as Hugging Face publishes it, into the learner's GPT: weights through their
`load_gpt2`, and the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from grader.models.checkpoint import CheckpointProblem, Loaded
from grader.models.design import Design, build_model
from grader.models.gpt2.tokenizer import END_OF_TEXT, GPT2Tokenizer, byte_alphabet
from torch import Tensor

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
VOCAB, MERGES, CONFIG = "vocab.json", "merges.txt", "config.json"
# their names -> chapter 5's
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
HEAD_WIDTH = 64  # of every GPT-2 that OpenAI published
DOWNLOAD = f"download {WEIGHTS}, {VOCAB} and {MERGES} of openai-community/gpt2 from Hugging Face into one folder"


def load_folder(folder: Path, parts: Any) -> Loaded:
    """The learner's GPT with the weights in `folder`, and its tokenizer. CheckpointProblem, with a sentence, if the
    folder is not a GPT-2."""
    if not folder.is_dir():
        raise CheckpointProblem(f"there is no folder {folder}; {DOWNLOAD}")
    config = _read_config(folder)
    tokenizer = read_tokenizer(folder, parts)
    tensors = _read_tensors(folder)
    design, vocab_size = _read_design(folder, tensors, config)
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
    foreign = next((token for token in vocab if token != END_OF_TEXT and not alphabet.issuperset(token)), None)
    if foreign is not None or not alphabet <= vocab.keys():
        why = (
            (f"its token {foreign!r} is not written in GPT-2's byte alphabet")
            if foreign is not None
            else "it has no token for some bytes"
        )
        raise CheckpointProblem(f"{folder / VOCAB} is not the vocabulary of a GPT-2: {why}; {DOWNLOAD}")
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
    """All tensors of the folder: of one file, or of the files that an index lists."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    names = [WEIGHTS]
    if not (folder / WEIGHTS).is_file():
        if not (folder / INDEX).is_file():
            raise CheckpointProblem(_missing_weights(folder))
        index = _read_json(folder, INDEX)
        places = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(places, dict) or not all(
            isinstance(name, str) and Path(name).name == name for name in places.values()
        ):
            raise CheckpointProblem(f"{folder / INDEX} does not say which files have the weights; download it again")
        names = sorted(set(places.values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointProblem(
                f"{folder}: the weights are in {len(names)} files, and {name} is missing; download it into this folder"
            )
        try:
            tensors |= load_file(folder / name)
        except (SafetensorError, ValueError) as problem:
            raise CheckpointProblem(
                f"{folder / name} is damaged or is not a safetensors file; download it again"
            ) from problem
    return tensors


def _missing_weights(folder: Path) -> str:
    if any(folder.glob("pytorch_model*.bin")):
        return (
            f"{folder} has its weights only as {PICKLE}, a pickle, which can run any code when it is opened; Headway "
            "does not open it. "
            f"Download {WEIGHTS} from the same page into this folder"
        )
    return f"{folder} has no {WEIGHTS}; {DOWNLOAD}"


def _read_design(folder: Path, tensors: dict[str, Tensor], config: dict) -> tuple[Design, int]:
    """The design, and the size of the vocabulary. The tensors have the sizes; `config.json` has the number of heads and
    the activation."""
    named = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    needed = {"wte.weight": 2, "wpe.weight": 2, "h.0.mlp.c_fc.weight": 2}
    missing = next((name for name, axes in needed.items() if len(shapes.get(name, ())) != axes), None)
    if missing is not None:
        raise CheckpointProblem(
            f"{folder}: these are not the weights of a GPT-2, because there is no matrix {missing}; {DOWNLOAD}"
        )
    d_model, head = shapes["wte.weight"][1], named.get("lm_head.weight")
    n_heads = config.get("n_head", d_model // HEAD_WIDTH)
    if type(n_heads) is not int or n_heads < 1 or d_model % n_heads:
        where = (
            (f"{CONFIG} says n_head = {n_heads!r}")
            if "n_head" in config
            else f"{CONFIG} is missing, which says how many heads there are"
        )
        raise CheckpointProblem(
            f"{folder}: the vectors of this model have {d_model} features, and {where}; download "
            f"{CONFIG} into this folder too"
        )
    tied = head is None or torch.equal(head, named["wte.weight"]) if config.get("tie_word_embeddings", True) else False
    design = Design(
        d_model=d_model,
        n_heads=n_heads,
        n_layers=len({name.split(".")[1] for name in named if name.startswith("h.")}),
        max_len=shapes["wpe.weight"][0],
        d_ff=shapes["h.0.mlp.c_fc.weight"][1],
        activation=ACTIVATIONS[config.get("activation_function", "gelu_new")],
        tie_weights=tied,
    )
    return design, shapes["wte.weight"][0]


def _read_config(folder: Path) -> dict:
    """`config.json`, or nothing where it is missing: then the model is one of OpenAI's. CheckpointProblem for what
    chapter 7's GPT cannot do."""
    if not (folder / CONFIG).is_file():
        return {}
    config = _read_json(folder, CONFIG)
    if not isinstance(config, dict):
        raise CheckpointProblem(f"{folder / CONFIG} does not describe a model; download it again")
    kind = config.get("model_type", "gpt2")
    if kind != "gpt2":
        raise CheckpointProblem(
            f"{folder} is a model of the kind {kind!r}, and your GPT can only take the weights of a GPT-2; {DOWNLOAD}"
        )
    differences = {
        "activation_function": config.get("activation_function", "gelu_new") in list(ACTIVATIONS),
        "layer_norm_epsilon": config.get("layer_norm_epsilon", 1e-5) == 1e-5,
        "scale_attn_weights": config.get("scale_attn_weights", True) is True,
        "scale_attn_by_inverse_layer_idx": config.get("scale_attn_by_inverse_layer_idx", False) is False,
    }
    wrong = next((name for name, fits in differences.items() if not fits), None)
    if wrong is not None:
        raise CheckpointProblem(
            f"{folder}: {CONFIG} says {wrong} = {config[wrong]!r}, which your GPT does not have; take another GPT-2"
        )
    return config


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
