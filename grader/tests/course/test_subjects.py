"""Subjects lead to exercises of several chapters: every exercise has one, and every name in the file exists."""

from __future__ import annotations

import pytest
from grader.course.subjects import exercises_of, find_subject, load_subjects
from grader.course.syllabus import UnknownName, load_syllabus


def test_every_exercise_has_a_subject_and_every_name_exists():
    listed = {name for fields in load_subjects().values() for name in fields["exercises"]}
    assert listed == {exercise.name for exercise in load_syllabus().exercises}


def test_no_word_leads_to_two_subjects():
    words = [word.lower() for name, fields in load_subjects().items() for word in (name, *fields["also"])]
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(("word", "subject"), [("cache", "cache"), ("LORA", "fine-tuning"), ("kv-cache", "cache"), ("scaling laws", "scale")])
def test_a_subject_is_found_by_the_words_that_people_use(word, subject):
    assert find_subject(word) == subject


def test_exercises_are_in_the_order_of_the_course():
    chapters = [exercise.chapter for exercise in exercises_of("attention")]
    assert chapters == sorted(chapters) and {"ch03", "ch10", "ch20"} <= set(chapters)


def test_an_unknown_subject_gets_a_sentence_with_the_nearest_one():
    with pytest.raises(UnknownName, match=r"there is no subject called 'lorra'; did you mean LoRA\? The subjects are tokenizers, attention,"):
        find_subject("lorra")
