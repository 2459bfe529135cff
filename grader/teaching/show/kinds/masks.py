"""Masks: which keys each query may see."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import WORDS, make_grid
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped

SEEN = ("hidden", "may attend")


def causal_mask(side: Implementation) -> list[Panel]:
    """The mask of a sentence, and of its last three words with the whole sentence as keys."""
    whole = make_grid("causal_mask(7)", side.causal_mask(7), WORDS, WORDS, row_name="query", column_name="key", words=SEEN)
    last = make_grid("causal_mask(3, 7)", side.causal_mask(3, 7), WORDS[4:], WORDS, row_name="query", column_name="key", words=SEEN)
    return [whole, last]


def padding_mask(side: Implementation) -> list[Panel]:
    ids = torch.tensor([[5, 3, 8, 6, 2], [4, 9, 0, 0, 0], [7, 1, 6, 0, 0]])
    mask = shaped(side.padding_mask(ids, 0), (3, 1, 1, 5), "the mask")
    rows = ["5 words", "2 words", "3 words"]
    return [
        make_grid("the ids, 0 is padding", ids, rows, range(5), row_name="sentence", column_name="position", given=True),
        make_grid("padding_mask(ids, 0)", mask[:, 0, 0], rows, range(5), row_name="sentence", column_name="position", words=SEEN),
    ]
