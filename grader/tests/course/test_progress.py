"""The progress file: small, mergeable, tolerant of errors."""

from grader.course.progress import (
    HEADER,
    Score,
    format_points,
    load_hint_levels,
    load_scores,
    record_scores,
    save_hint_level,
)
from grader.course.syllabus import load_syllabus

POINTS = {exercise.name: exercise.points for exercise in load_syllabus().exercises}
SOFTMAX = float(POINTS["softmax"])
MASK = float(POINTS["causal_mask"])


def test_a_line_an_exercise_sorted(tmp_path):
    assert record_scores({"softmax": SOFTMAX, "causal_mask": 2}, tmp_path) is None
    assert (tmp_path / "progress.txt").read_text() == f"{HEADER}causal_mask 2/{MASK:g}\nsoftmax {SOFTMAX:g}/{SOFTMAX:g}\n"
    assert load_scores(tmp_path) == {"causal_mask": Score(2, MASK), "softmax": Score(SOFTMAX, SOFTMAX)}
    assert load_scores(tmp_path)["softmax"].passed and not load_scores(tmp_path)["causal_mask"].passed


def test_learners_see_the_points_that_are_graded_and_full_ones_only_for_all_tests(tmp_path):
    shown = {0: "0", 0.01: "0.01", 1: "1", 1.25: "1.25", 7.5: "7.5", 18.75: "18.75", 9.999: "9.99", 2.67: "2.67", 10: "10"}
    assert {earned: format_points(earned) for earned in shown} == shown
    assert str(Score(1.25, 10)) == "1.25/10"
    record_scores({"softmax": 1.25}, tmp_path)
    assert (tmp_path / "progress.txt").read_text() == f"{HEADER}softmax 1.25/{SOFTMAX:g}\n"


def test_nothing_earned_writes_nothing(tmp_path):
    assert record_scores({"softmax": 0.0, "causal_mask": 0.0}, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_replaces_what_it_tested_and_leaves_the_rest(tmp_path):
    record_scores({"softmax": SOFTMAX, "causal_mask": MASK}, tmp_path)
    record_scores({"softmax": 1.5}, tmp_path)
    assert load_scores(tmp_path) == {"softmax": Score(1.5, SOFTMAX), "causal_mask": Score(MASK, MASK)}
    record_scores({"softmax": 0}, tmp_path)
    assert load_scores(tmp_path) == {"causal_mask": Score(MASK, MASK)}


def test_a_merge_conflict_takes_the_better_of_two(tmp_path):
    conflict = "<<<<<<< HEAD\nsoftmax 1/10\ncausal_mask 7/7\n=======\nsoftmax 10/10\ncausal_mask 3/7\n>>>>>>> theirs\n"
    (tmp_path / "progress.txt").write_text(conflict)
    assert load_scores(tmp_path)["softmax"].passed and load_scores(tmp_path)["causal_mask"].passed
    record_scores({"softmax": SOFTMAX}, tmp_path)
    assert "<<<" not in (tmp_path / "progress.txt").read_text()


def test_garbage_is_skipped_and_unknown_names_are_kept(tmp_path):
    lines = ["crane", "softmax", "softmax ten/ten", "softmax -1/10", "softmax 1/0", "softmax 99/10", "tomorrow 3/4", "a b c", "softmax nan/10"]
    (tmp_path / "progress.txt").write_bytes("\r\n".join(lines).encode() + b"\n\xff\xfe\0\n")
    assert load_scores(tmp_path) == {"softmax": Score(SOFTMAX, SOFTMAX), "tomorrow": Score(3, 4)}
    record_scores({"causal_mask": 1}, tmp_path)
    assert "tomorrow 3/4\n" in (tmp_path / "progress.txt").read_text()


def test_points_that_changed_since_are_counted_again(tmp_path):
    (tmp_path / "progress.txt").write_text("softmax 4/4\ncausal_mask 2/4\n")
    assert load_scores(tmp_path) == {"softmax": Score(SOFTMAX, SOFTMAX), "causal_mask": Score(MASK / 2, MASK)}


def test_almost_all_is_not_all(tmp_path):
    record_scores({"softmax": (9.999, 10)}, tmp_path)
    assert "softmax 9.99/10" in (tmp_path / "progress.txt").read_text()
    assert not load_scores(tmp_path)["softmax"].passed
    assert [format_points(x) for x in (8.0, 7.5, 2.6666, 0.1 + 0.2)] == ["8", "7.5", "2.66", "0.3"]


def test_recording_the_same_result_again_does_not_write_the_file(tmp_path):
    record_scores({"softmax": 3}, tmp_path)
    before = (tmp_path / "progress.txt").stat()
    record_scores({"softmax": 3}, tmp_path)
    after = (tmp_path / "progress.txt").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_disk_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    sentence = record_scores({"softmax": 3}, tmp_path / "file")
    assert sentence.startswith("your progress was not saved: could not write file/progress.txt")
    assert "could not write" in save_hint_level("softmax", 1, tmp_path / "file")
    assert load_scores(tmp_path / "file") == {} and load_hint_levels(tmp_path / "file") == {}


def test_hint_levels_are_stored_and_a_broken_file_counts_as_empty(tmp_path):
    assert save_hint_level("softmax", 2, tmp_path) is None
    assert save_hint_level("causal_mask", 1, tmp_path) is None
    assert load_hint_levels(tmp_path) == {"softmax": 2, "causal_mask": 1}
    for broken in ("{", "[]", '{"softmax": "x", "causal_mask": -1}', '{"softmax": true}'):
        (tmp_path / ".headway" / "hints.json").write_text(broken)
        assert load_hint_levels(tmp_path) == {}
