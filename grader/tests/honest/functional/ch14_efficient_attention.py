"""Chapter 14 with torch's functions, and as few variables that change as possible."""

import math
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attention_with_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(q, k.mT).div(math.sqrt(q.size(-1)))
    if mask is None:
        return torch.matmul(F.softmax(scores, dim=-1), v), torch.logsumexp(scores, dim=-1)
    any_key = mask.any(dim=-1, keepdim=True)
    scores = torch.where(mask | ~any_key, scores, torch.full((), -math.inf, dtype=q.dtype, device=q.device))  # a row without a key keeps its scores, and is cleared below
    lse = torch.where(any_key.squeeze(-1), torch.logsumexp(scores, dim=-1), -math.inf)
    return torch.matmul(torch.where(any_key, F.softmax(scores, dim=-1), 0.0), v), lse


def merge_attention(output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(lse_a, lse_b)
    share = torch.sub(lse_a, lse).exp().nan_to_num(0.0).unsqueeze(-1)
    other = torch.sub(lse_b, lse).exp().nan_to_num(0.0).unsqueeze(-1)
    return torch.addcmul(torch.mul(share, output_a), other, output_b), lse


def strips(block, *keys):
    """The strips of each tensor, with the position of the first key."""
    if block < 1:
        raise ValueError(f"a strip of block={block} keys is empty")
    parts = [torch.split(x, block, dim=-2) if x.size(-2) else () for x in keys]
    return [(i * block, *strip) for i, strip in enumerate(zip(*parts))]


def hidden_keys(q, strip, first, n_keys):
    """True where a key of the strip comes after the query."""
    offset = n_keys - q.size(-2) - first
    return torch.ones(q.size(-2), strip.size(-2), dtype=torch.bool, device=q.device).triu(offset + 1)


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool = False) -> tuple[Tensor, Tensor]:
    def add(state, strip):
        first, keys, values = strip
        mask = hidden_keys(q, keys, first, k.size(-2)).logical_not() if causal else None
        return merge_attention(*state, *attention_with_lse(q, keys, values, mask))

    nothing = q.new_zeros(q.shape[:-1] + v.shape[-1:]), q.new_zeros(q.shape[:-1]).log()
    return reduce(add, strips(block, k, v), nothing)


def tiled_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, block: int, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    root = math.sqrt(q.size(-1))
    mean = torch.mul(grad_out, output).sum(-1)
    grad_q, grad_k, grad_v = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    for first, keys, values in strips(block, k, v):
        scores = torch.matmul(q, keys.mT).div(root)
        if causal:
            scores = scores.masked_fill(hidden_keys(q, keys, first, k.size(-2)), -math.inf)
        weights = torch.exp(scores.sub(lse.unsqueeze(-1)))
        grad_scores = torch.matmul(grad_out, values.mT).sub(mean.unsqueeze(-1)).mul(weights).div(root)
        grad_q.add_(torch.matmul(grad_scores, keys))
        grad_k.narrow(-2, first, keys.size(-2)).copy_(torch.matmul(grad_scores.mT, q))
        grad_v.narrow(-2, first, keys.size(-2)).copy_(torch.matmul(weights.mT, grad_out))
    return grad_q, grad_k, grad_v


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, block, causal):
        return tiled_attention(q, k, v, block, causal)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *qkv, ctx.block, ctx.causal = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*qkv, *output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out, _):
        return *tiled_attention_backward(*ctx.saved_tensors, grad_out, ctx.block, ctx.causal), None, None


def efficient_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False) -> Tensor:
    output, _ = _Attention.apply(q, k, v, block, causal)
    return output


def sliding_window_mask(q_len: int, window: int, k_len: int | None = None) -> Tensor:
    if window < 1:
        raise ValueError(f"a window={window} has no place for the query's own key")
    shape = q_len, q_len if k_len is None else k_len
    past = shape[1] - q_len
    return torch.ones(shape).tril(past).triu(past - window + 1).bool()


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    if window < 1:
        raise ValueError(f"a window={window} has no place for the query's own key")
    n_q, n_k = q.size(-2), k.size(-2)
    window = min(window, n_k)
    keys = F.pad(k, (0, 0, window - 1, 0)).unfold(-2, window, 1)[..., n_k - n_q :, :, :]  # (..., Tq, d, window)
    values = F.pad(v, (0, 0, window - 1, 0)).unfold(-2, window, 1)[..., n_k - n_q :, :, :]
    exists = F.pad(torch.ones(n_k, dtype=torch.bool, device=q.device), (window - 1, 0)).unfold(0, window, 1)[n_k - n_q :]
    scores = torch.mul(q.unsqueeze(-1), keys).sum(-2).div(math.sqrt(q.size(-1)))
    weights = F.softmax(scores.masked_fill(exists.logical_not(), -math.inf), dim=-1)
    return torch.mul(weights.unsqueeze(-2), values).sum(-1)


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    """Tensors that autograd would keep are numbered; the first one that it asks for makes the module run again."""
    state, numbers, again = torch.get_rng_state(), [], {}

    def number(_):
        numbers.append(len(numbers))
        return numbers[-1]

    def recompute():
        found = []
        leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        with torch.random.fork_rng(devices=()), torch.enable_grad():
            torch.set_rng_state(state)
            with torch.autograd.graph.saved_tensors_hooks(lambda x: found.append(x.detach()), lambda x: x):
                module(*leaves)
        again.update(enumerate(found))

    def tensor(i):
        if i not in again:
            recompute()
        return again.pop(i)

    with torch.autograd.graph.saved_tensors_hooks(number, tensor):
        return module(*inputs)


class _Loss(torch.autograd.Function):
    """The gradients are computed with the loss: they need N * D + V * D numbers, and the logits are gone at once."""

    @staticmethod
    def forward(ctx, rows, weight, goals, chunk, ignore_index):
        kept = goals.ne(ignore_index)
        count = kept.sum().clamp(min=1)
        total, grad_rows, grad_weight = rows.new_zeros(()), [], torch.zeros_like(weight)
        for part, goal, keep in zip(rows.split(chunk), goals.split(chunk), kept.split(chunk)):
            logits = F.linear(part, weight)
            index = goal.where(keep, goal.new_zeros(())).unsqueeze(-1)
            total = total + (logits.logsumexp(-1) - logits.gather(-1, index).squeeze(-1)).where(keep, 0.0).sum()
            errors = F.softmax(logits, -1).scatter_add(-1, index, -torch.ones_like(index, dtype=rows.dtype))
            errors = errors.where(keep.unsqueeze(-1), 0.0) / count
            grad_rows.append(errors.matmul(weight))
            grad_weight.addmm_(errors.mT, part)
        ctx.save_for_backward(torch.cat(grad_rows), grad_weight)
        return total / count

    @staticmethod
    def backward(ctx, grad):
        return *(grad * each for each in ctx.saved_tensors), None, None, None


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int, ignore_index: int = -100) -> Tensor:
    if chunk < 1:
        raise ValueError(f"chunk={chunk} positions cannot be computed at a time")
    return _Loss.apply(hidden.reshape(-1, hidden.size(-1)), weight, targets.reshape(-1), chunk, ignore_index)
