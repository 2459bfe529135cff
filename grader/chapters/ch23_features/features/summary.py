"""What was found, in sentences, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from grader.chapters.ch23_features.features.features_progress import OPENING, SHARES, TRAINING, Progress
from grader.chapters.ch23_features.features.readings import LEAST_ACTIVE
from grader.counts import format_count

LEAST_GAIN = 0.1  # of explained variance, since the first step; with less, the features say nothing
MOST_EXPLAINED = 0.85  # with more, more steps are not worth an advice
ENOUGH_STEPS = 1500  # after so many, more explain hardly more of the stories' states
MORE = 1.1  # than planned, that is worth a sentence
CHANCE, CLEAR = 0.5, 0.1  # a probe above its control by so much has found the property


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def sentences_about_dictionary(progress: Progress) -> Iterator[str]:
    found = progress.examined
    assert found is not None
    explained, losses, readings = found["explained"], found["losses"], found["readings"]
    steps, n = len(progress.losses), progress.n_features
    yield (
        f"The autoencoder has {n} features, of which at most {progress.k} are active at a time. It learned from the "
        f"states after block {progress.layer} in {format_count(steps, 'step')}. All that follows was measured on "
        f"{format_count(found['stories'], 'held-out story', 'held-out stories')} with {found['tokens']:,} tokens."
    )
    before = 1 - progress.losses[0]
    if explained - before < LEAST_GAIN:
        yield (
            f"It explains {percent(explained)} of the variance, and random features {percent(before)}: nothing was "
            "learned. Give it more time."
        )
        return
    yield f"It explains {percent(explained)} of the variance; before its first step it was {percent(before)}."
    model, rest, mean = (losses[name] for name in ("model", "reconstruction", "mean"))
    yield (
        f"The model's loss is {model:.2f}. If it goes on from the reconstruction, the loss is {rest:.2f}; from the "
        f"mean state it is {mean:.2f}."
    )
    never = f"{format_count(found['dead'], 'feature')} never became active"
    dead = never if found["dead"] else "No feature is dead"
    yield f"{dead}, and {readings['examined']} were active at {LEAST_ACTIVE} tokens or more."
    if not readings["examined"]:
        return
    share = readings["read"] / readings["examined"]
    yield (
        f"{readings['read']} of these {readings['examined']} features ({percent(share)}) have a reading: a rule about "
        f"one token scores above {readings['threshold']:.2f}, which 5 % of random directions reach. The other "
        f"{readings['examined'] - readings['read']} have none."
    )
    if share < 0.1:
        yield "That is hardly more than random directions have: these readings prove little."


def sentences_about_probes(probed: dict[str, Any]) -> Iterator[str]:
    question, layers = probed["question"], probed["layers"]
    yield (
        f"The question is: {question} A probe reads the state of {probed['model']} at the last full stop, which is the "
        f"same token in all {probed['sentences']} sentences."
    )
    first = layers[0]
    found = [layer for layer, accuracy, control in layers if accuracy - max(control, CHANCE) >= CLEAR]
    yield f"After the embeddings, it is right in {percent(first[1])} of held-out sentences."
    if not found:
        yield "After no block is it clearly better than with shuffled labels: it finds nothing."
        return
    best = max(layers, key=lambda row: row[1])
    blocks = format_count(best[0], "block")
    yield f"After {blocks} it is right in {percent(best[1])}; with shuffled labels in {percent(best[2])}."
    yield f"It is clearly better than shuffled labels from {format_count(found[0], 'block')} on."


def sentences_about_steering(probed: dict[str, Any]) -> Iterator[str]:
    steered = {one["strength"]: one for one in probed["steered"]}
    strongest, plain = max(steered), steered[0.0]
    good, bad = (f"“{name}”" for name in probed["classes"])
    up, down = (_factor(steered[sign * strongest]["log_odds"] - plain["log_odds"]) for sign in (1, -1))
    yield (
        f"Steering after block {probed['block']} towards {good}, with strength {strongest:g}, multiplies the odds of "
        f"its words by {up}; towards {bad}, by {down}."
    )
    costs = [steered[sign * strongest]["loss"] for sign in (1, -1)]
    yield f"The loss on other text goes from {plain['loss']:.2f} to {costs[0]:.2f} and {costs[1]:.2f}."


def _factor(log: float) -> str:
    return f"{math.exp(min(max(log, -50.0), 50.0)):,.3g}"


def sentences_about_length(progress: Progress) -> Iterator[str]:
    """Whether it took longer than it should."""
    took = progress.seconds_spent / 60
    if took > progress.minutes * MORE:
        yield (
            f"It took {took:.1f} minutes instead of {progress.minutes:g}, because a part of it cannot be shorter at "
            "the present speed of this machine."
        )


def minutes_that_help(progress: Progress) -> int | None:
    """Minutes in which the autoencoder gets enough steps at the measured speed; None if it had enough, or explains
    most of the variance."""
    steps, found = len(progress.losses), progress.examined or {}
    if steps >= ENOUGH_STEPS or found.get("explained", 0.0) > MOST_EXPLAINED:
        return None
    training = ENOUGH_STEPS * progress.seconds[TRAINING] / max(steps, 1)
    return math.ceil(MORE * (progress.seconds[OPENING] + training / SHARES[TRAINING]) / 60)
