# variant: the blocks' attention is replaced by a module that holds the mask of the pass
class MaskedAttention(CausalSelfAttention):
    mask = None

    def forward(self, x):
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        where = torch.arange(x.shape[1])
        if self.positions == "rope":
            q, k = apply_rope(q, where), apply_rope(k, where)
        bias = alibi_bias(self.n_heads, len(where), len(where)).to(x) if self.positions == "alibi" else None
        weights = scaled_dot_product_attention(q, k, v, self.mask, bias)[1]
        return self.W_out(merge_heads(self.dropout(weights) @ v))


class PaddedGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        for block in self.blocks:
            old, block.attn = block.attn, MaskedAttention(config.d_model, config.n_heads, block.attn.positions, dropout=config.dropout)
            block.attn.load_state_dict(old.state_dict())

    def forward(self, ids, n_pad=None):
        B, T = ids.shape
        pads = torch.zeros(B, dtype=torch.int64) if n_pad is None else n_pad
        where = torch.arange(T)[None] - pads[:, None]
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            if T > self.config.max_len:
                raise ValueError(f"{T} positions do not fit into max_len = {self.config.max_len}")
            rows = self.pos_emb(torch.zeros_like(x[:1]))[0]
            x = x + rows[where.clamp(min=0)]
        mask = (torch.arange(T)[:, None] >= torch.arange(T)) & (where >= 0)[:, None, None, :]
        for block in self.blocks:
            block.attn.mask = mask
            x = block(x)
            block.attn.mask = None
        return self.lm_head(self.ln_f(x))


# variant: a bias of -inf, and each pad attends to itself; RoPE turns by each row's own positions
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


# variant: the rows are rolled to the left, so that padding is on the right and causality hides it
class PaddedGPT(GPT):
    def forward(self, ids, n_pad=None):
        if n_pad is None:
            return super().forward(ids)[0]
        T = ids.shape[1]
        columns = (torch.arange(T) + n_pad[:, None]) % T
        logits = super().forward(ids.gather(1, columns))[0]
        back = (torch.arange(T) - n_pad[:, None]) % T
        return logits.gather(1, back[..., None].expand_as(logits))
