"""Chapter 14 in the terse style: as short as it can be read."""

from functools import reduce
from math import inf, sqrt

import torch
from torch import Tensor, nn

from .ch03_attention import scaled_dot_product_attention
from .ch08_training import cross_entropy


def attention_with_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT / sqrt(q.size(-1))
    scores = scores if mask is None else scores.where(mask, -inf)
    lse = scores.logsumexp(-1)
    return (scores - lse.nan_to_num(neginf=0.0)[..., None]).exp() @ v, lse


def merge_attention(output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    share = (lse_a - lse_b).nan_to_num(0.0, inf, -inf).sigmoid()[..., None]
    return share * output_a + (1 - share) * output_b, torch.logaddexp(lse_a, lse_b)


def strips(n: int, block: int) -> list[slice]:
    if block < 1:
        raise ValueError(f"{block=}")
    return [slice(i, min(i + block, n)) for i in range(0, n, block)]


def seen(Tq: int, Tk: int, at: slice, device=None) -> Tensor:
    return torch.arange(Tk - Tq, Tk, device=device)[:, None] >= torch.arange(at.start, at.stop, device=device)


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool = False) -> tuple[Tensor, Tensor]:
    Tq, Tk = q.size(-2), k.size(-2)
    start = q.new_zeros(*q.shape[:-1], v.size(-1)), torch.full_like(q[..., 0], -inf)
    parts = (attention_with_lse(q, k[..., at, :], v[..., at, :], seen(Tq, Tk, at, q.device) if causal else None) for at in strips(Tk, block))
    return reduce(lambda state, part: merge_attention(*state, *part), parts, start)


def tiled_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, block: int, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    gq, gk, gv, q = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v), q / sqrt(q.size(-1))
    for at in strips(k.size(-2), block):
        s = q @ k[..., at, :].mT - lse[..., None]
        p = (s.where(seen(q.size(-2), k.size(-2), at, q.device), -inf) if causal else s).exp()
        g = p * (grad_out @ v[..., at, :].mT - (grad_out * output).sum(-1, keepdim=True))
        gq, gk[..., at, :], gv[..., at, :] = gq + g @ k[..., at, :] / sqrt(k.size(-1)), g.mT @ q, p.mT @ grad_out
    return gq, gk, gv


def efficient_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False) -> Tensor:
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *qkv):
            ctx.save_for_backward(*qkv, *(result := tiled_attention(*qkv, block, causal)))
            return result[0]

        @staticmethod
        def backward(ctx, g):
            return tiled_attention_backward(*ctx.saved_tensors, g, block, causal)

    return F.apply(q, k, v)


def sliding_window_mask(q_len: int, window: int, k_len: int | None = None) -> Tensor:
    if window < 1:
        raise ValueError(f"{window=}")
    k_len = k_len or q_len
    return torch.tensor([[i - window < j <= i for j in range(k_len)] for i in range(k_len - q_len, k_len)], dtype=torch.bool)


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    past, parts = k.size(-2) - q.size(-2), []
    if window < 1:
        raise ValueError(f"{window=}")
    for at in strips(q.size(-2), 16):
        keys = slice(max(0, past + at.start - window + 1), past + at.stop)
        mask = sliding_window_mask(at.stop - at.start, window, keys.stop - keys.start).to(q.device)
        parts.append(scaled_dot_product_attention(q[..., at, :], k[..., keys, :], v[..., keys, :], mask)[0])
    return torch.cat(parts, -2)


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    n, weights = len(inputs), dict(module.named_parameters())

    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.rng = torch.get_rng_state()
            ctx.save_for_backward(*xs)
            return module(*xs[:n])

        @staticmethod
        def backward(ctx, g):
            xs = ctx.saved_tensors
            need = [i for i, x in enumerate(xs) if x.requires_grad]

            def f(*chosen):
                all_ = [*xs[:n], *(x.detach() for x in xs[n:])]
                for i, x in zip(need, chosen):
                    all_[i] = x
                return torch.func.functional_call(module, dict(zip(weights, all_[n:])), tuple(all_[:n]))

            with torch.random.fork_rng([]), torch.enable_grad():
                torch.set_rng_state(ctx.rng)
                grads = dict(zip(need, torch.func.vjp(f, *(xs[i].detach() for i in need))[1](g)))
            return tuple(grads.get(i) for i in range(len(xs)))

    return F.apply(*inputs, *weights.values())


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int, ignore_index: int = -100) -> Tensor:
    class Loss(nn.Module):
        def forward(self, h, w, t):
            return cross_entropy(h @ w.T, t, ignore_index) * (t != ignore_index).sum()

    hidden, targets = hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1)
    return sum(checkpointed(Loss(), hidden[at], weight, targets[at]) for at in strips(len(targets), chunk)) / max(1, int((targets != ignore_index).sum()))
