# variant: a threshold for each state, lengths by hand
class SparseAutoencoder(nn.Module):
    def __init__(self, d_model, n_features, k):
        super().__init__()
        assert 0 < k <= n_features, f"k={k}"
        directions = torch.randn(n_features, d_model)
        directions /= directions.norm(dim=1, keepdim=True)
        self.W_enc = nn.Parameter(directions.t().contiguous().clone())
        self.W_dec = nn.Parameter(directions)
        self.b_enc, self.b_dec = nn.Parameter(torch.zeros(n_features)), nn.Parameter(torch.zeros(d_model))
        self.k = k

    def encode(self, x):
        active = F.relu(F.linear(x - self.b_dec, self.W_enc.T, self.b_enc))
        least = active.sort(dim=-1, descending=True).values[..., self.k - 1, None]
        return active * (active >= least)

    def decode(self, features):
        return F.linear(features, self.W_dec.T, self.b_dec)

    def forward(self, x):
        features = self.encode(x)
        return self.decode(features), features

    @torch.no_grad()
    def normalise(self):
        length = self.W_dec.norm(dim=1, keepdim=True)
        self.W_dec.div_(torch.where(length > 0, length, 1.0))

    @torch.no_grad()
    def project_gradient(self):
        g, w = self.W_dec.grad, self.W_dec
        if g is None:
            return
        square = w.square().sum(1, keepdim=True)
        g.sub_(w * (g * w).sum(1, keepdim=True) / torch.where(square > 0, square, 1.0))


# variant: the largest are chosen before ReLU, features one by one
class SparseAutoencoder(nn.Module):
    def __init__(self, d_model, n_features, k):
        super().__init__()
        if k < 1 or k > n_features:
            raise ValueError(f"{k} active features of {n_features} are not possible: k must be from 1 to n_features")
        self.n_active = k
        self.W_dec = nn.Parameter(torch.empty(n_features, d_model))
        nn.init.normal_(self.W_dec)
        self.normalise()
        self.W_enc = nn.Parameter(torch.empty(d_model, n_features))
        with torch.no_grad():
            self.W_enc.copy_(self.W_dec.T)
        self.register_parameter("b_enc", nn.Parameter(torch.zeros(n_features)))
        self.register_parameter("b_dec", nn.Parameter(torch.zeros(d_model)))

    def encode(self, x):
        before = torch.einsum("...d,df->...f", x - self.b_dec, self.W_enc) + self.b_enc
        with torch.no_grad():
            chosen = torch.zeros_like(before)
            chosen.scatter_(-1, before.topk(self.n_active).indices, 1.0)
        return torch.relu(before) * chosen

    def decode(self, features):
        return torch.einsum("...f,fd->...d", features, self.W_dec) + self.b_dec

    def forward(self, x):
        features = self.encode(x)
        return self.decode(features), features

    def normalise(self):
        with torch.no_grad():
            for row in self.W_dec:
                length = row.norm()
                if length > 0:
                    row /= length

    def project_gradient(self):
        if self.W_dec.grad is None:
            return
        with torch.no_grad():
            for g, w in zip(self.W_dec.grad, self.W_dec):
                if w.any():
                    g -= (g @ w) / (w @ w) * w


# variant: states flattened, the error raised at the first call
class SparseAutoencoder(nn.Module):
    def __init__(self, d_model, n_features, k):
        super().__init__()
        unit = F.normalize(torch.rand(n_features, d_model) - 0.5)
        self.W_enc = nn.Parameter(unit.T.clone())
        self.b_enc = nn.Parameter(torch.zeros(n_features))
        self.W_dec = nn.Parameter(unit)
        self.b_dec = nn.Parameter(torch.zeros(d_model))
        self.k = k

    def encode(self, x):
        if not 0 < self.k <= len(self.b_enc):
            raise ValueError(f"k is {self.k}, which is not from 1 to {len(self.b_enc)}")
        rows = x.reshape(-1, x.shape[-1])
        all_features = ((rows - self.b_dec) @ self.W_enc + self.b_enc).clamp(min=0)
        top = all_features.topk(self.k, dim=1)
        kept = torch.zeros_like(all_features)
        kept = kept.scatter_add(1, top.indices, top.values)
        return kept.reshape(*x.shape[:-1], -1)

    def decode(self, features):
        return self.b_dec + features @ self.W_dec

    def forward(self, x):
        return self.decode(f := self.encode(x)), f

    def normalise(self):
        self.W_dec.data /= self.W_dec.data.norm(dim=-1, keepdim=True).clamp_min(1e-8)

    def project_gradient(self):
        w, g = self.W_dec.data, self.W_dec.grad
        if g is not None:
            along = (g * w).sum(-1) / (w * w).sum(-1).clamp_min(1e-20)
            g -= along[:, None] * w
