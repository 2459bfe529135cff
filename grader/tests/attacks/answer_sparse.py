# in process: yes
"""Hopes that a sparse tensor, whose indices lie outside of it, is read without a look at them."""

import torch


def softmax(x, dim=-1):
    with torch.sparse.check_sparse_tensor_invariants(False):
        return torch.sparse_coo_tensor(torch.tensor([[1 << 40]]), torch.ones(1), (3,))
