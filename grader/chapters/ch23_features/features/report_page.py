"""The report of `headway features` as one HTML file: charts, features with the texts that switch them on, samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from grader.chapters.ch23_features.features.features_progress import Progress
from grader.chapters.ch23_features.features.summary import (
    percent,
    sentences_about_dictionary,
    sentences_about_probes,
    sentences_about_steering,
)
from grader.teaching.drawing import curves

SHADE = "47 125 192"  # a blue that can be read behind dark and behind light letters
MOST_SHADE = 65  # percent
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 860px; margin: 2em auto; padding: 0 1em }}
svg {{ max-width: 100%; height: auto }}
section.feature {{ border: 1px solid #8886; border-radius: 6px; margin: 1em 0; padding: 0 1em }}
h3 {{ margin: .7em 0 0 }}
.facts {{ margin: .2em 0 .6em }}
.text {{ margin: .3em 0; overflow-wrap: anywhere }}
.text span {{ border-radius: 3px; white-space: pre-wrap }}
.scroll {{ overflow-x: auto }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .25em .7em .25em 0; border-bottom: 1px solid #8886 }}
td.number, th.number {{ text-align: right; white-space: nowrap }}
</style>
{body}
</html>
"""


def draw(progress: Progress) -> str:
    """The whole page."""
    assert progress.examined is not None and progress.probed is not None
    title = f"Features of {progress.base}"
    body = [f"<h1>{escape(title)}</h1>", *_dictionary(progress), *_probes(progress.probed)]
    return PAGE.format(title=escape(title), body="\n".join(body))


def _dictionary(progress: Progress) -> Iterable[str]:
    found = progress.examined
    assert found is not None
    yield from _paragraphs(sentences_about_dictionary(progress))
    readings = found["readings"]
    lines = {"features": _quantiles(readings["scores"]), "random directions": _quantiles(readings["random_scores"])}
    lines = {name: points for name, points in lines.items() if points}
    if lines:
        yield curves(lines, "Scores of the best rules, from the lowest", x_name="share, in percent", y_name="score")
    yield "<p>A rule names a place and at most four tokens. Its score is high if the feature is active where the rule "
    yield "says, and only there; it is found on one half of the stories and computed on the other.</p>"
    for heading, wanted in (("Features with a reading", True), ("Some features without a reading", False)):
        shown = [feature for feature in found["shown"] if feature["read"] is wanted]
        yield f"<h2>{heading}</h2>"
        if not shown:
            yield "<p>There are none.</p>"
        for feature in shown:
            yield _feature(f"Feature {feature['number']}", feature)
    yield "<h2>Random directions, for comparison</h2>"
    yield "<p>Their strongest texts may look alike too. So such texts alone do not show that a feature means something."
    yield "</p>"
    for number, direction in enumerate(found["random"]):
        yield _feature(f"Direction {number + 1}", direction)


def _feature(title: str, shown: dict[str, Any]) -> str:
    facts = [f"Active at {100 * shown['share']:.2f} % of the tokens.", rule_sentence(shown["reading"])]
    if "without" in shown:
        facts.append(without_sentence(shown["without"]))
    texts = "".join(f'<p class="text">{_shaded(context)}</p>' for context in shown["contexts"])
    head = f'<h3>{escape(title)}</h3><p class="facts">{escape(" ".join(facts))}</p>'
    return f'<section class="feature">{head}{texts}</section>'


def rule_sentence(reading: dict[str, Any]) -> str:
    """The rule and how well it holds."""
    words = " or ".join(f"“{word}”" for word in reading["tokens"])
    if not words:
        return "No rule was found."
    precision, recall = (percent(reading[name]) for name in ("precision", "recall"))
    return (
        f"Best rule: {reading['place']} is {words}; {precision} of the activation is there, and it is active at "
        f"{recall} of these places: score {reading['score']:.2f}."
    )


def without_sentence(without: dict[str, float]) -> str:
    return (
        f"Switched off, the loss of the next token where it was active goes from {without['before']:.2f} to "
        f"{without['after']:.2f}, over {without['tokens']:.0f} tokens."
    )


def _shaded(context: Sequence[tuple[str, float]]) -> str:
    spans = []
    for piece, share in context:
        style = f' style="background: rgb({SHADE} / {MOST_SHADE * share:.0f}%)"' if share > 0.005 else ""
        spaced = f" {piece} " if piece in ("<start>", "<end>") else piece
        spans.append(f"<span{style}>{escape(spaced)}</span>")
    return "".join(spans)


def _probes(probed: dict[str, Any]) -> Iterable[str]:
    yield f"<h2>Probes in {escape(probed['model'])}</h2>"
    yield from _paragraphs(sentences_about_probes(probed))
    for text, label in probed["examples"]:
        yield f'<p class="text">“{escape(text)}” → {escape(probed["classes"][1 - label])}</p>'
    lines = {
        "held-out sentences": [(float(layer), accuracy) for layer, accuracy, _ in probed["layers"]],
        "shuffled labels": [(float(layer), control) for layer, _, control in probed["layers"]],
    }
    yield curves(lines, "Accuracy of a probe", x_name="blocks that the state has passed", y_name="share right")
    yield f"<h2>Steering after block {probed['block']}</h2>"
    good, bad = probed["classes"]
    yield f"<p>The direction goes from the mean state of “{escape(bad)}” to that of “{escape(good)}”. Strength 1 adds"
    yield f"the distance of these means, {probed['distance']:.1f}; a state has a length of about {probed['size']:.0f}."
    yield "Each text goes on with the likeliest token.</p>"
    yield from _paragraphs(sentences_about_steering(probed))
    points = {name: [(one["strength"], one[name]) for one in probed["steered"]] for name in ("log_odds", "loss")}
    words = f"words for “{good}” against “{bad}”"
    yield curves({words: points["log_odds"]}, "Effect", x_name="strength", y_name="log odds")
    yield curves({"loss on other text": points["loss"]}, "Cost", x_name="strength", y_name="nats a token")
    yield '<div class="scroll"><table><tr><th class="number">strength</th><th class="number">log odds</th>'
    yield '<th class="number">loss</th><th>texts</th></tr>'
    for one in probed["steered"]:
        texts = "<br>".join(escape(text) for text in one["texts"])
        numbers = (f"{one['strength']:g}", f"{one['log_odds']:.2f}", f"{one['loss']:.2f}")
        cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
        yield f"<tr>{cells}<td>{texts}</td></tr>"
    yield "</table></div>"


def _quantiles(scores: Sequence[float]) -> list[tuple[float, float]]:
    return [(100 * (place + 0.5) / len(scores), score) for place, score in enumerate(scores)]


def _paragraphs(sentences: Iterable[str]) -> Iterable[str]:
    return [f"<p>{escape(sentence)}</p>" for sentence in sentences]
