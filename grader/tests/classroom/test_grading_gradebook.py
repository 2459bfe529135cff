"""The gradebook: a class is graded once, whatever happens to the grader meanwhile."""

import subprocess
import sys
from decimal import Decimal

from example_class import EXERCISES, RULES, a_class, submission, verdict_of
from gradebook_runs import exported, graded, start_gradebook
from grader.classroom.gradebook import UNFINISHED, Gradebook
from grader.classroom.judging.dispatch import zero_verdict
from grader.classroom.judging.marks import Mark
from grader.verdict.last_verdicts import versions
from grader.verdict.results import Failure

# ---- stored results


def test_verdicts_are_restored_without_their_seconds(tmp_path):
    one = submission("Alpha")
    stored = verdict_of(one.digest, seconds=3.5)
    stored.broken["ch03_attention"] = Failure("", message="invalid syntax", where="ch03_attention.py, line 3")
    stored.results[0].partial, stored.results[0].missing_weight = True, 4.0
    stored.notes.append("slow")
    book, todo, said = start_gradebook(tmp_path, [one])
    with book:
        assert todo == [one] and said == ""
        book.store_verdict(one.digest, stored)
    book, todo, said = start_gradebook(tmp_path, [one])
    with book:
        [person] = book.graded_class(RULES).people
    assert todo == [] and said == ""
    for result in stored.results:
        for test in result.tests:
            test.seconds = 0.0
    assert list(person.results) == stored.results and person.broken == stored.broken and person.notes == ("slow",)


def test_an_interrupted_submission_earns_nothing_and_is_graded_again_only_on_request(tmp_path):
    one = submission("Alpha", slug="Alpha", sources={EXERCISES[0].module: ""})
    found = zero_verdict(one, [exercise.name for exercise in EXERCISES], "it crashed")
    assert [result.exercise.name for result in found.results] == [exercise.name for exercise in EXERCISES if exercise.module in one.sources] != []
    book, _, _ = start_gradebook(tmp_path, [one])
    with book:
        book.store_verdict(one.digest, found)
        assert book.submissions_to_do([one]) == []
        made = exported(book, tmp_path)
        [person] = book.graded_class(RULES).people
        assert person.total.earned == 0 and not person.problem
        assert "Grading was interrupted twice: it crashed." in made["feedback/Alpha.md"].decode() and b"it crashed" in made["grades.csv"]
        book.delete_verdicts(book.find_person("Alpha").slug)
        assert book.submissions_to_do([one]) == [one]


def test_an_ungraded_submission_has_a_message_and_the_next_run_tries_again(tmp_path):
    people = [submission("Alpha"), submission("Beta", problem="beta.zip is empty"), submission("Gamma"), submission("Zeta", "Gamma")]
    book, todo, _ = start_gradebook(tmp_path, people)
    with book:
        assert [one.name for one in todo] == ["Alpha", "Gamma"]
        book.store_verdict(todo[0].digest, "the grader's process ended while it tested this")
        assert [person.problem for person in book.graded_class(RULES).people] == ["the grader's process ended while it tested this", "beta.zip is empty", UNFINISHED, UNFINISHED]
        assert {person.total for person in book.graded_class(RULES).people} == {Mark(Decimal(0), Decimal(8) * len(EXERCISES))}
        assert [one.name for one in book.submissions_to_do(people)] == ["Alpha", "Gamma"]
        book.store_verdict(todo[0].digest, verdict_of(todo[0].digest))
        assert [one.name for one in book.submissions_to_do(people)] == ["Gamma"]
        assert [person.problem for person in book.graded_class(RULES).people] == ["", "beta.zip is empty", UNFINISHED, UNFINISHED]


# ---- other conditions


def test_results_of_other_conditions_are_reported_and_never_mixed(tmp_path):
    people = a_class(4)
    assert graded(tmp_path, people) == 3
    book, todo, said = start_gradebook(tmp_path, people, seed=1, torch="2.14.0")
    with book:
        assert said == "Changed since the last run: seed (0, now 1) and torch (2.13.0, now 2.14.0). Earlier results do not count any more, so everything is graded now."
        assert len(todo) == 3 and {person.problem for person in book.graded_class(RULES).people} == {UNFINISHED, people[-1].problem}
    assert graded(tmp_path, people) == 3


def test_additional_exercises_are_graded_and_fewer_need_no_grading(tmp_path):
    people = a_class(4)
    assert graded(tmp_path, people, exercises=EXERCISES[:2]) == 3
    book, todo, said = start_gradebook(tmp_path, people, exercises=EXERCISES)
    with book:
        assert said == "New in this run: split_heads and LayerNorm. Submissions without results for these exercises are graded now." and len(todo) == 3
        for one in todo:
            book.store_verdict(one.digest, verdict_of(one.digest))
    book, todo, said = start_gradebook(tmp_path, people, exercises=EXERCISES[1:])
    with book:
        person = book.graded_class(RULES).people[1]
    assert todo == [] and [result.exercise for result in person.results] == list(EXERCISES[1:]) and len(person.marks) == 3


FINGERPRINT = """
from pathlib import Path
from grader.verdict.last_verdicts import versions
shown = ("console/output.py", "models/design.py", "classroom/similarity/comparison.py", "tests/conftest.py")
for names in ([*(f"grader/{name}" for name in shown), "exercises/ch03_attention.py"],
              ["tests/test_ch03_attention_scores.py"], ["solutions/ch03_attention.py"], ["grader/verdict/comparing.py"], ["exercises/syllabus.toml"]):
    before = versions()["kit"]
    for name in names:
        with open(name, "a", encoding="utf-8") as file:
            file.write("\\n# more\\n")
    print(versions()["kit"] != before)
"""


def test_the_kits_fingerprint_changes_with_everything_that_affects_marks(kit):
    done = subprocess.run([sys.executable, "-c", FINGERPRINT], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", *["True"] * 4]
    assert set(versions()) == {"kit", "python", "torch", "pytest", "hypothesis"}


# ---- the secret


def test_the_secret_is_made_once(tmp_path):
    secrets = []
    for folder in (tmp_path, tmp_path, tmp_path / "other"):
        with Gradebook(folder) as book:
            secrets.append(book.secret)
    assert secrets[0] == secrets[1] != secrets[2] and all(len(secret) == 32 for secret in secrets)
