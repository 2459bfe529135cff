"""The comparison in words and numbers: rows of a table, sentences that say what the numbers mean, and the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grader.models.comparison.measuring import Comparison, Measured, Sample
from grader.models.comparison.scoring import Score
from grader.models.play.views import side_by_side

CLOSE = 0.01  # nats a token: two seeds of one design differ by more
KINDS = {"gpt": "GPT", "moe": "GPT with experts", "translate": "translator"}
DESIGN_ROWS = {  # field of a design -> what the table calls it
    "kind": "model", "positions": "positions", "norm": "normalisation", "n_heads": "heads", "n_layers": "layers",
    "d_model": "width d_model", "dropout": "dropout",
    "max_len": "tokens read at once", "activation": "activation",
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
    add("trained on", lambda made: str(made.loaded.record.get("title", "")), only_if_different=True)
    for name, shown in (("rows", "texts in a batch"), ("warmup", "steps of warm-up")):
        add(shown, lambda made: _of_recipe(made, name), only_if_different=True)  # noqa: B023
    several = len(comparison.held_out) > 1
    for number, held_out in enumerate(comparison.held_out):
        on = f", {held_out.name}" if several else ""
        if comparison.same_tokenizer:
            add(f"validation loss{on}", lambda made: f"{made.scores[number].loss:.3f}")  # noqa: B023 - called at once
            add(f"perplexity{on}", lambda made: f"{made.scores[number].perplexity:.2f}")  # noqa: B023
        else:
            add(f"bits a character{on}", lambda made: f"{made.scores[number].bits_per_character:.3f}")  # noqa: B023
    if comparison.translates:
        count = len(comparison.held_out[0].texts)
        add("right translations", lambda made: f"{made.right} of {count}")
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
    return str(recipe.get(name, "")) if isinstance(recipe, dict) else ""


def sentences(comparison: Comparison) -> list[str]:
    """What the numbers mean, and what they cannot say."""
    one, other = comparison.both
    said = [*comparison.sentences]
    if len(comparison.held_out) > 1:
        said.append("The two were trained on different texts, so both are measured on the held-out part of each.")
    if comparison.same_tokenizer:
        said.append(
            f"Measured on {comparison.held_out[0].name}. The loss is in nats a token; the perplexity is e to the loss."
        )
    else:
        said.append(
            f"Measured on {comparison.held_out[0].name}. The tokenizers differ, so losses a token cannot be "
            "compared: the longer the tokens, the harder each is to "
            "predict. The table has bits a character."
        )
        kinds = {made.loaded.tokenizer.kind for made in comparison.both}
        if len(kinds) > 1 and "words" in kinds:
            said.append(
                "A tokenizer of words does not predict capitals, spaces and line breaks, so its model has a "
                "little less to do."
            )
    said += [_better(one, other, number, comparison) for number in range(len(comparison.held_out))]
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
    yield f"{sample.prompt!r}" + (
        f", right: {sample.right}" if sample.right else "" if comparison.translates else f", seed {sample.seed}"
    )
    yield from side_by_side(
        [made.name for made in comparison.both], [" ".join(text.split()) for text in sample.texts], width
    )


def _better(one: Measured, other: Measured, number: int, comparison: Comparison) -> str:
    def value(each: Score) -> float:
        return each.loss if comparison.same_tokenizer else each.bits_per_character

    on = f" on {comparison.held_out[number].name}" if len(comparison.held_out) > 1 else ""
    unit = "nats a token" if comparison.same_tokenizer else "bits a character"
    low, high = sorted(comparison.both, key=lambda made: value(made.scores[number]))
    difference = value(high.scores[number]) - value(low.scores[number])
    if difference < CLOSE:
        return f"Their losses{on} are almost equal: they differ by {difference:.3f} {unit}."
    if not comparison.same_tokenizer and low.unknown and low.unknown[number] > high.unknown[number]:
        return (
            f"{low.name} has the lower loss{on}, but it reads {low.unknown[number]} words of this text as <unk>, "
            "which is easy to predict: this proves nothing."
        )
    return (
        f"{low.name} predicts better{on}, by {difference:.3f} {unit}. Another seed would give a slightly "
        "different number."
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
