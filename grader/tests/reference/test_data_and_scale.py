"""Chapter 19's count of FLOPs against that of torch, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

CONFIGS = {
    "one block": dict(d_model=8, n_heads=2, n_layers=1),
    "wide feed-forward": dict(d_model=12, n_heads=3, n_layers=2, d_ff=31),
    "rope, untied": dict(d_model=8, n_heads=1, n_layers=3, positions="rope", tie_weights=False),
    "alibi": dict(d_model=16, n_heads=4, n_layers=2, d_ff=8, positions="alibi"),
}


@pytest.mark.parametrize("sizes", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("rows", "length"), [(1, 7), (3, 10)])
def test_the_flops_of_a_training_are_those_that_torch_counts(ours, sizes, rows, length):
    config = ours.GPTConfig(vocab_size=13, max_len=10, **sizes)
    model, ids = ours.GPT(config), torch.randint(13, (rows, length + 1))
    with FlopCounterMode(display=False) as counter:
        model(ids[:, :-1], ids[:, 1:])[1].backward()
    exact, estimate = ours.training_flops(config, rows * length, length)
    assert exact == counter.get_total_flops()
    assert estimate == 6 * sum(p.numel() for p in model.parameters()) * rows * length
