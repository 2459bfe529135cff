"""Everybody gets examples that cannot be found in the kit, and equal code gets equal examples."""

import pytest
from grade_command import hand_in, mistake
from grader.classroom.exports import write_feedback
from grader.classroom.gradebook import Gradebook
from grader.classroom.grading import store_verdicts
from grader.classroom.intake.submissions import Submission, hash_content
from grader.classroom.judging.dispatch import EXAMPLE_SETS, Dispatcher, exercise_seed, pool_of_seeds, seeds_of
from grader.classroom.judging.rules import Rules
from grader.course.syllabus import load_syllabus
from grader.execution.sandbox.isolation import available
from grader.verdict.last_verdicts import versions
from kit_copy import posix
from pytest_runs import grade, solution

pytestmark = posix
SECRET = "of the instructor"
SOFTMAX = load_syllabus().exercise("softmax")
RIGHT = solution("ch03")


def submission(name: str, text: str, **more: str) -> Submission:
    sources = {"ch03_attention": text} | more
    return Submission(name, sources, digest=hash_content(sources, {}, ""), slug=name)


def graded(folder, *people: Submission):
    """The people of a class that was graded in softmax; their feedback lies in this folder."""
    dispatcher = Dispatcher(available())
    try:
        with Gradebook(folder, SECRET) as book:
            book.start_run(0, [SOFTMAX], versions())
            store_verdicts(book, book.submissions_to_do(people), dispatcher, 1)
            found = book.graded_class(Rules())
        write_feedback(found, folder)
        return found.people
    finally:
        dispatcher.close()


def test_the_secret_and_the_content_choose_one_of_a_few_sets_of_examples():
    pool = pool_of_seeds("secret", 0, "softmax")
    chosen = [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    assert set(chosen) == set(pool) and len(set(pool)) == EXAMPLE_SETS and 0 not in pool
    assert chosen == [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    others = [pool_of_seeds("another secret", 0, "softmax"), pool_of_seeds("secret", 1, "softmax"), pool_of_seeds("secret", 0, "causal_mask")]
    assert all(set(pool).isdisjoint(other) for other in others)
    assert max(pool) < 2**56 + 1 and len(str(min(pool))) > 10


def test_examples_depend_on_the_code_and_on_the_secret_only(tmp_path):
    """A copy of the gradebook draws the same examples; another one does not."""
    with Gradebook(tmp_path / "one", SECRET) as one, Gradebook(tmp_path / "other") as other:
        assert one.secret == SECRET and len(other.secret) == 32
        found = [seeds_of(submission("a", RIGHT), [SOFTMAX], book.secret, 0)["softmax"] for book in (one, other)]
    assert found[0] != found[1]
    for text, is_equal in ((f"# my own work\n{RIGHT}", True), (mistake("softmax"), False)):
        seeds = seeds_of(submission("b", text, ch02_embeddings="import torch\n"), [SOFTMAX], SECRET, 0)
        assert (seeds["softmax"] == found[0]) == is_equal


REMEMBERING = """

right = softmax


def softmax(x, dim=-1):
    with open("inputs.txt", "a") as file:
        print(x.double().sum().item(), dim, file=file)
    return right(x, dim)
"""
ANSWERING = """

right, KNOWN = softmax, {known!r}


def softmax(x, dim=-1):
    return right(x, dim) * (1 if f"{{x.double().sum().item()}} {{dim}}" in KNOWN else 2)
"""


@pytest.mark.thorough
def test_answers_prepared_for_the_common_examples_fail_and_feedback_names_the_seed(tmp_path):
    """The common examples are public; a gradebook's others are not. `pytest --seed` with the named seed fails in the same way."""
    target = tmp_path / "exercises"
    hand_in(tmp_path, "exercises", RIGHT + REMEMBERING)
    arguments = ("--target", str(target), "--exercise", "softmax")
    assert grade(*arguments, results=tmp_path / "right.json", cwd=tmp_path).results["earned"] > 0
    text = RIGHT + ANSWERING.format(known=set((tmp_path / "inputs.txt").read_text().splitlines()))
    hand_in(tmp_path, "exercises", text)
    common = grade(*arguments, results=tmp_path / "common.json").results
    assert common["earned"] == common["points"]
    prepared, wrong = graded(tmp_path / "grades", submission("prepared", text), submission("wrong", mistake("softmax")))
    [result] = prepared.results
    [seed] = {test.seed for test in result.failures}
    assert seed in pool_of_seeds(SECRET, 0, "softmax") and result.outcome == "failed"
    feedback = (tmp_path / "grades" / "feedback" / "prepared.md").read_text(encoding="utf-8")
    assert f"`python -m pytest --exercise softmax --seed {seed}` draws them again" in feedback
    again = grade(*arguments, "--seed", str(seed), results=tmp_path / "again.json").results["exercises"][0]
    assert {test["name"]: test["outcome"] for test in again["tests"]} == {test.name: test.outcome for test in result.tests}
    assert wrong.results[0].outcome == "failed"
    common = (tmp_path / "grades" / "feedback" / "wrong.md").read_text(encoding="utf-8")
    assert "the same examples" in common and "--seed" not in common, "the seeds would help to prepare answers, and are not needed for common examples"
