"""Chapter 12: look inside what you built.

B batch, T positions, D = d_model, H = n_heads, V = vocab_size. A head's pattern is (T, T): row i holds the weights of position i.
Every function here runs a GPT in eval mode without gradient and leaves it unchanged, also when the run fails: each module's
mode, its hooks (including those of other code), its parameters and their gradients. Results have the dtype and device of the
model.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch12_interpretability.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    """Return the residual stream after the embeddings and after each block: a list of n_layers + 1 tensors (B, T, D).

    Runs in eval mode without gradient. Afterwards, also when the run fails, all your hooks are removed, and each module's mode
    is restored.
    """
    # TODO 1: on the first block, register a hook that records its input: register_forward_pre_hook
    # TODO 2: on every block, register a hook that records its output: register_forward_hook
    # TODO 3: run the model inside looking_at (chapter 9)
    # TODO 4: remove the hooks, even if the run fails
    raise NotImplementedError


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    """Return the logits that the model would give if it stopped after each layer: (n_layers + 1, B, T, V).

    Row 0 comes from the embeddings alone, row i from the stream after i blocks. The last row is the model's own logits. The
    model is left as it was, also when the run fails.
    """
    # TODO 1: take the stream, and do with each state what the model does with the last: apply the final norm and the head
    raise NotImplementedError


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    """Return the attention weights of every head in every layer: (n_layers, B, H, T, T).

    The model is left as it was, also when the run fails.
    """
    # TODO 1: take the stream: its state number i is the input of block i
    # TODO 2: call each block's attention on the normalised state, as the block does, and take its weights
    raise NotImplementedError


def classify_head(pattern: Tensor) -> str:
    """Name the kind of a head, from its pattern (T, T) without row 0: position 0 can attend only to itself.

    "previous", "first" or "self": the greatest of the mean weights on the position before, on position 0 and on the position
    itself, if it is above 0.6. Otherwise "uniform": the mean distance of the rows from even attention is below 0.15. Even
    attention in row i is 1 / (i + 1) on each allowed key; the distance of a row is half the sum of the absolute differences
    (total variation). Otherwise "sparse": the mean of each row's largest weight is above 0.8. Otherwise "mixed".
    """
    # TODO 1: compute the mean weight on the previous, the first and the own position, over rows 1 and later
    # TODO 2: return the name of the greatest, if it is above 0.6
    # TODO 3: compute the distance of each row from even attention over its allowed keys; is the head "uniform"?
    # TODO 4: take the largest weight of each row: is the head "sparse" or "mixed"?
    raise NotImplementedError


def induction_score(pattern: Tensor, period: int) -> float:
    """Return how much a head attends to the token after the previous copy of each token, a float: 1 always, 0 never.

    In a sequence that repeats itself after `period` positions, the previous copy of position i's token is at i - period, and
    the token after it at i - period + 1. The score is the mean of pattern[i, i - period + 1] over all i >= period.
    """
    # TODO 1: take the weights pattern[i, i - period + 1] for every i from period on, and return their mean
    raise NotImplementedError


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    """Return every head's induction score, (n_layers, H), averaged over random sequences of 2 * period tokens.

    Each of the n_sequences sequences is `period` random tokens, written twice in a row. The `period` tokens are all different
    if the vocabulary is large enough; otherwise they are drawn with replacement. If a generator is given, all randomness
    comes from it.
    """
    # TODO 1: draw n_sequences rows of `period` tokens, and write each row twice, (n_sequences, 2 * period)
    # TODO 2: compute all patterns, and score each head on each sequence
    # TODO 3: average over the sequences
    raise NotImplementedError


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    """Run the model on the corrupted ids, with the stream after block `layer` taken from the clean run: logits (B, T, V).

    Only the state at `position` is replaced, or all of them if that is None. Runs in eval mode without gradient. The model is
    left as it was, also when the run fails. Raises a ValueError that names `layer` for any layer but 0 to n_layers - 1 (there
    is no layer -1), and a ValueError for inputs of different shapes.
    """
    # TODO 1: check layer and shapes; name the numbers in the error
    # TODO 2: record the clean stream after block `layer`; remember what the first entry of residual_stream is
    # TODO 3: on that block, register a hook that returns a patched copy of its output; the copy replaces the output
    # TODO 4: run the model on the corrupted ids, and remove the hook, even if the run fails
    raise NotImplementedError


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    """Return which share of the clean target logit patching restores, from logits (V,): 0 nothing, 1 all of it.

    The result is a float and may lie outside [0, 1]. Raises a ValueError that names `target` when the clean and the corrupted
    run give the target the same logit: nothing was lost.
    """
    # TODO 1: check that something was lost
    # TODO 2: divide what was restored by what was lost
    raise NotImplementedError
