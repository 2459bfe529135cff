# variant: as in Llama, rsqrt, the weight after the cast
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.variance_epsilon = eps

    def forward(self, x):
        hidden = x if x.dtype == torch.float64 else x.to(torch.float32)
        hidden = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight.to(x.dtype) * hidden.to(x.dtype)


# variant: sums, and a power
class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.full((d_model,), 1.0))

    def forward(self, x: Tensor) -> Tensor:
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = (torch.einsum("...d,...d->...", z, z) / self.d_model + self.eps) ** -0.5
        return (z * scale.unsqueeze(-1) * self.weight).type_as(x)


# variant: in double precision throughout
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        z = x.double()
        rms = torch.sqrt((z * z).mean(axis=-1) + self.eps)
        return (z / rms[..., None] * self.weight.double()).to(x.dtype)


# variant: an eps stored as a tensor without axes, and a diagonal of weights
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = torch.tensor(eps, dtype=torch.float64)

    def forward(self, x):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        mean_square = torch.mean(torch.square(wide), dim=-1, keepdim=True)
        out = wide.div((mean_square + self.eps.to(mean_square)).sqrt())
        return (out @ torch.diag(self.weight.to(out.dtype))).to(dtype=x.dtype)
