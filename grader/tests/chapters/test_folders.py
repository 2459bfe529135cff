"""The folders of chapters: what is found in them belongs to the chapter, and imports run from later chapters to earlier ones."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from grader.chapters import FOLDER, find_files, module_name
from grader.course.labs import list_labs
from grader.course.syllabus import EXERCISES, ROOT, TESTS, load_syllabus
from grader.teaching.measurements import list_measurements
from grader.teaching.pictures import PICTURES
from grader.teaching.walks import TEMPLATES, list_walks, load

COURSE = load_syllabus()
NAMED = re.compile(r"grader\.chapters\.ch(\d\d)_")
MAY_NAME = {"chapters", "cli", "tests"}


def _names(path: Path) -> list[int]:
    return [int(number) for number in NAMED.findall(path.read_text(encoding="utf-8"))]


def test_each_folder_has_the_name_of_a_chapter_with_exercises():
    chapters = {chapter.name for chapter in COURSE.chapters if chapter.exercises}
    assert {path.parent.name for path in find_files("*.*")} == chapters


def test_each_template_of_a_walk_has_its_module_and_each_module_its_template():
    templates = {path.stem for path in TEMPLATES.glob("*.md")}
    assert {path.parent.name[:4] + path.stem.removeprefix("walk") for path in find_files("walk_*.py")} == templates
    for name in list_walks():
        assert {"REQUIRED_EXERCISES", "measure", "describe"} <= vars(load(name)).keys()


def test_a_folder_shows_exercises_of_its_own_chapter():
    for path in find_files("show.toml"):
        functions = vars(import_module(module_name(path)))
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            assert COURSE.exercise(name).module == path.parent.name
            assert inspect.isfunction(functions[entry["draw"]]), name


def test_a_function_of_a_picture_has_the_name_of_a_stored_one():
    for path in find_files("pictures.py"):
        module = import_module(module_name(path))
        own = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"]
        assert own and all(name.startswith(path.parent.name[:5]) and (PICTURES / f"{name}.svg").is_file() for name in own), path


def test_a_measurement_lies_in_the_folder_of_the_last_chapter_that_it_names():
    for measurement in list_measurements().values():
        module = import_module(measurement.module)
        text = inspect.getsource(getattr(module, f"report_{measurement.name}"))
        named = [measurement.lesson, *(int(number) for number in re.findall(r'"ch(\d\d)_', text))]
        assert max(named) <= measurement.last_chapter, measurement.name


@pytest.mark.parametrize("chapter", COURSE.chapters, ids=lambda chapter: chapter.name)
def test_a_chapter_uses_no_folder_of_a_later_one(chapter):
    """Neither its folder, nor its labs, nor its tests: a course that ends here needs no later chapter."""
    files = [*find_files("**/*.py", f"{chapter.id}_*"), EXERCISES / f"{chapter.name}.md", *TESTS.glob(f"test_{chapter.id}_*.py")]
    later = {str(path): _names(path) for path in files if path.is_file() and any(number > chapter.number for number in _names(path))}
    assert later == {}


def test_what_serves_several_chapters_imports_none_of_them_and_neither_does_the_machinery():
    beside = [path for path in FOLDER.rglob("*.py") if not path.relative_to(FOLDER).parts[0].startswith("ch")]
    machinery = [path for path in (ROOT / "grader").rglob("*.py") if path.relative_to(ROOT / "grader").parts[0] not in MAY_NAME]
    assert len(beside) > 5 and len(machinery) > 200
    assert [path for path in (*beside, *machinery) if _names(path)] == []


def _imports(code: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("lab", list_labs().values(), ids=lambda lab: lab.name)
def test_what_a_lab_imports_is_there(lab):
    for code in (lab.experiment, lab.start):
        if not code.startswith("headway "):
            for module, name in _imports(code):
                assert hasattr(import_module(module), name) or import_module(f"{module}.{name}")
