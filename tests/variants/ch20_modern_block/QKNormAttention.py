# variant: on top of CausalSelfAttention, which makes and checks most of it
from .ch04_positions_in_attention import CausalSelfAttention


class QKNormAttention(CausalSelfAttention):
    def __init__(self, d_model, n_heads, positions="none"):
        super().__init__(d_model, n_heads, positions, bias=False)
        self.q_norm, self.k_norm = RMSNorm(d_model // n_heads), RMSNorm(d_model // n_heads)

    def forward(self, x):
        B, T, D = x.shape
        q = self.q_norm(self.W_q(x).view(B, T, self.n_heads, -1)).transpose(1, 2)
        k = self.k_norm(self.W_k(x).view(B, T, self.n_heads, -1)).transpose(1, 2)
        v = self.W_v(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        if self.positions == "rope":
            q, k = (apply_rope(part, torch.arange(T, device=x.device)) for part in (q, k))
        bias = alibi_bias(self.n_heads, T, T).to(x.device, x.dtype) if self.positions == "alibi" else None
        mixed, _ = scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)
        return self.W_out(mixed.transpose(1, 2).reshape(B, T, D))


# variant: einsum, and a mask made by comparing positions
class QKNormAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none"):
        if d_model % n_heads:
            raise ValueError(f"d_model = {d_model}, n_heads = {n_heads}")
        if positions not in {"none", "rope", "alibi"}:
            raise ValueError(f"positions = {positions!r}")
        super().__init__()
        self.n_heads, self.positions = n_heads, positions
        self.q_norm, self.k_norm = RMSNorm(d_model // n_heads), RMSNorm(d_model // n_heads)
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x):
        place = torch.arange(x.size(1), device=x.device)
        q, k, v = (W(x).unflatten(2, (self.n_heads, -1)).movedim(2, 1) for W in (self.W_q, self.W_k, self.W_v))
        q, k = self.q_norm(q), self.k_norm(k)
        if self.positions == "rope":
            q, k = apply_rope(q, place), apply_rope(k, place)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
        if self.positions == "alibi":
            scores = scores + alibi_bias(self.n_heads, len(place), len(place)).to(scores)
        scores = scores.masked_fill(place > place[:, None], -torch.inf)
        return self.W_out(torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v).flatten(2))


# variant: the division by sqrt(d) in the queries
class QKNormAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none"):
        super().__init__()
        d_head, rest = divmod(d_model, n_heads)
        if rest != 0:
            raise ValueError(f"{n_heads} heads cannot share {d_model} features")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"unknown positions {positions}")
        self.W_q, self.W_k = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.W_v, self.W_out = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.q_norm, self.k_norm = RMSNorm(d_head), RMSNorm(d_head)
        self.n_heads, self.d_head, self.positions = n_heads, d_head, positions

    def forward(self, x):
        q = self.q_norm(split_heads(self.W_q(x), self.n_heads))
        k = self.k_norm(split_heads(self.W_k(x), self.n_heads))
        T = x.shape[-2]
        if self.positions == "rope":
            q = apply_rope(q, torch.arange(T, device=x.device))
            k = apply_rope(k, torch.arange(T, device=x.device))
        scores = (q / math.sqrt(self.d_head)) @ k.transpose(-1, -2)
        if self.positions == "alibi":
            scores += alibi_bias(self.n_heads, T, T).to(device=scores.device, dtype=scores.dtype)
        weights = torch.softmax(torch.where(causal_mask(T).to(x.device), scores, -math.inf), dim=-1)
        return self.W_out(merge_heads(weights @ split_heads(self.W_v(x), self.n_heads)))
