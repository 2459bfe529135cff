# variant: einsum over groups, nothing repeated, the maps made in another order
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, positions="none"):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model={d_model}, n_heads={n_heads}"
        assert n_heads % n_kv_heads == 0, f"n_heads={n_heads}, n_kv_heads={n_kv_heads}"
        assert positions in {"none", "rope", "alibi"}, positions
        self.d_head, self.kv, self.group, self.positions = d_model // n_heads, n_kv_heads, n_heads // n_kv_heads, positions
        assert positions != "rope" or self.d_head % 2 == 0, f"odd d_head {self.d_head}"
        narrow = self.d_head * n_kv_heads
        for name, width in (("W_out", d_model), ("W_v", narrow), ("W_k", narrow), ("W_q", d_model)):
            setattr(self, name, nn.Linear(d_model, width))

    def forward(self, x):
        B, T, D = x.shape
        q = self.W_q(x).view(B, T, self.kv, self.group, self.d_head).permute(0, 2, 3, 1, 4)
        k = self.W_k(x).view(B, T, self.kv, self.d_head).transpose(1, 2)
        v = self.W_v(x).view(B, T, self.kv, self.d_head).transpose(1, 2)
        if self.positions == "rope":
            q, k = (apply_rope(part, torch.arange(T, device=x.device)) for part in (q, k))
        scores = torch.einsum("bkgqd,bksd->bkgqs", q, k) * self.d_head**-0.5
        if self.positions == "alibi":
            slopes = alibi_bias(self.kv * self.group, T, T).view(self.kv, self.group, T, T)
            scores = scores + slopes.to(device=x.device, dtype=x.dtype)
        scores = scores + torch.full((T, T), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        mixed = torch.einsum("bkgqs,bksd->bqkgd", scores.softmax(dim=-1), v)
        return self.W_out(mixed.reshape(B, T, D))


# variant: a loop over the query heads, checks at first use
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none") -> None:
        super().__init__()
        self.sizes, self.positions = (d_model, n_heads, n_kv_heads), positions
        width = d_model // n_heads * n_kv_heads
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, out) for out in (d_model, width, width, d_model))

    def forward(self, x):
        D, H, K = self.sizes
        if D % H or H % K:
            raise ValueError(f"these sizes do not go together: {D}, {H}, {K}")
        if self.positions not in ["none", "rope", "alibi"]:
            raise ValueError(f"what is {self.positions}?")
        T, d_head = x.shape[1], D // H
        where, heads = torch.arange(7, 7 + T, device=x.device), []
        for h in range(H):
            theirs = slice(h // (H // K) * d_head, (h // (H // K) + 1) * d_head)
            q, k, v = self.W_q(x)[..., h * d_head : (h + 1) * d_head], self.W_k(x)[..., theirs], self.W_v(x)[..., theirs]
            if self.positions == "rope":
                q, k = apply_rope(q, where), apply_rope(k, where)
            bias = alibi_bias(H, T, T)[h].type_as(x) if self.positions == "alibi" else None
            heads.append(scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)[0])
        return self.W_out(torch.cat(heads, dim=-1))


# variant: heads expanded as in Llama's code, double precision and -1e9 inside, slope * j as the bias
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, positions="none"):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{n_heads} does not divide {d_model}")
        if n_kv_heads > n_heads or n_heads % n_kv_heads:
            raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(positions)
        self.head_dim = d_model // n_heads
        if positions == "rope" and self.head_dim % 2:
            raise ValueError(f"{self.head_dim} is odd")
        self.heads, self.groups, self.positions = n_heads, n_heads // n_kv_heads, positions
        self.W_q = nn.Linear(d_model, n_heads * self.head_dim)
        self.W_k = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.W_v = nn.Linear(d_model, n_kv_heads * self.head_dim)
        self.W_out = nn.Linear(n_heads * self.head_dim, d_model)
        if positions == "alibi":
            self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def repeat_kv(self, x):
        B, K, T, d = x.shape
        return x[:, :, None].expand(B, K, self.groups, T, d).reshape(B, K * self.groups, T, d)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (W(x).view(B, T, -1, self.head_dim).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        places = torch.arange(T, device=x.device)
        if self.positions == "rope":
            q, k = apply_rope(q, places), apply_rope(k, places)
        scores = q.double() @ self.repeat_kv(k).double().mT / self.head_dim**0.5
        if self.positions == "alibi":
            scores = scores + self.slopes.double()[:, None, None] * places
        scores = scores.masked_fill(places > places[:, None], -1e9)
        mixed = torch.softmax(scores, dim=-1).to(x.dtype) @ self.repeat_kv(v)
        return self.W_out(mixed.transpose(1, 2).contiguous().view(B, T, D))


from .ch04_positions_in_attention import alibi_slopes


# variant: one product for queries, keys and values, heads picked by an index
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, positions="none"):
        super().__init__()
        d_head, left_over = divmod(d_model, n_heads)
        if left_over:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"n_heads ({n_heads}) must be a multiple of n_kv_heads ({n_kv_heads})")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions: {positions}")
        self.n_heads, self.n_kv_heads, self.positions, self.d_head = n_heads, n_kv_heads, positions, d_head
        self.W_q, self.W_out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_k, self.W_v = (nn.Linear(d_model, n_kv_heads * d_head) for _ in range(2))

    def forward(self, x):
        maps = (self.W_q, self.W_k, self.W_v)
        together = nn.functional.linear(x, torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps]))
        widths = [m.out_features for m in maps]
        q, k, v = (split_heads(part, part.size(-1) // self.d_head) for part in together.split(widths, dim=-1))
        reads = torch.arange(self.n_heads, device=x.device) // (self.n_heads // self.n_kv_heads)
        T = x.size(1)
        k, v = k[:, reads], v[:, reads]
        if self.positions == "rope":
            turned = apply_rope(torch.stack([q, k]), torch.arange(T, device=x.device))
            q, k = turned[0], turned[1]
        bias = alibi_bias(self.n_heads, T, T).to(x) if self.positions == "alibi" else None
        output, _ = scaled_dot_product_attention(q, k, v, torch.ones(T, T, device=x.device).tril().bool(), bias)
        return self.W_out(merge_heads(output))
