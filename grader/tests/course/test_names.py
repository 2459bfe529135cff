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
        *((spelling, "ch03_attention") for spelling in ("chapter3", "chapter 3", "Chapter 3", "03", "ch 3", "CH-03", "ch03 Attention")),
        *((path, "ch03_attention") for path in ("ch03_attention.py", "exercises/ch03_attention.py", "exercises\\ch03_attention.md")),
        *((path, "ch03_attention") for path in ("./exercises/CH03_attention.py:37", "tests/test_ch03_attention_masks.py")),
        *((spelling, "count_bigrams") for spelling in ("count-bigrams", "Count Bigrams", "countbigrams", "count_bigrams()", "`count_bigrams`")),
        ("multi_head_attention", "MultiHeadAttention"),
        ("KV cache", "ch10_kv_cache"),
        ("kvcache", "KVCache"),
    ],
)
def test_a_name_means_an_exercise_or_a_chapter(typed, meant):
    assert COURSE.find(typed).name == meant


def test_every_id_title_and_exercise_means_itself():
    for chapter in COURSE.chapters:
        assert COURSE.find(chapter.id) is COURSE.find(chapter.title) is COURSE.find(chapter.name) is COURSE.find(str(chapter.number)) is chapter
        for exercise in chapter.exercises:
            assert COURSE.find(exercise.name) is COURSE.exercise(exercise.name) is exercise


@pytest.mark.parametrize("typed", ["", " ", "t", "xyzzy", "softmaxx", "sof", "ch33", "chapter 33", "3.0", "attention softmax"])
def test_other_words_mean_nothing(typed):
    for look_up in (COURSE.find, COURSE.exercise, COURSE.chapter):
        with pytest.raises(UnknownName, match="^there is no "):
            look_up(typed)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["softmax", "causal_mask"], ["softmax", "causal_mask"]),
        (["softmax,causal-mask, 3"], ["softmax", "causal_mask", "ch03_attention"]),
        (["chapter", "3", "softmax"], ["ch03_attention", "softmax"]),
        (["Positions", "in", "attention", "fit"], ["ch04_positions_in_attention", "fit"]),
        (["ch03", "Attention", "3"], ["ch03_attention"]),
        ([], []),
    ],
)
def test_several_names_follow_one_another(words, names):
    assert [found.name for found in COURSE.find_all(words)] == names


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chapter", "33"], "^there is no chapter 33; the chapters are ch00 to ch26$"),
        (["softmax", "cuasal_mask"], "^there is no exercise or chapter called 'cuasal_mask'; did you mean causal_mask"),
        (["exercises/ch03_attentoin.py"], r"did you mean ch03_attention\?$"),
        (["average_los"], r"did you mean average_loss\?$"),
        (["chapter"], "`headway list` lists them all$"),
        ([""], "there is no exercise or chapter called ''"),
    ],
)
def test_a_wrong_name_among_several_gets_its_sentence(words, sentence):
    with pytest.raises(UnknownName, match=sentence):
        COURSE.find_all(words)


def test_a_chapter_is_no_exercise_and_an_exercise_no_chapter():
    with pytest.raises(UnknownName, match=r"^'attention' is a chapter \(ch03 Attention\), and an exercise is needed here: softmax, causal_mask, "):
        COURSE.exercise("attention")
    with pytest.raises(UnknownName, match=r"^'softmax' is an exercise of ch03, and a chapter is needed here: ch03$"):
        COURSE.chapter("softmax")
    assert COURSE.exercise("Softmax").name == "softmax"
