"""In explicit loops: texts and heads one by one, chunks cut by their positions, rounds counted."""

import torch


def feature_map(x):
    positive = torch.clamp(x, min=0)
    negative = torch.clamp(x, max=0)
    return positive + torch.exp(negative)


def linear_attention(q, k, v):
    B, H, T, _ = q.shape
    triangle = torch.ones(T, T, dtype=q.dtype, device=q.device).tril()
    texts = []
    for b in range(B):
        heads = []
        for h in range(H):
            weights = torch.matmul(feature_map(q[b, h]), feature_map(k[b, h]).transpose(0, 1))
            weights = weights * triangle
            total = torch.sum(weights, dim=1)
            heads.append(torch.matmul(weights, v[b, h]) / total.unsqueeze(1))
        texts.append(torch.stack(heads, dim=0))
    return torch.stack(texts, dim=0)


def linear_attention_step(q, k, v, state):
    B, H, d = q.shape
    new_S, new_z, outputs = [], [], []
    for b in range(B):
        for h in range(H):
            query, key = feature_map(q[b, h]), feature_map(k[b, h])
            S = torch.outer(key, v[b, h])
            z = key
            if state is not None:
                S = state[0][b, h] + S
                z = state[1][b, h] + z
            above = torch.matmul(query, S)
            below = torch.dot(query, z)
            outputs.append(above / below)
            new_S.append(S)
            new_z.append(z)
    S = torch.stack(new_S).reshape(B, H, d, v.size(-1))
    z = torch.stack(new_z).reshape(B, H, d)
    return torch.stack(outputs).reshape(B, H, v.size(-1)), (S, z)


def segment_sums(log_decay):
    T = log_decay.size(-1)
    positions = torch.arange(T, device=log_decay.device)
    row = positions.unsqueeze(1)
    column = positions.unsqueeze(0)
    terms = torch.where(row > column, log_decay.unsqueeze(-1), torch.zeros((), dtype=log_decay.dtype, device=log_decay.device))
    sums = torch.cumsum(terms, dim=log_decay.dim() - 1)
    nothing = torch.full((), float("-inf"), dtype=log_decay.dtype, device=log_decay.device)
    return torch.where(row < column, nothing, sums)


def decayed_attention(q, k, v, log_decay):
    heads = []
    for h in range(q.size(1)):
        factors = torch.exp(segment_sums(log_decay[:, h]))
        products = torch.matmul(q[:, h], k[:, h].transpose(1, 2))
        heads.append(torch.matmul(products * factors, v[:, h]))
    return torch.stack(heads, dim=1)


def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError(f"chunk = {chunk}: at least 1 is needed")
    B, H, T, d = q.shape
    if state is None:
        state = torch.zeros(B, H, d, v.size(-1), dtype=q.dtype, device=q.device)
    outputs = []
    begin = 0
    while begin < T:
        end = min(T, begin + chunk)
        keys, values, logs = k[:, :, begin:end], v[:, :, begin:end], log_decay[:, :, begin:end]
        queries = q[:, :, begin:end]
        inside = decayed_attention(queries, keys, values, logs)
        grown = torch.exp(torch.cumsum(logs, dim=2)).unsqueeze(3)
        outputs.append(inside + torch.matmul(queries * grown, state))
        last_row = torch.exp(segment_sums(logs))[:, :, end - begin - 1]
        pairs = torch.matmul((keys * last_row.unsqueeze(3)).transpose(2, 3), values)
        state = state * torch.exp(torch.sum(logs, dim=2))[:, :, None, None] + pairs
        begin = end
    return torch.cat(outputs, dim=2), state


def doubling_scan(a, b):
    T = b.size(0)
    rounds = 0
    while 2**rounds < T:
        rounds += 1
    for i in range(rounds):
        shift = 2**i
        first_b, first_a = b[:shift], a[:shift]
        joined_b = b[shift:] + a[shift:] * b[: T - shift]
        joined_a = a[shift:] * a[: T - shift]
        b = torch.cat([first_b, joined_b], dim=0)
        a = torch.cat([first_a, joined_a], dim=0)
    return b
