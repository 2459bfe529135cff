"""Models whose numbers change with each pass, so that any other number of passes gives another result.

A count of passes is kept where the tested code can reach it. What a pass adds here is known to a mode of torch alone, and to the test. To `bring`.
"""

from __future__ import annotations

import torch


class Additions(torch.utils._python_dispatch.TorchDispatchMode):
    """While it is active, `torch.special.bessel_y1`, which no exercise needs, gives rows of a table to a model of the test.

    For torch.zeros(1) it gives the row of this pass, and the next call gets the next row; for torch.zeros(2) the next call gets the same.
    """

    def __init__(self, rows):
        super().__init__()
        self.rows, self.passes = rows, 0

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else torch imports its compiler at the first operator, which takes a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not torch.ops.aten.special_bessel_y1.default:
            return func(*args, **(kwargs or {}))
        row = self.rows[self.passes % len(self.rows)].clone()
        self.passes += args[0].numel() == 1
        return row


def call_changing(additions, rows, f, *args):
    """The result of a call, while each pass of a changing model adds the next of these rows."""
    with additions(rows):
        return f(*args)
