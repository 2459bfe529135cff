"""Luck: a walk through one test of two models, from a score to what can be said about it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import bars, table
from grader.teaching.walks.parts import MixedChapters

REQUIRED_EXERCISES = (
    "bootstrap_interval",
    "paired_test",
    "questions_needed",
    "calibration_error",
    "fit_temperature",
    "pass_at_k",
)
COPIES, QUESTIONS, TRUE_ACCURACY = 10, 100, 0.6
TEXTS, EACH = 20, 5  # texts, and questions about each
LEFT = 0.35  # of the questions that A misses, those that B has right
LOST = 0.05  # of those that A has right, those that B misses
OVERSURE = 2.5  # what B's logits are multiplied with
ANSWERS = 16  # to one hard question


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    draw = torch.Generator().manual_seed(seed)
    copies = (torch.rand(COPIES, QUESTIONS, generator=draw) < TRUE_ACCURACY).double()
    shares = copies.mean(1).tolist()
    best, worst = max(range(COPIES), key=shares.__getitem__), min(range(COPIES), key=shares.__getitem__)

    easy = torch.rand(TEXTS, 1, generator=draw)  # one number for each text: its questions belong together
    a = (torch.rand(TEXTS, EACH, generator=draw) < easy).double()
    change = torch.rand(TEXTS, EACH, generator=draw)
    b = torch.where(a == 1, (change >= LOST).double(), (change < LEFT).double())
    of_a, of_b, texts = a.flatten().tolist(), b.flatten().tolist(), [i // EACH for i in range(TEXTS * EACH)]
    rows = {}
    with report_progress("drawing resamples", 2) as step:
        for name, values in (("A", of_a), ("B", of_b)):
            single = interval(parts, values, seed, None)
            rows[name] = [sum(values) / len(values), *single, *interval(parts, values, seed, texts)]
            step()
    p = parts.paired_test(of_a, of_b, torch.Generator().manual_seed(seed))

    logits = 1.5 * torch.randn(400, 4, generator=draw)
    targets = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    logits = OVERSURE * logits
    fitted = parts.fit_temperature(logits[:200], targets[:200])  # the other half measures what it has brought
    errors = []
    for temperature in (1.0, fitted):
        confidence, answer = (logits[200:] / temperature).softmax(1).max(1)
        errors.append(parts.calibration_error(confidence, answer == targets[200:]))
        right = float((answer == targets[200:]).double().mean())

    solved = int((torch.rand(ANSWERS, generator=draw) < 0.15).sum())
    difference = abs(rows["B"][0] - rows["A"][0])
    return SimpleNamespace(
        shares=shares,
        best=shares[best],
        worst=shares[worst],
        same=parts.paired_test(copies[best].tolist(), copies[worst].tolist(), torch.Generator().manual_seed(seed)),
        rows=rows,
        better=sum(y > x for x, y in zip(of_a, of_b)),
        worse=sum(y < x for x, y in zip(of_a, of_b)),
        p=p,
        difference=difference,
        needed=parts.questions_needed(min(rows["A"][0], rows["B"][0]), difference) if difference else 0,
        fitted=fitted,
        errors=errors,
        right=right,
        solved=solved,
        passed=[(k, parts.pass_at_k(ANSWERS, solved, k), 1 - (1 - solved / ANSWERS) ** k) for k in (1, 2, 4, 8, 16)],
    )


def interval(parts: MixedChapters, values: list[float], seed: int, clusters: list[int] | None) -> tuple[float, float]:
    low, high = parts.bootstrap_interval(values, generator=torch.Generator().manual_seed(seed), clusters=clusters)
    return low, high


def describe(n: SimpleNamespace) -> dict[str, Any]:
    heads = ["model", "score", "from", "to", "texts: from", "to"]
    return {
        "copy_bars": bars([(f"copy {i + 1}", share) for i, share in enumerate(n.shares)], most=1.0),
        "looks_different": n.same < 0.05,
        "interval_table": table([[name, *row] for name, row in n.rows.items()], heads, ".2f"),
        "questions": TEXTS * EACH,
        "told_apart": n.p < 0.05,
        "pass_table": table(n.passed, ["k", "pass@k", "by a power"], ".3f"),
        "any_solved": n.solved > 0,
    }
