# variant: torch.var, biased, and rsqrt
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        dtype = x.dtype
        if dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)
        x = (x - mean) * torch.rsqrt(var + self.eps)
        return (self.weight * x + self.bias).to(dtype)


# variant: var_mean, normalised back in half precision before weight and bias
class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.register_buffer("epsilon", torch.tensor(eps, dtype=torch.float64), persistent=False)

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
        normed = ((wide - mean) / (var + self.epsilon.to(var.dtype)) ** 0.5).to(x.dtype)
        return (normed * self.weight + self.bias).to(x.dtype)


# variant: all in double precision, the variance as a difference, which is harmless there
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        z = x.double()
        mean = z.mean(dim=-1, keepdim=True)
        variance = (z**2).mean(dim=-1, keepdim=True) - mean**2
        return torch.addcmul(self.bias.double(), (z - mean) / (variance.clamp(min=0) + self.eps).sqrt(), self.weight.double()).type_as(x)


# variant: the unbiased variance, corrected
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model).fill_(1.0))
        self.bias = nn.Parameter(torch.empty(d_model).zero_())
        self.d_model = d_model
        self.eps = eps

    def forward(self, x):
        h = x.float() if x.dtype.itemsize < 4 else x
        h = h - h.sum(-1, keepdim=True) / self.d_model
        var = h.var(-1, keepdim=True) * (self.d_model - 1) / self.d_model if self.d_model > 1 else torch.zeros_like(h)
        out = torch.einsum("...d,d->...d", h * (var + self.eps).pow(-0.5), self.weight.to(h.dtype)) + self.bias.to(h.dtype)
        return out.to(x.dtype)


# variant: through the root mean square of the deviations, a norm and no mean
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.scaled = _Scaled(d_model * eps)

    def forward(self, x):
        precise = x if x.dtype == torch.float64 else x.to(torch.float32)
        deviations = precise.sub(precise.mean(dim=-1, keepdim=True))
        return self.scaled(deviations).mul(self.weight).add(self.bias).to(x.dtype)


class _Scaled(nn.Module):
    """Vectors of mean square one."""

    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, deviations):
        return deviations * deviations.size(-1) ** 0.5 / (deviations.pow(2).sum(-1, keepdim=True) + self.floor).sqrt()


# variant: a centering matrix
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        D = x.size(-1)
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        z = z - z.sum(-1, keepdim=True) / D
        square = torch.einsum("...d,...d->...", z, z).unsqueeze(-1) / D
        n = z * torch.pow(square + self.eps, -0.5)
        return torch.Tensor.type_as(n * self.weight + self.bias, x)
