"""Chapter 14: the same answer, less memory.

Attention over some of the keys is described by a pair (output, lse). The output is the weighted average of their values, and
lse is the logarithm of the sum of e^score over these keys. Two such pairs give the pair of all their keys. So the table of all
scores need never exist: a strip of `block` keys at a time is enough.

    q (..., Tq, d)    k (..., Tk, d)    v (..., Tk, d_v)    output (..., Tq, d_v)    lse (..., Tq)

As in chapter 3, the scores are q k^T / sqrt(d), and fewer queries than keys are the last positions: query i is at position
Tk - Tq + i.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, scaled_dot_product_attention
from .ch08_training import cross_entropy


def attention_with_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute the attention of chapter 3, and for each query lse, the logarithm of the sum of e^score over the keys it sees.

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v) -> output (..., Tq, d_v), lse (..., Tq).

    Keys where `mask` (it broadcasts to (..., Tq, Tk)) is False are not seen. A query that sees no key, also because Tk is 0,
    has output 0 and lse -inf. Scores around 10000 or -10000 do not overflow, also if they differ from query to query or belong to
    masked keys. The gradients of q, k and v through the output are those of chapter 3; the gradient of lse is not needed.
    """
    # TODO 1: compute the scores, (..., Tq, Tk), and set those of keys that are not seen to -inf
    # TODO 2: compute lse along the keys, with torch.logsumexp
    # TODO 3: the weights are e^(score - lse); where lse is -inf, subtract 0
    # TODO 4: average the values with these weights; return the average and lse
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (..., Tq, Tk)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)  # (..., Tq)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return weights @ v, lse
    ### END SOLUTION


def merge_attention(output_a: Tensor, lse_a: Tensor, output_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Merge two groups of keys: from the output and lse of each group, compute those of all keys together.

    output_a, output_b (..., Tq, d_v), lse_a, lse_b (..., Tq) -> output (..., Tq, d_v), lse (..., Tq).

    Each output counts in proportion to the sum of e^score of its group, e^lse. An lse of 10000 or -10000 does not overflow,
    also if the lse differ from query to query. A group without keys (output 0, lse -inf) changes nothing; two of them give such a
    group again, without NaN. Some queries may have such groups and others not. It is used without gradient.
    """
    # TODO 1: find the larger lse of each query (use 0 if both are -inf)
    # TODO 2: compute both sums relative to it: e^(lse - largest)
    # TODO 3: average the two outputs with these sums as weights; where the total is 0, divide by 1
    # TODO 4: the new lse is the largest plus the logarithm of the total
    ### BEGIN SOLUTION
    largest = torch.maximum(lse_a, lse_b)  # (..., Tq)
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    sum_a, sum_b = torch.exp(lse_a - largest), torch.exp(lse_b - largest)
    total = sum_a + sum_b
    weighted = sum_a[..., None] * output_a + sum_b[..., None] * output_b  # (..., Tq, d_v)
    return weighted / total.masked_fill(total == 0, 1.0)[..., None], largest + torch.log(total)
    ### END SOLUTION


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, block: int, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Compute the output and lse of `attention_with_lse`, with at most `block` keys at a time.

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v) -> output (..., Tq, d_v), lse (..., Tq).

    With `causal`, query i (at position Tk - Tq + i) sees the keys up to its own position, as with chapter 3's causal mask. The
    result is the same for each `block`; it need not divide Tk, and may be larger. Raises a ValueError that names block if it is
    below 1. No tensor has Tq * Tk entries, neither scores nor a mask, and the results of the strips are not collected, also if
    there are few queries and many keys. It is used without gradient.
    """
    # TODO 1: check block; name it in the error
    # TODO 2: start with the result of a group without keys: output 0, lse -inf
    # TODO 3: take the next strip of at most `block` keys and values; the last one may be shorter
    # TODO 4: if causal, build the mask of this strip, (Tq, strip), from the positions of the queries and of the keys
    # TODO 5: attend to the strip, and merge the result into the one so far
    ### BEGIN SOLUTION
    if block < 1:
        raise ValueError(f"block = {block}, but a strip needs at least one key")
    Tq, Tk = q.size(-2), k.size(-2)
    output, lse = q.new_zeros(*q.shape[:-1], v.size(-1)), q.new_full(q.shape[:-1], -math.inf)
    positions = torch.arange(Tk - Tq, Tk, device=q.device)[:, None]  # of the queries, (Tq, 1)
    for start in range(0, Tk, block):
        end = min(start + block, Tk)
        mask = torch.arange(start, end, device=q.device) <= positions if causal else None  # (Tq, strip)
        strip = attention_with_lse(q, k[..., start:end, :], v[..., start:end, :], mask)
        output, lse = merge_attention(output, lse, *strip)
    return output, lse
    ### END SOLUTION


def tiled_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, block: int, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v from that of the output, with at most `block` keys at a time.

    `output` and `lse` are the results of `tiled_attention(q, k, v, block, causal)`. `grad_out` (..., Tq, d_v) is the gradient of
    the output, contiguous or not -> grad_q (..., Tq, d), grad_k (..., Tk, d), grad_v (..., Tk, d_v).

    The weights of a strip are computed again: e^(score - lse). The result is the same for each `block`. Raises a ValueError that
    names block if it is below 1. No tensor has Tq * Tk entries, and the strips are not collected. A query that sees no key (lse -inf)
    has gradient 0 and adds nothing to grad_k and grad_v. It runs without gradient, also in torch.inference_mode().
    """
    # TODO 1: check block; name it in the error
    # TODO 2: for each query, sum grad_out * output; this is the average of grad_weights, weighted with the weights
    # TODO 3: start with gradients of zero, and go through the strips as in tiled_attention
    # TODO 4: compute the strip's scores (masked if causal), and from them and lse its weights; where lse is -inf, subtract 0
    # TODO 5: grad_v of the strip is weights^T grad_out, and grad_weights is grad_out v^T
    # TODO 6: grad_scores is weights * (grad_weights - average), times the scale of the scores
    # TODO 7: every strip adds to grad_q; each strip has its own rows of grad_k
    ### BEGIN SOLUTION
    if block < 1:
        raise ValueError(f"block = {block}, but a strip needs at least one key")
    Tq, Tk = q.size(-2), k.size(-2)
    scale = 1 / math.sqrt(q.size(-1))
    average = (grad_out * output).sum(dim=-1, keepdim=True)  # (..., Tq, 1)
    lse = lse.masked_fill(lse == -math.inf, 0.0)  # of a query that sees no key: all its scores are -inf
    grad_q, grad_k, grad_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    positions = torch.arange(Tk - Tq, Tk, device=q.device)[:, None]  # of the queries, (Tq, 1)
    for start in range(0, Tk, block):
        end = min(start + block, Tk)
        keys, values = k[..., start:end, :], v[..., start:end, :]
        scores = q @ keys.transpose(-2, -1) * scale  # (..., Tq, strip)
        if causal:
            scores = scores.masked_fill(torch.arange(start, end, device=q.device) > positions, -math.inf)
        weights = torch.exp(scores - lse[..., None])
        grad_v[..., start:end, :] = weights.transpose(-2, -1) @ grad_out  # (..., strip, d_v)
        grad_weights = grad_out @ values.transpose(-2, -1)  # (..., Tq, strip)
        grad_scores = weights * (grad_weights - average) * scale
        grad_q += grad_scores @ keys
        grad_k[..., start:end, :] = grad_scores.transpose(-2, -1) @ q  # (..., strip, d)
    return grad_q, grad_k, grad_v
    ### END SOLUTION


def efficient_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 64, causal: bool = False) -> Tensor:
    """Compute the output of `tiled_attention`, with gradients for q, k and v, and without the memory that autograd would need.

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v) -> output (..., Tq, d_v).

    For the backward pass it keeps only q, k, v, output and lse. Autograd through the strips would keep the scores of all of them.
    Raises a ValueError that names block if it is below 1. Second derivatives are not needed.
    """
    # TODO 1: define a torch.autograd.Function; a class inside this function can use block and causal
    # TODO 2: its static method forward(ctx, q, k, v) runs tiled_attention, and gives the five tensors to ctx.save_for_backward
    # TODO 3: its static method backward(ctx, grad_out) runs tiled_attention_backward with ctx.saved_tensors
    # TODO 4: call the Function's `apply` with q, k and v
    ### BEGIN SOLUTION

    class TiledAttention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            output, lse = tiled_attention(q, k, v, block, causal)
            ctx.save_for_backward(q, k, v, output, lse)
            return output

        @staticmethod
        def backward(ctx, grad_out):
            return tiled_attention_backward(*ctx.saved_tensors, grad_out, block, causal)

    return TiledAttention.apply(q, k, v)
    ### END SOLUTION


def sliding_window_mask(q_len: int, window: int, k_len: int | None = None) -> Tensor:
    """Build the mask of a sliding window: a bool tensor (q_len, k_len), True where a query may attend to a key.

    The query at position p sees `window` keys, its own and those just before it: p - window + 1 to p, as far as they exist.
    Without `k_len` there are as many keys as queries. With more keys, the queries are the last positions: query i is at position
    k_len - q_len + i. Raises a ValueError that names window if it is below 1.
    """
    # TODO 1: check window; name it in the error
    # TODO 2: if k_len is not given, it is q_len
    # TODO 3: start with the causal mask, which hides later keys
    # TODO 4: hide the keys that are `window` or more positions before the query
    ### BEGIN SOLUTION
    if window < 1:
        raise ValueError(f"window = {window}, but a query sees at least its own position")
    k_len = q_len if k_len is None else k_len
    return causal_mask(q_len, k_len).triu(diagonal=k_len - q_len - window + 1)
    ### END SOLUTION


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Compute the output of attention under `sliding_window_mask`, with work and memory that grow like Tk, not like its square.

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v) -> output (..., Tq, d_v).

    Only keys inside a window are compared, or a few more: no tensor has Tq * Tk entries, neither scores nor a mask. `window` may be
    larger than Tk. Raises a ValueError that names window if it is below 1.
    """
    # TODO 1: check window; name it in the error
    # TODO 2: go through the queries in chunks, for example of `window` queries
    # TODO 3: find the keys of a chunk: the first one that its first query sees, but not below 0, to the position of its last query
    # TODO 4: attend to these keys with scaled_dot_product_attention, under a mask for exactly this part
    # TODO 5: put the outputs of the chunks together, one after the other
    ### BEGIN SOLUTION
    if window < 1:
        raise ValueError(f"window = {window}, but a query sees at least its own position")
    Tq, past = q.size(-2), k.size(-2) - q.size(-2)  # query i is at position past + i
    outputs = []
    for start in range(0, Tq, window):
        end = min(start + window, Tq)
        first, last = max(0, past + start - window + 1), past + end  # the keys of this chunk: at most 2 * window - 1
        mask = sliding_window_mask(end - start, window, last - first).to(q.device)
        chunk, _ = scaled_dot_product_attention(q[..., start:end, :], k[..., first:last, :], v[..., first:last, :], mask)
        outputs.append(chunk)  # (..., end - start, d_v)
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION


def checkpointed(module: nn.Module, *inputs: Tensor) -> Tensor:
    """Compute `module(*inputs)`, but keep only the inputs (no copies) for the backward pass, which runs the module once more.

    The module returns one tensor; an input may contain whole numbers. Result and gradients are those of the plain module, also with
    dropout: the second run draws the same random numbers as the first. The gradients reach the inputs and the module's
    parameters, also if no input needs one; what the module does not use causes no error. Frozen parameters, the modes of the
    module and of its parts, and gradients of earlier passes stay as they are. After the forward pass the random generator (the
    CPU's default) is where the plain module leaves it; the backward pass leaves it as it was. If nothing needs a gradient, also in
    torch.no_grad(), the module simply runs once.
    """
    # TODO 1: define a torch.autograd.Function, and apply it to the inputs and the parameters: all that gets a gradient
    # TODO 2: in forward, keep the random state from *before* the module runs, and give the tensors to ctx.save_for_backward
    # TODO 3: in backward, detach the inputs, so that the second run has a graph of its own
    # TODO 4: run the module again: with gradient, from the old random state, and restore the random state afterwards
    # TODO 5: return the gradient of each input and parameter, None for those that need none
    ### BEGIN SOLUTION
    n = len(inputs)  # the class may live longer than this call, so it must not use `inputs` itself

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.random_state = torch.get_rng_state()
            ctx.save_for_backward(*tensors)
            return module(*tensors[:n])

        @staticmethod
        def backward(ctx, grad_out):
            tensors = ctx.saved_tensors
            again = [x.detach().requires_grad_(x.requires_grad) for x in tensors[:n]]
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.set_rng_state(ctx.random_state)
                output = module(*again)
            needed = [x for x in (*again, *tensors[n:]) if x.requires_grad]
            found = iter(torch.autograd.grad(output, needed, grad_out, allow_unused=True))
            return tuple(next(found) if x.requires_grad else None for x in tensors)

    return Checkpoint.apply(*inputs, *module.parameters())
    ### END SOLUTION


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int, ignore_index: int = -100) -> Tensor:
    """Compute cross_entropy(hidden @ weight.T, targets, ignore_index) of chapter 8 with the logits of `chunk` positions at a time.

    hidden (..., D), weight (V, D), targets (...) -> (). `hidden` and `targets` may be slices of larger tensors. Gradients reach
    `hidden` and `weight`.

    At most (chunk, V) logits exist at a time: in the forward pass, kept for the backward pass, and in the backward pass. The
    result is the same for each `chunk`: the mean over all kept targets, and 0 if all are ignored. `chunk` need not divide the
    number of positions, and may be larger. Raises a ValueError that names chunk if it is below 1.
    """
    # TODO 1: check chunk; name it in the error
    # TODO 2: flatten the positions: hidden (N, D), targets (N,); go through them in chunks
    # TODO 3: write a module for a chunk's sum: its mean, times the number of its kept targets
    # TODO 4: run it with checkpointed, so that its logits are not kept, and add up the sums
    # TODO 5: divide by the number of all kept targets; there may be none
    ### BEGIN SOLUTION
    if chunk < 1:
        raise ValueError(f"chunk = {chunk}, but a chunk needs at least one position")

    class SummedLoss(nn.Module):
        def forward(self, hidden, weight, targets):
            kept = (targets != ignore_index).sum()
            return cross_entropy(hidden @ weight.T, targets, ignore_index) * kept

    rows, ids = hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1)  # (N, D), (N,)
    parts = zip(rows.split(chunk), ids.split(chunk))
    total = sum(checkpointed(SummedLoss(), part, weight, goals) for part, goals in parts)
    return total / (ids != ignore_index).sum().clamp(min=1)
    ### END SOLUTION
