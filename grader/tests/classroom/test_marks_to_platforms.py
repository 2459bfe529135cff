"""`headway export`: the marks go into the tables that Canvas, Moodle and Gradescope exported, and nothing else in these tables changes."""

import csv
import io
import zipfile

import pytest
from example_class import submission
from grade_command import headway
from platform_tables import CANVAS, COURSE, GRADESCOPE, MOODLE, grade, make_course, write


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return make_course(tmp_path_factory.mktemp("course"))


def export(folder, *arguments, course=True):
    """The exit status and what was printed."""
    where = ("--course", folder / "course.toml", "--assignment", "week3") if course else ()
    ran = headway("export", *arguments, *where)
    return ran.status, ran.out


def refused(folder, *arguments, course=True):
    """The one sentence of a refusal, without the name of the program."""
    status, said = export(folder, *arguments, course=course)
    assert status == 2 and len(said.splitlines()) == 1, said
    return said


def parse(text):
    return list(csv.reader(io.StringIO(text)))


def rows(path):
    return parse(path.read_text(encoding="utf-8-sig"))


# ---- Canvas


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["without a byte order mark", "with one"])
def test_in_a_canvas_gradebook_only_the_cells_of_the_assignment_change(course, tmp_path, mark):
    file = write(tmp_path / "canvas.csv", mark + CANVAS)
    status, said = export(course, "canvas", file)
    assert status == 1, said  # Stranger is in no row
    wanted = CANVAS.replace(',4.00,,80.00', ',4.00,10,80.00').replace('S1,,3.00,,', 'S1,,8,,')
    assert (tmp_path / "canvas-graded.csv").read_bytes().decode() == mark + wanted
    assert file.read_bytes().decode() == mark + CANVAS
    assert "2 grades written into the column Attention (8002), 0 the same as before." in said
    assert "Grades that differ from those in the file (1): Beta Two: 3.00, now 8\n" in said
    assert "In the file, but without a submission (1): Gamma Three\n" in said and "Test" not in said
    assert "Graded, but not found in the file (1): Stranger\n" in said


def test_what_was_written_is_the_same_as_before_when_it_is_exported_again(course, tmp_path):
    for platform, text in {"canvas": CANVAS, "moodle": MOODLE, "gradescope": GRADESCOPE}.items():
        first = tmp_path / f"{platform}.csv"
        assert export(course, platform, write(first, text))[0] == 1
        again = first.with_name(f"{platform}-graded.csv")
        _, said = export(course, platform, again, "--to", tmp_path / f"{platform}-2.csv")
        assert "0 grades written" in said and "2 the same as before" in said, said
        assert (tmp_path / f"{platform}-2.csv").read_bytes() == again.read_bytes()
    wanted = GRADESCOPE.replace("S1,,10.0", "S1,10,10.0").replace("S1,3.0,10.0", "S1,8,10.0")
    assert rows(tmp_path / "gradescope-graded.csv") == parse(wanted)


def test_a_canvas_gradebook_with_semicolons_keeps_its_decimal_comma(tmp_path):
    folder = make_course(tmp_path, course=COURSE.replace("softmax = 8", "softmax = 7.5").replace("causal_mask = 2", "causal_mask = 2.5"))
    text = CANVAS.replace(",", ";").replace('"One; Alpha"', '"One, Alpha"').replace('"Two; Beta"', '"Two, Beta"').replace(".00", ",00")
    assert export(folder, "canvas", write(tmp_path / "canvas.csv", text))[0] == 1
    wanted = text.replace(";4,00;;80,00", ";4,00;10;80,00").replace("S1;;3,00;;", "S1;;7,5;;")
    assert (tmp_path / "canvas-graded.csv").read_text(encoding="utf-8").replace('"', "") == wanted.replace("\r", "").replace('"', "")


def test_words_and_equal_grades_stay_and_missing_people_get_zeros(course, tmp_path):
    """Excused, not assigned, and 8.00 for 8."""
    text = CANVAS.replace("S1,,3.00,,", "S1,,EX,,").replace(",4.00,,80.00", ",4.00,N/A,80.00")
    _, said = export(course, "canvas", write(tmp_path / "canvas.csv", text))
    assert (tmp_path / "canvas-graded.csv").read_bytes().decode() == text
    assert "Not changed in the file (2): Alpha One: N/A; Beta Two: EX" in said
    _, said = export(course, "canvas", write(tmp_path / "canvas.csv", CANVAS.replace("S1,,3.00,,", "S1,,8.00,,")), "--zeros", "--force")
    assert [row[6] for row in rows(tmp_path / "canvas-graded.csv")[3:]] == ["10", "8.00", "0", ""]
    assert "2 grades written" in said and "1 the same as before" in said and "differ" not in said


def test_two_assignments_with_one_title_are_distinguished_by_their_number(course, tmp_path):
    file = write(tmp_path / "canvas.csv", CANVAS.replace("Intro, part 1 (8001)", "Attention (8001)").replace("5.00,10.00", "10.00,10.00"))
    assert "several assignments week3 or Attention; its assignments are: Attention (8001), Attention (8002)" in refused(course, "canvas", file)
    assert export(course, "canvas", file, "--column", "8001")[0] == 1
    assert rows(tmp_path / "canvas-graded.csv")[3][5] == "10"


# ---- Moodle


def test_in_a_moodle_worksheet_only_grades_change(course, tmp_path):
    file = write(tmp_path / "moodle.csv", MOODLE)
    status, said = export(course, "moodle", file)
    lines = MOODLE.splitlines(keepends=True)
    lines[1] = lines[1].replace(",,10.00", ",10,10.00")
    lines[2] = lines[2].replace(",3.00,10.00", ",8,10.00")
    assert status == 1 and rows(tmp_path / "moodle-graded.csv") == parse("".join(lines))
    with zipfile.ZipFile(tmp_path / "moodle-graded-feedback.zip") as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    assert found.keys() == {f"{name}_assignsubmission_file_/feedback.md" for name in ("Alpha One_501", "Beta Two_502")}
    assert found["Beta Two_502_assignsubmission_file_/feedback.md"].startswith("# Feedback for Beta Two\n\n**8 of 10 points.**")


def test_a_moodle_worksheet_in_another_language_is_recognised(course, tmp_path):
    head, rest = MOODLE.split("\n", 1)
    file = write(tmp_path / "moodle.csv", head.replace("Identifier", "ID").replace(",Grade,", ",Bewertung,") + "\n" + rest)
    said = refused(course, "moodle", file)
    assert "in another language, name the column of the grades with --column" in said and "Bewertung" in said
    assert export(course, "moodle", file, "--column", "Bewertung")[0] == 1


def test_a_locked_grade_and_hidden_names_are_respected(course, tmp_path):
    cells = [[cell for place, cell in enumerate(row) if place not in (1, 2)] for row in csv.reader(io.StringIO(MOODLE))]  # as in anonymous marking
    cells[2][4] = "No"
    file = write(tmp_path / "moodle.csv", "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in cells))
    _, said = export(course, "moodle", file)
    assert [row[2] for row in rows(tmp_path / "moodle-graded.csv")[1:]] == ["10", "3.00", ""]
    assert "Not changed in the file (1): 502: 3.00 (Moodle does not allow a change)" in said
    assert zipfile.ZipFile(tmp_path / "moodle-graded-feedback.zip").namelist()[0] == "Participant_501_assignsubmission_file_/feedback.md"


def test_points_are_converted_to_another_largest_grade_only_on_request(course, tmp_path):
    file = write(tmp_path / "moodle.csv", MOODLE.replace("10.00", "30.00"))
    said = refused(course, "moodle", file)
    assert "the largest grade of Grade is 30, and 10 points can be earned here" in said and not (tmp_path / "moodle-graded.csv").exists()
    assert not (tmp_path / "moodle-graded-feedback.zip").exists()
    for option, grades in {"--scale": ["30", "24", ""], "--no-scale": ["10", "8", ""]}.items():
        assert export(course, "moodle", file, option, "--force")[0] == 1
        assert [row[4] for row in rows(tmp_path / "moodle-graded.csv")[1:]] == grades
    assert "is 'Good', not a number" in refused(course, "moodle", write(tmp_path / "words.csv", MOODLE.replace("10.00", "Good")))


# ---- who is who


OPTIONS = ("--column", "Attention", "--no-scale")


def test_ids_of_file_names_find_the_row_and_another_id_is_another_person(tmp_path):
    """Without a roster."""
    people = [submission("onealpha", slug="a", ids={"canvas_id": "11"}), *(submission(name, slug=name[:2]) for name in ("Beta Two", "gthree"))]
    grade(tmp_path / "grades", [*people, submission("Alpha One", slug="c", ids={"canvas_id": "77"})], None)
    file = write(tmp_path / "canvas.csv", CANVAS.replace("5.00,10.00,", "5.00,15.00,"))
    status, said = export(tmp_path, "canvas", file, "--out", tmp_path / "grades", *OPTIONS, course=False)
    assert status == 1 and "Graded, but not found in the file (1): Alpha One\n" in said
    assert [bool(row[6]) for row in rows(tmp_path / "canvas-graded.csv")[3:]] == [True, True, True, False]


def test_nobody_gets_a_grade_by_a_guess(tmp_path):
    twins = CANVAS.replace('"Three, Gamma"', '"Two, Beta"')
    people = [submission(name, slug=name.replace(" ", "")) for name in ("Beta Two", "One Alpha", "Alpha One", "aone", "Delta Four")]
    grade(tmp_path / "grades", people, None)
    status, said = export(tmp_path, "canvas", write(tmp_path / "c.csv", twins + '"Four, Delta",14,,x,S1,,,,\r\n'), "--out", tmp_path / "grades", *OPTIONS, course=False)
    assert status == 1, said
    assert [row[0] for row in rows(tmp_path / "c-graded.csv")[3:] if row[6] not in ("", "3.00")] == ["Four, Delta"]
    for words in ("Beta Two (several rows fit)", "Alpha One (several submissions fit line 4)", "aone (several submissions fit line 4)", "; One Alpha"):
        assert words in said, said


def test_who_could_not_be_graded_is_named_and_not_changed(tmp_path):
    people = [submission("Alpha One", slug="a"), submission("Beta Two", slug="b", problem="the archive is damaged")]
    folder = make_course(tmp_path, people)
    file = write(tmp_path / "canvas.csv", CANVAS)
    status, said = export(folder, "canvas", file)
    assert status == 1 and "Not graded, so not changed (1): Beta Two: the archive is damaged\n" in said and rows(tmp_path / "canvas-graded.csv")[4][6] == "3.00"
    assert export(folder, "canvas", file, "--zeros", "--force")[0] == 0 and rows(tmp_path / "canvas-graded.csv")[4][6] == "0"


# ---- bad input


BAD = {
    "a Moodle worksheet": (MOODLE, "is not a Canvas gradebook: it must have the columns Student, ID and Section, and it has Identifier"),
    "no such assignment": (CANVAS.replace("Attention (8002)", "Other (8002)"), "has no assignment week3 or Attention; its assignments are: Intro, part 1 (8001), Other (8002)"),
    "two rows with one id": (CANVAS.replace("btwo", "aone"), "line 5: the login aone is also in line 4"),
    "a column twice": (CANVAS.replace("SIS User ID", "ID"), "line 1: the column ID appears twice"),
    "an open quote": (CANVAS + '"Four', "line 8: this is not CSV (unexpected end of data)"),
    "too many cells": (CANVAS + "Four,1,2,3,4,5,6,7,8,9,10\n", "line 8: there are 11 cells for 9 columns"),
    "nobody of the class": (CANVAS.split('"One')[0] + '"Four, Delta",14,,x,S1,,,,\n', "no person in canvas.csv is in this gradebook (1 person there, 3 here)"),
    "a read-only column": (CANVAS.replace("10.00,(read", "(read only),(read"), "Canvas computes the column Attention (8002) itself"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_table_that_does_not_fit_is_refused_with_a_sentence(course, tmp_path, case):
    text, sentence = BAD[case]
    file = write(tmp_path / "canvas.csv", text)
    assert sentence in refused(course, "canvas", file)
    assert file.read_bytes().decode() == text and not (tmp_path / "canvas-graded.csv").exists()


def test_other_wrong_uses_are_refused_with_a_sentence(course, tmp_path):
    file = write(tmp_path / "canvas.csv", CANVAS)
    assert "does not exist; name the file that you downloaded" in refused(course, "canvas", tmp_path / "none.csv")
    assert "is the file that you exported, and it is never overwritten" in refused(course, "canvas", file, "--to", file, "--force")
    write(tmp_path / "other.csv", "precious")
    assert "exists already; add --force" in refused(course, "canvas", file, "--to", tmp_path / "other.csv")
    assert (tmp_path / "other.csv").read_text() == "precious"
    assert "is not a Moodle grading worksheet: it must have" in refused(course, "moodle", file)
    assert "is not a Gradescope table: it must have" in refused(course, "gradescope", file)
    write(tmp_path / "m.csv", MOODLE.replace("Last modified (grade)", "x"))
    assert "no column Last modified (grade), which Moodle needs" in refused(course, "moodle", tmp_path / "m.csv")
    write(tmp_path / "m.csv", MOODLE.replace("Participant 501", "Alpha"))
    assert "line 2: the identifier 'Alpha' is not like Participant 123" in refused(course, "moodle", tmp_path / "m.csv")
