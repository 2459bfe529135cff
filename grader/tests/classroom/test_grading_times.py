"""Submission times from files, archives, clones and tables; and the tables themselves."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from grader.classroom.intake.reader import read_submissions
from grader.classroom.intake.submissions import GradingProblem, describe_unknown_times
from grader.classroom.intake.tables import read_cells
from submission_archives import CHAPTER, one, tarred, write, zipped

# Times


def test_dates_of_files_are_no_times_of_submissions(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, time=1_790_000_000)
    write(tmp_path / "beta.tgz", tarred({CHAPTER: "x"}))
    write(tmp_path / "chi.zip", zipped({CHAPTER: "x"}))
    found = read_submissions(tmp_path)
    assert {submission.submitted for submission in found} == {None}
    dated = [replace(one, submitted=datetime(2026, 11, 20, tzinfo=UTC)) for one in found[1:]]
    assert describe_unknown_times([found[0], *dated])[0].startswith("the time of 1 of 3 submissions is unknown, so it counts as on time; ")
    assert describe_unknown_times(dated) == []


# A table


def test_a_table_maps_people_to_paths(tmp_path):
    write(tmp_path / "x" / CHAPTER, "a", time=1_790_000_000)
    write(tmp_path / "b.zip", zipped({CHAPTER: "b"}))
    write(tmp_path / f"c_{CHAPTER}", "c")
    rows = ['name,path,submitted', '"Alpha, One",x,2026-11-20T10:00:00+01:00', "Beta,b.zip,", f"Chi,c_{CHAPTER}", "", "Delta,nowhere,", "Epsilon,,", "Beta,x,"]
    write(tmp_path / "class.csv", "\ufeff" + "\r\n".join(rows))
    found = read_submissions(tmp_path / "class.csv")
    assert {(s.name, s.sources["ch03_attention"]) for s in found if not s.problem} == {("Alpha, One", "a"), ("Beta", "a"), ("Beta", "b"), ("Chi", "c")}
    assert [s.name for s in found] == ["Alpha, One", "Beta", "Beta", "Chi", "Delta", "Epsilon"]
    assert found[0].submitted == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert {s.name: s.problem for s in found if s.problem} == {
        "Delta": "the path in line 6 of the table does not exist",
        "Epsilon": "nothing was submitted: line 7 of the table has no path",
    }
    assert len({s.slug for s in found}) == 6
    write(tmp_path / "semicolons.csv", "name;path\nAlpha;x\n")
    assert one(tmp_path / "semicolons.csv").sources == {"ch03_attention": "a"}
    write(tmp_path / "quoted.csv", '"Last, first, middle";path\n')
    assert read_cells(tmp_path / "quoted.csv") == [(1, ["Last, first, middle", "path"])]


@pytest.mark.parametrize(
    "text, sentence",
    [
        (b"Alpha,x\n", "class.csv, line 1: the column name is missing; the first line names the columns: name,path or name,path,submitted"),
        (b"name,path,grade\nAlpha,x,1\n", "class.csv, line 1: the column 'grade' is unknown; the first line names the columns: name,path or name,path,submitted"),
        (b"name,path\n", "class.csv has a header but no rows; write a row with the name and the path for each submission"),
        (b"name,path\nAlpha, One,x\n", "class.csv, line 2: there are 3 cells for 2 columns; put cells that contain a comma in quotes"),
        (b"name,path\n,x\n", "class.csv, line 2: the name is missing"),
        (b"name,path\n\nAlpha,x\nB\xe9n,x\n", 'class.csv, line 4: the text is not UTF-8; save the table as "CSV UTF-8"'),
        (b'name,path\n"Alpha"x,x\n', "class.csv, line 2: this is not CSV (',' expected after '\"')"),
        (
            b"name,path,submitted\nAlpha,x,2026-11-20 10:00\n",
            "class.csv, line 2: '2026-11-20 10:00' has no time zone; write it like 2026-11-20T10:00:00+01:00",
        ),
        (b"name,path,submitted\nAlpha,x,soon\n", "class.csv, line 2: 'soon' is not a time; write it like 2026-12-01T23:59:00+01:00"),
    ],
)
def test_an_invalid_table_is_refused_with_its_line(tmp_path, text, sentence):
    with pytest.raises(GradingProblem) as refused:
        read_submissions(write(tmp_path / "class.csv", text))
    assert str(refused.value) == sentence


def test_an_oversized_table_is_not_read(tmp_path):
    with pytest.raises(GradingProblem, match="^class.csv is larger than 20 MB, which is too large for a class list$"):
        read_submissions(write(tmp_path / "class.csv", b"name,path\n" + b"a,b\n" * 5_000_000))
