"""`--copies better`: each version of a chapter is judged, and the one with most points counts."""

import os
from dataclasses import replace
from decimal import Decimal

import pytest
from grade_command import exports, headway, marks, mistake
from grader.classroom.intake.options import BETTER, parse_options
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.submissions import ChapterVersion, Submission, hash_content
from grader.classroom.judging.better_versions import choose_versions, list_variants
from pytest_runs import solution

OPTIONS = parse_options(copies=BETTER)
MODULE = "ch03_attention"
ZERO = "def softmax(x, dim=-1):\n    return 0 * x\n"
ONE = "def softmax(x, dim=-1):\n    return x + 1\n"
TWO = "def softmax(x, dim=-1):\n    return x\n\n\ndef causal_mask(q_len, k_len=None):\n    return q_len\n"


def hand_in(folder, name, age, text):
    """A file that is `age` hours old."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_790_000_000 - 3600 * age,) * 2)


def read(folder, options=OPTIONS):
    return {one.name: one for one in read_in_subprocess(folder, options=options)}


# ---- reading


def test_all_versions_are_read_the_newest_first(tmp_path):
    for place in ("alpha", "beta"):
        hand_in(tmp_path / place, f"{MODULE}.py", 5, ONE)
    hand_in(tmp_path / "alpha", f"{MODULE} (2).py", 1, ZERO)
    hand_in(tmp_path / "alpha", f"{MODULE} (1).py", 3, TWO)
    found = read(tmp_path)
    assert [(one.file, one.text) for one in found["alpha"].versions] == [(f"{MODULE} (2).py", ZERO), (f"{MODULE} (1).py", TWO), (f"{MODULE}.py", ONE)]
    assert found["alpha"].sources == {MODULE: ZERO} and found["alpha"].notes == () and found["beta"].versions == ()
    newest = read(tmp_path, parse_options())["alpha"]
    assert newest.versions == () and newest.digest == found["alpha"].digest and "there are several versions" in newest.notes[1]


def test_equal_and_unreadable_versions_are_left_out_and_three_are_enough(tmp_path):
    for number, text in enumerate((ONE, ONE, "x = " + "[" * 200 + "]" * 200, TWO, ZERO, "def softmax(x):\n    pass\n")):
        hand_in(tmp_path / "alpha", f"{MODULE} ({number + 1}).py", number, text)
    hand_in(tmp_path / "beta", f"{MODULE}.py", 0, ONE)
    assert [one.text for one in read(tmp_path)["alpha"].versions] == [ONE, TWO, ZERO]


def test_versions_under_other_names_bring_the_note_of_the_one_that_counts(tmp_path):
    hand_in(tmp_path / "alpha", "attention (2).py", 1, ONE)
    hand_in(tmp_path / "alpha", "attention.py", 3, TWO)
    hand_in(tmp_path / "beta", "attention.py", 3, TWO)
    alpha = read(tmp_path)["alpha"]
    assert [one.file for one in alpha.versions] == ["attention (2).py", "attention.py"] and alpha.notes == ()
    chosen = choose_versions(alpha, lambda digest, module: Decimal(digest != alpha.digest))
    assert chosen.sources == {MODULE: TWO} and [note.partition(",")[0] for note in chosen.notes] == [
        "the file attention.py was used as ch03_attention.py", "there are several versions of ch03_attention.py",
    ]  # fmt: skip


# ---- choosing


def submission(**versions):
    """A submission with these texts of each chapter; the first one counts so far."""
    sources = {module: texts[0] for module, texts in versions.items()}
    several = tuple(ChapterVersion(module, f"{module}-{text}.py", text) for module, texts in versions.items() if len(texts) > 1 for text in texts)
    return Submission("Alpha", sources, digest=hash_content(sources, {}, ""), versions=several)


def choose(one, points):
    """The choice where a text is worth these points."""
    by_digest = {variant.digest: variant.sources for variant in [one, *list_variants(one)]}
    return choose_versions(one, lambda digest, module: points.get(by_digest[digest][module]))


def test_each_chapter_gets_its_best_version():
    one = submission(a=["a0", "a1", "a2"], b=["b0", "b1"], c=["c0"])
    assert [variant.sources for variant in list_variants(one)] == [{"a": "a1", "b": "b1", "c": "c0"}, {"a": "a2", "b": "b0", "c": "c0"}]
    chosen = choose(one, {"a0": Decimal(1), "a1": Decimal(2), "a2": Decimal("2.5"), "b0": Decimal(3), "b1": Decimal(0)})
    assert chosen.sources == {"a": "a2", "b": "b0", "c": "c0"} and chosen.digest == hash_content(chosen.sources, {}, "")
    assert chosen.notes == (
        "there are several versions of a.py, and each was judged; a-a2.py counts (2.5 points), because it has more points; not a-a0.py (1) and a-a1.py (2)",
        "there are several versions of b.py, and each was judged; b-b0.py counts (3 points), because it has more points; not b-b1.py (0)",
    )


def test_of_equal_versions_the_newest_counts():
    chosen = choose(submission(a=["a0", "a1", "a2"]), {"a0": Decimal(1), "a1": Decimal(2), "a2": Decimal(2)})
    assert chosen.sources == {"a": "a1"} and "of those with most points it is the newest" in chosen.notes[0]


def test_nothing_is_chosen_while_a_version_has_no_verdict():
    one = submission(a=["a0", "a1"])
    assert choose(one, {"a1": Decimal(2)}) == one and choose(replace(one, versions=()), {}) == replace(one, versions=())


# ---- grading


@pytest.mark.thorough
def test_the_version_with_more_points_is_graded_and_the_note_says_so(tmp_path):
    folder, out = tmp_path / "class", tmp_path / "grades"
    right, layers = solution("ch03"), solution("ch05")
    hand_in(folder / "Alpha", f"{MODULE} (2).py", 1, mistake("causal_mask"))
    hand_in(folder / "Alpha", f"{MODULE}.py", 3, right)
    hand_in(folder / "Alpha", "ch05_layers (2).py", 1, layers)
    hand_in(folder / "Alpha", "ch05_layers.py", 3, layers.replace("def gelu", "def not_gelu"))
    hand_in(folder / "Beta", f"{MODULE} (2).py", 1, right + "\n# the newer one\n")
    hand_in(folder / "Beta", f"{MODULE}.py", 3, right)
    asked = ("grade", folder, "--out", out, "--exercises", "causal_mask,gelu", "--copies", "better", "-j", 1)
    ran = headway(*asked)
    assert ran.status == 0 and "2 people, 4 submissions graded now" in ran.out, ran.out
    rows = marks(out)
    assert (rows["Alpha"]["causal_mask"], rows["Alpha"]["gelu"], rows["Beta"]["causal_mask"]) == ("7", "12", "7")
    assert f"{MODULE}.py counts (7 points), because it has more points; not {MODULE} (2).py (" in rows["Alpha"]["notes"]
    assert "ch05_layers (2).py counts (12 points)" in rows["Alpha"]["notes"] and f"{MODULE} (2).py counts (7 points), because of those" in rows["Beta"]["notes"]
    before = exports(out)
    ran = headway(*asked)
    assert ran.status == 0 and ", 0 submissions graded now" in ran.out, ran.out
    assert headway("regrade", "Alpha", "--out", out, "-j", 1).status == 0
    assert exports(out) == before
