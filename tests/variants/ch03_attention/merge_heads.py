# variant: contiguous and view
def merge_heads(x):
    B, H, T, d_head = x.shape
    return x.transpose(1, 2).contiguous().view(B, T, H * d_head)


# variant: the heads concatenated one by one
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.size(1))], dim=-1)


# variant: permute and reshape
def merge_heads(x):
    return x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


# variant: filled slice by slice
def merge_heads(x):
    B, H, T, d = x.shape
    out = torch.zeros(B, T, H * d, dtype=x.dtype)
    for h, head in enumerate(x.unbind(1)):
        out[..., h * d : h * d + d] = head
    return out
