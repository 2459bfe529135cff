"""Subjects lead to exercises of several chapters: every exercise has one, and every name in the file exists."""

from __future__ import annotations

import pytest
from grader.course.syllabus import UnknownName, find_exercises, load_subjects, load_syllabus


def test_every_exercise_has_a_subject_and_every_name_exists():
    listed = {name for fields in load_subjects().values() for name in fields["exercises"]}
    assert listed == {exercise.name for exercise in load_syllabus().exercises}


def test_no_word_leads_to_two_subjects():
    words = [word.lower() for name, fields in load_subjects().items() for word in (name, *fields["also"])]
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(("word", "subject"), [("cache", "cache"), ("LORA", "fine-tuning"), ("kv-cache", "cache"), ("scaling laws", "scale")])
def test_a_subject_is_found_by_the_words_that_people_use(word, subject):
    assert find_exercises(word.split()) == find_exercises([subject]) and len(find_exercises([subject])) < 30


def test_exercises_are_in_the_order_of_the_course():
    chapters = [exercise.chapter for exercise in find_exercises(["attention"])]
    assert chapters == sorted(chapters) and {"ch03", "ch10", "ch20"} <= set(chapters)


def test_an_unknown_subject_gets_a_sentence_with_the_nearest_one():
    with pytest.raises(UnknownName, match=r"there is no subject called 'lorra'; did you mean LoRA\? The subjects are tokenizers, attention,"):
        find_exercises(["lorra"])


def test_chapters_and_exercises_are_found_too():
    assert find_exercises(["chapter", "3"]) == list(load_syllabus().chapter("ch03").exercises)
    assert [exercise.name for exercise in find_exercises(["gelu", "softmax"])] == ["softmax", "gelu"]
    assert find_exercises([]) == list(load_syllabus().exercises)
    with pytest.raises(UnknownName, match=r"^there is no exercise or chapter called 'softmx'; did you mean softmax\?$"):
        find_exercises(["softmx"])
