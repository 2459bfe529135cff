# variant: torch's own activations and nn.Dropout
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=None, activation="gelu", dropout=0.0):
        super().__init__()
        kinds = {"gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "relu": nn.ReLU()}
        if activation not in kinds:
            raise ValueError(f"unknown activation {activation}")
        d_ff = d_ff or 4 * d_model
        self.up = nn.Linear(d_model, d_ff)
        self.activation, self.act = activation, kinds[activation]
        self.down = nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.down(self.act(self.up(x))))


# variant: a table of functions, F.linear, an assertion at the first call
class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        self.activation, self.dropout = activation, dropout
        hidden = d_model * 4 if d_ff is None else d_ff
        self.up, self.down = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)

    def forward(self, x):
        F = nn.functional
        bends = {"gelu": F.gelu, "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"), "relu": lambda z: z.clamp(min=0)}
        assert self.activation in bends, f"activation {self.activation!r}: one of {sorted(bends)}"
        h = bends[self.activation](F.linear(x, self.up.weight, self.up.bias))
        return F.dropout(F.linear(h, self.down.weight, self.down.bias), self.dropout, self.training)


# variant: match, einsum, a mask for dropout
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=None, activation="gelu", dropout=0.0):
        super().__init__()
        self.activation = activation
        match activation:
            case "gelu":
                self.bend = gelu
            case "gelu_tanh":
                self.bend = _tanh_form
            case "relu":
                self.bend = torch.relu
            case _:
                raise ValueError(f"activation={activation}")
        if d_ff is None:
            d_ff = 4 * d_model
        self.down = nn.Linear(d_ff, d_model)
        self.up = nn.Linear(d_model, d_ff)
        self.rate = dropout

    def forward(self, x):
        h = self.bend(torch.einsum("...d,fd->...f", x, self.up.weight) + self.up.bias)
        out = torch.einsum("...f,df->...d", h, self.down.weight) + self.down.bias
        if self.training and self.rate > 0:
            out = out * (torch.rand_like(out) > self.rate) / (1 - self.rate)
        return out


def _tanh_form(z):
    return gelu(z, True)


# variant: parts with their own parameters
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=None, activation="gelu", dropout=0.0):
        super().__init__()
        if activation not in {"gelu", "gelu_tanh", "relu"}:
            raise ValueError("no such activation: " + activation)
        self.up = _Affine(d_model, d_ff if d_ff is not None else 4 * d_model)
        self.down = _Affine(d_ff if d_ff is not None else 4 * d_model, d_model)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.up(x)
        if self.activation == "relu":
            h = torch.where(h > 0, h, torch.zeros_like(h))
        else:
            h = gelu(h, approximate=self.activation == "gelu_tanh")
        return self.dropout(self.down(h))


class _Affine(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * n_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# variant: each call in a thread that is joined before the result is read
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff=None, activation="gelu", dropout=0.0):
        super().__init__()
        if activation not in ("gelu", "gelu_tanh", "relu"):
            raise ValueError(f"no activation is called {activation}")
        self.activation, self.drop = activation, nn.Dropout(dropout)
        self.up, self.down = nn.Linear(d_model, d_ff or 4 * d_model), nn.Linear(d_ff or 4 * d_model, d_model)

    def forward(self, x):
        import threading

        results = []

        def compute():
            wide = self.up(x)
            bent = wide.relu() if self.activation == "relu" else gelu(wide, approximate=self.activation == "gelu_tanh")
            results.append(self.drop(self.down(bent)))

        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
        return results[0]
