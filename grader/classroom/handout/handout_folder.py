"""Makes a handout: a folder with the kit, the stubs, lessons and tests of some chapters, and the sealed reference.

It contains only what this module adds: no solutions, variants or known mistakes as text, no tests of the kit itself, no
history. Stubs are made from the solutions and not copied from exercises/, where the instructor may have edited them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.classroom.intake.submissions import GradingProblem
from grader.course.chapter_source import bound_names
from grader.course.known_mistakes import catalogue, misconceptions
from grader.course.paths import DEFAULT, LearningPath
from grader.course.paths import FILE as PATHS
from grader.course.progress import format_points
from grader.course.reference import seal
from grader.course.source import Segment, definition, parse, read_source, split_lines
from grader.course.stubs import FINGERPRINTS, FINGERPRINTS_HEADER, fingerprint, reference_stub
from grader.course.syllabus import (
    EXERCISES,
    ROOT,
    SOLUTIONS,
    TESTS,
    Chapter,
    Exercise,
    load_syllabus,
    suites_of,
    tests_in,
)
from grader.execution.chapter_package import without_docstrings
from grader.execution.names_used import Name, reachable_in
from grader.files import write_whole
from grader.own_tests.versions import TASKS
from grader.tutor.files import COMMAND_OF_HANDOUT, IGNORED, write_files
from grader.verdict.needed_examples import NEEDED, format_needed_examples, needed_examples

TEXTS = Path(__file__).parent / "texts"
COPIED_FILES = ("LICENSE", "constraints.txt", "pyproject.toml")
WORKFLOW = ".github/workflows/classroom.yml"
TEXTS_BY_PLACE = {"Makefile": "Makefile", WORKFLOW: "github.yml", ".gitlab-ci.yml": "gitlab.yml"}
NOT_FOR_LEARNERS = {"tests", "classroom", "teaching/pictures.py"}


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
    all_hidden = find_all_hidden([exercise.name for exercise in asked], exercises)
    if len(all_hidden) == len(exercises):
        raise GradingProblem("this would hide all exercises of the handout; hide fewer, or choose another chapter")
    return selected, all_hidden


def chapters_of(path: LearningPath) -> list[str]:
    """The chapters of a handout of this path: also those whose lessons it wants read first."""
    return [chapter.id for chapter in (*path.course.chapters, *path.read_first)]


def make_handout(
    folder: Path, chapters: Iterable[str], hidden: Iterable[str], force: bool = False, path: str = "",
    as_repository: bool = False,
) -> Handout:  # fmt: skip
    """Write the handout next to `folder` and move it there when it is complete; `force` replaces an earlier handout.
    The path of this name is chosen for its learners. `as_repository` makes a git repository of it."""
    selected, all_hidden = plan_handout(chapters, hidden)
    folder = folder.absolute()
    _check_destination(folder, force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        new = Path(temporary) / folder.name
        tested, mistakes = _write(new, selected, all_hidden, path)
        if as_repository:
            _make_repository(new)
        if folder.exists():
            os.replace(folder, Path(temporary) / "old") if any(folder.iterdir()) else folder.rmdir()
        os.replace(new, folder)
    return Handout(folder, tested, all_hidden, mistakes)


def _make_repository(folder: Path) -> None:
    """Commit everything in this folder to a new git repository, without hooks. GradingProblem if that fails."""
    author = ("-c", "user.name=Headway", "-c", "user.email=headway@localhost", "-c", "core.hooksPath=/dev/null")
    commit = (*author, "-c", "commit.gpgSign=false", "commit", "--quiet", "--message", "The course as handed out")
    for arguments in (("init", "--quiet", "--initial-branch=main"), ("add", "--all"), commit):
        try:
            subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise GradingProblem("--github makes a git repository, and git is not installed; install it") from None
        except subprocess.CalledProcessError as error:
            raise GradingProblem(f"git could not make a repository of the handout: {error.stderr.strip()}") from None


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


def _write(
    folder: Path, selected: list[Chapter], hidden: Collection[str], on_path: str
) -> tuple[tuple[Chapter, ...], int]:
    """Write all files; the chapters of the handout's syllabus, and how many known mistakes it has."""
    last = selected[-1].number
    for name in COPIED_FILES:
        _copy(ROOT / name, folder / name)
    _copy_kit(folder / "grader")
    _write_exercises(folder / "exercises", selected, hidden)
    chosen = f"{DEFAULT} = {json.dumps(on_path)}\n\n" if on_path else ""
    write_whole(folder / "exercises" / PATHS.name, chosen + read_source(PATHS))
    write_whole(folder / "exercises" / TASKS.name, read_source(TASKS))
    for path in sorted(set(TESTS.glob("*.py")) - set(TESTS.glob("test_*.py"))):
        _copy(path, folder / "tests" / path.name)
    for name, text in reduce_suites(selected, hidden).items():
        write_whole(folder / "tests" / name, text)
    write_whole(folder / "tests" / NEEDED.name, reduce_needed_examples(selected, hidden))
    reference, mistakes = folder / "reference", 0
    for chapter in load_syllabus().chapters:
        if chapter.exercises and chapter.number <= last:
            seal_reference(chapter.name, hidden, reference)
        if chapter in selected:
            shown = [exercise.name for exercise in chapter.exercises if exercise.name not in hidden]
            mistakes += seal_mistakes(chapter.name, shown, hidden, reference)
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
    whole = (EXERCISES / "syllabus.toml").read_text(encoding="utf-8")  # it is larger than a chapter of a learner may be
    syllabus = reduce_syllabus(whole, ids, last, hidden)
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


# ---- what a handout has of the course: syllabus and suites as text, the reference sealed
#
# Hiding an exercise removes its reference. Then an exercise cannot be tested if its reference uses the hidden one (in
# the same chapter or an earlier one) or if its tests request the hidden one from the reference. Such exercises are
# hidden, too: leaving out single tests would change the marks of the exercise they belong to.


HIDDEN_MESSAGE = (
    "only your instructor grades {name}, so this handout has no reference for it; "
    "with --whole the tests use your own {name}"
)


def find_all_hidden(requested: Iterable[str], exercises: Iterable[Exercise]) -> dict[str, str]:
    """All exercises that must be hidden, with the reason for each; the requested ones come first, without a reason."""
    hidden = dict.fromkeys(requested, "")
    rest = [exercise for exercise in exercises if exercise.name not in hidden]
    while more := {exercise.name: reason for exercise in rest if (reason := _explain_hidden(exercise, hidden))}:
        hidden |= more
        rest = [exercise for exercise in rest if exercise.name not in hidden]
    return hidden


def _explain_hidden(exercise: Exercise, hidden: Iterable[str]) -> str:
    used, tested = reachable_in(SOLUTIONS, {(exercise.module, exercise.name)}), _names_in_tests(exercise)
    for name in hidden:
        if (load_syllabus().exercise(name).module, name) in used:
            return f"its reference is built on {name}"
        if name in tested:
            return f"its tests use {name}"
    return ""


def _names_in_tests(exercise: Exercise) -> set[str]:
    """What its tests and their helpers may request from an implementation: every attribute and string but torch's."""
    tests = {(suite.stem, test) for suite in suites_of(exercise.chapter)
             for test, (name, _) in tests_in(suite).items() if name == exercise.name}  # fmt: skip
    return {word for module, name in reachable_in(TESTS, tests) for word in _names_and_strings(module, name)}


@cache
def _names_and_strings(module: str, name: str) -> frozenset[str]:
    tree = without_docstrings(parse(definition(read_source(TESTS / f"{module}.py"), name).text))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and not _is_of_torch(node)}
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return frozenset(attributes | {value for value in constants if isinstance(value, str)})


def _is_of_torch(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "nn", "F", "math")


def reduce_syllabus(text: str, chapters: Collection[str], last: int, hidden: Collection[str]) -> str:
    """The syllabus with these chapters' exercises, and the headings of earlier chapters, since code depends on them.

    The heading of a chapter lists its hidden exercises, so that the handout can say why they have no tests.
    """
    head, *entries = re.split(r"^(?=\[\[chapter)", text, flags=re.MULTILINE)
    parts, chapter = [head], ""
    for entry in entries:
        table = tomllib.loads(entry)["chapter"]
        if "exercise" in table:
            if chapter in chapters and table["exercise"][0]["name"] not in hidden:
                parts.append(entry)
            continue
        chapter = table[0]["id"]
        own = [exercise.name for exercise in load_syllabus().chapter(chapter).exercises if exercise.name in hidden]
        if own and chapter in chapters:
            entry = f"{entry.rstrip()}\nhidden = {json.dumps(own)}\n\n"
        if int(chapter.removeprefix("ch")) <= last:
            parts.append(entry)
    return "".join(parts).rstrip() + "\n"


def reduce_suites(chapters: Collection[Chapter], hidden: Collection[str]) -> dict[str, str]:
    """The chapters' suites by file name, without tests of hidden exercises and helpers that only those tests use."""
    suites = [suite for chapter in chapters for suite in suites_of(chapter.id)]
    remaining = {(suite.stem, test) for suite in suites
                 for test, (exercise, _) in tests_in(suite).items() if exercise not in hidden}  # fmt: skip
    needed = reachable_in(TESTS, remaining)
    used = {module for module, _ in needed}
    return {suite.name: _reduce_suite(suite.stem, needed) for suite in suites if suite.stem in used}


def _reduce_suite(module: str, needed: Collection[Name]) -> str:
    text = read_source(TESTS / f"{module}.py")
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if names and not any((module, name) in needed for name in names):
            segment = definition(text, min(names))
            lines[segment.start - 1 : segment.end] = []
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("test_"):
            left = [alias.name for alias in node.names if (node.module, alias.name) in needed]
            imports = [f"from {node.module} import {', '.join(left)}\n"] if left else []
            lines[node.lineno - 1 : node.end_lineno] = imports
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))


def reduce_needed_examples(chapters: Collection[Chapter], hidden: Collection[str]) -> str:
    """The file that says which examples the tests of these chapters need, without hidden exercises."""
    shown = {exercise.name for chapter in chapters for exercise in chapter.exercises if exercise.name not in hidden}
    return format_needed_examples({name: tests for name, tests in needed_examples().items() if name in shown})


def seal_reference(module: str, hidden: Collection[str], folder: Path) -> None:
    """Write one chapter of the reference, sealed."""
    write_whole(folder / f"{module}.sealed", seal(_reduce_reference(module, hidden)))


def seal_mistakes(module: str, exercises: Collection[str], hidden: Collection[str], folder: Path) -> int:
    """Write the known mistakes of these exercises, sealed, and return their number. StaleEdit if one does not fit."""
    text = _reduce_reference(module, hidden)
    chosen = [mistake for mistake in misconceptions(module) if mistake.exercise in exercises]
    for mistake in chosen:
        mistake.applied_to_chapter(text)
    if chosen:
        write_whole(folder / f"{module}.mistakes", seal(json.dumps(catalogue(module, exercises))))
    return len(chosen)


def _reduce_reference(module: str, hidden: Collection[str]) -> str:
    """The reference's chapter without hidden exercises and without the helpers that only they use.

    Names that are in the stub stay, since learners see them anyway. A hidden exercise is replaced by a placeholder that
    raises an error when it is used, since other chapters import its name.
    """
    text = read_source(SOLUTIONS / f"{module}.py")
    in_stub = {name for node in parse(reference_stub(module)).body for name in bound_names(node)}
    if not in_stub & set(hidden):
        return text
    needed = reachable_in(SOLUTIONS, {(module, name) for name in in_stub if name not in hidden}, hidden)
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if names and not any((module, name) in needed for name in names):
            segment = definition(text, min(names))
            lines[segment.start - 1 : segment.end] = [_placeholder(segment)] if names & set(hidden) else []
    return "".join(lines)


def _placeholder(segment: Segment) -> str:
    statement = f"raise RuntimeError({HIDDEN_MESSAGE.format(name=segment.name)!r})\n"
    if any(line.startswith("class ") for line in segment.text.splitlines()):
        return f"class {segment.name}:\n    def __init__(self, *args, **options):\n        {statement}"
    return f"def {segment.name}(*args, **options):\n    {statement}"
