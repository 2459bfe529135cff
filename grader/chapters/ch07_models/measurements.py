"""The loss of models with random weights."""

from __future__ import annotations

import copy
import math

import torch
from grader.chapters.small_models import scaled_normal_
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor, nn
from torch.nn.functional import one_hot


@torch.no_grad()
def report_first_loss(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 7: the loss of untrained GPTs, with matrices from N(0, 0.02) and with a tied embedding from N(0, 1).

    All models have tied weights and learned positions, and get random tokens. The second part has GPTs of twelve
    layers, whose matrices are drawn with a standard deviation of 1/√columns. It measures how the residual stream grows,
    and what two mistakes with GPT-2's weights change.
    """
    models = chapters.module("ch07_models")
    layers, heads, batch, positions = 4, 4, 8, 32
    rows, sentences = [], []
    for V, D in ((1_000, 64), (5_000, 256)):
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(V, positions, D, heads, layers))
        tokens = torch.randint(V, (batch, positions + 1))
        ids, targets = tokens[:, :-1], tokens[:, 1:]
        own = one_hot(ids, V).bool()
        logits, loss = model(ids, targets)
        nn.init.normal_(model.token_emb.weight)
        wide, loss_wide = model(ids, targets)
        rows.append([f"{V:,}", D, math.log(V), float(loss), f"{loss_wide:.1f}"])
        sentences.append(
            f"V = {V:,}, N(0, 1): the input token's own logit is {wide[own].mean():.1f} on average, "
            f"the other logits have a standard deviation of {wide[~own].std():.1f}."
        )
        sentences.append(f"V = {V:,}, N(0, 0.02): the input token's own logit is {logits[own].mean():.2f} on average.")
    columns = ("V", "D", "ln V", "first loss", "first loss, embedding N(0, 1)")
    yield result_table(f"{layers} layers, tied weights", columns, rows, ".3f")
    yield from sentences[:2]

    V, D, deep = 1_000, 64, 12
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(V, positions, D, heads, deep, activation="gelu_tanh")).eval()
    scaled_normal_(model)
    ids = torch.randint(V, (batch, positions))
    ends: list[Tensor] = []
    model.blocks[0].register_forward_pre_hook(lambda module, inputs: ends.append(inputs[0]))
    last = model.blocks[-1].register_forward_hook(lambda module, inputs, output: ends.append(output))
    logits, _ = model(ids)
    last.remove()
    exact = models.GPT(models.GPTConfig(V, positions, D, heads, deep, activation="gelu")).eval()
    exact.load_state_dict(model.state_dict())
    off = (exact(ids)[0] - logits).abs().max()
    wrong = copy.deepcopy(model)
    for block in wrong.blocks:
        block.attn.W_out.weight.copy_(block.attn.W_out.weight.T.clone())
    changed = (wrong(ids)[0].argmax(-1) != logits.argmax(-1)).float().mean()
    yield f"{deep} layers: the standard deviation of the stream grows from {ends[0].std():.2f} to {ends[1].std():.1f}."
    yield (
        f"{deep} layers, {deep} square matrices transposed: "
        f"another likeliest token at {100 * changed:.0f} % of the positions."
    )
    shown = f"{off:.4f}; their standard deviation is {logits.std():.1f}"
    yield f"{deep} layers, exact gelu: logits change by up to {shown}."
