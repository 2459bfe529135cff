# variant: tril copies the terms below the diagonal
def segment_sums(log_decay):
    T = log_decay.shape[-1]
    square = torch.tril(log_decay.unsqueeze(-1).repeat_interleave(T, dim=-1), diagonal=-1)
    later = torch.ones(T, T, dtype=torch.bool, device=log_decay.device).triu(1)
    return torch.where(later, float("-inf"), torch.cumsum(square, dim=-2))


# variant: each row from its end backwards, with the terms of row t beside the diagonal
def segment_sums(log_decay):
    T = log_decay.size(-1)
    at = torch.arange(T, device=log_decay.device)
    t, s = at[:, None], at[None, :]
    after = torch.cat([log_decay[..., 1:], torch.zeros_like(log_decay[..., :1])], -1)  # of the position after s
    terms = torch.where(s < t, after[..., None, :], torch.zeros_like(after[..., None, :]))
    sums = terms.flip(-1).cumsum(-1).flip(-1)
    return sums.masked_fill(s > t, -math.inf)


# variant: doubling: sums over 1, 2, 4, ... terms, joined along a column
def segment_sums(log_decay):
    T = log_decay.size(-1)
    below = torch.tril(torch.ones(T, T, device=log_decay.device, dtype=torch.bool), -1)
    sums = log_decay.unsqueeze(-1).where(below, log_decay.new_zeros(()))
    shift = 1
    while shift < T:
        sums = sums + torch.nn.functional.pad(sums[..., :-shift, :], (0, 0, shift, 0))
        shift *= 2
    return sums.where(~below.mT, sums.new_full((), -math.inf))


# variant: log_decay of both rows and columns by broadcasting, in float64
def segment_sums(log_decay):
    T = log_decay.shape[-1]
    index = torch.arange(T, device=log_decay.device)
    belongs = index[:, None] > index
    picked = torch.where(belongs, log_decay.double()[..., :, None], 0.0)
    return picked.cumsum(-2).to(log_decay.dtype).masked_fill(index[:, None] < index, -torch.inf)
