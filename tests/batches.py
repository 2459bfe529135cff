"""Batches of ids and targets in which not every row has as many tokens that count."""

from __future__ import annotations

from strategies import distinct, token_ids


def batches_of(seed, n, counts):
    """Batches (B, T), (B, T + 1), ... with unequal numbers of tokens: targets of -100 on the left and on the right."""
    batches = []
    for i, (rows, kept) in enumerate(counts):
        inputs, targets = (token_ids(seed + 2 * i + which, rows, n.T + i, vocab=n.V) for which in (0, 1))
        for row in range(rows):
            targets[row, kept + row % 2 :] = -100
            targets[row, : row % 2] = -100
        batches.append((inputs, targets))
    return batches


UNEQUAL = ((2, 1), (3, 3), (1, 2))  # 2, 9 and 2 tokens
language = distinct(T=(5, 6), V=(9, 12))
