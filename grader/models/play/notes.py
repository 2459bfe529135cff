"""Sentences about a model and its texts: what it is, what it cannot read of a beginning, and why a text ends."""

from __future__ import annotations

from grader.models.play.engine import Engine, Prompt

NAMED = 4  # unknown words in a sentence; of more, the rest is counted

KINDS = {"gpt": "a GPT", "moe": "a GPT with experts", "translate": "a translator"}


def model_note(engine: Engine) -> str:
    design = engine.design
    parameters = sum(parameter.numel() for parameter in engine.model.parameters())
    layers, heads = (
        f"{count} {what}{'s' * (count != 1)}" for count, what in ((design.n_layers, "layer"), (design.n_heads, "head"))
    )
    return f"{engine.name}: {KINDS[design.kind]} of {layers}, {heads} and {parameters:,} parameters."


def reading_notes(engine: Engine, prompt: Prompt) -> list[str]:
    """What the model does not see of this beginning: nothing, one sentence or two."""
    return [*unknown_note(engine, prompt.unknown), *left_out_note(engine, prompt.left_out)]


def unknown_note(engine: Engine, words: tuple[str, ...]) -> list[str]:
    if not words:
        return []
    named = [
        f"{word!r}" + (f" (the nearest word it knows is {near!r})" if (near := engine.nearest_words(word)) else "")
        for word in words[:NAMED]
    ]
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return [
        f"Words that {engine.name} does not have: {', '.join(named)}{more}. It reads one common token for all of them."
    ]


def left_out_note(engine: Engine, count: int) -> list[str]:
    if not count:
        return []
    tokens = "1 token" if count == 1 else f"{count} tokens"
    return [f"This is more than {engine.name} reads, so the model does not see the first {tokens}."]


def full_note(engine: Engine) -> str:
    """Why a text with the ending "full" ends."""
    return f"The text ends here, because the table of {engine.name} has {engine.longest} positions."
