"""Chapter 14 with a type for everything: the state of a group of keys is an object, and sums are computed in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from .ch03_attention import causal_mask


class Attended(NamedTuple):
    """Attention over some keys."""

    output: Tensor  # (..., Tq, d_v)
    lse: Tensor  # (..., Tq)


class Gradients(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Strip:
    """Keys from `start` to `stop`, and which of them each query sees."""

    start: int
    stop: int
    mask: Tensor | None

    def of(self, x: Tensor) -> Tensor:
        return x.narrow(-2, self.start, self.stop - self.start)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q.double() @ self.of(k).double().transpose(-1, -2) * q.size(-1) ** -0.5
        return scores if self.mask is None else scores.masked_fill(self.mask.logical_not(), -math.inf)


def positive(name: str, value: int) -> int:
    if value >= 1:
        return value
    raise ValueError(f"{name} must be at least 1, not {value}")


def strips(q: Tensor, k: Tensor, block: int, causal: bool) -> Iterator[Strip]:
    """From the last strip to the first."""
    Tq, Tk = q.size(-2), k.size(-2)
    for start in reversed(range(0, Tk, block)):
        stop = min(start + block, Tk)
        mask: Tensor | None = None
        if causal:
            positions = torch.arange(Tq, device=q.device).add(Tk - Tq).unsqueeze(1)
            mask = positions.ge(torch.arange(start, stop, device=q.device))
        yield Strip(start, stop, mask)


def attend(scores: Tensor, values: Tensor) -> Attended:
    if scores.size(-1) == 0:
        return Attended(scores @ values, torch.full_like(scores.sum(-1), -math.inf))
    largest = scores.detach().amax(dim=-1, keepdim=True)
    powers = torch.exp(scores - largest.masked_fill(largest.isinf(), 0.0))
    total = powers.sum(dim=-1, keepdim=True)
    return Attended((powers @ values) / total.clamp_min(1e-300), (largest.masked_fill(largest.isinf(), 0.0) + total.log()).squeeze(-1))


def attention_with_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    result = attend(Strip(0, k.size(-2), mask).scores(q, k), v.double())
    return result.output.to(q.dtype), result.lse.to(q.dtype)


def merge_attention(output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    both = torch.stack((lse_a, lse_b), dim=-1).double()
    empty = both.isneginf().all(dim=-1, keepdim=True)
    shares = both.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)
    output = shares[..., :1] * output_a + shares[..., 1:] * output_b
    return output.to(output_a.dtype), both.logsumexp(dim=-1).to(lse_a.dtype)


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool = False) -> tuple[Tensor, Tensor]:
    positive("block", block)
    state = Attended(
        torch.zeros(*q.shape[:-1], v.size(-1), dtype=torch.float64, device=q.device),
        torch.full(q.shape[:-1], -math.inf, dtype=torch.float64, device=q.device),
    )
    for strip in strips(q, k, block, causal):
        here = attend(strip.scores(q, k), strip.of(v).double())
        state = Attended(*merge_attention(*state, *here))
    return state.output.to(q.dtype), state.lse.to(q.dtype)


def tiled_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, block: int, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    positive("block", block)
    upstream: Tensor = grad_out.double()
    sums = Gradients(*(torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in (q, k, v)))
    mean: Tensor = upstream.mul(output).sum(dim=-1, keepdim=True)
    finite: Tensor = lse.where(lse.isfinite(), lse.new_zeros(()))  # -inf where a query sees no key
    for strip in strips(q, k, block, causal):
        weights = strip.scores(q, k).sub(finite.unsqueeze(-1)).exp()
        errors = weights * (upstream @ strip.of(v).double().mT - mean) * q.size(-1) ** -0.5
        strip.of(sums.v).add_(weights.mT @ upstream)
        strip.of(sums.k).add_(errors.mT @ q.double())
        sums.q.add_(errors @ strip.of(k).double())
    return sums.q.to(q.dtype), sums.k.to(k.dtype), sums.v.to(v.dtype)


class EfficientAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool) -> Tensor:
        ctx.set_materialize_grads(False)
        output, lse = tiled_attention(q, k, v, block, causal)
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.block, ctx.causal = block, causal  # type: ignore[attr-defined]
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        if grad is None:
            return (None,) * 5
        return (*tiled_attention_backward(*ctx.saved_tensors, grad_out=grad, block=ctx.block, causal=ctx.causal), None, None)


def efficient_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False) -> Tensor:
    result: Tensor = EfficientAttention.apply(q, k, v, block, causal)
    return result


def sliding_window_mask(q_len: int, window: int, k_len: int | None = None) -> Tensor:
    keys: int = q_len if k_len is None else k_len
    seen = causal_mask(q_len, keys)
    too_old = torch.ones_like(seen).tril(diagonal=keys - q_len - positive("window", window))
    return seen & ~too_old


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """One key of each window at a time: the query's own, the one before it, and so on."""
    Tq, Tk = q.size(-2), k.size(-2)
    reach: int = min(positive("window", window), Tk)
    positions = torch.arange(Tk - Tq, Tk, device=q.device)
    columns: list[Tensor] = []
    for back in range(reach):
        earlier = k.index_select(-2, (positions - back).clamp(min=0))
        score = (q * earlier).sum(dim=-1).div(math.sqrt(q.size(-1)))
        columns.append(score.masked_fill(positions < back, -math.inf))
    weights = torch.stack(columns).softmax(dim=0)  # (reach, ..., Tq)
    output = torch.zeros((), dtype=q.dtype, device=q.device)
    for back in range(reach):
        output = output + weights[back].unsqueeze(-1) * v.index_select(-2, (positions - back).clamp(min=0))
    return output


class Rerun(torch.autograd.Function):
    """Parameters come before inputs; what is differentiable is known from needs_input_grad."""

    @staticmethod
    def forward(ctx: Any, module: nn.Module, n_parameters: int, *tensors: Tensor) -> Tensor:
        ctx.module, ctx.n_parameters = module, n_parameters
        ctx.generator = torch.Generator()
        ctx.generator.set_state(torch.get_rng_state())
        ctx.save_for_backward(*tensors)
        result: Tensor = module(*tensors[n_parameters:])
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needs: tuple[bool, ...] = ctx.needs_input_grad[2:]
        parameters, inputs = ctx.saved_tensors[: ctx.n_parameters], ctx.saved_tensors[ctx.n_parameters :]
        fresh = [x.detach().requires_grad_(need) for x, need in zip(inputs, needs[ctx.n_parameters :])]
        with torch.random.fork_rng(devices=[]):
            torch.random.set_rng_state(ctx.generator.get_state())
            with torch.enable_grad():
                again: Tensor = ctx.module(*fresh)
        every = [*parameters, *fresh]
        chosen = [x for x, need in zip(every, needs) if need]
        found = iter(torch.autograd.grad([again], chosen, list(grads), allow_unused=True))
        return (None, None, *(next(found) if need else None for need in needs))


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    parameters = tuple(module.parameters())
    result: Tensor = Rerun.apply(module, len(parameters), *parameters, *inputs)
    return result


class LossByChunks(torch.autograd.Function):
    """Both passes go through the chunks; the backward pass computes the logits again."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, goals: Tensor, chunk: int, ignore_index: int) -> Tensor:
        ctx.chunk, ctx.ignore_index = chunk, ignore_index
        ctx.save_for_backward(rows, weight, goals)
        total = torch.zeros((), dtype=torch.float64, device=rows.device)
        for part, goal in zip(rows.split(chunk), goals.split(chunk)):
            kept = goal.ne(ignore_index)
            log_probs = part[kept].matmul(weight.t()).log_softmax(dim=-1)
            total -= log_probs.gather(1, goal[kept].unsqueeze(1)).sum()
        return total.div(goals.ne(ignore_index).sum().clamp(min=1)).to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, goals = ctx.saved_tensors
        scale = grads[0] / goals.ne(ctx.ignore_index).sum().clamp(min=1)
        grad_rows, grad_weight = torch.zeros_like(rows), torch.zeros_like(weight)
        for start in range(0, goals.numel(), ctx.chunk):
            here = torch.arange(start, min(start + ctx.chunk, goals.numel()), device=goals.device)
            here = here[goals[here].ne(ctx.ignore_index)]
            errors = rows[here].matmul(weight.t()).softmax(dim=-1)
            errors[torch.arange(len(here)), goals[here]] -= 1.0
            grad_rows[here] = (errors * scale).matmul(weight)
            grad_weight += (errors * scale).t().matmul(rows[here])
        return grad_rows, grad_weight, None, None, None


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int, ignore_index: int = -100) -> Tensor:
    positive("chunk", chunk)
    result: Tensor = LossByChunks.apply(hidden.reshape(-1, hidden.size(-1)), weight, targets.reshape(-1), chunk, ignore_index)
    return result
