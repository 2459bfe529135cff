# variant: view and permute
def split_heads(x, n_heads):
    B, T, D = x.size()
    if D % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide D={D}")
    return x.view(B, T, n_heads, -1).permute(0, 2, 1, 3).contiguous()


# variant: chunks stacked on a new axis, and an assertion
def split_heads(x, n_heads):
    assert x.shape[-1] % n_heads == 0, f"{x.shape[-1]} is not divisible by {n_heads}"
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


# variant: a loop over heads that fills a new tensor
def split_heads(x, n_heads):
    B, T, D = x.shape
    d_head, rest = divmod(D, n_heads)
    if rest != 0:
        raise ValueError(f"cannot cut {D} features into {n_heads} heads")
    out = x.new_empty(B, n_heads, T, d_head)
    for h in range(n_heads):
        out[:, h] = x[:, :, h * d_head : (h + 1) * d_head]
    return out


# variant: unflatten and movedim
def split_heads(x, n_heads):
    if x.size(-1) % n_heads != 0:
        raise ValueError(f"D ({x.size(-1)}) must be a multiple of n_heads ({n_heads})")
    return x.unflatten(-1, (n_heads, -1)).movedim(2, 1)
