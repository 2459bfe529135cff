"""What the comparison has found: tables, and sentences that follow from the numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

from grader.chapters.ch22_recurrent.layer_comparison.costs import LENGTHS, TEXTS, Costs
from grader.chapters.ch22_recurrent.layer_comparison.models import EVERY
from grader.chapters.ch22_recurrent.layer_comparison.recall import PAIRS, VALUES
from grader.chapters.ch22_recurrent.layer_comparison.trainings import RECALL_STEPS, Found, Result
from grader.counts import format_count

CLEAR = 0.05  # a smaller difference between two shares of right answers does not count
LEARNED = 0.9  # the share of right answers with the fewest pairs, from which on a model has learned recall
Table = tuple[str, Sequence[str], list[list[str]]]  # title, columns, rows


# ---- the tables


def tables(found: Found) -> list[Table]:
    after = [f"T = {length:,}" for length in LENGTHS]
    steps = format_count(found.steps, "step")
    recall_steps = format_count(RECALL_STEPS * found.steps, "step")
    return [
        (
            f"Loss on held-out text after {steps}", ("", "parameters", "mean", "smallest", "largest"),
            [_losses(kind, results) for kind, results in found.results.items()],
        ),
        (
            "Bytes that a model keeps of a text after T tokens", ("", *after),
            [[kind, *(f"{each:,}" for each in costs.bytes)] for kind, costs in found.costs.items()],
        ),
        (
            "Processor time for the next token, in that after the first T", ("", *after),
            [[kind, *(f"{each:.2f}" for each in costs.ratios)] for kind, costs in found.costs.items()],
        ),
        (
            f"Right answers of recall after {recall_steps}: mean, smallest to largest", ("pairs", *found.results),
            [[str(pairs), *(_spread(found, kind, i) for kind in found.results)] for i, pairs in enumerate(PAIRS)],
        ),
    ]  # fmt: skip


def _losses(kind: str, results: Sequence[Result]) -> list[str]:
    losses = [each.loss for each in results]
    return [kind, f"{results[0].parameters:,}", *(f"{each:.3f}" for each in (mean(losses), min(losses), max(losses)))]


def _spread(found: Found, kind: str, i: int) -> str:
    shares = [each.recall[i] for each in found.results[kind]]
    return f"{_percent(mean(shares))}, {100 * min(shares):.0f} to {100 * max(shares):.0f}"


# ---- the sentences


def sentences(found: Found) -> list[str]:
    """How to read the tables, and what these numbers show; what they do not show is said, too."""
    results, costs = found.results, found.costs
    seeds = format_count(len(next(iter(results.values()))), "seed")
    said = [
        f"A loss is in nats a token; mean, smallest and largest are those of {seeds}. {_order(results)}",
        " ".join(_growth(kind, each) for kind, each in costs.items()),
        f"Times are of {TEXTS} texts at once, on one thread. They vary by some per cent from run to run.",
        f"A guess among {VALUES} values is right in {_percent(1 / VALUES)} of the answers. "
        + " ".join(_kept_of_pairs(kind, each) for kind, each in costs.items()),
    ]
    if "recurrent" in results:
        said.append(_forgotten(results["recurrent"]))
    if "recurrent" in results and "hybrid" in results:
        said.append(_brought_back(results))
    if "attention" in results:
        said.append(_attention(results["attention"]))
    return said


def _order(results: dict[str, list[Result]]) -> str:
    """Which kind has the smaller loss, where all seeds agree."""
    said, means = [], {kind: mean(each.loss for each in made) for kind, made in results.items()}
    for better, worse in pairwise(sorted(results, key=means.__getitem__)):
        pairs = zip(results[better], results[worse], strict=True)
        gap = f"On average, the loss of {better} is {means[worse] - means[better]:.3f} lower than that of {worse}"
        agree = all(one.loss < other.loss for one, other in pairs)
        said.append(f"{gap}, and lower with every seed." if agree else f"{gap}, but not with every seed.")
    return " ".join(said)


def _growth(kind: str, costs: Costs) -> str:
    """How bytes and time change from the first length to the last."""
    grown = costs.bytes[-1] / costs.bytes[0]
    kept = "as many bytes" if grown == 1 else f"{grown:.1f} times as many bytes"
    time = f"a token takes {costs.ratios[-1]:.1f} times as long"
    return f"After {LENGTHS[-1]:,} tokens, {kind} keeps {kept} as after {LENGTHS[0]}, and {time}."


def _kept_of_pairs(kind: str, costs: Costs) -> str:
    first, last = (f"{each:,}" for each in (costs.pair_bytes[0], costs.pair_bytes[-1]))
    return f"Of {PAIRS[0]} pairs, {kind} keeps {first} bytes, and of {PAIRS[-1]} pairs {last}."


def _forgotten(results: Sequence[Result]) -> str:
    """What a state of fixed size forgets."""
    few, many = ([each.recall[i] for each in results] for i in (0, -1))
    shares = f"{_percent(mean(few))} right answers with {PAIRS[0]} pairs, and {_percent(mean(many))} with {PAIRS[-1]}"
    if mean(few) < LEARNED:
        advice = "so this run does not show what its state forgets; more --steps may"
        return f"The recurrent model gives {shares}. It has not learned recall of {PAIRS[0]} pairs, {advice}."
    if _is_more(few, many):
        return f"The recurrent model forgets: it gives {shares}, and fewer with every seed."
    return f"The recurrent model gives {shares}. That it forgets is not shown with every seed."


def _is_more(shares: Iterable[float], others: Iterable[float]) -> bool:
    """Whether the shares are clearly larger than the others with every seed."""
    return all(one - other > CLEAR for one, other in zip(shares, others, strict=True))


def _brought_back(results: dict[str, list[Result]]) -> str:
    """What one attention layer in EVERY does to recall of many pairs."""
    hybrid, recurrent = ([each.recall[-1] for each in results[kind]] for kind in ("hybrid", "recurrent"))
    with_layer, without = (_percent(mean(each)) for each in (hybrid, recurrent))
    shares = f"With one attention layer in {EVERY}, {with_layer} of the answers with {PAIRS[-1]} pairs are right"
    shown = "it is more" if _is_more(hybrid, recurrent) else "that it helps is not shown"
    return f"{shares}, and without any {without}; {shown} with every seed."


def _attention(results: Sequence[Result]) -> str:
    worst = min(share for each in results for share in each.recall)
    least = "all" if worst == 1 else f"at least {int(100 * worst + 1e-6)} %"
    shares = f"{least} of its answers are right, with every number of pairs and every seed"
    if worst > LEARNED:
        return f"Attention does not forget: {shares}."
    return f"Of attention, {shares}. It has not learned recall with every seed; more --steps may help."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
