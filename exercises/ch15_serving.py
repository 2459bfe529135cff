"""Chapter 15: many texts, quickly.

B batch, T positions, V = vocab_size, D = d_model, H = n_heads, d_head = D / H. Probabilities and logits are (..., V).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch15_serving.md explains why, and `headway check` tests what you have written.

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

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT
from .ch09_sampling import looking_at


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits (B, T, V) for ids (B, T), from a model that returns logits or a tuple that begins with them."""
    output = model(ids)
    return output[0] if isinstance(output, tuple) else output


def refuse_too_long(model: nn.Module, n_prompt: int, n_new: int) -> None:
    """Raise a ValueError that names max_len if the model's positions are a table and the text does not fit into it."""
    config = getattr(model, "config", None)
    if getattr(config, "positions", None) in ("learned", "sinusoidal") and n_prompt + n_new > config.max_len:
        raise ValueError(f"{n_prompt} + {n_new} = {n_prompt + n_new} tokens do not fit into max_len = {config.max_len}")


def beam_search(
    model: nn.Module, ids: Tensor, max_new_tokens: int, n_beams: int, eos_id: int | None = None
) -> list[tuple[list[int], float]]:
    """Find likely continuations of a prompt, ids (1, T): a list of pairs (new ids, score), best first.

    `model(ids)` returns logits, or a tuple that begins with them. The score of a text is the sum of the log-probabilities of its
    new ids, with the precision of the logits. At each step every unfinished text is continued with every token of the
    vocabulary. A text that has written eos_id is finished: it stays as it is, with its eos_id, and competes with the others by
    its score. The n_beams texts with the greatest scores stay. The search ends after max_new_tokens steps, or when all texts are
    finished. If there are fewer candidates than n_beams, all of them stay. An eos_id in the prompt finishes nothing. Each step
    runs the model once, on all unfinished texts. Runs in eval mode without gradient, and restores each module's mode. Raises a
    ValueError that names n_beams when it is below 1.
    """
    # TODO 1: check n_beams; name it in the error. Use looking_at, and start with one text: no new ids, score 0
    # TODO 2: separate the finished texts from the others; stop if there are no others
    # TODO 3: run the model once on all unfinished texts, and compute the log-probabilities of the next token, (texts, V)
    # TODO 4: continue each unfinished text with each token, and add the token's log-probability to the text's score
    # TODO 5: of these and the finished texts, keep the n_beams with the greatest scores, best first
    raise NotImplementedError


def residual_distribution(target: Tensor, draft: Tensor) -> Tensor:
    """Return what a refused draft is replaced from: max(target - draft, 0), normalised to sum to one, (..., V) -> (..., V).

    Both are probabilities, and each row sums to one. Where the two distributions are equal, no probability is left to
    normalise: the result is the target itself. The result has the dtype of the target. No gradient is needed.
    """
    # TODO 1: compute how much more probable the target makes each token, at least 0
    # TODO 2: divide by the sum of each row, (..., 1); where the sum is 0, return the target
    raise NotImplementedError


def accept_drafts(
    target_probs: Tensor, draft_probs: Tensor, drafted: list[int], generator: torch.Generator | None = None
) -> list[int]:
    """Keep drafted tokens so that the result is distributed as if the target had written it: a list of 1 to n + 1 ids.

    `drafted` is a list of n ids, n may be 0. Id i was drawn from row i of `draft_probs`, (n, V). Row i of `target_probs`,
    (n + 1, V), is the target's distribution at the same place. The drafted ids are considered in order. An id stays with the
    probability min(1, target / draft), each time with a new random number. The first id that is refused is replaced by a token
    drawn from the residual_distribution of its row, and the list ends there. If all n ids stay, one more token is drawn from
    the last row of `target_probs`. If a generator is given, all randomness comes from it.
    """
    # TODO 1: for each drafted id, compare a new random number from 0 to 1 with target / draft
    # TODO 2: if the id is refused, draw from the residual distribution of its row, and return
    # TODO 3: if all ids stay, draw one more token from the target's last row
    raise NotImplementedError


def generate_speculative(
    model: nn.Module,
    draft: nn.Module,
    ids: Tensor,
    max_new_tokens: int,
    n_draft: int = 4,
    eos_id: int | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Continue one prompt with fewer passes of the model: ids (1, T) -> (1, T + n), n at most max_new_tokens.

    In each round the draft, a smaller model with the same vocabulary, writes at most n_draft tokens. One pass of the model
    over the longer text gives its own distribution at each of these places and at the next one, and accept_drafts decides what
    stays. So a round runs the model once and writes up to n_draft + 1 tokens, and the text is distributed as the model's own
    text at this temperature. With temperature 0 it is the text that `generate` writes. The temperature applies to both models.
    The text ends with the first eos_id that is written; an eos_id in the prompt finishes nothing. It is never longer than
    asked, and the models are never given more than prompt and max_new_tokens. Both models return logits, or a tuple that begins
    with them; both run in eval mode without gradient, and each module's mode is restored. If a generator is given, all
    randomness comes from it. Raises a ValueError, before anything is computed: one that names n_draft when it is below 1, and
    one that names max_len when the positions of either model are a table that is shorter than prompt and max_new_tokens.
    """
    # TODO 1: check n_draft, and check with refuse_too_long (above) that the text fits into both models
    # TODO 2: write next_probs: the probabilities at the last n places of a text, (n, V); one-hot at temperature 0
    # TODO 3: in each round, draft at most n_draft tokens, and no more than the text still needs
    # TODO 4: one pass of the model judges them all; append what accept_drafts keeps
    # TODO 5: stop after the first eos_id, and at max_new_tokens
    raise NotImplementedError


class PaddedGPT(GPT):
    """A GPT for texts of different lengths in one batch: the same names and weights as GPT, ids (B, T) -> logits (B, T, V).

    Short texts are padded on the left, so that all texts end in the last column. Raises a ValueError that names max_len when
    positions are a table and a text is longer than max_len. (It may also be raised where only text and padding together are
    longer.)
    """

    def attend(self, attention: CausalSelfAttention, x: Tensor, mask: Tensor) -> Tensor:
        """Return what a block's attention gives for x (B, T, D) with this mask, (B, 1, T, T) or (T, T): (B, T, D)."""
        # TODO 1: project with W_q, W_k and W_v, and split into heads, as in CausalSelfAttention
        # TODO 2: rotate with "rope" or add the bias with "alibi": both depend only on distances, so columns can serve as positions
        # TODO 3: attend with the mask, apply dropout to the weights, merge the heads, and apply W_out
        raise NotImplementedError

    def forward(self, ids: Tensor, n_pad: Tensor | None = None) -> Tensor:
        """Return logits (B, T, V): at each real token those that GPT gives for the text alone.

        The first n_pad[b] ids of row b are padding; n_pad is (B,), int64, or None if there is no padding. The number of pads
        decides what is padding, and not the ids: they may be any tokens. The logits at padding are not used, but they are
        finite.
        """
        # TODO 4: without n_pad there is no padding. Make the mask: a key is not later than the query, and not padding
        # TODO 5: look up the tokens; with a table, add the row of each token's position, counted from the first real token
        # TODO 6: run the blocks in the steps of PreNormBlock, with `attend`; then the last norm and the head
        raise NotImplementedError


def generate_batch(
    model: PaddedGPT, prompts: list[list[int]], max_new_tokens: int, eos_id: int | None = None, pad_id: int = 0
) -> list[list[int]]:
    """Continue several prompts at once, greedily: each prompt with its new ids, in the order given.

    Each text is the one that `generate` writes for its prompt alone with temperature 0, without padding, and it ends with its
    first new eos_id. An eos_id in a prompt finishes nothing. pad_id fills short rows and may be the id of a real token, eos_id
    too. The model runs once for each new position, and stops when all texts are finished. Runs in eval mode without gradient,
    and restores each module's mode. If positions are a table, and the longest prompt and the new tokens together are more than
    config.max_len, a ValueError that names max_len is raised before anything is computed.
    """
    # TODO 1: check with refuse_too_long that the longest text fits
    # TODO 2: pad the prompts on the left to the longest one, and count each row's pads
    # TODO 3: run the model, append the likeliest next token of each row, and stop when all rows have written eos_id
    # TODO 4: cut each row's new ids after its first eos_id, and put them after its prompt
    raise NotImplementedError


class BlockPool:
    """Memory for the keys and values of one layer, in blocks of block_size positions that caches take and give back.

    `k` and `v` are tensors (n_blocks, n_heads, block_size, d_head); `block_size` is stored; `n_free` is the number of free
    blocks. Each block has a number, its index in `k` and `v`. It is free while it has no holder. share and free raise a
    ValueError that names the number when the block is free, or when no block has this number (a negative one, for example).
    """

    def __init__(self, n_blocks: int, block_size: int, n_heads: int, d_head: int, dtype: torch.dtype = torch.float32):
        # TODO 1: make k and v, and store block_size
        # TODO 2: list the free blocks, and make a dict for the number of holders of each block in use
        raise NotImplementedError

    @property
    def n_free(self) -> int:
        # TODO 3: count the free blocks
        raise NotImplementedError

    def allocate(self) -> int:
        """Take any free block, and return its number; it has one holder now. Raises a RuntimeError when no block is free."""
        # TODO 4: if no block is free, raise a RuntimeError; otherwise take one, with one holder
        raise NotImplementedError

    def share(self, block: int) -> None:
        """Add a holder to a block that is in use."""
        # TODO 5: refuse a number that is not a block in use; otherwise count one holder more
        raise NotImplementedError

    def free(self, block: int) -> None:
        """Remove one holder from a block that is in use. When the last holder frees it, the block is free again."""
        # TODO 6: refuse a number that is not a block in use; count one holder fewer; a block without holders is free
        raise NotImplementedError

    def holders(self, block: int) -> int:
        """Return how many holders a block has: 0 for a free one."""
        # TODO 7: return the count; a block that is not in the dict has none
        raise NotImplementedError


class PagedKVCache:
    """The keys and values of one text, in blocks of a BlockPool that several caches share.

    `length` is the number of positions; `blocks` is the block table, the list of the numbers of its blocks in the order of the
    text. Position p is in block `blocks[p // block_size]`, at place p % block_size. A block is taken only when a position
    needs it, so a cache has ceil(length / block_size) blocks.
    """

    def __init__(self, pool: BlockPool):
        # TODO 1: store the pool; start with no position and no block
        raise NotImplementedError

    def append(self, k: Tensor, v: Tensor) -> None:
        """Add the keys and values of T new positions, each (n_heads, T, d_head).

        The last block is filled before new blocks are taken. If another cache shares the last block and it is not full, it is
        copied before it is written to, and the other cache keeps the old one. If there are not enough free blocks for all T
        positions, raises a RuntimeError, and neither the cache nor the pool has changed.
        """
        # TODO 2: count the blocks to take: new ones at the end, and one more if a shared last block must be copied
        # TODO 3: if the pool has not enough, raise a RuntimeError before anything changes
        # TODO 4: copy a shared last block into a block of its own, k and v, and give back the shared one
        # TODO 5: take the new blocks; write each position to its place; update length
        raise NotImplementedError

    def gather(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all positions in order, each (n_heads, length, d_head); they keep their values later."""
        # TODO 6: index the pool with the block table, join the blocks along the positions, and leave out what is not filled
        raise NotImplementedError

    def fork(self) -> "PagedKVCache":
        """Return a cache with the same past that shares all blocks; later appends to one of the two never change the other."""
        # TODO 7: make a cache of the same pool with the same length and its own list of blocks; share each block
        raise NotImplementedError

    def free(self) -> None:
        """Give back all blocks. The cache is empty then, and can be used again; freeing an empty cache does nothing."""
        # TODO 8: free each block once; empty the table and the length
        raise NotImplementedError


def quantize_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a matrix (n_out, n_in) to 8-bit integers with one scale for each row: (codes (n_out, n_in) int8, scale (n_out,)).

    Symmetric quantization: a row's scale is its greatest absolute value / 127, and its codes are the row / scale, rounded to
    the nearest whole number, -127 to 127. So codes * scale differs from the row by at most half a scale. A row of zeros has
    codes of 0 and any finite scale. The scale has the dtype of the weight. No gradient is needed.

    Write it yourself, without `torch.quantize_per_channel`, `torch.ao.quantization` and torch's other quantization
    functions.
    """
    # TODO 1: compute the scale of each row, (n_out,)
    # TODO 2: divide each row by its scale, but not by 0; round, and convert to int8
    raise NotImplementedError


class QuantizedLinear(nn.Module):
    """A linear layer for inference whose matrix is stored in 8 bits: x (..., n_in) -> (..., n_out).

    It has no parameters. Its buffers are copies, and all are in the state dict: `weight`, int8 (n_out, n_in), and `scale`
    (n_out,), as quantize_int8 makes them, and `bias` (n_out,), None if the linear layer has none. The output is that of the linear layer with
    the matrix weight * scale, in the dtype of x, and it carries gradient back to x.

    Write it yourself, without `torch.quantize_per_channel`, `torch.ao.quantization` and torch's other quantization
    functions.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        # TODO 1: quantize the matrix without its gradient, and register weight, scale and a copy of the bias as buffers
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: multiply x by the codes, in the dtype of x; then scale each output, and add the bias if there is one
        raise NotImplementedError


def continuous_batches(requests: list[tuple[int, int]], max_batch: int) -> list[list[int]]:
    """Plan which requests write at each step: a list with one list of request numbers, in ascending order, for each step from 0.

    Request i is `requests[i]`, a pair (arrival, n_tokens) of whole numbers, n_tokens at least 1. A batch has max_batch seats. A
    request takes a seat at the first step, from its arrival on, at which one is empty; earlier arrivals are first, and of equal
    arrivals the lower number. It then writes one token at every step until it has n_tokens, and its seat is empty at the next
    step. A step at which no request writes is an empty list. The plan ends with the last token. Raises a ValueError that names
    max_batch when it is below 1.
    """
    # TODO 1: check max_batch; name it in the error. Sort the numbers of the requests by arrival
    # TODO 2: at each step, give empty seats to requests that have arrived
    # TODO 3: write down who writes, and take one token off each; a request that has none left leaves its seat
    raise NotImplementedError
