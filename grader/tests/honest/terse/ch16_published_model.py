"""Chapter 16 in the terse style: as short as it can be read."""

import re
from codecs import getincrementaldecoder

import torch
from torch import Tensor, nn

from .ch01_tokenizer import split_for_bpe
from .ch02_embeddings import TokenEmbedding
from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import apply_rope
from .ch05_layers import RMSNorm, SwiGLU
from .ch09_sampling import looking_at, sample_next_token
from .ch10_kv_cache import KVCache

START, END, ROLES = "<|im_start|>", "<|im_end|>", ("system", "user", "assistant")
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def halves(blocks: Tensor, n: int) -> Tensor:
    return blocks[:, : 2 * n].contiguous().view(torch.float16).float()


def dequantize_q8_0(blocks: Tensor) -> Tensor:
    return halves(blocks, 1) * blocks[:, 2:].view(torch.int8)


def dequantize_q4_1(blocks: Tensor) -> Tensor:
    scale, low = halves(blocks, 2).split(1, 1)
    return scale * torch.cat([blocks[:, 4:] % 16, blocks[:, 4:] // 16], 1) + low


def byte_names() -> dict[int, str]:
    hidden = [b for b in range(256) if b < 33 or 126 < b < 161 or b == 173]
    return {b: chr(256 + hidden.index(b) if b in hidden else b) for b in range(256)}


class PublishedTokenizer:
    def __init__(self, tokens, merges, special=()):
        self.tokens, self.special = tokens, sorted(special, key=len, reverse=True)
        self.ids, self.rank = ({x: i for i, x in enumerate(xs)} for xs in (tokens, merges))
        self.names = byte_names()
        self.bytes = {c: b for b, c in self.names.items()}

    def piece(self, text: str) -> list[int]:
        s = [c for b in text.encode() if (c := self.names[b]) in self.ids]
        while found := [(r, i) for i in range(len(s) - 1) if (r := self.rank.get(f"{s[i]} {s[i + 1]}")) is not None]:
            i = min(found)[1]
            s[i : i + 2] = [s[i] + s[i + 1]]
        return [self.ids[c] for c in s]

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        if allow_special and self.special:
            parts = re.split(f"({'|'.join(map(re.escape, self.special))})", text)
            return [i for p in parts for i in ([self.ids[p]] if p in self.special else self.encode(p))]
        runs = [""]
        for c in text:
            runs += [c, ""] if (digit := c.isnumeric() and not c.isalpha()) else []
            runs[-1] += "" if digit else c
        parts = [part for run in runs for part in re.split(r"(?<=<\|)(?=endoftext)", run)]
        return [i for part in parts for p in split_for_bpe(part) for i in self.piece(p)]

    def decode(self, ids) -> str:
        return bytes(self.bytes[c] for i in ids for c in self.tokens[i]).decode(errors="replace")


def interleave_rows(weight: Tensor, n_heads: int) -> Tensor:
    if len(weight) % (2 * n_heads):
        raise ValueError(f"{n_heads=} does not fit {len(weight)} rows")
    return weight.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2).clone()


class LlamaAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10_000.0):
        super().__init__()
        d, left = divmod(d_model, n_heads)
        if left or n_heads % n_kv_heads:
            raise ValueError(f"{d_model=}, {n_heads=} and {n_kv_heads=} do not fit")
        if d % 2:
            raise ValueError(f"d_head = {d} is odd")
        self.n_heads, self.n_kv_heads, self.base = n_heads, n_kv_heads, base
        self.W_q, self.W_out = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.W_k, self.W_v = (nn.Linear(d_model, d * n_kv_heads, bias=False) for _ in range(2))

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        T, past = x.size(1), cache.length if cache else 0
        h, kv = self.n_heads, self.n_kv_heads
        q, k, v = (split_heads(f(x), n) for f, n in ((self.W_q, h), (self.W_k, kv), (self.W_v, kv)))
        q, k = (apply_rope(t, torch.arange(past, past + T, device=x.device), self.base) for t in (q, k))
        k, v = cache.append(k, v) if cache else (k, v)
        k, v = (t.repeat_interleave(h // kv, 1) for t in (k, v))
        return self.W_out(merge_heads(scaled_dot_product_attention(q, k, v, causal_mask(T, past + T).to(x.device))[0]))


class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10_000.0, eps=1e-5):
        super().__init__()
        self.ln1, self.ln2 = (RMSNorm(d_model, eps) for _ in range(2))
        self.attn, self.ffn = LlamaAttention(d_model, n_heads, n_kv_heads, base), SwiGLU(d_model, d_ff)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        x = x + self.attn(self.ln1(x), cache)
        return x + self.ffn(self.ln2(x))


class Llama(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=10_000.0, eps=1e-5, tied=True):
        super().__init__()
        self.token_emb, self.lm_head = TokenEmbedding(vocab_size, d_model), nn.Linear(d_model, vocab_size, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers))
        self.ln_f = RMSNorm(d_model, eps)
        if tied:
            self.lm_head.weight = self.token_emb.weight

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in self.blocks]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        x = self.token_emb(ids)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, cache)
        return self.lm_head(self.ln_f(x))


def load_llama(model: Llama, state) -> None:
    tied = model.lm_head.weight is model.token_emb.weight
    to = {"model.embed_tokens": model.token_emb, "model.norm": model.ln_f, "lm_head": model.lm_head}
    if tied:
        to.pop("lm_head")
    for i, b in enumerate(model.blocks):
        a, f = b.attn, b.ffn
        to |= {f"model.layers.{i}.self_attn.{x}_proj": y for x, y in zip("qkvo", (a.W_q, a.W_k, a.W_v, a.W_out))}
        to |= {f"model.layers.{i}.mlp.{x}_proj": getattr(f, x) for x in ("gate", "up", "down")}
        to |= {f"model.layers.{i}.input_layernorm": b.ln1, f"model.layers.{i}.post_attention_layernorm": b.ln2}
    to = {f"{name}.weight": part.weight for name, part in to.items()}
    shapes = {"lm_head.weight": model.lm_head.weight.shape} | {name: p.shape for name, p in to.items()}
    for name in [*to, *state]:
        if name not in state or state[name].shape != shapes.get(name):
            raise ValueError(f"{name} does not fit")
    heads = {"q_proj": model.blocks[0].attn.n_heads, "k_proj": model.blocks[0].attn.n_kv_heads}
    for name, p in to.items():
        h = heads.get(name.split(".")[-2])
        p.data.copy_(interleave_rows(state[name], h) if h else state[name])


def chat_ids(tokenizer: PublishedTokenizer, messages) -> list[int]:
    if not messages:
        raise ValueError("no messages")
    if bad := [m["role"] for m in messages if m["role"] not in ROLES]:
        raise ValueError(f"unknown role: {bad[0]}")
    first = [] if messages[0]["role"] == "system" else [{"role": "system", "content": SYSTEM}]
    s, e, text = *(tokenizer.encode(t, True) for t in (START, END)), tokenizer.encode
    framed = [s + text(f"{m['role']}\n{m['content']}") + e + text("\n") for m in [*first, *messages]]
    return sum(framed, []) + s + text("assistant\n")


def stream_answer(model, tokenizer, messages, max_new_tokens=200, temperature=0.0, top_p=1.0, generator=None):
    ids, caches, end = chat_ids(tokenizer, messages), model.new_caches(), tokenizer.encode(END, True)
    names, decoder = byte_names(), getincrementaldecoder("utf-8")("replace")
    of = {c: b for b, c in names.items()}
    for _ in range(max_new_tokens):
        with looking_at(model):
            logits = model(torch.tensor([ids], device=model.token_emb.weight.device), caches)[:, -1]
            ids = sample_next_token(logits, temperature, top_p=top_p, generator=generator).tolist()
        if ids == end:
            break
        if new := decoder.decode(bytes(of[c] for c in tokenizer.tokens[ids[0]])):
            yield new
    if rest := decoder.decode(b"", True):
        yield rest
