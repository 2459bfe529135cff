"""Chapter 22: linear attention and state spaces.

Softmax attention keeps every key. A recurrent layer keeps one matrix of a fixed size, its state. Most layers here have
several forms that give the same numbers: over the whole text at once, position by position, and in chunks.

B batch, H heads, T positions (at least 1), d width of a query and a key, d_v width of a value, D = d_model. Queries and
keys are (B, H, T, d), values (B, H, T, d_v). `log_decay` (B, H, T) holds logarithms of factors, so numbers from -inf to
0; `beta` is (B, H, T). A state is (B, H, d, d_v); its rows belong to the features of keys, its columns to those of
values. The output at position t is read from the state after position t. Queries are not scaled by 1 / sqrt(d).

All tensors of one call have the same dtype, float32 or float64, and the same device. Results have this dtype and
device, also new states. Arguments, states among them, are not changed. Gradients flow to all arguments, also to states.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch22_recurrent.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import merge_heads, split_heads
from .ch05_layers import RMSNorm


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention without a softmax, for all positions at once.

    q, k (B, H, T, d), v (B, H, T, d_v) -> output (B, H, T, d_v). The weight of position s for position t, s <= t, is
    φ(q_t)·φ(k_s), divided by the sum of these products over all s <= t. Here φ(x) = elu(x) + 1, for each feature, which
    is never below 0. Nothing else is added to the sum. (In float32, φ of a feature below about -17 is 0. A query with only
    such features has no defined output.)

    No loop runs over the positions: the number of torch operations does not grow with T.
    """
    # TODO 1: apply φ to queries and keys
    # TODO 2: multiply all queries with all keys; a later position has the weight 0
    # TODO 3: divide by the sum of each row, and average the values
    raise NotImplementedError


def linear_attention_step(
    q: Tensor, k: Tensor, v: Tensor, state: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One position of linear_attention, with a state instead of the earlier positions: returns (output, state).

    q, k (B, H, d) and v (B, H, d_v) belong to one position, so they have no axis T. The output is (B, H, d_v). The
    state is a pair: S (B, H, d, d_v), the sum of φ(k_s) v_sᵀ over all positions so far, and z (B, H, d), the sum of
    φ(k_s). The state that is passed is the one before this position; None means before the first one, where both sums
    are 0. The state that is returned contains this position.

    Steps over all positions of a text give the outputs of linear_attention.
    """
    # TODO 1: apply φ to the query and the key
    # TODO 2: add this position to both sums
    # TODO 3: read the new S with the query, and divide by what the query reads from the new z
    raise NotImplementedError


def segment_sums(log_decay: Tensor) -> Tensor:
    """Return what lies between any two positions: (..., T) -> (..., T, T).

    Entry (t, s) is the sum of log_decay over s+1, ..., t. It is 0 where t = s, and -inf where t < s, so exp of the
    result is 0 for later positions.

    Every entry is as precise as a sum of its own terms, also late in a long text in float32. (A difference of two sums
    from the first position on is not.) log_decay may be -inf at some positions: the entries whose sums contain one are
    -inf, and the others are as without it. No loop runs over the positions: the number of torch operations does not
    grow with T.
    """
    # TODO 1: repeat log_decay side by side: row t has log_decay at t in every column
    # TODO 2: set the entries with t <= s to 0: they are not in the sums of column s
    # TODO 3: add up along each column
    # TODO 4: set the entries above the diagonal to -inf
    raise NotImplementedError


def decayed_attention(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    """Causal attention that forgets, for all positions at once.

    q, k (B, H, T, d), v (B, H, T, d_v), log_decay (B, H, T) -> output (B, H, T, d_v). The output at t is the sum over
    all s <= t of exp(segment(t, s)) (q_t·k_s) v_s, where segment(t, s) is entry (t, s) of segment_sums(log_decay). So a
    pair (k_s, v_s) is multiplied by the factor of every later position, and not by its own. There is no softmax, and
    nothing is divided.

    It is what this recurrence gives from S = 0 on: S <- exp(log_decay_t) S + k_t v_tᵀ, then output_t = Sᵀ q_t. A
    log_decay of -inf at t forgets everything before t. Outputs and gradients are finite for every log_decay from -inf
    to 0. No loop runs over the positions: the number of torch operations does not grow with T.
    """
    # TODO 1: multiply all queries with all keys
    # TODO 2: multiply by the factors, which are 0 for later positions
    # TODO 3: apply the result to the values
    raise NotImplementedError


def decayed_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, chunk: int, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """decayed_attention in chunks of `chunk` positions, which may go on from a state: returns (output, state).

    q, k (B, H, T, d), v (B, H, T, d_v) -> output (B, H, T, d_v), state (B, H, d, d_v). Output and state are those of
    the recurrence in decayed_attention, from `state` on, or from zeros if it is None. The first position's factor
    applies to `state`, too. The state that is returned is the one after the last position.

    They do not depend on `chunk`, apart from rounding. chunk need not divide T (the last chunk is shorter), and may be
    larger than T. Inside a chunk all positions are computed at once, and from chunk to chunk a state is handed on. So
    nothing of size T × T is made: for a given chunk, memory grows in proportion to T, and the number of torch
    operations in proportion to T / chunk.

    exp is taken of numbers up to 0 only, so outputs, state and gradients are finite for every log_decay from -inf to 0.
    Raises a ValueError that names chunk if it is below 1.
    """
    # TODO 1: check chunk; without a state, begin with zeros
    # TODO 2: for each chunk, compute its segment sums, and the sums from its beginning up to and with each position
    # TODO 3: its output has two parts: what its own positions give, and what the decayed state gives
    # TODO 4: the new state is the old one, decayed over the chunk, plus each pair, decayed up to the end of the chunk
    # TODO 5: join the outputs
    raise NotImplementedError


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A state that corrects itself, position by position: returns (output (B, H, T, d_v), state (B, H, d, d_v)).

    q, k (B, H, T, d), v (B, H, T, d_v), beta and log_decay (B, H, T). Position t does three things:

    1. decay: S <- exp(log_decay_t) S
    2. correct: S <- S + beta_t k_t (v_t - Sᵀ k_t)ᵀ, where Sᵀ k_t is what S returns for this key so far
    3. read: output_t = Sᵀ q_t

    S begins as `state`, or as zeros if it is None; the state that is returned is S after the last position. Without
    log_decay, nothing decays, as if it were 0 everywhere. Keys are taken as they are, of any length. If k_t has length
    1 and beta_t is 1, S returns v_t for the key k_t afterwards, and for keys at right angles to k_t it returns what it
    returned between decay and correction.
    """
    # TODO 1: without a state, begin with zeros
    # TODO 2: for each position, decay the state; subtract what it returns for the key from the value
    # TODO 3: add beta times the product of the key and this difference; read the new state with the query
    # TODO 4: stack the outputs along the axis of positions
    raise NotImplementedError


def delta_rule_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    chunk: int,
    log_decay: Tensor | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """delta_rule in chunks of `chunk` positions: the same arguments, output and state, apart from rounding.

    chunk need not divide T (the last chunk is shorter), and may be larger than T. What is added to the state at
    position t is k_t times a row u_t. Within a chunk, with positions counted from its beginning, the rows solve a
    triangular system:

        u_t + sum over s < t of beta_t exp(segment(t, s)) (k_t·k_s) u_s = beta_t (v_t - exp(since_t) Sᵀ k_t)

    where S is the state before the chunk, segment(t, s) is that of decayed_attention, and since_t is the sum of
    log_decay from the beginning of the chunk up to t, with t. With all rows of a chunk known, the chunk's outputs and
    its last state are those of decayed_attention_chunked for the values u. Nothing of size T × T is made: for a given
    chunk, memory grows in proportion to T. The number of torch operations grows in proportion to T / chunk; solving the
    systems of all chunks together may take `chunk` more.

    exp is taken of numbers up to 0 only, so outputs, state and gradients are finite for every log_decay from -inf to 0.
    Raises a ValueError that names chunk if it is below 1.
    """
    # TODO 1: check chunk; without a state, begin with zeros; without log_decay, use zeros
    # TODO 2: for each chunk, compute the segment sums, and since: the sums from its beginning up to and with each position
    # TODO 3: make the right side, and the part of the system that is below the diagonal
    # TODO 4: solve for u; torch.linalg.solve_triangular can take the ones on the diagonal for granted
    # TODO 5: compute outputs and the new state as in decayed_attention_chunked, with u for the values
    raise NotImplementedError


def doubling_scan(a: Tensor, b: Tensor) -> Tensor:
    """Solve x_t = a_t x_{t-1} + b_t for all t in a few rounds: a and b (T, ...) -> x (T, ...).

    Before the first position, x is 0. The first axis is time. a and b have the same shape, and every number of the
    other axes is a recurrence of its own. There are ⌈log₂ T⌉ rounds, each with the same few operations on whole
    tensors; the number of torch operations grows in proportion to log₂ T. No tensor has more numbers than b.

    Nothing is divided, and no logarithm is taken, so a may have any sign, and may be 0.

    Write it yourself, without `associative_scan`.
    """
    # TODO 1: at the beginning, b_t is x_t for a recurrence that starts at t, and a_t is the factor of what was before t
    # TODO 2: in a round, join each t with t - shift, if there is one: first b, then a; shift is 1, 2, 4, ...
    # TODO 3: stop when the shift has reached T
    raise NotImplementedError


def short_convolution(x: Tensor, weight: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix each feature with its own last few values, causally: returns (output (B, T, D), state (B, width - 1, D)).

    x is (B, T, D), and weight is (D, width). Feature i of the output at t is the sum over j of weight[i, j] times feature i
    of x at t - (width - 1) + j. So the last column of weight belongs to position t itself, the one before to t - 1, and so
    on. Features are not mixed with each other. There is no bias, and no activation function. No loop runs over the
    positions: the number of torch operations does not grow with T.

    `state` has the width - 1 inputs before x, the oldest first; if it is None, they are 0. The state that is returned
    has the last width - 1 inputs, also if x is shorter than that: the oldest ones then come from `state`. With width 1,
    it has no positions.
    """
    # TODO 1: put the state before x, along the axis of positions
    # TODO 2: for each column of weight, multiply it with the positions it belongs to; add up
    # TODO 3: the new state is the end of what you have made in step 1
    raise NotImplementedError


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The state space of Mamba, whose step, input and output depend on the text: returns (y, state).

    Here B is a matrix, as in the paper, and `batch` is the batch. D features, and N numbers of state for each: x and dt
    are (batch, T, D), dt above 0; A is (D, N), with numbers below 0; B and C are (batch, T, N), and D is (D,). y is
    (batch, T, D), and the state is (batch, D, N).

    For feature i and number n of its state h, position t does two things:

    1. h[i, n] <- exp(dt_t[i] A[i, n]) h[i, n] + dt_t[i] B_t[n] x_t[i]
    2. y_t[i] = D[i] x_t[i] + the sum over n of C_t[n] h[i, n]

    h begins as `state`, or as zeros if it is None; the state that is returned is h after the last position. dt is used
    as it is: no softplus is applied. Any order of computation may be used that stays finite for strong decay, such as
    dt A = -1000.
    """
    # TODO 1: without a state, begin with zeros
    # TODO 2: for each position, decay the state, and add the input
    # TODO 3: read the new state with C, and add D times the input
    # TODO 4: stack the outputs along the axis of positions
    raise NotImplementedError


class GatedDeltaNet(nn.Module):
    """A layer that can replace attention, with a state of fixed size: (B, T, D) -> (B, T, D), causal.

    d_head = D / H, with D = d_model and H = n_heads. Parts:
    - linear layers without a bias: `W_qkv`, D -> 3D, for queries, keys and values, in this order; `W_beta` and
      `W_decay`, D -> H; `W_gate` and `W_out`, D -> D
    - parameters: `conv` (3D, width), the weight of short_convolution; `A_log` (H,) and `dt_bias` (H,)
    - `norm`, an RMSNorm(d_head) with its default eps, which all heads share

    From x, the layer computes:
    1. W_qkv x, then short_convolution with `conv`, then SiLU. The result is cut into queries, keys and values, and each
       into heads, as split_heads does.
    2. Each head's query at each position is divided by sqrt(sum of its squares + 1e-6), and each key as well. So their
       lengths are almost 1.
    3. beta = σ(W_beta x), and log_decay = -exp(A_log) · softplus(W_decay x + dt_bias), a number for each head and
       position.
    4. the delta rule, in chunks. Each head's output goes through `norm`; then the heads are merged.
    5. the result is multiplied by SiLU(W_gate x), and W_out is applied.

    At the beginning, exp(A_log) is between 1 and 16, and softplus(dt_bias) between 0.001 and 0.1, drawn for each head
    from torch's random numbers, so heads forget at different speeds. The linear layers and `norm` begin as nn.Linear
    and RMSNorm make them, and `conv` with random numbers of any kind.

    Raises a ValueError that names d_model and n_heads if n_heads does not divide d_model, and one that names width if
    it is below 1.
    """

    def __init__(self, d_model: int, n_heads: int, width: int = 4) -> None:
        super().__init__()
        # TODO 1: check the sizes; keep n_heads; make the linear layers and the norm
        # TODO 2: make conv, A_log and dt_bias; the inverse of softplus is log(exp(y) - 1)
        raise NotImplementedError

    def new_state(self, B: int) -> tuple[Tensor, Tensor]:
        """Return the state before the first position of B texts: zeros, with the dtype and device of the parameters.

        It is a pair: the last width - 1 rows of W_qkv x for the convolution, (B, width - 1, 3D), and the S of the delta
        rule, (B, H, d_head, d_head). A state's size does not depend on how many positions were read.
        """
        # TODO 3: make both tensors
        raise NotImplementedError

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Go on from a state with T new positions: x (B, T, D) -> (output (B, T, D), new state).

        T is 1 when a text is written, and larger for a prompt. However a text is cut into steps, the outputs are those
        of forward over the whole text, apart from rounding. The module itself stores nothing between calls.
        """
        # TODO 4: compute queries, keys and values; normalise queries and keys
        # TODO 5: compute beta and log_decay, (B, T, H) -> (B, H, T)
        # TODO 6: apply the delta rule with delta_rule_chunked, in chunks of 64, say; norm, gate, W_out
        # TODO 7: return the output and both new states
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Read whole texts from their first position on: x (B, T, D) -> (B, T, D).

        Positions are computed in chunks: with T = 4096, fewer than 3 torch operations a position run.
        """
        # TODO 8: this is a step from a new state
        raise NotImplementedError
