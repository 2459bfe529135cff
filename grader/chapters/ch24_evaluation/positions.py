"""Lab position: a judge whose verdict depends on the place, and what is left if both orders must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from grader.chapters.ch16_published_model.labs import open_published
from grader.chapters.ch24_evaluation.evaluation.subjects import Asked
from grader.chapters.ch24_evaluation.formats import choose, one_of_each_group
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

PLACES = ("first", "second")
WORDINGS = {  # the text that the judge reads, and the words for the first and the second answer
    "first, second": (
        "Question: {}\nFirst answer: {}\nSecond answer: {}\nThe better answer is the", (" first", " second"),
    ),
    "A, B": ("Question: {}\nA: {}\nB: {}\nThe better answer is", (" A", " B")),
}  # fmt: skip


def report_evaluation_position(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 24: SmolLM2 judges a right and a wrong answer to the same question, in both orders.

    The words in a row are those that it chooses between. "kappa" is the agreement of its verdicts in both orders: 1 if
    the same answer is always preferred, 0 if that happens as often as by chance. The questions are one of each group of
    facts.
    """
    published = open_published(chapters, "ch24_evaluation")
    parts, model = published.own.parts, Asked(published.name, published.model, published.tokenizer)
    questions, rows = one_of_each_group("facts"), []
    with show_progress("judging", len(WORDINGS) * len(questions)) as step:
        for wording in WORDINGS:
            said: tuple[list[str], list[str]] = [], []  # with the right answer first, and with it second
            wins: Counter[str] = Counter()
            for one in questions:
                right, wrong = one.choices[one.right], one.choices[one.right - 1]
                verdicts: dict[str, str] = {}
                asked = partial(judge, parts, model, wording, one.text, verdicts)
                wins[parts.judge_both_orders(asked, right, wrong)] += 1
                said[0].append(verdicts[right])
                said[1].append(verdicts[wrong])
                step()
            says_first = sum(said, []).count("first")
            is_right = said[0].count("first") + said[1].count("second")
            swapped = ["second" if word == "first" else "first" for word in said[1]]  # so both name the answer
            shares = (f"{count / (2 * len(questions)):.0%}" for count in (says_first, is_right))
            kappa = f"{parts.agreement(said[0], swapped):.2f}"
            rows.append([wording, *shares, kappa, *(str(wins[winner]) for winner in ("a", "b", "tie"))])
    columns = ("words", "says first", "is right", "kappa", "right wins", "wrong wins", "tie")
    yield result_table(f"{len(questions)} pairs of answers, each in both orders", columns, rows)


def judge(
    parts: Any, model: Asked, wording: str, question: str, verdicts: dict[str, str], first: str, second: str
) -> str:
    """The place of the answer that the model prefers; it is noted in `verdicts`, by the first answer."""
    text, words = WORDINGS[wording]
    place = choose(parts, model, text.format(question, first, second), words, lambda: None, "sum")
    verdicts[first] = PLACES[place]
    return verdicts[first]
