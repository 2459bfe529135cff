# variant: forward written out, three projections cut from one matrix
class GatedDeltaNet(nn.Module):
    def __init__(self, d_model, n_heads, width=4):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model {d_model}, n_heads {n_heads}"
        assert width >= 1, f"width {width}"
        self.d_model, self.H, self.d = d_model, n_heads, d_model // n_heads
        self.conv = nn.Parameter(torch.randn(3 * d_model, width) * 0.2)
        self.A_log = nn.Parameter(torch.log(1 + 15 * torch.rand(n_heads)))
        dt = 0.001 + 0.099 * torch.rand(n_heads)
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        for name, wide in (("qkv", 3 * d_model), ("beta", n_heads), ("decay", n_heads), ("gate", d_model), ("out", d_model)):
            setattr(self, f"W_{name}", nn.Linear(d_model, wide, bias=False))
        self.norm = RMSNorm(self.d)

    def new_state(self, B):
        like = dict(dtype=self.conv.dtype, device=self.conv.device)
        S = torch.zeros(B, self.H, self.d, self.d, **like)
        return torch.zeros(B, self.conv.size(1) - 1, 3 * self.d_model, **like), S

    def _heads(self, x):
        return x.view(x.size(0), x.size(1), self.H, self.d).transpose(1, 2)

    def _read(self, x, rows, S):
        mixed, rows = short_convolution(self.W_qkv(x), self.conv, rows)
        mixed = mixed * torch.sigmoid(mixed)
        q, k, v = map(self._heads, (t.contiguous() for t in mixed.split(self.d_model, dim=-1)))
        q = q / torch.sqrt((q * q).sum(-1, keepdim=True) + 1e-6)
        k = k / torch.sqrt((k * k).sum(-1, keepdim=True) + 1e-6)
        steps = F.softplus(self.W_decay(x) + self.dt_bias)
        decay = -torch.exp(self.A_log) * steps
        y, S = delta_rule_chunked(q, k, v, self.W_beta(x).sigmoid().mT, 32, decay.mT, S)
        y = self.norm(y.transpose(1, 2)).flatten(2) * F.silu(self.W_gate(x))
        return self.W_out(y), (rows, S)

    def forward(self, x):
        return self._read(x, None, None)[0]

    def step(self, x, state):
        return self._read(x, *state)


# variant: steps position by position, forward in chunks
class GatedDeltaNet(nn.Module):
    def __init__(self, d_model: int, n_heads: int, width: int = 4):
        if d_model % n_heads:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if width <= 0:
            raise ValueError(f"the width of the convolution is {width}")
        super().__init__()
        self.n_heads, self.width = n_heads, width
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.W_beta, self.W_decay = (nn.Linear(d_model, n_heads, bias=False) for _ in range(2))
        self.W_gate, self.W_out = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.conv = nn.Parameter(nn.init.xavier_uniform_(torch.empty(3 * d_model, width)))
        self.A_log = nn.Parameter(torch.rand(n_heads) * math.log(16))
        small = torch.exp(torch.rand(n_heads) * math.log(100) + math.log(0.001))
        self.dt_bias = nn.Parameter(torch.log(torch.exp(small.double()) - 1).float())
        self.norm = RMSNorm(d_model // n_heads)

    def new_state(self, B):
        weight = self.W_qkv.weight
        d_head = weight.size(1) // self.n_heads
        return weight.new_zeros(B, self.width - 1, weight.size(0)), weight.new_zeros(B, self.n_heads, d_head, d_head)

    def parts(self, x, qkv):
        q, k, v = (split_heads(part, self.n_heads) for part in F.silu(qkv).chunk(3, dim=2))
        q, k = (part * (part.pow(2).sum(3, keepdim=True) + 1e-6) ** -0.5 for part in (q, k))
        decay = -self.A_log.exp() * F.softplus(self.W_decay(x) + self.dt_bias)
        return q, k, v, torch.sigmoid(self.W_beta(x)).transpose(1, 2), decay.transpose(1, 2)

    def finish(self, x, y):
        return self.W_out(merge_heads(self.norm(y)) * F.silu(self.W_gate(x)))

    def forward(self, x):
        qkv, _ = short_convolution(self.W_qkv(x), self.conv)
        q, k, v, beta, decay = self.parts(x, qkv)
        return self.finish(x, delta_rule_chunked(q, k, v, beta, 128, log_decay=decay)[0])

    def step(self, x, state):
        rows, S = state
        outputs = []
        for t in range(x.size(1)):
            one = x[:, t : t + 1]
            qkv, rows = short_convolution(self.W_qkv(one), self.conv, state=rows)
            q, k, v, beta, decay = self.parts(one, qkv)
            y, S = delta_rule(q, k, v, beta, log_decay=decay, state=S)
            outputs.append(self.finish(one, y))
        return torch.cat(outputs, dim=1), (rows, S)


# variant: torch's convolution, F.normalize's formula by hand, lists for pairs
class GatedDeltaNet(nn.Module):
    def __init__(self, d_model, n_heads, width=4):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"{d_model=} {n_heads=}")
        if width < 1:
            raise ValueError(f"{width=}")
        self.heads = n_heads
        for name, size in {"W_qkv": 3 * d_model, "W_beta": n_heads, "W_decay": n_heads, "W_gate": d_model, "W_out": d_model}.items():
            self.add_module(name, nn.Linear(d_model, size, bias=False))
        self.conv = nn.Parameter(torch.randn(3 * d_model, width))
        self.A_log = nn.Parameter(torch.distributions.Uniform(1.0, 16.0).sample((n_heads,)).log())
        wanted = torch.distributions.Uniform(0.001, 0.1).sample((n_heads,))
        self.dt_bias = nn.Parameter((wanted.exp() - 1).log())
        self.norm = RMSNorm(d_model // n_heads)

    def new_state(self, B):
        C, width = self.conv.shape
        d = self.norm.weight.size(0)
        return [self.conv.new_zeros((B, width - 1, C)), self.conv.new_zeros((B, self.heads, d, d))]

    def step(self, x, state):
        joined = torch.cat([state[0], self.W_qkv(x)], dim=1)
        mixed = F.conv1d(joined.mT, self.conv.unsqueeze(1), groups=joined.size(2)).mT
        heads = F.silu(mixed).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = heads[:2] / (heads[:2].square().sum(-1, keepdim=True) + 1e-6).sqrt()
        beta, speed = torch.cat([self.W_beta(x).sigmoid(), F.softplus(self.W_decay(x) + self.dt_bias)], -1).mT.chunk(2, 1)
        out, S = delta_rule_chunked(q, k, heads[2], beta, 64, -self.A_log.exp()[:, None] * speed, state[1])
        gate = F.silu(self.W_gate(x)).unflatten(2, (self.heads, -1)).transpose(1, 2)
        return self.W_out(merge_heads(self.norm(out) * gate)), [joined[:, x.size(1) :], S]

    def forward(self, x):
        output, _ = self.step(x, self.new_state(len(x)))
        return output
