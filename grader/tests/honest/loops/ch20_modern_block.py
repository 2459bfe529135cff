"""In explicit loops: heads one by one, positions one by one, steps one after the other."""

import math

import torch
from torch import nn

from .ch04_positions_in_attention import alibi_slopes, apply_rope
from .ch05_layers import RMSNorm


def soft_cap(logits, cap):
    if cap <= 0:
        raise ValueError(f"cap = {cap}")
    scaled = logits / cap
    return torch.tanh(scaled) * cap


def attention_with_sink(q, k, v, sink, mask=None):
    B, H, Tq, d = q.shape
    Tk = k.size(2)
    if mask is None:
        mask = torch.ones(Tq, Tk, dtype=torch.bool, device=q.device)
    mask = mask.expand(B, H, Tq, Tk)
    outputs, weights = [], []
    for h in range(H):
        scores = torch.matmul(q[:, h], k[:, h].transpose(1, 2)) / math.sqrt(d)  # (B, Tq, Tk)
        scores = torch.where(mask[:, h], scores, torch.full_like(scores, -math.inf))
        own = sink[h].to(q.dtype)
        largest = torch.maximum(scores.max(dim=-1, keepdim=True).values, own).detach()
        powers = torch.exp(scores - largest)
        below = powers.sum(dim=-1, keepdim=True) + torch.exp(own - largest)
        weights.append(powers / below)
        outputs.append(torch.matmul(weights[-1], v[:, h]))
    return torch.stack(outputs, dim=1), torch.stack(weights, dim=1)


def gated_attention(q, k, v, gate, mask=None):
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    largest = torch.where(torch.isinf(largest), torch.zeros_like(largest), largest).detach()
    powers = torch.exp(scores - largest)
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total == 0, torch.ones_like(total), total)
    output = torch.matmul(weights, v)
    opened = 1 / (1 + torch.exp(-gate.clamp(-80, 80)))
    return output * opened


class QKNormAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none"):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if positions != "none" and positions != "rope" and positions != "alibi":
            raise ValueError(f"positions = {positions!r} is unknown")
        self.d_model, self.n_heads, self.positions = d_model, n_heads, positions
        for name in ("W_q", "W_k", "W_v", "W_out"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.q_norm = RMSNorm(d_model // n_heads)
        self.k_norm = RMSNorm(d_model // n_heads)

    def forward(self, x):
        T = x.size(1)
        d_head = self.d_model // self.n_heads
        slopes = alibi_slopes(self.n_heads)
        where = torch.arange(T, device=x.device)
        q_all, k_all, v_all = self.W_q(x), self.W_k(x), self.W_v(x)
        heads = []
        for h in range(self.n_heads):
            own = slice(h * d_head, (h + 1) * d_head)
            q, k, v = self.q_norm(q_all[..., own]), self.k_norm(k_all[..., own]), v_all[..., own]  # (B, T, d_head)
            if self.positions == "rope":
                q, k = apply_rope(q, where), apply_rope(k, where)
            scores = torch.matmul(q, k.transpose(1, 2)) / math.sqrt(d_head)
            if self.positions == "alibi":
                scores = scores - float(slopes[h]) * (where[:, None] - where[None, :]).abs().to(scores.dtype)
            scores = scores.masked_fill(where[None, :] > where[:, None], -math.inf)
            heads.append(torch.matmul(torch.softmax(scores, dim=-1), v))
        return self.W_out(torch.cat(heads, dim=-1))


class LatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_latent, d_rope):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if d_rope % 2 == 1:
            raise ValueError(f"d_rope = {d_rope} is odd")
        self.n_heads, self.d_head, self.d_rope = n_heads, d_model // n_heads, d_rope
        self.W_q = nn.Linear(d_model, n_heads * (self.d_head + d_rope), bias=False)
        self.W_down = nn.Linear(d_model, d_latent, bias=False)
        self.norm = RMSNorm(d_latent)
        self.W_up_k = nn.Linear(d_latent, d_model, bias=False)
        self.W_up_v = nn.Linear(d_latent, d_model, bias=False)
        self.W_rope = nn.Linear(d_model, d_rope, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        T = x.size(1)
        where = torch.arange(T, device=x.device)
        c = self.norm(self.W_down(x))
        queries, keys, values = self.W_q(x), self.W_up_k(c), self.W_up_v(c)
        shared = apply_rope(self.W_rope(x), where)
        late = where[None, :] > where[:, None]
        heads = []
        for h in range(self.n_heads):
            start = h * (self.d_head + self.d_rope)
            plain = queries[..., start : start + self.d_head]
            turned = apply_rope(queries[..., start + self.d_head : start + self.d_head + self.d_rope], where)
            own = slice(h * self.d_head, (h + 1) * self.d_head)
            scores = torch.matmul(plain, keys[..., own].transpose(1, 2)) + torch.matmul(turned, shared.transpose(1, 2))
            scores = scores / math.sqrt(self.d_head + self.d_rope)
            weights = torch.softmax(scores.masked_fill(late, -math.inf), dim=-1)
            heads.append(torch.matmul(weights, values[..., own]))
        return self.W_out(torch.cat(heads, dim=-1))

    def cached(self, x, cache):
        past, T = cache.length, x.size(1)
        new = torch.arange(past, past + T, device=x.device)
        c_new = self.norm(self.W_down(x))
        shared_new = apply_rope(self.W_rope(x), new)
        c, shared = cache.append(c_new.unsqueeze(1), shared_new.unsqueeze(1))
        c, shared = c.squeeze(1), shared.squeeze(1)  # (B, P + T, d_latent), (B, P + T, d_rope)
        queries = self.W_q(x)
        late = torch.arange(past + T, device=x.device)[None, :] > new[:, None]
        heads = []
        for h in range(self.n_heads):
            start = h * (self.d_head + self.d_rope)
            own = slice(h * self.d_head, (h + 1) * self.d_head)
            plain = torch.matmul(queries[..., start : start + self.d_head], self.W_up_k.weight[own])
            turned = apply_rope(queries[..., start + self.d_head : start + self.d_head + self.d_rope], new)
            scores = torch.matmul(plain, c.transpose(1, 2)) + torch.matmul(turned, shared.transpose(1, 2))
            scores = scores / math.sqrt(self.d_head + self.d_rope)
            weights = torch.softmax(scores.masked_fill(late, -math.inf), dim=-1)
            average = torch.matmul(weights, c)
            heads.append(torch.matmul(average, self.W_up_v.weight[own].T))
        return self.W_out(torch.cat(heads, dim=-1))


def yarn_angles(positions, d_head, factor, trained_length, base=10000.0, fast=32.0, slow=1.0):
    if d_head % 2 != 0:
        raise ValueError(f"d_head = {d_head} is odd")
    if factor < 1:
        raise ValueError(f"factor = {factor} is below 1")
    i_fast = d_head / 2 * math.log(trained_length / (2 * math.pi * fast)) / math.log(base)
    i_slow = d_head / 2 * math.log(trained_length / (2 * math.pi * slow)) / math.log(base)
    columns = []
    for i in range(d_head // 2):
        usual = base ** (-2 * i / d_head)
        if i <= i_fast:
            frequency = usual
        elif i >= i_slow:
            frequency = usual / factor
        else:
            share = (i - i_fast) / (i_slow - i_fast)
            frequency = usual * (1 - share) + usual / factor * share
        columns.append(positions.to(torch.float64) * frequency)
    return torch.stack(columns, dim=1), 1 + 0.1 * math.log(factor)


def newton_schulz(m, steps=5):
    x = m / (torch.sqrt((m * m).sum()) + 1e-7)
    turned = m.size(0) > m.size(1)
    if turned:
        x = x.t()
    for _ in range(steps):
        once = torch.matmul(torch.matmul(x, x.t()), x)
        twice = torch.matmul(torch.matmul(x, x.t()), once)
        x = 3.4445 * x - 4.7750 * once + 2.0315 * twice
    if turned:
        x = x.t()
    return x


class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
        parameters = []
        for parameter in params:
            if len(parameter.shape) != 2:
                raise ValueError(f"a parameter of shape {tuple(parameter.shape)} is not a matrix")
            parameters.append(parameter)
        self.param_groups = [{"params": parameters, "lr": lr, "momentum": momentum, "steps": steps, "weight_decay": weight_decay}]
        self.momenta = [None] * len(parameters)

    def step(self):
        group = self.param_groups[0]
        m = group["momentum"]
        with torch.no_grad():
            for number, parameter in enumerate(group["params"]):
                if parameter.grad is None:
                    continue
                if self.momenta[number] is None:
                    self.momenta[number] = torch.zeros_like(parameter)
                v = self.momenta[number]
                v.mul_(m)
                v.add_((1 - m) * parameter.grad)
                direction = newton_schulz(m * v + (1 - m) * parameter.grad, group["steps"])
                scale = 1.0
                if parameter.size(0) > parameter.size(1):
                    scale = math.sqrt(parameter.size(0) / parameter.size(1))
                parameter.copy_(parameter * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * scale * direction)

    def zero_grad(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None


def multi_token_loss(logits, targets, ignore_index=-100):
    K, B, T, V = logits.shape
    total = (logits * 0).sum()
    for k in range(K):
        loss = logits.new_zeros(())
        count = 0
        for b in range(B):
            for t in range(T - k):
                target = int(targets[b, t + k])
                if target == ignore_index:
                    continue
                loss = loss - torch.log_softmax(logits[k, b, t], dim=-1)[target]
                count += 1
        if count > 0:
            total = total + loss / count
    return total / K


def schedule_wsd(step, warmup, decay, total, peak, floor=0.0):
    if warmup + decay > total:
        raise ValueError(f"warmup = {warmup} and decay = {decay} are longer than total = {total}")
    if step < warmup:
        return peak * step / warmup
    if step < total - decay:
        return peak
    if step < total:
        done = (step - (total - decay)) / decay
        return peak + (floor - peak) * done
    return floor
