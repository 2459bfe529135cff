# variant: bernoulli draws of the chance to stay
def dropout(x, p, training=True):
    if not training or p == 0.0:
        return x
    keep = 1.0 - p
    if keep == 0.0:
        return torch.zeros_like(x)
    mask = torch.bernoulli(torch.full_like(x, keep))
    return x * mask / keep


# variant: torch.where on draws like x
def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    if training and 0 < p < 1:
        return torch.where(torch.rand_like(x, dtype=torch.float32) < 1 - p, x / (1 - p), torch.zeros_like(x))
    if training and p:
        return torch.zeros_like(x)
    return x.clone()


# variant: masked_fill, and a scale that does not divide by zero
def dropout(x, p, training=True):
    if not training:
        return x
    drop = torch.empty(x.shape, device=x.device).uniform_() < p
    scale = 1 / (1 - p) if p < 1 else 0.0
    return (x * scale).masked_fill(drop, 0.0)


# variant: a copy, written into
def dropout(x, p, training=True):
    if not training:
        return x
    y = x.clone()
    y[torch.rand(x.size(), device=x.device) < p] = 0
    return y if p == 1 else y / (1 - p)


# variant: draws on the CPU, brought to x
def dropout(x, p, training=True):
    if not training or p == 0:
        return x
    draws = torch.rand(x.shape)
    mask = (draws > p).to(device=x.device, dtype=x.dtype)
    return x * mask * (1 / max(1 - p, 1e-12))


# variant: a mask of zeros and factors, drawn by Python
def dropout(x, p, training=True):
    import random

    if not training or p == 0:
        return x
    factor = 0.0 if p == 1 else 1 / (1 - p)
    drawn = [0.0 if random.random() < p else factor for _ in range(x.numel())]
    return x * torch.tensor(drawn, device=x.device, dtype=x.dtype).view(x.shape)
