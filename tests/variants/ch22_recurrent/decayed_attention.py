# variant: einsum over all axes at once
def decayed_attention(q, k, v, log_decay):
    factors = torch.exp(segment_sums(log_decay))
    return torch.einsum("bhtd,bhsd,bhts,bhsv->bhtv", q, k, factors, v)


# variant: products of factors, without logarithms
def decayed_attention(q, k, v, log_decay):
    T = q.size(2)
    later = torch.ones(T, T, dtype=torch.bool, device=q.device).tril(-1)
    factors = torch.where(later, log_decay.exp().unsqueeze(-1), torch.ones_like(log_decay).unsqueeze(-1))
    return torch.tril(factors.cumprod(dim=-2) * (q @ k.mT)) @ v


# variant: a scan over states of all positions by doubling
def decayed_attention(q, k, v, log_decay):
    states = k.unsqueeze(-1) * v.unsqueeze(-2)  # (B, H, T, d, d_v)
    factors, shift = log_decay.exp()[..., None, None], 1
    while shift < q.size(2):
        moved = factors[:, :, shift:] * states[:, :, :-shift] + states[:, :, shift:]
        states = torch.cat([states[:, :, :shift], moved], dim=2)
        factors = torch.cat([factors[:, :, :shift], factors[:, :, shift:] * factors[:, :, :-shift]], dim=2)
        shift = 2 * shift
    return (q.unsqueeze(-2) @ states).squeeze(-2)


# variant: head by head, with an additive mask of logarithms
def decayed_attention(q, k, v, log_decay):
    outputs = []
    for h in range(q.size(1)):
        weights = torch.bmm(q[:, h], k[:, h].transpose(1, 2)).mul(segment_sums(log_decay[:, h]).exp())
        outputs.append(torch.bmm(weights, v[:, h]))
    return torch.stack(outputs, 1)
