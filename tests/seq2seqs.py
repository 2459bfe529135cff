"""A small Seq2Seq on both sides, sentences with and without padding for it, and how its logits are held against each other."""

from __future__ import annotations

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, holds, shaped
from strategies import at, distinct, token_ids

anything = dict(B=(3, 4), H=(2, 3), d_head=(2, 5), S=(5, 9), T=(5, 9), F=(7, 13), V=(14, 18), W=(14, 18), L=(10, 13))


def all_different(n):
    """The width is no other size either."""
    return n.H * n.d_head not in vars(n).values()


some = distinct(**anything).filter(all_different)
small = at(B=3, H=2, d_head=4, S=5, T=6, F=7, V=14, W=15, L=10)


def config(learner, n, **others):
    """V and W are the vocabularies, L is max_len, F is d_ff."""
    sizes = dict(src_vocab_size=n.V, tgt_vocab_size=n.W, max_len=n.L, d_model=n.H * n.d_head, n_heads=n.H, d_ff=n.F)
    return learner.Seq2SeqConfig(**sizes, **others)


def pair(learner, reference, n, seed, **others):
    """The learner's model and the reference's with the same random parameters, and those; one of the stacks is higher."""
    blocks = dict(zip(("n_encoder_blocks", "n_decoder_blocks"), ((1, 2), (2, 1))[seed % 2])) | others
    model = reference.Seq2Seq(config(reference, n, **blocks))
    values = randomise(model, seed)
    mine = learner.Seq2Seq(config(learner, n, **blocks))
    load(mine, values)
    return mine, model, values


def words(seed, rows, length, vocab, pad_id=0):
    """Ids without padding."""
    ids = token_ids(seed, rows, length, vocab=vocab - 1)
    return ids + (ids >= pad_id)


def both(n, seed, pad_id=0):
    return words(seed, n.B, n.S, n.V, pad_id), words(seed + 1, n.B, n.T, n.W, pad_id)


def on_the_right(ids, seed, pad_id=0):
    """The same ids with other numbers of pads at the ends of the rows, and where real tokens are."""
    real = torch.ones_like(ids, dtype=torch.bool)
    for row in range(len(ids)):
        real[row, ids.size(1) - (row + seed) % 4 :] = (row + seed) % 4 == 0
    return ids.masked_fill(~real, pad_id), real


def only(tensor, real):
    """The rows at real tokens; what stands at padding is nobody's business."""
    return tensor[real] if isinstance(tensor, torch.Tensor) and tensor.shape[:2] == real.shape else tensor


def agree(got, expected, what, real=None, tol=1e-4):
    """The same numbers, at real tokens only where `real` says which these are."""
    if real is None:
        close(got, expected, what, tol=tol)
    else:
        close(only(got, real), only(expected, real), f"{what} at real tokens", tol=tol)


def alive(logits, *shape):
    """Logits of this shape that differ from each other. Laws ask no more than that, so that a wrong number costs the points of the numbers only."""
    shaped(logits, shape, "the tensor of logits")
    holds(float(logits.float().std()) > 1e-3, "all logits are alike: they do not depend on the tokens")
    return logits
