# variant: complex numbers
def apply_rope(x, positions, base=10000.0):
    angles = rope_angles(positions, x.shape[-1], base)
    wide = x.double() if x.dtype == torch.float64 else x.float()
    pairs = torch.view_as_complex(wide.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).type_as(x)


# variant: every angle twice, and neighbours swapped
def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    angles = rope_angles(positions, x.size(-1), base).repeat_interleave(2, dim=-1)  # (T, d_head)
    swapped = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).reshape(x.shape)
    return (x * angles.cos() + swapped * angles.sin()).to(x.dtype)


# variant: a new tensor, filled with the even and the odd features
def apply_rope(x, positions, base=10000.0):
    angles = rope_angles(positions, x.shape[-1], base)
    c, s = torch.cos(angles), torch.sin(angles)
    a, b = x.float()[..., ::2], x.float()[..., 1::2]
    if x.dtype == torch.float64:
        a, b, c, s = x[..., ::2], x[..., 1::2], c.double(), s.double()
    out = torch.empty_like(x)
    out[..., ::2] = a * c - b * s
    out[..., 1::2] = a * s + b * c
    return out


# variant: a small rotation matrix for every position and pair
def apply_rope(x, positions, base=10000.0):
    if x.size(-1) % 2:
        raise ValueError(f"d_head is {x.size(-1)}, and RoPE needs pairs")
    angles = rope_angles(positions, x.size(-1), base).double()
    rotation = torch.stack([torch.stack([angles.cos(), -angles.sin()], -1), torch.stack([angles.sin(), angles.cos()], -1)], -2)
    pairs = x.double().unflatten(-1, (x.size(-1) // 2, 2))
    return torch.einsum("tiab,...tib->...tia", rotation, pairs).flatten(-2).to(x.dtype)


# variant: its own angles, exact to double precision, pairs by unflatten and unbind
def apply_rope(x, positions, base=10000.0):
    d_head = x.size(-1)
    assert d_head % 2 == 0, f"odd d_head {d_head}"
    exponents = torch.arange(0, d_head, 2, device=x.device).double() / d_head
    angles = positions.double()[:, None] / base**exponents
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.cat([part.unsqueeze(-1) for part in turned], dim=-1).view(x.shape).to(x.dtype)


# variant: sorted into halves, turned as Llama does it, and sorted back
def apply_rope(x, positions, base=10000.0):
    if x.size(-1) % 2:
        raise ValueError(f"d_head={x.size(-1)}")
    halves = torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)
    angles = rope_angles(positions, x.size(-1), base).repeat(1, 2)
    first, second = halves.chunk(2, dim=-1)
    turned = halves * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()
    return turned.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2).to(x.dtype)
