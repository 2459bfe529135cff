"""Pictures of `headway show`, made of the reference and of changed copies of it."""

import torch
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.target import Target, reference_of
from grader.teaching.show.both_sides import make_picture
from grader.teaching.show.panels import Picture

EXERCISES = {exercise.name: exercise for exercise in load_syllabus().exercises}


def exercise(name: str) -> Exercise:
    return EXERCISES[name]


def drawn(name: str, *edits: tuple[str, str]) -> Picture:
    """With the reference in the learner's place, changed by these edits."""
    module = exercise(name).module
    text = reference_of(module).text
    for old, new in edits:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return make_picture(exercise(name), Target("exercises", texts={module: text}))


def panel(picture: Picture, number: int = 0):
    return picture.pairs[number].reference


def table(picture: Picture, number: int = 0) -> torch.Tensor:
    return torch.tensor(panel(picture, number).values, dtype=torch.float64)
