"""Inside a model: what each layer holds, and what its heads do."""

from __future__ import annotations

import torch
from grader.chapters.ch06_blocks.show import D
from grader.chapters.ch07_models.show import IDS, small_gpt
from grader.chapters.ch12_interpretability.circuits import induction_circuit
from grader.execution.proxy import Handle, Implementation, load
from grader.teaching.show.panel_makers import QUERY_KEY, WORDS, make_grid
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

LETTERS = "abcdefgh"
REPEATED = "dafcdafc"  # a word of four letters, twice


def residual_stream(side: Implementation) -> list[Panel]:
    stream = side.residual_stream(small_gpt(side, 4, 2), torch.tensor([IDS]))
    if not isinstance(stream, list | tuple):
        shaped(stream, (5, 1, 7, D), "the list of streams")
    norms = torch.stack([shaped(state, (1, 7, D), "each state").detach()[0].norm(dim=-1) for state in stream])
    return [make_grid("the norm of each vector", norms, ["embedded", *(f"block {i}" for i in range(4))], WORDS)]


def attention_patterns(side: Implementation) -> list[Panel]:
    patterns = side.attention_patterns(_induction_model(side), _letter_ids(REPEATED))
    shaped(patterns, (2, 1, 2, 8, 8), "the result")
    panels: list[Panel] = []
    for layer, head in ((0, 0), (1, 1)):
        title, weights = f"layer {layer}, head {head}", patterns[layer, 0, head]
        panels.append(make_grid(title, weights, REPEATED, REPEATED, QUERY_KEY))
    return panels


def logit_lens(side: Implementation) -> list[Panel]:
    ids = _letter_ids(REPEATED)
    logits = shaped(side.logit_lens(_induction_model(side), ids), (3, 1, 8, len(LETTERS)), "the result")
    probabilities = torch.softmax(logits.detach(), dim=-1)[:, 0, :-1]
    of_next = probabilities.gather(-1, ids[0, 1:].expand(3, 7)[..., None])[..., 0]
    columns = [f"{a}>{b}" for a, b in zip(REPEATED, REPEATED[1:])]
    return [make_grid("the probability of the next letter", of_next, ["embedded", "block 0", "block 1"], columns)]


def find_induction_heads(side: Implementation) -> list[Panel]:
    scores, rows = side.find_induction_heads(_induction_model(side), 5, 4), ["layer 0", "layer 1"]
    return [make_grid("the induction score of each head", scores, rows, 2, ("", "head"), near=0.1)]


def patch_residual(side: Implementation) -> list[Panel]:
    """`abcdabc` continues with d. How much of the logit of d does one state restore in a run on `abceabc`?"""
    model, clean, corrupted = _induction_model(side), _letter_ids("abcdabc"), _letter_ids("abceabc")

    def logit_of_d(logits: object) -> float:
        return float(shaped(logits, (1, 7, len(LETTERS)), "the result")[0, -1, LETTERS.index("d")])

    good, bad = (logit_of_d(model(ids)[0]) for ids in (clean, corrupted))
    table = torch.zeros(2, 7)
    for layer in range(2):
        for position in range(7):
            patched = logit_of_d(side.patch_residual(model, clean, corrupted, layer, position))
            table[layer, position] = (patched - bad) / (good - bad)
    title, rows = "how much of the answer one state restores", ["block 0", "block 1"]
    return [make_grid(title, table, rows, "abceabc", ("", "patched at"))]


def _induction_model(side: Implementation) -> Handle:
    """Return a GPT with weights set by hand, so that the function of its two layers is known."""
    config, weights = induction_circuit(len(LETTERS), 12)
    model = side.GPT(side.GPTConfig(**config))
    load(model, weights)
    model.eval()
    return model


def _letter_ids(text: str) -> Tensor:
    return torch.tensor([[LETTERS.index(letter) for letter in text]])
