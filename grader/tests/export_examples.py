"""Graded classes to export: one from a real gradebook with strangers' text in every field, and classes of one person."""

from pathlib import Path

from example_class import EXERCISES, HOSTILE, RULES, VERSIONS, a_class, one_test, submission, verdict_of
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.verdict.results import ExerciseResult, Failure


def hostile_class(folder: Path) -> GradedClass:
    """A class from a real gradebook, with hostile text in every field that a stranger can fill."""
    hostile = submission(HOSTILE, slug="hostile", digest="0125" * 16, notes=(HOSTILE,))
    people = [*a_class(6), hostile, submission(f"=HYPERLINK({HOSTILE})", slug="hostile-2", problem=f"the file {HOSTILE} is empty")]
    with Gradebook(folder) as book:
        book.start_run(3, EXERCISES, VERSIONS)
        for one in book.submissions_to_do(people):
            verdict = verdict_of(one.digest, said=HOSTILE if one is hostile else "")
            if one is hostile:
                verdict.broken[EXERCISES[-1].module] = Failure("", message=HOSTILE, where=HOSTILE)
            book.store_verdict(one.digest, verdict)
        return book.graded_class(RULES)


def one(*results: ExerciseResult, **more) -> GradedClass:
    """A class of one person, graded in these exercises."""
    exercises = tuple(result.exercise for result in results) or EXERCISES
    marks = scoring.compute_marks(results, exercises, RULES.points_of)
    person = Person(**{"name": "Alpha", "slug": "alpha", "digest": "d", "results": results, "marks": marks, "total": scoring.compute_total(marks.values())} | more)
    return GradedClass((person,), exercises, 0, VERSIONS)


def result(*outcomes: str, **more) -> ExerciseResult:
    return ExerciseResult(EXERCISES[0], [one_test(EXERCISES[0], number, outcome) for number, outcome in enumerate(outcomes, 1)], **more)


def harmless(text: str) -> bool:
    """The text contains no terminal command, no change of writing direction and no half character."""
    return all(c.isprintable() or c in "\n\u200c\u200d" for c in text)


def first_of(graded: GradedClass) -> tuple[Person, GradedClass]:
    return graded.people[0], graded
