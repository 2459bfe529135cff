"""Chapter 0: a first language model.

A language model gives every token a probability of being the next one. The smallest useful model looks at one token only: it
counts which token followed which in a text, and turns the counts into probabilities. You train it, measure it, and let it
write.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor


def count_bigrams(ids: Sequence[int] | Tensor, vocab_size: int) -> Tensor:
    """Count how often each id is followed by each other id: an int64 tensor (V, V) with V = vocab_size.

    Row a, column b has the number of places in `ids` where b follows directly after a. `ids` is a list or a 1-D tensor. A text
    of one id or of none has no such place, and gives zeros. An id outside 0 ... V - 1 raises a ValueError that names it.
    """
    # TODO 1: check every id; name the first one that is outside 0 ... V - 1 in the error
    # TODO 2: make a table of zeros, (V, V), of type torch.int64
    # TODO 3: go over each id together with the next one, and add one to their place in the table
    ### BEGIN SOLUTION
    ids = [int(i) for i in ids]
    for i in ids:
        if not 0 <= i < vocab_size:
            raise ValueError(f"id {i} is outside 0 ... {vocab_size - 1}")
    counts = torch.zeros(vocab_size, vocab_size, dtype=torch.int64)  # (V, V)
    for this, following in zip(ids, ids[1:]):
        counts[this, following] += 1
    return counts
    ### END SOLUTION


def bigram_probabilities(counts: Tensor, smoothing: float = 1.0) -> Tensor:
    """Turn whole-number counts (V, V) into probabilities (V, V), float32: row a says how probable each next id is after a.

    `smoothing` is added to every count first, so that a pair that never occurred is not impossible. Then each row is divided by
    its own sum. A row whose sum is 0 (an id that nothing follows, with smoothing 0) becomes uniform: 1 / V everywhere. A
    negative smoothing raises a ValueError that names it.
    """
    # TODO 1: check smoothing
    # TODO 2: add it to every count, in float32; `counts` itself must not change
    # TODO 3: divide each row by its sum, (V, V) / (V, 1)
    # TODO 4: make the rows whose sum is 0 uniform
    ### BEGIN SOLUTION
    if smoothing < 0:
        raise ValueError(f"smoothing is {smoothing}; it cannot be negative")
    smoothed = counts.float() + smoothing  # (V, V)
    sums = smoothed.sum(dim=-1, keepdim=True)  # (V, 1)
    uniform = torch.full_like(smoothed, 1 / counts.shape[-1])
    return torch.where(sums > 0, smoothed / sums, uniform)
    ### END SOLUTION


def average_loss(probabilities: Tensor, ids: Sequence[int] | Tensor) -> float:
    """Return the mean of -log p(next id | this id) over the T - 1 steps of a text of T ids, as a Python float.

    `probabilities` (V, V) is the result of bigram_probabilities, and log is the natural logarithm. A step of probability 0
    makes the loss inf. Fewer than two ids raise a ValueError.
    """
    # TODO 1: check that there is at least one step
    # TODO 2: collect the probability of each step: row of this id, column of the next id
    # TODO 3: return the mean of their negative logarithms
    ### BEGIN SOLUTION
    ids = torch.as_tensor(ids)  # (T,)
    if len(ids) < 2:
        raise ValueError(f"a loss needs at least two ids; there are {len(ids)}")
    chosen = probabilities[ids[:-1], ids[1:]]  # (T - 1,)
    return float(-chosen.log().mean())
    ### END SOLUTION


def write(probabilities: Tensor, start: int, n: int, generator: Generator | None = None) -> list[int]:
    """Continue a text: return `start` and n more ids, each drawn with the probabilities in the row of the id before it.

    `generator` decides every draw: the same seed gives the same text, and the generator goes on from one call to the next.
    Without one, torch's own generator decides.
    """
    # TODO 1: begin with a list that has only start
    # TODO 2: n times: draw an id with torch.multinomial from the row of the last id, and append it as an int
    ### BEGIN SOLUTION
    ids = [int(start)]
    for _ in range(n):
        row = probabilities[ids[-1]]  # (V,)
        ids.append(int(torch.multinomial(row, 1, generator=generator)))
    return ids
    ### END SOLUTION
