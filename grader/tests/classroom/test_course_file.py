"""course.toml: everything in it is read exactly, and what does not fit is reported with its line and a suggestion."""

from datetime import datetime, timedelta
from decimal import Decimal
from textwrap import dedent

import pytest
from grade_command import headway
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.term import course_file as module
from grader.classroom.term.course_file import check_course_file, read_course_file
from grader.classroom.term.course_values import find_line

ROSTER = "name,email,login,group\nAlpha One,alpha@example.edu,aone,G1\nBeta Two,beta@example.edu,btwo,\n"
COURSE = """\
title = "A term"
roster = "roster.csv"

[late]
grace = "15m"
per_day = 10

[points]
softmax = 20

[assignments.week1]
exercises = ["causal_mask", "softmax"]
weight = 40
due = 2026-12-01T23:59:00+01:00
last = 3

[assignments.week2]
chapters = ["ch05"]
hidden = ["LayerNorm"]
weight = 40
groups = true
per_day = 0

[extensions.week1]
"alpha@example.edu" = 2026-12-03T23:59:00+01:00

[[drops]]
assignments = ["week1", "week2"]
best = 1
"""


def course(tmp_path, text=COURSE, roster=ROSTER):
    (tmp_path / "roster.csv").write_text(roster, encoding="utf-8")
    (tmp_path / "course.toml").write_text(text, encoding="utf-8")
    return tmp_path / "course.toml"


def test_a_course_is_read(tmp_path):
    found = read_course_file(course(tmp_path))
    one, two = found.assignments
    assert found.title == "A term" and [person.name for person in found.roster.people] == ["Alpha One", "Beta Two"]
    assert [exercise.name for exercise in one.exercises] == ["softmax", "causal_mask"] and one.title == "week1" and not one.groups
    assert (one.weight, one.rules.per_day, one.rules.grace, one.rules.last) == (Decimal(40), Decimal(10), timedelta(minutes=15), 3)
    assert one.rules.points_of(one.exercises[0]) == 20
    assert {exercise.chapter for exercise in two.exercises} == {"ch05"} and two.hidden == ("LayerNorm",) and two.groups
    assert (two.rules.per_day, two.rules.last, two.rules.due, two.rules.extensions) == (Decimal(0), None, None, {})
    assert found.drops[0].best == 1 and found.folder("week1") == tmp_path / "grades" / "week1"


def test_an_extension_by_any_id_counts_for_the_name_in_the_roster(tmp_path):
    rules = read_course_file(course(tmp_path)).assignments[0].rules
    late = datetime.fromisoformat("2026-12-03T20:00:00+01:00")
    assert [rules.compute_lateness(Submission(name, {}, submitted=late)).days for name in ("Alpha One", "Beta Two")] == [0, 2]


def test_the_example_in_the_modules_docstring_is_valid(tmp_path):
    example = dedent(module.__doc__.partition("\n")[2]).replace('["week1", "week2", "week3"]\nbest = 2', '["week3"]\nbest = 1')
    found = read_course_file(course(tmp_path, example, "name,group\nAlpha One,G1\n"))
    assert found.assignments[0].rules.extensions.keys() == {"Alpha One"} and found.assignments[0].groups


def test_a_roster_may_be_in_the_file(tmp_path):
    text = COURSE.replace('"roster.csv"', '[{ name = "Alpha One", email = "alpha@example.edu", group = "G" }, { name = "Beta Two" }]')
    assert [person.name for person in read_course_file(course(tmp_path, text)).roster.people] == ["Alpha One", "Beta Two"]


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("[points]", "[point]", 8, "point: this key is unknown; did you mean points?"),
        ("softmax = 20", "sofmax = 20", 8, "[points] sofmax: there is no exercise or chapter called 'sofmax'; did you mean softmax?"),
        ("per_day = 10", "per_dya = 10", 6, "[late] per_dya: this key is unknown; did you mean per_day?"),
        ('grace = "15m"', "grace = 15", 5, "[late] grace: 15 is not a duration"),
        ("[assignments.week1]", "[assignments.'week 1']", 11, "'week 1' is also the name of a folder"),
        ('"causal_mask", "softmax"', '"causal_mask", "softmxa"', 12, "[assignments.week1] exercises: there is no exercise called 'softmxa'; did you mean softmax?"),
        ('["ch05"]', '["ch55"]', 18, "[assignments.week2] chapters: there is no chapter called 'ch55'"),
        ('["ch05"]', '"ch05"', 18, "[assignments.week2] chapters: 'ch05' is not a list of names"),
        ('chapters = ["ch05"]', 'chapter = ["ch05"]', 18, "[assignments.week2] chapter: this key is unknown; did you mean chapters?"),
        ('"LayerNorm"', '"LayerNrom"', 19, "[assignments.week2] hidden: 'LayerNrom' is not an exercise of this assignment; did you mean LayerNorm?"),
        ("weight = 40\ngroups", "weight = 'x'\ngroups", 20, "[assignments.week2] weight: 'x' is not a weight"),
        ("groups = true", "groups = 1", 21, "[assignments.week2] groups: 1 is not true or false"),
        ("due = 2026-12-01T23:59:00+01:00", "due = 2026-12-01", 14, "[assignments.week1] due: 2026-12-01 is not a time"),
        ("last = 3", "last = -3", 15, "[assignments.week1] last: -3 is not a whole number of days"),
        ("[extensions.week1]", "[extensions.wek1]", 24, "[extensions.wek1]: there is no assignment of this name; did you mean week1?"),
        ("alpha@example.edu", "Alpha Oen", 25, "'Alpha Oen': the roster has no person of this name, e-mail, login or number; did you mean \"Alpha One\""),
        ("alpha@example.edu", "G1", 25, "[extensions.week1] 'G1': this is a group; an extension is for a person, so write a line for each member"),
        ('"alpha@example.edu" = ', '"ALPHA ONE" = 2026-12-04T23:59:00+01:00\n"aone" = ', 26,
         "[extensions.week1] 'aone': this is the same person as 'ALPHA ONE' in line 25; keep one of the two lines"),
        ('"week1", "week2"', '"week1", "week1"', 28, "[[drops]] assignments: week1 is there twice; name it once"),
        ('chapters = ["ch05"]', "chapters = []", 18, "[assignments.week2] names no exercises"),
        ('exercises = ["causal_mask", "softmax"]', 'exercises = ["softmax"]\npoints = 3', 13, "points: this key is unknown; the keys are title, chapters"),
        ("softmax = 20", "ch05 = 0", 17, "[assignments.week2] its exercises are worth 0 points, so everybody would earn 0 %"),
        ("[assignments.week2]", "[assignments.week1]", 17, "the table [assignments.week1] is there twice; put its keys into one table"),
        ("title = ", "title = 1\ntitle = ", 2, "this key or table has a value already; keep one of the two"),
        ('"A term"', '"A term', 1, "a text is not closed with a quote"),
        ("2026-12-03", "2026-11-03", 25, "[extensions.week1] 'alpha@example.edu': 2026-11-03 23:59+01:00 is before the general due date"),
        ("[extensions.week1]", "[extensions.week2]", 25, "[assignments.week2] has no due date to extend; add due"),
        ('"week1", "week2"', '"week1", "week3"', 28, "[[drops]] assignments: there is no assignment 'week3'; did you mean week"),
        ("best = 1", "best = 3", 29, "[[drops]] best: 3 is not a number from 1 to 2"),
        ("weight = 40\ndue", "weight = 30\ndue", 28, "[[drops]] assignments: their weights differ"),
        ('"roster.csv"', '"rooster.csv"', 2, "rooster.csv cannot be read: no such file or directory"),
        ('"roster.csv"', "3", 2, "roster: 3 is not the name of a file, or a list of people"),
        ('"A term"', "7", 1, "title: 7 is not a text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported_with_its_line(tmp_path, old, new, line, sentence):
    assert old in COURSE
    found, problems = check_course_file(course(tmp_path, COURSE.replace(old, new, 1)))
    assert found is None
    assert any(problem.startswith(f"course.toml, line {line}: ") and sentence in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"roster.csv"', '"rooster.csv"'),
        ("roster = ", "rooster = "),
        ("weight = 40\ndue", "wieght = 40\ndue"),
        ("due = ", "deu = "),
        ('chapters = ["ch05"]', 'chapter = ["ch05"]'),
        ('["ch05"]', '["ch55"]'),
        ("best = 1", "bets = 1"),
        ("[assignments.week1]", "[assignment.week1]"),
        ("[extensions.week1]", "[extension.week1]"),
    ],
)
def test_one_mistake_gives_one_sentence(tmp_path, old, new):
    found, problems = check_course_file(course(tmp_path, COURSE.replace(old, new, 1)))
    assert found is None and len(problems) == 1, problems


def test_weights_of_zero_everywhere_are_refused(tmp_path):
    _, problems = check_course_file(course(tmp_path, COURSE.replace("weight = 40", "weight = 0")))
    assert problems == ["course.toml, line 11: the weight of every assignment is 0, so there is no total; give one of them another weight"]


def test_an_extension_for_a_name_of_two_people_says_what_to_write(tmp_path):
    roster = "name,login,group\nWei Li,wli1,G1\nWei Li,wli2,\n"
    _, problems = check_course_file(course(tmp_path, COURSE.replace("alpha@example.edu", "Wei Li"), roster))
    assert problems == ["course.toml, line 25: [extensions.week1] 'Wei Li': 2 people are called Wei Li; write \"Wei Li (wli1)\" (group G1) or \"Wei Li (wli2)\""]


def test_everything_that_does_not_fit_is_listed_at_once_in_the_order_of_the_file(tmp_path):
    path = course(tmp_path, COURSE.replace("per_day = 10", "per_dya = 10").replace("best = 1", "best = 9").replace("softmax = 20", "softmax = -1"))
    _, problems = check_course_file(path)
    assert [problem.partition(":")[0] for problem in problems] == ["course.toml, line 6", "course.toml, line 8", "course.toml, line 29"]
    with pytest.raises(GradingProblem, match=r"per_dya.* \(2 more: `headway course check` lists them\)"):
        read_course_file(path)


def test_a_line_is_found_in_each_form_of_toml():
    text = 'a.b = 1\n[x . "y z"]\n"k.l" = [\n  "[z]",\n]\nm = 2\n[[t]]\nn = 1\n[[t]]\nn = 2\n[t.u]\nv = 3\n'
    places = {("a", "b"): 1, ("x", "y z", "k.l"): 3, ("x", "y z", "m"): 6, ("t", 0, "n"): 8, ("t", 1, "n"): 10, ("x", "y z", "gone"): 2, ("gone",): 1}
    assert {path: find_line(text, path) for path in places} == places


def test_init_writes_a_course_that_check_accepts(tmp_path):
    (tmp_path / "canvas.csv").write_text('Student,ID,SIS Login ID,Section\n"One, Alpha",11,aone,S1\n', encoding="utf-8")
    ran = headway("course", "init", tmp_path / "canvas.csv", "--into", tmp_path, "--title", 'A "term"')
    assert ran.status == 0 and "roster.csv has 1 person" in " ".join(ran.out.split()), ran.out
    before = (tmp_path / "course.toml").read_bytes()
    ran = headway("course", "check", tmp_path / "course.toml")
    assert ran.status == 0 and 'A "term": 1 person in the roster.' in ran.out and "week1: " in ran.out, ran.out
    ran = headway("course", "init", "--into", tmp_path)
    assert ran.status == 2 and "exists already, and was not changed" in " ".join(ran.out.split()) and (tmp_path / "course.toml").read_bytes() == before
    (tmp_path / "course.toml").write_text("[late]\nper_day = 300\n", encoding="utf-8")
    ran = headway("course", "check", tmp_path)
    assert ran.status == 1 and "line 2: [late] per_day: 300 is not a percentage from 0 to 100" in ran.out, ran.out
    (tmp_path / "course.toml").write_text("[late]\n[late]\n", encoding="utf-8")
    ran = headway("course", "check", tmp_path)
    assert ran.status == 1 and "line 2: the table [late] is there twice" in ran.out, ran.out
    ran = headway("course", "check", tmp_path / "nowhere.toml")
    assert ran.status == 2 and "name one with `headway course check FILE`, or write one with `headway course init`" in ran.out


def test_columns_in_another_language_are_named_and_unused_ones_are_mentioned(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("ID,Vollständiger Name,Adresse,gruop\nTeilnehmer/in501,Alpha One,alpha@example.edu,G1\n", encoding="utf-8")
    ran = headway("course", "init", table, "--into", tmp_path)
    assert ran.status == 2 and "the columns are ID, Vollständiger Name, Adresse, gruop" in ran.out and '--column name="TITLE"' in ran.out
    columns = ("--column", "name=vollständiger name", "--column", "email=Adresse", "--column", "moodle_id=ID")
    ran = headway("course", "init", table, "--into", tmp_path, *columns)
    assert ran.status == 0 and "people.csv has columns that were not used: gruop (did you mean group?)." in " ".join(ran.out.split()), ran.out
    written = (tmp_path / "roster.csv").read_text(encoding="utf-8")
    assert written.splitlines()[1] == "Alpha One,alpha@example.edu,,,,501,,"
    (tmp_path / "roster.csv").write_text(written.replace("number", "Matrikelnummer"), encoding="utf-8")
    ran = headway("course", "check", tmp_path)
    assert ran.status == 0 and "the roster has columns that are not used: Matrikelnummer." in " ".join(ran.out.split()), ran.out
    wrong = {"nam=X": "did you mean name?", "name": "write one of name, email", "name=Name": "has no column Name; its columns are ID"}
    for word, sentence in wrong.items():
        ran = headway("course", "init", table, "--into", tmp_path / "new", "--column", word)
        assert ran.status == 2 and sentence in ran.out, ran.out
