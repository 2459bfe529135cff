"""`headway similarity`: from submissions or from the last run of `headway grade`, and with bad input."""

import csv

import pytest
from grade_command import headway, headway_process
from grader.classroom.grading_options import GradingOptions, store_options
from seeded_copies import CHANGES, honest_courses

COURSES = honest_courses()
CHAPTER = "ch03_attention"
COPY = CHANGES["all of these"](COURSES["typed"][CHAPTER])


def hand_in(folder, people, module=CHAPTER):
    for name, data in people.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{module}.py").write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def rows(out):
    with (out / "similarity.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def submissions(tmp_path):
    return hand_in(tmp_path / "in", {"Alpha": COURSES["typed"][CHAPTER], "Beta": COPY, "Chi": COURSES["loops"][CHAPTER]})


def test_the_best_pairs_are_printed_and_both_files_are_written_and_no_code_is_run(submissions, tmp_path):
    mark = tmp_path / "mark"
    hand_in(submissions, {"Chi": f"open({str(mark)!r}, 'w').write('ran')\n" + COURSES["loops"][CHAPTER]})
    ran = headway("similarity", submissions, "--out", tmp_path / "out")
    assert ran.status == 0 and not mark.exists()
    assert ran.out.splitlines()[0] == "3 people compared, 1 pair to look at."
    assert " %  Alpha and Beta: " in ran.out and "A percentage proves nothing" in ran.out and "similarity.html" in ran.out
    [row] = rows(tmp_path / "out")
    assert row["person"] == "Alpha" and row["other person"] == "Beta" and int(row["percent"]) >= 70 and row["identical files"] == "no"
    assert int(row["alike lines"]) > 20 and "scaled_dot_product_attention" in row["exercises"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(before) == ["similarity-groups.csv", "similarity.csv", "similarity.html"]
    headway_process("similarity", submissions, "--out", tmp_path / "out", PYTHONHASHSEED="7")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_a_class_that_shares_one_solution_is_no_all_clear(tmp_path):
    people = {f"Person {number:02}": f"{COURSES['typed'][CHAPTER]}\n# by me, number {number}\n" for number in range(12)}
    ran = headway("similarity", hand_in(tmp_path / "in", people), "--out", tmp_path / "out")
    assert ran.status == 0 and ran.out.splitlines()[0] == "12 people compared, no pair to look at, 1 group with the same code."
    assert "Same code: Person 00, Person 01" in ran.out and "12 of 12 people have it; in pairs, it counts " in ran.out and "A percentage proves nothing" in ran.out
    assert rows(tmp_path / "out") == []
    with (tmp_path / "out" / "similarity-groups.csv").open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["person"] for row in found] == sorted(people) and {row["group"] for row in found} == {"1"} and int(found[0]["same lines"]) > 20


def test_people_whose_code_counts_as_common_are_named_and_compared_with_common_0(tmp_path):
    people = {f"Person {number:02}": f"{COURSES['typed'][CHAPTER]}\n# by me, number {number}\n" for number in range(12)}
    folder = hand_in(tmp_path / "in", people)
    ran = headway("similarity", folder, "--out", tmp_path / "out")
    assert "12 people cannot be in a pair (Person 00, " in ran.out and "--common 0 counts it in full." in ran.out
    ran = headway("similarity", folder, "--out", tmp_path / "out", "--common", "0")
    assert ran.out.splitlines()[0] == "12 people compared, 66 pairs to look at, 1 group with the same code."
    assert "cannot be in a pair" not in ran.out and {row["percent"] for row in rows(tmp_path / "out")} == {"100"}
    assert headway("similarity", folder, "--out", tmp_path / "out", "--common", "101").status == 2


def test_without_submissions_those_of_the_last_grading_are_compared(submissions, tmp_path):
    store_options(GradingOptions((str(submissions),), ("ch03",)), tmp_path / "grades")
    ran = headway("similarity", "--out", tmp_path / "grades")
    assert ran.status == 0 and "Alpha and Beta" in ran.out
    ran = headway("similarity", "--out", tmp_path / "grades", "--chapters", "ch05")
    assert ran.status == 0 and ran.out.startswith("0 people compared, no pair to look at.") and rows(tmp_path / "grades") == []


def test_own_tests_are_not_compared(submissions, tmp_path):
    """Those of a folder, and those that the last run graded. Beside chapters they make no difference."""
    tests = hand_in(tmp_path / "tests", {"Alpha": "def test_a(learner): pass", "Beta": "def test_b(learner): pass"}, "test_softmax")
    store_options(GradingOptions((str(tests),), own_tests=("softmax",)), tmp_path / "grades")
    for asked in ([tests, "--out", tmp_path / "out"], ["--out", tmp_path / "grades"]):
        ran = headway("similarity", *asked)
        assert ran.status == 2 and "tests has own tests, and `headway similarity` compares only chapters" in " ".join(ran.out.split()), ran.out
        assert not list(asked[-1].glob("similarity*"))
    hand_in(submissions, {"Alpha": "def test_a(learner): pass", "Psi": "def test_b(learner): pass"}, "test_softmax")
    ran = headway("similarity", submissions, "--out", tmp_path / "out")
    assert ran.status == 0 and ran.out.startswith("3 people compared, 1 pair to look at."), ran.out
    assert "Note: Psi: it contains no chapter, only test_softmax.py" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["nowhere", "--out", "{}/out"], "nowhere does not exist"),
        (["--out", "{}/out"], "out is not a folder that `headway grade` has written to; name the submissions, or that folder with --out"),
        (["{}/in", "--out", "{}/in/out"], "is inside the folder with the submissions; choose another one with --out"),
        (["{}/in", "--out", "{}/file"], "/file/similarity.csv: "),
    ],
)
def test_a_wrong_command_is_one_sentence_and_status_2(submissions, tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("a file")
    ran = headway("similarity", *(word.format(tmp_path) for word in arguments))
    assert ran.status == 2 and sentence in ran.out and not (tmp_path / "out").exists()


def test_groups_of_the_course_are_no_pairs(submissions, tmp_path):
    (tmp_path / "roster.csv").write_text("name,group\nAlpha,1\nBeta,1\nChi,2\n", encoding="utf-8")
    course = tmp_path / "course.toml"
    course.write_text('roster = "roster.csv"\n[assignments.week3]\nchapters = ["ch03"]\ngroups = true\n', encoding="utf-8")
    assert headway("similarity", submissions, "--course", course, "--assignment", "week3").status == 0 and rows(tmp_path / "grades" / "week3") == []
