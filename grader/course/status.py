"""The learner's status in the course, and the next exercise."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from grader.course.paths import chosen_path
from grader.course.progress import Score, load_scores
from grader.course.source import SourceProblem, find_definition, read_source
from grader.course.stubs import is_stub, modified_chapters
from grader.course.syllabus import EXERCISES, Chapter, Exercise, Syllabus, UnknownName, load_syllabus
from grader.files import short_path


@dataclass(frozen=True)
class Location:
    """The file and line of an exercise in the learner's folder; `problem` is a sentence if the file cannot be used."""

    file: Path
    line: int
    problem: str | None = None

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """The next exercise, and where it is."""

    chapter: Chapter
    exercise: Exercise
    location: Location

    @property
    def command(self) -> str:
        exists = self.location.file.exists()
        return f"headway check {self.exercise.name}" if exists else f"headway reset {self.chapter.id}"


def read_course(path: Path | None = None) -> Syllabus:
    """The syllabus; SourceProblem, in a sentence, where the file is missing or broken."""
    try:
        return load_syllabus(path) if path else load_syllabus()
    except FileNotFoundError:
        reason = "the file does not exist"
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
    except UnicodeDecodeError:
        reason = "the file is not UTF-8"
    except KeyError as error:
        reason = f"an entry has no {error.args[0]!r}"
    except (TypeError, AttributeError) as error:
        reason = f"an entry has the wrong type ({error})"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        reason = str(error)
    shown = short_path(path or EXERCISES / "syllabus.toml")
    advice = "`git checkout exercises/syllabus.toml` restores it"
    raise SourceProblem(f"{shown} cannot be read: {reason}; {advice}")


def read_route() -> Syllabus:
    """The path that the learner has chosen, or the whole course."""
    course, path = read_course(), chosen_path()
    return path.course if path else course


def all_passed() -> str:
    """The sentence that nothing is left."""
    path = chosen_path()
    if path is None:
        return "You have passed every exercise."
    said = f"You have passed every exercise of the path {path.name}; `headway path` shows the others."
    return f"{said} {path.afterwards}".strip()


def current_scores() -> dict[str, Score]:
    """The saved score of each exercise that has code: a stub has no points, even if earlier code earned some."""
    course, scores = read_course(), load_scores()
    stubs = {exercise.name for exercise in course.exercises if exercise.name in scores and is_stub_now(exercise)}
    return {name: score for name, score in scores.items() if name not in stubs}


def current_score(exercise: Exercise) -> Score | None:
    """The saved score of one exercise; None for a stub."""
    score = load_scores().get(exercise.name)
    return None if score is None or is_stub_now(exercise) else score


def is_stub_now(exercise: Exercise) -> bool:
    """Whether the learner's file still has the exercise's stub."""
    try:
        return is_stub(exercise, read_source(EXERCISES / f"{exercise.module}.py"))
    except SourceProblem:
        return False


def next_step(scores: dict[str, Score] | None = None) -> Step | None:
    """The first exercise of the current chapter that is not passed; None when all of the learner's path are passed."""
    scores = current_scores() if scores is None else scores
    chapter = current_chapter(scores)
    if chapter is None:
        return None
    return step_of(next(exercise for exercise in chapter.exercises if not is_passed(exercise, scores)))


def step_of(exercise: Exercise) -> Step:
    return Step(read_course().chapter(exercise.chapter), exercise, locate(exercise))


def next_unpassed(exercise: Exercise) -> Exercise | None:
    """The next exercise of the learner's path that is not passed: of its chapter, then of later chapters, then of
    earlier ones; or None. After an exercise that is not on the path, it is the first one."""
    route, scores = read_route().exercises, current_scores()
    here = route.index(exercise) if exercise in route else -1
    others = [*route[here + 1 :], *route[: max(here, 0)]]
    others.sort(key=lambda other: other.chapter != exercise.chapter)  # stable
    return next((other for other in others if not is_passed(other, scores)), None)


def current_chapter(scores: dict[str, Score]) -> Chapter | None:
    """The unfinished chapter of the learner's path that was edited last, else the first unfinished one."""
    chapters = [chapter for chapter in read_route().chapters if chapter.exercises]
    unfinished = {chapter.name: chapter for chapter in chapters if not is_complete(chapter, scores)}
    edited = modified_chapters(unfinished)
    if edited:
        return unfinished[max(edited, key=lambda name: (EXERCISES / f"{name}.py").stat().st_mtime)]
    return next(iter(unfinished.values()), None)


def is_complete(chapter: Chapter, scores: dict[str, Score]) -> bool:
    return bool(chapter.exercises) and all(is_passed(exercise, scores) for exercise in chapter.exercises)


def is_passed(exercise: Exercise, scores: dict[str, Score]) -> bool:
    return exercise.name in scores and scores[exercise.name].passed


def exercise_of(found: Exercise | Chapter | None) -> Exercise | None:
    """This exercise, or the first of this chapter that is not passed, or else its first one.

    Of nothing it is the next one, None when all are passed. UnknownName for a chapter without exercises here.
    """
    scores = current_scores()
    if found is None:
        step = next_step(scores)
        return step.exercise if step else None
    if isinstance(found, Exercise):
        return found
    if not found.exercises:
        raise UnknownName(f"{found.name} is not part of this handout; `headway list` shows what is")
    return next((exercise for exercise in found.exercises if not is_passed(exercise, scores)), found.exercises[0])


def points_earned(chapter: Chapter, scores: dict[str, Score]) -> float:
    return sum(scores[exercise.name].earned for exercise in chapter.exercises if exercise.name in scores)


def hours_left(course: Syllabus, scores: dict[str, Score]) -> int:
    """About so many for what is not passed; at least 1 as long as something is left."""
    chapters = [chapter for chapter in course.chapters if chapter.points]
    left = sum(chapter.hours * (1 - points_earned(chapter, scores) / chapter.points) for chapter in chapters)
    return max(1, round(left)) if left else 0


def locate(named: Exercise | Chapter) -> Location:
    """The file and line where an exercise (or a chapter) begins in the learner's folder."""
    module = named.module if isinstance(named, Exercise) else named.name
    file = EXERCISES / f"{module}.py"
    reset = f"`headway reset {module.partition('_')[0]}` creates the stub again"
    if not file.exists():
        return Location(file, 1, f"{short_path(file)} is missing; {reset}")
    if isinstance(named, Chapter):
        return Location(file, 1)
    try:
        found = find_definition(read_source(file), named.name, short_path(file))
    except SourceProblem as error:
        return Location(file, error.line or 1, str(error))
    if found is None:
        advice = f"`headway reset {named.name}` adds the stub at the end of the file"
        return Location(file, 1, f"{short_path(file)} does not define {named.name}; {advice}")
    return Location(file, found.line)
