# variant: torch.logaddexp, and the shares as e to the difference
def merge_attention(output_a, lse_a, output_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    base = torch.where(lse == -math.inf, torch.zeros_like(lse), lse)
    return torch.exp(lse_a - base).unsqueeze(-1) * output_a + torch.exp(lse_b - base).unsqueeze(-1) * output_b, lse


# variant: the share of the first group is the sigmoid of the difference
def merge_attention(output_a, lse_a, output_b, lse_b):
    empty = (lse_a == -math.inf) & (lse_b == -math.inf)
    share = torch.sigmoid(lse_a.masked_fill(empty, 0) - lse_b.masked_fill(empty, 0))[..., None]
    return share * output_a + (1 - share) * output_b, torch.logaddexp(lse_a, lse_b)


# variant: both groups stacked, and softmax over the two
def merge_attention(output_a, lse_a, output_b, lse_b):
    lses = torch.stack([lse_a, lse_b])
    weights = torch.softmax(lses, dim=0).nan_to_num(0.0)
    return (weights[..., None] * torch.stack([output_a, output_b])).sum(0), torch.logsumexp(lses, 0)


# variant: sums relative to the first group or to the second, chosen by where
def merge_attention(output_a, lse_a, output_b, lse_b):
    swap = lse_b > lse_a
    high, low = torch.where(swap, lse_b, lse_a), torch.where(swap, lse_a, lse_b)
    first = torch.where(swap.unsqueeze(-1), output_b, output_a)
    second = torch.where(swap.unsqueeze(-1), output_a, output_b)
    r = torch.where(high == -torch.inf, 0.0, (low - high).exp())
    return (first + r.unsqueeze(-1) * second) / (1 + r).unsqueeze(-1), high + torch.log1p(r)
