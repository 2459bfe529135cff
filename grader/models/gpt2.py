"""Loads a downloaded GPT-2, a folder as Hugging Face publishes it, into the learner's GPT: weights through their
`load_gpt2`, and the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from grader.files import problem
from grader.models.checkpoint import CheckpointProblem, Loaded, require_enough
from grader.models.design import Design, DesignProblem, build_model, parameters_by_name
from grader.models.file_values import ValueProblem, check, explaining_damage, require_finite, show, whole, yes_or_no
from grader.models.tokenizers import ModelTokenizer, pieces_of
from torch import Tensor

WEIGHTS, VOCAB, MERGES, CONFIG = "model.safetensors", "vocab.json", "merges.txt", "config.json"
# their names -> chapter 5's
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
VALUES = {"n_head": whole(1, 1 << 16), "tie_word_embeddings": yes_or_no()}
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
    require_enough(tensors, design, vocab_size, str(folder / WEIGHTS))
    model = build_model(parts, design, vocab_size)
    try:
        parts.load_gpt2(model, tensors)
    except ValueError as refusal:
        raise CheckpointProblem(f"{folder}: load_gpt2 refuses these weights: {refusal}") from refusal
    require_finite(parameters_by_name(model), folder / WEIGHTS, CheckpointProblem, "download it again")
    return Loaded(model.eval(), tokenizer, design, {}, folder)


# ---- the tokenizer


def read_tokenizer(folder: Path, parts: Any) -> GPT2Tokenizer:
    """The tokenizer in `vocab.json` and `merges.txt`, which splits texts with the learner's `split_for_bpe`."""
    vocab = _read_json(folder, VOCAB)
    lines = _read_text(folder, MERGES).split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if not _is_vocabulary(vocab) or not all(
        len(pair) == 2 and {*pair, "".join(pair)} <= vocab.keys() for pair in merges
    ):
        raise CheckpointProblem(f"{folder / VOCAB} and {MERGES} are damaged or not those of a GPT-2; {DOWNLOAD}")
    return GPT2Tokenizer(vocab, [(left, right) for left, right in merges], parts.split_for_bpe)


def _is_vocabulary(vocab: Any) -> bool:
    """Whether each token, written in the byte alphabet, has an id of its own, and each byte is a token."""
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        return False
    alphabet = set(byte_alphabet().values())
    named = alphabet <= vocab.keys() and alphabet.issuperset("".join(vocab.keys() - {END_OF_TEXT}))
    return named and len(set(vocab.values())) == len(vocab)


# ---- the weights


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    if not (folder / WEIGHTS).is_file():
        raise CheckpointProblem(
            f"{folder} has no {WEIGHTS}; {DOWNLOAD} (Headway opens no pickle such as pytorch_model.bin, because a "
            "pickle can run any code)"
        )
    with explaining_damage(folder / WEIGHTS, CheckpointProblem, "download it again"):
        return load_file(folder / WEIGHTS)


def _read_design(folder: Path, tensors: dict[str, Tensor]) -> tuple[Design, int]:
    """The design, and the size of the vocabulary. The tensors have the sizes; `config.json` has the number of heads and
    the activation. CheckpointProblem for what chapter 7's GPT cannot do."""
    config = _read_json(folder, CONFIG)
    if not isinstance(config, dict):
        raise CheckpointProblem(f"{folder / CONFIG} does not describe a model; download it again")
    try:
        check(config, VALUES, str(folder / CONFIG))
    except ValueProblem as trouble:
        raise CheckpointProblem(f"{trouble}; download it again") from None
    activation = config.get("activation_function", "gelu_new")
    wrong = [name for name, value in NEEDED.items() if config.get(name, value) != value]
    if wrong or not isinstance(activation, str) or activation not in ACTIVATIONS:
        name = wrong[0] if wrong else "activation_function"
        raise CheckpointProblem(
            f"{folder}: {CONFIG} says {name} = {show(config[name])}, which your GPT does not have; take another GPT-2"
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
    except DesignProblem as trouble:
        raise CheckpointProblem(f"{folder / CONFIG} does not fit the weights: {trouble}") from None
    return design, shapes["wte.weight"][0]


# ---- files


def _read_text(folder: Path, name: str) -> str:
    try:
        # universal newlines would also split at U+0085
        return (folder / name).read_bytes().decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        raise CheckpointProblem(f"{folder} has no {name}; {DOWNLOAD}") from None
    except OSError as error:
        raise CheckpointProblem(problem(error, f"read {folder / name}")) from None
    except UnicodeDecodeError:
        raise CheckpointProblem(f"{folder / name} is damaged: it is not UTF-8; download it again") from None


def _read_json(folder: Path, name: str) -> Any:
    try:
        return json.loads(_read_text(folder, name))
    except (ValueError, RecursionError):
        raise CheckpointProblem(f"{folder / name} is damaged: it is not JSON; download it again") from None


END_OF_TEXT = "<|endoftext|>"


def byte_alphabet() -> dict[int, str]:
    """A printable character for each byte, as in the published files: itself where it is printable, else the next one
    from U+0100 on."""
    invisible = [*range(ord("!")), *range(ord("~") + 1, ord("¡")), 173]  # 173 is the soft hyphen
    return {byte: chr(256 + invisible.index(byte)) if byte in invisible else chr(byte) for byte in range(256)}


class GPT2Tokenizer(ModelTokenizer):
    """Text to ids and back. `vocab` has each token, written in the byte alphabet, with its id; `merges` has the pairs,
    the first learned first.

    `split` is the learner's or the reference's `split_for_bpe`.
    """

    kind = "gpt2"
    start_ids: list[int] = []  # nothing comes before a text

    def __init__(
        self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], split: Callable[[str], Sequence[str]]
    ) -> None:
        self.vocab = dict(vocab)
        self.split = split
        self.merges = [(left, right) for left, right in merges]
        self.vocab_size = max(self.vocab.values(), default=-1) + 1
        self.end_id = self.vocab.get(END_OF_TEXT)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._to_character = byte_alphabet()
        to_byte = {character: byte for byte, character in self._to_character.items()}
        self._bytes = {
            i: bytes(to_byte[character] for character in token)
            for token, i in self.vocab.items()
            if token != END_OF_TEXT
        }
        if self.end_id is not None:
            self._bytes[self.end_id] = END_OF_TEXT.encode()
        self._known_pieces: dict[str, list[int]] = {}  # pieces repeat, so each is merged once

    def encode(self, text: str) -> list[int]:
        """The ids of `text`. The characters `<|endoftext|>` are one token."""
        ids: list[int] = []
        for piece in self.split(text):
            ids += [self.end_id] if piece == END_OF_TEXT and self.end_id is not None else self._encode_piece(piece)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return pieces_of(map(self.token_bytes, ids))

    def token_bytes(self, i: int) -> bytes:
        """The bytes of one token; none for an id that `vocab.json` leaves out."""
        return self._bytes.get(i, b"")

    def to_data(self) -> dict:
        return {"kind": self.kind, "vocab": self.vocab, "merges": [list(pair) for pair in self.merges]}

    # ---- merging

    def _encode_piece(self, piece: str) -> list[int]:
        if piece not in self._known_pieces:
            tokens = self._merge([self._to_character[byte] for byte in piece.encode("utf-8", errors="replace")])
            self._known_pieces[piece] = [self.vocab[token] for token in tokens]
        return self._known_pieces[piece]

    def _merge(self, tokens: list[str]) -> list[str]:
        """Join neighbours until no pair has a merge; the pair that was learned first is joined first, everywhere in the
        piece."""
        while len(tokens) > 1:
            first = min(zip(tokens, tokens[1:]), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if first not in self._ranks:
                break
            merged, i = [], 0
            while i < len(tokens):
                if tuple(tokens[i : i + 2]) == first:
                    merged.append(tokens[i] + tokens[i + 1])
                    i += 2
                else:
                    merged.append(tokens[i])
                    i += 1
            tokens = merged
        return tokens
