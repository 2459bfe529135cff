"""Draws what a training run showed: what is seen at once in a terminal and as a page, then each further look by its
name, in a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import takewhile
from typing import Any

from grader.chapters.training_runs.records import Record
from grader.teaching.drawing import curves as draw_curves
from grader.teaching.terminal_drawing import BLANK, Block, curves, grids, line, table
from rich.text import Text

THIS, LAST = "this run", "last week"
KEYS = 8  # of an attention map
FEW = (0, 1, 2, 3, 5, 8, 12, 16, 20, 24)  # the shown positions
CURVES = {
    "train": "loss in training", "validation": "loss on held-out texts, each 25 steps",
    "norm": "norm of the gradient, before clipping",
}  # fmt: skip
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>A training run</title>
<style>body {{ max-width: 760px; margin: 2em auto; padding: 0 1em }} svg {{ max-width: 100%; height: auto }}
pre {{ white-space: pre-wrap }}</style>
{charts}
<pre>{numbers}</pre>
</html>
"""


def draw_page(run: Record, usual: Record) -> str:
    """What is seen at once, as a page: the curves as charts, then the numbers and the samples."""
    charts = []
    for name, title in CURVES.items():
        lines = {label: _points(record, name) for label, record in ((THIS, run), (LAST, usual))}
        charts.append(draw_curves({label: points for label, points in lines.items() if points}, title, x_name="step"))
    numbers = "\n".join(str(part) for part in _draw_numbers(run, usual))
    return PAGE.format(charts="\n".join(charts), numbers=escape(numbers))


def _points(record: Record, name: str) -> list[tuple[float, float]]:
    """The curve up to where it becomes NaN."""
    steps = record["curves"]["check" if name == "validation" else "step"]
    points = zip(steps, record["curves"][name])
    return list(takewhile(lambda point: math.isfinite(point[1]), points))


def draw_at_once(run: Record, usual: Record) -> Block:
    """The loss curves, gradient norms, what a step needs, and samples."""
    drawn = [part for name, title in CURVES.items() for part in _curves(title, run, usual, name)]
    return [*drawn, *_draw_numbers(run, usual)]


def _draw_numbers(run: Record, usual: Record) -> Block:
    mine, theirs = run["figures"], usual["figures"]
    rows = [
        ("words in the vocabulary", *(f"{each['vocabulary']}" for each in (mine, theirs))),
        ("tokens in a step", *(f"{each['tokens a step']}" for each in (mine, theirs))),
        ("share of a batch that is no padding", *(f"{each['filled']:.0%}" for each in (mine, theirs))),
        ("memory of the weights", *(kilobytes(each["weights"]) for each in (mine, theirs))),
        ("memory of the optimizer", *(kilobytes(each["state"]) for each in (mine, theirs))),
        ("memory for the longest backward pass", *(kilobytes(each["activations"]) for each in (mine, theirs))),
        ("samples that end, of 12", *(f"{each['samples']['ended']}" for each in (run, usual))),
        ("the model's loss on its own samples", *(_number(each["samples"]["loss"]) for each in (run, usual))),
    ]
    return [
        *table(rows, ("", THIS, LAST)),
        *BLANK,
        Text("Samples of this run, with temperature 0.7 and top p 0.95:"),
        *(run["samples"]["texts"] or ["There are none: the logits are not finite, so no token can be drawn."]),
    ]


def _curves(title: str, run: Record, usual: Record, name: str, times: float = 1.0) -> Block:
    """Two curves on one scale. A curve that becomes NaN ends there, and the step is named."""
    named, after = {}, []
    for label, record in ((THIS, run), (LAST, usual)):
        values = [value * times for value in record["curves"][name]]
        finite = values[: next((i for i, value in enumerate(values) if not math.isfinite(value)), None)]
        if len(finite) < len(values):
            steps = record["curves"]["check" if name == "validation" else "step"]
            after = line(f"{label} is NaN from step {steps[len(finite)]:.0f} on")
        named[label] = finite or [0.0]
    return [Text(title), *(Text("  ") + each for each in curves(named) if isinstance(each, Text)), *after, *BLANK]


def kilobytes(count: int) -> str:
    return f"{count / 1000:,.0f} kB"


def _number(value: float, form: str = ".2f") -> str:
    return "NaN" if math.isnan(value) else format(value, form)


def draw_attention(run: Record, usual: Record) -> Block:
    look, other = run["attention"], usual["attention"]
    maps = [[[math.nan if x < 0 else x for x in row[:KEYS]] for row in one[:KEYS]] for one in look["maps"]]
    named = {f"layer {1 + i // 2}, head {1 + i % 2}": each for i, each in enumerate(maps)}
    rows: list[Sequence[Any]] = [
        ("weight on later positions", *(f"{each['later']:.0%}" for each in (look, other))),
        ("greatest weight of a query", *(f"{each['greatest']:.0%}" for each in (look, other))),
        ("sums of the rows", *(" to ".join(_number(sum_) for sum_ in each["row sums"]) for each in (look, other))),
    ]
    return [
        f"Weights in percent, for these words (a row is a query): {' '.join(look['words'][:KEYS])}",
        *BLANK,
        *(part for i in (0, 2) for part in (*grids(dict(list(named.items())[i : i + 2]), decimals=0), *BLANK)),
        Text("Of all held-out texts, on average:"),
        *table(rows, ("", THIS, LAST)),
    ]


def draw_batch(run: Record, usual: Record) -> Block:
    look = run["batch"]
    columns = [column for row in look["rows"] for column in row]
    length = max(map(len, columns))
    padded = [[*column, *[""] * (length - len(column))] for column in columns]
    rows = list(zip(*padded))
    heads = ("reads", "target") * (len(columns) // 2)
    size = " x ".join(map(str, look["shape"]))
    return [
        f"The first batch is {size}. Two of its rows, from top to bottom; - is a target that does not count:",
        *BLANK,
        *table(rows, heads, left=len(heads)),
    ]


def draw_rate(run: Record, usual: Record) -> Block:
    first = [_number(each["curves"]["moved"][0]) for each in (run, usual)]
    return [
        *_curves("learning rate, in thousandths", run, usual, "rate", 1000),
        *_curves("how far a weight moves in a step, in learning rates", run, usual, "moved"),
        f"At the first step: {first[0]} learning rates, and {first[1]} last week.",
    ]


def draw_activations(run: Record, usual: Record) -> Block:
    look, other = run["activations"], usual["activations"]
    sizes = [
        (name, *(_number(value, ".3g") for value in (look["begin"][name], look["end"][name], other["end"][name])))
        for name in look["end"]
    ]
    norms = [
        (name, *(_number(each["gradients"].get(name, math.nan), ".2g") for each in (look, other)))
        for name in look["gradients"]
    ]
    shares = [
        (f"block {number}", *(" ".join(f"{share:4.0%}" for share in shares) for shares in both))
        for number, both in enumerate(zip(run.get("experts", ()), usual.get("experts", ())), 1)
    ]
    used = [*BLANK, Text("share of the tokens of each expert"), *table(shares, ("", THIS, LAST))] if shares else []
    return [
        Text("size of the outputs (root mean square)"),
        *table(sizes, ("", "at the beginning", "at the end", "at the end, last week")),
        *BLANK,
        Text("norm of the gradient of each part, at step 10"),
        *table(norms, ("", THIS, LAST)),
        *used,
    ]


def draw_positions(run: Record, usual: Record) -> Block:
    mine, theirs = run["positions"]["losses"], usual["positions"]["losses"]
    rows = [
        (f"{i}", *(_number(each[i]) if i < len(each) else "-" for each in (mine, theirs)))
        for i in FEW
        if i < max(len(mine), len(theirs))
    ]
    means = [_number(each["positions"]["mean"]) for each in (run, usual)]
    return [
        Text("loss of the trained model on the held-out texts, in eval mode"),
        *table([*rows, ("all", *means)], ("position", THIS, LAST)),
    ]


def draw_cache(run: Record, usual: Record) -> Block:
    look, other = run["cache"], usual["cache"]
    rows = [
        ("with and without the cache", *(f"{each['apart']:.1g}" for each in (look, other))),
        ("without the cache, computed twice", *(f"{each['again']:.1g}" for each in (look, other))),
    ]
    return [
        f"Greedy, without the cache: {look['plain']}",
        f"Greedy, with the cache:    {look['cached']}",
        *BLANK,
        Text("largest difference between the logits of the same tokens"),
        *table(rows, ("", THIS, LAST)),
    ]


LOOKS: Mapping[str, tuple[str, Callable[[Record, Record], Block]]] = {
    "attention": ("what the heads attend to", draw_attention),
    "batch": ("a batch with its targets", draw_batch),
    "rate": ("the learning rate over the steps, and how far the weights move", draw_rate),
    "activations": ("sizes of activations, and of each part's gradients", draw_activations),
    "positions": ("the loss by position", draw_positions),
    "cache": ("what the model writes with and without the cache", draw_cache),
}
