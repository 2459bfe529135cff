"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

from grader.counts import format_count
from grader.teaching.drawing import CURVES, LEARNED, LINE, card, curves, paint, write

SENTENCE = "one day tim saw a big red ball in the park and he ran to get it before the rain"
OTHERS = (
    "one day mia lost a big red ball in the garden and she wept as it fell before the rain",
    "one day tim saw a big red ball in the tree and he ran to get it as he fell in the mud",
    "one day tim saw a big red ball in the park and he ran to get it before the storm",
)
BANDS, ROWS = 16, 4


def ch19_data_and_scale(chapter: ModuleType) -> str:
    """Draw a published law at equal FLOPs, and where compute_optimal puts the best sizes, also beyond the budgets."""

    def law(n: float, budget: float) -> float:  # Besiroglu and others, 2024 (arXiv 2404.10102)
        return 1.8172 + 482.01 / n**0.3478 + 2085.43 / (budget / 6 / n) ** 0.3658

    budgets, shares, runs = (1e19, 1e20, 1e21), [2 ** (i / 4) for i in range(-8, 9)], []
    lines: dict[str, list[tuple[float, float]]] = {}
    for budget in (*budgets, 1e22):
        sizes = [share * math.sqrt(budget / 120) for share in shares]
        losses = [law(n, budget) for n in sizes]
        exponent = f"{math.log10(budget):.0f}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        lines[f"10{exponent} FLOPs"] = list(zip(sizes, losses))
        runs += [(budget, n, budget / 6 / n, loss) for n, loss in zip(sizes, losses) if budget in budgets]
    (power, _), predict = chapter.compute_optimal(runs)
    best = [(predict(budget)[0], budget) for budget in (*budgets, 1e22)]
    points = [(n, law(n, budget)) for n, budget in best]
    lines |= {"predict": points, "best sizes": points}
    title = f"Loss at equal FLOPs; the best size grows like C^{power:.2f}"
    looks = [(0, 0), (1, 0), (2, 0), (3, 2), (4, 1), (4, 0)]
    return curves(lines, title, x_name="parameters", y_name="loss", log_x=True, looks=looks, dots=["best sizes"])


def ch19_bands(chapter: ModuleType) -> str:
    """Draw at which numbers the signatures of two texts agree, and which bands agree as a whole, for three pairs."""
    first = chapter.shingles(SENTENCE, 2)
    marks, cell, tall, left, top = [], 7, 22, 20, 62
    for row, text in enumerate(OTHERS):
        other = chapter.shingles(text, 2)
        signatures = [chapter.minhash(each, range(BANDS * ROWS)) for each in (first, other)]
        agree = [a == b for a, b in zip(*signatures)]
        whole = [all(agree[band * ROWS : (band + 1) * ROWS]) for band in range(BANDS)]
        found = chapter.candidate_pairs(signatures, BANDS) == [(0, 1)]
        assert found == any(whole)
        y = top + row * 74
        bands = format_count(sum(whole), "whole band") if found else "no whole band"
        said = f"similarity {len(first & other) / len(first | other):.2f}: {sum(agree)} of 64 agree, {bands}, "
        marks.append(write(left, y, said + f"so the texts are {'' if found else 'not '}compared"))
        for place, same in enumerate(agree):
            band = place // ROWS
            colour = CURVES[1] if whole[band] else LEARNED[1] if same else LINE
            x = left + place * (cell + 1) + band * 5
            marks.append(f'<rect x="{x}" y="{y + 12}" width="{cell}" height="{tall}" rx="1" {paint(colour)}/>')
    y = top + 3 * 74 - 12
    keys = ((LEARNED[1], "agrees"), (CURVES[1], "in a whole band"), (LINE, "differs"))
    for (colour, name), x in zip(keys, (left, left + 100, left + 260)):
        marks += [
            f'<rect x="{x}" y="{y}" width="{cell}" height="16" rx="1" {paint(colour)}/>',
            write(x + 16, y + 13, name),
        ]
    return card(marks, left * 2 + 64 * (cell + 1) + 15 * 5, y + 34, "Two signatures of 64 numbers, in 16 bands of 4")
