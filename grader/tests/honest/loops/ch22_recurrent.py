"""In explicit loops: text by text, head by head, position by position."""


import torch
import torch.nn.functional as F
from torch import nn

from .ch03_attention import merge_heads, split_heads
from .ch05_layers import RMSNorm


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


def delta_rule(q, k, v, beta, log_decay=None, state=None):
    B, H, T, d = q.shape
    outputs = []
    states = []
    for b in range(B):
        for h in range(H):
            if state is None:
                S = torch.zeros(d, v.shape[3], dtype=q.dtype, device=q.device)
            else:
                S = state[b, h]
            for t in range(T):
                if log_decay is not None:
                    S = torch.exp(log_decay[b, h, t]) * S
                key = k[b, h, t]
                returned = S.T @ key
                correction = beta[b, h, t] * (v[b, h, t] - returned)
                S = S + key[:, None] * correction[None, :]
                outputs.append(S.T @ q[b, h, t])
            states.append(S)
    output = torch.stack(outputs).reshape(B, H, T, v.shape[3])
    return output, torch.stack(states).reshape(B, H, d, v.shape[3])


def delta_rule_chunked(q, k, v, beta, chunk, log_decay=None, state=None):
    if chunk < 1:
        raise ValueError(f"chunk = {chunk} is below 1")
    B, H, T, d = q.shape
    S = state
    if S is None:
        S = torch.zeros(B, H, d, v.shape[3], dtype=q.dtype, device=q.device)
    if log_decay is None:
        log_decay = torch.zeros_like(beta)
    outputs = []
    start = 0
    while start < T:
        end = min(start + chunk, T)
        q_c = q[:, :, start:end]
        k_c = k[:, :, start:end]
        logs = log_decay[:, :, start:end]
        weight = beta[:, :, start:end, None]
        length = end - start
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).tril(-1)
        # sums over s + 1 ... t, added up column by column
        sums = torch.where(later, logs[..., None], torch.zeros_like(logs[..., None])).cumsum(2)
        factors = torch.where(later | later.T.logical_not(), sums.exp(), torch.zeros_like(sums))
        since = torch.exp(torch.cumsum(logs, dim=2))[..., None]
        right = weight * (v[:, :, start:end] - since * (k_c @ S))
        system = torch.eye(length, dtype=q.dtype, device=q.device)
        system = system + torch.tril(weight * (k_c @ k_c.transpose(2, 3)) * factors, -1)
        u = torch.linalg.solve(system, right)
        inside = q_c @ k_c.transpose(2, 3) * factors
        outputs.append(inside @ u + since * (q_c @ S))
        remaining = factors[:, :, length - 1, :, None]
        S = since[:, :, length - 1 : length] * S + (remaining * k_c).transpose(2, 3) @ u
        start = end
    return torch.cat(outputs, dim=2), S


def short_convolution(x, weight, state=None):
    B, T, D = x.shape
    width = weight.shape[1]
    before = state
    if before is None:
        before = torch.zeros(B, width - 1, D, dtype=x.dtype, device=x.device)
    inputs = torch.cat([before, x], dim=1)
    total = torch.zeros_like(x)
    for j in range(width):
        total = total + weight[:, j] * inputs[:, j : j + T]
    return total, inputs[:, T:]


def selective_scan(x, dt, A, B, C, D, state=None):
    batch, T, features = x.shape
    N = A.shape[1]
    h = state
    if h is None:
        h = torch.zeros(batch, features, N, dtype=x.dtype, device=x.device)
    outputs = []
    for t in range(T):
        numbers = []
        y = D * x[:, t]
        for n in range(N):
            factor = torch.exp(dt[:, t] * A[:, n])
            number = factor * h[:, :, n] + dt[:, t] * B[:, t, n : n + 1] * x[:, t]
            y = y + C[:, t, n : n + 1] * number
            numbers.append(number)
        h = torch.stack(numbers, dim=2)
        outputs.append(y)
    return torch.stack(outputs, dim=1), h


class GatedDeltaNet(nn.Module):
    def __init__(self, d_model, n_heads, width=4):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be divided by n_heads = {n_heads}")
        if width < 1:
            raise ValueError(f"width = {width} is below 1")
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.width = width
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.W_beta = nn.Linear(d_model, n_heads, bias=False)
        self.W_decay = nn.Linear(d_model, n_heads, bias=False)
        self.W_gate = nn.Linear(d_model, d_model, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        self.norm = RMSNorm(self.d_head)
        self.conv = nn.Parameter(torch.randn(3 * d_model, width) / width)
        rates = []
        biases = []
        for _ in range(n_heads):
            rate = 1 + 15 * torch.rand(1)
            step = 0.001 + 0.099 * torch.rand(1)
            rates.append(torch.log(rate))
            biases.append(torch.log(torch.exp(step) - 1))
        self.A_log = nn.Parameter(torch.cat(rates))
        self.dt_bias = nn.Parameter(torch.cat(biases))

    def new_state(self, B):
        rows = torch.zeros(B, self.width - 1, self.conv.shape[0], dtype=self.conv.dtype, device=self.conv.device)
        S = torch.zeros(B, self.n_heads, self.d_head, self.d_head, dtype=self.conv.dtype, device=self.conv.device)
        return rows, S

    def unit(self, x):
        return x / torch.sqrt((x**2).sum(dim=-1, keepdim=True) + 1e-6)

    def step(self, x, state):
        rows, S = state
        D = x.shape[2]
        mixed, rows = short_convolution(self.W_qkv(x), self.conv, rows)
        mixed = F.silu(mixed)
        q = self.unit(split_heads(mixed[:, :, :D], self.n_heads))
        k = self.unit(split_heads(mixed[:, :, D : 2 * D], self.n_heads))
        v = split_heads(mixed[:, :, 2 * D :], self.n_heads)
        beta = torch.sigmoid(self.W_beta(x)).transpose(1, 2)
        speed = F.softplus(self.W_decay(x) + self.dt_bias)
        log_decay = (-torch.exp(self.A_log) * speed).transpose(1, 2)
        output, S = delta_rule_chunked(q, k, v, beta, 50, log_decay, S)
        output = merge_heads(self.norm(output))
        return self.W_out(output * F.silu(self.W_gate(x))), (rows, S)

    def forward(self, x):
        output, _ = self.step(x, self.new_state(x.shape[0]))
        return output
