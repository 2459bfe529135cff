"""Chapter 21's kernels for rows against torch and transformers, and against earlier chapters, on rows of real sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from agreement import normal, same
from grader.execution.simulated_gpu import launch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

ROWS, COLUMNS, BLOCK = 5, 200, 256


def rows(dtype=torch.float32, scale=3.0):
    return normal(ROWS, COLUMNS, dtype=dtype, scale=scale).detach()


def test_add_is_torch_add(ours):
    x, y, out = rows().flatten(), rows().flatten(), torch.empty(ROWS * COLUMNS)
    launch(ours.add_kernel, (-(-len(x) // 64),), x, y, out, len(x), BLOCK=64)
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_both_softmaxes_are_those_of_torch_and_chapter_3(ours, dtype):
    x, short, long = rows(dtype), torch.empty(ROWS, COLUMNS, dtype=dtype), torch.empty(ROWS, COLUMNS, dtype=dtype)
    launch(ours.softmax_kernel, (ROWS,), x, short, COLUMNS, COLUMNS, BLOCK=BLOCK)
    launch(ours.long_softmax_kernel, (ROWS,), x, long, COLUMNS, BLOCK=16)
    for out in (short, long):
        same(out, torch.softmax(x, dim=1), 1e-6 if dtype == torch.float32 else 1e-3)
        same(out.float(), ours.softmax(x.float(), 1), 1e-6 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_norm_is_that_of_llama_and_of_chapter_5(ours, dtype):
    x, out = rows(dtype), torch.empty(ROWS, COLUMNS, dtype=dtype)
    theirs, mine = LlamaRMSNorm(COLUMNS, eps=1e-3).to(dtype), ours.RMSNorm(COLUMNS, eps=1e-3)
    with torch.no_grad():
        theirs.weight.copy_(normal(COLUMNS))
        mine.weight.copy_(theirs.weight)
        launch(ours.rms_norm_kernel, (ROWS,), x, theirs.weight.detach(), out, COLUMNS, 1e-3, BLOCK=BLOCK)
        same(out, theirs(x), 1e-6 if dtype == torch.float32 else 2e-3)  # theirs rounds before the weight, too
        same(out.float(), mine(x.float()), 1e-6 if dtype == torch.float32 else 1e-3)


def test_the_loss_and_its_gradient_are_those_of_torch(ours):
    logits, targets = rows().requires_grad_(), torch.randint(COLUMNS, (ROWS,))
    targets[1] = -100
    loss, gradient = torch.empty(ROWS), torch.empty(ROWS, COLUMNS)
    launch(ours.cross_entropy_kernel, (ROWS,), logits.detach(), targets, loss, gradient, COLUMNS, BLOCK=BLOCK)
    expected = F.cross_entropy(logits, targets, reduction="none")
    same(loss, expected.detach(), 1e-6)
    expected.sum().backward()
    same(gradient, logits.grad, 1e-6)
