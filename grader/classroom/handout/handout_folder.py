"""Makes a handout: a folder with the kit, the stubs, lessons and tests of some chapters, and the sealed reference.

It contains only what this module adds: no solutions, variants or known mistakes as text, no tests of the kit itself, no
history. Stubs are made from the solutions and not copied from exercises/, where the instructor may have edited them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.handout import course_subset
from grader.classroom.intake.problems import GradingProblem
from grader.course.progress import format_points
from grader.course.source import read_source
from grader.course.stubs import FINGERPRINTS, FINGERPRINTS_HEADER, fingerprint, reference_stub
from grader.course.syllabus import EXERCISES, ROOT, TESTS, Chapter, load_syllabus
from grader.files import write_whole
from grader.tutor.files import COMMAND_OF_HANDOUT, IGNORED, write_files
from grader.verdict.needed_examples import NEEDED

TEXTS = Path(__file__).parent / "texts"
COPIED_FILES = ("LICENSE", "constraints.txt", "pyproject.toml")
TEXTS_BY_PLACE = {"Makefile": "Makefile", ".github/workflows/grade.yml": "github.yml", ".gitlab-ci.yml": "gitlab.yml"}
NOT_FOR_LEARNERS = {"tests", "quality", "classroom", "teaching/pictures.py"}


@dataclass(frozen=True)
class Handout:
    """A handout that was made."""

    folder: Path
    chapters: tuple[Chapter, ...]  # from the handout's own syllabus
    hidden: dict[str, str]  # by name, with the reason; "" for those that the instructor named
    mistakes: int  # number of known mistakes that the handout can diagnose


def plan_handout(chapters: Iterable[str], hidden: Iterable[str]) -> tuple[list[Chapter], dict[str, str]]:
    """The chapters, and all exercises that must be hidden. UnknownName or GradingProblem if that is not possible."""
    course = load_syllabus()
    wanted = [course.chapter(name) for name in chapters] or [one for one in course.chapters if one.exercises]
    selected = [chapter for chapter in course.chapters if chapter in wanted]
    exercises = [exercise for chapter in selected for exercise in chapter.exercises]
    asked = [course.exercise(name) for name in hidden]
    for exercise in asked:
        if exercise not in exercises:
            raise GradingProblem(
                f"{exercise.name} is in {exercise.chapter}, which is not in this handout; "
                "hide only exercises of its chapters"
            )
    all_hidden = course_subset.find_all_hidden([exercise.name for exercise in asked], exercises)
    if len(all_hidden) == len(exercises):
        raise GradingProblem("this would hide all exercises of the handout; hide fewer, or choose another chapter")
    return selected, all_hidden


def make_handout(folder: Path, chapters: Iterable[str], hidden: Iterable[str], force: bool = False) -> Handout:
    """Write the handout next to `folder` and move it there when it is complete; `force` replaces an earlier handout."""
    selected, all_hidden = plan_handout(chapters, hidden)
    folder = folder.absolute()
    _check_destination(folder, force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        new = Path(temporary) / folder.name
        tested, mistakes = _write(new, selected, all_hidden)
        if folder.exists():
            os.replace(folder, Path(temporary) / "old") if any(folder.iterdir()) else folder.rmdir()
        os.replace(new, folder)
    return Handout(folder, tested, all_hidden, mistakes)


def _check_destination(folder: Path, force: bool) -> None:
    if folder.is_file():
        raise GradingProblem(f"{folder} is a file; choose a folder that does not exist yet")
    if folder.resolve() == ROOT or folder.resolve() in ROOT.parents:
        raise GradingProblem(f"{folder} contains this kit; choose a folder that does not exist yet")
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise GradingProblem(f"{folder} exists and is not empty; choose another folder, or replace it with --force")
        if not (folder / "reference").is_dir():
            raise GradingProblem(f"{folder} is not a handout, so --force does not replace it; choose another folder")


def _write(folder: Path, selected: list[Chapter], hidden: Collection[str]) -> tuple[tuple[Chapter, ...], int]:
    """Write all files; the chapters of the handout's syllabus, and how many known mistakes it has."""
    last = selected[-1].number
    for name in COPIED_FILES:
        _copy(ROOT / name, folder / name)
    _copy_kit(folder / "grader")
    _write_exercises(folder / "exercises", selected, hidden)
    for path in sorted(set(TESTS.glob("*.py")) - set(TESTS.glob("test_*.py"))):
        _copy(path, folder / "tests" / path.name)
    for name, text in course_subset.reduce_suites(selected, hidden).items():
        write_whole(folder / "tests" / name, text)
    write_whole(folder / "tests" / NEEDED.name, course_subset.reduce_needed_examples(selected, hidden))
    reference, mistakes = folder / "reference", 0
    for chapter in load_syllabus().chapters:
        if chapter.exercises and chapter.number <= last:
            course_subset.seal_reference(chapter.name, hidden, reference)
        if chapter in selected:
            shown = [exercise.name for exercise in chapter.exercises if exercise.name not in hidden]
            mistakes += course_subset.seal_mistakes(chapter.name, shown, hidden, reference)
            write_whole(reference / f"{chapter.name}.stub", reference_stub(chapter.name))
    made = load_syllabus(folder / "exercises" / "syllabus.toml")
    tested = tuple(chapter for chapter in made.chapters if chapter.exercises)
    write_whole(folder / "README.md", _format_readme(tested, hidden))
    for place, name in TEXTS_BY_PLACE.items():
        _copy(TEXTS / name, folder / place)
    write_files(folder, COMMAND_OF_HANDOUT)
    if (ignored := ROOT / ".gitignore").is_file():
        write_whole(folder / ".gitignore", read_source(ignored).partition(IGNORED)[0])
    return tested, mistakes


def _format_readme(chapters: Sequence[Chapter], hidden: Collection[str]) -> str:
    """The README; `chapters` come from the handout's own syllabus, without hidden exercises."""
    rows = []
    for chapter in chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} | {format_points(chapter.points)} |")
    files = ", ".join(f"`exercises/{chapter.name}.py`" for chapter in chapters)
    listed = ", ".join(f"`{name}`" for name in hidden)
    only = f"Only your instructor can grade {listed}: their tests are not here, but their stubs are in the files."
    more = f"\n\n{only}" if hidden else ""
    text = read_source(TEXTS / "README.md")
    return text.format(rows="\n".join(rows), first=chapters[0].name, hidden=more, files=files)


def _write_exercises(folder: Path, selected: list[Chapter], hidden: Collection[str]) -> None:
    """Write stubs, their lock, lessons, pictures and the syllabus."""
    ids, last = [chapter.id for chapter in selected], selected[-1].number
    lock = FINGERPRINTS_HEADER
    for chapter in selected:
        stub = reference_stub(chapter.name)
        write_whole(folder / f"{chapter.name}.py", stub)
        lock += f'{chapter.name} = "{fingerprint(stub)}"\n'
        _copy(EXERCISES / f"{chapter.name}.md", folder / f"{chapter.name}.md")
    for name in ("ch00", *ids):
        for path in sorted(EXERCISES.glob(f"pictures/{name}_*.svg")):
            _copy(path, folder / "pictures" / path.name)
    for path in sorted(EXERCISES.glob("walks/*.md")):
        _copy(path, folder / "walks" / path.name)
    _copy(EXERCISES / "AGENTS.md", folder / "AGENTS.md")
    for path in _introductions():
        write_whole(folder / path.name, _without_lost_links(read_source(path), folder))
    write_whole(folder / FINGERPRINTS, lock)
    syllabus = course_subset.reduce_syllabus(read_source(EXERCISES / "syllabus.toml"), ids, last, hidden)
    write_whole(folder / "syllabus.toml", syllabus)
    if len(selected) == sum(bool(chapter.exercises) for chapter in load_syllabus().chapters):
        _copy(EXERCISES / "AFTERWARDS.md", folder / "AFTERWARDS.md")


def _introductions() -> list[Path]:
    """The pages that are read before chapter 1 and have no exercises, so every handout has them."""
    chapters = {chapter.name for chapter in load_syllabus().chapters}
    return sorted(path for path in EXERCISES.glob("ch00_*.md") if path.stem not in chapters)


def _without_lost_links(lesson: str, folder: Path) -> str:
    """Return a lesson of chapter 0 without links to lessons that are not in the handout: their titles stay."""
    introductions = {path.name for path in _introductions()}

    def link(match: re.Match) -> str:
        return match[0] if match[2] in introductions or (folder / match[2]).is_file() else match[1]

    return re.sub(r"\[([^\]]+)\]\((\w+\.md)\)", link, lesson)


def _copy_kit(folder: Path) -> None:
    kit = ROOT / "grader"

    def find_excluded(place: str, names: list[str]) -> set[str]:
        found = {name for name in names if name == "__pycache__" or name.startswith(".") or name.endswith(".pyc")}
        return found | {name for name in names if Path(place, name).relative_to(kit).as_posix() in NOT_FOR_LEARNERS}

    shutil.copytree(kit, folder, ignore=find_excluded)


def _copy(path: Path, target: Path) -> None:
    if path.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
