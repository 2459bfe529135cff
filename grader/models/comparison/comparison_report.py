"""The comparison in words and numbers, the samples, and the loss curves as a picture.

The picture has a colour for each model, with a solid line for the validation loss and a dotted one for the training
loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grader.counts import format_count
from grader.models.comparison.measuring import Comparison, Measured, Sample
from grader.models.training.recipes import USUAL
from grader.teaching.drawing import Points, curves
from grader.teaching.terminal_drawing import side_by_side

CLOSE_NATS_A_TOKEN = 0.01  # two seeds of one design differ by more
MOST_POINTS = 80  # of the training loss; each is a mean, because single steps jump up and down
KINDS = {"gpt": "GPT", "moe": "GPT with experts"}
DESIGN_ROWS = {  # field of a design -> what the table calls it
    "kind": "model", "positions": "positions", "norm": "normalisation", "n_heads": "heads", "n_layers": "layers",
    "d_model": "width d_model", "dropout": "dropout",
    "max_len": "tokens read at once", "activation": "activation",
    "attention": "attention", "soft_cap": "soft cap", "predict_tokens": "tokens predicted in training",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    name: str
    values: tuple[str, str]


def table_rows(comparison: Comparison) -> list[Row]:
    """What differs between the two, then what was measured."""
    one, other = comparison.both
    rows = [
        Row(name, _shown(field, one, other))
        for field, name in DESIGN_ROWS.items()
        if getattr(one.design, field) != getattr(other.design, field)
    ]

    def add(name: str, show: Callable[[Measured], str], only_if_different: bool = False) -> None:
        values = show(one), show(other)
        if not only_if_different or values[0] != values[1]:
            rows.append(Row(name, values))

    add(
        "tokenizer",
        lambda made: f"{made.loaded.tokenizer.kind}, {made.loaded.tokenizer.vocab_size:,} tokens",
        only_if_different=True,
    )
    for name, shown in (
        ("rows", "texts in a batch"), ("warmup", "steps of warm-up"), ("optimizer", "optimizer"),
        ("schedule", "learning rate"),
    ):  # fmt: skip
        add(shown, lambda made: _of_recipe(made, name), only_if_different=True)  # noqa: B023 - called at once
    if comparison.same_tokenizer:
        add("validation loss", lambda made: f"{made.score.loss:.3f}")
        add("perplexity", lambda made: f"{made.score.perplexity:.2f}")
    else:
        add("bits a character", lambda made: f"{made.score.bits_per_character:.3f}")
    add("parameters", lambda made: f"{made.parameters:,}")
    if any(made.active != made.parameters for made in comparison.both):
        add("  used by each token", lambda made: f"{made.active:,}")
    add("memory of the parameters", lambda made: f"{made.bytes / 1e6:.2f} MB")
    add("steps of training", lambda made: f"{len(made.history['losses']):,}")
    add("tokens seen", lambda made: f"{made.history['tokens']:,}")
    add("time of training", lambda made: _duration(made.history["seconds"]))
    add("tokens a second, training", lambda made: _rate(made.history["tokens"], made.history["seconds"]))
    add("tokens a second, writing", lambda made: _rate(made.written, made.seconds))
    add("  with the KV cache", lambda made: "yes" if made.has_cache else "no", only_if_different=True)
    return rows


def _of_recipe(made: Measured, name: str) -> str:
    recipe = made.loaded.record.get("recipe")
    return str(recipe.get(name, USUAL.get(name, ""))) if isinstance(recipe, dict) else ""


def sentences(comparison: Comparison) -> list[str]:
    """What the numbers mean, and what they cannot say."""
    one, other = comparison.both
    said = [*comparison.sentences]
    if comparison.same_tokenizer:
        said.append(
            f"Measured on {comparison.held_out.name}. The loss is in nats a token; the perplexity is e to the loss."
        )
    else:
        said.append(
            f"Measured on {comparison.held_out.name}. The tokenizers differ, so losses a token cannot be "
            "compared: the longer the tokens, the harder each is to "
            "predict. The table has bits a character."
        )
        kinds = {made.loaded.tokenizer.kind for made in comparison.both}
        if len(kinds) > 1 and "words" in kinds:
            said.append(
                "A tokenizer of words does not predict capitals, spaces and line breaks, so its model has a "
                "little less to do."
            )
    said.append(_better(comparison))
    if (
        one.history["tokens"] != other.history["tokens"]
        and abs(one.history["tokens"] / max(other.history["tokens"], 1) - 1) > 0.02
        and comparison.same_tokenizer
    ):
        said.append(
            "They were not trained on equally many tokens, so the difference is not that of their designs alone."
        )
    if one.loaded.record.get("device") != other.loaded.record.get("device"):
        said.append("They were trained on different devices, so their times of training cannot be compared.")
    return said


def sample_lines(sample: Sample, comparison: Comparison, width: int) -> Iterator[str]:
    """The two texts next to each other, below what both were given."""
    yield f"{sample.prompt!r}, seed {sample.seed}"
    yield from side_by_side(
        [made.name for made in comparison.both], [" ".join(text.split()) for text in sample.texts], width
    )


def _better(comparison: Comparison) -> str:
    def value(made: Measured) -> float:
        return made.score.loss if comparison.same_tokenizer else made.score.bits_per_character

    unit = "nats a token" if comparison.same_tokenizer else "bits a character"
    low, high = sorted(comparison.both, key=value)
    difference = value(high) - value(low)
    if difference < CLOSE_NATS_A_TOKEN:
        return f"Their losses are almost equal: they differ by {difference:.3f} {unit}."
    if not comparison.same_tokenizer and low.unknown > high.unknown:
        return (
            f"{low.name} has the lower loss, but it reads {format_count(low.unknown, 'word')} of this text as <unk>, "
            "which is easy to predict: this proves nothing."
        )
    return (
        f"{low.name} predicts better, by {difference:.3f} {unit}. Another seed would give a slightly different number."
    )


def _shown(field: str, one: Measured, other: Measured) -> tuple[str, str]:
    values = getattr(one.design, field), getattr(other.design, field)
    first, second = (
        KINDS[value] if field == "kind" else f"{value}-norm" if field == "norm" else str(value) for value in values
    )
    return first, second


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:,.0f}" if seconds else "not known"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


# ---- the picture


def loss_curves(comparison: Comparison) -> dict[str, Points]:
    """The curves by their names: for each model the validation loss, then the training loss."""
    found: dict[str, Points] = {}
    for made in comparison.both:
        unit = _unit(made, comparison)
        validation = [(float(step), loss * unit) for step, loss in made.history["validation"] if math.isfinite(loss)]
        training = [(step, loss * unit) for step, loss in mean_pieces(made.history["losses"])]
        found |= {f"{made.name}, validation": validation, f"{made.name}, training": training}
    return {name: points for name, points in found.items() if points}


def draw(comparison: Comparison) -> str | None:
    """The picture as SVG; None if neither model was trained for a step."""
    lines = loss_curves(comparison)
    if not lines:
        return None
    one, other = comparison.both
    unit = "loss, in nats a token" if comparison.same_tokenizer else "loss, in bits a character"
    looks = [(0 if name.startswith(f"{one.name}, ") else 1, 0 if name.endswith("validation") else 2) for name in lines]
    return curves(lines, f"{one.name} and {other.name}", x_name="steps of training", y_name=unit, looks=looks)


def _unit(made: Measured, comparison: Comparison) -> float:
    """What a recorded loss is multiplied with: bits a character where the tokenizers differ."""
    score = made.score
    return 1.0 if comparison.same_tokenizer or not score.loss else score.bits_per_character / score.loss


def mean_pieces(losses: Sequence[float]) -> list[tuple[float, float]]:
    """The curve of a value of each step, with at most MOST_POINTS points: means of pieces."""
    size = -(-len(losses) // MOST_POINTS) or 1
    pieces = [losses[at : at + size] for at in range(0, len(losses), size)]
    return [
        (number * size + (len(piece) + 1) / 2, sum(piece) / len(piece))
        for number, piece in enumerate(pieces)
        if all(map(math.isfinite, piece))
    ]
