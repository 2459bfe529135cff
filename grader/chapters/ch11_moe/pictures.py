"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.counts import format_count
from grader.teaching.drawing import CURVES, FAINT, box, card, heatmap, paint, write

SENTENCE, N_EXPERTS, D_MODEL = "the crane sees the fish and the cat".split(), 5, 16


def _router_logits() -> torch.Tensor:
    """Return the logits (T, N) of a random router for the words of SENTENCE, equal for equal words."""
    generator = torch.Generator().manual_seed(7)
    words = sorted(set(SENTENCE))
    vectors = torch.randn(len(words), D_MODEL, generator=generator)
    router = torch.randn(N_EXPERTS, D_MODEL, generator=generator) / D_MODEL**0.5
    return vectors[[words.index(word) for word in SENTENCE]] @ router.T


def ch11_diagram(chapter: ModuleType) -> str:
    """Draw which tokens each expert gets: a line for each choice, as wide as its weight."""
    weights, chosen = chapter.route(_router_logits(), 2)
    left, right, wide, row, gap, top = 74, 258, 162, 24, 38, 96
    lines: list[str] = []
    labels: list[str] = []
    arrivals: list[tuple[int, int, float, float]] = []  # token, expert, weight, height of its row
    y = float(top)
    for expert in range(N_EXPERTS):
        tokens, slots = torch.where(chosen == expert)
        heading = f"expert {expert}: {format_count(len(tokens), 'token')}"
        labels.append(write(right, y - 8, heading, size=15, bold=True))
        labels.append(box(right, y, wide, row * len(tokens), None))
        for number, (token, slot) in enumerate(zip(tokens.tolist(), slots.tolist())):
            weight, middle = float(weights[token, slot]), y + row * (number + 0.5)
            arrivals.append((token, expert, weight, middle))
            labels.append(write(right + 12, middle + 5, SENTENCE[token], size=15))
            labels.append(write(right + wide - 12, middle + 5, f"{weight:.2f}", anchor="end", size=15))
        y += row * len(tokens) + gap
    height = y - gap
    starts = [top + (height - top) * (place + 0.5) / len(SENTENCE) for place in range(len(SENTENCE))]
    for token, expert, weight, middle in arrivals:
        start, bend = starts[token], (left + right) / 2
        way = f"M{left},{start:.1f} C{bend:g},{start:.1f} {bend:g},{middle:.1f} {right},{middle:.1f}"
        look = f'{paint(None, CURVES[expert])} stroke-width="{1 + 7 * weight:.1f}" opacity="0.8"'
        lines.append(f'<path d="{way}" {look}/>')
    for word, start in zip(SENTENCE, starts):
        labels.append(write(left - 8, start + 5, word, anchor="end", size=15))
    labels.append(write(20, 58, "tokens (B * T, D)", colour=FAINT, size=15))
    labels.append(write(right, 58, "inputs (n, D)", colour=FAINT, size=15))
    return card([*lines, *labels], 440, height + 20, "Each expert gets a batch of its own")


def ch11_moe(chapter: ModuleType) -> str:
    """Draw each word's weights on its two experts, and below them what the balance loss is made of."""
    logits = _router_logits()  # (T, N)
    weights, chosen = chapter.route(logits, 2)
    probs = logits.softmax(-1)
    loss = float(chapter.load_balancing_loss(probs, chosen))
    table = torch.full_like(probs, torch.nan).scatter(-1, chosen, weights)
    shares = torch.bincount(chosen.flatten(), minlength=N_EXPERTS) / chosen.numel()
    rows = torch.cat([table, torch.stack([shares, probs.mean(dim=0)])])
    title = f"Two experts per word; balance loss {loss:.2f}"
    return heatmap(rows, [*SENTENCE, "f", "P"], [str(i) for i in range(N_EXPERTS)], title, column_name="expert")
