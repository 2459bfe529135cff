"""Ways through the course: each is closed, one can be chosen, and then the status page and the next step follow it."""

import re

import pytest
from grader.course.paths import load_paths
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.target import resolve, uses

COURSE = load_syllabus()
ROW = re.compile(r"^\| (\d+) \[.* \| ([\d, –]+) \| \d+ \|$", re.MULTILINE)  # of the big picture: a chapter, and what it needs


@pytest.fixture(scope="module")
def needs():
    """For each chapter's number, the chapters that it needs, also through others."""
    direct = {int(number): {int(each) for each in re.findall(r"\d+", needed)} for number, needed in ROW.findall((EXERCISES / "ch00_big_picture.md").read_text(encoding="utf-8"))}
    assert len(direct) == len(COURSE.chapters)
    for number in sorted(direct):  # a chapter needs earlier ones only
        direct[number] |= {far for near in direct[number] for far in direct[near]}
    return direct


@pytest.mark.parametrize("path", load_paths().values(), ids=load_paths())
def test_what_a_path_needs_is_on_it_or_read_first(path, needs):
    explained = {chapter.number for chapter in (*path.course.chapters, *path.read_first)}
    for chapter in path.course.chapters:
        assert needs[chapter.number] <= explained, f"chapter {chapter.number} needs the explanations of more chapters"
    for exercise in path.course.exercises:
        used = {COURSE.chapter(module[:4]).number for module, name in uses(resolve("solutions"), exercise.module, exercise.name)}
        assert used <= explained, f"{exercise.name} uses parts of more chapters"


@pytest.mark.parametrize("path", load_paths().values(), ids=load_paths())
def test_no_step_of_a_path_comes_before_one_that_its_code_uses(path):
    names = [exercise.name for exercise in path.course.exercises]
    assert len(set(names)) == len(names)
    for at, exercise in enumerate(path.course.exercises):
        used = {name for _, name in uses(resolve("solutions"), exercise.module, exercise.name)} - {exercise.name}
        assert not used & set(names[at:]), exercise.name


def test_the_first_model_takes_at_most_twenty_hours_and_an_interview_has_thirty_pieces():
    assert load_paths()["first-model"].course.hours <= 20
    assert len(load_paths()["interview"].course.exercises) == 30
    assert sum(chapter.hours for chapter in COURSE.chapters) == COURSE.hours


def test_a_chosen_path_is_what_the_status_page_and_the_next_step_show(kit):
    assert "`headway path` shows shorter ways through it" in " ".join(kit.run().split())
    said = " ".join(kit.run("path", "interview").split())
    assert "You are on the path interview" in said and "16 Published model" in said
    page = kit.run()
    assert "Interpretability" not in page and "Next: count_pairs" in page
    assert f"The path interview takes about {load_paths()['interview'].course.hours} hours." in page
    kit.pass_chapter("ch03")
    assert "hours are left on the path interview." in kit.run() and "Next: count_pairs" in kit.run()
    assert "4 of 30 exercises passed, chosen" in kit.run("path")
    kit.run("path", "all")
    assert "Interpretability" in kit.run()


def test_at_the_end_of_a_path_the_others_are_named(kit):
    kit.run("path", "inside")
    kit.record(**{exercise.name: exercise.points for exercise in load_paths()["inside"].course.exercises})
    said = " ".join(kit.run("next").split())
    assert "You have passed every exercise of the path inside; `headway path` shows the others. `headway features` finds the features" in said


def test_an_unknown_path_and_a_damaged_file_are_one_sentence(kit):
    assert "there is no path called 'tranformer'; did you mean transformer?" in kit.run("path", "tranformer", status=2)
    (kit.exercises / ".headway").mkdir(exist_ok=True)
    (kit.exercises / ".headway" / "path.txt").write_bytes(b"\xff\xfe")
    assert "The course takes about" in kit.run()
    paths = kit.exercises / "paths.toml"
    paths.write_text("[broken\n")
    assert "exercises/paths.toml cannot be read" in kit.run("path", status=1)
    paths.write_text('[short]\nsteps = ["ch03"]\n')
    assert "the path short needs a goal and a list of steps" in " ".join(kit.run("path", status=1).split())
    paths.unlink()
    assert "The course takes about" in kit.run() and "the whole course" in kit.run("path").lower()
