"""Random inputs and parameters, and the comparison of our values and gradients with published ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

Pairs = list[tuple[list[Tensor], Tensor]]  # which of our parameters, one below the other, make up which published one


def normal(*shape: int, dtype: torch.dtype = torch.float64, scale: float = 1.0, mean: float = 0.0) -> Tensor:
    return (torch.randn(*shape, dtype=torch.float64) * scale + mean).to(dtype).requires_grad_()


def some(*shape: int) -> Tensor:
    """A mask with both True and False in every row."""
    x = torch.randn(*shape)
    return ((x > 0) | (x == x.amax(-1, keepdim=True))) & (x != x.amin(-1, keepdim=True))


def padding(rows: int, width: int) -> Tensor:
    """(rows, width), True at real keys: padding on the left, on the right, on both sides."""
    real = torch.ones(rows, width, dtype=torch.bool)
    real[0, :2] = real[1, -3:] = real[2, :1] = real[2, -1:] = False
    return real


def randomised(module: nn.Module, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Every parameter random at a healthy scale."""
    module.to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=scale * parameter.size(-1) ** -0.5 if parameter.dim() > 1 else scale)
    return module


@torch.no_grad()
def sharpened(model: nn.Module, scale: float = 1.0) -> nn.Module:
    """One of Hugging Face's models with random weights, in which attention is sharp and every bias and gain counts."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=scale * parameter.size(0) ** -0.5)
        else:
            parameter.normal_(mean=0.3)
    return model.eval()


def same(got: Tensor, expected: Tensor, tol: float = 1e-9) -> None:
    largest = float(expected.detach().abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol * max(1.0, largest))


def agree(got: Tensor, expected: Tensor, *leaves: Tensor, pairs: Pairs = (), tol: float = 1e-9) -> None:
    """Equal values, equal gradients of the leaves, and of each pair of parameters."""
    same(got, expected, tol)
    mine = [parameter for parts, _ in pairs for parameter in parts]
    cotangent = torch.randn_like(expected)
    found = torch.autograd.grad(got, [*leaves, *mine], cotangent, retain_graph=True)
    wanted = torch.autograd.grad(expected, [*leaves, *(other for _, other in pairs)], cotangent, retain_graph=True)
    for one, other in zip(found[: len(leaves)], wanted):
        same(one, other, tol)
    rest = iter(found[len(leaves) :])
    for (parts, _), gradient in zip(pairs, wanted[len(leaves) :], strict=True):
        same(torch.cat([next(rest) for _ in parts]), gradient, tol)


def copied(pairs: Pairs) -> Pairs:
    """Copy our parameters into the published ones."""
    with torch.no_grad():
        for parts, theirs in pairs:
            theirs.copy_(torch.cat(parts))
    return pairs


def linear_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    """Weight, and bias if there is one, of layers that store them alike."""
    return [([parameter], getattr(theirs, name)) for name, parameter in ours.named_parameters()]


def attention_pairs(ours: nn.Module, theirs: nn.MultiheadAttention) -> Pairs:
    """nn.MultiheadAttention stores the maps of queries, keys and values in one matrix."""
    maps = (ours.W_q, ours.W_k, ours.W_v)
    pairs = [([part.weight for part in maps], theirs.in_proj_weight)]
    if ours.W_q.bias is not None:
        pairs.append(([part.bias for part in maps], theirs.in_proj_bias))
    return pairs + linear_pairs(ours.W_out, theirs.out_proj)


def encoder_layer_pairs(ours: nn.Module, theirs: nn.TransformerEncoderLayer) -> Pairs:
    pairs = attention_pairs(ours.attn, theirs.self_attn) + linear_pairs(ours.ln1, theirs.norm1)
    pairs += linear_pairs(ours.ln2, theirs.norm2)
    return pairs + linear_pairs(ours.ffn.up, theirs.linear1) + linear_pairs(ours.ffn.down, theirs.linear2)


def decoder_layer_pairs(ours: nn.Module, theirs: nn.TransformerDecoderLayer) -> Pairs:
    pairs = attention_pairs(ours.self_attn, theirs.self_attn) + attention_pairs(ours.cross_attn, theirs.multihead_attn)
    for mine, other in ((ours.ln1, theirs.norm1), (ours.ln2, theirs.norm2), (ours.ln3, theirs.norm3)):
        pairs += linear_pairs(mine, other)
    return pairs + linear_pairs(ours.ffn.up, theirs.linear1) + linear_pairs(ours.ffn.down, theirs.linear2)


def torchs_seq2seq(model: nn.Module, config) -> tuple[nn.Transformer, Pairs]:
    """nn.Transformer with the numbers of our Seq2Seq; its two final norms, which ours does not have, are removed."""
    layers = len(model.encoder_blocks), len(model.decoder_blocks)
    theirs = nn.Transformer(config.d_model, config.n_heads, *layers, config.d_ff, dropout=0.0, batch_first=True).double()
    theirs.encoder.norm = theirs.decoder.norm = None
    pairs = []
    for layer, block in zip(theirs.encoder.layers, model.encoder_blocks):
        pairs += encoder_layer_pairs(block, layer)
    for layer, block in zip(theirs.decoder.layers, model.decoder_blocks):
        pairs += decoder_layer_pairs(block, layer)
    return theirs, copied(pairs)


def embedded(table: Tensor, ids: Tensor) -> Tensor:
    """As in the paper: sqrt(D) times the row, plus sines and cosines."""
    width = table.size(1)
    place, column = torch.arange(ids.size(1), dtype=torch.float64)[:, None], torch.arange(width)
    angle = place / 10000 ** (column // 2 * 2 / width)
    return table[ids] * math.sqrt(width) + torch.where(column % 2 == 0, angle.sin(), angle.cos())
