# variant: an index of rows
import torch


def interleave_rows(weight, n_heads):
    rows = weight.size(0)
    width, rest = divmod(rows, n_heads)
    if rest or width % 2:
        raise ValueError(f"n_heads = {n_heads} does not fit {rows} rows")
    half = width // 2
    order = [head * width + i + part * half for head in range(n_heads) for i in range(half) for part in range(2)]
    return weight[torch.tensor(order)]


# variant: written into an empty tensor, head by head
import torch


def interleave_rows(weight, n_heads):
    if weight.shape[0] % n_heads or weight.shape[0] // n_heads % 2:
        raise ValueError(f"cannot cut into {n_heads} heads")
    new, d = torch.empty_like(weight), weight.shape[0] // n_heads
    for head in range(0, weight.shape[0], d):
        first, second = weight[head : head + d].chunk(2)
        new[head : head + d : 2], new[head + 1 : head + d : 2] = first, second
    return new


# variant: stacked halves
import torch


def interleave_rows(weight, n_heads):
    assert weight.shape[0] % (2 * n_heads) == 0, f"n_heads={n_heads} needs heads of even width, and there are {weight.shape[0]} rows"
    heads = weight.unflatten(0, (n_heads, -1))
    half = heads.shape[1] // 2
    return torch.stack([heads[:, :half], heads[:, half:]], dim=2).flatten(0, 2)
