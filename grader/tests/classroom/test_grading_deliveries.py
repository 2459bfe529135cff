"""Several deliveries in one gradebook: `headway grade --add`, what a run refuses to leave out, and the stored options."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from example_class import IN_TIME, submission
from grade_command import exports, hand_in, headway, marks, store_verdicts
from grader.classroom.grading_options import GradingOptions, read_options, store_options
from grader.classroom.term import deliveries
from grader.classroom.term.deliveries import NameNote, find_owner, read_deliveries, without_common_start
from grader.classroom.term.roster import NO_ROSTER, Roster, RosterPerson

ROSTER = "name,login\nAlpha One,aone\nBeta Two,btwo\nGamma Three,\nDelta Four,\n"
COURSE = """\
roster = "roster.csv"
[assignments.week1]
exercises = ["softmax"]
"""


@pytest.fixture
def course(tmp_path):
    """A course with a graded delivery of two people, and a later one: Gamma, and a better submission of Beta."""
    folder = tmp_path / "course"
    hand_in(folder / "first", "Alpha One", "x = 1")
    hand_in(folder / "first", "Beta Two", "x = 2")
    hand_in(folder / "late", "Gamma Three", "x = 1")
    hand_in(folder / "late", "btwo", "x = 1")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    (folder / "roster.csv").write_text(ROSTER, encoding="utf-8")
    store_verdicts(grades(folder), folder / "first", "softmax", wrong="Beta Two")
    assert run(folder, "grade", folder / "first").status == 0
    return folder


def run(folder, *arguments):
    return headway(*arguments, "--course", folder / "course.toml", "--assignment", "week1")


def grades(folder):
    return folder / "grades" / "week1"


def totals(folder):
    return {name: row["total"] for name, row in marks(grades(folder)).items()}


def test_a_run_that_would_leave_out_graded_people_is_refused_with_the_ways_out(course):
    before = exports(grades(course)), (grades(course) / "asked.json").read_bytes()
    ran = run(course, "grade", course / "late")
    assert ran.status == 2 and len(ran.out.splitlines()) == 1, ran.out
    for words in ("has the grades of 2 people", "leave out 1 of them, who are not in late: Alpha One", "--add to grade late in addition", "--fewer to leave them out"):
        assert words in ran.out
    assert (exports(grades(course)), (grades(course) / "asked.json").read_bytes()) == before


def test_later_submissions_are_added_and_the_same_commands_give_the_same_files(course):
    earlier = totals(course)["Beta Two"]
    ran = run(course, "grade", course / "late", "--add")
    assert ran.status == 0 and "3 people, 0 submissions graded now" in ran.out, ran.out
    assert "Note: of several submissions one counts, and a note says why; this is so for Beta Two\n" in ran.out
    assert totals(course) == {"Alpha One": "10", "Beta Two": "10", "Gamma Three": "10", "Delta Four": "0"}
    assert "there are submissions in several folders; this one counts, because it was added later" in marks(grades(course))["Beta Two"]["notes"]
    before = exports(grades(course))
    ran = run(course, "grade", course / "late", "--add")
    assert ran.status == 0 and exports(grades(course)) == before, ran.out
    ran = run(course, "grade", course / "first")
    assert ran.status == 2 and "also has the grades of late, and this run would replace them; add --add to keep them" in ran.out
    assert exports(grades(course)) == before
    (course / "late").rename(course / "moved")
    ran = run(course, "grade", course / "first", "--add")
    assert ran.status == 2 and "late does not exist any more, so this run would leave out what is in there; put it back" in ran.out, ran.out
    ran = run(course, "grade", course / "first", "--fewer")
    assert ran.status == 0 and "in the last run and not in this one: Gamma Three" in ran.out and totals(course)["Beta Two"] == earlier != "10"


@pytest.mark.thorough
def test_a_run_says_in_which_options_it_differs_and_regrade_ends_by_this_person(course):
    hand_in(course / "first", "Delta Four", "def softmax(")
    ran = run(course, "grade", course / "first", "--seed", 3, "-j", 1)
    assert ran.status == 0 and f"Note: --seed differs from the last run into {grades(course)}" in " ".join(ran.out.split()), ran.out
    before = exports(grades(course))
    assert run(course, "regrade", "Alpha One", "-j", 1).status == 0 and exports(grades(course)) == before
    ran = run(course, "regrade", "Gamma Three")
    assert ran.status == 2 and "Gamma Three has no submission in" in ran.out and "--add" in ran.out


# ---- the parts


def reading(monkeypatch, roster=NO_ROSTER, **folders):
    """The submissions of these folders, and the notes; `folders` has the submissions of each."""
    notes = []
    monkeypatch.setattr(deliveries, "read_in_subprocess", lambda path, add_note, **_: folders[path.name])
    found = read_deliveries([Path(name) for name in folders], roster, notes.append)
    return {one.name: one for one in found}, list(map(str, notes))


@pytest.mark.parametrize(
    ("old", "new", "counts", "why"),
    [
        ({}, {"submitted": IN_TIME + timedelta(hours=1)}, "new", "because it is newer"),
        ({"submitted": IN_TIME + timedelta(hours=1)}, {}, "old", "because it is newer"),
        ({}, {}, "new", "because it was added later"),
        ({}, {"problem": "the archive is damaged", "submitted": datetime(2027, 1, 1, tzinfo=UTC)}, "old", "because the other one cannot be graded"),
        ({"problem": "the archive is damaged"}, {"submitted": datetime(2020, 1, 1, tzinfo=UTC)}, "new", "because the other one cannot be graded"),
    ],
)  # fmt: skip
def test_of_two_deliveries_the_newer_submission_counts(monkeypatch, old, new, counts, why):
    found, notes = reading(monkeypatch, first=[submission("Alpha", "old", **old)], second=[submission("Alpha", "new", **new)])
    assert found["Alpha"].digest == submission("Alpha", counts).digest and why in found["Alpha"].notes[-1]
    assert notes == ["of several submissions one counts, and a note says why; this is so for Alpha"]


def test_equal_submissions_need_no_note_and_the_first_one_keeps_its_time(monkeypatch):
    found, notes = reading(monkeypatch, first=[submission("Alpha", "same")], second=[submission("Alpha", "same", submitted=IN_TIME + timedelta(days=9))])
    assert found["Alpha"].submitted == IN_TIME and not found["Alpha"].notes and not notes


def test_one_person_is_found_under_another_name_in_the_second_delivery(monkeypatch):
    roster = Roster((RosterPerson("Alpha One", login="aone"),))
    first, second = submission("Alpha One", "old"), submission("aone", "new", submitted=IN_TIME + timedelta(days=1))
    found, notes = reading(monkeypatch, roster, first=[first], second=[second])
    assert notes == ["of several submissions one counts, and a note says why; this is so for Alpha One"]
    assert [one.digest for one in found.values()] == [second.digest]


def test_capitals_in_an_address_make_no_other_person():
    alpha = RosterPerson("Alpha One", email="alpha@example.edu", login="aone")
    roster = Roster((alpha, RosterPerson("Beta Two", email="beta@example.edu", login="btwo")))
    for name, ids in (("Al", {"email": "Alpha@Example.edu"}), ("Alpha One", {"login": "AOne"})):
        assert find_owner(submission(name, "new", ids=ids), roster) is alpha


def test_people_of_one_name_and_different_ids_stay_two_people(monkeypatch):
    roster = Roster(tuple(RosterPerson("Wei Li", canvas_id=number) for number in "12"))
    both = {f"folder{number}": [submission(f"wei li {number}", number, ids={"canvas_id": number})] for number in "12"}
    assert len(reading(monkeypatch, roster, **both)[0]) == 2


def test_options_are_stored_and_read_again(tmp_path):
    options = GradingOptions(("first", "second"), exercises=("softmax",), seed=4, key="key.csv")
    store_options(options, tmp_path)
    assert read_options(tmp_path) == options
    given = GradingOptions(chapters=("ch03",))
    changed = options.changed_by(given, None)
    assert (changed.chapters, changed.exercises, changed.seed, changed.key) == (("ch03",), (), 4, "key.csv")
    assert changed.differences(options) == ["--chapters", "--exercises"] and options.changed_by(given, 0).seed == 0


def test_options_that_are_damaged_or_of_another_version_are_one_sentence(course):
    file = grades(course) / "asked.json"
    other = json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"copies": "newest"})
    damaged, age = "asked.json is damaged; delete it", "asked.json was written by another version of Headway; to grade everything again, choose another folder with --out"
    for stored, sentence in (("[", damaged), ("[]", damaged), ('{"seed": "four", "copies": "newest"}', damaged), (other, age)):
        file.write_text(stored, encoding="utf-8")
        for command in (("regrade", "Alpha One"), ("grade", course / "first")):
            ran = run(course, *command)
            assert ran.status == 2 and sentence in ran.out and len(ran.out.splitlines()) == 1, ran.out


def test_a_list_of_people_is_sorted_by_its_pseudonyms_before_it_is_cut_off():
    note = NameNote("missing: ", tuple(f"Person {number:02}" for number in range(12)))
    assert str(note).endswith("Person 09, and 2 more")
    assert str(note.rename(lambda name: f"Learner {99 - int(name[-2:])}")).startswith("missing: Learner 88, Learner 89, ")


# GitHub Classroom's names: ASSIGNMENT-LOGIN


PEOPLE = (RosterPerson("Ada", login="ada"), RosterPerson("Xenia", login="x-ada"), RosterPerson("Da", login="DA"), RosterPerson("Marie", login="marie"))


def renamed(*names, people=PEOPLE):
    roster, said = Roster(people), []
    found = without_common_start([submission(name) for name in names], roster, said.append)
    owners = [find_owner(one, roster) for one in found]
    return [owner.name if owner else one.name for one, owner in zip(found, owners)], len(said)


@pytest.mark.parametrize(
    "names, people",
    [
        (["week3-ada", "week3-x-ada", "week3-da", "week3-zoe"], ["Ada", "Xenia", "Da", "week3-zoe"]),
        (["Week3-ADA", "week3-Da"], ["Ada", "Da"]),
        (["week-3-x-ada", "week-3-ada"], ["Xenia", "Ada"]),
        (["a-x-ada", "a-x-x-ada", "a-x-da", "a-x-marie"], ["Ada", "Xenia", "Da", "Marie"]),  # the assignment is called a-x
        (["week3-ada"], ["Ada"]),
        (["week3-x-ada"], ["week3-x-ada"]),  # ada or x-ada: nothing says which
        (["week3-hada", "week3-marie"], ["week3-hada", "Marie"]),
        (["ada", "da", "ada-marie"], ["Ada", "Da", "ada-marie"]),  # somebody else
    ],
)
def test_a_login_at_the_end_of_most_names_is_found(names, people):
    found, notes = renamed(*names)
    assert found == people and notes == (found != names and not names[0] == "ada")


def test_a_group_at_the_end_of_the_names_is_found():
    roster = Roster((RosterPerson("Ada", login="ada", group="Team One"), RosterPerson("Beta", login="beta", group="two")))
    found = without_common_start([submission("week3-team-one"), submission("week3-two")], roster, print)
    assert [one.name for one in found] == ["Team One", "two"]


def test_folders_of_github_classroom_are_graded_for_the_people_of_the_roster(tmp_path):
    (tmp_path / "roster.csv").write_text("name,login\nAda One,ada\nXenia Two,x-ada\nBeta Three,Beta\n", encoding="utf-8")
    (tmp_path / "course.toml").write_text(COURSE, encoding="utf-8")
    for name in ("week1-ada", "week1-x-ada", "week1-beta"):
        hand_in(tmp_path / "week1-submissions", name, f"x = {name!r}")
    store_verdicts(grades(tmp_path), tmp_path / "week1-submissions", "softmax", wrong="week1-x-ada")
    ran = run(tmp_path, "grade", tmp_path / "week1-submissions", "--fewer")  # the stored verdicts are those of people without a roster
    assert ran.status == 0 and "not in the roster" not in ran.out and "no submission from" not in ran.out, ran.out
    assert totals(tmp_path) == {"Ada One": "10", "Beta Three": "10", "Xenia Two": "0"}
