"""Attention modules with several heads: sizes, a module on both sides, and comparing results, gradients and dropout."""

from __future__ import annotations

import masks
import torch
from grader.verdict.comparing import close, holds, same
from module_pairs import compare_parameter_gradients, module_pair
from pytest_check import check
from strategies import distinct, tensor, width_is_unique
from torch import nn

attention_sizes = distinct(B=(2, 4), H=(2, 5), d_head=(2, 6), T=(4, 8), max_len=(10, 12)).filter(width_is_unique)


def attention_pair(learner, reference, n, seed, **options):
    return module_pair(learner, reference, "MultiHeadAttention", n.H * n.d_head, n.H, seed=seed, **options)


def fused_pair(learner, reference, n, seed, **options):
    return module_pair(learner, reference, "FusedSelfAttention", n.H * n.d_head, n.H, n.max_len, seed=seed, **options)


def promised_attributes(module):
    """n_heads, and the rate of `dropout`, if that is an nn.Dropout; for `bring`."""
    n_heads, dropout = getattr(module, "n_heads", None), getattr(module, "dropout", None)
    return [n_heads if isinstance(n_heads, int) else None, dropout.p if isinstance(dropout, nn.Dropout) else None]


def compare_promised_attributes(found, n_heads, rate):
    """The attributes that later chapters read."""
    with check:
        same(found[0], n_heads, "the attribute n_heads")
    with check:
        holds(found[1] is not None, "the attribute `dropout` should be an nn.Dropout")
        close(found[1], rate, "the rate of the attribute `dropout`")


def attention_input(n, seed, positions="T"):
    return tensor(seed, n.B, getattr(n, positions), n.H * n.d_head)


def padding_by_row(B, S):
    """(B, 1, 1, S): every row with real keys, and padding in another place, on the left, on the right, on both sides."""
    return masks.key_padding(S, [(1, 0), (0, 2), (2, 1), (0, 1)][:B])


def compare_gradients(got, expected):
    """Of inputs and parameters."""
    for i, gradient in enumerate(expected.inputs):
        with check:
            holds(got.inputs[i] is not None, "no gradient reaches the input: somewhere the result is cut off from it")
            close(got.inputs[i], gradient, "the gradient of " + ("x", "context")[i], tol=5e-5)
    compare_parameter_gradients(got.parameters, expected.parameters, tol=5e-5)


def with_identity_output(values, out, width):
    """The same parameters with a last map that is the identity, so that the heads are visible next to each other in the output."""
    return values | {f"{out}.weight": torch.eye(width), f"{out}.bias": torch.zeros(width)}


def compare_output_and_weights(got, expected, when=""):
    """Output and weights, each named."""
    holds(isinstance(got, tuple | list) and len(got) == 2, "with return_weights the result should be two tensors: the output and the weights")
    with check:
        close(got[0], expected[0], f"the output{when}")
    with check:
        close(got[1], expected[1], f"the tensor of weights{when}")


def compare_message_dropout(output, kept, n_heads, rate, word):
    """One position can attend only to itself: each head outputs its value divided by 1 - rate, or zero if it is dropped.

    `output` is that of a module whose last map is the identity; `kept` are the values of the one position, (many, 1, D).
    """
    seen = output.reshape(len(kept), n_heads, -1)
    wanted = kept.reshape(len(kept), n_heads, -1) / (1 - rate)
    dropped = seen.abs().amax(-1) < 1e-6
    close(seen, wanted.masked_fill(dropped[..., None], 0.0), f"what the heads output with dropout, {word}")
    share = float(dropped.float().mean())
    holds(abs(share - rate) < 0.07, f"{word}: about {rate:.0%} of the weights should be dropped; it was {share:.0%}")
