"""Names that Moodle, Canvas and Gradescope give to files are parsed: the person, the time, and which of several submissions counts."""

from datetime import UTC, datetime

import pytest
from submission_archives import CHAPTER, by_name, write, zipped


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


@pytest.mark.parametrize("form", ["inside", "zip"])
def test_a_gradescope_export_with_a_group_in_it(tmp_path, form):
    files = {"submission_metadata.yml": METADATA, f"submission_11/{CHAPTER}": "a", f"submission_12/{CHAPTER}": "o", f"submission_13/{CHAPTER}": "?"}
    if form == "zip":
        path = write(tmp_path / "export.zip", zipped({f"assignment_5_export/{name}": text for name, text in files.items()}))
    else:
        path = tmp_path / "export"
        for name, text in files.items():
            write(path / "assignment_5_export" / name, text)
    found = by_name(path)
    assert {name: s.sources["ch03_attention"] for name, s in found.items()} == {"Alpha One": "a", "O'Learner: <b>": "o", "Zéro": "o", "submission_13": "?"}
    assert found["Alpha One"].ids == {"number": "1", "email": "alpha@example.org"} and found["O'Learner: <b>"].ids == {} and found["Zéro"].ids == {"number": "3"}
    assert found["Alpha One"].submitted == datetime(2026, 11, 20, 9, 21, 27, tzinfo=UTC)
    assert found["Zéro"].submitted == datetime(2026, 11, 20, 17, 21, 27, tzinfo=UTC)
