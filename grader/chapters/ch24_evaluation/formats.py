"""Lab format: how a question is written, against the share of right answers of one and the same model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grader.chapters.ch16_published_model.labs import open_published
from grader.chapters.ch16_published_model.published.source import PublishedProblem
from grader.chapters.ch24_evaluation.evaluation.questions import Question, load_questions
from grader.chapters.ch24_evaluation.evaluation.results import interval_of
from grader.chapters.ch24_evaluation.evaluation.subjects import Asked
from grader.chapters.small_models import names_of
from grader.chapters.story_model import CHAPTERS, train_small_model
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

Format = Callable[[Question], tuple[str, list[str]]]  # what stands before a choice, and the choices

EXAMPLES = (
    "Question: What do people write with?\nAnswer: a pen\n\nQuestion: How many days do two weeks have?\nAnswer: 14\n\n"
    "Question: What is the opposite of dark?\nAnswer: bright\n\n"
)
STORY = "Anna was a small girl. Then she saw the ball by the gate. "


def asked(question: Question) -> str:
    return f"Question: {question.text}\nAnswer:"


def spaced(question: Question) -> list[str]:
    return [f" {choice}" for choice in question.choices]


PUBLISHED: dict[str, Format] = {
    "the question alone": lambda one: (one.text, spaced(one)),
    "Question: ... Answer:": lambda one: (asked(one), spaced(one)),
    "without a question mark": lambda one: (asked(one).replace("?", ""), spaced(one)),
    "no space before a choice": lambda one: (asked(one), list(one.choices)),
    "space in the prompt": lambda one: (f"{asked(one)} ", list(one.choices)),
    "three examples before it": lambda one: (EXAMPLES + asked(one), spaced(one)),
}
STORIES: dict[str, Format] = {
    "the text alone": lambda one: (one.text, spaced(one)),
    "Question: ... Answer:": lambda one: (asked(one), spaced(one)),
    "two sentences before it": lambda one: (STORY + one.text, spaced(one)),
}


def one_of_each_group(subject: str) -> list[Question]:
    """So they are separate: knowing one of them says little about another one."""
    return list({one.group: one for one in load_questions([subject])}.values())


def report_evaluation_format(chapters: ChapterPackage, seed: int, *, steps: int = 300) -> Iterator[Table | str]:
    """Lesson 24: the same questions in several formats, and the share that one model gets right.

    The model is SmolLM2, and the questions are one of each group of facts. Without its weights, a GPT learns the
    stories for `--steps` steps, and the questions are those about stories. p compares a format with the first row.
    """
    try:
        published = open_published(chapters, "ch24_evaluation")
        parts, model = published.own.parts, Asked(published.name, published.model, published.tokenizer)
        questions, formats = one_of_each_group("facts"), PUBLISHED
    except PublishedProblem as problem:
        yield f"{problem}. So a small GPT of the stories answers."
        parts, model = _stories_model(chapters, seed, steps)
        questions, formats = [one for one in load_questions(["stories"]) if model.can_read(one)], STORIES
    groups, right, rows = [one.group for one in questions], dict[str, list[float]](), []
    with show_progress("asking", len(formats) * len(questions)) as step:
        for name, form in formats.items():
            right[name] = [float(choose(parts, model, *form(one), step) == one.right) for one in questions]
    first = next(iter(right.values()))
    for name, values in right.items():
        low, high = interval_of(parts, values, groups)
        p = f"{parts.paired_test(values, first):.2f}" if values is not first else "-"
        rows.append([name, f"{sum(values) / len(values):.0%}", f"{low:.0%} to {high:.0%}", p])
    columns = ("format", "right", "interval", "p")
    yield result_table(f"{len(questions)} questions, {model.name}", columns, rows)


def choose(
    parts: Any, model: Asked, prompt: str, choices: Sequence[str], step: Callable[[], None], kind: str = "byte"
) -> int:
    """The place of the choice with the highest score."""
    scores = parts.score_choices(model, model, prompt, choices, kind)
    step()
    return int(scores.index(max(scores)))


def _stories_model(chapters: ChapterPackage, seed: int, steps: int) -> tuple[Any, Asked]:
    with show_progress("training", steps) as step:
        small = train_small_model(chapters, seed, steps, step)
    model = Asked("a GPT of stories", small.model.eval(), small.tokenizer)
    model.start_ids = small.tokenizer.start_ids
    model.longest = small.model.config.max_len  # type: ignore[union-attr,assignment]
    return names_of(*map(chapters.module, (*CHAPTERS, "ch24_evaluation"))), model
