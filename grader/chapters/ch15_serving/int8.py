"""What 8 bits cost in loss, and what they save in bytes (lesson 15)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from grader.chapters.small_models import names_of, sentence_gpt
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor, nn

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
    modules = [module for block in model.blocks for module in block.modules()]  # type: ignore[union-attr]
    children = [(module, name, child) for module in modules for name, child in module.named_children()]
    return [(module, name, child) for module, name, child in children if isinstance(child, nn.Linear)]


@torch.no_grad()
def rounded(model: nn.Module, quantize: Quantize) -> nn.Module:
    """Return a copy of the model whose matrices are codes times scale."""
    model = copy.deepcopy(model)
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


@torch.no_grad()
def with_outliers(model: nn.Module) -> nn.Module:
    """Return a copy in which one feature of each head's queries and values is large; keys and W_out make up for it."""
    model = copy.deepcopy(model)
    for block in model.blocks:  # type: ignore[union-attr]
        attention = block.attn
        d_head = attention.W_q.out_features // attention.n_heads
        for linear, factor in ((attention.W_q, OUTLIER), (attention.W_k, 1 / OUTLIER), (attention.W_v, OUTLIER)):
            linear.weight[::d_head] *= factor
            linear.bias[::d_head] *= factor
        attention.W_out.weight[:, ::d_head] /= OUTLIER
    return model


def stored_bytes(model: nn.Module) -> int:
    """Count the bytes of the matrices of the linear layers in the blocks, with their scales."""
    modules = [module for block in model.blocks for module in block.modules()]  # type: ignore[union-attr]
    layers = [module for module in modules if hasattr(module, "weight") and module.weight.dim() == 2]
    stored = [tensor for layer in layers for tensor in (layer.weight, getattr(layer, "scale", None))]
    return sum(tensor.numel() * tensor.element_size() for tensor in stored if tensor is not None)


def report_int8(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 15: what 8 bits cost in loss, and what they save in bytes.

    A GPT learns the course's twenty sentences. Then the matrix of each linear layer of its blocks is stored with fewer
    bits, in several ways. The last columns are for the same model with outliers: in each head one feature of the
    queries and values is scaled up, and the keys and the output projection scale it down again. The model computes the
    same, but a few rows of its matrices are large, as in large models.
    """
    serving, *others = map(chapters.module, ("ch15_serving", "ch01_tokenizer", "ch07_models", "ch08_training"))
    parts = names_of(*others)
    sizes = {"max_len": 32, "d_model": 64, "n_heads": 4, "n_layers": 2, "tie_weights": False}
    model, _, (inputs, targets), _ = sentence_gpt(parts, seed, 80, show_progress, **sizes)
    outliers = with_outliers(model)
    layers, full, eight = linear_layers(model), stored_bytes(model), stored_bytes(with_quantized_layers(model, serving))
    four = full // 8 + sum(4 * linear.out_features for _, _, linear in layers)
    kinds: tuple[tuple[str, int, Callable[[nn.Module], nn.Module]], ...] = (
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
            row: list[Any] = [name, f"{size:,}"]
            for one in (model, outliers):
                logits, loss = change(one)(inputs, targets)
                error = (logits - plain).square().mean().sqrt() / plain.std()
                row += [f"{float(error):.1%}", float(loss)]
            rows.append(row)
    columns = ("stored as", "bytes", "error", "loss", "error, outliers", "loss, outliers")
    yield result_table("The matrices of two blocks", columns, rows, ".3f")
