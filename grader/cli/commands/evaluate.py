"""`headway evaluate`: asks models questions with the learner's own parts of chapter 24."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import argument, complete_checkpoint, option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, UNUSABLE
from grader.console.output import make_console, print_error, print_wrapped
from grader.models.packages import require_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grader.chapters.ch24_evaluation.evaluation.questions import Question
    from grader.chapters.ch24_evaluation.evaluation.results import Result
    from grader.chapters.ch24_evaluation.evaluation.subjects import Found
    from grader.models.own_parts import OwnParts

Kind = StrEnum("Kind", "byte token sum")
Subject = StrEnum("Subject", "facts arithmetic grammar stories")


def evaluate(
    models: Annotated[
        list[str] | None,
        argument(
            "MODEL", "smollm2, a checkpoint, adapters of `headway tune`, or a GGUF file. Default: all.",
            complete_checkpoint,
        ),
    ] = None,
    compare: Annotated[bool, option("Test whether one of two models is better.", "--compare")] = False,
    kind: Annotated[Kind, option("How a choice is scored. Default: byte.")] = Kind.byte,
    subject: Annotated[
        list[Subject] | None, option("Only these questions: facts, arithmetic, grammar, stories; may be repeated.")
    ] = None,
) -> int:  # fmt: skip
    """Ask models 308 questions with your own code of chapter 24.

    A table shows how many answers are right, with an interval, and whether a model that guesses would do as well. With
    --compare A B, a paired test says which of two models is better, or that these questions cannot tell. Answers are
    kept: Control-C stops, and the same command goes on. SmolLM2 takes about two minutes."""
    if compare and (len(models or ()), len(set(models or ()))) != (2, 2):
        print_error("--compare takes two different models, such as `headway evaluate --compare smollm2 stories`")
        return UNUSABLE
    require_packages("evaluate", exit_status=FAILED)
    from grader.chapters.ch24_evaluation.evaluation.questions import SUBJECTS, load_questions
    from grader.chapters.ch24_evaluation.evaluation.subjects import CHAPTER, find_models
    from grader.console.output import show_progress
    from grader.models.own_parts import find_own_parts
    from grader.models.training.live_page import control_c

    found, notes = find_models(list(dict.fromkeys(models or ())))
    questions = load_questions(subject or SUBJECTS)
    own = find_own_parts({*CHAPTER, *(name for one in found for name in one.exercises)}, show_progress)
    with contextlib.closing(own):
        console = make_console()
        for sentence in (*notes, *own.sentences()):
            print_wrapped(console, sentence)
        console.print()
        with control_c() as interrupted:
            results = _ask_all(found, bool(models), questions, kind, own, interrupted)
        if results is None:
            print_wrapped(console, "Stopped. The answers so far are kept; the same command goes on.")
            return INTERRUPTED
        return _conclude(results, compare, kind, own)


def _ask_all(
    found: Sequence[Found], named: bool, questions: Sequence[Question], kind: str, own: OwnParts,
    interrupted: Callable[[], bool],
) -> list[Result] | None:  # fmt: skip
    """What each model has answered; None after Control-C. Of models that are not `named`, some may be unusable."""
    from grader.files import UserProblem
    from grader.models.own_parts import CodeProblem

    results = []
    for model in found:
        try:
            result = _ask(model, questions, kind, own, interrupted)
        except UserProblem as problem:
            if named or isinstance(problem, CodeProblem) or len(found) == 1:
                raise
            print_wrapped(make_console(), f"Left out: {problem}.")
            continue
        if result is None:
            return None
        results.append(result)
    if not results:
        raise UserProblem("none of these models can answer; `headway train` makes another one")
    return results


def _ask(
    model: Found, questions: Sequence[Question], kind: str, own: OwnParts, interrupted: Callable[[], bool]
) -> Result | None:
    from grader.chapters.ch24_evaluation.evaluation.answering import Answers, ask
    from grader.chapters.ch24_evaluation.evaluation.results import Result
    from grader.console.output import show_progress
    from grader.counts import format_count
    from grader.models.checkpoint import CheckpointProblem
    from grader.models.own_parts import explaining_crashes
    from grader.teaching.walks.parts import hidden_prints

    with explaining_crashes(own.parts), hidden_prints():
        asked = model.open(own)
        readable = [one for one in questions if asked.can_read(one)]
    if not readable:
        raise CheckpointProblem(f"{model.name} does not know the words of any of these questions")
    answers = Answers.of(asked)
    if answers.note:
        print_wrapped(make_console(), answers.note)
    with show_progress(f"{model.name} answers {format_count(len(readable), 'question')}", len(readable)) as advance:
        finished = ask(asked, own.parts, readable, answers, advance, interrupted)
    return Result.of(answers, readable, kind, len(questions) - len(readable)) if finished else None


def _conclude(results: Sequence[Result], compare: bool, kind: str, own: OwnParts) -> int:
    """Print the table and what it means; write the page."""
    from grader.chapters.ch24_evaluation.evaluation import results as computed
    from grader.chapters.ch24_evaluation.evaluation.answering import folder, write
    from grader.chapters.ch24_evaluation.evaluation.report_page import draw
    from grader.files import short_path
    from grader.models.own_parts import explaining_crashes
    from grader.teaching.measurements import result_table

    console = make_console()
    with explaining_crashes(own.parts):
        shown = [row for result in results for row in computed.rows(own.parts, result)]
        compared = computed.compare(own.parts, *results) if compare else []
    console.print(result_table("", computed.COLUMNS, [row.cells for row in shown], padding=(0, 1, 0, 0)))
    for result in results:
        for sentence in computed.sentences(result, shown):
            print_wrapped(console, sentence)
        console.print()
    for sentence in compared:
        print_wrapped(console, sentence)
    if compared:
        console.print()
    page = folder() / "report.html"
    made = [f"A choice is scored by the kind “{kind}”. An interval is a bootstrap of whole groups of questions.",
            *own.sentences()]  # fmt: skip
    write(page, draw(results, shown, compared, made))
    print_wrapped(console, f"The page with the wrong answers is {short_path(page)}; open it in a browser.")
    return DONE
