"""A class with stubs, copies and changed chapters, graded with and without shared results: the files are the same, byte for byte, and the runs are fewer."""

import pytest
from example_class import one_test
from grade_command import exports, hand_in, mistake
from grader.classroom.grade import grade_class
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import Submission, hash_content
from grader.classroom.judging.dispatch import Dispatcher, zero_verdict
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.sharing import EXAMPLE_SETS, Plan, Planner, exercise_seed, pool_of_seeds
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict
from kit_copy import posix
from pytest_runs import grade, solution

pytestmark = posix
NORM, ATTENTION = ["LayerNorm"], ["softmax", "causal_mask"]
NAMES = [exercise.name for exercise in load_syllabus().exercises if exercise.name in NORM + ATTENTION]
GRADED = [load_syllabus().exercise(name) for name in NAMES]
MODULES = {name: load_syllabus().exercise(name).module for name in NAMES}
SECRET = "of the instructor"
RIGHT = solution("ch03")
STUB = (EXERCISES / "ch03_attention.py").read_text(encoding="utf-8")
RIGHT_NORM = solution(load_syllabus().exercise("LayerNorm").chapter)
STUB_NORM = (EXERCISES / f"{MODULES['LayerNorm']}.py").read_text(encoding="utf-8")
NO_IMPORT = f"{RIGHT}\nimport nothing_like_it\n"


def chapters(attention: str | None, norm: str | None, **more: str) -> dict[str, str]:
    texts = {MODULES["softmax"]: attention, MODULES["LayerNorm"]: norm}
    return {module: text for module, text in texts.items() if text is not None} | more


PEOPLE = {
    "01 right": chapters(RIGHT, RIGHT_NORM),
    "02 with a comment": chapters(f"# my own work\n{RIGHT}", RIGHT_NORM),
    "03 stub": chapters(RIGHT, STUB_NORM),
    "04 wrong": chapters(mistake("softmax"), STUB_NORM),
    "05 wrong, and one more file": chapters(mistake("softmax"), STUB_NORM, ch02_embeddings="import torch\n"),
    "06 without a file": chapters(RIGHT, None),
    "07 stub, without a file": chapters(STUB, None),
    "08 without the other file": chapters(None, RIGHT_NORM),
    "09 does not import": chapters(NO_IMPORT, RIGHT_NORM),
    "10 does not import either": chapters(NO_IMPORT, STUB_NORM),
}
JUDGED = [NAMES, ATTENTION, NORM, ATTENTION, [], NORM, ATTENTION, ATTENTION, ATTENTION, ATTENTION]


def submissions(people: dict[str, dict[str, str]] = PEOPLE) -> list[Submission]:
    return [Submission(name, texts, digest=hash_content(texts, {}, ""), slug=name.replace(" ", "-")) for name, texts in people.items()]


class Recorder:
    """Grades with a dispatcher, and records which exercises are judged."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher, self.judged = dispatcher, []

    def grade(self, submission, seeds):
        self.judged.append((submission.name, list(seeds)))
        return self.dispatcher.grade(submission, seeds)

    def close(self):
        pass


@pytest.fixture(scope="module")
def dispatcher():
    made = Dispatcher(available(), NAMES, 0)
    yield made
    made.close()


def graded(dispatcher, folder, people=None, exercises=GRADED):
    recorder = Recorder(dispatcher)
    with Gradebook(folder, SECRET) as book:
        outcome = grade_class(people or submissions(), book, exercises, 0, Rules(), folder, recorder, 1)
    assert outcome.exercises_judged == sum(len(names) for _, names in recorder.judged)
    return outcome, dict(recorder.judged)


@pytest.fixture(scope="module")
def shared(dispatcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    return folder, *graded(dispatcher, folder), exports(folder)


def test_a_chapter_with_the_same_text_is_judged_once(shared):
    _, outcome, judged, _ = shared
    assert {name: sorted(judged.get(name, ())) for name in PEOPLE} == dict(zip(PEOPLE, map(sorted, JUDGED), strict=True))
    assert outcome.exercises_shared == len(NAMES) * len(PEOPLE) - sum(map(len, JUDGED))
    people = {person.name: person for person in outcome.graded_class.people}
    totals = [person.total.earned for person in people.values()]
    assert totals[0] == totals[1] > totals[2] == totals[5] > totals[3] == totals[4] > totals[6] == 0 < totals[7] == totals[8]
    one, other = people["04 wrong"], people["05 wrong, and one more file"]
    assert one.results == other.results and any(result.failures for result in one.results)


@pytest.mark.thorough
def test_marks_and_files_are_those_of_a_class_without_sharing(dispatcher, shared, tmp_path, monkeypatch):
    _, _, _, one = shared
    monkeypatch.setattr(Gradebook, "equal_results", lambda *_: [])
    alone, all_judged = graded(dispatcher, tmp_path)
    assert alone.exercises_shared == 0 and all(len(names) == len(NAMES) for names in all_judged.values())
    other = exports(tmp_path)
    assert one.keys() == other.keys() and [name for name in one if one[name] != other[name]] == []


def test_a_second_run_judges_only_the_chapter_that_changed(dispatcher, shared):
    folder, *_ = shared
    new = chapters(f"{RIGHT}\n# better\n", RIGHT_NORM)
    assert graded(dispatcher, folder, submissions(PEOPLE | {"01 right": new}))[1] == {"01 right": ATTENTION}


def test_results_of_more_exercises_count_for_fewer_and_not_the_other_way_round(dispatcher, tmp_path):
    softmax, both = [load_syllabus().exercise("softmax")], [load_syllabus().exercise(name) for name in ATTENTION]
    one, other, third = submissions({str(number): chapters(RIGHT, None, ch02_embeddings=f"x = {number}\n") for number in range(3)})
    assert graded(dispatcher, tmp_path, [one], softmax)[1] == {"0": ["softmax"]}
    assert graded(dispatcher, tmp_path, [other], both)[1] == {"1": ATTENTION}
    assert graded(dispatcher, tmp_path, [third], softmax)[1] == {}


def test_what_somebody_asks_for_again_is_judged_again(dispatcher, shared):
    folder, *_ = shared
    graded(dispatcher, folder)
    with Gradebook(folder) as book:
        assert book.delete_verdicts(book.find_person("03 stub").slug) == ["03 stub"]
    assert graded(dispatcher, folder)[1] == {"03 stub": NAMES}
    assert graded(dispatcher, folder)[1] == {}


def test_a_run_that_breaks_off_costs_all_points_as_without_sharing(dispatcher, tmp_path):
    class Interrupted(Recorder):
        def grade(self, submission, seeds):
            self.judged.append((submission.name, list(seeds)))
            return zero_verdict(submission, NAMES, "it crashed")

    graded(dispatcher, tmp_path, submissions({"01 right": PEOPLE["01 right"]}))
    for text in ("# crash", "# another crash"):
        recorder = Interrupted(None)
        with Gradebook(tmp_path) as book:
            people = submissions({"98 crash": chapters(f"{RIGHT}\n{text}\n", RIGHT_NORM)})
            outcome = grade_class(people, book, GRADED, 0, Rules(), tmp_path, recorder, 1)
        [person] = outcome.graded_class.people
        assert recorder.judged == [("98 crash", ATTENTION)] and outcome.exercises_shared == 1
        assert person.total.earned == 0 and {result.outcome for result in person.results} == {"error"}


@pytest.mark.parametrize("outcome", ["passed", "failed", "todo", "timeout", "error", "skipped"])
def test_a_result_that_could_be_another_one_tomorrow_is_not_shared(outcome):
    results = [ExerciseResult(exercise, [one_test(exercise, 1, outcome if exercise.name == "softmax" else "passed")]) for exercise in GRADED]
    plan = Plan({}, [], {module: module for module in MODULES.values()})
    stable = set(MODULES.values()) if outcome in ("passed", "failed", "todo") else {MODULES["LayerNorm"]}
    assert set(plan.chapters_to_share(Verdict(results))) == stable
    assert plan.chapters_to_share(Verdict(results, notes=["unusual"])) == []
    assert MODULES["LayerNorm"] not in plan.chapters_to_share(Verdict(results, {MODULES["LayerNorm"]: Failure("", "no")}))
    results[NAMES.index("LayerNorm")].partial = True
    assert MODULES["LayerNorm"] not in plan.chapters_to_share(Verdict(results))


# ---- seeds


def test_the_secret_and_the_content_choose_one_of_a_few_sets_of_examples():
    pool = pool_of_seeds("secret", 0, "softmax")
    chosen = [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    assert set(chosen) == set(pool) and len(set(pool)) == EXAMPLE_SETS and 0 not in pool
    assert chosen == [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    others = [pool_of_seeds("another secret", 0, "softmax"), pool_of_seeds("secret", 1, "softmax"), pool_of_seeds("secret", 0, "causal_mask")]
    assert all(set(pool).isdisjoint(other) for other in others)
    assert max(pool) < 2**56 + 1 and len(str(min(pool))) > 10


def test_examples_depend_on_the_code_and_on_the_secret_only(tmp_path):
    """A copy of the gradebook, or another gradebook with its secret, draws the same examples; any other one does not."""
    found = {}
    for folder, secret in (("one", SECRET), ("other", "")):
        with Gradebook(tmp_path / folder, secret) as book:
            assert len(book.secret) == (len(SECRET) if secret else 32)
            found[folder] = {one.name: Planner(book, GRADED, 0).plan(one).seeds for one in submissions()}
    one, other = found["one"]["04 wrong"], found["one"]["05 wrong, and one more file"]
    assert one == other and one.keys() == set(NAMES) and one["LayerNorm"] == found["one"]["03 stub"]["LayerNorm"]
    assert found["one"]["01 right"] == found["one"]["02 with a comment"] and one["softmax"] != found["one"]["01 right"]["softmax"]
    assert not {seed for seeds in found["one"].values() for seed in seeds.values()} & {seed for seeds in found["other"].values() for seed in seeds.values()}


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
def test_answers_prepared_for_the_common_examples_fail_and_feedback_names_the_seed(dispatcher, tmp_path):
    """The common examples are public; a gradebook's others are not. `pytest --seed` with the named seed fails in the same way."""
    target = tmp_path / "exercises"
    hand_in(tmp_path, "exercises", RIGHT + REMEMBERING)
    arguments = ("--target", str(target), "--exercise", "softmax")
    assert grade(*arguments, "--no-recordings", results=tmp_path / "right.json", cwd=tmp_path).results["earned"] > 0
    text = RIGHT + ANSWERING.format(known=set((tmp_path / "inputs.txt").read_text().splitlines()))
    hand_in(tmp_path, "exercises", text)
    common = grade(*arguments, results=tmp_path / "common.json").results
    assert common["earned"] == common["points"]
    outcome, _ = graded(dispatcher, tmp_path / "grades", submissions({"prepared": chapters(text, None)}), [load_syllabus().exercise("softmax")])
    [result] = outcome.graded_class.people[0].results
    [seed] = {test.seed for test in result.failures}
    assert seed in pool_of_seeds(SECRET, 0, "softmax") and result.outcome == "failed"
    feedback = (tmp_path / "grades" / "feedback" / "prepared.md").read_text(encoding="utf-8")
    assert f"`python -m pytest --exercise softmax --seed {seed}` draws them again" in feedback
    again = grade(*arguments, "--seed", str(seed), results=tmp_path / "again.json").results["exercises"][0]
    assert {test["name"]: test["outcome"] for test in again["tests"]} == {test.name: test.outcome for test in result.tests}


def test_feedback_on_common_examples_names_no_seed(shared):
    """The seeds of the further examples would help to prepare answers, and they are not needed here."""
    texts = [data.decode() for name, data in shared[3].items() if name.startswith("feedback/")]
    assert any("the same examples" in text for text in texts) and not any("--seed" in text for text in texts)
