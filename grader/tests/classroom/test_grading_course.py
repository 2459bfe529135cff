"""`headway grade --assignment`: a gradebook for each assignment, rules from course.toml, groups, and nothing that disappears without a word."""

import json
import os
import shutil
import sys

import pytest
from example_class import EXERCISES, submission
from grade_command import count_graded, exports, hand_in, headway, marks, store_verdicts
from gradebook_runs import graded, start_gradebook
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import GradebookProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.term.deliveries import name_by_roster
from grader.classroom.term.roster import Roster, RosterPerson
from grader.cli.commands.autograde import read_metadata, write_roster

ROSTER = "name,login,group\nAlpha One,aone,G1\nBeta Two,btwo,G1\nGamma Three,gthree,\n"
COURSE = """\
roster = "roster.csv"
[assignments.week1]
exercises = ["causal_mask"]
due = 2026-12-01T23:59:00+01:00
per_day = 50
groups = true
[assignments.week2]
exercises = ["softmax", "causal_mask"]
[extensions.week1]
btwo = 2026-12-03T23:59:00+01:00
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course whose first assignment is graded: Alpha handed in late for the group G1, and a stranger handed in, too."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    (folder / "roster.csv").write_text(ROSTER, encoding="utf-8")
    hand_in(folder / "files", "one", "x = 1")
    hand_in(folder / "files", "two", "x = 2")
    rows = "name,path,submitted\naone,files/one,2026-12-02T20:00:00+01:00\nStranger,files/two,2026-11-30T20:00:00+01:00\n"
    (folder / "class.csv").write_text(rows, encoding="utf-8")
    store_verdicts(folder / "grades" / "week1", folder / "class.csv", "causal_mask", wrong="Stranger")
    return folder, headway("grade", folder / "class.csv", "--course", folder / "course.toml", "--assignment", "week1")


def test_an_assignment_has_its_own_gradebook_and_rules(course):
    folder, ran = course
    assert ran.status == 0, ran.out
    rows = marks(folder / "grades" / "week1")
    assert {name: row["total"] for name, row in rows.items()} == {"Alpha One": "3.5", "Beta Two": "7", "Stranger": "0", "Gamma Three": "0"}
    assert "1 day late" in rows["Alpha One"]["late"] and not rows["Beta Two"]["late"]  # one submission, and an extension of one member
    assert "Note: not in the roster: Stranger\n" in ran.out
    assert "Note: no submission from 1 of the 3 people in the roster: Gamma Three\n" in ran.out
    asked = json.loads((folder / "grades" / "week1" / "asked.json").read_text(encoding="utf-8"))
    assert asked["assignment"] == "week1" and asked["course"] == str((folder / "course.toml").resolve())


@pytest.mark.thorough
def test_a_regrade_finds_the_assignment_again(course, tmp_path):
    shutil.copytree(course[0], tmp_path / "course")
    where = ("--course", tmp_path / "course" / "course.toml", "--assignment")
    asked = tmp_path / "course" / "grades" / "week1" / "asked.json"
    asked.write_text(asked.read_text(encoding="utf-8").replace(json.dumps(str(course[0]))[1:-1], json.dumps(str(tmp_path / "course"))[1:-1]), encoding="utf-8")
    ran = headway("regrade", "Beta Two", *where, "week1", "-j", 1)
    assert ran.status == 0 and "Alpha One, Beta Two submitted the same content" in ran.out and "3 people, 1 submission graded now" in ran.out, ran.out
    ran = headway("regrade", "Beta Two", *where, "week2")
    assert ran.status == 2 and "is not a folder that `headway grade` has written to" in ran.out


def test_fewer_exercises_in_the_same_folder_are_refused_with_the_way_out(tmp_path):
    hand_in(tmp_path / "class", "Alpha", "x = 1")
    out = tmp_path / "grades"
    store_verdicts(out, tmp_path / "class", "softmax", "causal_mask", "split_heads")

    def graded(*exercises):
        return headway("grade", tmp_path / "class", "--out", out, "--exercises", *exercises)

    assert graded("softmax,causal_mask", "--fewer").status == 0
    before = exports(out)
    ran = graded("causal_mask,split_heads")
    assert ran.status == 2 and exports(out) == before, ran.out
    for words in ("contains the grades of 2 exercises", "leaves out softmax,", f"--out {out}-2", "--exercises softmax,causal_mask,split_heads", "--fewer"):
        assert words in ran.out
    ran = graded("softmax,causal_mask,split_heads")
    assert ran.status == 0 and {"softmax", "causal_mask", "split_heads"} <= marks(out)["Alpha"].keys()
    assert graded("causal_mask", "--fewer").status == 0 and "softmax" not in marks(out)["Alpha"]
    assert graded("softmax,causal_mask").status == 0 and marks(out)["Alpha"]["softmax"] == "10"  # its result was kept


def test_contradicting_options_are_refused(course):
    folder, _ = course
    file = folder / "course.toml"
    wrong = {
        ("--course", file): "has several assignments; name one with --assignment: week1, week2",
        ("--course", file, "--assignment", "wek1"): "has no assignment wek1; did you mean week1?",
        ("--course", file, "--assignment", "week1", "--chapters", "ch01"): "--chapters does not go with an assignment",
        ("--course", folder / "none.toml", "--assignment", "week1"): "`headway course init`",
    }
    for options, sentence in wrong.items():
        ran = headway("grade", folder / "class.csv", *options)
        assert ran.status == 2 and sentence in ran.out and len(ran.out.splitlines()) == 1, ran.out


# ---- groups


PEOPLE = Roster((
    RosterPerson("Alpha One", group="G1"), RosterPerson("Beta Two", group="G1"), RosterPerson("Gamma Three", group="G2"), RosterPerson("Delta Four", group="G2"),
    RosterPerson("Eta Five"),
))  # fmt: skip


def named(*submissions, groups=True):
    found, notes = name_by_roster(submissions, PEOPLE, groups)
    assert len({one.slug for one in found}) == len(found)
    return {one.name: one.digest for one in found}, list(map(str, notes))


def test_a_groups_submission_counts_for_each_member():
    one, two = submission("one, alpha", "first"), submission("g2", "second")
    found, notes = named(one, two)
    assert found == {"Alpha One": one.digest, "Beta Two": one.digest, "Gamma Three": two.digest, "Delta Four": two.digest}
    assert notes == ["no submission from 1 of the 5 people in the roster: Eta Five"]
    found, notes = named(one, two, groups=False)
    assert found == {"Alpha One": one.digest, "g2": two.digest} and notes[0] == "not in the roster: g2"


def test_a_members_own_submission_is_never_replaced():
    own, groups = submission("Gamma Three", "own"), submission("G2", "of the group")
    assert named(own, groups)[0] == {"Gamma Three": own.digest, "Delta Four": groups.digest}


def test_of_different_submissions_in_a_group_the_others_get_the_newest_readable_one():
    roster = Roster(tuple(RosterPerson(name, group="G") for name in ("A", "B", "C", "D")))
    old, new = submission("A", "old"), submission("B", "new")
    new = type(new)(**vars(new) | {"submitted": old.submitted.replace(hour=20)})
    broken = type(new)(**vars(submission("C", problem="it is empty")) | {"submitted": old.submitted.replace(hour=22)})
    found, notes = name_by_roster([old, broken, new], roster, True)
    assert {one.name: one.digest for one in found}["D"] == new.digest
    assert any("different submissions in one group, from A, B, C; its other members get the newest one that can be graded" in str(note) for note in notes)


def test_the_id_in_a_file_name_decides_whose_submission_it_is():
    alpha = RosterPerson("Alpha One", canvas_id="11", email="a@example.edu")
    roster = Roster((alpha, RosterPerson("Beta Two", canvas_id="12", group="G"), RosterPerson("Chi", group="G")))
    people = [submission("twobeta", ids={"canvas_id": "12"}), submission("Alpha One", ids={"canvas_id": "99"}), submission("renamed", ids={"email": "a@example.edu"})]
    found, notes = name_by_roster(people, roster, True)
    assert {one.name: one.ids for one in found if one.name != "Alpha One"} == {"Beta Two": {"canvas_id": "12"}, "Chi": {}}
    assert sorted(str(one.ids) for one in found if one.name == "Alpha One") == ["{'canvas_id': '99'}", "{'email': 'a@example.edu'}"]
    assert "not in the roster: Alpha One" in map(str, notes)


def test_two_submissions_of_one_person_are_both_kept_and_reported():
    found, notes = named(submission("Alpha One", "a"), submission("One, Alpha", "b"), groups=False)
    assert set(found) == {"Alpha One", "One, Alpha"} and "several submissions of one person: Alpha One, One, Alpha; keep one of them" in notes


def test_the_autograder_keeps_each_member_of_a_gradescope_group(tmp_path):
    (tmp_path / "metadata.json").write_text('{"users": [{"name": "Alpha One"}, {"name": "Beta Two"}], "created_at": "2026-12-02T20:00:00+01:00"}')
    write_roster(tmp_path / "class.csv", tmp_path / "work", read_metadata(tmp_path / "metadata.json"))
    rows = (tmp_path / "class.csv").read_text(encoding="utf-8").splitlines()
    assert [row.partition(",")[0] for row in rows] == ["name", "Alpha One", "Beta Two"]


# ---- a gradebook that is read while a grader writes to it


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders are locked on Linux and macOS")
def test_a_gradebook_is_read_during_a_run(tmp_path):
    people = [submission("Alpha"), submission("Beta")]
    (tmp_path / "gradebook.sqlite").touch()  # as left by a grader that was killed at its start
    graded(tmp_path, people[:1])
    book, todo, _ = start_gradebook(tmp_path, people)
    with book:
        assert len(todo) == 1
        with Gradebook.read(tmp_path) as reader:
            found = {person.name: person.problem for person in reader.graded_class(Rules()).people}
            assert found.keys() == {"Alpha", "Beta"} and not found["Alpha"] and "has not been graded yet" in found["Beta"]
            assert reader.exercises_of_last_run() == [exercise.name for exercise in EXERCISES]
            with pytest.raises(GradebookProblem):
                reader.delete_verdicts(reader.find_person("Alpha").slug)
        assert count_graded(tmp_path) == 1
        with pytest.raises(GradebookProblem, match="is in use: another grader"):
            Gradebook(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["gradebook.sqlite"]


def test_feedback_on_hidden_exercises_names_no_test_and_no_hint_that_the_learner_has(tmp_path):
    """softmax is hidden, and with it what is built on it; causal_mask is not."""
    for name in ("Alpha", "Beta"):
        hand_in(tmp_path / "class", name, f"x = {name!r}")
    exercises = ["softmax", "causal_mask", "scaled_dot_product_attention"]
    assignment = f"[assignments.week3]\nexercises = {json.dumps(exercises)}\n"
    (tmp_path / "course.toml").write_text(f'{assignment}hidden = ["softmax"]\n', encoding="utf-8")
    out = tmp_path / "grades" / "week3"
    store_verdicts(out, tmp_path / "class", *exercises, wrong="Beta")
    grade = ("grade", tmp_path / "class", "--course", tmp_path / "course.toml")
    assert headway(*grade).status == 0
    files = exports(out)
    feedback = files["feedback/Beta.md"].decode()
    parts = {part.split("`")[1]: part for part in feedback.split("\n## ")[1:]}
    for name in ("softmax", "scaled_dot_product_attention"):
        assert "Only your instructor has the tests of this exercise" in parts[name] and "headway" not in parts[name], parts[name]
    assert "headway hint causal_mask" in parts["causal_mask"]
    assert "tests your code in the other exercises with the same examples" in feedback
    results = {test["name"]: test["output"] for test in json.loads(files["gradescope/Beta.json"])["tests"]}
    assert "headway" not in results["softmax"] and "headway hint" in results["causal_mask"]
    (tmp_path / "course.toml").write_text(f"{assignment}hidden = {json.dumps(exercises)}\n", encoding="utf-8")
    assert headway(*grade).status == 0 and "the same examples" not in exports(out)["feedback/Beta.md"].decode()
    (tmp_path / "course.toml").write_text(assignment, encoding="utf-8")
    assert headway(*grade).status == 0
    assert "`python -m pytest` tests your code with the same examples" in exports(out)["feedback/Beta.md"].decode()
