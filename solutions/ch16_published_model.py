"""Chapter 16: a published model, from your own parts.

Llama, Mistral and SmolLM are the model of chapters 3 to 7 with other choices: RMSNorm, SwiGLU, RoPE, no biases, and often fewer
key heads. Here you read their weights and their vocabulary, and let the model answer.

B batch, T new positions, P past positions, D = d_model, H = n_heads, d = D / H.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from .ch01_tokenizer import split_for_bpe
from .ch02_embeddings import TokenEmbedding
from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import apply_rope
from .ch05_layers import RMSNorm, SwiGLU
from .ch09_sampling import looking_at, sample_next_token
from .ch10_kv_cache import KVCache

START, END = "<|im_start|>", "<|im_end|>"  # around each message of a chat
ROLES = ("system", "user", "assistant")
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"  # if the messages begin with another role


def dequantize_q8_0(blocks: Tensor) -> Tensor:
    """Turn blocks of 8-bit weights into numbers: uint8 (N, 34) -> float32 (N, 32).

    Each row is a block: two bytes with the scale, a little-endian float16, and then 32 signed bytes. A weight is scale · byte.
    """
    # TODO 1: read bytes 0 and 1 as a float16, (N, 1), and convert it to float32
    # TODO 2: read the other 32 bytes as signed numbers, from -128 to 127
    # TODO 3: multiply
    ### BEGIN SOLUTION
    scale = blocks[:, :2].contiguous().view(torch.float16).float()  # (N, 1)
    weights = blocks[:, 2:].contiguous().view(torch.int8).float()  # (N, 32)
    return scale * weights
    ### END SOLUTION


def dequantize_q4_1(blocks: Tensor) -> Tensor:
    """Turn blocks of 4-bit weights into numbers: uint8 (N, 20) -> float32 (N, 32).

    Each row is a block: two bytes with the scale and two with the minimum, both little-endian float16, and then 16 bytes. The
    low four bits of these bytes are the weights 0 to 15, the high four bits are the weights 16 to 31. A weight is
    scale · number + minimum, with the number from 0 to 15.
    """
    # TODO 1: read the scale and the minimum, each (N, 1), and convert them to float32
    # TODO 2: take the low four bits and the high four bits of the other 16 bytes, each (N, 16)
    # TODO 3: put them together, (N, 32), low bits first; multiply and add
    ### BEGIN SOLUTION
    scale, minimum = blocks[:, :4].contiguous().view(torch.float16).float().split(1, dim=-1)  # (N, 1) each
    packed = blocks[:, 4:]  # (N, 16)
    numbers = torch.cat([packed & 15, packed >> 4], dim=-1).float()  # (N, 32)
    return scale * numbers + minimum
    ### END SOLUTION


def byte_names() -> dict[int, str]:
    """Return the character by which vocabulary files write each byte: a dict from 0 ... 255 to 256 different characters.

    A byte whose Latin-1 character is printable and not a space is written as that character: 33 to 126, 161 to 172, 174 to 255.
    The others, in increasing order, are written as the characters U+0100, U+0101, and so on. So a space (32) is "Ġ".
    """
    # TODO 1: give the printable bytes their own characters, with chr
    # TODO 2: give the others the characters from 256 on, in order
    ### BEGIN SOLUTION
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    ### END SOLUTION


class PublishedTokenizer:
    """The tokenizer of a published model, from its vocabulary file.

    `tokens` are the V tokens, written with byte_names; the id of a token is its place. `merges` are strings "left right", in the
    order in which they apply. `special` are the special tokens, such as "<|im_end|>", each also one of `tokens`.
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[str], special: Sequence[str] = ()) -> None:
        # TODO 1: keep the tokens, and a dict from token to id
        # TODO 2: make a dict from pair (left, right) to its place in `merges`
        # TODO 3: keep the special tokens and the names of the bytes, in both directions
        ### BEGIN SOLUTION
        self.tokens = list(tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self.special = sorted(special, key=len, reverse=True)  # the longest first: one may begin like another
        self.name_of = byte_names()
        self.byte_of = {name: byte for byte, name in self.name_of.items()}
        ### END SOLUTION

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Return the ids of `text`.

        The text is cut before and after every digit, and each part is split as GPT-2 does. A digit is a character of the Unicode
        category Nd, Nl or No (unicodedata.category): 7, Ⅻ and ½ are digits, but the Chinese 一 (one) is a letter, and is not cut.
        Inside a piece, the merges apply, earliest first. A byte without a token vanishes before the merges.

        With allow_special, each special token in the text is one id, and the text around it is encoded by itself; otherwise it is
        text like any other. So is "<|endoftext|>", which split_for_bpe keeps whole: cut the text between "<|" and "endoftext"
        before you split it. Other texts have the end of a piece there in any case.
        """
        # TODO 4: with allow_special, cut the text at the special tokens; each of them is one id
        # TODO 5: cut the rest at every digit, and between "<|" and "endoftext"; split the parts with split_for_bpe
        # TODO 6: turn each piece into the names of its bytes, and leave out those that are no token
        # TODO 7: among the neighbouring pairs, merge the one with the earliest merge, everywhere; repeat until none is left
        # TODO 8: look up the ids
        ### BEGIN SOLUTION
        if allow_special and self.special:
            parts = re.split("(" + "|".join(map(re.escape, self.special)) + ")", text)
            return [i for part in parts for i in ([self.ids[part]] if part in self.special else self.encode(part))]
        runs = [""]
        for character in text:
            if unicodedata.category(character).startswith("N"):
                runs += [character, ""]
            else:
                runs[-1] += character
        found = []
        halves = [half for run in runs for half in re.split(r"(?<=<\|)(?=endoftext)", run)]  # a piece ends there anyway
        for piece in [piece for half in halves for piece in split_for_bpe(half)]:
            names = [self.name_of[byte] for byte in piece.encode("utf-8")]
            symbols = [name for name in names if name in self.ids]
            while pairs := [pair for pair in zip(symbols, symbols[1:]) if pair in self.ranks]:
                left, right = min(pairs, key=self.ranks.get)
                merged, i = [], 0
                while i < len(symbols):
                    fits = symbols[i : i + 2] == [left, right]
                    merged.append(left + right if fits else symbols[i])
                    i += 2 if fits else 1
                symbols = merged
            found += [self.ids[symbol] for symbol in symbols]
        return found
        ### END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`; bytes that are not valid UTF-8 become U+FFFD."""
        # TODO 9: join the tokens, turn each character back into its byte, and decode all bytes at once
        ### BEGIN SOLUTION
        names = "".join(self.tokens[i] for i in ids)
        return bytes(self.byte_of[name] for name in names).decode("utf-8", errors="replace")
        ### END SOLUTION


def interleave_rows(weight: Tensor, n_heads: int) -> Tensor:
    """Reorder the rows of a query or key weight that was made for RoPE on halves, for RoPE on neighbours.

    Hugging Face's Llama models rotate feature i of a head with feature i + d/2; apply_rope rotates feature 2i with feature 2i + 1. In
    each head, row i goes to place 2i, and row i + d/2 to place 2i + 1. `weight` is (H · d, D), or a bias (H · d,); the result is a
    new tensor of the same shape. Raises a ValueError that names n_heads if the rows cannot be cut into n_heads heads of even width.
    """
    # TODO 1: check the number of rows
    # TODO 2: cut them into heads and halves, (H, 2, d/2, ...)
    # TODO 3: exchange the two axes, and put the rows together again
    ### BEGIN SOLUTION
    if weight.shape[0] % (2 * n_heads) != 0:
        raise ValueError(f"{weight.shape[0]} rows cannot be cut into n_heads = {n_heads} heads of even width")
    halves = weight.reshape(n_heads, 2, weight.shape[0] // n_heads // 2, *weight.shape[1:])  # (H, 2, d/2, ...)
    return halves.transpose(1, 2).reshape(weight.shape).clone()
    ### END SOLUTION


class LlamaAttention(nn.Module):
    """Causal attention with RoPE and fewer key heads, which can continue from a cache: (B, T, D) -> (B, T, D).

    Query head h reads key head h // (n_heads // n_kv_heads). Parameters, all without a bias: `W_q` and `W_out`, D -> D, and `W_k`
    and `W_v`, D -> n_kv_heads * d. Other attributes: `n_heads` and `n_kv_heads`. Raises a ValueError that names both numbers if
    n_heads does not divide d_model or n_kv_heads does not divide n_heads, and one that names d_head if that is odd.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        # TODO 1: check the sizes; name them in the errors
        # TODO 2: keep what forward needs; make the four linear layers
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into n_heads = {n_heads} equal heads")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"n_heads = {n_heads} query heads cannot share n_kv_heads = {n_kv_heads} key heads evenly")
        d_head = d_model // n_heads
        if d_head % 2 != 0:
            raise ValueError(f"RoPE pairs features, but d_head = {d_model} / {n_heads} = {d_head} is odd")
        self.n_heads, self.n_kv_heads, self.base = n_heads, n_kv_heads, base
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """Attend from each new position to the cache, earlier new positions and itself; add the new ones to the cache.

        The cache has n_kv_heads heads: each key and value once. Without a cache, x is a whole sequence.
        """
        # TODO 3: project; split the queries into n_heads heads, keys and values into n_kv_heads
        # TODO 4: rotate queries and keys by their positions, which begin after those in the cache, with self.base
        # TODO 5: append keys and values to the cache, and use those of all positions
        # TODO 6: give each query head the key head of its group, attend with a causal mask, merge the heads, and apply W_out
        ### BEGIN SOLUTION
        T = x.size(1)
        past = cache.length if cache is not None else 0
        where = torch.arange(past, past + T, device=x.device)
        q = apply_rope(split_heads(self.W_q(x), self.n_heads), where, self.base)  # (B, H, T, d)
        k = apply_rope(split_heads(self.W_k(x), self.n_kv_heads), where, self.base)  # (B, n_kv_heads, T, d)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)  # each (B, n_kv_heads, P + T, d)
        group = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # each (B, H, P + T, d)
        mask = causal_mask(T, past + T).to(x.device)
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        return self.W_out(merge_heads(output))  # (B, T, D)
        ### END SOLUTION


class LlamaBlock(nn.Module):
    """A pre-norm block with RMSNorm and SwiGLU: (B, T, D) -> (B, T, D).

    Its parts: `ln1`, `attn` (a LlamaAttention), `ln2`, `ffn` (a SwiGLU). `eps` is that of both norms.
    """

    def __init__(
        self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int, base: float = 10_000.0, eps: float = 1e-5
    ) -> None:
        super().__init__()
        # TODO 1: make the four parts
        ### BEGIN SOLUTION
        self.ln1 = RMSNorm(d_model, eps)
        self.attn = LlamaAttention(d_model, n_heads, n_kv_heads, base)
        self.ln2 = RMSNorm(d_model, eps)
        self.ffn = SwiGLU(d_model, d_ff)
        ### END SOLUTION

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        # TODO 2: add the attention of the normalised x, and then the feed-forward of the normalised sum
        ### BEGIN SOLUTION
        x = x + self.attn(self.ln1(x), cache)
        return x + self.ffn(self.ln2(x))
        ### END SOLUTION


class Llama(nn.Module):
    """A model of the Llama family: ids (B, T) -> logits (B, T, V).

    Its parts: `token_emb` (a TokenEmbedding that does not scale), `blocks` (a ModuleList of n_layers LlamaBlocks), `ln_f` (an
    RMSNorm), and `lm_head`, D -> V without a bias. If `tied`, the weight of lm_head *is* the embedding's: one Parameter.
    """

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
        # TODO 1: make the parts; all norms have eps
        # TODO 2: if tied, make both weights the same Parameter
        ### BEGIN SOLUTION
        self.token_emb = TokenEmbedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers))
        self.ln_f = RMSNorm(d_model, eps)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        if tied:
            self.lm_head.weight = self.token_emb.weight
        ### END SOLUTION

    def new_caches(self) -> list[KVCache]:
        """Return a list with an empty cache for each block."""
        # TODO 3: a separate cache for each block
        ### BEGIN SOLUTION
        return [KVCache() for _ in self.blocks]
        ### END SOLUTION

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        """Return the logits of the new tokens `ids`, which follow the tokens in the caches; add them to the caches."""
        # TODO 4: look up the tokens, run every block with its own cache, and apply the last norm and the head
        ### BEGIN SOLUTION
        x = self.token_emb(ids)  # (B, T, D)
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None)
        return self.lm_head(self.ln_f(x))  # (B, T, V)
        ### END SOLUTION


def load_llama(model: Llama, state: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a Hugging Face Llama into `model`.

    `model.embed_tokens.weight` is the token embedding, `model.norm.weight` the last norm, `lm_head.weight` the head. A tied model
    does not use it: it may be absent then, and if it is there, its shape may be checked or not. Block i is `model.layers.i`:
    `input_layernorm`, `self_attn.q_proj`, `k_proj`, `v_proj` and `o_proj`, `post_attention_layernorm`, `mlp.gate_proj`, `up_proj` and
    `down_proj`, each with `.weight`. The rows of q_proj and k_proj are interleaved. A tensor that is missing, one that the model has no place for, and one of a wrong shape raise a
    ValueError that names it; then nothing in the model has changed.
    """
    # TODO 1: make a dict from each published name to the name of your parameter
    # TODO 2: check that nothing is missing, that nothing is left over, and that each shape fits
    # TODO 3: interleave the rows of queries and keys
    # TODO 4: copy everything
    ### BEGIN SOLUTION
    parts = {
        "input_layernorm": "ln1", "self_attn.q_proj": "attn.W_q", "self_attn.k_proj": "attn.W_k", "self_attn.v_proj": "attn.W_v",
        "self_attn.o_proj": "attn.W_out", "post_attention_layernorm": "ln2", "mlp.gate_proj": "ffn.gate",
        "mlp.up_proj": "ffn.up", "mlp.down_proj": "ffn.down",
    }  # fmt: skip
    places = {"model.embed_tokens.weight": "token_emb.weight", "model.norm.weight": "ln_f.weight"}
    for i in range(len(model.blocks)):
        places |= {f"model.layers.{i}.{theirs}.weight": f"blocks.{i}.{ours}.weight" for theirs, ours in parts.items()}
    tied = model.lm_head.weight is model.token_emb.weight
    if not tied:
        places["lm_head.weight"] = "lm_head.weight"
    own = dict(model.named_parameters())
    for name in places:
        if name not in state:
            raise ValueError(f"the state has no {name}")
    for name, tensor in state.items():
        expected = own[places[name]] if name in places else model.lm_head.weight if name == "lm_head.weight" else None
        if expected is None:
            raise ValueError(f"the model has no place for {name}")
        if tensor.shape != expected.shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, and the model needs {tuple(expected.shape)}")
    with torch.no_grad():
        for name, place in places.items():
            tensor = state[name]
            if "q_proj" in name:
                tensor = interleave_rows(tensor, model.blocks[0].attn.n_heads)
            if "k_proj" in name:
                tensor = interleave_rows(tensor, model.blocks[0].attn.n_kv_heads)
            own[place].copy_(tensor)
    ### END SOLUTION


def chat_ids(tokenizer: PublishedTokenizer, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the ids of a chat, ending where the assistant begins to answer.

    Each message has a "role" (one of ROLES) and a "content", and is written as START, the role, a line end, the content, END, and
    a line end. If the first message is no system message, one with SYSTEM comes before it. At the end come START, "assistant"
    and a line end. START and END are special tokens; what looks like one inside a content is ordinary text. An empty list or an
    unknown role raises a ValueError; the error names the role.
    """
    # TODO 1: check the messages; if the first one has another role than system, put the system message before it
    # TODO 2: for each message: the id of START, the ids of role and content, the id of END, the ids of the line end
    # TODO 3: begin the assistant's message
    ### BEGIN SOLUTION
    if not messages:
        raise ValueError("there are no messages to answer")
    for message in messages:
        if message["role"] not in ROLES:
            raise ValueError(f"the role {message['role']!r} is not one of {', '.join(ROLES)}")
    if messages[0]["role"] != "system":
        messages = [{"role": "system", "content": SYSTEM}, *messages]
    [start], [end] = (tokenizer.encode(special, allow_special=True) for special in (START, END))
    ids = []
    for message in messages:
        ids += [start, *tokenizer.encode(f"{message['role']}\n{message['content']}"), end, *tokenizer.encode("\n")]
    return [*ids, start, *tokenizer.encode("assistant\n")]
    ### END SOLUTION


def stream_answer(
    model: Llama,
    tokenizer: PublishedTokenizer,
    messages: Sequence[Mapping[str, str]],
    max_new_tokens: int = 200,
    temperature: float = 0.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Iterator[str]:
    """Yield the answer to a chat piece by piece, as soon as a piece is whole characters.

    The prompt goes through the model in one pass, and then each new token in a pass of its own, with caches. sample_next_token
    chooses the tokens. The answer ends before END, or after max_new_tokens tokens. The pieces joined are the decoded answer; a
    character of several tokens is yielded when its last byte has come. Bytes that never become a character are yielded as U+FFFD,
    with the next character or at the end. Runs in eval mode without gradient, and between two pieces the caller's own modes hold.
    """
    # TODO 1: make the ids of the chat, and empty caches
    # TODO 2: inside looking_at, run the new ids through the model and choose the next token; never yield inside looking_at
    # TODO 3: stop at END; otherwise decode the answer so far, and yield what is new and certain: no U+FFFD at its end
    # TODO 4: at the end, yield the rest
    ### BEGIN SOLUTION
    new = torch.tensor([chat_ids(tokenizer, messages)], device=model.token_emb.weight.device)  # (1, T)
    [end] = tokenizer.encode(END, allow_special=True)
    caches, answer, written = model.new_caches(), [], 0
    for _ in range(max_new_tokens):
        with looking_at(model):
            logits = model(new, caches)[:, -1]  # (1, V)
            new = sample_next_token(logits, temperature, top_p=top_p, generator=generator)[:, None]  # (1, 1)
        if new.item() == end:
            break
        answer.append(new.item())
        certain = tokenizer.decode(answer).rstrip("\ufffd")
        if len(certain) > written:
            yield certain[written:]
            written = len(certain)
    if rest := tokenizer.decode(answer)[written:]:
        yield rest
    ### END SOLUTION
