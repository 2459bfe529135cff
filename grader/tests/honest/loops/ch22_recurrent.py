"""In explicit loops: text by text, head by head, position by position."""


import torch
import torch.nn.functional as F
from torch import nn

from .ch03_attention import merge_heads, split_heads
from .ch05_layers import RMSNorm


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
