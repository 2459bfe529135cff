"""The proof of leaks tries what the tools say: their replies to known mistakes consist of the texts that it collects."""

import re

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import load_syllabus
from grader.tests.quality.devcheck.pool import try_all
from grader.tests.quality.devcheck.subjects import mistakes
from grader.tests.quality.devcheck.trying import TryJob
from grader.tests.quality.proof.leaks import texts_of
from grader.verdict.results import Failure
from leak_secrets import dense
from tutoring import ask

pytestmark = pytest.mark.thorough

# of the smallest example, where the proof has the first; and the learner's own line
OF_THE_EXAMPLE = ("sizes", "called", "got", "expected", "differs", "at", "it was at")
FULL = dict(sizes="a", called=["a"], got="a", expected="a", difference="a", explanation="a", where="a", printed="a")
LABELS = {row.label for said in ("a", "did not end within 1 s") for row in Failure("a", message=said, reached=said == "a", **FULL).rows()}
ROW = re.compile(rf"^  ({'|'.join(sorted(LABELS, reverse=True))}) +(\S.*(?:\n {{12}}.*)*)", re.MULTILINE)


def without_numbers(text):
    return re.sub(r"[\d.]+", "0", dense(text))


def test_what_a_check_says_about_a_known_mistake_is_tried(kit):
    for name in ("softmax", "merge_heads"):
        exercise = load_syllabus().exercise(name)
        subjects = mistakes(exercise)[:2]
        [(_, results)] = try_all([TryJob(name, False, 0, tuple(subjects), quick=True)], 1)
        for subject, tried in zip(subjects, results, strict=True):
            texts = {without_numbers(text) for of_kind in texts_of(exercise, tried.shown).values() for text in of_kind}
            kit.file(exercise.module).write_text(subject.text, encoding="utf-8")
            [(reply, failed)] = ask(kit, ("check", name))
            rows = [row for row in ROW.findall(reply) if row[0] not in OF_THE_EXAMPLE]
            assert not failed and {label for label, _ in rows} >= {"promised"}, reply
            for label, text in rows:
                said = without_numbers(text).removesuffix("…")  # a page shortens a long row
                assert any(said in each for each in texts), (subject.name, label, text)
            [says] = [each.says for each in misconceptions(exercise.module, name) if each.id == subject.name]
            assert dense(says) in dense(reply)


def test_a_name_with_a_null_byte_gets_a_sentence(module_kit):
    for reply, failed in ask(module_kit, ("check", "softmax\0"), ("hint", "softmax\0--level")):
        assert failed and "the name contains a null byte; `headway list` lists the names" in reply
