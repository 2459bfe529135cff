"""feedback/SLUG.md: for each learner, the output of the tests, with the points under the instructor's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports import text
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, replaced_sentences

FOLDER = "feedback"
FILE_START = "# Feedback for "


def write(graded: GradedClass, folder: Path) -> list[Path]:
    pages = {person.slug: page(person, graded) for person in graded.people}
    return text.write_per_person(folder / FOLDER, ".md", pages, FILE_START)


def page(person: Person, graded: GradedClass) -> str:
    """The page as Markdown. Output of the learner's code is in fenced blocks, which it cannot close."""
    return "\n\n".join([*_head(person), *(() if person.problem else _results(person, graded))]) + "\n"


def _head(person: Person) -> Iterator[str]:
    yield f"{FILE_START}{_escape_markdown(person.name)}"
    yield f"**{format_points(person.total.earned)} of {format_points(person.total.points)} points.**"
    for words in filter(None, (person.late, text.problem_sentence(person))):
        yield _escape_markdown(text.make_sentence(words))
    if person.notes:
        yield "\n".join(f"- {_escape_markdown(text.make_sentence(note))}" for note in person.notes)
    if person.given:
        changes = [f"- {_escape_markdown(sentence)}" for sentence in text.correction_sentences(person).values()]
        yield "\n".join(["## Changed by your instructor", "", *changes])


def _results(person: Person, graded: GradedClass) -> Iterator[str]:
    results = {result.exercise.name: result for result in person.results}
    passed, todo, incomplete = [], [], []
    for exercise in graded.exercises:
        result = results.get(exercise.name)
        if exercise.module in person.broken:
            continue
        if result is None or (not result.failures and not result.forbidden and result.outcome == "todo"):
            todo.append(_exercise_points(person, exercise) + (_todo_reasons(result) if result else ""))
        elif result.outcome == "passed" and not result.forbidden and not result.missing_weight:
            replaced = f": {_escape_markdown(' '.join(replaced_sentences(result.replaced)))}" if result.replaced else ""
            passed.append(_exercise_points(person, exercise) + replaced)
        else:
            incomplete.append(result)
    for module, failure in person.broken.items():
        lost = ", ".join(_exercise_points(person, one) for one in graded.exercises if one.module == module)
        yield f"## {module}.py does not import\n\n{_fence(text.format_failure(failure))}"
        yield f"So the tests of these exercises could not run: {lost}."
    for result in incomplete:
        yield from _incomplete(person, result)
    for title, lines in (("Passed", passed), ("Still to do", todo)):
        if lines:
            yield "\n".join([f"## {title}", "", *(f"- {line}" for line in lines)])
    if incomplete:
        same = "`python -m pytest` tests your code with the same examples"
        yield f"{same}, apart from those for which a seed is named above."


def _incomplete(person: Person, result: ExerciseResult) -> Iterator[str]:
    yield f"## {_exercise_points(person, result.exercise)}"
    if result.failures or result.forbidden:
        yield _fence(text.format_result(result))
    if seeds := sorted({test.seed for test in result.failures if test.seed}):
        commands = [f"`python -m pytest --exercise {result.exercise.name} --seed {seed}`" for seed in seeds]
        yield f"Examples that failed here are not those of every run; {' and '.join(commands)} draws them again."
    if result.missing_weight:
        yield text.NOT_RUN


def _todo_reasons(result: ExerciseResult) -> str:
    """Why tests could not run: the exercise, or one that it uses, is not implemented."""
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message)
    return f": {_escape_markdown('; '.join(reasons))}" if reasons else ""


def _exercise_points(person: Person, exercise: Exercise) -> str:
    mark = person.marks[exercise.name]
    return f"`{exercise.name}` {format_points(mark.earned)} of {format_points(mark.points)}"


def _fence(words: str) -> str:
    """A block without Markdown or HTML inside; its fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}text\n{words}\n{fence}"


def _escape_markdown(words: str) -> str:
    """Text for running Markdown, escaped so that it is displayed literally."""
    shown = sanitize.line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|~$!])", r"\\\1", shown)
