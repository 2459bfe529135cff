# variant: the mask built at each call, split by size, a softmax at the spot
class FusedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len, bias=True, dropout=0.0):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model {d_model} % n_heads {n_heads} != 0"
        self.n_heads, self.max_len = n_heads, max_len
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, D = x.size()
        assert T <= self.max_len, f"{T} > {self.max_len}"
        q, k, v = self.c_attn(x).split(D, dim=2)
        q = q.view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)
        k = k.view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)
        v = v.view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), diagonal=1)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = self.dropout(torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1))
        return self.c_proj((weights @ v).transpose(1, 2).contiguous().view(B, T, D))


# variant: one unflatten to (3, H, d_head), einsum, a float mask of four axes as in nanoGPT
class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        self.h = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.p = dropout
        self.register_buffer("bias_mask", torch.tril(torch.ones(max_len, max_len)).view(1, 1, max_len, max_len), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        length, limit = x.shape[1], self.bias_mask.shape[-1]
        if limit < length:
            raise ValueError(f"max_len is {limit}, and this input has {length} positions")
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.h, -1)).unbind(2)  # each (B, T, H, d_head)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.bias_mask[:, :, :length, :length] == 0, -1e9)
        weights = nn.functional.dropout(scores.softmax(-1), p=self.p, training=self.training)
        return self.c_proj(torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))


# variant: F.linear with slices of the weight, position by position over its own past
class FusedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len, bias=True, dropout=0.0):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model {d_model} and n_heads {n_heads} do not fit")
        self.n_heads, self.max_len = n_heads, max_len
        self.c_attn = nn.Linear(d_model, d_model * 3, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        D = x.size(-1)
        if x.size(1) > self.max_len:
            raise ValueError(f"at most {self.max_len} positions, not {x.size(1)}")
        parts = []
        for i in range(3):
            rows = slice(i * D, (i + 1) * D)
            bias = None if self.c_attn.bias is None else self.c_attn.bias[rows]
            parts.append(split_heads(nn.functional.linear(x, self.c_attn.weight[rows], bias), self.n_heads))
        q, k, v = parts
        outputs = []
        for t in range(x.size(1)):
            past_k, past_v = k[:, :, : t + 1], v[:, :, : t + 1]
            _, weights = scaled_dot_product_attention(q[:, :, t : t + 1], past_k, past_v)
            outputs.append(self.drop(weights) @ past_v)
        return self.c_proj(merge_heads(torch.cat(outputs, dim=2)))


# variant: the causal mask as a bias of 0 and -inf, stored as a buffer, dropout without nn.Dropout
class FusedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len, bias=True, dropout=0.0):
        super().__init__()
        self.n_heads, self.max_len, self.rate = n_heads, max_len, dropout
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        wall = torch.full((max_len, max_len), -math.inf).triu(1)
        self.register_buffer("wall", wall, persistent=False)

    def forward(self, x):
        T = x.size(-2)
        if T > len(self.wall):
            raise ValueError(f"{T} positions, where max_len is {len(self.wall)}")
        q, k, v = (split_heads(part, self.n_heads) for part in self.c_attn(x).tensor_split(3, dim=-1))
        weights = scaled_dot_product_attention(q, k, v, bias=self.wall[:T, :T])[1]
        if self.training and self.rate:
            weights = weights * torch.bernoulli(torch.full_like(weights, 1 - self.rate)) / (1 - self.rate)
        return self.c_proj(merge_heads(weights @ v))


# variant: asserts whose messages are a tuple and a shape
class FusedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len, bias=True, dropout=0.0):
        super().__init__()
        assert not d_model % n_heads, (d_model, n_heads)
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", ~torch.triu(torch.ones(max_len, max_len), 1).bool(), persistent=False)

    def forward(self, x):
        B, T, D = x.shape
        assert T <= len(self.mask), f"an input of shape {tuple(x.shape)} is longer than {len(self.mask)}"
        q, k, v = (part.view(B, T, self.n_heads, -1).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        _, weights = scaled_dot_product_attention(q, k, v, self.mask[:T, :T])
        return self.c_proj((self.dropout(weights) @ v).transpose(1, 2).reshape(B, T, D))
