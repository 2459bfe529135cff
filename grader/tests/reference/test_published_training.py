"""Chapter 8 against torch's optimizers and clipping; a batch in pieces; one split for all."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from agreement import randomised, same
from grader.course.source import definition
from grader.execution.target import reference_of
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint

T, V = 6, 11
OPTIMIZERS = {
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, nesterov=True),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-4),  # keys' biases have no gradient
}


def ids_with_gaps(*n_targets: int) -> tuple[Tensor, Tensor]:
    """A batch whose row b has n_targets[b] real targets, and -100 after them."""
    inputs, targets = torch.randint(0, V, (len(n_targets), T)), torch.randint(0, V, (len(n_targets), T))
    for row, count in enumerate(n_targets):
        targets[row, count:] = -100
    return inputs, targets


def small_gpt(ours, positions: str = "learned") -> nn.Module:
    config = ours.GPTConfig(V, 8, d_model=12, n_heads=3, n_layers=2, positions=positions)
    return randomised(ours.GPT(config))


def same_parameters(got: nn.Module, expected: nn.Module, tol: float) -> None:
    for mine, theirs in zip(got.parameters(), expected.parameters(), strict=True):
        same(mine, theirs, tol)


@pytest.mark.parametrize(
    "options, size",
    [({}, 1.0), ({"lr": 0.05, "weight_decay": 0.5}, 1e3), ({"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0}, 1e-7)],
)
def test_adamw_is_torchs_over_many_steps(ours, options, size):
    """Changing lr, parameters that lack a gradient in some steps, gradients from a ten-millionth to thousands."""
    values = [torch.randn(*shape, dtype=torch.float64) * 5 for shape in ((3, 4), (5,), (2, 3, 2), (1,))]
    mine, torchs = ([nn.Parameter(value.clone()) for value in values] for _ in range(2))
    our_optimizer = ours.AdamW((parameter for parameter in mine), **options)
    theirs = torch.optim.AdamW(torchs, **options)
    for step in range(21):
        our_optimizer.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = 0.1 * (1 + step % 7) / 7
        our_optimizer.zero_grad()
        theirs.zero_grad()
        for i, (a, b) in enumerate(zip(mine, torchs)):
            if (step + i) % (i + 2) != 0:
                a.grad = torch.randn_like(a) * size * (step % 5)
                b.grad = a.grad.clone()
        our_optimizer.step()
        theirs.step()
        for a, b in zip(mine, torchs):
            same(a.data, b.data)


@pytest.mark.parametrize("limit", [0.01, 50.0])
def test_clipping_is_torchs(ours, limit):
    """One parameter has no gradient."""
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).double()
    theirs = copy.deepcopy(model)
    for i, (mine, torchs) in enumerate(zip(model.parameters(), theirs.parameters())):
        mine.grad = None if i == 1 else torch.randn_like(mine) * 10.0 ** (i - 2)
        torchs.grad = None if mine.grad is None else mine.grad.clone()
    norm, expected = ours.clip_gradients(model.parameters(), limit), clip_grad_norm_(theirs.parameters(), limit)
    assert isinstance(norm, float) and math.isclose(norm, expected.item(), rel_tol=1e-5)
    for mine, torchs in zip(model.parameters(), theirs.parameters()):
        assert (mine.grad is None) == (torchs.grad is None)
        if mine.grad is not None:
            same(mine.grad, torchs.grad, 2e-4)  # torch adds 1e-6 to the norm


@pytest.mark.parametrize("optimizer, max_norm", [("momentum", None), ("adamw", 0.05)])
def test_steps_are_the_loop_everyone_writes(ours, optimizer, max_norm):
    model = small_gpt(ours)
    theirs = copy.deepcopy(model)
    mine, torchs = OPTIMIZERS[optimizer](model), OPTIMIZERS[optimizer](theirs)
    for inputs, targets in (ids_with_gaps(6, 2, 4), ids_with_gaps(1, 5), ids_with_gaps(3, 3, 6, 2)):
        torchs.zero_grad()
        expected = F.cross_entropy(theirs(inputs)[0].flatten(0, 1), targets.flatten())
        expected.backward()
        if max_norm is not None:
            clip_grad_norm_(theirs.parameters(), max_norm)
        torchs.step()
        loss = ours.train_step(model, mine, inputs, targets, max_norm)
        assert isinstance(loss, float) and math.isclose(loss, expected.item(), rel_tol=1e-4)
    same_parameters(model, theirs, 1e-4 if max_norm else 1e-9)


@pytest.mark.parametrize("optimizer, max_norm", [("momentum", 0.5), ("adamw", None)])
def test_pieces_are_the_batch_at_once(ours, optimizer, max_norm):
    """3 real targets in one piece, 9 in another, none in a third."""
    whole = small_gpt(ours, "rope")
    apart = copy.deepcopy(whole)
    at_once, in_pieces = OPTIMIZERS[optimizer](whole), OPTIMIZERS[optimizer](apart)
    for sizes in ([(1, 2), (6, 3), (0, 0)], [(6,), (0, 1, 2), (5, 6)]):
        pieces = [ids_with_gaps(*rows) for rows in sizes]
        inputs, targets = torch.cat([x for x, _ in pieces]), torch.cat([y for _, y in pieces])
        expected = ours.train_step(whole, at_once, inputs, targets, max_norm)
        loss = ours.accumulated_step(apart, in_pieces, (piece for piece in pieces), max_norm)
        assert math.isclose(loss, expected, rel_tol=1e-6)
        same_parameters(apart, whole, 2e-6)


def test_a_checkpoint_is_torchs_checkpoint(ours):
    net = nn.Sequential(nn.Linear(6, 20), nn.Dropout(0.4), nn.Tanh(), nn.Linear(20, 6)).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    found = []
    for run in (ours.checkpointed, lambda module, y: checkpoint(module, y, use_reentrant=False)):
        torch.manual_seed(5)
        net.zero_grad()
        leaf = x.clone().requires_grad_()
        output = run(net, run(net, leaf))
        output.square().sum().backward()
        found.append([output, leaf.grad, *(parameter.grad.clone() for parameter in net.parameters()), torch.rand(4)])
    for mine, theirs in zip(*found, strict=True):
        same(mine, theirs, 1e-12)


def test_the_split_is_the_same_in_every_process(ours):
    """Another process, with its own salt for Python's hash, gives this process's answers."""
    texts = [*(f"sentence {i}" for i in range(300)), "नमस्ते दुनिया", ""]
    program = "\n".join(
        [
            "import hashlib, json, sys",
            definition(reference_of("ch08_training").text, "is_validation").text,
            "texts = json.load(sys.stdin)",
            "print(json.dumps([[is_validation(text) for text in texts], [hash(text) for text in texts]]))",
        ]
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONUTF8": "1"}
    options = dict(env=environment, text=True, capture_output=True, check=True, input=json.dumps(texts))
    validation, hashes = json.loads(subprocess.run([sys.executable, "-c", program], **options).stdout)
    assert hashes != [hash(text) for text in texts]  # Python's own hash does differ
    assert validation == [ours.is_validation(text) for text in texts]
