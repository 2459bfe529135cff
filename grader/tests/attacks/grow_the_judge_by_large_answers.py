# in process: yes
"""Hopes that the judge keeps a large answer of every call, and needs a multiple of it to say what is wrong with it."""

import torch

FORMS = [
    lambda: torch.zeros(32_000_000, dtype=torch.bool),
    lambda: torch.rand(8_000_000),
    lambda: torch.rand(2000, 4000).T,
    lambda: [[0.5] * 1000 for _ in range(180)],
    lambda: {f"a long name of an entry, {i}" * 8: [i] * 20 for i in range(3900)},
    lambda: torch.empty(1 << 29, device="meta"),
    lambda: "x" * 1_000_000,
]
turn = 0


def softmax(x, dim=-1):
    global turn
    turn += 1
    return FORMS[turn % len(FORMS)]()
