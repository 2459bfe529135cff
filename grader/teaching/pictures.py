"""The lessons' pictures that show numbers of the reference: exercises/pictures/chNN_name.svg, one function each.

`headway stubs` draws them again, and dev-check reports one that the reference would draw differently. The other
pictures beside them, such as the diagrams of boxes and arrows, are drawn by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS
from grader.execution.chapter_package import ChapterPackage
from grader.files import write_whole
from grader.teaching.circuits import CAPITAL, capitals, ids_of
from grader.teaching.drawing.charts import curves, heatmap
from grader.teaching.show.kinds.first_model import TEXT, TOKENS
from grader.teaching.walks.initialization import measure_way

PICTURES = EXERCISES / "pictures"
FIVE_WORDS = {"mat": 0.4, "rug": 0.3, "sofa": 0.15, "roof": 0.1, "moon": 0.05}  # with their probabilities


def lesson_pictures() -> dict[str, str]:
    """Return the pictures by file name, drawn from the results of the reference."""
    solutions = sorted(SOLUTIONS.glob("ch*.py"))
    sources = [ChapterSource(path.stem, read_source(path), str(path)) for path in solutions]
    package = ChapterPackage(sources, "pictures")
    try:
        with torch.no_grad():
            names = [path.stem for path in solutions if path.stem in DRAWN]
            return {f"{name}.svg": DRAWN[name](package.module(name)) for name in names}
    finally:
        package.close()


def write_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Write the pictures that are missing or differ; return their names."""
    drawn = lesson_pictures()
    stale = [name for name, svg in drawn.items() if _stored(folder / name) != svg]
    for name in stale:
        write_whole(folder / name, drawn[name])
    return stale


def stale_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Return the names of pictures that are missing in `folder` or differ from what the reference draws now."""
    return [name for name, svg in lesson_pictures().items() if _stored(folder / name) != svg]


def _stored(path: Path) -> str | None:
    return read_source(path).replace("\r\n", "\n") if path.is_file() else None


# ---- the pictures


def _bigrams(chapter: ModuleType) -> str:
    counts = chapter.count_bigrams(TEXT, len(TOKENS))
    title = "How probable each next token is"
    table = chapter.bigram_probabilities(counts, 0.0)
    return heatmap(table, TOKENS, TOKENS, title, row_name="this token", column_name="next token")


def _sinusoidal_table(chapter: ModuleType) -> str:
    table = chapter.sinusoidal_positions(32, 16)
    rows, columns = ([str(number) for number in range(count)] for count in (32, 16))
    title = "Sinusoidal positions, 32 of them in 16 features"
    return heatmap(table, rows, columns, title, row_name="position", column_name="feature")


def _causal_weights(chapter: ModuleType) -> str:
    words = ["fish", "for", "the", "crane"]
    x = torch.tensor([[3.0, 0, 0], [0, 0, 2], [0, 0, 1], [1, 1, 0]])
    w_q, w_k, w_v = torch.tensor([[[1.0, 1, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [0, 1, 0]]])
    _, weights = chapter.scaled_dot_product_attention(x @ w_q.T, x @ w_k.T, x @ w_v.T, mask=chapter.causal_mask(4))
    past = weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), torch.nan)
    title = "Which word attends to which, and how much"
    return heatmap(past, words, words, title, row_name="query", column_name="key")


def _weight_by_distance(chapter: ModuleType) -> str:
    """Draw the weight of a key at each distance, relative to distance 0: three heads with ALiBi, one with RoPE."""
    farthest, d_head = 32, 8
    distances = torch.arange(farthest + 1)
    bias = chapter.alibi_bias(4, 1, farthest + 1)[:, 0].flip(-1)  # by distance, nearest first
    lines = {f"ALiBi, slope 1/{round(-1 / float(bias[head, 1]))}": bias[head] for head in (0, 1, 2)}
    vector = torch.ones(1, d_head)
    keys = chapter.apply_rope(vector.expand(farthest + 1, d_head), -distances)
    scores = (chapter.apply_rope(vector, torch.tensor([0])) @ keys.T)[0] / math.sqrt(d_head)
    lines["RoPE, 8 features"] = scores - scores[0]
    points = {name: [(int(d), math.exp(float(s))) for d, s in zip(distances, line)] for name, line in lines.items()}
    title, y_name = "The weight of a key by its distance", "weight relative to distance 0"
    return curves(points, title, x_name="distance from the query", y_name=y_name)


def _activation_functions(chapter: ModuleType) -> str:
    x = torch.linspace(-4, 2, 121, dtype=torch.float64)
    functions = {"gelu": chapter.gelu(x), "relu": torch.relu(x), "silu": x * torch.sigmoid(x)}
    lines = {name: list(zip(x.tolist(), y.tolist())) for name, y in functions.items()}
    return curves(lines, "Three activation functions", x_name="input", y_name="output")


def _gradient_by_block(chapter: ModuleType) -> str:
    """Draw how much gradient reaches the input of each of 24 blocks, one draw of weights a line."""
    ways = [("pre-norm", "pre-norm", 0), ("post-norm", "post-norm", 0)]
    ways += [(f"no residuals, draw {seed + 1}", "no residuals", seed) for seed in (0, 1)]  # these two differ
    ways += [("no residuals, no norms", "neither", 0)]
    lines = {name: list(enumerate(measure_way(chapter, way, seed).sizes, start=1)) for name, way, seed in ways}
    title = "A gradient of norm 1, backpropagated through 24 blocks"
    return curves(lines, title, x_name="at the input of block", y_name="norm of the gradient", log=True)


def _schedule(chapter: ModuleType) -> str:
    warmup, total, peak, floor = 100, 1000, 1.0, 0.1
    cosine = [(step, chapter.warmup_cosine(step, warmup, total, peak, floor)) for step in range(0, total + 201, 10)]
    straight = [(0, 0.0), (warmup, peak), (total, floor), (total + 200, floor)]
    lines, title = {"warmup_cosine": cosine, "straight lines": straight}, "The learning rate, as a share of its peak"
    return curves(lines, title, x_name="step", y_name="learning rate / peak")


def _sampling_filters(chapter: ModuleType) -> str:
    """Draw the lesson's five words at three temperatures, each without a filter and with three filters."""
    rows = {}
    for temperature in (0.5, 1.0, 2.0):
        logits = chapter.apply_temperature(torch.tensor(list(FIVE_WORDS.values())).log(), temperature)
        name = f"temperature {temperature:g}"
        rows[name] = logits
        rows[f"k = 2, {name}"] = chapter.top_k_filter(logits, 2)
        rows[f"p = 0.75, {name}"] = chapter.top_p_filter(logits, 0.75)
        rows[f"min_p = 0.3, {name}"] = chapter.min_p_filter(logits, 0.3)
    table = torch.stack([torch.softmax(row, -1).masked_fill(row == -math.inf, torch.nan) for row in rows.values()])
    return heatmap(table, list(rows), list(FIVE_WORDS), "The probability of each next word", column_name="word")


def _routing_table(chapter: ModuleType) -> str:
    """Draw each word's weights on its two experts, and below them what the balance loss is made of."""
    sentence, experts, d_model = "the crane sees the fish and the cat".split(), 5, 16
    generator = torch.Generator().manual_seed(7)
    words = sorted(set(sentence))
    vectors = torch.randn(len(words), d_model, generator=generator)
    router = torch.randn(experts, d_model, generator=generator) / d_model**0.5
    logits = vectors[[words.index(word) for word in sentence]] @ router.T  # (T, N)
    weights, chosen = chapter.route(logits, 2)
    probs = logits.softmax(-1)
    loss = float(chapter.load_balancing_loss(probs, chosen))
    table = torch.full_like(probs, torch.nan).scatter(-1, chosen, weights)
    shares = torch.bincount(chosen.flatten(), minlength=experts) / chosen.numel()
    rows = torch.cat([table, torch.stack([shares, probs.mean(dim=0)])])
    title = f"Two experts per word; balance loss {loss:.2f}"
    return heatmap(rows, [*sentence, "f", "P"], [str(i) for i in range(experts)], title, column_name="expert")


def _patched_capitals(chapter: ModuleType) -> str:
    """Draw how much of the logit of paris each patched state brings back, by block and position."""
    model, corrupted_words = capitals(chapter), "of italy the capital is"
    clean, corrupted = ids_of("of france the capital is"), ids_of(corrupted_words)
    ends = [model(ids)[0][0, -1].detach() for ids in (clean, corrupted)]

    def recovery(layer: int, position: int) -> float:
        patched = chapter.patch_residual(model, clean, corrupted, layer, position)[0, -1]
        return chapter.recovery(*ends, patched, CAPITAL)

    rows = {f"after block {layer}": [recovery(layer, position) for position in range(5)] for layer in range(3)}
    title = "Recovery of the logit of paris by one clean state in a corrupted run"
    words = corrupted_words.split()
    return heatmap(list(rows.values()), list(rows), words, title, column_name="patched position")


def _softmax_slopes(chapter: ModuleType) -> str:
    weights = torch.tensor(list(FIVE_WORDS.values())).expand(len(FIVE_WORDS), -1)
    slopes = chapter.softmax_backward(weights, torch.eye(len(FIVE_WORDS)))
    title = "How much each weight grows with each score"
    return heatmap(slopes, list(FIVE_WORDS), list(FIVE_WORDS), title, row_name="weight", column_name="score")


def _clipped_objective(chapter: ModuleType) -> str:
    """Draw the objective of one token for both signs of the advantage, and what it would be without clipping."""
    ratios = [i / 20 for i in range(5, 36)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for advantage in (1.0, -1.0):
        drawn = []
        for ratio in ratios:
            log_probs, mask = torch.tensor([[math.log(ratio)]]), torch.ones(1, 1, dtype=torch.bool)
            loss = chapter.policy_loss(log_probs, torch.zeros(1, 1), torch.tensor([advantage]), mask)
            drawn.append((ratio, -float(loss)))
        lines[f"advantage {advantage:g}"] = drawn
        lines[f"{advantage:g}, not clipped"] = [(ratio, ratio * advantage) for ratio in ratios]
    title = "The objective of one token, clipped at 0.8 and 1.2"
    looks = [(0, 0), (0, 2), (1, 0), (1, 2)]
    return curves(lines, title, x_name="ratio", y_name="objective", looks=looks)


def _singular_values(chapter: ModuleType) -> str:
    """Draw what becomes of each singular value between 0 and 1, after one step of newton_schulz and after several."""
    values = [i / 250 for i in range(1, 251)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for steps in (1, 3, 5):
        drawn = []
        for value in values:  # beside another one that makes the norm 1
            matrix = torch.diag(torch.tensor([value, math.sqrt(1 - value**2)], dtype=torch.float64))
            drawn.append((value, float(chapter.newton_schulz(matrix, steps)[0, 0])))
        lines["1 step" if steps == 1 else f"{steps} steps"] = drawn
    title = "Singular values under newton_schulz"
    return curves(lines, title, x_name="singular value before", y_name="after", looks=[(2, 2), (1, 1), (0, 0)])


def _equal_budgets(chapter: ModuleType) -> str:
    """Draw a published law at equal FLOPs, and where compute_optimal puts the best sizes, also beyond the budgets."""
    budgets, shares, runs = (1e19, 1e20, 1e21), [2 ** (i / 4) for i in range(-8, 9)], []
    lines: dict[str, list[tuple[float, float]]] = {}
    for budget in (*budgets, 1e22):
        sizes = [share * math.sqrt(budget / 120) for share in shares]
        losses = [1.69 + 406.4 / n**0.34 + 410.7 / (budget / 6 / n) ** 0.28 for n in sizes]
        lines[f"{budget:.0e} FLOPs"] = [(math.log10(n), loss) for n, loss in zip(sizes, losses)]
        runs += [(budget, n, budget / 6 / n, loss) for n, loss in zip(sizes, losses) if budget in budgets]
    (power, _), predict = chapter.compute_optimal(runs)
    best = [(predict(budget)[0], budget) for budget in (*budgets, 1e22)]
    points = [(math.log10(n), 1.69 + 406.4 / n**0.34 + 410.7 / (c / 6 / n) ** 0.28) for n, c in best]
    lines |= {"predict": points, "best sizes": points}
    title = f"Loss at equal FLOPs; the best size grows like C^{power:.2f}"
    looks, x_name = [(0, 0), (1, 0), (2, 0), (3, 2), (4, 1), (4, 0)], "parameters, as a power of 10"
    return curves(lines, title, x_name=x_name, y_name="loss", looks=looks, dots=["best sizes"])


DRAWN: dict[str, Callable[[ModuleType], str]] = {
    "ch00_first_model": _bigrams,
    "ch02_embeddings": _sinusoidal_table,
    "ch03_attention": _causal_weights,
    "ch04_positions_in_attention": _weight_by_distance,
    "ch05_layers": _activation_functions,
    "ch06_blocks": _gradient_by_block,
    "ch08_training": _schedule,
    "ch09_sampling": _sampling_filters,
    "ch11_moe": _routing_table,
    "ch12_interpretability": _patched_capitals,
    "ch13_backward": _softmax_slopes,
    "ch17_fine_tuning": _clipped_objective,
    "ch19_data_and_scale": _equal_budgets,
    "ch20_modern_block": _singular_values,
}
