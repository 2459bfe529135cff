# variant: einsum, the maps made in another order, the heads never in front
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True, dropout=0.0):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})"
        self.dropout = nn.Dropout(dropout)
        self.W_out = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.n_heads = n_heads

    def forward(self, x, context=None, mask=None, return_weights=False):
        source = context if context is not None else x
        q = self.W_q(x).unflatten(-1, (self.n_heads, -1))  # (B, Tq, H, d_head)
        k = self.W_k(source).unflatten(-1, (self.n_heads, -1))
        v = self.W_v(source).unflatten(-1, (self.n_heads, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(torch.logical_not(mask), float("-inf"))
        weights = self.dropout(torch.softmax(scores, -1).nan_to_num(0.0) if mask is None else softmax(scores))
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(-2)
        output = self.W_out(mixed)
        if return_weights:
            return output, weights
        return output


# variant: maps of our own on raw parameters, F.linear, and dropout drawn by hand
class OwnLinear(nn.Module):
    def __init__(self, n_in, n_out, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * 0.02)
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_head, rest = divmod(d_model, n_heads)
        if rest:
            raise ValueError(f"{n_heads} heads do not divide {d_model} features")
        self.n_heads, self.rate, self.dropout = n_heads, dropout, nn.Dropout(dropout)
        for name in ("W_k", "W_q", "W_out", "W_v"):
            self.add_module(name, OwnLinear(d_model, d_model, bias))

    def drop(self, weights):
        if not self.training or self.rate == 0:
            return weights
        keep = torch.rand(weights.shape, device=weights.device) >= self.rate
        return weights * keep / (1 - self.rate)

    def forward(self, x, context=None, mask=None, return_weights=False):
        if context is None:
            context = x
        q, k, v = (split_heads(part, self.n_heads) for part in (self.W_q(x), self.W_k(context), self.W_v(context)))
        weights = self.drop(scaled_dot_product_attention(q, k, v, mask=mask)[1])
        output = self.W_out(merge_heads(weights.matmul(v)))
        return [output, weights] if return_weights else output


# variant: a loop over the heads, each with its slice of the maps
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True, dropout=0.0):
        super().__init__()
        if d_model / n_heads != d_model // n_heads:
            raise ValueError("cannot cut %d features into %d heads" % (d_model, n_heads))
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.p, self.dropout = dropout, nn.Dropout(dropout)

    def forward(self, x, context=None, mask=None, return_weights=False):
        source = x if context is None else context
        d_head = x.shape[-1] // self.n_heads
        if mask is not None:
            mask = mask.expand(x.size(0), self.n_heads, x.size(1), source.size(1))
        outputs, tables = [], []
        for head in range(self.n_heads):
            own = slice(head * d_head, (head + 1) * d_head)
            q, k, v = self.W_q(x)[..., own], self.W_k(source)[..., own], self.W_v(source)[..., own]
            scores = q @ k.mT * d_head**-0.5
            if mask is not None:
                scores = scores.masked_fill(~mask[:, head], -math.inf)
            table = nn.functional.dropout(softmax(scores), self.p, self.training)
            outputs.append(table @ v)
            tables.append(table)
        output = self.W_out(torch.cat(outputs, dim=-1))
        return (output, torch.stack(tables, dim=1)) if return_weights else output


# variant: batch and heads as one axis, bmm, the mask added as numbers, double precision inside
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True, dropout=0.0):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model}, n_heads={n_heads}")
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(p=dropout)
        self.h = self.n_heads = n_heads

    def cut(self, x):
        B, T, D = x.shape
        return x.view(B, T, self.h, D // self.h).transpose(1, 2).reshape(B * self.h, T, D // self.h)

    def forward(self, x, context=None, mask=None, return_weights=False):
        context = x if context is None else context
        (B, Tq, D), Tk = x.shape, context.shape[1]
        q, k, v = self.cut(self.W_q(x)), self.cut(self.W_k(context)), self.cut(self.W_v(context))
        scores = torch.bmm(q.double(), k.double().transpose(1, 2)).view(B, self.h, Tq, Tk) / math.sqrt(D // self.h)
        if mask is not None:
            blocked = torch.zeros_like(scores).masked_fill(~mask, -1e9)
            nothing = ~mask.expand_as(scores).any(-1, keepdim=True)
            weights = torch.softmax(scores + blocked, dim=-1).masked_fill(nothing, 0.0)
        else:
            weights = torch.softmax(scores, dim=-1)
        weights = self.dropout(weights.to(x.dtype))
        mixed = torch.bmm(weights.flatten(0, 1), v).view(B, self.h, Tq, -1).permute(0, 2, 1, 3).contiguous().view(B, Tq, D)
        output = self.W_out(mixed)
        return (output, weights) if return_weights else output


# variant: weights first multiplied by the mask, then divided by their new sum
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True, dropout=0.0):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"{d_model} is no multiple of {n_heads}")
        self.n_heads = n_heads
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, context=None, mask=None, return_weights=False):
        context = x if context is None else context
        q = split_heads(self.W_q(x), self.n_heads)
        k = split_heads(self.W_k(context), self.n_heads)
        v = split_heads(self.W_v(context), self.n_heads)
        q = q * q.size(-1) ** -0.25
        k = k * k.size(-1) ** -0.25
        _, weights = scaled_dot_product_attention(q * q.size(-1) ** 0.5, k, v)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)
        weights = self.dropout(weights)
        output = self.W_out(merge_heads(weights @ v))
        return (output, weights) if return_weights else output


# variant: an exception class with several arguments; heads split and merged without the functions above
class HeadsError(ValueError):
    pass


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True, dropout=0.0):
        super().__init__()
        if d_model % n_heads:
            raise HeadsError("cannot cut", d_model, "features into", n_heads, "heads")
        self.n_heads = n_heads
        for name in ("W_q", "W_k", "W_v", "W_out"):
            self.add_module(name, nn.Linear(d_model, d_model, bias))
        self.dropout = nn.Dropout(dropout)

    def heads(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, context=None, mask=None, return_weights=False):
        source = x if context is None else context
        q, k, v = self.heads(self.W_q(x)), self.heads(self.W_k(source)), self.heads(self.W_v(source))
        weights = self.dropout(scaled_dot_product_attention(q, k, v, mask)[1])
        output = self.W_out((weights @ v).transpose(1, 2).flatten(2))
        return (output, weights) if return_weights else output
