# variant: keyword arguments, one expression
from torch import nn


class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10_000.0, eps=1e-5):
        super().__init__()
        self.attn = LlamaAttention(d_model, n_heads, n_kv_heads, base=base)
        self.ffn = SwiGLU(d_model=d_model, d_ff=d_ff)
        self.ln1, self.ln2 = (RMSNorm(d_model, eps=eps) for _ in range(2))

    def forward(self, x, cache=None):
        between = x + self.attn(self.ln1(x), cache=cache)
        return between + self.ffn(self.ln2(between))


# variant: a stream that is added to in a loop
from torch import nn


class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10_000.0, eps=1e-5):
        super().__init__()
        self.ln1 = RMSNorm(d_model, eps)
        self.attn = LlamaAttention(d_model, n_heads, n_kv_heads, base)
        self.ln2 = RMSNorm(d_model, eps)
        self.ffn = SwiGLU(d_model, d_ff)

    def forward(self, x, cache=None):
        for norm, layer in ((self.ln1, lambda y: self.attn(y, cache)), (self.ln2, self.ffn)):
            x = layer(norm(x)) + x
        return x


# variant: modules in a dict, registered by name
from torch import nn


class LlamaBlock(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10_000.0, eps=1e-5):
        super().__init__()
        parts = {"ln1": RMSNorm(d_model, eps), "ln2": RMSNorm(d_model, eps)}
        parts |= {"attn": LlamaAttention(d_model, n_heads, n_kv_heads, base), "ffn": SwiGLU(d_model, d_ff)}
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, cache=None):
        x = x.add(self.attn(self.ln1(x), cache))
        return x.add(self.ffn(self.ln2(x)))
