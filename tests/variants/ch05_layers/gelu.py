# variant: the chance from the complementary error function
def gelu(x, approximate=False):
    if approximate:
        inner = (2 / math.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3))
        return x * 0.5 * (1.0 + torch.tanh(inner))
    return x * torch.special.erfc(-x * 2**-0.5) / 2


# variant: torch's normal distribution
def gelu(x, approximate=False):
    if not approximate:
        return x * torch.distributions.Normal(0.0, 1.0).cdf(x).to(x.dtype)
    c = math.sqrt(2.0 / math.pi)
    return 0.5 * x + 0.5 * x * torch.tanh(c * x * (1 + 0.044715 * x * x))


# variant: ndtr, and the tanh form by its sigmoid
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    if approximate:
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return torch.special.ndtr(x).mul(x)


# variant: computed in double precision, constants as tensors
def gelu(x, approximate=False):
    z = x.double()
    half = torch.tensor(0.5, dtype=torch.float64, device=x.device)
    if approximate:
        scale = torch.sqrt(torch.tensor(2.0 / torch.pi, dtype=torch.float64, device=x.device))
        y = half * z * (1 + torch.tanh(scale * (z + 0.044715 * z**3)))
    else:
        y = half * z * (1 + torch.erf(z / torch.sqrt(torch.tensor(2.0, dtype=torch.float64, device=x.device))))
    return y.to(x.dtype)


# variant: a constant on the CPU without axes, and tanh's argument typed in long
def gelu(x, approximate=False):
    two = torch.tensor(2.0)
    if approximate is True:
        return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x.pow(3))))
    phi = 0.5 * (1 + torch.special.erf(x / two.sqrt()))
    return phi * x
