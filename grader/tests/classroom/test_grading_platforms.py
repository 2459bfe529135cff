"""Names that Moodle, Canvas, Gradescope and nbgrader give to files are parsed: the person, the time, and which of several submissions counts."""

from datetime import UTC, datetime

import pytest
from grader.classroom.intake.options import parse_options
from grader.classroom.intake.reader import read_in_subprocess
from submission_archives import CHAPTER, TRUSTING, by_name, clone, one, write, zipped


def test_moodle_exports_with_and_without_folders(tmp_path):
    write(tmp_path / "a" / "Alpha One_4711_assignsubmission_file_" / CHAPTER, "a")
    write(tmp_path / "a" / "Alpha One_4711_assignsubmission_onlinetext_" / "onlinetext.html", "hello")
    write(tmp_path / "a" / "Alpha One_4712_assignsubmission_file_" / "hw.zip", zipped({CHAPTER: "other"}))
    write(tmp_path / "a" / "Participant 9_9_assignsubmission_file" / CHAPTER, "p")
    write(tmp_path / "b" / f"Alpha One_4711_assignsubmission_file_{CHAPTER}", "a")
    write(tmp_path / "b" / "Beta_12_assignsubmission_file_my work.zip", zipped({CHAPTER: "b"}))
    assert {name: s.sources["ch03_attention"] for name, s in by_name(tmp_path / "a").items()} == {
        "Alpha One (4711)": "a",
        "Alpha One (4712)": "other",
        "Participant 9": "p",
    }
    assert {name: s.sources["ch03_attention"] for name, s in by_name(tmp_path / "b").items()} == {"Alpha One": "a", "Beta": "b"}
    assert {name: s.ids for name, s in by_name(tmp_path / "b").items()} == {"Alpha One": {"moodle_id": "4711"}, "Beta": {"moodle_id": "12"}}


def test_canvas_with_late_marks_and_resubmissions(tmp_path):
    write(tmp_path / f"onealpha_123_4567_{CHAPTER}", "first", time=1_790_000_000)
    write(tmp_path / "onealpha_123_4568_ch03_attention-1.py", "second", time=1_790_000_000)
    write(tmp_path / "onealpha_LATE_123_4569_ch01_tokenizer.py", "t")
    write(tmp_path / "twobeta_LATE_124_4570_ch03_attention-2.py", "b")
    write(tmp_path / "twochi_125_4571_report.pdf", "a report")
    found = by_name(tmp_path)
    assert found["onealpha"].sources == {"ch01_tokenizer": "t", "ch03_attention": "second"}
    assert found["twobeta"].sources == {"ch03_attention": "b"}
    assert {name: one.ids["canvas_id"] for name, one in found.items()} == {"onealpha": "123", "twobeta": "124", "twochi": "125"}
    assert found["twochi"].problem == "it contains no chapter, only report.pdf; name the chapter files like ch03_attention.py"


METADATA = """---
submission_11:
  :submitters:
  - :name: Alpha One
    :sid: '1'
    :email: alpha@example.org
  :created_at: 2026-11-20 09:21:27.370285000 Z
  :score: 3.0
  :history:
  - :id: 10
    :created_at: 2026-11-19 09:21:27.370285000 Z
    :submitters:
    - :name: Somebody Else
submission_12:
  :submitters:
  - :name: 'O''Learner: <b>'
    :sid:
  - :name: "Z\\u00e9ro"
    :sid: '3'
  :created_at: 2026-11-20 09:21:27.370285000 -08:00
"""


@pytest.mark.parametrize("form", ["folder", "inside", "zip"])
def test_a_gradescope_export_with_a_group_in_it(tmp_path, form):
    files = {"submission_metadata.yml": METADATA, f"submission_11/{CHAPTER}": "a", f"submission_12/{CHAPTER}": "o", f"submission_13/{CHAPTER}": "?"}
    if form == "zip":
        path = write(tmp_path / "export.zip", zipped({f"assignment_5_export/{name}": text for name, text in files.items()}))
    else:
        path = tmp_path / "export"
        for name, text in files.items():
            write((path / "assignment_5_export" if form == "inside" else path) / name, text)
    found = by_name(path)
    assert {name: s.sources["ch03_attention"] for name, s in found.items()} == {"Alpha One": "a", "O'Learner: <b>": "o", "Zéro": "o", "submission_13": "?"}
    assert found["Alpha One"].ids == {"number": "1", "email": "alpha@example.org"} and found["O'Learner: <b>"].ids == {} and found["Zéro"].ids == {"number": "3"}
    assert found["Alpha One"].submitted == datetime(2026, 11, 20, 9, 21, 27, tzinfo=UTC) and found["Alpha One"].time_from == "Gradescope"
    assert found["Zéro"].submitted == datetime(2026, 11, 20, 17, 21, 27, tzinfo=UTC)
    assert all(one.zone_known for one in by_name(path, TRUSTING).values() if one.time_from == "Gradescope")  # dates in a zip have no zone


def test_nbgraders_time_stamps_count_only_in_its_own_folder(tmp_path):
    for root in ("submitted", "elsewhere"):
        write(tmp_path / root / "alpha" / "hw" / CHAPTER, time=1_790_000_000)
        write(tmp_path / root / "alpha" / "hw" / "timestamp.txt", "2026-11-20 10:30:47.524219 UTC\n")
    assert one(tmp_path / "submitted").submitted == datetime(2026, 11, 20, 10, 30, 47, 524219, tzinfo=UTC)
    assert one(tmp_path / "elsewhere", TRUSTING).submitted == datetime.fromtimestamp(1_790_000_000, UTC)


def a_term(folder, **texts: str) -> None:
    """A person's assignments in nbgrader: week2 is handed in on the 16th, week3 on the 23rd. `texts` has the content of chapter 2, by assignment."""
    for week, day in (("week2", 16), ("week3", 23)):
        write(folder / "submitted" / "alpha" / week / "timestamp.txt", f"2026-11-{day} 10:30:00.000000 UTC\n")
        if week in texts:
            write(folder / "submitted" / "alpha" / week / "ch02_embeddings.py", texts[week], time=1_790_000_000)
    write(folder / "submitted" / "alpha" / "week3" / CHAPTER, "three = 3\n", time=1_790_000_000)


@pytest.mark.parametrize(
    "texts, options, day, graded",
    [
        ({"week2": "two = 2\n"}, {"modules": ["ch02_embeddings"]}, 16, "two = 2\n"),
        ({"week2": "two = 2\n"}, {"modules": [CHAPTER[:-3]]}, 23, "two = 2\n"),
        ({"week2": "two = 2\n", "week3": "two = 2\n"}, {"modules": ["ch02_embeddings"]}, 16, "two = 2\n"),  # the same file, handed in again
        ({"week2": "two = 2\n", "week3": "two = 3\n"}, {"modules": ["ch02_embeddings"]}, 23, "two = 3\n"),
        ({"week2": "two = 2\n", "week3": "two = 3\n"}, {"modules": ["ch02_embeddings"], "assignment": "week2"}, 16, "two = 2\n"),
    ],
)
def test_nbgraders_time_stamp_is_that_of_the_assignment_whose_files_are_graded(tmp_path, texts, options, day, graded):
    a_term(tmp_path, **texts)
    [found] = read_in_subprocess(tmp_path / "submitted", options=parse_options(**options))
    assert (found.submitted, found.time_from) == (datetime(2026, 11, day, 10, 30, tzinfo=UTC), "nbgrader")
    assert found.sources["ch02_embeddings"] == graded
    assert any("there are several versions" in note for note in found.notes) == (len(set(texts.values())) > 1)


def test_chapters_from_several_assignments_of_nbgrader_get_the_newest_time(tmp_path):
    a_term(tmp_path, week2="two = 2\n")
    found = one(tmp_path / "submitted", parse_options(modules=["ch02_embeddings", CHAPTER[:-3]]))
    assert found.submitted == datetime(2026, 11, 23, 10, 30, tzinfo=UTC)


def test_nbgraders_time_stamp_holds_for_notebooks_and_archives_in_the_folder(tmp_path):
    write(tmp_path / "submitted" / "alpha" / "week2" / "work.zip", zipped({CHAPTER: "x = 1\n"}))
    write(tmp_path / "submitted" / "alpha" / "week2" / "timestamp.txt", "2026-11-16 10:30:00.000000 UTC\n")
    write(tmp_path / "submitted" / "alpha" / "week3" / "timestamp.txt", "2026-11-23 10:30:00.000000 UTC\n")
    assert one(tmp_path / "submitted").submitted == datetime(2026, 11, 16, 10, 30, tzinfo=UTC)
    packed = {"submitted/alpha/week2/timestamp.txt": "2026-11-16 10:30:00.000000 UTC\n", f"submitted/alpha/week2/{CHAPTER}": "x = 1\n"}
    found = by_name(write(tmp_path / "submitted.zip", zipped(packed | {f"submitted/beta/week2/{CHAPTER}": "x = 2\n"})))
    assert found["alpha"].submitted == datetime(2026, 11, 16, 10, 30, tzinfo=UTC) and found["beta"].submitted is None


def test_a_clone_and_a_file_of_another_chapter_do_not_make_a_submission_late(tmp_path):
    clone(tmp_path / "alpha" / "week3", time="2026-11-16T10:00:00+00:00")
    write(tmp_path / "alpha" / "week4" / "ch04_positions.py", time=1_799_000_000)
    later = clone(tmp_path / "alpha" / "week5", time="2026-11-23T10:00:00+00:00")
    (later / CHAPTER).rename(later / "ch05_layers.py")
    assert one(tmp_path, parse_options(modules=[CHAPTER[:-3]])).submitted == datetime(2026, 11, 16, 10, tzinfo=UTC)
    write(tmp_path / "files" / "beta" / CHAPTER, time=1_790_000_000)
    write(tmp_path / "files" / "beta" / "ch05_layers.py", time=1_799_000_000)
    found = one(tmp_path / "files", parse_options(trust_file_dates=True, modules=[CHAPTER[:-3]]))
    assert found.submitted == datetime.fromtimestamp(1_790_000_000, UTC)
