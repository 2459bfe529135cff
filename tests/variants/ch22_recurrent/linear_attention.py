# variant: einsum, and φ by its two branches
def linear_attention(q, k, v):
    def phi(x):
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))

    weights = torch.einsum("bhtd,bhsd->bhts", phi(q), phi(k))
    T = q.shape[2]
    weights = weights.masked_fill(torch.triu(torch.ones(T, T, dtype=torch.bool, device=q.device), 1), 0.0)
    return torch.einsum("bhts,bhsv->bhtv", weights / weights.sum(-1, keepdim=True), v)


# variant: the two sums over the past as cumulative sums of matrices and of keys
def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    S = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(dim=2)  # (B, H, T, d, d_v)
    z = k.cumsum(dim=2)
    return q.unsqueeze(-2).matmul(S).squeeze(-2) / (q * z).sum(-1).unsqueeze(-1)


# variant: a column of ones beside the values gives the sum of the weights
def linear_attention(q, k, v):
    products = torch.nn.functional.elu(q).add(1) @ torch.nn.functional.elu(k).add(1).mT
    both = torch.tril(products) @ torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    return both[..., :-1] / both[..., -1:]


# variant: head by head, with a triangle of ones
def linear_attention(q, k, v):
    phi = nn.ELU()
    triangle = torch.tril(torch.ones(q.size(2), q.size(2), dtype=q.dtype, device=q.device))
    outputs = []
    for h in range(q.size(1)):
        weights = triangle * ((phi(q[:, h]) + 1) @ (phi(k[:, h]) + 1).transpose(1, 2))
        outputs.append(weights @ v[:, h] / weights.sum(dim=2, keepdim=True))
    return torch.stack(outputs, dim=1)
