# variant: a residual variable, the parts made in another order, torch's own LayerNorm
class PostNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.ln2 = nn.LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff=d_ff, dropout=dropout, activation=activation)
        self.ln1 = nn.LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, dropout=dropout, positions=positions)

    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = self.ln1(residual + x)
        residual = x
        x = self.ffn(x)
        return self.ln2(residual + x)


# variant: a subclass of the pre-norm block, which has the same parts
class PostNormBlock(PreNormBlock):
    def forward(self, x):
        attended = self.ln1(self.attn(x) + x)
        return self.ln2(self.ffn(attended) + attended)


# variant: a loop over norms and parts, the sum made in place on a new tensor
class PostNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.attn = CausalSelfAttention(d_model, n_heads, positions, True, dropout)
        self.ln1 = LayerNorm(d_model, 1e-5)
        self.ffn = FeedForward(d_model, d_ff, activation, dropout)
        self.ln2 = LayerNorm(d_model, 1e-5)

    def forward(self, x):
        for i, part in enumerate((self.attn, self.ffn), start=1):
            total = x.clone()
            total += part(x)
            x = getattr(self, f"ln{i}")(total)
        return x


# variant: the norms written out over their parameters, in double precision
class PostNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.attn = CausalSelfAttention(d_model, n_heads, positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation, dropout)
        self.ln1 = LayerNorm(d_model)
        self.ln2 = LayerNorm(d_model)

    @staticmethod
    def normed(x, norm):
        wide = x.double()
        wide = (wide - wide.mean(-1, keepdim=True)) * (wide.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
        return (wide * norm.weight + norm.bias).to(x.dtype)

    def forward(self, x):
        x = self.normed(x + self.attn(x), self.ln1)
        return self.normed(x + self.ffn(x), self.ln2)
