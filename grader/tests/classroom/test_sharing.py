"""A class with stubs, copies and changed functions, graded with and without shared results: the files are the same, byte for byte, and the runs are fewer."""

from dataclasses import replace

import pytest
from example_class import digest_of
from grade_command import exports, hand_in, mistake
from grader.classroom.grade import grade_class
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.person_lookup import find_person
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.dispatch import Dispatcher
from grader.classroom.judging.interrupted_run import zero_verdict
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.seeds import pool_of_seeds
from grader.classroom.judging.sharing import Planner
from grader.course.source import replace_definition
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict
from kit_copy import posix
from pytest_runs import grade, solution

pytestmark = posix
NAMES = ("softmax", "causal_mask", "scaled_dot_product_attention", "split_heads")
GRADED = [load_syllabus().exercise(name) for name in NAMES]
SECRET = "of the instructor"
RIGHT = solution("ch03")
STUB = (EXERCISES / "ch03_attention.py").read_text(encoding="utf-8")
HELPER = """def softmax(x, dim=-1):
    return shares(x, dim)


def shares(x, dim):
    largest = x.amax(dim, keepdim=True).detach()
    e = (x - largest.masked_fill(largest == -math.inf, 0)).exp()
    total = e.sum(dim, keepdim=True)
    return e / total.masked_fill(total == 0, 1)"""
SHORTCUT = "def softmax(x, dim=-1):\n    return torch.softmax(x, dim)"


def with_softmax(text: str, softmax: str) -> str:
    return replace_definition(text, "softmax", softmax)


PEOPLE = {
    "01 right": RIGHT,  # 4 exercises are judged
    "02 copied": f"# my own work\n{RIGHT}",  # none
    "03 stub": STUB,  # 4
    "04 stub and comments": STUB.replace("def causal_mask", "# to do\n\ndef causal_mask"),  # none
    "05 begun": with_softmax(STUB, HELPER),  # softmax, and nothing else: the others are stubs
    "06 helper": with_softmax(RIGHT, HELPER),  # the attention, which uses softmax; softmax is the one of 05
    "07 helper changed": with_softmax(RIGHT, HELPER.replace("== -math.inf", "< -1e9")),  # softmax and the attention
    "08 wrong": mistake("softmax"),  # softmax and the attention
    "09 wrong, elsewhere": f"\n\n{mistake('softmax')}",  # softmax: what a learner reads about a failure has lines
    "10 unusual": f"{RIGHT}\n\nseen = []\n\n\ndef note(x):\n    seen.append(x)\n",  # 4
    "11 broken": f"{RIGHT}\nimport nothing_like_it\n",  # 4
    "12 shortcut": with_softmax(RIGHT, SHORTCUT),  # softmax and the attention
    "13 begun, and half a class": with_softmax(STUB, HELPER).replace("from torch import Tensor, nn", "from torch import Tensor, nn  # modules"),  # none
}
JUDGED = [4, 0, 4, 0, 1, 1, 2, 2, 1, 4, 4, 2, 0]


def submissions(people: dict[str, str] = PEOPLE) -> list[Submission]:
    return [Submission(name, {"ch03_attention": text}, digest=digest_of(text), slug=name.replace(" ", "-")) for name, text in people.items()]


class Recorder:
    """Grades with a dispatcher, and records which exercises are judged."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher, self.judged = dispatcher, []

    def grade(self, submission, part):
        self.judged.append((submission.name, part.exercises))
        return self.dispatcher.grade(submission, part)

    def close(self):
        pass


@pytest.fixture(scope="module")
def dispatcher():
    made = Dispatcher(available(), list(NAMES), 0)
    yield made
    made.close()


def graded(dispatcher, folder, people=None, share=True, exercises=GRADED):
    recorder = Recorder(dispatcher)
    with Gradebook(folder, SECRET) as book:
        outcome = grade_class(people or submissions(), book, exercises, 0, Rules(), folder, recorder, 1, share=share)
    assert outcome.exercises_judged == sum(len(names) for _, names in recorder.judged)
    return outcome, dict(recorder.judged)


@pytest.fixture(scope="module")
def shared(dispatcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    return folder, *graded(dispatcher, folder), exports(folder)


def test_equal_exercises_are_judged_once(shared):
    _, outcome, judged, _ = shared
    assert [len(judged.get(name, ())) for name in PEOPLE] == JUDGED
    assert (outcome.exercises_judged, outcome.exercises_shared) == (sum(JUDGED), 4 * len(PEOPLE) - sum(JUDGED))
    totals = {person.name: person.total.earned for person in outcome.graded_class.people}
    assert totals["01 right"] == totals["07 helper changed"] > totals["08 wrong"] == totals["09 wrong, elsewhere"] > totals["05 begun"] > totals["03 stub"] == 0


@pytest.mark.thorough
def test_marks_and_files_are_those_of_a_class_without_sharing(dispatcher, shared, tmp_path):
    _, _, _, one = shared
    alone, all_judged = graded(dispatcher, tmp_path, share=False)
    assert (alone.exercises_judged, alone.exercises_shared) == (4 * len(PEOPLE), 0) and all(len(names) == 4 for names in all_judged.values())
    other = exports(tmp_path)
    assert one.keys() == other.keys() and [name for name in one if one[name] != other[name]] == []


def test_a_second_run_judges_only_what_a_new_submission_changed(dispatcher, shared):
    folder, *_ = shared
    new = RIGHT.replace("def split_heads", "# better\ndef split_heads").replace("x.view(", "x.reshape(")
    new = replace_definition(new, "causal_mask", replaced_mask())
    _, judged = graded(dispatcher, folder, submissions(PEOPLE | {"01 right": new}))
    assert judged == {"01 right": ["causal_mask", "scaled_dot_product_attention"]}


def replaced_mask() -> str:
    return "def causal_mask(q_len, k_len=None):\n    k_len = q_len if k_len is None else k_len\n    return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)"


def test_a_whole_chapter_is_shared_with_its_failures(dispatcher, shared):
    """Another submission with the same chapter and one more file: all that a learner reads is the same."""
    folder, *_ = shared
    [wrong] = [one for one in submissions() if one.name == "08 wrong"]
    more = replace(wrong, sources=wrong.sources | {"ch02_embeddings": "import torch\n"}, digest=digest_of("more"), name="08 more", slug="08-more")
    again, judged = graded(dispatcher, folder, [wrong, more])
    assert judged == {} and again.exercises_shared == 4
    one, other = again.graded_class.people
    assert one.results == other.results and one.total == other.total and one.results[0].failures


def test_nothing_is_shared_where_other_exercises_of_the_chapter_are_graded(dispatcher, shared):
    """Whether an exercise that the graded one uses fails is then found in another order."""
    folder, *_ = shared
    _, judged = graded(dispatcher, folder, submissions({"99 other": f"{RIGHT}# other\n"}), exercises=GRADED[:2])
    assert judged == {"99 other": ["softmax", "causal_mask"]}


def test_what_somebody_asks_for_again_is_judged_again(dispatcher, shared):
    folder, *_ = shared
    graded(dispatcher, folder)
    with Gradebook(folder) as book:
        assert book.delete_verdicts(find_person(book, "02 copied").slug) == ["02 copied"]
    assert graded(dispatcher, folder)[1] == {"02 copied": list(NAMES)}
    assert graded(dispatcher, folder)[1] == {}


def test_a_run_that_breaks_off_costs_all_points_as_without_sharing(shared):
    folder, *_ = shared

    class Interrupted(Recorder):
        def grade(self, submission, part):
            self.judged.append((submission.name, part.exercises))
            return zero_verdict(submission, NAMES, "it crashed")

    recorder = Interrupted(None)
    with Gradebook(folder) as book:
        people = submissions({"98 crash": with_softmax(RIGHT, HELPER.replace("== 0", "< 1e-30"))})
        outcome = grade_class(people, book, GRADED, 0, Rules(), folder, recorder, 1)
    assert recorder.judged == [("98 crash", ["softmax", "scaled_dot_product_attention"])]
    [person] = outcome.graded_class.people
    assert outcome.exercises_shared == 2 and person.total.earned == 0 and {result.outcome for result in person.results} == {"error"}


def test_known_results_do_not_count_for_a_chapter_that_does_not_import(shared):
    folder, *_ = shared

    class Broken(Recorder):
        def grade(self, submission, part):
            self.judged.append((submission.name, part.exercises))
            return Verdict([ExerciseResult(exercise) for exercise in GRADED if exercise.name in part.exercises], {"ch03_attention": Failure("", "no")})

    recorder = Broken(None)
    with Gradebook(folder) as book:
        people = submissions({"97 broken": with_softmax(RIGHT, HELPER.replace("== 0", "< 1e-20"))})
        outcome = grade_class(people, book, GRADED, 0, Rules(), folder, recorder, 1)
    assert [names for _, names in recorder.judged] == [["softmax", "scaled_dot_product_attention"], list(NAMES)]
    assert outcome.graded_class.people[0].total.earned == 0 and outcome.graded_class.people[0].broken


def test_examples_depend_on_the_code_and_on_the_secret_only(dispatcher, shared, tmp_path):
    """A copy of the gradebook, or another gradebook with its secret, draws the same examples; any other one does not."""
    with Gradebook(shared[0]) as book:
        plans = {one.name: Planner(book, GRADED, 0, share=False).plan(one).part.seeds for one in submissions()}
    assert plans["01 right"] == plans["02 copied"] and plans["03 stub"] == plans["04 stub and comments"]
    assert plans["05 begun"]["softmax"] == plans["06 helper"]["softmax"] and plans["10 unusual"].keys() == set(NAMES)
    with Gradebook(tmp_path) as other:
        assert other.secret != SECRET and len(other.secret) == 32
        found = Planner(other, GRADED, 0).plan(submissions()[0]).part.seeds
    assert not set(found.values()) & {seed for plan in plans.values() for seed in plan.values()}


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
    outcome, _ = graded(dispatcher, tmp_path / "grades", submissions({"prepared": text}), exercises=GRADED[:1])
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
