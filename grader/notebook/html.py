"""A verdict as HTML for a notebook, with inline styles, for light and dark pages.

Text has the colour of the surrounding page. All output of a learner's code is escaped.
"""

from __future__ import annotations

import re
from html import escape

from grader.runner.layout import ALSO
from grader.verdict.results import ExerciseResult, Failure, Row, replaced_sentences

# readable on white and on black
COLOURS = {"green": "#258750", "red": "#d6453d", "amber": "#a8700f", "blue": "#3b78c4"}
FADED = "opacity:.75"
MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:.92em"
PRE = (
    f"{MONO};margin:0;padding:0;border:0;background:none;color:inherit;white-space:pre;overflow-x:auto;line-height:1.4"
)
VALUE = "flex:1 1 auto;min-width:0;padding:.35em .7em;border-radius:4px;background:rgba(127,127,127,.12)"


def card(colour: str, title: str, parts: list[str]) -> str:
    """One verdict. The classes keep MathJax from reading dollar signs as formulas."""
    head = (
        f'<div style="font-weight:600;font-size:1.1em;color:{COLOURS[colour]}">{escape(title)}</div>' if title else ""
    )
    box = (
        f"border-left:4px solid {COLOURS[colour]};padding:.15em 0 .15em 1em;margin:.4em "
        "0;max-width:60em;line-height:1.5;color:inherit"
    )
    return (
        f'<div class="headway tex2jax_ignore mathjax_ignore" style="{box}">{head}{"".join(filter(None, parts))}</div>'
    )


def subtitle(text: str) -> str:
    return f'<div style="font-weight:600;margin-top:1em">{escape(text)}</div>'


def sentence(text: str, colour: str = "") -> str:
    style = f"margin:.3em 0;color:{COLOURS[colour]};font-weight:600" if colour else "margin:.3em 0"
    return f'<div style="{style}">{_prose(text)}</div>'


def aside(text: str) -> str:
    return f'<div style="margin:.3em 0;{FADED}">{_prose(text)}</div>'


def block(text: str) -> str:
    """Preformatted text."""
    return f'<pre style="{PRE}">{escape(text)}</pre>' if text else ""


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """A line for each exercise of a chapter: colour, name, points, result."""
    cells = "".join(
        f'<span style="color:{COLOURS[colour]}">●</span><span style="{MONO}">{escape(name)}</span>'
        f'<span style="text-align:right">{escape(points)}</span><span style="{FADED}">{escape(word)}</span>'
        for colour, name, points, word in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:repeat(3,max-content) 1fr;column-gap:1em;margin:.4em '
        f'0">{cells}</div>'
    )


def troubles(result: ExerciseResult) -> str:
    """What is wrong with one exercise: the first failure in full, the others by name."""
    parts = [sentence(f"No points for this exercise: {words}.", "red") for words in result.forbidden]
    if result.failures:
        parts += [sentence(words) for words in replaced_sentences(result.replaced)]
    for mistake in result.diagnosis.mistakes if result.diagnosis else ():
        parts += [sentence(mistake.says, "red"), sentence(mistake.hint)]
    if result.failures:
        first, *others = result.failures
        parts.append(failure(first.details, result.script) if first.details else sentence(first.message))
        names = [test.name.partition("[")[0] for test in others]
        shown = names if len(names) <= ALSO + 1 else names[:ALSO]
        listed = [f'{others[n].outcome}: <span style="{MONO}">{escape(name)}</span>' for n, name in enumerate(shown)]
        more = f"<br/>and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        parts.append(
            f'<div style="margin:.5em 0;{FADED}">also {"<br/>also ".join(listed)}{more}</div>' if listed else ""
        )
    return "".join(parts)


def failure(words: Failure, script: str = "") -> str:
    """One failed test as labelled rows; got and expected side by side if there is room. `script` makes its call
    again."""
    rows = []
    for label, text, is_code in [*words.rows(), *([Row("run again", script)] if script else [])]:
        if label == "problem":
            rows.append((label, f'<span style="color:{COLOURS["red"]};font-weight:600">{_prose(text)}</span>'))
        elif label == "that is":
            rows.append((label, f"<b>{_prose(text)}</b>"))
        elif label == "got" or (label == "expected" and not words.got):
            rows.append(("", _beside(words.got, words.expected)))
        elif label in ("sizes", "run again", "at", "it was at"):
            rows.append((label, _code(text)))
        elif label != "expected":
            rows.append((label, block(text) if is_code else _prose(text)))
    cells = "".join(
        f'<span style="{FADED}">{label}</span><div style="min-width:0">{value}</div>' for label, value in rows
    )
    return (
        '<div style="display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.25em 1em;margin:.6em '
        f'0">{cells}</div>'
    )


def _beside(got: str, expected: str) -> str:
    boxes = [
        f'<div style="{VALUE}"><div style="{FADED};font-size:.9em">{label}</div>{block(text)}</div>'
        for label, text in (("got", got), ("expected", expected)) if text
    ]  # fmt: skip
    return f'<div style="display:flex;flex-wrap:wrap;gap:.6em">{"".join(boxes)}</div>' if boxes else ""


def _prose(text: str) -> str:
    """Prose with `code` in a monospaced font."""
    return re.sub(r"`([^`\n]+)`", lambda match: _code(match[1], escaped=True), escape(text))


def _code(text: str, escaped: bool = False) -> str:
    return f'<span style="{MONO}">{text if escaped else escape(text)}</span>' if text else ""
