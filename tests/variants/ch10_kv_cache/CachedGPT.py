# variant: the attention of each block is exchanged before the numbers are copied all at once; caches as a tuple
class CachedGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        kind = config.positions if config.positions in ("rope", "alibi") else "none"
        before = self.state_dict()
        for block in self.blocks:
            block.attn = CachedSelfAttention(config.d_model, config.n_heads, positions=kind, bias=True, dropout=config.dropout)
        self.load_state_dict(before)

    def new_caches(self):
        return tuple(KVCache() for _ in range(self.config.n_layers))

    def forward(self, ids, caches=None):
        if caches is None:
            caches = [None] * len(self.blocks)
        start = getattr(caches[0], "length", 0)
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x, start)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = x + block.attn(block.ln1(x), cache=cache)
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


# variant: its own blocks replace GPT's; without caches new ones are used and dropped
class CachedBlock(nn.Module):
    def __init__(self, old, config):
        super().__init__()
        self.ln1, self.ln2, self.ffn = old.ln1, old.ln2, old.ffn
        self.attn = CachedSelfAttention(config.d_model, config.n_heads, old.attn.positions, dropout=config.dropout)
        self.attn.load_state_dict(old.attn.state_dict())

    def forward(self, x, cache):
        x = self.attn(self.ln1(x), cache) + x
        return self.ffn(self.ln2(x)) + x


class CachedGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([CachedBlock(old, config) for old in self.blocks])

    def new_caches(self):
        return [KVCache() for _ in range(len(self.blocks))]

    def forward(self, ids, caches=None):
        caches = caches or self.new_caches()
        start = caches[-1].length
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x, start=start)
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, caches[i])
        return self.ln_f(x) @ self.lm_head.weight.T


# variant: GPT's own forward does the work, with attention that finds its cache itself
class Attention(CachedSelfAttention):
    cache = None

    def forward(self, x):
        return super().forward(x, self.cache)


class Shifted(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table, self.start = [table], 0

    def forward(self, x):
        return self.table[0](x, start=self.start)


class CachedGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        for block in self.blocks:
            block.attn.__class__ = Attention

    def new_caches(self):
        return [KVCache() for _ in self.blocks]

    def forward(self, ids, caches=None):
        table = self.pos_emb
        try:
            for block, cache in zip(self.blocks, caches or len(self.blocks) * [None]):
                block.attn.cache = cache
            if table is not None:
                self.pos_emb = Shifted(table)
                self.pos_emb.start = caches[0].length if caches else 0
            return GPT.forward(self, ids)[0]
        finally:
            self.pos_emb = table
            for block in self.blocks:
                block.attn.cache = None


# variant: everything made again in __init__, nothing inherited but nn.Module
class CachedGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        whole = GPT(config)
        self.config, self.token_emb, self.pos_emb, self.blocks = config, whole.token_emb, whole.pos_emb, whole.blocks
        self.ln_f, self.lm_head = whole.ln_f, whole.lm_head
        for block in self.blocks:
            attn = CachedSelfAttention(config.d_model, config.n_heads, block.attn.positions, dropout=config.dropout)
            for name in ("W_q", "W_k", "W_v", "W_out"):
                setattr(attn, name, getattr(block.attn, name))
            block.attn = attn

    def new_caches(self):
        return list(map(lambda _: KVCache(), self.blocks))

    def forward(self, ids, caches=None):
        past = 0
        if caches is not None:
            past = caches[0].length
        x = self.token_emb(ids) if self.pos_emb is None else self.pos_emb(self.token_emb(ids), past)
        for layer, block in enumerate(self.blocks):
            attended = block.attn(block.ln1(x)) if caches is None else block.attn(block.ln1(x), caches[layer])
            x = x + attended
            x = x + block.ffn(block.ln2(x))
        x = self.ln_f(x)
        return self.lm_head(x)
