"""Chapter 15 with as few reshapes as possible; the other exercises are the reference's."""

import math

import torch
from torch import Tensor, nn

from .ch03_attention import merge_heads, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch07_models import GPT
from .ch09_sampling import looking_at


def beam_search(model, ids, max_new_tokens, n_beams, eos_id=None):
    if n_beams < 1:
        raise ValueError(f"n_beams must be at least 1, not {n_beams}")
    texts, scores = ids.clone(), None
    prompt, ended = ids.shape[1], []  # the finished texts, with their scores
    with looking_at(model):
        for _ in range(max_new_tokens):
            if texts.shape[0] == 0:
                break
            logits = model(texts)
            logits = logits[0] if isinstance(logits, tuple) else logits
            table = torch.log_softmax(logits[:, -1], dim=-1)
            if scores is None:
                scores = table.new_zeros(1)
            total = (scores[:, None] + table).flatten()
            values, where = total.topk(min(n_beams, total.numel()))
            V = table.shape[1]
            candidates = torch.cat([texts[where // V], (where % V)[:, None]], dim=1)
            everything = [(s, t, True) for s, t in ended] + [(values[i], candidates[i], False) for i in range(len(values))]
            everything.sort(key=lambda one: float(one[0]), reverse=True)
            everything = everything[:n_beams]
            ended = [(s, t) for s, t, old in everything if old or (eos_id is not None and int(t[-1]) == eos_id)]
            open_ones = [(s, t) for s, t, old in everything if not old and not (eos_id is not None and int(t[-1]) == eos_id)]
            scores = torch.stack([s for s, _ in open_ones]) if open_ones else scores[:0]
            texts = torch.stack([t for _, t in open_ones]) if open_ones else texts[:0]
    result = ended + ([(s, t) for s, t in zip(scores, texts)] if scores is not None else [(0.0, ids[0])])
    result.sort(key=lambda one: float(one[0]), reverse=True)
    return [(t[prompt:].tolist(), float(s)) for s, t in result]


def residual_distribution(target, draft):
    left = torch.relu(target - draft)
    scaled = left / left.sum(dim=-1, keepdim=True)
    return torch.where(scaled.isnan(), target, scaled)


class PaddedGPT(GPT):
    def forward(self, ids, n_pad=None):
        B, T = ids.shape
        n_pad = torch.zeros(B, dtype=torch.long) if n_pad is None else n_pad
        if self.pos_emb is not None and T - int(n_pad.min()) > self.config.max_len:
            raise ValueError(f"a text is longer than max_len = {self.config.max_len}")
        places = (torch.arange(T) - n_pad[:, None]).clamp(min=0)
        i, j = torch.arange(T)[:, None], torch.arange(T)
        allowed = ((j <= i) & (j >= n_pad[:, None, None])) | (i == j)
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            shifted = [self.pos_emb(x.new_zeros(1, int(row.max()) + 1, x.shape[-1]))[0][row] for row in places]
            x = x + torch.stack(shifted)
        extra = torch.zeros(B, 1, T, T, dtype=x.dtype).masked_fill(~allowed[:, None], -math.inf)
        for block in self.blocks:
            attn, y = block.attn, block.ln1(x)
            q, k, v = (split_heads(W(y), attn.n_heads) for W in (attn.W_q, attn.W_k, attn.W_v))
            if attn.positions == "rope":
                q = torch.stack([apply_rope(one, row) for one, row in zip(q, places)])
                k = torch.stack([apply_rope(one, row) for one, row in zip(k, places)])
            bias = extra + alibi_bias(attn.n_heads, T, T).to(x) if attn.positions == "alibi" else extra
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias
            weights = attn.dropout(torch.softmax(scores, dim=-1))
            x = x + attn.W_out(merge_heads(weights @ v))
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


class PagedKVCache:
    def __init__(self, pool):
        self.pool = pool
        self.table = ()
        self.length = 0

    @property
    def blocks(self):
        return list(self.table)

    def append(self, k, v):
        T, size = k.shape[1], self.pool.block_size
        if T == 0:
            return
        whole, rest = divmod(self.length, size)
        must_copy = rest != 0 and self.pool.holders(self.table[-1]) != 1
        more = (self.length + T + size - 1) // size - len(self.table)
        if more + must_copy > self.pool.n_free:
            raise RuntimeError(f"the pool has too few free blocks for {T} positions")
        if must_copy:
            new = self.pool.allocate()
            self.pool.k[new, :, :rest] = self.pool.k[self.table[-1], :, :rest]
            self.pool.v[new, :, :rest] = self.pool.v[self.table[-1], :, :rest]
            self.pool.free(self.table[-1])
            self.table = self.table[:-1] + (new,)
        self.table += tuple(self.pool.allocate() for _ in range(more))
        where = torch.arange(self.length, self.length + T)
        rows, places = torch.tensor(self.table)[where // size], where % size
        self.pool.k[rows, :, places] = k.transpose(0, 1)
        self.pool.v[rows, :, places] = v.transpose(0, 1)
        self.length += T

    def gather(self):
        where = torch.arange(self.length)
        rows = torch.tensor(self.table, dtype=torch.int64)[where // self.pool.block_size]
        return tuple(store[rows, :, where % self.pool.block_size].transpose(0, 1) for store in (self.pool.k, self.pool.v))

    def fork(self):
        branch = PagedKVCache(self.pool)
        branch.table, branch.length = self.table, self.length
        [self.pool.share(block) for block in self.table]
        return branch

    def free(self):
        [self.pool.free(block) for block in self.table]
        self.table, self.length = (), 0


def quantize_int8(weight):
    wide = weight.double()
    largest = torch.maximum(wide.amax(-1), -wide.amin(-1))
    scale = largest / 127
    scale = scale.masked_fill(largest == 0, 1.0)
    return (wide / scale[:, None]).round().char(), scale.to(weight.dtype)


class QuantizedLinear(nn.Module):
    bias: Tensor | None

    def __init__(self, linear: nn.Linear):
        super().__init__()
        with torch.no_grad():
            codes, scale = quantize_int8(linear.weight)
        self.register_buffer("weight", codes)
        self.register_buffer("scale", scale)
        if linear.bias is None:
            self.register_buffer("bias", None)
        else:
            self.register_buffer("bias", torch.clone(linear.bias.detach()))

    def forward(self, x):
        scaled = torch.einsum("...n,mn,m->...m", x, self.weight.to(x), self.scale.to(x))
        return scaled if self.bias is None else scaled.add(self.bias.to(x))
