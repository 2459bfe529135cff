# variant: no mask for a single new token, which may attend to everything; scores without the function of chapter 3
class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x, cache=None):
        B, T, D = x.shape
        q, k, v = (W(x).view(B, T, self.n_heads, -1).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        start = 0 if cache is None else cache.length
        if self.positions == "rope":
            q, k = (apply_rope(part, start + torch.arange(T, device=x.device)) for part in (q, k))
        if cache is not None:
            k, v = cache.append(k, v)
        scores = q @ k.mT * q.size(-1) ** -0.5
        if self.positions == "alibi":
            scores = scores + alibi_bias(self.n_heads, T, k.size(2)).to(x.device, x.dtype)
        if T > 1:
            scores = scores.masked_fill(~causal_mask(T, k.size(2)).to(x.device), -torch.inf)
        weights = self.dropout(scores.softmax(-1))
        return self.W_out((weights @ v).transpose(1, 2).reshape(B, T, D))


# variant: keys are cached before RoPE, and all of them rotated at each call
class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x, cache=None):
        cache = cache if cache is not None else KVCache()
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        k, v = cache.append(split_heads(k, self.n_heads), split_heads(v, self.n_heads))
        q = split_heads(q, self.n_heads)
        places = torch.arange(cache.length, device=x.device)
        new = places[-x.size(1) :]
        if self.positions == "rope":
            q, k = apply_rope(q, new), apply_rope(k, places)
        bias = None
        if self.positions == "alibi":
            slopes = -alibi_bias(self.n_heads, 1, 2)[:, 0, :1].to(x)
            bias = slopes[:, :, None] * places.to(x.dtype)
        _, weights = scaled_dot_product_attention(q, k, v, new[:, None] >= places, bias)
        return self.W_out(merge_heads(F.dropout(weights, self.dropout.p, self.training) @ v))


# variant: masks and biases of the whole text, of which the last rows are taken; einsum; a class that inherits nothing
class CachedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none", bias=True, dropout=0.0):
        super().__init__()
        self.inner = {"heads": n_heads}
        self.positions = positions
        self.W_q, self.W_k = nn.Linear(d_model, d_model, bias), nn.Linear(d_model, d_model, bias)
        self.W_v, self.W_out = nn.Linear(d_model, d_model, bias), nn.Linear(d_model, d_model, bias)
        self.drop = nn.Dropout(dropout)
        assert d_model % n_heads == 0 and positions in ("none", "rope", "alibi")

    def forward(self, x, cache=None):
        heads = self.inner["heads"]
        k, v = split_heads(self.W_k(x), heads), split_heads(self.W_v(x), heads)
        q = split_heads(self.W_q(x), heads)
        before = getattr(cache, "length", 0)
        everything = before + x.shape[1]
        if self.positions == "rope":
            q = apply_rope(q, torch.arange(everything, device=x.device)[before:])
            k = apply_rope(k, torch.arange(everything, device=x.device)[before:])
        if cache is not None:
            k, v = cache.append(k, v)
        table = torch.zeros(everything, everything).masked_fill(~causal_mask(everything), float("-inf"))
        if self.positions == "alibi":
            table = table + alibi_bias(heads, everything, everything)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (x.size(-1) // heads) ** 0.5
        scores = scores + table[..., before:, :].to(x)
        weights = self.drop(torch.softmax(scores, dim=-1))
        return self.W_out(torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2))


# variant: head by head, each projecting by itself; several new tokens one after the other
class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        return torch.cat([self.one(token, cache) for token in x.split(1, dim=1)], dim=1)

    def one(self, x, cache):
        here = torch.tensor([cache.length], device=x.device)
        width = x.size(-1) // self.n_heads
        queries, keys, values = [], [], []
        for head in range(self.n_heads):
            own = slice(head * width, (head + 1) * width)
            q, k = self.W_q(x)[..., own], self.W_k(x)[..., own]
            if self.positions == "rope":
                q, k = apply_rope(q, here), apply_rope(k, here)
            queries.append(q)
            keys.append(k)
            values.append(self.W_v(x)[..., own])
        keys, values = cache.append(torch.stack(keys, dim=1), torch.stack(values, dim=1))
        bias = alibi_bias(self.n_heads, 1, keys.size(2)).to(x) if self.positions == "alibi" else None
        _, weights = scaled_dot_product_attention(torch.stack(queries, dim=1), keys, values, None, bias)
        return self.W_out(merge_heads(self.dropout(weights) @ values))
