"""What a typed name means."""

import pytest
from grader.course.syllabus import UnknownName, load_syllabus

COURSE = load_syllabus()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((spelling, "ch03_attention") for spelling in ("ch03", "3", "ch3", "CH03", "ch03_attention", "attention", "Attention", " attention ")),
        *((spelling, "ch04_positions_in_attention") for spelling in ("Positions in attention", "positions-in-attention")),
        *((spelling, "softmax") for spelling in ("softmax", "Softmax", "SOFTMAX")),
        ("MultiheadAttention", "MultiHeadAttention"),
        ("gpt", "GPT"),
    ],
)
def test_a_name_means_an_exercise_or_a_chapter(typed, meant):
    assert COURSE.find(typed).name == meant


def test_every_id_title_and_exercise_means_itself():
    for chapter in COURSE.chapters:
        assert COURSE.find(chapter.id) is COURSE.find(chapter.title) is COURSE.find(chapter.name) is COURSE.find(str(chapter.number)) is chapter
        for exercise in chapter.exercises:
            assert COURSE.find(exercise.name) is COURSE.exercise(exercise.name) is exercise


@pytest.mark.parametrize("typed", ["", " ", "t", "xyzzy", "softmaxx", "sof", "ch33", "00", "3.0", "attention softmax"])
def test_other_words_mean_nothing(typed):
    for look_up in (COURSE.find, COURSE.exercise, COURSE.chapter):
        with pytest.raises(UnknownName, match="^there is no "):
            look_up(typed)


def test_a_chapter_is_no_exercise_and_an_exercise_no_chapter():
    with pytest.raises(UnknownName, match=r"^'attention' is a chapter \(ch03 Attention\), and an exercise is needed here: softmax, causal_mask, "):
        COURSE.exercise("attention")
    with pytest.raises(UnknownName, match=r"^'softmax' is an exercise of ch03, and a chapter is needed here: ch03$"):
        COURSE.chapter("softmax")
    assert COURSE.exercise("Softmax").name == "softmax"
