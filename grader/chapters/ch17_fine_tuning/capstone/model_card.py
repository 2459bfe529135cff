"""The end of a run: what was measured, with its intervals, what it means, and what it cost.

The same sections are printed and are on the page, which is one file without scripts, and asks for nothing from the
network.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from grader.chapters.ch17_fine_tuning.capstone import record as records
from grader.chapters.ch17_fine_tuning.capstone.record import PRETRAINED, TESTS, TUNED, Interval, Record, bootstrap
from grader.chapters.ch17_fine_tuning.tuning.evaluation import describe_difference
from grader.chapters.ch17_fine_tuning.tuning.tuning_progress import MORE, describe_steps
from grader.chapters.ch17_fine_tuning.tuning.tuning_run import Tuning
from grader.chapters.ch17_fine_tuning.tuning.tuning_steps import BATCH_ROWS
from grader.console.output import without_controls
from grader.counts import format_count
from grader.files import write_whole
from grader.models.comparison.comparison_report import mean_pieces
from grader.models.training.training_run import Training
from grader.teaching.drawing import Points, curves
from grader.version import __version__

PAGE = "model_card.html"
TEMPLATE = Path(__file__).with_name(PAGE)
ENOUGH_STEPS = 400  # after which the recorded model of the page "Train it" writes its stories
MODEL_NAMES = dict(zip(records.MODELS, ("before training", "after pretraining", "after the tuning")))
TEST_NAMES = dict(zip(TESTS, ("before the tuning", "after right answers", "after rewards")))
MEANING = (
    "The loss is in nats a token, on held-out stories; a model that knows nothing has ln V = {uniform:.2f}. Bits a "
    "character do not depend on the tokenizer. An answer is right if it continues a story's first sentence by one "
    "sentence of seven words.",
    "Of 100 such tests with other stories or questions, the interval has the true value about 95 times (a bootstrap "
    "over the stories; Wilson's interval for shares). It says nothing about another training: a second run with "
    "another --seed shows how much that changes.",
)
SHORT = (
    "The pretraining was short: {steps}, and the model of the page Train it writes stories after {enough}. Such a run "
    "shows that all parts work together. It cannot show how good your model becomes."
)


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[str | Table]
    printed: bool = True  # or only on the page


@dataclass(frozen=True)
class Finished:
    record: Record
    training: Training
    tuning: Tuning
    stories: list[str]  # by the pretrained model


def sections(finished: Finished) -> list[Section]:
    record, trainer, progress = finished.record, finished.training.trainer, finished.tuning.progress
    size = sum(parameter.numel() for parameter in trainer.parameters)
    vocabulary = trainer.corpus.tokenizer.vocab_size
    model = f"A GPT with {size:,} parameters and {vocabulary:,} byte-pair tokens; its seed is {record.seed}."
    meaning = [text.format(uniform=math.log(vocabulary)) for text in MEANING]
    early = [(f"after step {step:,}", text) for step, text in trainer.history.samples]
    samples = zip(*(each.samples for each in progress.evaluations))
    answers = [(asked[0][0], *(answer or "(nothing)" for _, answer in asked)) for asked in samples]
    authors = {"Yours": record.learner, "The reference's": record.reference}
    parts = [f"{author}: {', '.join(names)}." for author, names in authors.items() if names]
    costs = [(stage, *spent) for stage, spent in record.spent.items()]
    costs.append(("all", record.seconds, sum(processor for _, processor in record.spent.values())))
    minutes = [(stage, f"{seconds / 60:.1f}", f"{processor / 60:.1f}") for stage, seconds, processor in costs]
    return [
        Section("The model", [model, *finished.training.own.sentences()]),
        Section("Every number", [Table(("", "value", "95 % interval"), _number_rows(record)), *meaning]),
        Section("What this shows, and what not", list(_describe(finished))),
        Section("Answers", [Table(("asked", *TEST_NAMES.values()), answers)]),
        Section("Stories of the pretrained model", finished.stories),
        Section("What it wrote on the way there", [Table(("", "it writes"), early)], printed=False),
        Section("Whose parts ran", parts, printed=False),
        Section("What it cost", [Table(("", "minutes", "processor minutes"), minutes), _describe_cost(finished)]),
    ]


def _number_rows(record: Record) -> list[tuple[str, str, str]]:
    rows = [("characters a token", *_shown(bootstrap(record.characters, record.tokens), ".2f"))]
    rows += [(f"loss {name}", *_shown(record.loss(model), ".3f")) for model, name in MODEL_NAMES.items()]
    rows.append(("bits a character after pretraining", *_shown(record.bits(PRETRAINED), ".3f")))
    for test, name in TEST_NAMES.items():
        share, interval = _shown(record.share(test), ".0%")
        right = record.right[test]
        rows.append((f"right answers {name}", f"{sum(right)} of {len(right)}, {share}", interval))
    return rows


def _shown(found: Interval, form: str) -> tuple[str, str]:
    mean, low, high = (format(value, form) for value in found)
    return mean, f"{low} to {high}"


def _describe(finished: Finished) -> Iterator[str]:
    """What was learned, and what this run cannot show."""
    record, training, progress = finished.record, finished.training, finished.tuning.progress
    before, between, after = progress.evaluations
    if judged := training.judgement():
        yield f"judge_fit says about the pretraining: {judged}."
    yield describe_difference("Right answers", before, between)
    yield describe_difference("Rewards", between, after)
    yield from describe_steps(progress, finished.tuning.task)
    more = [tuned - own for own, tuned in zip(record.nats[PRETRAINED], record.nats[TUNED])]
    mean, low, high = bootstrap(more, record.tokens)
    now = "predicts them less well" if low > 0 else "predicts them better" if high < 0 else "may be as good at them"
    yield f"The tuning changed the loss of stories by {mean:+.3f} ({low:+.3f} to {high:+.3f}): now the model {now}."
    if (steps := training.trainer.steps_done) < ENOUGH_STEPS:
        yield SHORT.format(steps=format_count(steps, "step"), enough=ENOUGH_STEPS)
    took = record.seconds / 60
    if record.steps is None and took > MORE * record.minutes:
        yield f"It took {took:.1f} minutes instead of {record.minutes:g}: tests or steps took longer than planned."
    if record.changed:
        yield f"After an interruption other code ran for {', '.join(record.changed)}."


def _describe_cost(finished: Finished) -> str:
    history, progress, task = finished.training.trainer.history, finished.tuning.progress, finished.tuning.task
    answers, drawn = BATCH_ROWS * len(progress.losses), task.prompts * task.group * len(progress.rewards)
    return (
        f"The pretraining read {history.tokens:,} tokens in {format_count(len(history.losses), 'step')}. The tuning "
        f"trained on {answers:,} right answers in {format_count(len(progress.losses), 'step')}, and on {drawn:,} of "
        f"its own answers in {format_count(len(progress.rewards), 'step')}. The machine has "
        f"{format_count(os.cpu_count() or 1, 'processor')}, and torch {torch.__version__} used "
        f"{format_count(torch.get_num_threads(), 'thread')}; Headway {__version__}."
    )


# ---- the page


def write_page(finished: Finished) -> None:
    """OSError if that is not possible."""
    record, content = finished.record, []
    for section in sections(finished):
        content.append(f"<h2>{escape(section.title)}</h2>")
        content += [without_controls(_element(block)) for block in section.blocks]
    page = TEMPLATE.read_text(encoding="utf-8")
    for place, text in (("NAME", escape(record.name)), ("CURVES", "\n".join(_charts(finished)))):
        page = page.replace(f"[{place}]", text)
    write_whole(record.folder / PAGE, page.replace("[CONTENT]", "\n".join(content)))


def _element(block: str | Table) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in block.columns)
    body = ""
    for first, *others in block.rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>\n'
    return f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>\n{body}</table></div>'


def _charts(finished: Finished) -> Iterator[str]:
    history, progress = finished.training.trainer.history, finished.tuning.progress
    validation = [(float(step), loss) for step, loss in history.validation]
    charts: dict[str, tuple[str, dict[str, Points]]] = {
        "Pretraining": ("loss, nats a token", {"training": mean_pieces(history.losses), "held-out": validation}),
        "Right answers": ("loss, nats a token", {"training": mean_pieces(progress.losses)}),
        "Rewards": ("mean reward", {"answers": mean_pieces(progress.rewards)}),
        "Distance from the model before the rewards": ("KL, nats a token", {"answers": mean_pieces(progress.kls)}),
    }
    for title, (unit, lines) in charts.items():
        rounded = {name: [(x, round(y, 4)) for x, y in points] for name, points in lines.items() if points}
        single = [name for name, points in rounded.items() if len(points) == 1]  # a line needs two
        yield curves(rounded, title, x_name="steps", y_name=unit, dots=single)
