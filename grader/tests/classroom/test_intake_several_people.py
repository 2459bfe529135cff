"""A folder that contains whole classes is never graded as one person: the folder above an export, a folder of assignments, an nbgrader course, the kit itself."""

import shutil

import pytest
from grade_command import headway
from grader.classroom.intake.options import parse_options
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.reading import read_submissions
from grader.classroom.intake.several_people import MANY_COPIES
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS
from submission_archives import CHAPTER, by_name, one, write, zipped

TEXT = "def softmax(x, dim=-1):\n    return {}\n"
PEOPLE = ("alpha", "beta", "chi")
STAMP = "2026-11-16 10:30:47.524219 UTC\n"


def a_class(folder, names=PEOPLE, file=f"{{}}/{CHAPTER}"):
    for number, name in enumerate(names):
        write(folder / file.format(name), TEXT.format(number))


def refusal(path) -> str:
    with pytest.raises(GradingProblem) as refused:
        read_in_subprocess(path)
    with pytest.raises(GradingProblem, match=r"seems to contain whole classes"):
        read_submissions(path)
    return str(refused.value)


@pytest.mark.parametrize(
    "file",
    [
        f"{{}}/{CHAPTER}", f"{{}}_12_assignsubmission_file_/{CHAPTER}", f"one{{}}_12_345_{CHAPTER}", "one{}_12_345_homework.py", f"{{}}_{CHAPTER}",
        f"{{}}/week3/{CHAPTER}", f"assignment_7_export/submission_{{}}/{CHAPTER}", "{}/homework.py",
    ],
)  # fmt: skip
def test_the_folder_above_a_class_is_refused_with_the_folder_to_name(tmp_path, file):
    a_class(tmp_path / "term" / "week3", file=file)
    write(tmp_path / "term" / "notes" / "readme.txt")
    inside = "week3/assignment_7_export" if "export" in file else "week3"
    sentence = refusal(tmp_path / "term")
    assert f"term seems to contain whole classes and not the submissions of single people: {inside} has the same chapter 3 times (" in sentence
    assert f"grade one folder or archive at a time, like {tmp_path / 'term' / inside}. " in sentence
    assert len(read_submissions(tmp_path / "term" / inside)) == 3, "what the sentence names can be graded"


def test_the_archive_of_a_class_and_archives_of_people_in_a_folder_are_recognised(tmp_path):
    write(tmp_path / "above" / "week3.zip", zipped({f"{name}/{CHAPTER}": TEXT.format(name) for name in PEOPLE}))
    assert f"like {tmp_path / 'above' / 'week3.zip'}. " in refusal(tmp_path / "above")
    for name in PEOPLE:
        write(tmp_path / "term" / "week3" / f"{name}.zip", zipped({CHAPTER: TEXT.format(name)}))
    assert f"like {tmp_path / 'term' / 'week3'}. " in refusal(tmp_path / "term")
    write(tmp_path / "term.zip", zipped({f"{week}/{name}/{CHAPTER}": TEXT.format(name) for week in ("week3", "week4") for name in PEOPLE}))
    assert "unpack it, and grade one of its folders at a time, like week3. " in refusal(tmp_path / "term.zip")


def test_a_person_may_have_versions_and_assignments_in_folders(tmp_path):
    for person in PEOPLE:
        for week, module in (("week3", "ch03_attention"), ("week4", "ch04_positions"), ("week5", "ch05_layers")):
            write(tmp_path / "class" / person / week / f"{module}.py")
    a_class(tmp_path / "class" / "delta", ("old", "new"))
    write(tmp_path / "class" / "delta" / "ch03_attention_old.py", "x = 1\n")
    write(tmp_path / "class" / "delta" / "ch03_attention_older.py", "x = 2\n")
    assert all(not submission.people for submission in read_submissions(tmp_path / "class"))
    for folder in ("solutions", "grader/tests/a", "grader/tests/b", "tests/variants"):
        write(tmp_path / "clones" / "alpha" / folder / CHAPTER)
    write(tmp_path / "clones" / "alpha" / "exercises" / CHAPTER)
    assert one(tmp_path / "clones").people == ()


def test_a_class_among_people_is_a_note_and_a_large_one_is_not_graded(tmp_path):
    a_class(tmp_path, ("alpha", "beta"))
    a_class(tmp_path / "late")
    notes: list[str] = []
    found = {submission.name: submission for submission in read_in_subprocess(tmp_path, notes.append)}
    assert sorted(found) == ["alpha", "beta", "late"] and not found["late"].problem
    assert notes == ["late has the same chapter 3 times (alpha, beta, chi); if these are several people, grade it by itself"]
    a_class(tmp_path / "late", [f"person{number}" for number in range(MANY_COPIES - 3)])
    found = by_name(tmp_path)
    assert "as a whole class does; if it is one person's, submit one version" in found["late"].problem and found["late"].sources == {}
    assert found["alpha"].sources


@pytest.mark.parametrize("beside", ["gradebook.db", "source/week3/ch03_attention.py", ""])
def test_the_root_of_an_nbgrader_course_means_its_submitted_folder(tmp_path, beside):
    a_class(tmp_path / "submitted", file=f"{{}}/week3/{CHAPTER}")
    write(tmp_path / (beside or "submitted/alpha/week3/timestamp.txt"), STAMP)
    notes: list[str] = []
    found = read_in_subprocess(tmp_path, notes.append)
    assert [submission.name for submission in found] == [*PEOPLE]
    assert notes == [f"{tmp_path.name} is the folder of an nbgrader course, so its folder submitted was read"]


def test_the_kit_itself_is_no_submission(tmp_path):
    for path in (ROOT, EXERCISES, SOLUTIONS):
        with pytest.raises(GradingProblem, match="belongs to the kit itself; name the folder with the submissions"):
            read_in_subprocess(path)
    a_class(tmp_path)
    (tmp_path / "kit").symlink_to(ROOT)  # as if the class were in the folder above the kit
    notes: list[str] = []
    assert [submission.name for submission in read_in_subprocess(tmp_path, notes.append)] == [*PEOPLE]
    assert notes == ["ignored because it is the kit itself: kit"]


@pytest.mark.thorough
def test_the_command_refuses_and_grades_what_it_names(tmp_path):
    shutil.copytree(EXERCISES, tmp_path / "term" / "week3" / "alpha", ignore=lambda folder, names: [name for name in names if name != CHAPTER])
    a_class(tmp_path / "term" / "week3", ("beta", "chi"))
    asked = ("--out", tmp_path / "out", "--exercises", "softmax", "-j", 1)
    ran = headway("grade", tmp_path / "term", *asked)
    assert ran.status == 2 and "grade one folder or archive at a time" in ran.out and not (tmp_path / "out").exists()
    assert "3 people" in headway("grade", tmp_path / "term" / "week3", *asked).out


def test_versions_in_the_assignments_folder_come_first(tmp_path):
    for week, time in (("week3", 1_780_000_000), ("week4", 1_790_000_000)):
        write(tmp_path / "alpha" / week / CHAPTER, f"week = '{week}'\n", time)
    assert one(tmp_path).sources == {"ch03_attention": "week = 'week4'\n"}
    found = one(tmp_path, parse_options(assignment="Week3"))
    assert found.sources == {"ch03_attention": "week = 'week3'\n"}
    assert found.notes == ("there are several versions of ch03_attention.py; week3/ch03_attention.py was graded, not week4/ch03_attention.py",)
