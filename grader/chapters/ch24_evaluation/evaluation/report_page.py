"""The report of `headway evaluate` as one HTML file: shares with intervals as bars, and the wrong answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from grader.chapters.ch24_evaluation.evaluation.questions import SUBJECTS
from grader.chapters.ch24_evaluation.evaluation.results import COLUMNS, Result, Row, percent, sentences
from grader.counts import format_count

TEMPLATE = Path(__file__).with_name("report.html")


def draw(results: Sequence[Result], shown: Sequence[Row], compared: Sequence[str], made: Sequence[str]) -> str:
    """The whole page."""
    body = [*_paragraphs(compared), "<h2>Right answers</h2>", *_table(shown)]
    body += _paragraphs(sentence for result in results for sentence in sentences(result, shown))
    body += ["<h2>Wrong answers</h2>", *(line for result in results for line in _wrong(result))]
    body += ["<h2>How this was made</h2>", *_paragraphs(made)]
    return TEMPLATE.read_text(encoding="utf-8").replace("[CONTENT]", "\n".join(body))


def _table(shown: Sequence[Row]) -> Iterable[str]:
    yield "<p>The thin line is the share of right answers, the bar is its interval, and the line in another colour is "
    yield "what guessing gives. Of twenty intervals, about one misses the true share.</p>"
    yield '<div class="wide" tabindex="0"><table><tr>'
    yield from (f"<th>{escape(column)}</th>" for column in (*COLUMNS, ""))
    for row in shown:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
        yield f"</tr><tr>{cells}<td>{_bar(row)}</td>"
    yield "</tr></table></div>"


def _bar(row: Row) -> str:
    low, high = row.interval or (row.share, row.share)
    label = f"{percent(row.share)} % right, {percent(row.guess)} % by guessing"
    return (
        f'<div class="bar" role="img" aria-label="{label}">'
        f'<i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
        f'<b style="left:{100 * row.share:.1f}%"></b><u style="left:{100 * row.guess:.1f}%"></u></div>'
    )


def _wrong(result: Result) -> Iterable[str]:
    wrong = [(q, q.choices[place]) for q, place in zip(result.questions, result.chosen) if place != q.right]
    of = format_count(len(result.questions), "question")
    yield f"<details><summary>{escape(result.model)}: {len(wrong)} of {of}</summary>"
    yield '<div class="wide" tabindex="0"><table class="texts"><tr><th>subject</th><th>question</th><th>its choice</th>'
    yield "<th>right</th><th>why</th></tr>"
    for question, chosen in sorted(wrong, key=lambda pair: SUBJECTS.index(pair[0].subject)):
        cells = (question.subject, question.text, chosen, question.choices[question.right], question.source)
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table></div></details>"


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return [f"<p>{escape(line)}</p>" for line in lines]
