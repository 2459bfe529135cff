"""Chapter 14 with loops: over strips, over tiles, over queries and over rows."""

import math

import torch
from torch import nn

from .ch03_attention import scaled_dot_product_attention
from .ch08_training import cross_entropy


def check(name, value):
    if value < 1:
        raise ValueError(f"{name} = {value} is not positive")


def attention_with_lse(q, k, v, mask=None):
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    columns = []
    lse = torch.full_like(q[..., 0], -math.inf)
    for j in range(k.size(-2)):
        lse = torch.logaddexp(lse, scores[..., j].detach())
    for j in range(k.size(-2)):
        columns.append(scores[..., j] - lse.clamp(min=torch.finfo(q.dtype).min))
    output = q.new_zeros(*q.shape[:-1], v.size(-1))
    total = torch.zeros_like(q[..., 0])
    for j in range(k.size(-2)):
        total = total + columns[j].exp()
        output = output + columns[j].exp()[..., None] * v[..., j : j + 1, :]
    # total is 1 for every query that sees a key; dividing by it brings the gradient that lse was detached from
    return output / torch.where(total == 0, 1.0, total)[..., None], lse


def merge_attention(output_a, lse_a, output_b, lse_b):
    first_larger = lse_a >= lse_b
    large, small = torch.where(first_larger, lse_a, lse_b), torch.where(first_larger, lse_b, lse_a)
    main, side = torch.where(first_larger[..., None], output_a, output_b), torch.where(first_larger[..., None], output_b, output_a)
    ratio = torch.where(small == -math.inf, 0.0, torch.exp(small - large))  # at most 1
    return (main + ratio[..., None] * side) / (1 + ratio)[..., None], large + torch.log1p(ratio)


def tiles(Tq, Tk, block, causal):
    """(queries, keys, mask) of every tile in which a query sees a key."""
    for q_start in range(0, Tq, block):
        q_end = min(q_start + block, Tq)
        for k_start in range(0, Tk, block):
            k_end = min(k_start + block, Tk)
            last_position, first_position = Tk - Tq + q_end - 1, Tk - Tq + q_start
            if causal and k_start > last_position:
                break
            mask = None
            if causal and k_end - 1 > first_position:
                mask = torch.tensor([[j <= Tk - Tq + i for j in range(k_start, k_end)] for i in range(q_start, q_end)])
            yield slice(q_start, q_end), slice(k_start, k_end), mask


def tiled_attention(q, k, v, block, causal=False):
    check("block", block)
    output, lse = q.new_zeros(*q.shape[:-1], v.size(-1)), q.new_full(q.shape[:-1], -math.inf)
    for rows, columns, mask in tiles(q.size(-2), k.size(-2), block, causal):
        scores = q[..., rows, :] @ k[..., columns, :].transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask.to(q.device), -math.inf)
        top = scores.amax(-1, keepdim=True)
        top = torch.where(top == -math.inf, 0.0, top)
        powers = (scores - top).exp()
        total = powers.sum(-1, keepdim=True)
        part = powers @ v[..., columns, :] / torch.where(total == 0, 1.0, total)
        merged = merge_attention(output[..., rows, :], lse[..., rows], part, (top + total.log())[..., 0])
        output[..., rows, :], lse[..., rows] = merged
    return output, lse


def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    check("block", block)
    grads = [q.new_zeros(x.shape) for x in (q, k, v)]
    for rows, columns, mask in tiles(q.size(-2), k.size(-2), block, causal):
        queries, keys, values, upstream = q[..., rows, :], k[..., columns, :], v[..., columns, :], grad_out[..., rows, :]
        weights = torch.exp(queries @ keys.mT / math.sqrt(q.size(-1)) - lse[..., rows, None])
        if mask is not None:
            weights = torch.where(mask.to(q.device), weights, 0.0)
        slopes = weights * ((upstream @ values.mT) - (upstream * output[..., rows, :]).sum(-1, keepdim=True))
        grads[0][..., rows, :] += slopes @ keys / math.sqrt(q.size(-1))
        grads[1][..., columns, :] += slopes.mT @ queries / math.sqrt(q.size(-1))
        grads[2][..., columns, :] += weights.mT @ upstream
    return grads


def efficient_attention(q, k, v, block=64, causal=False):
    class Loop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *qkv):
            result = tiled_attention(*qkv, block, causal)
            ctx.save_for_backward(*qkv, *result)
            return result[0]

        @staticmethod
        def backward(ctx, grad_out):
            q, k, v, output, lse = ctx.saved_tensors
            grads = tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal)
            return tuple(grads)

    return Loop.apply(q, k, v)


def sliding_window_mask(q_len, window, k_len=None):
    check("window", window)
    if k_len is None:
        k_len = q_len
    mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        position = k_len - q_len + i
        mask[i, max(0, position - window + 1) : position + 1] = True
    return mask


def windowed_attention(q, k, v, window):
    check("window", window)
    past = k.size(-2) - q.size(-2)
    rows = []
    for i in range(q.size(-2)):
        seen = slice(max(0, past + i + 1 - window), past + i + 1)
        rows.append(scaled_dot_product_attention(q[..., i : i + 1, :], k[..., seen, :], v[..., seen, :])[0])
    return torch.cat(rows, -2)


def checkpointed(module, *inputs):
    """The backward pass of the second run is nested in the first one's, and adds to the parameters' gradients itself."""

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, switch, *inputs):
            ctx.before = torch.get_rng_state()
            ctx.save_for_backward(*inputs)
            with torch.no_grad():
                return module(*inputs)

        @staticmethod
        def backward(ctx, grad):
            after = torch.get_rng_state()
            torch.set_rng_state(ctx.before)
            copies = []
            for x in ctx.saved_tensors:
                copy = x.detach()
                if x.requires_grad:
                    copy.requires_grad_()
                copies.append(copy)
            with torch.enable_grad():
                output = module(*copies)
            torch.set_rng_state(after)
            output.backward(grad)
            return (None, *(copy.grad for copy in copies))

    needed = any(x.requires_grad for x in [*inputs, *module.parameters()])
    return Nested.apply(torch.zeros((), requires_grad=needed), *inputs)


class SumOfLosses(nn.Module):
    def __init__(self, ignore_index):
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, rows, weight, goals):
        return cross_entropy(rows @ weight.T, goals, self.ignore_index) * len(goals)


def chunked_cross_entropy(hidden, weight, targets, chunk, ignore_index=-100):
    """Only the kept rows are looked at."""
    check("chunk", chunk)
    keep = (targets != ignore_index).flatten()
    rows, goals = hidden.reshape(-1, hidden.size(-1))[keep], targets.flatten()[keep]
    if len(goals) == 0:
        return (hidden.sum() + weight.sum()) * 0
    total = 0.0
    for start in range(0, len(goals), chunk):
        total = total + checkpointed(SumOfLosses(ignore_index), rows[start : start + chunk], weight, goals[start : start + chunk])
    return total / len(goals)
