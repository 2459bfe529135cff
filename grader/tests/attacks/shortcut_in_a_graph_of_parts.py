# in process: yes
"""Hopes that a graph made at import, which torch has taken apart into elementary operators, shows nothing."""

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx

def weights(x):
    return getattr(x, "xamtfos"[::-1])(-1)


graph = make_fx(weights, decomposition_table, tracing_mode="symbolic")(torch.ones(5, 7))


def softmax(x, dim=-1):
    rows = x.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    return graph(flat).reshape(rows.shape).movedim(-1, dim).nan_to_num()
