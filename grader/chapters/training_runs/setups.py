"""The trainings of `headway hunt --training`: small GPTs that differ in one part."""

from __future__ import annotations

from dataclasses import dataclass

USED = ("ch01_tokenizer", "ch07_models", "ch08_training", "ch09_sampling", "ch10_kv_cache")
STEPS = 300


@dataclass(frozen=True)
class Setup:
    """What a run trains. Every case has a setup, and so has the right run beside it."""

    name: str
    says: str  # what the learner reads about it
    texts: int = 260
    peak: float = 4e-3  # the highest learning rate
    dropout: float = 0.0
    pieces: int = 1  # micro-batches of a step
    experts: bool = False
    half: bool = False  # compute in float16 where torch's autocast does
    schedule: float = 1.0  # the share of the steps after which the schedule ends
    chapters: tuple[str, ...] = USED


SETUPS = {
    setup.name: setup
    for setup in (
        Setup("plain", "a GPT with learned positions"),
        Setup("few", "a GPT that reads 100 texts many times", texts=100),
        Setup("dropout", "a GPT with a dropout of 0.3", dropout=0.3),
        Setup("pieces", "a GPT whose batches come in 4 pieces", pieces=4),
        Setup("extended", "a GPT whose run was made longer than its schedule", schedule=0.6),
        Setup("half", "a GPT in mixed precision (float16)", peak=1e-2, half=True),
        Setup("experts", "a GPT with one of 4 experts for each token", experts=True, chapters=(*USED, "ch11_moe")),
    )
}
