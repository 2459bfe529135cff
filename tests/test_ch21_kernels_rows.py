"""Chapter 21, second part: rows that are longer than a block, and a loss with its gradient."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated_gpus import run, unwritten, watch
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=4)
INF = float("inf")


def softmax_of(learner, x, BLOCK, seed=0):
    """out of long_softmax_kernel."""
    return run(learner, "long_softmax_kernel", (len(x),), x, unwritten(*x.shape, dtype=x.dtype), x.size(1), seed=seed, BLOCK=BLOCK)[1]


@exercise("long_softmax_kernel", weight=3)
@few
@given(n=distinct("rows", "columns", rows=(2, 4), columns=(9, 21)), BLOCK=st.sampled_from((4, 8)), seed=seeds)
@example(n=at(rows=2, columns=9), BLOCK=4, seed=0)
def test_long_rows_get_their_softmax(learner, n, BLOCK, seed):
    """Each row of out is the softmax of the same row of x, also if a row has many blocks and the last one is not full. x does not change."""
    x = tensor(seed, n.rows, n.columns)
    x_after, out = run(learner, "long_softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, seed=seed, BLOCK=BLOCK)
    close(out, torch.softmax(x, 1), "the result in out")
    same(x_after, x, "x after the launch")


@exercise("long_softmax_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", rows=(2, 4), columns=(9, 21)), seed=seeds)
@example(n=at(rows=2, columns=9), seed=0)
def test_each_number_is_read_twice(learner, n, seed):
    """Each number of x is read twice, and each number of out is written once."""
    x = tensor(seed, n.rows, n.columns)
    (_, out), traffic = watch(learner, "long_softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, seed=seed, BLOCK=4)
    same(traffic.bytes_read, 2 * x.numel() * 4, "the bytes that all programs read")
    same(traffic.bytes_written, x.numel() * 4, "the bytes that all programs write")
    close(out, torch.softmax(x, 1), "the result in out")


@exercise("long_softmax_kernel")
def test_rows_of_one_block_or_of_full_blocks(learner):
    """The last block may be full, a row may have one block or one number, and a block may have one number."""
    cases = [(8, 4), (4, 4), (3, 8), (1, 4), (3, 1)]
    got = [softmax_of(learner, tensor(columns, 3, columns), BLOCK) for columns, BLOCK in cases]
    for (columns, BLOCK), out in zip(cases, got):
        close(out, torch.softmax(tensor(columns, 3, columns), 1), f"the result in out for columns = {columns} and BLOCK = {BLOCK}")


@exercise("long_softmax_kernel", weight=2)
@few
@given(columns=st.integers(9, 20), seed=seeds)
@example(columns=9, seed=0)
def test_blocks_of_minus_infinity(learner, columns, seed):
    """All numbers of a block may be -inf: the first block, one in between, or the last one."""
    x = tensor(seed, 4, columns)
    x[0, :4] = -INF
    x[1, 4:8] = -INF
    x[2, 8:] = -INF
    x[3, : columns - 1] = -INF
    close(softmax_of(learner, x, 4, seed), torch.softmax(x, 1), "the result in out for rows with blocks of -inf")


@exercise("long_softmax_kernel", weight=2)
@few
@given(columns=st.integers(9, 20), seed=seeds)
@example(columns=9, seed=0)
def test_the_maximum_may_change_in_each_block(learner, columns, seed):
    """Numbers may be large. The maximum may grow or fall from block to block."""
    steps = torch.arange(columns) / 4
    x = tensor(seed, 4, columns) + torch.stack([steps, -steps, 300 * steps, -1200 - steps])
    close(softmax_of(learner, x, 4, seed), torch.softmax(x, 1), "the result in out for rows that rise, rows that fall, and large numbers", tol=1e-4)


@exercise("long_softmax_kernel", weight=2)
@few
@given(columns=st.integers(9, 20), seed=seeds)
@example(columns=9, seed=1)
def test_long_float16_rows_are_computed_in_float32(learner, columns, seed):
    """For x and out in float16, the softmax is computed in float32 and rounded at the end: small probabilities are as accurate as large ones."""
    x = (tensor(seed, 3, columns, scale=0.5) + torch.linspace(-9, 0, columns)).half()
    x[2] = torch.linspace(60000, -60000, columns)
    out, right = softmax_of(learner, x, 4, seed), torch.softmax(x.float(), 1)
    close(out, right.half(), "the result in out")
    close(out[:2].float() / right[:2], torch.ones(2, columns), "the result in out divided by the softmax in float32", tol=1e-3)


# ---- the loss and its gradient


def draw_targets(seed, rows, columns):
    return torch.randint(columns, (rows,), generator=torch.Generator().manual_seed(seed))


def cross_entropy(logits, targets):
    """The loss of each row and its gradient, computed in float64 and rounded to the dtype of the logits."""
    wide = logits.double()
    gradient = torch.softmax(wide, 1) - F.one_hot(targets.clamp(0), logits.size(1))
    gradient[targets == -100] = 0
    return F.cross_entropy(wide, targets, reduction="none").to(logits.dtype), gradient.to(logits.dtype)


def launched(learner, logits, targets, BLOCK, seed=0):
    """logits, targets, loss and gradient after a launch of cross_entropy_kernel."""
    rows, columns = logits.shape
    loss, gradient = unwritten(rows, dtype=logits.dtype), unwritten(rows, columns, dtype=logits.dtype)
    return run(learner, "cross_entropy_kernel", (rows,), logits, targets, loss, gradient, columns, seed=seed, BLOCK=BLOCK)


def check_rows(got, logits, targets, what, tol=None):
    loss, gradient = cross_entropy(logits, targets)
    close(got[2], loss, f"loss {what}".strip(), tol)
    close(got[3], gradient, f"gradient {what}".strip(), tol)


@exercise("cross_entropy_kernel", weight=3)
@few
@given(n=distinct("rows", "columns", columns=(3, 12)), seed=seeds)
@example(n=at(rows=2, columns=5), seed=0)
def test_each_row_gets_its_loss_and_gradient(learner, n, seed):
    """Each number of loss is the cross-entropy of a row, and each row of gradient is its softmax, minus 1 at the target. logits and targets do not change."""
    logits, targets = tensor(seed, n.rows, n.columns), draw_targets(seed, n.rows, n.columns)
    got = launched(learner, logits, targets, 16, seed)
    check_rows(got, logits, targets, "")
    same(got[0], logits, "logits after the launch")
    same(got[1], targets, "targets after the launch")


@exercise("cross_entropy_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", columns=(3, 12)), seed=seeds)
@example(n=at(rows=2, columns=3), seed=0)
def test_one_pass_gives_both(learner, n, seed):
    """Each logit is read once, and only the target's own logit may be read once more. Each number of loss and gradient is written once."""
    logits, targets = tensor(seed, n.rows, n.columns), draw_targets(seed, n.rows, n.columns)
    loss, gradient = unwritten(n.rows), unwritten(n.rows, n.columns)
    got, traffic = watch(learner, "cross_entropy_kernel", (n.rows,), logits, targets, loss, gradient, n.columns, seed=seed, BLOCK=16)
    check_rows(got, logits, targets, "")
    places = torch.cat([each.at for each in traffic.accesses if (each.kind, each.name) == ("load", "logits")])
    counts = torch.bincount(places, minlength=logits.numel()).view_as(logits)
    allowed = 1 + F.one_hot(targets, n.columns)
    holds(bool((counts >= 1).all()), "not every logit is read")
    holds(bool((counts <= allowed).all()), f"the logits of the rows are read {counts.tolist()} times; once is enough, and twice at the target")
    same(traffic.bytes_written, (n.rows + logits.numel()) * 4, "the bytes that all programs write")


@exercise("cross_entropy_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", rows=(3, 6), columns=(3, 12)), seed=seeds)
@example(n=at(rows=4, columns=3), seed=0)
def test_a_target_of_minus_100_is_ignored(learner, n, seed):
    """A target of -100 gives the loss 0 and a gradient of zeros, and no other target is ignored."""
    logits, targets = tensor(seed, n.rows, n.columns), draw_targets(seed, n.rows, n.columns)
    targets[0], targets[1], targets[2] = -100, 0, n.columns - 1
    check_rows(launched(learner, logits, targets, 16, seed), logits, targets, "with the target of row 0 ignored")


@exercise("cross_entropy_kernel")
def test_logits_that_fill_the_block_or_are_one(learner):
    """A row may have as many logits as a block, or a single one."""
    cases = [(4, 4), (1, 8), (1, 1), (5, 8)]
    inputs = [(tensor(columns, 3, columns), draw_targets(columns, 3, columns)) for columns, _ in cases]
    got = [launched(learner, logits, targets, BLOCK) for (logits, targets), (_, BLOCK) in zip(inputs, cases)]
    for (logits, targets), (columns, BLOCK), each in zip(inputs, cases, got):
        check_rows(each, logits, targets, f"for columns = {columns} and BLOCK = {BLOCK}")


@exercise("cross_entropy_kernel", weight=2)
@few
@given(columns=st.integers(4, 12), seed=seeds)
@example(columns=5, seed=0)
def test_large_logits_and_minus_infinity(learner, columns, seed):
    """Logits may be large, positive or negative, and some of a row may be -inf, also in a row that is ignored."""
    logits = tensor(seed, 4, columns, scale=3) + torch.tensor([300.0, -1200.0, 0.0, 0.0])[:, None]
    logits[2:, ::2] = -INF
    targets = torch.tensor([seed % columns, columns - 1, 1, -100])
    check_rows(launched(learner, logits, targets, 16, seed), logits, targets, "of large logits and of -inf", tol=1e-4)


@exercise("cross_entropy_kernel", weight=2)
@few
@given(columns=st.integers(4, 12), seed=seeds)
@example(columns=7, seed=1)
def test_float16_logits_are_computed_in_float32(learner, columns, seed):
    """For logits, loss and gradient in float16, both are computed in float32 and rounded at the end."""
    logits = (tensor(seed, 3, columns) + torch.tensor([0.0, 500.0, 0.0])[:, None]).half()
    logits[2] = torch.linspace(-9, 0, columns)
    targets = torch.tensor([seed % columns, seed % columns, columns - 1])
    got = launched(learner, logits, targets, 16, seed)
    check_rows(got, logits, targets, "")
    right = torch.softmax(logits[2].float(), 0)[:-1]
    close(got[3][2, :-1].float() / right, torch.ones(columns - 1), "row 2 of gradient divided by the softmax in float32", tol=1e-3)
