"""feedback/SLUG.md: for each learner, the output of the tests, with the points under the instructor's rules."""

from __future__ import annotations

import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.files import write_per_person
from grader.classroom.exports.result_text import NOT_RUN, correction_sentences, format_failure, format_result, make_sentence, problem_sentence
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, replaced_sentences

FOLDER = "feedback"
FILE_START = "# Feedback for "


def write(graded: GradedClass, folder: Path) -> list[Path]:
    return write_per_person(folder / FOLDER, ".md", {person.slug: page(person, graded) for person in graded.people}, FILE_START)


def page(person: Person, graded: GradedClass) -> str:
    """The page as Markdown. Output of the learner's code is in fenced blocks, which it cannot close."""
    parts = [f"{FILE_START}{_escape_markdown(person.name)}", f"**{format_points(person.total.earned)} of {format_points(person.total.points)} points.**"]
    parts += [_escape_markdown(make_sentence(words)) for words in (person.late, problem_sentence(person)) if words]
    parts += ["\n".join(f"- {_escape_markdown(make_sentence(note))}" for note in person.notes)] if person.notes else []
    parts += [f"Your instructor writes: {_escape_markdown(make_sentence(remark))}" for remark in person.remarks]
    if person.given:
        parts += ["\n".join(["## Changed by your instructor", "", *(f"- {_escape_markdown(sentence)}" for sentence in correction_sentences(person))])]
    if person.problem:
        return "\n\n".join(parts) + "\n"
    results = {result.exercise.name: result for result in person.results}
    passed, todo, incomplete = [], [], []
    for exercise in graded.exercises:
        result = results.get(exercise.name)
        if exercise.module in person.broken:
            continue
        if result is None or (not result.failures and not result.forbidden and result.outcome == "todo"):
            todo.append(exercise)
        elif result.outcome == "passed" and not result.forbidden and not result.missing_weight:
            passed.append(exercise)
        else:
            incomplete.append(result)
    parts += [_broken(person, module, graded) for module in person.broken]
    parts += [_section(person, result) for result in incomplete]
    parts += [_list("Passed", passed, person, results)] if passed else []
    parts += [_list("Still to do", todo, person, results)] if todo else []
    if incomplete:
        parts += ["`python -m pytest` tests your code with the same examples, apart from those for which a seed is named above."]
    return "\n\n".join(parts) + "\n"


def _section(person: Person, result: ExerciseResult) -> str:
    parts = [f"## {_exercise_points(person, result.exercise)}"]
    parts += [fence(format_result(result))] if result.failures or result.forbidden else []
    if seeds := {test.seed for test in result.failures if test.seed}:
        commands = " and ".join(f"`python -m pytest --exercise {result.exercise.name} --seed {seed}`" for seed in sorted(seeds))
        parts += [f"Examples that failed here are not those of every run; {commands} draws them again."]
    return "\n\n".join([*parts, NOT_RUN] if result.missing_weight else parts)


def _broken(person: Person, module: str, graded: GradedClass) -> str:
    lost = [exercise for exercise in graded.exercises if exercise.module == module]
    names = ", ".join(_exercise_points(person, exercise) for exercise in lost)
    return f"## {module}.py does not import\n\n{fence(format_failure(person.broken[module]))}\n\nSo the tests of these exercises could not run: {names}."


def _list(title: str, exercises: list[Exercise], person: Person, results: dict[str, ExerciseResult]) -> str:
    lines = [f"- {_exercise_points(person, exercise)}{_remark(results.get(exercise.name))}" for exercise in exercises]
    return "\n".join([f"## {title}", "", *lines])


def _remark(result: ExerciseResult | None) -> str:
    """What was replaced while a passed exercise was judged; or why tests could not run: the exercise, or one that it uses, is not implemented."""
    if result is None:
        return ""
    if result.outcome == "passed":
        return f": {_escape_markdown(' '.join(replaced_sentences(result.replaced)))}" if result.replaced else ""
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message)
    return f": {_escape_markdown('; '.join(reasons))}" if reasons else ""


def _exercise_points(person: Person, exercise: Exercise) -> str:
    mark = person.marks[exercise.name]
    return f"`{exercise.name}` {format_points(mark.earned)} of {format_points(mark.points)}"


def fence(words: str) -> str:
    """A block without Markdown or HTML inside; its fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}text\n{words}\n{fence}"


def _escape_markdown(words: str) -> str:
    """Text for running Markdown, escaped so that it is displayed literally."""
    shown = sanitize.line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|~$!])", r"\\\1", shown)
