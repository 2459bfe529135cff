"""Weights set by hand, so that the behaviour of a model is known without training it."""

from __future__ import annotations

import math
import sys
from types import ModuleType

import torch
from torch import Tensor, nn

SCORE_MARGIN = 40.0  # of the one right key over the others

WORDS = ("of", "the", "capital", "is", "france", "italy", "japan", "paris", "rome", "tokyo")
COUNTRY, CAPITAL = 4, 7  # the ids of the first of each
PLAIN, SECOND, LAST = 9, 10, 11  # features of `capitals` that say which position this is


def induction_circuit(vocab_size: int, max_len: int) -> tuple[dict, dict[str, Tensor]]:
    """Return a GPT of two layers with one induction head: the config's arguments, and the parameters by name.

    The residual stream has one feature for each token, one for each position, and a second one for each token. Head 0
    of layer 0 attends to the previous position (a query matches the key of its own position minus 1) and writes that
    token into the second features. Head 1 of layer 1 searches its own token in the second features, so it finds the
    position after an earlier copy. It adds the token at that position to the stream, as the prediction. The other two
    heads attend evenly, and the feed-forward layers add nothing.
    """
    V, P = vocab_size, max_len
    d_head = max(P, V + (P + 1) // 2)
    D = 2 * d_head  # at least 2 V + P
    tokens, positions, copies = range(V), range(V, V + P), range(V + P, 2 * V + P)
    config = {"vocab_size": V, "max_len": P, "d_model": D, "n_heads": 2, "n_layers": 2, "d_ff": 1}
    w = {"token_emb.weight": torch.eye(V, D), "pos_emb.weight": torch.eye(P, D).roll(V, 1)}
    w |= {"ln_f.weight": torch.ones(D), "ln_f.bias": torch.zeros(D)}
    for layer in ("blocks.0", "blocks.1"):
        for norm in ("ln1", "ln2"):
            w |= {f"{layer}.{norm}.weight": torch.ones(D), f"{layer}.{norm}.bias": torch.zeros(D)}
        for name in ("W_q", "W_k", "W_v", "W_out"):
            w |= {f"{layer}.attn.{name}.weight": torch.zeros(D, D), f"{layer}.attn.{name}.bias": torch.zeros(D)}
        w |= {f"{layer}.ffn.up.weight": torch.zeros(1, D), f"{layer}.ffn.up.bias": torch.zeros(1)}
        w |= {f"{layer}.ffn.down.weight": torch.zeros(D, 1), f"{layer}.ffn.down.bias": torch.zeros(D)}

    previous, first = "blocks.0.attn", 0  # its head 0 has the features from 0
    for p in positions:
        if p + 1 in positions:
            w[f"{previous}.W_q.weight"][first + p - V, p + 1] = SCORE_MARGIN
        w[f"{previous}.W_k.weight"][first + p - V, p] = 1.0
    induction, first_1 = "blocks.1.attn", d_head  # its head 1 has the features from d_head
    for token, copy in zip(tokens, copies):
        w[f"{previous}.W_v.weight"][first + token, token] = 1.0
        w[f"{previous}.W_out.weight"][copy, first + token] = 1.0
        w[f"{induction}.W_q.weight"][first_1 + token, token] = SCORE_MARGIN
        w[f"{induction}.W_k.weight"][first_1 + token, copy] = 1.0
        w[f"{induction}.W_v.weight"][first_1 + token, token] = 1.0
        w[f"{induction}.W_out.weight"][token, first_1 + token] = 4.0  # more than the present token's own feature
    # position 0 has no previous position, and its second features hold its own token
    w[f"{induction}.W_q.bias"][first_1 + V] = SCORE_MARGIN
    w[f"{induction}.W_k.weight"][first_1 + V, positions[0]] = -1.0
    return config, w


def ids_of(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


def feature(number: int) -> Tensor:
    """Return a direction of the stream: +1 and then -1, so that a sum of features has mean 0 and a known norm."""
    direction = torch.zeros(24)
    direction[2 * number], direction[2 * number + 1] = 1.0, -1.0
    return direction


@torch.no_grad()
def capitals(chapter: ModuleType) -> nn.Module:
    """Return the GPT of lesson 12, which answers `of france the capital is` with paris.

    Block 0 does nothing. In block 1 head 0 of the last position reads which country is at position 1; in block 2 the
    feed-forward makes the capital of it. What is not named here is 0. Of the features of the stream, 0-2 name a
    country, 3-5 one that was read, and 6-8 a capital.
    """
    sizes = {"vocab_size": 10, "max_len": 5, "d_model": 24, "n_heads": 2, "n_layers": 3, "d_ff": 3}
    config = sys.modules[chapter.GPT.__module__].GPTConfig(**sizes, tie_weights=False, activation="relu")
    model = chapter.GPT(config).eval()
    for name, parameter in model.named_parameters():
        parameter.fill_(1.0 if "ln" in name and name.endswith("weight") else 0.0)
    move, answer = model.blocks[1].attn, model.blocks[2].ffn
    for position, place in enumerate((PLAIN, SECOND, PLAIN, PLAIN, LAST)):
        model.pos_emb.weight[position] = feature(place)
    # the last position attends to the second, the others to a position without a country
    move.W_q.weight[0], move.W_k.weight[0] = 10 * feature(LAST), feature(SECOND)
    move.W_q.weight[1], move.W_k.weight[1] = 10 * (feature(PLAIN) + feature(SECOND)), feature(PLAIN)
    two = 2 * math.sqrt(6)  # the product with a feature that is one of two in a normalised state
    for k in range(3):
        model.token_emb.weight[COUNTRY + k] = feature(k)
        move.W_v.weight[k] = feature(k) / two
        move.W_out.weight[:, k] = feature(3 + k)
        answer.up.weight[k] = feature(3 + k)
        answer.down.weight[:, k] = 2 * feature(6 + k) / two
        model.lm_head.weight[COUNTRY + k] = feature(3 + k)
        model.lm_head.weight[CAPITAL + k] = math.sqrt(2) * feature(6 + k)
    return model
