# variant: the inverse of the system, for all chunks at once; the last chunk is filled up
def delta_rule_chunked(q, k, v, beta, chunk, log_decay=None, state=None):
    assert chunk >= 1, f"chunk = {chunk}"
    B, H, T, d = q.shape
    chunk = min(chunk, T)
    S = torch.zeros(B, H, d, v.size(3), dtype=q.dtype, device=q.device) if state is None else state
    log_decay = beta * 0 if log_decay is None else log_decay
    more = -T % chunk
    q, k, v = (F.pad(each, (0, 0, 0, more)).unflatten(2, (-1, chunk)) for each in (q, k, v))
    beta, log_decay = (F.pad(each, (0, more)).unflatten(2, (-1, chunk)) for each in (beta, log_decay))
    between = torch.exp(segment_sums(log_decay))
    since = log_decay.cumsum(-1).exp().unsqueeze(-1)
    identity = torch.eye(chunk, dtype=q.dtype, device=q.device)
    system = identity + (beta[..., None] * (k @ k.mT) * between).tril(-1)
    inverse = torch.linalg.inv(system)
    from_values, from_state = inverse @ (beta[..., None] * v), inverse @ (beta[..., None] * since * k)
    inside = q @ k.mT * between
    outputs = []
    for c in range(q.size(2)):
        u = from_values[:, :, c] - from_state[:, :, c] @ S
        outputs.append(inside[:, :, c] @ u + since[:, :, c] * q[:, :, c] @ S)
        S = since[:, :, c, -1:] * S + (between[:, :, c, -1, :, None] * k[:, :, c]).mT @ u
    return torch.cat(outputs, 2)[:, :, :T], S


# variant: rows of the system one after the other, for all chunks at once
def delta_rule_chunked(q, k, v, beta, chunk, log_decay=None, state=None):
    if chunk <= 0:
        raise ValueError("chunk must be positive, but it is " + str(chunk))
    T = q.size(2)
    chunk = min(chunk, T)
    if state is None:
        state = q.new_zeros((q.size(0), q.size(1), q.size(3), v.size(3)))
    if log_decay is None:
        log_decay = torch.zeros_like(beta)
    count = math.ceil(T / chunk)

    def cut(x):
        filled = torch.cat([x, x.new_zeros(*x.shape[:2], count * chunk - T, *x.shape[3:])], dim=2)
        return filled.unflatten(2, (count, chunk)).unbind(2)

    pieces = [torch.stack(cut(x)) for x in (q, k, v, beta, log_decay)]  # (chunks, B, H, C, ...)
    q, k, v, beta, log_decay = pieces
    between, since = segment_sums(log_decay).exp(), log_decay.cumsum(-1).exp()
    below = (beta[..., None] * torch.einsum("...td,...sd->...ts", k, k) * between).tril(-1)
    right = torch.cat([v, since[..., None] * k], dim=-1) * beta[..., None]
    rows = [right[..., 0, :]]
    for t in range(1, chunk):
        rows.append(right[..., t, :] - (below[..., t, :t, None] * torch.stack(rows, -2)).sum(-2))
    values, keys = torch.stack(rows, -2).split([v.size(-1), k.size(-1)], dim=-1)
    outputs = []
    for c in range(count):
        u = values[c] - keys[c] @ state
        outputs.append(since[c, ..., None] * (q[c] @ state) + (q[c] @ k[c].mT * between[c]) @ u)
        state = since[c, ..., -1, None, None] * state + k[c].mT @ (between[c, ..., -1, :, None] * u)
    return torch.cat(outputs, dim=2)[:, :, :T], state


# variant: the corrections by a general solver, and decayed_attention_chunked for the rest
def delta_rule_chunked(q, k, v, beta, chunk, log_decay=None, state=None):
    if chunk < 1:
        raise ValueError(f"a chunk of {chunk} positions")
    log_decay = log_decay if log_decay is not None else 0.0 * beta
    if state is None:
        state = torch.zeros(q.shape[0], q.shape[1], q.shape[3], v.shape[3], dtype=q.dtype, device=q.device)
    outputs = []
    for start in range(0, q.size(2), chunk):
        part = slice(start, start + chunk)
        k_c, decay = k[:, :, part], log_decay[:, :, part]
        weights = beta[:, :, part, None]
        since = decay.cumsum(2).exp()[..., None]
        system = (weights * (k_c @ k_c.mT) * segment_sums(decay).exp()).tril(-1)
        system = system + torch.eye(k_c.size(2), dtype=q.dtype, device=q.device)
        u = torch.linalg.solve(system, weights * (v[:, :, part] - since * (k_c @ state)))
        output, state = decayed_attention_chunked(q[:, :, part], k_c, u, decay, chunk, state)
        outputs.append(output)
    return torch.cat(outputs, dim=2), state
