# variant: zip over caches
from itertools import repeat

from torch import nn


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

    def new_caches(self):
        return [KVCache() for _ in range(len(self.blocks))]

    def forward(self, ids, caches=None):
        x = self.token_emb(ids)
        for block, cache in zip(self.blocks, repeat(None) if caches is None else caches):
            x = block(x, cache)
        return self.lm_head(self.ln_f(x))


# variant: the embedding takes the head's Parameter
from torch import nn


class Llama(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=10_000.0, eps=1e-5, tied=True):
        super().__init__()
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        self.token_emb = TokenEmbedding(vocab_size, d_model, scale=False)
        if tied:
            self.token_emb.weight = self.lm_head.weight
        sizes = (d_model, n_heads, n_kv_heads, d_ff)
        self.blocks = nn.ModuleList([LlamaBlock(*sizes, base=base, eps=eps) for _ in range(n_layers)])
        self.ln_f = RMSNorm(d_model, eps=eps)

    def new_caches(self):
        caches = []
        while len(caches) < len(self.blocks):
            caches.append(KVCache())
        return caches

    def forward(self, ids, caches=None):
        caches = caches or [None] * len(self.blocks)
        stream = self.token_emb(ids)
        for i in range(len(self.blocks)):
            stream = self.blocks[i](stream, caches[i])
        return self.lm_head(self.ln_f(stream))


# variant: a linear function without a module call for the head
import torch.nn.functional as F
from torch import nn


class Llama(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=10_000.0, eps=1e-5, tied=True):
        super().__init__()
        self.token_emb = TokenEmbedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers))
        self.ln_f = RMSNorm(d_model, eps)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        if tied:
            del self.lm_head.weight
            self.lm_head.register_parameter("weight", self.token_emb.weight)

    def new_caches(self):
        return list(map(lambda block: KVCache(), self.blocks))

    def forward(self, ids, caches=None):
        x = self.token_emb(ids)
        for i, block in enumerate(self.blocks):
            x = block(x) if caches is None else block(x, caches[i])
        return F.linear(self.ln_f(x), self.lm_head.weight)
