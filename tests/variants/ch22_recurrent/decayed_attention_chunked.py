# variant: slices by position, with einsum
def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    assert chunk >= 1, f"chunk is {chunk}"
    B, H, T, d = q.shape
    S = torch.zeros(B, H, d, v.shape[-1], dtype=q.dtype, device=q.device) if state is None else state
    output = []
    for begin in range(0, T, chunk):
        part = slice(begin, min(begin + chunk, T))
        qc, kc, vc, a = q[:, :, part], k[:, :, part], v[:, :, part], log_decay[:, :, part]
        L = segment_sums(a).exp()
        inside = torch.einsum("bhtd,bhsd,bhts,bhsv->bhtv", qc, kc, L, vc)
        grown = a.cumsum(-1).exp()
        output.append(inside + torch.einsum("bhtd,bhdv,bht->bhtv", qc, S, grown))
        S = grown[..., -1, None, None] * S + torch.einsum("bhsd,bhsv,bhs->bhdv", kc, vc, L[:, :, -1])
    return torch.cat(output, dim=2), S


# variant: the state as a pair before the chunk: its rows as keys of unit vectors
def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    if chunk <= 0:
        raise ValueError(f"chunk = {chunk} should be at least 1")
    d = q.size(-1)
    unit = torch.eye(d, dtype=q.dtype, device=q.device).expand(*q.shape[:2], d, d)
    S = torch.zeros_like(unit[..., :1]) * v[..., :1, :] * 0 if state is None else state
    results = []
    for qc, kc, vc, ac in zip(q.split(chunk, 2), k.split(chunk, 2), v.split(chunk, 2), log_decay.split(chunk, 2)):
        sums = segment_sums(torch.cat([torch.zeros_like(ac[..., :1]), ac], -1)).exp()  # row and column 0: the state
        old, own = sums[..., 1:, :1], sums[..., 1:, 1:]
        weights = torch.cat([(qc @ unit) * old, (qc @ kc.mT) * own], dim=-1)
        results.append(weights @ torch.cat([S, vc], dim=2))
        S = (torch.cat([unit * sums[..., -1:, :1], kc * sums[..., -1, 1:, None]], dim=2)).mT @ torch.cat([S, vc], dim=2)
    return torch.cat(results, 2), S


# variant: all chunks at once, padded at the end, and a loop only over the states
def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError(f"chunk = {chunk}")
    T = q.size(2)
    chunk = min(chunk, T)
    rest = -T % chunk
    q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, rest)).unflatten(2, (-1, chunk)) for x in (q, k, v))
    a = torch.nn.functional.pad(log_decay, (0, rest)).unflatten(2, (-1, chunk))  # (B, H, n, C)
    between = segment_sums(a).exp()
    since = a.cumsum(-1).exp().unsqueeze(-1)
    added = (between[..., -1, :].unsqueeze(-1) * k).mT @ v  # (B, H, n, d, d_v)
    S = torch.zeros_like(added[:, :, 0]) if state is None else state
    before = []
    for n in range(a.size(2)):
        before.append(S)
        S = since[:, :, n, -1:] * S + added[:, :, n]
    output = (q @ k.mT * between) @ v + since * (q @ torch.stack(before, 2))
    return output.flatten(2, 3)[:, :, :T], S


# variant: all chunks at once, their states by the segment sums of whole chunks
def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError(f"chunk = {chunk}")
    T, chunk = q.size(2), min(chunk, q.size(2))
    rest = -T % chunk
    q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, rest)).unflatten(2, (-1, chunk)) for x in (q, k, v))
    a = torch.nn.functional.pad(log_decay, (0, rest)).unflatten(2, (-1, chunk))
    between, since = segment_sums(a).exp(), a.cumsum(-1).exp()[..., None]
    added = (between[..., -1, :, None] * k).mT @ v
    first = torch.zeros_like(added[:, :, :1]) if state is None else state[:, :, None]
    totals = torch.nn.functional.pad(a.sum(-1), (1, 0))
    states = torch.einsum("bhnm,bhmdv->bhndv", segment_sums(totals).exp(), torch.cat([first, added], 2))
    output = (q @ k.mT * between) @ v + since * (q @ states[:, :, :-1])
    return output.flatten(2, 3)[:, :, :T], states[:, :, -1]
