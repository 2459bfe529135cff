"""Lesson 15: what 8 bits cost in loss, and what they save in bytes.

A GPT learns the course's twenty sentences. Then the matrix of each linear layer of its blocks is stored with fewer bits, in several ways.
The last columns are for the same model with outliers: in each head one feature of the queries and values is scaled up, and the keys and the
output projection scale it down again. The model computes the same, but a few rows of its matrices are large, as in large models.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from grader.teaching.measurements.serving import word_ids
from rich.table import Table
from torch import Tensor, nn

WIDTH, LAYERS, HEADS, STEPS = 64, 2, 4, 80
OUTLIER = 30.0

Quantize = Callable[[Tensor], tuple[Tensor, Tensor]]


def one_scale(weight: Tensor) -> tuple[Tensor, Tensor]:
    """One scale for the whole matrix: codes, and the scale of each row."""
    scale = (weight.abs().max() / 127).expand(weight.size(0))
    return (weight / scale[:, None]).round().clamp(-127, 127), scale


def cut_off(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A scale for each row, but digits are cut off instead of rounded."""
    scale = weight.abs().amax(1) / 127
    return (weight / scale[:, None]).trunc(), scale


def four_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A scale for each row, and codes from -7 to 7."""
    scale = weight.abs().amax(1) / 7
    return (weight / scale[:, None]).round(), scale


def linear_layers(model: nn.Module) -> list[tuple[nn.Module, str, nn.Linear]]:
    """Return the linear layers of the blocks, with the module and the name where each is."""
    return [
        (module, name, child)
        for block in model.blocks  # type: ignore[union-attr]
        for module in block.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.Linear)
    ]


def rounded(model: nn.Module, quantize: Quantize) -> nn.Module:
    """Return a copy of the model whose matrices are codes times scale."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for _, _, linear in linear_layers(model):
            codes, scale = quantize(linear.weight)
            linear.weight.copy_(codes * scale[:, None])
    return model


def with_quantized_layers(model: nn.Module, serving: ModuleType) -> nn.Module:
    """Return a copy of the model with a QuantizedLinear instead of each linear layer."""
    model = copy.deepcopy(model)
    for module, name, linear in linear_layers(model):
        setattr(module, name, serving.QuantizedLinear(linear))
    return model


def with_outliers(model: nn.Module) -> nn.Module:
    """Return a copy in which one feature of each head's queries and values is large; keys and output projection make up for it."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for block in model.blocks:  # type: ignore[union-attr]
            d_head = block.attn.W_q.out_features // block.attn.n_heads
            for linear, factor in ((block.attn.W_q, OUTLIER), (block.attn.W_k, 1 / OUTLIER), (block.attn.W_v, OUTLIER)):
                linear.weight[::d_head] *= factor
                linear.bias[::d_head] *= factor
            block.attn.W_out.weight[:, ::d_head] /= OUTLIER
    return model


def stored_bytes(model: nn.Module) -> int:
    """Count the bytes of the matrices of the linear layers in the blocks, with their scales."""
    layers = [module for block in model.blocks for module in block.modules() if hasattr(module, "weight") and module.weight.dim() == 2]  # type: ignore[union-attr]
    stored = [tensor for layer in layers for tensor in (layer.weight, getattr(layer, "scale", None)) if tensor is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in stored)


def report(package: ChapterPackage, seed: int) -> Iterable[Table | str]:
    serving, models, training = (package.module(name) for name in ("ch15_serving", "ch07_models", "ch08_training"))
    tokenizer, (inputs, targets) = word_ids(package)
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(tokenizer.vocab_size, 32, WIDTH, HEADS, LAYERS, tie_weights=False))
    optimizer = training.AdamW(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        training.train_step(model, optimizer, inputs, targets)
    model.eval()
    outliers = with_outliers(model)
    full = stored_bytes(model)
    eight, layers = stored_bytes(with_quantized_layers(model, serving)), linear_layers(model)
    four = full // 8 + sum(4 * linear.out_features for _, _, linear in layers)
    kinds = (
        ("float32", full, lambda one: one),
        ("8 bits, a scale for each row", eight, lambda one: with_quantized_layers(one, serving)),
        ("8 bits, cut off instead of rounded", eight, lambda one: rounded(one, cut_off)),
        ("8 bits, one scale for the matrix", full // 4 + 4 * len(layers), lambda one: rounded(one, one_scale)),
        ("4 bits, a scale for each row", four, lambda one: rounded(one, four_bits)),
    )
    rows = []
    with torch.no_grad():
        plain = model(inputs)[0]
        for name, size, change in kinds:
            row = [name, f"{size:,}"]
            for one in (model, outliers):
                logits, loss = change(one)(inputs, targets)
                row += [f"{float((logits - plain).square().mean().sqrt() / plain.std()):.1%}", f"{float(loss):.3f}"]
            rows.append(row)
    yield make_table("The matrices of two blocks", ["stored as", "bytes", "error", "loss", "error, outliers", "loss, outliers"], rows)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch15_serving", report, arguments)


if __name__ == "__main__":
    sys.exit(main())
