# variant: torch's normal distribution, and the tanh form by its sigmoid
def gelu_backward(x, grad_out, approximate=False):
    if approximate:
        c = 2 * math.sqrt(2 / math.pi)
        s = torch.sigmoid(c * (x + 0.044715 * x.pow(3)))
        return grad_out * (s + x * s * (1 - s) * c * (1 + 0.134145 * x.square()))
    normal = torch.distributions.Normal(torch.zeros((), dtype=x.dtype, device=x.device), 1.0, validate_args=False)
    return grad_out * (normal.cdf(x) + x * normal.log_prob(x).exp()).to(x.dtype)


# variant: the complementary error function, products multiplied out
def gelu_backward(x, grad_out, approximate=False):
    if not approximate:
        phi = torch.erfc(-x / 2**0.5) * 0.5
        return grad_out * phi + grad_out * x * (-x * x / 2).exp() * 0.3989422804014327
    k = (2 / math.pi) ** 0.5
    u = k * x + k * 0.044715 * x * x * x
    t = u.tanh()
    du = k + 3 * k * 0.044715 * x * x
    return grad_out / 2 + grad_out * t / 2 + grad_out * x * du * (1 - t) * (1 + t) / 2


# variant: ndtr, and 1 / cosh squared
def gelu_backward(x, grad_out, approximate=False):
    if approximate:
        u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        near = u.clamp(-30, 30)
        slope = 0.5 * (1 + torch.tanh(u)) + 0.5 * x / torch.cosh(near) ** 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
        slope = torch.where(u.abs() > 30, (x > 0).to(x.dtype), slope)
    else:
        slope = torch.special.ndtr(x) + x * torch.exp(-x.pow(2) / 2 - 0.5 * math.log(2 * math.pi))
    return slope.mul(grad_out)
