"""The roster: it reads the tables that learning platforms export, and finds a person by any name or id."""

import pytest
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.term.roster import Roster, RosterPerson, read_people, write_people

ALPHA = RosterPerson("Alpha One", "alpha@example.edu", "aone", "s1", "11", "501", "S1", "G1")
BETA = RosterPerson("Beta Two", "beta@example.edu", "btwo", "s2", "12", "502", "S1", "G1")
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,"Week 1 (123)"
    Points Possible,,,,,10
"One, Alpha",11,s1,aone,S1,7
"Two, Beta",12,s2,btwo,S1,
"Student, Test",99,,x,S1,
"""
CANVAS_WITH_TWO_NAMES = """LastName,FirstName,ID,SIS User ID,SIS Login ID,Section,"Week 1 (123)"
,,,,,,Manual Posting
One,Alpha,11,s1,aone,S1,7
Two,Beta,12,s2,btwo,S1,
"""
MOODLE = """Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Feedback comments"
"Participant 501","Alpha One",alpha@example.edu,Submitted,,10.00,
"Participant 502","Beta Two",beta@example.edu,"No submission",,10.00,
"""
PARTICIPANTS = "First name;Last name;ID number;Email address;Groups\nAlpha;One;s1;alpha@example.edu;G1\nBeta;Two;s2;beta@example.edu;G1\n"
GROUPS = "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id\nAlpha One,11,s1,aone,S1,G1,7\nBeta Two,12,s2,btwo,S1,G1,7\n"
GRADESCOPE = """First Name,Last Name,SID,Email,Role,Section
Alpha,One,s1,alpha@example.edu,Student,S1
Beta,Two,s2,beta@example.edu,Student,S1
Gamma,Three,,gamma@example.edu,Instructor,
"""


def people(tmp_path, text, name="people.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    return read_people(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (CANVAS, ("canvas_id", "number", "login", "section")),
        (CANVAS_WITH_TWO_NAMES, ("canvas_id", "number", "login", "section")),
        (MOODLE, ("moodle_id", "email")),
        (PARTICIPANTS, ("number", "email", "group")),
        (GRADESCOPE, ("number", "email", "section")),
        (GROUPS, ("canvas_id", "number", "login", "section", "group")),
        ("name,email\nAlpha One,alpha@example.edu\nBeta Two,beta@example.edu\n", ("email",)),
    ],
    ids=["Canvas", "Canvas with two names", "Moodle", "Moodle participants", "Gradescope", "Canvas groups", "plain"],
)
def test_an_export_gives_the_people_with_their_ids(tmp_path, text, fields):
    found = people(tmp_path, text).people
    assert found == tuple(RosterPerson(one.name, **{field: getattr(one, field) for field in fields}) for one in (ALPHA, BETA))


def test_a_written_roster_is_read_back(tmp_path):
    assert people(tmp_path, write_people([ALPHA, BETA])).people == (ALPHA, BETA)


def test_a_person_is_found_by_each_name_and_id():
    roster = Roster((ALPHA, BETA))
    for text in ("Alpha One", "alpha  one", "One, Alpha", "onealpha", "alphaone", "ALPHA@example.edu", "aone", "s1", "11", "501"):
        assert roster.find(text) == ALPHA, text
    for text in ("Alpha", "Gamma", "", "S9", "G1"):
        assert roster.find(text) is None, text
    assert roster.group("g1") == (ALPHA, BETA) and roster.group("") == ()


def test_an_ambiguous_name_finds_nobody():
    roster = Roster((ALPHA, RosterPerson("One, Alpha", login="other")))
    assert roster.find("Alpha One") is None and roster.find("other").login == "other"


def test_two_people_with_one_name_get_different_names(tmp_path):
    found = people(tmp_path, "name,login,moodle_id\nAlpha One,a1,501\nAlpha One,a2,502\nBeta Two,b,\n")
    assert [one.name for one in found.people] == ["Alpha One (a1)", "Alpha One (a2)", "Beta Two"]
    assert found.find("Alpha One") is None and found.find("a2") == found.people[1]
    assert found.find("Alpha One (a2)") == found.people[1] and found.find("Beta Two (a2)") is None and found.find("Alpha One (b)") is None
    assert [found.find(f"Alpha One ({number})") for number in (501, 502, 503)] == [*found.people[:2], None]  # as in the names of submissions


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "people.csv is empty; its first line names the columns"),
        ("names,login\nAlpha,a\n", "people.csv, line 1: no column has the names of the people"),
        ("name,login\n", "people.csv has a header but no people"),
        ("name,login\nAlpha,a\n,b\n", "people.csv, line 3: the name is missing"),
        ("name,login\nAlpha,a\nBeta,A\n", "people.csv, line 3: the login A is also in line 2; each person has one of their own"),
        ("name\nAlpha\nalpha\n", "people.csv, line 2: two people are called Alpha; give each an email, a login or a number"),
        ('name\n"Alpha\n', "this is not CSV"),
    ],
)
def test_an_invalid_roster_is_refused_with_its_line(tmp_path, text, sentence):
    with pytest.raises(GradingProblem) as refused:
        people(tmp_path, text)
    assert sentence in str(refused.value)
