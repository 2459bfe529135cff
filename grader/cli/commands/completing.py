"""Tab completion for `headway`: the names that begin with the typed text."""

from __future__ import annotations

from grader.course.syllabus import load_syllabus


def names(incomplete: str) -> list[str]:
    return exercises(incomplete) + chapters(incomplete)


def exercises(incomplete: str) -> list[str]:
    try:
        return [exercise.name for exercise in load_syllabus().exercises if exercise.name.lower().startswith(incomplete.lower())]
    except Exception:
        return []


def chapters(incomplete: str) -> list[str]:
    try:
        known = [chapter for chapter in load_syllabus().chapters if chapter.exercises]
    except Exception:
        return []
    return [chapter.id for chapter in known if chapter.name.lower().startswith(incomplete.lower())]


def drawable(incomplete: str) -> list[str]:
    from grader.teaching.show.catalog import has_picture

    return [name for name in exercises(incomplete) if has_picture(name)]


def measurements(incomplete: str) -> list[str]:
    from grader.cli.commands.measure import known

    return [name for name in known() if name.startswith(incomplete)]


def walks(incomplete: str) -> list[str]:
    from grader.teaching.walks import list_walks

    return [name for name in list_walks() if name.startswith(incomplete)]


def checkpoints(incomplete: str) -> list[str]:
    from grader.course.syllabus import ROOT

    try:
        return [path.parent.name for path in (ROOT / "checkpoints").glob("*/checkpoint.json") if path.parent.name.startswith(incomplete)]
    except OSError:
        return []


def comparable(incomplete: str) -> list[str]:
    """Checkpoints, and the words for designs."""
    designs = ("learned", "sinusoidal", "rope", "alibi", "pre", "post", "dense", "moe", "heads=1", "heads=4", "words", "bpe", "mini", "tiny", "small", "translate")
    return checkpoints(incomplete) + [word for word in designs if word.startswith(incomplete)]
