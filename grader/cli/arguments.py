"""The arguments and options that several commands share, with Tab completion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from grader.course.status import read_course
from grader.course.syllabus import ROOT, Chapter, Exercise, UnknownName, load_syllabus, match_name, unknown_name

DESIGNS = (
    "learned", "sinusoidal", "rope", "alibi", "pre", "post", "dense", "moe", "heads=1", "heads=4", "words", "bpe",
    "mini", "tiny", "small",
)  # fmt: skip


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with this help, which says the default itself."""
    return typer.Option(*names, help=text, show_default=False, **more)


def argument(metavar: str, text: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete, show_default=False)


def known_name(kind: str, command: str, typed: str, names: Collection[str]) -> str:
    """The known name that equals the typed one, or UnknownName with similar names and the command that lists all."""
    if found := match_name(typed, names):
        return found
    raise UnknownName(unknown_name(kind, typed, names, listed_by=command))


def named(words: Iterable[str]) -> Exercise | Chapter:
    """The one exercise or chapter that is named; UnknownName for several."""
    found = read_course().find_all(words)
    if len(found) > 1:
        names = " and ".join(each.short_name for each in found)
        raise UnknownName(f"this command takes one name, and {names} are {len(found)}; run it once for each of them")
    return found[0]


def named_exercise(words: Iterable[str]) -> Exercise:
    """The one exercise that is named; UnknownName for a chapter."""
    found = named(words)
    return read_course().exercise(found.id) if isinstance(found, Chapter) else found


# ---- Tab completion: the names that begin with the typed text


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def complete_name(incomplete: str) -> list[str]:
    return complete_exercise(incomplete) + complete_chapter(incomplete)


def complete_exercise(incomplete: str) -> list[str]:
    try:
        names = [exercise.name for exercise in load_syllabus().exercises]
    except Exception:  # a broken syllabus gets its sentence when the command runs
        return []
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def complete_chapter(incomplete: str) -> list[str]:
    try:
        chapters = [chapter for chapter in load_syllabus().chapters if chapter.exercises]
    except Exception:
        return []
    return [chapter.id for chapter in chapters if chapter.name.lower().startswith(incomplete.lower())]


def complete_checkpoint(incomplete: str) -> list[str]:
    names = [path.parent.name for path in (ROOT / "checkpoints").glob("*/checkpoint.json")]
    return [name for name in names if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Checkpoints, and the words for designs."""
    return complete_checkpoint(incomplete) + [word for word in DESIGNS if word.startswith(incomplete)]


NAME = argument("NAME", "An exercise, or a chapter: its number or its title.", complete_name)
EXERCISE = argument("NAME", "An exercise.", complete_exercise)
# one name, which may have several words: chapter 3
AnyName = Annotated[list[str] | None, NAME]
RequiredName = Annotated[list[str], NAME]
AnyExercise = Annotated[list[str] | None, EXERCISE]
RequiredExercise = Annotated[list[str], EXERCISE]
AnyNames = Annotated[
    list[str] | None, argument("NAMES", "Exercises, or chapters: their numbers or titles.", complete_name)
]
InWorker = Annotated[
    bool, option("Run your code in a separate process; on Linux, a sandbox isolates it from your files.", "--worker")
]

# ---- the options of several commands for instructors

Out = Annotated[
    Path | None,
    option("The folder of the gradebook (default: grades, or grades/NAME for an assignment).", metavar="DIR"),
]
CourseFile = Annotated[
    Path | None, option("The course file (default: course.toml in this folder).", "--course", metavar="FILE")
]
AssignmentName = Annotated[str, option("An assignment of course.toml.", "--assignment", metavar="NAME")]
Chapters = Annotated[str, option("The chapters (default: all).", metavar="ch03,ch05", autocompletion=complete_chapter)]
Exercises = Annotated[
    str, option("The exercises (default: all of these chapters).", metavar="NAMES", autocompletion=complete_exercise)
]
OwnTests = Annotated[
    str,
    option(
        "Grade learners' own tests of these exercises, test_NAME.py, by the share of the known mistakes they find.",
        "--own-tests", metavar="NAMES", autocompletion=complete_exercise,
    ),
]  # fmt: skip
Seed = Annotated[int | None, option("Draw other examples; the run stays repeatable (default: 0).", metavar="N")]
Fewer = Annotated[bool, option("Leave out exercises or people that the last run into this folder graded.", "--fewer")]
Jobs = Annotated[
    int | None,
    option("How many submissions run at once (default: one per processor).", "-j", "--jobs", min=1, max=64),
]
Dask = Annotated[str | None, option("Grade on a Dask cluster.", metavar="ADDRESS")]
RequireIsolation = Annotated[
    bool,
    option(
        "Refuse to run if a layer of the sandbox is missing; `headway doctor --grading` lists the layers.",
        "--require-isolation",
    ),
]
Key = Annotated[
    Path | None,
    option("The key of the pseudonyms, if the grades are anonymous and it has moved.", "--key", metavar="FILE"),
]
Person = Annotated[str, argument("NAME", "A person: the name, e-mail address, login or number.")]


def split_option(words: str) -> list[str]:
    """The names in an option such as --chapters ch03,ch05."""
    return [name.strip() for name in words.split(",") if name.strip()]
