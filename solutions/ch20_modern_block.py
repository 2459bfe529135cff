"""Chapter 20: what changed since 2019.

Ten parts of today's models, each small. None of them changes what a transformer is.

B batch, T positions, D = d_model, H = n_heads, d_head = D / H, V tokens of the vocabulary. Heads are (B, H, T, d_head).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch05_layers import RMSNorm
from .ch10_kv_cache import KVCache


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    """Keep logits between -cap and cap without a corner: cap · tanh(logits / cap), in their shape and dtype.

    Small logits hardly change, and every finite logit has a gradient that is finite. Models use it for the scores of attention and for
    the logits of the output. A cap that is not above 0 raises a
    ValueError that names cap.
    """
    # TODO 1: check the cap
    # TODO 2: scale down, squash, scale up
    ### BEGIN SOLUTION
    if cap <= 0:
        raise ValueError(f"cap = {cap}, but a cap is above 0")
    return cap * torch.tanh(logits / cap)
    ### END SOLUTION


def attention_with_sink(q: Tensor, k: Tensor, v: Tensor, sink: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention whose heads may look at nothing: the softmax has one more score for each head, `sink`, without a value.

    q (B, H, Tq, d), k (B, H, Tk, d), v (B, H, Tk, d_v), sink (H,) -> output (B, H, Tq, d_v), weights (B, H, Tq, Tk).

    A weight is exp(score) / (exp(sink of its head) + the sum of exp over all scores of its query), so the weights of a query add up
    to less than 1. Scores are q·k / sqrt(d); keys where `mask` (broadcast to (B, H, Tq, Tk)) is False get the weight 0, also where
    a query may look at no key. Output, weights and gradients are finite for scores and sinks of any size, such as 1e4. Output and
    weights have the dtype of q, also if the sink has another one.
    """
    # TODO 1: compute the scores, and mask them
    # TODO 2: put the sink's score beside those of the keys, for each query
    # TODO 3: apply softmax, and leave the sink's weight out
    # TODO 4: average the values
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, Tq, Tk)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    beside = sink.to(q.dtype)[:, None, None].expand(*scores.shape[:-1], 1)  # (B, H, Tq, 1)
    weights = torch.softmax(torch.cat([scores, beside], dim=-1), dim=-1)[..., :-1]  # (B, H, Tq, Tk)
    return weights @ v, weights
    ### END SOLUTION


def gated_attention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention whose output each query can close: σ(gate) · output, (B, H, Tq, d_v).

    q (B, H, Tq, d), k (B, H, Tk, d), v (B, H, Tk, d_v); `gate` is (B, H, Tq, d_v), or (B, H, Tq, 1) with one gate for a whole head.
    The output is that of scaled_dot_product_attention with this mask, and σ is the sigmoid function. Result and gradients are finite
    for gates of any size, such as 1e4.
    """
    # TODO 1: attend
    # TODO 2: multiply each head's output by the sigmoid of its gate; the heads stay apart
    ### BEGIN SOLUTION
    output, _ = scaled_dot_product_attention(q, k, v, mask)  # (B, H, Tq, d_v)
    return torch.sigmoid(gate) * output
    ### END SOLUTION


class QKNormAttention(nn.Module):
    """Causal self-attention whose queries and keys are normalised, so that no score can grow without limit: (B, T, D) -> (B, T, D).

    Parts: the linear layers `W_q`, `W_k`, `W_v`, `W_out`, all D -> D without a bias, and `q_norm` and `k_norm`, each an
    RMSNorm(d_head) with its default eps, which all heads share. Each head's queries and keys go through their norm before they are
    rotated. `positions` is "none", "rope" or "alibi", with the same effect as in CausalSelfAttention. Dtypes, devices and lengths
    are as in CausalSelfAttention, too. Raises a ValueError that names d_model and n_heads if n_heads does not divide d_model, and one
    that names `positions` if it is not one of the three.
    """

    def __init__(self, d_model: int, n_heads: int, positions: str = "none") -> None:
        super().__init__()
        # TODO 1: check the sizes and `positions`
        # TODO 2: keep n_heads and positions; make the four linear layers and the two norms
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into n_heads = {n_heads} equal heads")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions = {positions!r} is not one of 'none', 'rope', 'alibi'")
        self.n_heads = n_heads
        self.positions = positions
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        self.q_norm = RMSNorm(d_model // n_heads)
        self.k_norm = RMSNorm(d_model // n_heads)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: project, and split into heads; normalise the queries and the keys of each head
        # TODO 4: with "rope", rotate both; with "alibi", make the bias
        # TODO 5: attend under the causal mask, merge the heads, and apply W_out
        ### BEGIN SOLUTION
        T = x.size(1)
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))  # each (B, H, T, d_head)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.positions == "rope":
            where = torch.arange(T, device=x.device)
            q, k = apply_rope(q, where), apply_rope(k, where)
        bias = alibi_bias(self.n_heads, T, T).to(x) if self.positions == "alibi" else None  # (H, T, T)
        output, _ = scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)
        return self.W_out(merge_heads(output))
        ### END SOLUTION


class LatentAttention(nn.Module):
    """Multi-head latent attention (MLA): what the cache keeps of a position is one short vector, from which all heads make their
    keys and values.

    Parts, all linear layers without a bias: `W_q`, D -> H · (d_head + d_rope); `W_down`, D -> d_latent, and `norm`, an
    RMSNorm(d_latent) with its default eps behind it; `W_up_k` and `W_up_v`, d_latent -> D; `W_rope`, D -> d_rope; `W_out`, D -> D.

    The latent vector of a position is c = norm(W_down x). Head h's key has two parts: its d_head features of W_up_k c, without a
    position, and d_rope features W_rope x, rotated by apply_rope, which all heads share. Head h's query is the h-th part of W_q x:
    d_head features, then d_rope features that are rotated. A score is the sum of both products, divided by sqrt(d_head + d_rope).
    The values of head h are its d_head features of W_up_v c. Dtypes, devices and lengths are as in CausalSelfAttention. Raises a
    ValueError that names d_model and n_heads if n_heads does not divide d_model, and one that names d_rope if it is odd.
    """

    def __init__(self, d_model: int, n_heads: int, d_latent: int, d_rope: int) -> None:
        super().__init__()
        # TODO 1: check the sizes
        # TODO 2: keep n_heads and d_rope; make the parts
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into n_heads = {n_heads} equal heads")
        if d_rope % 2 != 0:
            raise ValueError(f"RoPE pairs features, but d_rope = {d_rope} is odd")
        self.n_heads = n_heads
        self.d_rope = d_rope
        self.W_q = nn.Linear(d_model, d_model + n_heads * d_rope, bias=False)
        self.W_down = nn.Linear(d_model, d_latent, bias=False)
        self.norm = RMSNorm(d_latent)
        self.W_up_k = nn.Linear(d_latent, d_model, bias=False)
        self.W_up_v = nn.Linear(d_latent, d_model, bias=False)
        self.W_rope = nn.Linear(d_model, d_rope, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """The plain form, for training: make the keys and values of all heads, and attend with the causal mask, (B, T, D) -> (B, T, D)."""
        # TODO 3: make the latent vectors, and from them keys and values of all heads
        # TODO 4: cut the queries into their two parts; rotate the second one, and the shared key
        # TODO 5: add up the scores of both parts, attend with the causal mask, merge the heads, apply W_out
        ### BEGIN SOLUTION
        T = x.size(1)
        where = torch.arange(T, device=x.device)
        c = self.norm(self.W_down(x))  # (B, T, d_latent)
        q = split_heads(self.W_q(x), self.n_heads)  # (B, H, T, d_head + d_rope)
        plain, turned = q[..., : -self.d_rope], apply_rope(q[..., -self.d_rope :], where)
        k = split_heads(self.W_up_k(c), self.n_heads)  # (B, H, T, d_head)
        v = split_heads(self.W_up_v(c), self.n_heads)
        shared = apply_rope(self.W_rope(x), where)[:, None].expand(-1, self.n_heads, -1, -1)  # (B, H, T, d_rope)
        mask = causal_mask(T).to(x.device)
        both_q, both_k = torch.cat([plain, turned], dim=-1), torch.cat([k, shared], dim=-1)
        output, _ = scaled_dot_product_attention(both_q, both_k, v, mask)
        return self.W_out(merge_heads(output))
        ### END SOLUTION

    def cached(self, x: Tensor, cache: KVCache) -> Tensor:
        """The compressed form, for writing: T new positions follow those in the cache, (B, T, D) -> (B, T, D).

        The results are those of forward over the whole text. `cache` has the `length` and the `append` of a KVCache, and takes keys and
        values of different widths. It keeps c as its keys, (B, 1, P + T, d_latent), and the rotated
        W_rope x as its values, (B, 1, P + T, d_rope), and nothing else. No keys or values of heads are made for the past: W_up_k
        works on the query instead, so that scores are products with c, and W_up_v works on the averages of c. Need not support
        gradients.
        """
        # TODO 6: make c and the rotated shared key of the new positions, which begin after the past; append both to the cache
        # TODO 7: multiply each head's query by its rows of W_up_k, (B, H, T, d_head) -> (B, H, T, d_latent)
        # TODO 8: add up the scores with c and with the shared keys, divide, mask, and apply softmax
        # TODO 9: average c with the weights, and multiply by each head's rows of W_up_v; merge the heads, apply W_out
        ### BEGIN SOLUTION
        past, T = cache.length, x.size(1)
        where = torch.arange(past, past + T, device=x.device)
        c, shared = cache.append(self.norm(self.W_down(x))[:, None], apply_rope(self.W_rope(x), where)[:, None])  # (B, 1, P + T, ...)
        q = split_heads(self.W_q(x), self.n_heads)
        d_head = q.size(-1) - self.d_rope
        up_k = self.W_up_k.weight.unflatten(0, (self.n_heads, d_head))  # (H, d_head, d_latent)
        up_v = self.W_up_v.weight.unflatten(0, (self.n_heads, d_head))
        plain = q[..., :d_head] @ up_k  # (B, H, T, d_latent)
        turned = apply_rope(q[..., d_head:], where)  # (B, H, T, d_rope)
        scores = plain @ c.transpose(-2, -1) + turned @ shared.transpose(-2, -1)  # (B, H, T, P + T)
        mask = causal_mask(T, past + T).to(x.device)
        weights = torch.softmax((scores / math.sqrt(d_head + self.d_rope)).masked_fill(~mask, -math.inf), dim=-1)
        output = (weights @ c) @ up_v.transpose(-2, -1)  # (B, H, T, d_latent) -> (B, H, T, d_head)
        return self.W_out(merge_heads(output))
        ### END SOLUTION


def yarn_angles(
    positions: Tensor,
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = 10000.0,
    fast: float = 32.0,
    slow: float = 1.0,
) -> tuple[Tensor, float]:
    """Stretch RoPE to texts that are `factor` times as long as in training: positions (T,) -> angles (T, d_head / 2), and a scale.

    Pair i turns by base^(-2i / d_head) radians a position. The index at which a pair makes `fast` full turns in trained_length
    positions is i_fast = d_head / 2 · log(trained_length / (2π · fast)) / log(base). It need not be whole, nor the index of a pair
    that exists. i_slow is the same for `slow`, which is below `fast`. Pairs up to i_fast keep their frequency, pairs from i_slow on
    turn `factor` times more slowly, and between them the share of the slower frequency grows along a straight line from 0 to 1
    ("NTK by parts"). The scale, 0.1 · log(factor) + 1 (1 for factor 1), is for queries and keys alike: it makes up for scores that
    are spread over more keys.

    The angles are float32 or float64, on the device of `positions`. Raises a ValueError that names d_head if it is odd, and one that
    names factor if it is below 1.
    """
    # TODO 1: check d_head and factor; compute every pair's frequency
    # TODO 2: compute i_fast and i_slow, and each pair's share of the slower frequency
    # TODO 3: mix both frequencies, and multiply them by the positions
    ### BEGIN SOLUTION
    if d_head % 2 != 0:
        raise ValueError(f"d_head = {d_head} is odd: its features cannot be paired")
    if factor < 1:
        raise ValueError(f"factor = {factor}, but a text is stretched by a factor of at least 1")
    pairs = torch.arange(d_head // 2, device=positions.device, dtype=torch.float64)
    frequencies = base ** (-2 * pairs / d_head)

    def pair_with(turns: float) -> float:
        return d_head / 2 * math.log(trained_length / (2 * math.pi * turns)) / math.log(base)

    share = ((pairs - pair_with(fast)) / (pair_with(slow) - pair_with(fast))).clamp(0, 1)  # of the slower frequency
    mixed = (1 - share) * frequencies + share * frequencies / factor
    return positions[:, None] * mixed, 0.1 * math.log(factor) + 1
    ### END SOLUTION


def newton_schulz(m: Tensor, steps: int = 5) -> Tensor:
    """Push all singular values of a matrix to about 1, without computing them: (rows, columns) -> (rows, columns).

    The matrix is divided by its norm (the root of the sum of squares) plus 1e-7. Then each step replaces X by
    a X + b (X Xᵀ) X + c (X Xᵀ)² X, with a = 3.4445, b = -4.7750, c = 2.0315. With more rows than columns, X is transposed before and
    after the steps, which gives the same result with smaller products. The dtype stays; the result is a new tensor. Need not support gradients.
    """
    # TODO 1: if the matrix is higher than it is wide, transpose it
    # TODO 2: divide it by its norm, so that no singular value is above 1
    # TODO 3: apply the steps; X Xᵀ is needed twice
    # TODO 4: transpose back
    ### BEGIN SOLUTION
    a, b, c = 3.4445, -4.7750, 2.0315
    high = m.size(0) > m.size(1)
    x = m.T if high else m
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if high else x
    ### END SOLUTION


class Muon:
    """Momentum whose updates are orthogonalised, for matrices only.

    At each step of a parameter (rows, columns) with gradient g: its momentum v, which begins with zeros, becomes
    momentum · v + (1 - momentum) · g; the parameter is multiplied by 1 - lr · weight_decay; then it moves by
    -lr · sqrt(max(1, rows / columns)) · newton_schulz(momentum · v + (1 - momentum) · g, steps), with the new v (Nesterov's momentum).
    Without gradient, neither a parameter nor its momentum changes.

    `param_groups` is a list of one dict with "params", "lr", "momentum", "steps" and "weight_decay"; every step reads "lr" there. A
    parameter that is not a matrix, with exactly two axes, raises a ValueError that names its shape: give vectors to AdamW, and
    embeddings too. Gradients do not change.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.02, momentum: float = 0.95, steps: int = 5, weight_decay: float = 0.0
    ) -> None:
        # TODO 1: make param_groups (params may be a generator), and check the shapes
        # TODO 2: prepare a place for each parameter's momentum
        ### BEGIN SOLUTION
        group = {"params": list(params), "lr": lr, "momentum": momentum, "steps": steps, "weight_decay": weight_decay}
        for parameter in group["params"]:
            if parameter.dim() != 2:
                raise ValueError(f"only matrices can be orthogonalised, and a parameter has the shape {tuple(parameter.shape)}; give it to AdamW")
        self.param_groups = [group]
        self.state: dict[nn.Parameter, Tensor] = {}
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: for each parameter with gradient: update its momentum, and mix it with the gradient once more
        # TODO 4: shrink the parameter; move it along the orthogonalised mixture
        ### BEGIN SOLUTION
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                g = parameter.grad
                if g is None:
                    continue
                v = momentum * self.state.get(parameter, torch.zeros_like(g)) + (1 - momentum) * g
                self.state[parameter] = v
                update = newton_schulz(momentum * v + (1 - momentum) * g, group["steps"])
                rows, columns = parameter.shape
                parameter.mul_(1 - lr * group["weight_decay"])
                parameter.sub_(lr * math.sqrt(max(1, rows / columns)) * update)
        ### END SOLUTION

    def zero_grad(self) -> None:
        """Clear every parameter's gradient."""
        # TODO 5: set each gradient to None
        ### BEGIN SOLUTION
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        ### END SOLUTION


def multi_token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Return the loss of several heads that predict the next tokens, a scalar: logits (K, B, T, V) and targets (B, T).

    targets[b, t] is the token that follows position t, as in GPT. Head k predicts the token k places further: logits[k, b, t]
    belong to targets[b, t + k], and the last k positions have nothing to predict. Each head's loss is the mean cross-entropy of all
    its targets in the batch, and the result is the mean of the heads' losses. Targets that are ignore_index do not count. A head
    without any target to predict counts with a loss of 0. Loss and gradients are finite for logits of any size, and the loss has
    the dtype of the logits.
    """
    # TODO 1: for each head, cut off the logits that have no target, and the targets that come too early
    # TODO 2: compute each head's mean cross-entropy, safe where nothing counts
    # TODO 3: average over the heads
    ### BEGIN SOLUTION
    losses = []
    for k, own in enumerate(logits):  # (B, T, V)
        ahead = targets[:, k:]  # (B, T - k)
        own = own[:, : ahead.size(1)]
        total = F.cross_entropy(own.flatten(0, 1), ahead.flatten(), ignore_index=ignore_index, reduction="sum")
        losses.append(total / (ahead != ignore_index).sum().clamp(min=1))
    return torch.stack(losses).mean()
    ### END SOLUTION


def schedule_wsd(step: int, warmup: int, decay: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate at a step: warm-up, then stable, then decay.

    It is peak * step / warmup below `warmup`; `peak` from `warmup` to total - decay; then it falls along a straight line to `floor` at
    `total`, and stays there. With decay = 0 it is `peak` until just before `total`, and `floor` from `total` on. Raises a ValueError
    that names warmup, decay and total if warmup + decay is above total.
    """
    # TODO 1: check that warm-up and decay fit
    # TODO 2: the warm-up, the stable part, the decay, and what comes after it
    ### BEGIN SOLUTION
    if warmup + decay > total:
        raise ValueError(f"warmup = {warmup} and decay = {decay} do not fit into total = {total} steps")
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    left = min((total - step) / decay, 1.0) if decay else 1.0
    return floor + (peak - floor) * left
    ### END SOLUTION
