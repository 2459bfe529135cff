"""Chapter 14 in einsum: q query, k key of a strip, d feature of keys, e feature of values, c chunk."""

import math

import torch
from torch import Tensor, nn
from torch import einsum as es

from .ch08_training import cross_entropy


def attention_with_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = es("...qd,...kd->...qk", q * q.shape[-1] ** -0.5, k)
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    if not scores.shape[-1]:
        return es("...qk,...ke->...qe", scores, v), scores.new_full(scores.shape[:-1], -math.inf)
    top = torch.where(seen, scores, -math.inf).detach().amax(-1)
    top = torch.where(top.isneginf(), torch.zeros_like(top), top)
    powers = torch.where(seen, scores - top.unsqueeze(-1), -math.inf).exp()
    total = es("...qk->...q", powers)
    output = es("...qk,...ke->...qe", powers, v)
    return output / torch.where(total > 0, total, torch.ones_like(total)).unsqueeze(-1), total.log() + top


def merge_attention(output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    lses, outputs = torch.stack([lse_a, lse_b]), torch.stack([output_a, output_b])
    lse = lses.logsumexp(0)
    shares = torch.where(lses.isneginf(), torch.zeros_like(lses), (lses - lse).exp())
    return es("g...q,g...qe->...qe", shares, outputs), lse


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool = False) -> tuple[Tensor, Tensor]:
    if block < 1:
        raise ValueError(f"block is {block}")
    n_q, n_k = q.shape[-2], k.shape[-2]
    at = torch.arange(n_q, device=q.device) + n_k - n_q
    top = q.new_full(q.shape[:-1], -math.inf)  # the running maximum, sum and weighted values of the paper
    total, summed = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for low in range(0, n_k, block):
        keys, values = k[..., low : low + block, :], v[..., low : low + block, :]
        scores = es("...qd,...kd->...qk", q, keys) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(at[:, None] < torch.arange(low, low + keys.shape[-2], device=q.device), -math.inf)
        new = torch.maximum(top, scores.amax(-1))
        base = new.clamp(min=torch.finfo(q.dtype).min)  # not -inf, of which the difference with itself is NaN
        powers, decay = (scores - base[..., None]).exp(), (top - base).exp()
        total = total * decay + es("...qk->...q", powers)
        summed = es("...q,...qe->...qe", decay, summed) + es("...qk,...ke->...qe", powers, values)
        top = new
    empty = total == 0
    return summed / total.masked_fill(empty, 1)[..., None], top.masked_fill(empty, 0) + total.log()


def tiled_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, block: int, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    if block < 1:
        raise ValueError(f"block is {block}")
    n_q, n_k, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    at = torch.arange(n_q, device=q.device) + n_k - n_q
    mean = es("...qe,...qe->...q", grad_out, output)[..., None]
    grad_q, rows_k, rows_v = torch.zeros_like(q), [k[..., :0, :]], [v[..., :0, :]]
    for low in range(0, n_k, block):
        keys, values = k[..., low : low + block, :], v[..., low : low + block, :]
        weights = (es("...qd,...kd->...qk", q, keys) * scale - lse[..., None]).exp()
        if causal:  # a score of the future may be far above lse: its exponential may be inf, so no product with 0
            weights = weights.masked_fill(at[:, None] < torch.arange(low, low + keys.shape[-2], device=q.device), 0)
        rows_v.append(es("...qk,...qe->...ke", weights, grad_out))
        grad_scores = weights * (es("...qe,...ke->...qk", grad_out, values) - mean) * scale
        rows_k.append(es("...qk,...qd->...kd", grad_scores, q))
        grad_q = grad_q + es("...qk,...kd->...qd", grad_scores, keys)
    return grad_q, torch.cat(rows_k, -2), torch.cat(rows_v, -2)


class Tiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, block, causal):
        output, lse = tiled_attention(q, k, v, block, causal)
        ctx.save_for_backward(q, k, v, output, lse)
        ctx.how = block, causal
        return output

    @staticmethod
    def backward(ctx, grad_out):
        return (*tiled_attention_backward(*ctx.saved_tensors, grad_out, *ctx.how), None, None)


def efficient_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False) -> Tensor:
    return Tiles.apply(q, k, v, block, causal)


def sliding_window_mask(q_len: int, window: int, k_len: int | None = None) -> Tensor:
    if window < 1:
        raise ValueError(f"window is {window}")
    k_len = q_len if k_len is None else k_len
    back = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)  # how far a key is before the query
    return (back >= 0) & (back < window)


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """The keys in chunks of `window`; a chunk of queries meets its own chunk of keys and the one before it."""
    if window < 1:
        raise ValueError(f"window is {window}")
    n_q, n_k = q.shape[-2], k.shape[-2]
    window = min(window, n_k)
    n_chunks = -(-n_k // window)
    padded = n_chunks * window - n_k

    def chunk(x, left):
        return nn.functional.pad(x, (0, 0, left, padded)).unflatten(-2, (-1, window))

    queries = chunk(q, n_k - n_q)  # (..., c, q, d)
    keys, values = chunk(k, window), chunk(v, window)  # (..., c + 1, k, d)
    keys, values = (torch.cat([x[..., :-1, :, :], x[..., 1:, :, :]], -2) for x in (keys, values))
    scores = es("...cqd,...ckd->...cqk", queries, keys) / math.sqrt(q.shape[-1])
    at = torch.arange(n_chunks, device=q.device)[:, None, None] * window
    i, j = at + torch.arange(window, device=q.device)[:, None], at - window + torch.arange(2 * window, device=q.device)
    seen = (j >= 0) & (j <= i) & (j > i - window)
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return es("...cqk,...cke->...cqe", weights, values).flatten(-3, -2)[..., n_k - n_q : n_k, :]


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, count, *tensors):
            ctx.count, ctx.dice = count, torch.random.get_rng_state()
            ctx.save_for_backward(*tensors)
            return module(*tensors[:count])

        @staticmethod
        def backward(ctx, grad):
            saved = ctx.saved_tensors
            now = torch.random.get_rng_state()
            try:
                torch.random.set_rng_state(ctx.dice)
                with torch.enable_grad():
                    copies = [x.detach().requires_grad_(x.requires_grad) for x in saved[: ctx.count]]
                    total = es("i,i->", module(*copies).reshape(-1), grad.reshape(-1))
            finally:
                torch.random.set_rng_state(now)
            wanted = [*copies, *saved[ctx.count :]]
            places = [i for i, x in enumerate(wanted) if x.requires_grad]
            grads = dict(zip(places, torch.autograd.grad(total, [wanted[i] for i in places], allow_unused=True)))
            return (None, *(grads.get(i) for i in range(len(wanted))))

    return Again.apply(len(inputs), *inputs, *module.parameters())


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int, ignore_index: int = -100) -> Tensor:
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}")

    class Loss(nn.Module):
        def forward(self, rows, weight, goals):
            return cross_entropy(es("nd,vd->nv", rows, weight), goals, ignore_index)

    rows, goals = hidden.flatten(0, -2) if hidden.dim() > 1 else hidden[None], targets.reshape(-1)
    counts = [(part != ignore_index).sum() for part in goals.split(chunk)]
    losses = [checkpointed(Loss(), part, weight, goal) for part, goal in zip(rows.split(chunk), goals.split(chunk))]
    kept = torch.stack(counts).to(losses[0].dtype)
    return es("c,c->", torch.stack(losses), kept) / kept.sum().clamp(min=1)
