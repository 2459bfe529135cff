"""The NAME arguments of the commands, with Tab completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from grader.course.syllabus import ROOT, load_syllabus

DESIGNS = (
    "learned", "sinusoidal", "rope", "alibi", "pre", "post", "dense", "moe", "heads=1", "heads=4", "words", "bpe",
    "mini", "tiny", "small",
)  # fmt: skip


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with this help, which says the default itself."""
    return typer.Option(*names, help=text, show_default=False, **more)


def argument(metavar: str, text: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete, show_default=False)


# ---- Tab completion: the names that begin with the typed text


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
AnyName = Annotated[str | None, NAME]
RequiredName = Annotated[str, NAME]
AnyExercise = Annotated[str | None, EXERCISE]
RequiredExercise = Annotated[str, EXERCISE]
