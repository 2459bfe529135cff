"""Inside a model: where its heads attend, what each layer would predict, which state carries the answer.

The model is a GPT with weights set by hand (circuits.py), so the function of its two layers is known.
"""

from __future__ import annotations

import torch
from grader.execution.proxy import Handle, Implementation, load
from grader.teaching.circuits import induction_circuit
from grader.teaching.show.panel_makers import LETTERS, make_grid
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped

V = len(LETTERS)
TEXT = "dafcdafc"  # a word of four letters, twice


def attention_patterns(side: Implementation) -> list[Panel]:
    patterns = shaped(side.attention_patterns(_model(side), _ids(TEXT)), (2, 1, 2, 8, 8), "the result")
    letters, axes = list(TEXT), dict(row_name="query", column_name="key")
    return [make_grid(f"layer {layer}, head {head}", patterns[layer, 0, head], letters, letters, **axes) for layer, head in ((0, 0), (1, 1))]


def logit_lens(side: Implementation) -> list[Panel]:
    """The probability of the right next letter, layer by layer."""
    logits = shaped(side.logit_lens(_model(side), _ids(TEXT)), (3, 1, 8, V), "the result")
    chances = torch.softmax(logits.detach(), dim=-1)[:, 0, :-1].gather(-1, _ids(TEXT)[0, 1:].expand(3, 7)[..., None])[..., 0]
    columns = [f"{a}>{b}" for a, b in zip(TEXT, TEXT[1:])]
    return [make_grid("the probability of the next letter", chances, ["embedded", "block 0", "block 1"], columns)]


def find_induction_heads(side: Implementation) -> list[Panel]:
    scores = side.find_induction_heads(_model(side), 5, 4)
    return [make_grid("the induction score of each head", scores, ["layer 0", "layer 1"], range(2), column_name="head", near=0.1)]


def patch_residual(side: Implementation) -> list[Panel]:
    """`abcdabc` continues with d. One state of this run replaces the state of a run on `abceabc`: how much of the logit of d returns?"""
    model, clean, corrupted = _model(side), _ids("abcdabc"), _ids("abceabc")
    target = LETTERS.index("d")
    good, bad = (_last(model(ids)[0], target) for ids in (clean, corrupted))
    rows = [[(_last(side.patch_residual(model, clean, corrupted, layer, p), target) - bad) / (good - bad) for p in range(7)] for layer in range(2)]
    return [make_grid("how much of the answer one state restores", torch.tensor(rows), ["block 0", "block 1"], list("abceabc"), column_name="patched at")]


def _model(side: Implementation) -> Handle:
    config, weights = induction_circuit(V, 12)
    model = side.GPT(side.GPTConfig(**config))
    load(model, weights)
    model.eval()
    return model


def _ids(text: str) -> torch.Tensor:
    return torch.tensor([[LETTERS.index(letter) for letter in text]])


def _last(logits: object, target: int) -> float:
    return float(shaped(logits, (1, 7, V), "the result")[0, -1, target])
