"""How much gradient reaches the first of many blocks with random weights."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import torch
from grader.chapters.small_models import scaled_normal_
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

DEPTH, DRAWS = 24, 8
WAYS = ("pre-norm", "post-norm", "no residuals", "neither")  # neither residuals nor norms


def apply_block(block: nn.Module, way: str, x: Tensor) -> Tensor:
    """Apply one block, assembled in this way from chapter 6's parts."""
    if way == "pre-norm":
        x = x + block.attn(block.ln1(x))
        return x + block.ffn(block.ln2(x))
    if way == "post-norm":
        x = block.ln1(x + block.attn(x))
        return block.ln2(x + block.ffn(x))
    if way == "no residuals":
        return block.ffn(block.ln2(block.attn(block.ln1(x))))
    return block.ffn(block.attn(x))


def measure_way(chapter: ModuleType, way: str, seed: int) -> SimpleNamespace:
    """Send a gradient of norm 1 back from the output of the last block, with one draw of weights and input.

    Every way gets the same draw. The result has the sizes of the gradients at the inputs of the blocks, first to last,
    their dot products with the output's gradient, and the mean cosine between neighbouring positions at the output.
    """
    d_model = 32
    generator = torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        blocks = [chapter.PreNormBlock(d_model, 4).double() for _ in range(DEPTH)]
        for block in blocks:
            scaled_normal_(block, generator)
            for name, parameter in block.named_parameters():
                if name.endswith("bias"):
                    parameter.data.zero_()
        x, sent = (torch.randn(2, 16, d_model, generator=generator, dtype=torch.float64) for _ in range(2))
        inputs = [x.requires_grad_()]
        for block in blocks:
            inputs.append(apply_block(block, way, inputs[-1]))
        output = inputs.pop()
        arrived = torch.autograd.grad((output * sent).sum(), inputs)
    sizes = [float(gradient.norm() / sent.norm()) for gradient in arrived]
    as_sent = [float((gradient * sent).sum() / sent.square().sum()) for gradient in arrived]
    alike = float(cosine_similarity(output.detach()[:, 1:], output.detach()[:, :-1], dim=-1).mean())
    return SimpleNamespace(sizes=sizes, as_sent=as_sent, alike=alike)


def report_depth(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 6: how much gradient reaches the input of each of 24 blocks, with and without residual connections.

    Weights are drawn from N(0, 1/fan_in), biases are zero, norms do not scale or shift, the input is normal noise, and
    so is the gradient at the output. So only the path through the blocks is measured, before any training.
    """
    chapter, rows = chapters.module("ch06_blocks"), []
    found = [[measure_way(chapter, way, seed + draw) for draw in range(DRAWS)] for way in WAYS]
    for block in (24, 18, 12, 6, 1):
        rows.append([f"norm, {block}", *(_range([draw.sizes[block - 1] for draw in draws], ".2g") for draws in found)])
    for block in (12, 1):
        sent = [[draw.as_sent[block - 1] for draw in draws] for draws in found]
        rows.append([f"as sent, {block}", *(_range(values, ".2f") for values in sent)])
    rows.append(["neighbours", *(_range([draw.alike for draw in draws], ".2f") for draws in found)])
    title = f"A gradient of norm 1 at the output of {DEPTH} blocks: the gradients at their inputs"
    yield result_table(title, ("block", *WAYS), rows)
    yield (
        f"Smallest and largest of {DRAWS} draws. norm: of the gradient at the input. "
        "as sent: its dot product with the output's gradient."
    )
    yield "neighbours: cosine of neighbouring positions at the output. neither: no residuals and no norms."


def _range(values: list[float], form: str) -> str:
    low, high = (f"{value:{form}}".replace("-0.00", "0.00") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
