# variant: one division, without a unit vector
def remove_direction(states, direction):
    square = direction.dot(direction)
    if square.sqrt() == 0:
        raise ValueError("direction is zero")
    return states - torch.einsum("...d,d->...", states, direction).unsqueeze(-1) * (direction / square)


# variant: a product with a matrix
def remove_direction(states, direction):
    assert direction.any(), "the direction is zero"
    unit = direction / torch.linalg.vector_norm(direction)
    identity = torch.eye(len(direction), dtype=states.dtype, device=states.device)
    return states @ (identity - torch.outer(unit, unit)).to(states)


# variant: twice, so that rounding leaves less
def remove_direction(states, direction):
    size = (direction**2).sum() ** 0.5
    if not size:
        raise ValueError("a direction of zeros")
    unit = direction / size
    for _ in range(2):
        states = states - (states * unit).sum(dim=-1, keepdim=True) * unit
    return states
