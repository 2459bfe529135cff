"""A small GPT, the ids it reads, and the four ways it may know positions: two with a table of max_len rows, two inside attention."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from grader.execution.proxy import randomise
from grader.verdict.comparing import holds, sizes
from preparing import give
from strategies import token_ids

TABLES, INSIDE = ("learned", "sinusoidal"), ("rope", "alibi")


def made(side, n, kind="GPT", **options):
    """A GPT, or another kind of it, as wide as four features a head."""
    config = {"vocab_size": n.V, "max_len": n.max_len, "d_model": 4 * n.H, "n_heads": n.H, "n_layers": n.L} | options
    return getattr(side, kind)(side.GPTConfig(**config))


def ids_of(n, seed, length=None):
    """Ids (B, T) with the first and the last of the vocabulary."""
    ids = token_ids(seed, n.B, length or n.T, vocab=n.V)
    ids[0, 1], ids[-1, 0] = 0, n.V - 1
    return ids


def drawn():
    """Sizes, no two alike, and a seed. One example a test: what is broken in a whole model is broken at every size, and a run with another seed draws others."""
    T, max_len, V = (low + int(torch.randint(3, ())) for low in (5, 9, 13))
    H = 2 + int(torch.randint(2, ()))
    n = SimpleNamespace(B=4, T=T, H=H, L=5 - H, max_len=max_len, V=V)
    sizes(**vars(n))
    return n, int(torch.randint(10000, ()))


def pair(learner, reference, n, seed, **options):
    """The learner's GPT and the reference's with the same random parameters."""
    model = made(reference, n, **options)
    values = randomise(model, seed, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    mine = made(learner, n, **options)
    give(learner, mine, values, "GPT")
    return mine, model


def targets_of(n, seed):
    """What should follow, with places to leave out at the start of one row, all through another but for one, and at the end."""
    targets = token_ids(seed + 50, n.B, n.T, vocab=n.V)
    targets[0, 2] = 0
    targets[0, :2] = targets[1, 1:] = targets[-1, -1] = -100
    return targets


def two(result):
    """The logits and the loss of what a GPT returned."""
    pair = isinstance(result, tuple | list) and len(result) == 2
    holds(pair, f"a GPT returns two things, (logits, loss), with None for the loss without targets; this one returned a {type(result).__name__}")
    return result[0], result[1]


def logits_of(model, ids):
    return two(model(ids))[0]


def loss_of(result):
    loss = two(result)[1]
    holds(isinstance(loss, torch.Tensor), f"the loss should be a tensor, from which a gradient can flow; it is a {type(loss).__name__}")
    return loss
