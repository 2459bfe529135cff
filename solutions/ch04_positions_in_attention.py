"""Chapter 4: distance inside the scores.

B batch, T positions, D = d_model, H = n_heads, d_head = D / H. Heads are (B, H, T, d_head). If there are fewer queries
than keys, the queries are the last positions.
"""

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads


def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    """Compute the rotation angle of each pair of features at each position: positions (T,) -> (T, d_head / 2), float32.

    Pair i at position p rotates by p * base^(-2i / d_head) radians: the first pair by one radian per position, every later
    pair more slowly. `positions` has any integer dtype and no upper limit. The result is a new tensor on its device. Raises a
    ValueError that names d_head if d_head is odd.
    """
    # TODO 1: check that d_head is even; name it in the error
    # TODO 2: compute the frequency base^(-2i / d_head) of every pair i, on the device of `positions`
    # TODO 3: multiply every position by every frequency, (T, 1) * (d_head / 2,) -> (T, d_head / 2)
    ### BEGIN SOLUTION
    if d_head % 2 != 0:
        raise ValueError(f"d_head = {d_head} is odd: its features cannot be paired")
    pairs = torch.arange(0, d_head, 2, device=positions.device)  # 2i, (d_head / 2,)
    frequencies = base ** (-pairs / d_head)
    return positions[:, None].float() * frequencies  # (T, d_head / 2)
    ### END SOLUTION


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Rotate each pair of neighbouring features by its angle: x (..., T, d_head) and positions (T,) -> (..., T, d_head).

    The pairs are (x0, x1), (x2, x3), ...; each becomes (x0 cos - x1 sin, x0 sin + x1 cos). The result has the dtype of x. The
    angles have at least the precision of float32, even if x is in half precision, and float64 x keeps all its digits. Raises a
    ValueError that names d_head if d_head is odd.
    """
    # TODO 1: compute the sine and cosine of rope_angles, (T, d_head / 2), and do not round them to half precision
    # TODO 2: take the even features of x and the odd ones, each (..., T, d_head / 2)
    # TODO 3: rotate every pair
    # TODO 4: interleave the two results, so that pairs are neighbours again, (..., T, d_head), in the dtype of x
    ### BEGIN SOLUTION
    angles = rope_angles(positions, x.size(-1), base)  # (T, d_head / 2)
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]  # each (..., T, d_head / 2)
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)  # (..., T, d_head / 2, 2)
    return turned.flatten(-2).to(x.dtype)  # (..., T, d_head)
    ### END SOLUTION


def alibi_slopes(n_heads: int) -> Tensor:
    """Compute the slope of each head, by which its bias falls per position of distance: (H,), float32.

    If H is a power of two: 2^(-8/H), 2^(-16/H), ..., down to 2^-8. For any other H: the slopes for P heads, where P is the
    largest power of two below H, then the first, third, fifth, ... slope for 2P heads, until there are H slopes. The result is
    a new tensor.
    """
    # TODO 1: find the largest power of two that is not above n_heads
    # TODO 2: compute the slopes for that many heads
    # TODO 3: add every second slope for twice as many heads, starting with the first, until there are n_heads
    ### BEGIN SOLUTION
    power = 2 ** (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return torch.tensor(slopes + between[: n_heads - power])
    ### END SOLUTION


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    """Compute what each head adds to its scores: -slope * |i - j| for the query at position i and the key at position j, (H, q_len, k_len).

    The queries are the last q_len of the k_len positions; there are never more queries than keys. The result is a
    new float32 tensor on the CPU.
    """
    # TODO 1: number the keys from 0, and the queries so that the last query is at the position of the last key
    # TODO 2: compute the distance of every query from every key, (q_len, k_len)
    # TODO 3: multiply it by each head's slope, with a minus sign, (H, q_len, k_len)
    ### BEGIN SOLUTION
    keys = torch.arange(k_len)
    queries = keys[k_len - q_len :]
    distance = (queries[:, None] - keys).abs()  # (q_len, k_len)
    return alibi_slopes(n_heads)[:, None, None] * -distance  # (H, q_len, k_len)
    ### END SOLUTION


class CausalSelfAttention(nn.Module):
    """Causal multi-head self-attention with a choice of position encoding: (B, T, D) -> (B, T, D).

    `positions` is "none", "rope" (queries and keys are rotated, values are not) or "alibi" (a bias is added to the scores).
    Parameters: `W_q`, `W_k`, `W_v` and `W_out`, each an nn.Linear, D -> D, with a bias unless `bias=False`.
    Other attributes: `n_heads`, `positions`, and `dropout`, an nn.Dropout that acts on the weights. The input may have any
    length. The output has the dtype of x, and float64 input is computed in float64 (angles and slopes may be float32). Raises a
    ValueError that names d_model and n_heads if n_heads does not divide d_model, one that names d_head if `positions` is "rope"
    and d_head is odd, and one that names `positions` if it is not one of the three.
    """

    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        # TODO 1: check the sizes and `positions`; name the wrong value in the error
        # TODO 2: store n_heads and positions; create W_q, W_k, W_v, W_out and the dropout
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into {n_heads} equal heads")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions = {positions!r} is not one of 'none', 'rope', 'alibi'")
        if positions == "rope" and d_model // n_heads % 2 != 0:
            raise ValueError(f"RoPE pairs features, but d_head = {d_model} / {n_heads} = {d_model // n_heads} is odd")
        self.n_heads = n_heads
        self.positions = positions
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from every position of `x` (B, T, D) to itself and earlier positions: (B, T, D).

        With `return_weights` the result is (output, weights), the weights (B, H, T, T) as used, after dropout. A pass without
        gradient (torch.no_grad, torch.inference_mode) gives the same output, and you can train the module after it.
        """
        # TODO 3: project, and split into heads, (B, T, D) -> (B, H, T, d_head)
        # TODO 4: with "rope", rotate queries and keys by their positions 0 .. T-1
        # TODO 5: with "alibi", create the bias, in the dtype and on the device of x
        # TODO 6: let every head attend with the causal mask, on the device of x: this gives the averages of the values, and the weights
        # TODO 7: only in training with dropout, apply it to the weights, and average the values with the result instead
        # TODO 8: merge the heads, and apply W_out
        ### BEGIN SOLUTION
        T = x.size(1)
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))  # each (B, H, T, d_head)
        if self.positions == "rope":
            where = torch.arange(T, device=x.device)
            q, k = apply_rope(q, where), apply_rope(k, where)
        bias = alibi_bias(self.n_heads, T, T).to(x) if self.positions == "alibi" else None  # (H, T, T)
        mask = causal_mask(T).to(x.device)  # (T, T)
        mixed, weights = scaled_dot_product_attention(q, k, v, mask, bias)  # (B, H, T, d_head), (B, H, T, T)
        if self.training and self.dropout.p > 0:
            weights = self.dropout(weights)
            mixed = weights @ v
        output = self.W_out(merge_heads(mixed))  # (B, H, T, d_head) -> (B, T, D)
        return (output, weights) if return_weights else output
        ### END SOLUTION
