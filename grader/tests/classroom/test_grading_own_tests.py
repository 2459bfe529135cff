"""`headway grade --own-tests`: a class whose tests are graded, in real processes, and what they try to do there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from grade_command import Ran, command, count_graded, exports, headway, marks, until
from grader.classroom.intake.reader import read_submissions
from grader.classroom.judging import own_tests
from grader.classroom.judging.dispatch import GradeJob, zero_verdict
from grader.classroom.judging.marks import compute_mark
from grader.course.syllabus import load_syllabus
from grader.own_tests.trying import Outcome, OwnTestsPool
from grader.own_tests.versions import versions_of
from linux_processes import descendants, still_running
from pytest_runs import environment, solution

EXERCISE = load_syllabus().exercise("quantize_int8")
FILE = "test_quantize_int8.py"
GOOD = (Path(__file__).parents[1] / "own_tests" / "good" / "quantize_int8.py").read_text(encoding="utf-8")
ASKED = ("--own-tests", EXERCISE.name)
ZEROS = """\
import torch

def test_a_row_of_zeros(learner):
    codes, scale = learner.quantize_int8(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
"""
HALF = f"{ZEROS}    assert codes.tolist() == [[0, 0], [64, -127]] and scale.isfinite().all()\n"
PEOPLE = {
    "Good": GOOD,
    "Half": HALF,
    "Asserts": ZEROS,
    "Refuses": f"{HALF}    assert scale[0] != 1\n",
    "Reads": "import inspect\n\ndef test_a(learner):\n    assert 'abs' in inspect.getsource(learner.quantize_int8)\n",
}
MISTAKES = sum(not version.is_correct for version in versions_of(EXERCISE))
HALF_POINTS = f"{EXERCISE.points / 2:g}"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is no sandbox")


def hand_in(folder, name, text, file=FILE):
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / file).write_text(text, encoding="utf-8")


def make_class(folder, people):
    for name, text in people.items():
        hand_in(folder, name, text)
    return folder


def grade(people, out, *more) -> Ran:
    return headway("grade", people, "--out", out, *ASKED, *more)


def feedback(out):
    return {path.stem: " ".join(path.read_text(encoding="utf-8").split()) for path in (out / "feedback").glob("*.md")}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Six people; one has handed in no tests."""
    folder = make_class(tmp_path_factory.mktemp("class") / "submissions", PEOPLE)
    hand_in(folder, "Missing", solution("ch10"), "ch10_inference.py")
    return folder


@pytest.fixture(scope="module")
def once(people):
    out = people.parent / "grades"
    return out, grade(people, out)


def test_the_points_are_the_share_of_the_mistakes_that_are_found(once):
    out, ran = once
    assert {name: row["total"] for name, row in marks(out).items()} == {
        "Good": f"{EXERCISE.points:g}", "Half": HALF_POINTS, "Asserts": marks(out)["Asserts"]["total"], "Refuses": "0", "Reads": "0", "Missing": "0",
    }  # fmt: skip
    assert float(marks(out)["Asserts"]["total"]) < EXERCISE.points / 2  # for code that raises an error
    assert ran.status == 1 and "6 people, 5 submissions graded now" in ran.out, ran.out


def test_the_feedback_says_in_words_what_is_missing(once):
    said = feedback(once[0])
    assert f"`quantize_int8` {EXERCISE.points:g} of {EXERCISE.points:g}" in said["Good"]
    assert f"Your tests find {MISTAKES // 2} of {MISTAKES} known mistakes. The first one that gets through: " in said["Half"]
    first = [version.says for version in versions_of(EXERCISE) if not version.is_correct and version.says.split(":")[0] in said["Half"]]
    assert len(first) == 1
    assert "They assert nothing, so they find only code that raises an error." in said["Asserts"]
    assert "test_a_row_of_zeros fails on correct code (the greater of max and -min, computed in float64, and a scale of 1 for zero rows)." in said["Refuses"]
    assert "so your test forbids something that is allowed. Assert only what the exercise promises." in said["Refuses"] and f"{FILE}, line 6: assert scale[0] != 1" in said["Refuses"]
    assert "line 1: remove the import of inspect" in said["Reads"]
    assert "it contains no tests, only ch10\\_inference.py; name the files like test\\_softmax.py." in said["Missing"]
    assert all("headway try-test" in said[name] and "headway hint" not in said[name] for name in PEOPLE)
    assert "Your tests find" in (once[0] / "gradescope" / "Half.json").read_text(encoding="utf-8")


def test_graded_again_the_marks_are_the_same(once, people, tmp_path):
    before = exports(once[0])
    ran = grade(people, once[0])
    assert "0 submissions graded now" in ran.out and exports(once[0]) == before
    ran = headway("regrade", "Half", "--out", once[0])
    assert "1 submission graded now" in ran.out and exports(once[0]) == before


def test_grades_of_exercises_do_not_mix_with_those_of_tests(once, people):
    ran = headway("grade", people, "--out", once[0], "--exercises", EXERCISE.name)
    assert ran.status == 2 and "has the grades of own tests, and this run grades exercises; choose another --out" in " ".join(ran.out.split())


@pytest.mark.thorough
def test_anonymous_grading_shows_no_name(tmp_path):
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / f"Alphaname_{FILE}").write_text(HALF, encoding="utf-8")
    hand_in(folder, "Betaname", ZEROS, f"betaname_{FILE}")
    ran = grade(folder, tmp_path / "grades", "--anonymous")
    assert ran.status == 0 and HALF_POINTS in {row["total"] for row in marks(tmp_path / "grades").values()}, ran.out
    written = b"".join(exports(tmp_path / "grades").values()).lower()
    assert b"alphaname" not in written and b"betaname" not in written


@linux
@pytest.mark.thorough
def test_hostile_tests_cost_only_their_own_author(tmp_path):
    outside = tmp_path / "written"
    test = "import pathlib, signal, http.client, time, torch, faulthandler\n\ndef test_a(learner):\n    {}\n"
    bodies = {
        "Crashes": ("faulthandler._sigsegv()", "do not come to an end on the reference solution"),
        "Exits": ("raise SystemExit(0)", "fails on the reference solution"),
        "Floods": ("print('x' * 10**7); raise ValueError('y' * 10**7)", "fails on the reference solution"),
        "Kills": ("signal.raise_signal(9)", "do not come to an end on the reference solution"),
        "Loops": ("while True: pass", "it did not end within 10 s"),
        "Memory": ("kept = [torch.ones(10**8) for _ in range(100)]", "fails on the reference solution"),
        "Connects": ("http.client.HTTPConnection('127.0.0.1', 9).connect()", "fails on the reference solution"),
        "Writes": (f"pathlib.Path({str(outside)!r}).write_text('x')", "fails on the reference solution"),
        "Saves": (f"torch.save(1, {str(outside)!r})", "fails on the reference solution"),
        "Submissions": (f"assert pathlib.Path({str(tmp_path)!r}).exists()", "fails on the reference solution"),
        "Solutions": ("assert pathlib.Path('solutions').exists()", "fails on the reference solution"),
    }
    folder = make_class(tmp_path / "class", {name: test.format(body) for name, (body, _) in bodies.items()} | {"Good": GOOD})
    ran = grade(folder, tmp_path / "grades", "-j", 2)
    assert ran.status == 0, ran.out
    assert {name: row["total"] for name, row in marks(tmp_path / "grades").items()} == {name: "0" for name in bodies} | {"Good": f"{EXERCISE.points:g}"}
    said = feedback(tmp_path / "grades")
    assert {name: says for name, (_, says) in bodies.items() if says not in said[name]} == {}
    assert not outside.exists()


@linux
@pytest.mark.thorough
def test_an_interrupted_run_continues(once, people, tmp_path):
    out = tmp_path / "grades"
    grader = subprocess.Popen(
        command("grade", people, "--out", out, *ASKED, "-j", 1), env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )  # fmt: skip
    until(lambda: count_graded(out) >= 1, "one graded")
    members = descendants(grader.pid)
    grader.send_signal(signal.SIGINT)
    assert "Traceback" not in grader.communicate(timeout=120)[0] and grader.returncode == 130
    until(lambda: not still_running(members), "the server, its zygotes and workers to go")
    stored = count_graded(out)
    assert 1 <= stored < len(PEOPLE)
    ran = grade(people, out, "-j", 1)
    assert f"6 people, {len(PEOPLE) - stored} submission" in ran.out, ran.out
    assert exports(out) == exports(once[0])


# ---- a course


COURSE = """\
[points]
quantize_int8 = 20
[assignments.week3]
own_tests = ["quantize_int8"]
"""


@pytest.mark.thorough
def test_an_assignment_of_a_course_may_be_own_tests(tmp_path):
    (tmp_path / "course.toml").write_text(COURSE)
    folder = make_class(tmp_path / "class", {"Half": HALF, "Reads": PEOPLE["Reads"]})
    where = ("--course", tmp_path / "course.toml")
    ran = headway("grade", folder, *where, "--assignment", "week3")
    assert ran.status == 0 and marks(tmp_path / "grades" / "week3")["Half"]["total"] == "10", ran.out
    assert headway("marks", *where).status == 0
    assert "50" in (tmp_path / "grades" / "marks.csv").read_text(encoding="utf-8-sig")
    ran = headway("gradescope", tmp_path / "autograder.zip", *where, "--assignment", "week3")
    assert ran.status == 2 and "cannot grade own tests" in ran.out


@pytest.mark.parametrize(
    "more, says",
    [
        ('exercises = ["softmax"]', "[assignments.week3] own_tests does not go with exercises; make two assignments"),
        ('hidden = ["quantize_int8"]', "[assignments.week3] own_tests does not go with hidden; make two assignments"),
        ("own_tests = 3", "is not a list of names"),
        ('own_tests = ["sofmax"]', "did you mean softmax?"),
    ],
)
def test_a_course_says_what_does_not_go_together(tmp_path, more, says):
    text = COURSE.rpartition("own_tests")[0] if more.startswith("own_tests") else COURSE
    (tmp_path / "course.toml").write_text(f"{text}{more}\n")
    ran = headway("course", "check", tmp_path / "course.toml")
    assert ran.status == 1 and says in " ".join(ran.out.split()), ran.out


# ---- the command


@pytest.mark.parametrize(
    "options, says",
    [
        ((*ASKED, "--exercises", "softmax"), "--own-tests alone says which exercises are graded; leave out --chapters and --exercises, or --own-tests"),
        ((*ASKED, "--chapters", "ch03"), "--own-tests alone says which exercises are graded"),
        (("--own-tests", "ch03"), "ch03"),
        (("--own-tests", "sofmax"), "did you mean softmax?"),
        ((*ASKED, "--dask", "tcp://127.0.0.1:9"), "leave out --dask"),
        ((*ASKED, "--whole"), "No such option: --whole"),
    ],
)
def test_wrong_combinations_get_one_sentence(tmp_path, options, says):
    hand_in(tmp_path / "class", "Half", HALF)
    ran = headway("grade", tmp_path / "class", "--out", tmp_path / "grades", *options)
    assert ran.status == 2 and says in " ".join(ran.out.split()), ran.out


def test_tests_beside_chapters_change_nothing_when_exercises_are_graded(tmp_path):
    for name in ("alone", "both"):
        hand_in(tmp_path / name, "Alphaname", solution("ch03"), "ch03_attention.py")
    hand_in(tmp_path / "both", "Alphaname/my_tests", HALF)
    (alone,), (both,) = (read_submissions(tmp_path / name) for name in ("alone", "both"))
    assert (alone.digest, alone.notes, alone.sources) == (both.digest, both.notes, both.sources)
    assert both.with_tests().sources == {"test_quantize_int8": HALF} and alone.with_tests().problem.startswith("it contains no tests")


def test_the_newest_copy_in_an_archive_or_a_folder_is_read(tmp_path):
    hand_in(tmp_path, "Alphaname", HALF, "test_quantize_int8 (2).py")
    hand_in(tmp_path, "Betaname/deep/er", HALF, "BETA_TEST_QUANTIZE_INT8.PY")
    hand_in(tmp_path, "Gammaname", "", FILE)
    alpha, beta, gamma = (one.with_tests() for one in read_submissions(tmp_path))
    assert alpha.sources == beta.sources == {"test_quantize_int8": HALF}
    assert f"{FILE} is empty" in gamma.problem


# ---- one verdict


class SilentReport:
    def extend_deadline(self, seconds: float) -> None:
        assert seconds > 0


def judge(pool, seconds=60.0, seed=1, **sources):
    job = GradeJob(sources, {}, [EXERCISE.name], 0, seconds, seeds={EXERCISE.name: seed}, own_tests=True)
    (result,) = own_tests.judge_own_tests(job, SilentReport(), pool).results
    return result


def test_what_is_not_tried_in_time_is_not_found():
    pool = OwnTestsPool()
    try:
        result = judge(pool, seconds=0.0, test_quantize_int8=HALF)
    finally:
        pool.close()
    assert compute_mark(result, 10).earned == 0
    assert result.failures[0].message == f"Your tests find 0 of {MISTAKES} known mistakes. Time ran out before {MISTAKES} of them were tried."


def test_the_order_of_the_versions_depends_on_the_secret_seed(monkeypatch):
    """A test could wait for a time of the day, pass for two seconds and fail from then on."""
    orders = []

    def try_all(pool, exercise, text, file, versions, at_once):
        orders.append([version.says for version in versions])
        yield from ((version, Outcome(ran=1, failed=None if version.is_correct else "test_a")) for version in versions)

    monkeypatch.setattr(own_tests, "try_versions", try_all)
    results = [judge(None, seed=seed, test_quantize_int8=HALF) for seed in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    assert all(compute_mark(result, 10).earned == 10 for result in results)
    correct = [version.says for version in versions_of(EXERCISE) if version.is_correct]
    assert orders[0][0] == correct[0] and set(orders[0][: len(correct)]) != set(correct)


def test_several_exercises_are_graded_apart():
    job = GradeJob({}, {"test_softmax": "test_softmax.py is empty"}, ["softmax", "route"], 0, 60.0, seeds={"softmax": 1, "route": 1}, own_tests=True)
    softmax, route = own_tests.judge_own_tests(job, SilentReport(), None).results
    assert softmax.failures[0].message == "test_softmax.py is empty"
    assert route.outcome == "todo" and route.tests[0].message == "test_route.py was not handed in"


def test_a_run_that_is_interrupted_twice_earns_nothing(tmp_path):
    hand_in(tmp_path, "Alphaname", HALF)
    (one,) = read_submissions(tmp_path)
    (result,) = zero_verdict(one.with_tests(), [EXERCISE.name], "it crashed").results
    assert compute_mark(result, 10).earned == 0
