"""Chapter 14 against torch: its fused attention and its gradients, its checkpoints, its loss of a linear layer in chunks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import nn
from torch.utils.checkpoint import checkpoint


@pytest.fixture(scope="module")
def package():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch14"), whole=True), "tested")
    yield package
    package.close()


@pytest.fixture
def ch14(package):
    return package.module("ch14_efficient_attention")


def qkv(seed, length, keys=None):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((length, 8), (keys or length, 8), (keys or length, 6))
    return [torch.randn(2, 3, *shape, generator=generator, dtype=torch.float64).mul(1.5).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("length", "keys", "causal"), [(37, None, False), (37, None, True), (9, 50, False), (9, 50, True)])
@pytest.mark.parametrize("block", [1, 7, 64])
def test_output_and_gradients_are_those_of_torchs_attention(ch14, length, keys, causal, block):
    ours, theirs = qkv(1, length, keys), qkv(1, length, keys)
    mask = torch.ones(length, keys or length, dtype=torch.bool).tril((keys or length) - length) if causal else None
    expected = F.scaled_dot_product_attention(*theirs, attn_mask=mask)
    output = ch14.efficient_attention(*ours, block, causal)
    assert torch.allclose(output, expected, atol=1e-12)
    weights = torch.linspace(-1, 2, output.numel(), dtype=torch.float64).reshape(output.shape)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    for mine, other in zip(ours, theirs):
        assert torch.allclose(mine.grad, other.grad, atol=1e-11)


def test_lse_is_the_one_that_torchs_flash_attention_returns(ch14):
    q, k, v = (x.detach().float()[..., :6].contiguous() for x in qkv(2, 40))
    output, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    got = ch14.tiled_attention(q, k, v, 16)
    assert torch.allclose(got[0], output, atol=1e-5) and torch.allclose(got[1], lse.reshape(got[1].shape), atol=1e-5)


@pytest.mark.parametrize("window", [1, 5, 37, 100])
def test_a_window_is_torchs_attention_under_its_mask(ch14, window):
    ours, theirs = qkv(3, 37), qkv(3, 37)
    expected = F.scaled_dot_product_attention(*theirs, attn_mask=ch14.sliding_window_mask(37, window))
    output = ch14.windowed_attention(*ours, window)
    assert torch.allclose(output, expected, atol=1e-12)
    output.square().sum().backward()
    expected.square().sum().backward()
    for mine, other in zip(ours, theirs):
        assert torch.allclose(mine.grad, other.grad, atol=1e-11)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_torchs_checkpoint(ch14, reentrant):
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 20), nn.Dropout(0.4), nn.Tanh(), nn.Linear(20, 6)).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    found = []
    for run in (ch14.checkpointed, lambda module, y: checkpoint(module, y, use_reentrant=reentrant)):
        torch.manual_seed(5)
        net.zero_grad()
        leaf = x.clone().requires_grad_()
        output = run(net, run(net, leaf))
        output.square().sum().backward()
        found.append([output, leaf.grad, *(parameter.grad.clone() for parameter in net.parameters()), torch.rand(4)])
    for mine, theirs in zip(*found, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-12)


def test_the_chunked_loss_is_torchs_loss_of_a_linear_layer(ch14):
    torch.manual_seed(6)
    hidden, weight = torch.randn(40, 8, dtype=torch.float64, requires_grad=True), torch.randn(60, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(60, (40,))
    targets[::4] = -100
    losses = [ch14.chunked_cross_entropy(hidden, weight, targets, chunk) for chunk in (1, 7, 64)]
    losses.append(F.cross_entropy(hidden @ weight.T, targets))
    losses.append(F.linear_cross_entropy(hidden, weight, targets))
    gradients = [torch.autograd.grad(loss, (hidden, weight)) for loss in losses]
    for loss, pair in zip(losses, gradients):
        assert torch.allclose(loss, losses[-2], atol=1e-12)
        assert all(torch.allclose(mine, other, atol=1e-12) for mine, other in zip(pair, gradients[-2]))


def test_a_gpt_trains_with_efficient_attention_and_checkpoints(package, ch14):
    """One step of chapter 7's GPT with both gives the gradients of the plain model."""
    models, attention = package.module("ch07_models"), package.module("ch03_attention")
    torch.manual_seed(7)
    model = models.GPT(models.GPTConfig(20, 24, d_model=16, n_heads=2, n_layers=2)).double()
    ids = torch.randint(20, (3, 17))
    model(ids[:, :-1], ids[:, 1:])[1].backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()

    class Efficient(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            layer = self.layer
            q, k, v = (attention.split_heads(W(x), layer.n_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
            return layer.W_out(attention.merge_heads(ch14.efficient_attention(q, k, v, 5, True)))

    class Checkpointed(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return ch14.checkpointed(self.block, x)

    for block in model.blocks:
        block.attn = Efficient(block.attn)
    blocks = model.blocks
    model.blocks = nn.ModuleList(Checkpointed(block) for block in blocks)
    logits, loss = model(ids[:, :-1], ids[:, 1:])
    loss.backward()
    found = {name.replace("block.", "", 1).replace("attn.layer.", "attn."): parameter.grad for name, parameter in model.named_parameters()}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-12), name
