"""In explicit loops: weights number by number, rows one by one, heads one after the other."""

import struct
import unicodedata

import torch
from torch import Tensor, nn

from .ch01_tokenizer import split_for_bpe
from .ch02_embeddings import TokenEmbedding
from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import apply_rope
from .ch05_layers import RMSNorm, SwiGLU
from .ch09_sampling import looking_at, sample_next_token
from .ch10_kv_cache import KVCache

START = "<|im_start|>"
END = "<|im_end|>"
ROLES = ("system", "user", "assistant")
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def dequantize_q8_0(blocks: Tensor) -> Tensor:
    result = torch.zeros(blocks.size(0), 32)
    for n in range(blocks.size(0)):
        block = bytes(blocks[n].tolist())
        numbers = struct.unpack("<e32b", block)
        for i in range(32):
            result[n, i] = numbers[0] * numbers[1 + i]
    return result


def dequantize_q4_1(blocks: Tensor) -> Tensor:
    result = torch.zeros(blocks.size(0), 32)
    for n in range(blocks.size(0)):
        block = bytes(blocks[n].tolist())
        scale, minimum = struct.unpack("<ee", block[:4])
        for i in range(16):
            high, low = divmod(block[4 + i], 16)
            result[n, i] = scale * low + minimum
            result[n, i + 16] = scale * high + minimum
    return result


def byte_names() -> dict[int, str]:
    names = {}
    next_hidden = 256
    for byte in range(256):
        visible = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        if visible:
            names[byte] = chr(byte)
        else:
            names[byte] = chr(next_hidden)
            next_hidden += 1
    return names


class PublishedTokenizer:
    def __init__(self, tokens, merges, special=()):
        self.tokens = []
        self.id_of = {}
        for token in tokens:
            self.id_of[token] = len(self.tokens)
            self.tokens.append(token)
        self.rank = {}
        for merge in merges:
            left, right = merge.split(" ")
            self.rank[left, right] = len(self.rank)
        self.special = list(special)
        self.names = byte_names()

    def _encode_piece(self, piece: str) -> list[int]:
        symbols = []
        for byte in piece.encode("utf-8"):
            if self.names[byte] in self.id_of:
                symbols.append(self.names[byte])
        while True:
            best = None
            for i in range(len(symbols) - 1):
                rank = self.rank.get((symbols[i], symbols[i + 1]))
                if rank is not None and (best is None or rank < best[0]):
                    best = (rank, i)
            if best is None:
                break
            i = best[1]
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        ids = []
        for symbol in symbols:
            ids.append(self.id_of[symbol])
        return ids

    def _encode_text(self, text: str) -> list[int]:
        parts = []
        current = ""
        for i in range(len(text)):
            if unicodedata.category(text[i]) in ["Nd", "Nl", "No"]:
                parts.append(current)
                parts.append(text[i])
                current = ""
                continue
            if text[i:].startswith("endoftext") and current.endswith("<|"):
                parts.append(current)
                current = ""
            current += text[i]
        parts.append(current)
        ids = []
        for part in parts:
            for piece in split_for_bpe(part):
                ids.extend(self._encode_piece(piece))
        return ids

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        if not allow_special:
            return self._encode_text(text)
        ids = []
        start = 0
        i = 0
        while i < len(text):
            longest = ""
            for token in self.special:
                if text.startswith(token, i) and len(token) > len(longest):
                    longest = token
            if longest:
                ids.extend(self._encode_text(text[start:i]))
                ids.append(self.id_of[longest])
                i += len(longest)
                start = i
            else:
                i += 1
        ids.extend(self._encode_text(text[start:]))
        return ids

    def decode(self, ids) -> str:
        byte_of = {}
        for byte, name in self.names.items():
            byte_of[name] = byte
        found = bytearray()
        for i in ids:
            for name in self.tokens[i]:
                found.append(byte_of[name])
        return found.decode("utf-8", errors="replace")


def interleave_rows(weight: Tensor, n_heads: int) -> Tensor:
    rows = weight.size(0)
    if rows % n_heads != 0 or rows // n_heads % 2 != 0:
        raise ValueError(f"{rows} rows are not n_heads = {n_heads} heads of even width")
    d = rows // n_heads
    result = torch.empty_like(weight)
    for head in range(n_heads):
        for i in range(d // 2):
            result[head * d + 2 * i] = weight[head * d + i]
            result[head * d + 2 * i + 1] = weight[head * d + d // 2 + i]
    return result


class LlamaAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10_000.0):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} is no multiple of n_heads = {n_heads}")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"n_heads = {n_heads} is no multiple of n_kv_heads = {n_kv_heads}")
        d_head = d_model // n_heads
        if d_head % 2 == 1:
            raise ValueError(f"d_head = {d_head} must be even")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.base = base
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        past = 0 if cache is None else cache.length
        new = x.size(1)
        where = torch.arange(past, past + new, device=x.device)
        q = apply_rope(split_heads(self.W_q(x), self.n_heads), where, self.base)
        k = apply_rope(split_heads(self.W_k(x), self.n_kv_heads), where, self.base)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        mask = causal_mask(new, past + new).to(x.device)
        group = self.n_heads // self.n_kv_heads
        outputs = []
        for h in range(self.n_heads):
            mine = slice(h // group, h // group + 1)
            output, _ = scaled_dot_product_attention(q[:, h : h + 1], k[:, mine], v[:, mine], mask)
            outputs.append(output)
        return self.W_out(merge_heads(torch.cat(outputs, dim=1)))


class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10_000.0, eps=1e-5):
        super().__init__()
        self.ln1 = RMSNorm(d_model, eps)
        self.attn = LlamaAttention(d_model, n_heads, n_kv_heads, base)
        self.ln2 = RMSNorm(d_model, eps)
        self.ffn = SwiGLU(d_model, d_ff)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        normalised = self.ln1(x)
        x = x + self.attn(normalised, cache)
        normalised = self.ln2(x)
        x = x + self.ffn(normalised)
        return x


class Llama(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=10_000.0, eps=1e-5, tied=True):
        super().__init__()
        self.token_emb = TokenEmbedding(vocab_size, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps))
        self.ln_f = RMSNorm(d_model, eps)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        if tied:
            self.lm_head.weight = self.token_emb.weight

    def new_caches(self) -> list[KVCache]:
        caches = []
        for _ in self.blocks:
            caches.append(KVCache())
        return caches

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        x = self.token_emb(ids)
        for i in range(len(self.blocks)):
            if caches is None:
                x = self.blocks[i](x)
            else:
                x = self.blocks[i](x, caches[i])
        return self.lm_head(self.ln_f(x))


def load_llama(model: Llama, state) -> None:
    places = []
    places.append(("model.embed_tokens.weight", model.token_emb.weight, None))
    for i in range(len(model.blocks)):
        block = model.blocks[i]
        layer = f"model.layers.{i}."
        places.append((layer + "input_layernorm.weight", block.ln1.weight, None))
        places.append((layer + "self_attn.q_proj.weight", block.attn.W_q.weight, block.attn.n_heads))
        places.append((layer + "self_attn.k_proj.weight", block.attn.W_k.weight, block.attn.n_kv_heads))
        places.append((layer + "self_attn.v_proj.weight", block.attn.W_v.weight, None))
        places.append((layer + "self_attn.o_proj.weight", block.attn.W_out.weight, None))
        places.append((layer + "post_attention_layernorm.weight", block.ln2.weight, None))
        places.append((layer + "mlp.gate_proj.weight", block.ffn.gate.weight, None))
        places.append((layer + "mlp.up_proj.weight", block.ffn.up.weight, None))
        places.append((layer + "mlp.down_proj.weight", block.ffn.down.weight, None))
    places.append(("model.norm.weight", model.ln_f.weight, None))
    tied = model.lm_head.weight is model.token_emb.weight
    if not tied or "lm_head.weight" in state:
        places.append(("lm_head.weight", model.lm_head.weight, None))
    known = set()
    for name, weight, _ in places:
        if name not in state:
            raise ValueError(f"{name} is missing")
        if state[name].shape != weight.shape:
            raise ValueError(f"{name} has a wrong shape")
        known.add(name)
    for name in state:
        if name not in known:
            raise ValueError(f"there is no place for {name}")
    with torch.no_grad():
        for name, weight, heads in places:
            if tied and name == "lm_head.weight":
                continue
            tensor = state[name]
            if heads is not None:
                tensor = interleave_rows(tensor, heads)
            weight.copy_(tensor)


def chat_ids(tokenizer: PublishedTokenizer, messages) -> list[int]:
    if len(messages) == 0:
        raise ValueError("a chat has at least one message")
    ids = []
    start = tokenizer.encode(START, allow_special=True)
    end = tokenizer.encode(END, allow_special=True)
    line = tokenizer.encode("\n")
    chat = []
    if messages[0]["role"] != "system":
        chat.append({"role": "system", "content": SYSTEM})
    for message in messages:
        chat.append(message)
    for message in chat:
        if message["role"] not in ROLES:
            raise ValueError(f"there is no role {message['role']}")
        for part in (start, tokenizer.encode(message["role"]), line, tokenizer.encode(message["content"]), end, line):
            ids.extend(part)
    for part in (start, tokenizer.encode("assistant"), line):
        ids.extend(part)
    return ids


def stream_answer(model, tokenizer, messages, max_new_tokens=200, temperature=0.0, top_p=1.0, generator=None):
    device = model.token_emb.weight.device
    ids = torch.tensor([chat_ids(tokenizer, messages)], device=device)
    end = tokenizer.encode(END, allow_special=True)[0]
    caches = model.new_caches()
    answer = []
    shown = ""
    while len(answer) < max_new_tokens:
        with looking_at(model):
            logits = model(ids, caches)
            token = sample_next_token(logits[:, -1], temperature, top_p=top_p, generator=generator)
        if token.item() == end:
            break
        answer.append(token.item())
        ids = token[:, None]
        text = tokenizer.decode(answer)
        while text.endswith("\ufffd"):
            text = text[:-1]
        if len(text) > len(shown):
            yield text[len(shown) :]
            shown = text
    text = tokenizer.decode(answer)
    if len(text) > len(shown):
        yield text[len(shown) :]
