# variant: variances of torch, mean squared error
def explained_variance(x, reconstruction):
    if tuple(x.shape) != tuple(reconstruction.shape):
        raise ValueError(f"{tuple(x.shape)} is not {tuple(reconstruction.shape)}")
    rows, guess = x.reshape(-1, x.shape[-1]), reconstruction.reshape(-1, x.shape[-1])
    variance = rows.var(dim=0, correction=0).sum()
    if variance == 0:
        raise ValueError("x does not vary")
    return float(1 - ((rows - guess) ** 2).sum(dim=1).mean() / variance)


# variant: norms
def explained_variance(x, reconstruction):
    assert x.shape == reconstruction.shape, "the shapes differ"
    dims = tuple(range(x.dim() - 1))
    centred = x - (x.mean(dim=dims) if dims else x)
    assert bool(centred.any()), "x: all states are the same"
    return 1.0 - ((reconstruction - x).norm() / centred.norm()).item() ** 2


# variant: state by state, without gradient
def explained_variance(x, reconstruction):
    if x.shape != reconstruction.shape:
        raise ValueError(f"x has shape {x.shape} and the reconstruction {reconstruction.shape}")
    with torch.no_grad():
        states = x.flatten().view(-1, x.size(-1)) if x.is_contiguous() else x.contiguous().view(-1, x.size(-1))
        middle = torch.stack(list(states)).mean(0)
        error = F.mse_loss(reconstruction, x, reduction="sum")
        spread = F.mse_loss(middle.expand_as(states), states, reduction="sum")
        if spread.item() == 0:
            raise ValueError(f"x has no variance: all {len(states)} states are {middle}")
        return 1 - error.item() / spread.item()
