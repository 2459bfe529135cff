# variant: F.silu
class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


# variant: both maps in one product, then cut
class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.down = nn.Linear(d_ff, d_model, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.gate = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        both = nn.functional.linear(x, torch.cat([self.gate.weight, self.up.weight]))
        g, u = both.chunk(2, dim=-1)
        return nn.functional.linear(g.sigmoid().mul(g).mul(u), self.down.weight)


# variant: nn.SiLU as a part, einsum
class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        for name, n_in, n_out in (("gate", d_model, d_ff), ("up", d_model, d_ff), ("down", d_ff, d_model)):
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.act = nn.SiLU()

    def forward(self, x):
        g = torch.einsum("...d,fd->...f", x, self.gate.weight)
        u = torch.einsum("...d,fd->...f", x, self.up.weight)
        return torch.einsum("...f,df->...d", self.act(g) * u, self.down.weight)


# variant: silu as z / (1 + e^-z)
class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        z = self.gate(x)
        swish = z / (1 + torch.exp(-z.clamp(min=-80.0)))
        return self.down(self.up(x) * swish)
