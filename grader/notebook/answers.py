"""The results of `check`, `hint` and `repro`: true or false, with a page as text and as HTML."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.course.progress import Hint, format_earned, format_points
from grader.course.syllabus import Chapter, Exercise, load_syllabus
from grader.notebook import html
from grader.runner.layout import WIDTH, Page, print_result
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, join_names, replaced_sentences
from grader.verdict.summary import Verdict

SHOWN_WHOLE = 3  # exercises whose first failure is printed in full; the others get a line


@dataclass(frozen=True)
class Answer:
    """A notebook shows it after the cell, a prompt prints it; as a condition, it is true if everything passed."""

    passed: bool
    text: str
    html: str
    verdict: Verdict | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)


def sentence_answer(sentence: str) -> Answer:
    """The reason why nothing was tested."""
    first, *more = sentence.splitlines()
    return Answer(
        False,
        "\n".join([*_wrapped(first), *more]),
        html.card("amber", "", [html.sentence(first), html.block("\n".join(more))]),
    )


def hint_answer(hint: Hint) -> Answer:
    more = "This is the last hint." if hint.is_last else f'For the next hint: `hint("{hint.exercise}")`'
    notes = [more, *([hint.problem] if hint.problem else [])]
    said = [hint.title, *_wrapped(hint.text), *(line for note in notes for line in _wrapped(note))]
    return Answer(
        True,
        "\n".join(said),
        html.card("blue", hint.title, [html.sentence(hint.text), *(html.aside(note) for note in notes)]),
    )


def code_answer(text: str) -> Answer:
    """Code for a cell."""
    said = "This is the call that failed. Run it in a cell; you can change it there."
    return Answer(True, text.rstrip("\n"), html.card("blue", "", [html.sentence(said), html.block(text.rstrip("\n"))]))


def joined(answers: Sequence[Answer]) -> Answer:
    """Several answers as one, which is true when all of them are."""
    if len(answers) == 1:
        return answers[0]
    return Answer(
        all(answers), "\n\n".join(answer.text for answer in answers), "".join(answer.html for answer in answers)
    )


def verdict_answer(verdict: Verdict, found: Exercise | Chapter, notes: Sequence[str] = ()) -> Answer:
    """A verdict, with notes about files."""
    passed = not verdict.broken and all(result.outcome == "passed" for result in verdict.results)
    closing = [*notes, *_closing_sentences(verdict, found)]
    return Answer(passed, _page(verdict, found, closing), _card(verdict, found, closing), verdict)


def headline(result: ExerciseResult) -> tuple[str, str]:
    """The result in a few words, and their colour."""
    name, tests = result.exercise.name, result.tests
    if result.forbidden and result.outcome == "failed":
        return f"{name}: no points, because of forbidden code", "red"
    if result.outcome == "passed":
        return f"{name} works", "green"
    if result.outcome == "todo":
        return f"{name} is not {'complete' if result.written else 'implemented'} yet", "amber"
    words = {"failed": "failed", "timeout": "ran out of time", "error": "could not run"}
    counts = [
        f"{n} of {len(tests)} tests {words[kind]}"
        for kind in words
        if (n := sum(test.outcome == kind for test in tests))
    ]
    return f"{name}: {', '.join(counts)}", "red"


def missing_dependency(result: ExerciseResult) -> str:
    """The message that another exercise is missing, if that is why this one cannot run."""
    return next(
        (test.message for test in result.tests if test.outcome == "todo" and test.message != NOT_IMPLEMENTED), ""
    )


def _failing_results(verdict: Verdict) -> list[ExerciseResult]:
    return [
        result
        for result in verdict.results
        if result.exercise.module not in verdict.broken and (result.forbidden or result.failures)
    ]


def _closing_sentences(verdict: Verdict, found: Exercise | Chapter) -> list[str]:
    """Why the code works, notes, and what to do next."""
    said = [f"Note: {note}" for note in verdict.notes]
    if verdict.broken:
        return [*said, "Fix this first; then the tests can run."]
    results = verdict.results
    if isinstance(found, Exercise) and results[0].outcome == "passed":
        said = [*replaced_sentences(results[0].replaced), found.why, found.unlocks, *said]
    failing = _failing_results(verdict)
    if failing:
        return [*said, f'For a hint: `hint("{failing[0].exercise.name}")`']
    undone = next((result for result in results if result.outcome != "passed"), None)
    if undone:
        needed = missing_dependency(undone)
        if needed and isinstance(found, Exercise):
            return [*said, f"Next: write the code that {undone.exercise.name} needs; {needed}."]
        said += [undone.written] if undone.written else []
        return [*said, f'Next: write {undone.exercise.name}. For a hint: `hint("{undone.exercise.name}")`']
    following = _next_exercise(found)
    return [*said, f"Next: {following.name}. {following.promise}" if following else "This was the last exercise."]


def _next_exercise(found: Exercise | Chapter) -> Exercise | None:
    """The exercise after this one, or after this chapter, in the order of the course."""
    order = load_syllabus().exercises
    last = found.exercises[-1] if isinstance(found, Chapter) else found
    place = order.index(last) + 1
    return order[place] if place < len(order) else None


# ---- as text


def _page(verdict: Verdict, found: Exercise | Chapter, closing: list[str]) -> str:
    lines: list[str] = []
    page = Page(lambda line, **_: lines.append(line.rstrip()), WIDTH)
    for module, words in verdict.broken.items():
        page.title(f"{module}.py does not import")
        page.failure(words)
    failing = _failing_results(verdict)
    for result in failing[:SHOWN_WHOLE]:
        print_result(page, result, last="")
    if failing[SHOWN_WHOLE:]:
        page.title("more failures")
    for result in failing[SHOWN_WHOLE:]:
        page.wrapped(headline(result)[0], indent=2)
    if isinstance(found, Chapter) and not verdict.broken:
        page.title(f"{found.id} {found.title}")
        for result in verdict.results:
            page.columns(f"  {result.exercise.name}", _score(result), _outcome_text(result))
    elif not failing and not verdict.broken:
        page.title(found.name)
        page.line(f"{headline(verdict.results[0])[0]}.")
    page.blank()
    for sentence in closing:
        for line in _wrapped(sentence):
            page.line(line)
    return "\n".join(lines).strip("\n")


def _wrapped(sentence: str) -> list[str]:
    """Lines of prose; a text in backticks is not broken over lines, and loses the backticks."""
    whole = re.sub(r"`([^`]+)`", lambda match: match[1].replace(" ", "\xa0"), sentence)
    return [line.replace("\xa0", " ") for line in textwrap.wrap(whole, WIDTH - 1)]


def _score(result: ExerciseResult) -> str:
    return f"{format_earned(result.earned, result.exercise.points)}/{format_points(result.exercise.points)}"


def _outcome_text(result: ExerciseResult) -> str:
    if result.outcome == "passed" and result.replaced:
        return f"passed, with the reference's {join_names(result.replaced)}"
    return {"passed": "passed", "todo": "not implemented yet"}.get(result.outcome) or headline(result)[0].partition(
        ": "
    )[2]


# ---- for a notebook


def _card(verdict: Verdict, found: Exercise | Chapter, closing: list[str]) -> str:
    ends = [html.aside(sentence) for sentence in closing]
    if verdict.broken:
        module, words = next(iter(verdict.broken.items()))
        return html.card("red", f"{module}.py does not import", [html.failure(words), *ends])
    if isinstance(found, Exercise):
        result = verdict.results[0]
        title, colour = headline(result)
        return html.card(
            colour,
            title,
            [html.sentence(found.promise) if colour in ("green", "amber") else "", html.troubles(result), *ends],
        )
    rows = [
        (headline(result)[1], result.exercise.name, _score(result), _outcome_text(result)) for result in verdict.results
    ]
    failing = _failing_results(verdict)
    whole = [html.subtitle(headline(result)[0]) + html.troubles(result) for result in failing[:SHOWN_WHOLE]]
    rest = [html.sentence(headline(result)[0]) for result in failing[SHOWN_WHOLE:]]
    done = sum(result.outcome == "passed" for result in verdict.results)
    colour = "red" if failing else "green" if done == len(rows) else "amber"
    return html.card(
        colour, f"{found.title}: {done} of {len(rows)} exercises work", [html.table(rows), *whole, *rest, *ends]
    )
