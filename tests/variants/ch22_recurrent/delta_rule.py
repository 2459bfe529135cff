# variant: einsum over lists of positions, the decay as a list of factors
def delta_rule(q, k, v, beta, log_decay=None, state=None):
    B, H, T, d = q.shape
    S = torch.zeros(B, H, d, v.size(-1), dtype=q.dtype, device=q.device) if state is None else state
    factors = torch.ones_like(beta) if log_decay is None else torch.exp(log_decay)
    read = []
    for q_t, k_t, v_t, beta_t, factor in zip(*(each.unbind(2) for each in (q, k, v, beta, factors))):
        S = torch.einsum("bh,bhij->bhij", factor, S)
        returned = torch.einsum("bhij,bhi->bhj", S, k_t)
        S = S + torch.einsum("bh,bhi,bhj->bhij", beta_t, k_t, v_t - returned)
        read.append(torch.einsum("bhij,bhi->bhj", S, q_t))
    return torch.stack(read, 2), S


# variant: the state is multiplied by a matrix, I - beta k kᵀ
def delta_rule(q, k, v, beta, log_decay=None, state=None):
    if log_decay is None:
        log_decay = beta.new_zeros(beta.shape)
    if state is None:
        state = k.new_zeros(k.size(0), k.size(1), k.size(3), v.size(3))
    output = v.new_empty(v.shape)
    identity = torch.eye(k.size(3), dtype=k.dtype, device=k.device)
    rows = []
    for t in range(k.size(2)):
        column, weight = k[:, :, t, :, None], beta[:, :, t, None, None]
        keeps = identity - weight * column @ column.mT
        state = keeps @ state * log_decay[:, :, t, None, None].exp() + weight * column * v[:, :, t, None, :]
        rows.append((column.new_tensor(1.0) * state.mT @ q[:, :, t, :, None]).squeeze(-1))
    return torch.stack(rows, dim=2).to(output.dtype), state


# variant: in chunks, by a triangular system
def delta_rule(q, k, v, beta, log_decay=None, state=None):
    return delta_rule_chunked(q, k, v, beta, 8, log_decay, state)


# variant: heads and texts one by one
def delta_rule(q, k, v, beta, log_decay=None, state=None):
    outputs, states = [], []
    for b in range(q.size(0)):
        for h in range(q.size(1)):
            S = q.new_zeros(q.size(3), v.size(3)) if state is None else state[b, h]
            own = []
            for t in range(q.size(2)):
                S = S if log_decay is None else S * log_decay[b, h, t].exp()
                S = S + beta[b, h, t] * torch.outer(k[b, h, t], v[b, h, t] - S.T @ k[b, h, t])
                own.append(S.T @ q[b, h, t])
            outputs.append(torch.stack(own))
            states.append(S)
    shape = q.shape[:2]
    return torch.stack(outputs).unflatten(0, shape), torch.stack(states).unflatten(0, shape)
