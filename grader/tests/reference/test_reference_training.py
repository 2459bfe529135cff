"""Chapter 8 of the reference against torch's own loss, clipping and optimizers; and a batch in pieces against the batch at once."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from grader.course.source_check import forbidden_calls
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

B, T, V = 4, 6, 11
TIGHT = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}
OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.3),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, nesterov=True),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-4),  # a key's bias has no gradient but rounding
}


@pytest.fixture(scope="module")
def ch08():
    chapter = load_syllabus().chapter("ch08_training")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(scope="module")
def ch07():
    chapter = load_syllabus().chapter("ch07_models")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested7")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(8)


def ids_with_gaps(*n_targets: int) -> tuple[Tensor, Tensor]:
    """A batch whose row b has n_targets[b] real targets, and -100 after them."""
    inputs, targets = torch.randint(0, V, (len(n_targets), T)), torch.randint(0, V, (len(n_targets), T))
    for row, count in enumerate(n_targets):
        targets[row, count:] = -100
    return inputs, targets


def gpt(ch07, dtype: torch.dtype, positions: str = "learned") -> nn.Module:
    """Our own GPT with random numbers, so that every part has a gradient to compare."""
    model = ch07.GPT(ch07.GPTConfig(V, 8, d_model=12, n_heads=3, n_layers=2, positions=positions)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 0.5)
    return model


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    output = model(ids)
    return output[0] if isinstance(output, tuple) else output


def same_parameters(got: nn.Module, expected: nn.Module, tol: float) -> None:
    theirs = dict(expected.named_parameters())
    for name, parameter in got.named_parameters():
        torch.testing.assert_close(parameter, theirs[name], rtol=tol, atol=tol, msg=lambda text, name=name: f"{name}: {text}")


# ---- windows and batches


@pytest.mark.parametrize("seq_len", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 22])
def test_every_pair_of_neighbours_once(ch08, n, seq_len):
    ids = torch.randint(0, 50, (n,)).tolist()
    windows = ch08.next_token_pairs(ids, seq_len)
    assert [pair for inputs, targets in windows for pair in zip(inputs, targets, strict=True)] == list(zip(ids, ids[1:]))
    assert all(len(inputs) == seq_len for inputs, _ in windows[:-1]) and all(0 < len(inputs) <= seq_len for inputs, _ in windows)


def test_collate_is_torchs_padding(ch08):
    pairs = [(torch.randint(0, 9, (n,)).tolist(), torch.randint(0, 9, (n,)).tolist()) for n in (3, 6, 1, 5)]
    pad = nn.utils.rnn.pad_sequence
    inputs, targets = ch08.collate(pairs, pad_id=7)
    assert torch.equal(inputs, pad([torch.tensor(x) for x, _ in pairs], batch_first=True, padding_value=7))
    assert torch.equal(targets, pad([torch.tensor(y) for _, y in pairs], batch_first=True, padding_value=-100))


# ---- the loss


@pytest.mark.parametrize("dtype", TIGHT)
@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
@pytest.mark.parametrize("ignored", [-100, 0, 5])
def test_the_loss_is_torchs(ch08, dtype, scale, ignored):
    ours = (torch.randn(B, T, V, dtype=torch.float64) * scale).to(dtype).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    targets = torch.randint(0, V, (B, T)).masked_fill(torch.rand(B, T) < 0.3, ignored)
    got = ch08.cross_entropy(ours, targets, ignore_index=ignored)
    expected = F.cross_entropy(theirs.flatten(0, 1), targets.flatten(), ignore_index=ignored)
    torch.testing.assert_close(got, expected, rtol=TIGHT[dtype], atol=TIGHT[dtype])
    got.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=TIGHT[dtype], atol=TIGHT[dtype])
    assert not ours.grad[targets == ignored].any()


@pytest.mark.parametrize("shape", [(), (T,), (2, 3, T)])
def test_any_axes_before_the_vocabulary_are_accepted(ch08, shape):
    logits, targets = torch.randn(*shape, V, dtype=torch.float64), torch.randint(0, V, shape)
    torch.testing.assert_close(ch08.cross_entropy(logits, targets), F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1)))


def test_nothing_to_learn_is_zero_where_torchs_is_nan(ch08):
    logits, targets = torch.randn(B, T, V, requires_grad=True), torch.full((B, T), -100)
    assert F.cross_entropy(logits.flatten(0, 1), targets.flatten()).isnan()
    loss = ch08.cross_entropy(logits, targets)
    loss.backward()
    assert loss.item() == 0.0 and not logits.grad.any()


# ---- clipping


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("limit", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("missing", [False, True])
def test_clipping_is_torchs(ch08, dtype, limit, missing):
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).to(dtype)
    theirs = copy.deepcopy(model)
    for i, (mine, torchs) in enumerate(zip(model.parameters(), theirs.parameters())):
        mine.grad = None if missing and i == 1 else torch.randn_like(mine) * 10.0 ** (i - 2)
        torchs.grad = None if mine.grad is None else mine.grad.clone()
    norm, expected = ch08.clip_gradients(model.parameters(), limit), clip_grad_norm_(theirs.parameters(), limit)
    assert isinstance(norm, float) and math.isclose(norm, expected.item(), rel_tol=1e-5)
    for mine, torchs in zip(model.parameters(), theirs.parameters()):
        assert (mine.grad is None) == (torchs.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, torchs.grad, rtol=2e-4, atol=1e-7)  # torch adds 1e-6 to the norm


# ---- steps


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("max_norm", [None, 0.05])
def test_steps_are_the_loop_everyone_writes(ch08, ch07, optimizer, max_norm):
    ours = gpt(ch07, torch.float64)
    theirs = copy.deepcopy(ours)
    mine, torchs = OPTIMIZERS[optimizer](ours), OPTIMIZERS[optimizer](theirs)
    for inputs, targets in (ids_with_gaps(6, 2, 4), ids_with_gaps(1, 5), ids_with_gaps(3, 3, 6, 2)):
        torchs.zero_grad()
        expected = F.cross_entropy(logits_of(theirs, inputs).flatten(0, 1), targets.flatten())
        expected.backward()
        if max_norm is not None:
            clip_grad_norm_(theirs.parameters(), max_norm)
        torchs.step()
        loss = ch08.train_step(ours, mine, inputs, targets, max_norm)
        assert isinstance(loss, float) and math.isclose(loss, expected.item(), rel_tol=1e-4)
    same_parameters(ours, theirs, 1e-4 if max_norm else 1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_pieces_are_the_batch_at_once(ch08, ch07, dtype, optimizer, max_norm):
    """3 real targets in one piece, 9 in another, none in a third: parameters and losses agree to 1e-6 after each update."""
    whole = gpt(ch07, dtype, "rope")
    apart = copy.deepcopy(whole)
    at_once, in_pieces = OPTIMIZERS[optimizer](whole), OPTIMIZERS[optimizer](apart)
    for sizes in ([(1, 2), (6, 3), (0, 0)], [(6,), (0, 1, 2), (5, 6)]):
        pieces = [ids_with_gaps(*rows) for rows in sizes]
        inputs, targets = torch.cat([x for x, _ in pieces]), torch.cat([y for _, y in pieces])
        expected = ch08.train_step(whole, at_once, inputs, targets, max_norm)
        loss = ch08.accumulated_step(apart, in_pieces, (piece for piece in pieces), max_norm)
        assert math.isclose(loss, expected, rel_tol=1e-6)
        same_parameters(apart, whole, 1e-6)


def test_the_mean_of_means_is_different(ch08, ch07):
    """What the lesson says about dividing by the number of pieces: right for equal pieces, far off for 3 and 9 tokens."""
    model = gpt(ch07, torch.float64)

    def gradient(loss: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])

    for sizes, off in ((((1, 2), (6, 3)), True), (((4, 2), (1, 5)), False)):
        pieces = [ids_with_gaps(*rows) for rows in sizes]
        whole = gradient(ch08.cross_entropy(logits_of(model, torch.cat([x for x, _ in pieces])), torch.cat([y for _, y in pieces])))
        naive = sum(gradient(ch08.cross_entropy(logits_of(model, x), y)) for x, y in pieces) / 2
        distance = float((naive - whole).norm() / whole.norm())
        assert distance > 0.1 if off else distance < 1e-12


# ---- what may not be called


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("cross_entropy", "return torch.nn.functional.cross_entropy(logits, targets)"),
        ("cross_entropy", "return nn.CrossEntropyLoss()(logits, targets)"),
        ("cross_entropy", "return F.nll_loss(F.log_softmax(logits, -1), targets)"),
        ("cross_entropy", "return nn.NLLLoss()(logits, targets)"),
        ("clip_gradients", "return nn.utils.clip_grad_norm_(logits, targets)"),
        ("clip_gradients", "nn.utils.clip_grads_with_norm_(logits, targets, 1.0)"),
        ("clip_gradients", "return torch.nn.utils.clip_grad_norm(logits, targets)"),
    ],
)
def test_torchs_own_function_is_found_in_the_source(name, body):
    text = f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\ndef {name}(logits, targets):\n    {body}\n"
    assert forbidden_calls(text, name, load_syllabus().exercise(name).forbids)


def test_a_learners_loss_of_the_same_name_is_accepted():
    text = """
def cross_entropy(logits, targets):
    if logits.dim() > 2:
        return cross_entropy(logits[0], targets[0])
    return -logits.log_softmax(-1).mean()
"""
    assert not forbidden_calls(text, "cross_entropy", load_syllabus().exercise("cross_entropy").forbids)
