# variant: torch's functional lookup, rows of standard deviation 0.02
import torch.nn.functional as F


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.d_model, self.scale = d_model, scale
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, ids):
        vectors = F.embedding(ids, self.weight)
        if self.scale:
            vectors = vectors * self.d_model**0.5
        return vectors


# variant: one-hot rows times the table
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model))
        self.scale = scale

    def forward(self, ids):
        V, D = self.weight.shape
        one_hot = (ids.unsqueeze(-1) == torch.arange(V, device=ids.device)).to(self.weight.dtype)  # (B, T, V)
        return one_hot @ self.weight * (D**0.5 if self.scale else 1)


# variant: index_select on the flattened ids, the factor stored in a buffer, uniform initial values
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.register_buffer("factor", torch.tensor(math.sqrt(d_model) if scale else 1.0), persistent=False)
        bound = (3 / d_model) ** 0.5
        self.weight = nn.Parameter(torch.rand(vocab_size, d_model) * 2 * bound - bound)

    def forward(self, ids):
        flat = self.weight.index_select(0, ids.reshape(-1))
        return (flat * self.factor).view(ids.size(0), ids.size(1), -1)


# variant: the table scaled before the lookup, a Xavier start, an unused helper attribute
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.vocab_size, self.d_model, self.scale = vocab_size, d_model, scale
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(vocab_size, d_model)))

    def forward(self, ids):
        table = self.weight * math.sqrt(self.d_model) if self.scale else self.weight
        return table[ids.long()]


# variant: gather along the vocabulary, scaled in place on the module's own result
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.factor = d_model**0.5 if scale else 1.0
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) * 0.1)

    def forward(self, ids):
        B, T = ids.shape
        D = self.weight.size(1)
        places = ids.reshape(B * T, 1).expand(B * T, D)
        return torch.gather(self.weight, 0, places).reshape(B, T, D).mul_(self.factor)


# variant: one row after the other, stacked
class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model, scale=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model))
        self.factor = math.sqrt(d_model) if scale else 1.0

    def forward(self, ids):
        return torch.stack([torch.stack([self.weight[ids[b, t]] for t in range(ids.size(1))]) for b in range(ids.size(0))]) * self.factor
