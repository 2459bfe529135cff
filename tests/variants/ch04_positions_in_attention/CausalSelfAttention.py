# variant: einsum, the maps made in another order, the mask added as numbers
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none", bias=True, dropout=0.0):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})"
        assert positions in {"none", "rope", "alibi"}, f"unknown positions: {positions}"
        assert positions != "rope" or (d_model // n_heads) % 2 == 0, f"odd d_head: {d_model // n_heads}"
        self.n_heads, self.positions = n_heads, positions
        self.dropout = nn.Dropout(dropout)
        for name in ("W_out", "W_v", "W_q", "W_k"):
            setattr(self, name, nn.Linear(d_model, d_model, bias))

    def forward(self, x, return_weights=False):
        B, T, D = x.shape
        q, k, v = (W(x).view(B, T, self.n_heads, -1).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        if self.positions == "rope":
            q, k = (apply_rope(part, torch.arange(T, device=x.device)) for part in (q, k))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.size(-1) ** -0.5
        future = torch.full((T, T), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        if self.positions == "alibi":
            future = future + alibi_bias(self.n_heads, T, T).to(device=x.device, dtype=x.dtype)
        weights = self.dropout(torch.softmax(scores + future, dim=-1))
        output = self.W_out(torch.einsum("bhqk,bhkd->bqhd", weights, v).reshape(B, T, D))
        if return_weights:
            return output, weights
        return output


# variant: a loop over the heads, positions counted from 7 on, checks left to the functions that use the sizes
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_head, rest = divmod(d_model, n_heads)
        if rest:
            raise ValueError(f"{n_heads} heads do not divide {d_model} features")
        self.positions, self.n_heads, self.dropout = positions, n_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(self, x, return_weights=False):
        T = x.shape[1]
        if self.positions not in ["none", "rope", "alibi"]:
            raise ValueError(f"what is {self.positions}?")
        places = torch.arange(7, 7 + T).to(x.device)
        outputs, tables = [], []
        for head in range(self.n_heads):
            own = slice(head * self.d_head, (head + 1) * self.d_head)
            q, k, v = self.W_q(x)[..., own], self.W_k(x)[..., own], self.W_v(x)[..., own]
            if self.positions == "rope":
                q, k = apply_rope(q, places), apply_rope(k, places)
            bias = alibi_bias(self.n_heads, T, T)[head].type_as(x) if self.positions == "alibi" else None
            _, table = scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)
            table = nn.functional.dropout(table, self.dropout.p, self.training)
            outputs.append(table @ v)
            tables.append(table)
        output = self.W_out(torch.cat(outputs, dim=-1))
        return (output, torch.stack(tables, dim=1)) if return_weights else output


# variant: slope * j as the bias, which differs by a constant in each row; a table of slopes stored as a buffer
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none", bias=True, dropout=0.0):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model}, n_heads={n_heads}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions must be none, rope or alibi, not {positions}")
        self.n_heads, self.positions = n_heads, positions
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(p=dropout)
        if positions == "alibi":
            self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def forward(self, x, return_weights=False):
        B, T, D = x.shape
        q = split_heads(self.W_q(x), self.n_heads)
        k = split_heads(self.W_k(x), self.n_heads)
        v = split_heads(self.W_v(x), self.n_heads)
        where = torch.arange(T, device=x.device)
        if self.positions == "rope":
            q = apply_rope(q, where)
            k = apply_rope(k, where)
        scores = q @ k.mT / (D // self.n_heads) ** 0.5
        if self.positions == "alibi":
            scores = scores + (self.slopes[:, None, None] * where).to(x.dtype)
        scores = scores.masked_fill(where[:, None] < where, -torch.inf)
        weights = self.dropout(scores.softmax(-1))
        output = self.W_out(merge_heads(weights @ v))
        return [output, weights] if return_weights else output


# variant: batch and heads as one axis, bmm, -1e9 for later positions, double precision inside
class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none", bias=True, dropout=0.0):
        super().__init__()
        if d_model // n_heads * n_heads != d_model:
            raise ValueError(f"cannot cut {d_model} into {n_heads}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(positions)
        if positions == "rope" and d_model // n_heads % 2:
            raise ValueError(f"rope needs an even d_head, not {d_model // n_heads}")
        self.W_q, self.W_k = nn.Linear(d_model, d_model, bias=bias), nn.Linear(d_model, d_model, bias=bias)
        self.W_v, self.W_out = nn.Linear(d_model, d_model, bias=bias), nn.Linear(d_model, d_model, bias=bias)
        self.dropout, self.n_heads, self.positions = nn.Dropout(dropout), n_heads, positions

    def cut(self, x):
        B, T, D = x.shape
        return x.view(B, T, self.n_heads, -1).transpose(1, 2).reshape(B * self.n_heads, T, -1)

    def forward(self, x, return_weights=False):
        B, T, D = x.shape
        q, k, v = self.cut(self.W_q(x)), self.cut(self.W_k(x)), self.cut(self.W_v(x))
        if self.positions == "rope":
            where = torch.arange(T, device=x.device)
            q, k = apply_rope(q, where), apply_rope(k, where)
        scores = torch.bmm(q.double(), k.double().transpose(1, 2)) / (D // self.n_heads) ** 0.5
        if self.positions == "alibi":
            scores = scores + alibi_bias(self.n_heads, T, T).to(x.device).double().repeat(B, 1, 1)
        scores = torch.where(torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), scores, -1e9)
        weights = torch.softmax(scores, dim=-1).to(x.dtype)
        if self.training and self.dropout.p > 0:
            weights = weights * (torch.rand(weights.shape, device=x.device) >= self.dropout.p) / (1 - self.dropout.p)
        mixed = torch.bmm(weights, v).view(B, self.n_heads, T, -1).permute(0, 2, 1, 3).contiguous().view(B, T, D)
        output = self.W_out(mixed)
        return (output, weights.view(B, self.n_heads, T, T)) if return_weights else output
