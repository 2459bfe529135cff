"""Files as students really name, save, copy and pack them: they are graded, and a note says how they were read."""

import io
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from grade_command import headway, marks
from grader.classroom.intake.class_notes import CANVAS, describe_unknown_times
from grader.classroom.intake.code_files import decode_chapter
from grader.classroom.intake.options import DEFAULTS, parse_options
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.reading import read_submissions
from grader.classroom.intake.submission_content import MAX_ARCHIVE_LEVELS
from grader.classroom.intake.submissions import LATE_MARK, NO_LATE_MARK
from grader.classroom.judging.rules import EXTENDED, MARKED, Rules
from grader.course.source import SourceProblem
from grader.course.stubs import reference_stub
from grader.course.syllabus import ROOT, UnknownName
from pytest_runs import solution
from submission_archives import CHAPTER, TRUSTING, archive, by_name, one, tarred, write, zipped

MODULE = "ch03_attention"
TWO = "def softmax(x, dim=-1):\n    return x\n\n\ndef causal_mask(q_len, k_len=None):\n    return q_len\n"
ONE = "def softmax(x, dim=-1):\n    return x + 1\n"

# ---- encodings


@pytest.mark.parametrize("encoding, says", [("latin-1", "was read as Latin-1"), ("cp1252", "was read as Latin-1"), ("utf-16", "was read as UTF-16")])
def test_text_of_other_editors_is_read_with_a_note(tmp_path, encoding, says):
    text = TWO + ("# caf\u00e9" if encoding != "cp1252" else "# \u201ccaf\u00e9\u201d") + "\n"
    write(tmp_path / "alpha" / CHAPTER, text.encode(encoding))
    write(tmp_path / "beta" / CHAPTER, text)
    write(tmp_path / "chi" / CHAPTER, "\ufeff" + text)
    found = by_name(tmp_path)
    assert found["alpha"].sources == found["beta"].sources == found["chi"].sources == {MODULE: text}
    assert found["beta"].notes == found["chi"].notes == ()
    assert len(found["alpha"].notes) == 1 and says in found["alpha"].notes[0] and "UTF-8" in found["alpha"].notes[0]


@pytest.mark.parametrize("data", [b"# coding: rot13\n# \xff", b"x = 1\0\xff", b"\xff\xfex", b"#" * 200_001 + b"\xff", b"\xff\xfe" + b"#\0" * 400_001])
def test_what_no_encoding_explains_is_still_refused(data):
    with pytest.raises(SourceProblem):
        decode_chapter(data, CHAPTER)


# ---- archives in archives


def packed(depth: int, content: dict[str, str | bytes], pack=zipped, ending: str = ".zip") -> bytes:
    data = pack(content)
    for number in range(depth):
        data = pack({f"inner{number}{ending}": data})
    return data


@pytest.mark.parametrize("pack, ending", [(zipped, ".zip"), (tarred, ".tgz")])
def test_an_archive_in_an_archive_is_opened(tmp_path, pack, ending):
    for depth in range(1, MAX_ARCHIVE_LEVELS):
        found = archive(tmp_path / str(depth), packed(depth, {f"hw/{CHAPTER}": "x"}, pack, ending), f"alpha{ending}")
        assert (found.sources, found.problem) == ({MODULE: "x"}, ""), depth
    too_deep = archive(tmp_path / "deep", packed(MAX_ARCHIVE_LEVELS, {CHAPTER: "x"}, pack, ending), f"alpha{ending}")
    assert f"was not opened, because it is in {MAX_ARCHIVE_LEVELS} other archives" in too_deep.problem and not too_deep.sources


def test_a_zip_in_a_zip_in_the_zip_of_a_class_is_opened(tmp_path):
    whole = zipped({"alpha/hw.zip": packed(1, {CHAPTER: "a"}), "beta.zip": packed(1, {CHAPTER: "b"})})
    assert {name: s.sources for name, s in by_name(write(tmp_path / "class.zip", whole)).items()} == {"alpha": {MODULE: "a"}, "beta": {MODULE: "b"}}


def test_damage_and_escapes_inside_inner_archives_are_their_owners_sentence(tmp_path):
    write(tmp_path / "alpha.zip", zipped({"in.zip": zipped({"../x.py": "x", CHAPTER: "x"})}))
    write(tmp_path / "beta.zip", zipped({"in.zip": b"PK\x03\x04 cut"}))
    write(tmp_path / "chi.zip", zipped({"in.zip": zipped({CHAPTER: "c"})}))
    found = by_name(tmp_path)
    assert found["alpha"].problem.startswith("a file in the archive has a path outside of it (../x.py)")
    assert found["beta"].problem == "the archive is damaged or incomplete; submit it again" and found["chi"].sources == {MODULE: "c"}


BOMB = """
import io, os, resource, sys, zipfile
sys.path[:0] = [{tests!r}]
from grader.classroom.intake.reading import read_submissions
from submission_archives import write, zipped
from pathlib import Path

here = Path({here!r})

def piled(levels, width, megabytes):
    packed, inside = io.BytesIO(), piled(levels - 1, width, megabytes) if levels else bytes(megabytes * 1_000_000)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for number in range(width):
            out.writestr(f"{{number}}.zip" if levels else f"notes{{number}}.py", inside)
    return packed.getvalue()

write(here / "alpha.zip", piled(2, 3, 90))
write(here / "beta.zip", zipped({{"a.zip": zipped({{"b.zip": zipped({{f"{{n}}.py": "" for n in range(21_000)}})}})}}))
write(here / "chi" / "ch03_attention.py")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for submission in read_submissions(here):
    print(f"{{submission.name}}: {{submission.problem}}")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_pile_of_nested_archives_takes_little_memory(tmp_path):
    """27 members of 90 MB, three levels deep, are 2.4 GB; and 21,000 files in the innermost of three."""
    program = BOMB.format(tests=str(ROOT / "grader" / "tests"), here=str(tmp_path / "class"))
    command = [sys.executable, "-c", "import os; os.environ['PYTHONPATH'] = ''\n" + program]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *problems, memory = done.stdout.splitlines()
    said = dict(line.split(": ", 1) for line in problems)
    assert said["alpha"] and "contains 21000 files" in said["beta"] and said["chi"] == ""
    assert int(memory) < 150, f"{memory} MB"


# ---- files whose names say no chapter


def test_a_file_is_matched_by_what_it_defines(tmp_path):
    write(tmp_path / "alpha" / "attention.py", TWO)
    write(tmp_path / "alpha" / "plots.py", "def draw():\n    return 1\n")
    write(tmp_path / "beta" / "my work" / "homework.py", TWO + "\n\nclass MultiHeadAttention:\n    pass\n")
    write(tmp_path / "chi" / "homework.py", "def softmax(x:\n")
    write(tmp_path / "delta" / "plots.py", "def draw():\n    return 1\n")
    write(tmp_path / "epsilon" / "ch03_attention.py.txt", TWO)
    found = by_name(tmp_path)
    assert found["alpha"].sources == {MODULE: TWO}
    assert found["alpha"].notes == ("the file attention.py was used as ch03_attention.py, because it defines softmax and causal_mask",)
    assert found["beta"].notes == ("the file homework.py was used as ch03_attention.py, because it defines softmax, causal_mask and 1 more",)
    assert found["chi"].sources == {MODULE: "def softmax(x:\n"}, "grading shows its owner the line"
    assert found["delta"].problem == "it contains no chapter, only plots.py; name the chapter files like ch03_attention.py"
    assert found["epsilon"].sources == {MODULE: TWO}


def test_numbered_copies_the_newest_counts_or_the_fullest_if_asked(tmp_path):
    write(tmp_path / "alpha" / "attention.py", TWO, time=1_780_000_000)
    write(tmp_path / "alpha" / "attention (2).py", ONE, time=1_790_000_000)
    write(tmp_path / "beta" / "attention.py", TWO, time=1_780_000_000)
    write(tmp_path / "beta" / "attention (2).py", ONE, time=1_780_000_000)
    write(tmp_path / "delta" / "attention.py", ONE, time=1_790_000_000)
    write(tmp_path / "delta" / "attention (2).py", TWO, time=1_780_000_000)
    write(tmp_path / "chi" / CHAPTER, TWO, time=1_780_000_000)
    write(tmp_path / "chi" / "ch03_attention (2).py", ONE, time=1_790_000_000)
    newest, fullest = by_name(tmp_path), by_name(tmp_path, parse_options(copies="fullest"))
    assert {name: s.sources[MODULE] for name, s in newest.items()} == dict.fromkeys(["alpha", "beta", "chi", "delta"], ONE)
    assert {name: s.sources[MODULE] for name, s in fullest.items()} == dict.fromkeys(["alpha", "beta", "chi", "delta"], TWO)
    assert any("attention (2).py was graded, not attention.py" in note for note in newest["alpha"].notes)
    assert any("ch03_attention (2).py was graded, not ch03_attention.py" in note for note in newest["chi"].notes)
    assert any("ch03_attention.py was graded, not ch03_attention (2).py" in note for note in fullest["chi"].notes)


def test_a_helper_with_an_exercises_name_does_not_replace_the_chapter(tmp_path):
    many = reference_stub(MODULE)
    write(tmp_path / "alpha" / "attention.py", many, time=1_780_000_000)
    write(tmp_path / "alpha" / "train.py", ONE, time=1_790_000_000)
    assert one(tmp_path).sources == {MODULE: many}


def test_one_file_with_several_chapters_is_divided(tmp_path):
    gelu = "def gelu(x):\n    return softmax(x)\n"
    write(tmp_path / "alpha" / "all.py", f"import torch\n{ONE}{gelu}print(gelu(torch.ones(3)))\n")
    found = one(tmp_path)
    assert list(found.sources) == [MODULE, "ch05_layers"] and "# cell" not in "".join(found.sources.values())
    assert "gelu" not in found.sources[MODULE] and "print" not in found.sources[MODULE]
    assert f"from .{MODULE} import softmax\n" in found.sources["ch05_layers"]
    assert found.notes[0] == "the file all.py was used as ch03_attention.py, because it defines softmax; only the code that they use was read"


def test_the_kits_own_files_and_tests_are_not_matched(tmp_path):
    for place in ("tests/variants/ch03_attention/softmax.py", "solutions/attention.py", "grader/x.py", "test_softmax.py", "conftest.py"):
        write(tmp_path / "alpha" / place, TWO)
    write(tmp_path / "alpha" / "exercises" / "ch05_layers.py", "x = 1\n")
    assert list(one(tmp_path).sources) == ["ch05_layers"]


def test_map_says_which_chapter_a_file_is(tmp_path):
    options = parse_options(["homework3.py=ch03", "Week 5.py = layers"])
    write(tmp_path / "alpha" / "Homework3 (1).py", "x = 3\n")
    write(tmp_path / "alpha" / "week 5.py", "x = 5\n")
    write(tmp_path / "onebeta_12_345_homework3-1.py", "x = 3\n")
    found = by_name(tmp_path, options)
    assert found["alpha"].sources == {MODULE: "x = 3\n", "ch05_layers": "x = 5\n"} and found["onebeta"].sources == {MODULE: "x = 3\n"}
    assert "Homework3 (1).py was used as ch03_attention.py" in found["alpha"].notes
    assert [s.sources for s in read_in_subprocess(tmp_path / "alpha", options=options)] == [found["alpha"].sources], "one person's folder"


def test_wrong_options_are_refused_with_a_sentence():
    for words in ("homework3.py", "=ch03", "homework3.py=", "a/b.py=ch03", "notes.txt=ch03"):
        with pytest.raises(GradingProblem, match="write the name of a .py or .ipynb file, without folders, and its chapter, like --map homework3.py=ch03"):
            parse_options([words])
    with pytest.raises(GradingProblem, match="HW.py is given two chapters, ch03_attention and ch05_layers; keep one"):
        parse_options(["hw.py=ch03", "HW.py=ch05"])
    with pytest.raises(UnknownName, match="did you mean ch03_attention"):
        parse_options(["hw.py=ch03_atention"])
    with pytest.raises(GradingProblem, match="write --copies newest, --copies fullest or --copies better"):
        parse_options(copies="best")
    assert parse_options() == DEFAULTS


# ---- lateness

DUE = datetime(2026, 11, 20, 12, tzinfo=UTC)


RULES = Rules(due=DUE, grace=timedelta(minutes=15), per_day=Decimal(10), extensions={"onechi": DUE + timedelta(days=9)})


def test_a_late_mark_of_canvas_means_the_shortest_delay_and_no_time(tmp_path):
    for name in ("onealpha_123", "onebeta_LATE_124", "onechi_LATE_125"):
        write(tmp_path / f"{name}_4567_{CHAPTER}", time=1_790_000_000)
    found = read_submissions(tmp_path)
    assert [(s.submitted, s.time_from) for s in found] == [(None, NO_LATE_MARK), (None, LATE_MARK), (None, LATE_MARK)]
    assert describe_unknown_times(found) == [CANVAS] and all(s.notes == () for s in found)
    alpha, beta, chi = map(RULES.compute_lateness, found)
    assert (alpha.days, alpha.sentence, alpha.is_unknown) == (0, "", True)
    assert (beta.days, beta.factor, beta.sentence) == (1, Decimal("0.9"), f"{MARKED}: 10 % of the points earned are deducted")
    assert (chi.days, chi.factor, chi.sentence) == (0, 1, EXTENDED)
    assert {Rules().compute_lateness(s).days for s in found} == {0}
    trusted = {s.name: s for s in read_submissions(tmp_path, options=TRUSTING)}
    assert trusted["onealpha"].time_from == "file" and describe_unknown_times([trusted["onealpha"]]) == []
    assert (trusted["onebeta"].submitted, trusted["onebeta"].time_from) == (None, LATE_MARK)


def test_unknown_times_are_named_once_for_the_instructor(tmp_path):
    write(tmp_path / "alpha" / CHAPTER)
    write(tmp_path / "beta.tgz", tarred({CHAPTER: "x"}, time=0))
    dated, undated = describe_unknown_times(read_submissions(tmp_path))[::-1]
    assert undated == "the time of beta's submission is unknown, so it counts as on time"
    assert dated.startswith("the time of alpha's submission is unknown, so it counts as on time. The files have dates,") and "--trust-file-dates" in dated


def test_a_name_with_late_in_it_is_no_mark(tmp_path):
    write(tmp_path / f"LATE_12_345_{CHAPTER}")
    assert one(tmp_path).time_from != LATE_MARK and one(tmp_path).name == "LATE"


def test_the_date_in_an_archive_is_a_file_date_too(tmp_path):
    packed_zip = io.BytesIO()
    with zipfile.ZipFile(packed_zip, "w") as out:
        out.writestr(zipfile.ZipInfo(CHAPTER, (2026, 11, 25, 0, 0, 0)), "x = 1\n")
    write(tmp_path / "alpha.zip", packed_zip.getvalue())
    assert one(tmp_path).submitted is None and one(tmp_path, TRUSTING).submitted == datetime(2026, 11, 25, tzinfo=UTC)


@pytest.mark.thorough
def test_the_command_uses_the_options_and_regrade_remembers_them(tmp_path):
    right = solution("ch03")
    write(tmp_path / "class" / "onealpha_12_34_hw3.py", right, time=1_700_000_000)
    write(tmp_path / "class" / "onebeta_LATE_13_35_hw3-1.py", right, time=1_700_000_000)
    write(tmp_path / "rules.toml", "[late]\ndue = 2020-12-01T23:59:00+01:00\nper_day = 10\nlast = 7\n")
    arguments = ["--out", tmp_path / "out", "--exercises", "split_heads", "--points", tmp_path / "rules.toml", "--map", "hw3.py=ch03"]
    ran = headway("grade", tmp_path / "class", *arguments)
    assert ran.status == 0 and f"Note: {CANVAS}\n" in ran.out
    rows = marks(tmp_path / "out")
    assert rows["onealpha"]["late"] == "" and rows["onebeta"]["late"] == f"{MARKED}: 10 % of the points earned are deducted"
    for path in (path for path in (tmp_path / "out").rglob("*") if path.suffix in (".csv", ".md", ".html", ".json", ".xml")):
        assert "2020-12-02" not in path.read_text(encoding="utf-8"), f"{path.name} has a time that nothing gives"
    assert "unknown" not in (tmp_path / "out" / "feedback" / "onealpha.md").read_text(encoding="utf-8"), "there is nothing that the learner could do"
    assert "1 person submitted at an unknown time, which counts as on time." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert float(rows["onebeta"]["total"]) == pytest.approx(0.9 * float(rows["onealpha"]["total"]))
    assert headway("grade", tmp_path / "class", *arguments, "--trust-file-dates").status == 0
    assert headway("regrade", "onealpha", "--out", tmp_path / "out").status == 0
    again = marks(tmp_path / "out")
    assert "more than 7 days late" in again["onealpha"]["late"] and "hw3.py was used as" in again["onealpha"]["notes"].lower()
    assert headway("grade", tmp_path / "class", *arguments, "--map", "hw3.py").status == 2
    assert "did you mean ch03_attention" in headway("grade", tmp_path / "class", *arguments, "--map", "x.py=ch03_atention").out
