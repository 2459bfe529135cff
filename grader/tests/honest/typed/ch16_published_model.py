# Style: typed and defensive.

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from .ch01_tokenizer import split_for_bpe
from .ch02_embeddings import TokenEmbedding
from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import apply_rope
from .ch05_layers import RMSNorm, SwiGLU
from .ch09_sampling import looking_at, sample_next_token
from .ch10_kv_cache import KVCache

Message: TypeAlias = Mapping[str, str]

START: Final[str] = "<|im_start|>"
END: Final[str] = "<|im_end|>"
ROLES: Final[tuple[str, ...]] = ("system", "user", "assistant")
SYSTEM: Final[str] = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
HALF_BYTES: Final[int] = 2
NIBBLE: Final[int] = 0b1111
REPLACEMENT: Final[str] = "\N{REPLACEMENT CHARACTER}"
INSIDE_END_OF_TEXT: Final[re.Pattern[str]] = re.compile(r"(?<=<\|)(?=endoftext)")


def _read_halves(blocks: Tensor, count: int) -> tuple[Tensor, ...]:
    """The first `count` float16 numbers of each block, as columns of float32."""
    raw: Tensor = blocks[:, : HALF_BYTES * count].contiguous()
    return raw.view(torch.float16).to(torch.float32).split(1, dim=1)


def dequantize_q8_0(blocks: Tensor) -> Tensor:
    (scale,) = _read_halves(blocks, 1)
    unsigned: Tensor = blocks[:, HALF_BYTES:].to(torch.float32)
    return scale * torch.where(unsigned < 128, unsigned, unsigned - 256)


def dequantize_q4_1(blocks: Tensor) -> Tensor:
    scale, minimum = _read_halves(blocks, 2)
    packed: Tensor = blocks[:, 2 * HALF_BYTES :]
    low, high = torch.bitwise_and(packed, NIBBLE), torch.bitwise_right_shift(packed, 4)
    return minimum + scale * torch.hstack((low, high)).to(torch.float32)


def _is_printable(byte: int) -> bool:
    return byte in range(33, 127) or byte in range(161, 173) or byte in range(174, 256)


def byte_names() -> dict[int, str]:
    names: dict[int, str] = {byte: chr(byte) for byte in filter(_is_printable, range(256))}
    hidden: list[int] = [byte for byte in range(256) if not _is_printable(byte)]
    names.update({byte: chr(0x100 + place) for place, byte in enumerate(hidden)})
    return names


class PublishedTokenizer:
    def __init__(self, tokens: Sequence[str], merges: Sequence[str], special: Sequence[str] = ()) -> None:
        self.tokens: tuple[str, ...] = tuple(tokens)
        self._ids: dict[str, int] = {token: place for place, token in enumerate(self.tokens)}
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(merges):
            left, right = merge.split(" ")
            self._ranks[left, right] = rank
        self._names: dict[int, str] = byte_names()
        self._bytes: dict[str, int] = {name: byte for byte, name in self._names.items()}
        longest_first: list[str] = sorted(special, key=len, reverse=True)
        self._special: re.Pattern[str] | None = re.compile("|".join(map(re.escape, longest_first))) if special else None

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        if not allow_special or self._special is None:
            return list(self._ordinary(text))
        ids: list[int] = []
        done: int = 0
        for match in self._special.finditer(text):
            ids += [*self._ordinary(text[done : match.start()]), self._ids[match.group()]]
            done = match.end()
        return [*ids, *self._ordinary(text[done:])]

    def decode(self, ids: Sequence[int]) -> str:
        data: bytes = b"".join(bytes(self._bytes[name] for name in self.tokens[i]) for i in ids)
        return data.decode("utf-8", errors="replace")

    def _ordinary(self, text: str) -> Iterator[int]:
        for run in self._runs(text):
            for part in INSIDE_END_OF_TEXT.split(run):
                for piece in split_for_bpe(part):
                    yield from map(self._ids.__getitem__, self._merged(piece))

    @staticmethod
    def _runs(text: str) -> Iterator[str]:
        start: int = 0
        for place, character in enumerate(text):
            if unicodedata.category(character).startswith("N"):
                yield text[start:place]
                yield character
                start = place + 1
        yield text[start:]

    def _merged(self, piece: str) -> list[str]:
        names: list[str] = [self._names[byte] for byte in piece.encode("utf-8")]
        symbols: list[str] = [name for name in names if name in self._ids]
        while pairs := [pair for pair in zip(symbols, symbols[1:]) if pair in self._ranks]:
            first: tuple[str, str] = min(pairs, key=self._ranks.__getitem__)
            merged: list[str] = []
            rest: list[str] = symbols
            while rest:
                taken: int = 2 if tuple(rest[:2]) == first else 1
                merged.append("".join(rest[:taken]))
                rest = rest[taken:]
            symbols = merged
        return symbols


def interleave_rows(weight: Tensor, n_heads: int) -> Tensor:
    rows: int = weight.size(0)
    if n_heads < 1 or rows % (2 * n_heads) != 0:
        raise ValueError(f"n_heads = {n_heads} heads of even width cannot share {rows} rows")
    order: Tensor = torch.arange(rows, device=weight.device).view(n_heads, 2, -1).transpose(1, 2).reshape(-1)
    return weight.index_select(0, order)


class LlamaAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"n_heads ({n_heads}) must be a multiple of n_kv_heads ({n_kv_heads})")
        d_head: int = d_model // n_heads
        if d_head % 2 != 0:
            raise ValueError(f"d_head ({d_head}) must be even")
        self.n_heads: int = n_heads
        self.n_kv_heads: int = n_kv_heads
        self._base: float = base
        self.W_q = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_out = nn.Linear(n_heads * d_head, d_model, bias=False)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        new: int = x.size(1)
        past: int = 0 if cache is None else cache.length
        where: Tensor = torch.arange(past, past + new, device=x.device)
        q: Tensor = apply_rope(split_heads(self.W_q(x), self.n_heads), where, self._base)
        k: Tensor = apply_rope(split_heads(self.W_k(x), self.n_kv_heads), where, self._base)
        v: Tensor = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        mask: Tensor = causal_mask(new, past + new).to(x.device)
        attended, _ = scaled_dot_product_attention(q, self._for_each_query_head(k), self._for_each_query_head(v), mask)
        return self.W_out(merge_heads(attended))

    def _for_each_query_head(self, heads: Tensor) -> Tensor:
        group: int = self.n_heads // self.n_kv_heads
        return heads.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)


class LlamaBlock(nn.Module):
    def __init__(
        self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int, base: float = 10_000.0, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.ln1 = RMSNorm(d_model, eps=eps)
        self.attn = LlamaAttention(d_model, n_heads, n_kv_heads, base=base)
        self.ln2 = RMSNorm(d_model, eps=eps)
        self.ffn = SwiGLU(d_model, d_ff)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        attended: Tensor = x + self.attn(self.ln1(x), cache)
        return attended + self.ffn(self.ln2(attended))


class Llama(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        n_layers: int,
        d_ff: int,
        base: float = 10_000.0,
        eps: float = 1e-5,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.token_emb = TokenEmbedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(
            [LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base=base, eps=eps) for _ in range(n_layers)]
        )
        self.ln_f = RMSNorm(d_model, eps=eps)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        if tied:
            self.lm_head.weight = self.token_emb.weight

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in range(len(self.blocks))]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        each: Sequence[KVCache | None] = [None] * len(self.blocks) if caches is None else caches
        x: Tensor = self.token_emb(ids)
        for block, cache in zip(self.blocks, each, strict=True):
            x = block(x, cache)
        return self.lm_head(self.ln_f(x))


def _places(model: Llama) -> Iterator[tuple[str, nn.Parameter, int]]:
    """Each tensor's name in the file, its parameter, and the number of heads by which its rows are interleaved, or 0."""
    yield "model.embed_tokens.weight", model.token_emb.weight, 0
    yield "model.norm.weight", model.ln_f.weight, 0
    for i, block in enumerate(model.blocks):
        attn: LlamaAttention = block.attn
        layer: str = f"model.layers.{i}"
        yield f"{layer}.input_layernorm.weight", block.ln1.weight, 0
        yield f"{layer}.post_attention_layernorm.weight", block.ln2.weight, 0
        yield f"{layer}.self_attn.q_proj.weight", attn.W_q.weight, attn.n_heads
        yield f"{layer}.self_attn.k_proj.weight", attn.W_k.weight, attn.n_kv_heads
        yield f"{layer}.self_attn.v_proj.weight", attn.W_v.weight, 0
        yield f"{layer}.self_attn.o_proj.weight", attn.W_out.weight, 0
        for part in ("gate", "up", "down"):
            yield f"{layer}.mlp.{part}_proj.weight", getattr(block.ffn, part).weight, 0


def load_llama(model: Llama, state: Mapping[str, Tensor]) -> None:
    head: str = "lm_head.weight"
    tied: bool = model.lm_head.weight is model.token_emb.weight
    places: dict[str, tuple[nn.Parameter, int]] = {name: (weight, heads) for name, weight, heads in _places(model)}
    if not tied:
        places[head] = (model.lm_head.weight, 0)
    shapes: dict[str, torch.Size] = {name: weight.shape for name, (weight, _) in places.items()}
    shapes.setdefault(head, model.lm_head.weight.shape)
    for name in places.keys() - state.keys():
        raise ValueError(f"{name} is missing")
    for name in state.keys() - shapes.keys():
        raise ValueError(f"{name} is not part of this model")
    for name, tensor in state.items():
        if tensor.shape != shapes[name]:
            raise ValueError(f"{name} must have the shape {tuple(shapes[name])}, not {tuple(tensor.shape)}")
    with torch.no_grad():
        for name, (weight, heads) in places.items():
            weight.copy_(interleave_rows(state[name], heads) if heads else state[name])


def _checked(messages: Sequence[Message]) -> list[Message]:
    if len(messages) == 0:
        raise ValueError("there must be a message")
    for message in messages:
        if message["role"] not in ROLES:
            raise ValueError(f"role must be one of {ROLES}, not {message['role']!r}")
    default: Message = {"role": "system", "content": SYSTEM}
    return [*messages] if messages[0]["role"] == "system" else [default, *messages]


def chat_ids(tokenizer: PublishedTokenizer, messages: Sequence[Message]) -> list[int]:
    (start,) = tokenizer.encode(START, allow_special=True)
    (end,) = tokenizer.encode(END, allow_special=True)
    ids: list[int] = []
    for message in _checked(messages):
        ids.append(start)
        ids.extend(tokenizer.encode("\n".join((message["role"], message["content"]))))
        ids.append(end)
        ids.extend(tokenizer.encode("\n"))
    return [*ids, start, *tokenizer.encode("assistant\n")]


def stream_answer(
    model: Llama,
    tokenizer: PublishedTokenizer,
    messages: Sequence[Message],
    max_new_tokens: int = 200,
    temperature: float = 0.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Iterator[str]:
    (end,) = tokenizer.encode(END, allow_special=True)
    device: torch.device = model.token_emb.weight.device
    ids: Tensor = torch.tensor(chat_ids(tokenizer, messages), device=device).unsqueeze(0)
    caches: list[KVCache] = model.new_caches()
    answer: list[int] = []
    given: int = 0
    for _ in range(max_new_tokens):
        with looking_at(model):
            logits: Tensor = model(ids, caches).select(1, -1)
            chosen: Tensor = sample_next_token(logits, temperature=temperature, top_p=top_p, generator=generator)
        token: int = int(chosen)
        if token == end:
            break
        answer.append(token)
        ids = chosen.view(1, 1)
        certain: str = tokenizer.decode(answer).rstrip(REPLACEMENT)
        if certain[given:]:
            yield certain[given:]
            given = len(certain)
    if rest := tokenizer.decode(answer)[given:]:
        yield rest
