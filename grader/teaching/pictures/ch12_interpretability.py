"""The picture of lesson 12, and the model in it: a GPT whose weights are set by hand, so that every step of its answer is known."""

from __future__ import annotations

import math
import sys
from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap
from torch import Tensor, nn

WORDS = ("of", "the", "capital", "is", "france", "italy", "japan", "paris", "rome", "tokyo")
COUNTRY, CAPITAL = 4, 7  # the ids of the first of each
PLAIN, SECOND, LAST = 9, 10, 11  # features that say which position this is; 0-2 name a country, 3-5 one that was read, 6-8 a capital


def draw(chapter: ModuleType) -> str:
    """How much of the logit of paris each patched state brings back, by block and position."""
    model = capitals(chapter)
    clean, corrupted = ids_of("of france the capital is"), ids_of("of italy the capital is")
    ends = [model(ids)[0][0, -1].detach() for ids in (clean, corrupted)]
    rows = [[chapter.recovery(*ends, chapter.patch_residual(model, clean, corrupted, layer, position)[0, -1], CAPITAL) for position in range(5)] for layer in range(3)]
    title = "Recovery of the logit of paris by one clean state in a corrupted run"
    return heatmap(rows, [f"after block {i}" for i in range(3)], ["of", "italy", "the", "capital", "is"], title, column_name="patched position")


def ids_of(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


def feature(number: int) -> Tensor:
    """A direction of the stream: +1 in one place and -1 in the next, so that every sum of features has mean 0 and a norm known beforehand."""
    direction = torch.zeros(24)
    direction[2 * number], direction[2 * number + 1] = 1.0, -1.0
    return direction


@torch.no_grad()
def capitals(chapter: ModuleType) -> nn.Module:
    """Answers `of france the capital is` with paris.

    Block 0 does nothing. In block 1 head 0 of the last position reads which country is at position 1; in block 2 the
    feed-forward makes the capital of it. What is not named here is 0.
    """
    config = sys.modules[chapter.GPT.__module__].GPTConfig(vocab_size=10, max_len=5, d_model=24, n_heads=2, n_layers=3, d_ff=3, tie_weights=False, activation="relu")
    model = chapter.GPT(config).eval()
    for name, parameter in model.named_parameters():
        parameter.fill_(1.0 if "ln" in name and name.endswith("weight") else 0.0)
    move, answer = model.blocks[1].attn, model.blocks[2].ffn
    for position, place in enumerate((PLAIN, SECOND, PLAIN, PLAIN, LAST)):
        model.pos_emb.weight[position] = feature(place)
    move.W_q.weight[0], move.W_k.weight[0] = 10 * feature(LAST), feature(SECOND)  # the last position seeks the second,
    move.W_q.weight[1], move.W_k.weight[1] = 10 * (feature(PLAIN) + feature(SECOND)), feature(PLAIN)  # the others what names no country
    two = 2 * math.sqrt(6)  # what a feature gives that is one of two in a normalised state
    for k in range(3):
        model.token_emb.weight[COUNTRY + k] = feature(k)
        move.W_v.weight[k] = feature(k) / two
        move.W_out.weight[:, k] = feature(3 + k)
        answer.up.weight[k] = feature(3 + k)
        answer.down.weight[:, k] = 2 * feature(6 + k) / two
        model.lm_head.weight[COUNTRY + k] = feature(3 + k)
        model.lm_head.weight[CAPITAL + k] = math.sqrt(2) * feature(6 + k)
    return model
