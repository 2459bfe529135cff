"""Lab length: which kind of score prefers short choices."""

from __future__ import annotations

from collections.abc import Iterator

from grader.chapters.ch16_published_model.labs import open_published
from grader.chapters.ch24_evaluation.evaluation.answering import KINDS
from grader.chapters.ch24_evaluation.evaluation.questions import Question
from grader.chapters.ch24_evaluation.evaluation.subjects import Asked
from grader.chapters.ch24_evaluation.formats import asked, choose, one_of_each_group
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

LONG_ONES = {  # in each version: whether a choice is written long, by whether it is the right one
    "all short": lambda is_right: False,
    "right one long": lambda is_right: is_right,
    "wrong ones long": lambda is_right: not is_right,
    "all long": lambda is_right: True,
}


def written(question: Question, version: str) -> list[str]:
    """The choices, each as one word or name, or as a whole sentence."""
    is_long = [LONG_ONES[version](place == question.right) for place in range(len(question.choices))]
    return [f" The answer is {choice}." if long else f" {choice}." for long, choice in zip(is_long, question.choices)]


def report_evaluation_length(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 24: the share of right answers by each kind of score, if some choices are longer than others.

    A short choice is an answer such as "Paris.", a long one is the same answer in a sentence: "The answer is Paris."
    The model is SmolLM2, and the questions are one of each group of facts.
    """
    published = open_published(chapters, "ch24_evaluation")
    parts, model = published.own.parts, Asked(published.name, published.model, published.tokenizer)
    questions = one_of_each_group("facts")
    chosen: dict[tuple[str, str], list[int]] = {}
    with show_progress("asking", len(LONG_ONES) * len(questions)) as step:
        for version in LONG_ONES:
            for one in questions:
                for kind in KINDS:  # the model makes one pass for all of them
                    place = choose(parts, model, asked(one), written(one, version), lambda: None, kind)
                    chosen.setdefault((kind, version), []).append(place)
                step()
    rows = []
    for kind in KINDS:
        shares = [_share_right(questions, chosen[kind, version]) for version in LONG_ONES]
        changed = sum(a != b for a, b in zip(chosen[kind, "all short"], chosen[kind, "all long"]))
        rows.append([kind, *(f"{share:.0%}" for share in shares), str(changed)])
    yield result_table(f"Right of {len(questions)} questions", ("kind", *LONG_ONES, "changed"), rows)
    yield '"changed" counts answers that differ between all short and all long.'


def _share_right(questions: list[Question], chosen: list[int]) -> float:
    return sum(place == one.right for one, place in zip(questions, chosen)) / len(questions)
