# variant: logarithms, and an outer product
def rope_angles(positions, d_head, base=10000.0):
    import math

    assert d_head % 2 == 0, f"d_head must be even, not {d_head}"
    steps = torch.arange(0, d_head, 2, dtype=torch.float32, device=positions.device)
    return torch.outer(positions.to(torch.float32), torch.exp(steps * (-math.log(base) / d_head)))


# variant: double precision inside, 1 over the power
def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    if d_head & 1:
        raise ValueError(f"{d_head} features do not make pairs")
    i = torch.arange(d_head // 2, dtype=torch.float64, device=positions.device)
    theta = 1.0 / torch.pow(torch.tensor(base, dtype=torch.float64, device=positions.device), 2 * i / d_head)
    return (positions.double().unsqueeze(-1) * theta.unsqueeze(0)).float()


# variant: frequencies as a list of numbers, einsum
def rope_angles(positions, d_head, base=10000.0):
    half, rest = divmod(d_head, 2)
    if rest:
        raise ValueError("d_head=%d is odd" % d_head)
    theta = positions.new_tensor([base ** (-i / half) for i in range(half)], dtype=torch.float)
    return torch.einsum("t,i->ti", positions.float(), theta)


# variant: column after column
def rope_angles(positions, d_head, base=10000.0):
    if d_head % 2 == 1:
        raise ValueError(f"cannot pair an odd number of features ({d_head})")
    return torch.stack([positions.float() / base ** (2 * i / d_head) for i in range(d_head // 2)], dim=-1)
