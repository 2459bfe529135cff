"""feedback/SLUG.md: for each learner, what they would have seen themselves, with the points that this instructor gives."""

from __future__ import annotations

import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.files import put_each
from grader.classroom.exports.result_text import NOT_RUN, graded_or_not, sentence, told, told_failure
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import written
from grader.classroom.judging.seeds import own_seed
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult

FOLDER = "feedback"
BEGINS = "# Feedback for "


def write(graded: GradedClass, folder: Path) -> list[Path]:
    return put_each(folder / FOLDER, ".md", {person.slug: page(person, graded) for person in graded.people}, BEGINS)


def page(person: Person, graded: GradedClass) -> str:
    """The page as Markdown. Whatever the learner's code printed stands in fenced blocks that it cannot end."""
    parts = [f"{BEGINS}{_plain(person.name)}", f"**{written(person.total.earned)} of {written(person.total.points)} points.**"]
    parts += [_plain(sentence(words)) for words in (person.late, graded_or_not(person)) if words]
    parts += ["\n".join(f"- {_plain(sentence(note))}" for note in person.notes)] if person.notes else []
    if person.problem:
        return "\n\n".join(parts) + "\n"
    results = {result.exercise.name: result for result in person.results}
    passed, todo, telling = [], [], []
    for exercise in graded.exercises:
        result = results.get(exercise.name)
        if exercise.module in person.broken:
            continue
        if result is None or (not result.failures and not result.forbidden and result.outcome == "todo"):
            todo.append(exercise)
        elif result.outcome == "passed" and not result.forbidden and not result.missing_weight:
            passed.append(exercise)
        else:
            telling.append(result)
    parts += [_broken(person, module, graded) for module in person.broken]
    parts += [_section(person, result) for result in telling]
    parts += [_list("Passed", passed, person, {})] if passed else []
    parts += [_list("Still to do", todo, person, results)] if todo else []
    if telling:
        parts += [f"The examples above were drawn for this submission; `python -m pytest --seed {own_seed(graded.seed, person.digest)}` tests your code with them."]
    return "\n\n".join(parts) + "\n"


def _section(person: Person, result: ExerciseResult) -> str:
    parts = [f"## {_scored(person, result.exercise)}"]
    parts += [fenced(told(result))] if result.failures or result.forbidden else []
    return "\n\n".join([*parts, NOT_RUN] if result.missing_weight else parts)


def _broken(person: Person, module: str, graded: GradedClass) -> str:
    lost = [exercise for exercise in graded.exercises if exercise.module == module]
    names = ", ".join(_scored(person, exercise) for exercise in lost)
    return f"## {module}.py does not import\n\n{fenced(told_failure(person.broken[module]))}\n\nSo none of its tests could run: {names}."


def _list(title: str, exercises: list[Exercise], person: Person, results: dict[str, ExerciseResult]) -> str:
    lines = [f"- {_scored(person, exercise)}{_waiting_for(results.get(exercise.name))}" for exercise in exercises]
    return "\n".join([f"## {title}", "", *lines])


def _waiting_for(result: ExerciseResult | None) -> str:
    """Why the tests could not run: it is not written, or something that it needs is not."""
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message) if result else {}
    return f": {_plain('; '.join(reasons))}" if reasons else ""


def _scored(person: Person, exercise: Exercise) -> str:
    mark = person.marks[exercise.name]
    return f"`{exercise.name}` {written(mark.earned)} of {written(mark.points)}"


def fenced(words: str) -> str:
    """A block in which nothing is Markdown or HTML; its fence is longer than any row of backticks inside."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}text\n{words}\n{fence}"


def _plain(words: str) -> str:
    """Words of others in running Markdown: shown as they are, and nothing else."""
    shown = sanitize.line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|~$!])", r"\\\1", shown)
