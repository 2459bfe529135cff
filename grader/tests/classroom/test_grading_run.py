"""`headway grade` over a small class, as an instructor uses it: real processes, real loops, real kills."""

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from grade_command import (
    ENDLESS,
    EXERCISES_ASKED,
    MODULE,
    command,
    count_graded,
    exports,
    hand_in,
    headway,
    headway_process,
    make_class,
    marks,
    mistake,
    until,
)
from grader.classroom.intake.reader import read_submissions
from grader.classroom.judging.dispatch import Dispatcher
from grader.course.known_mistakes import misconceptions
from grader.course.source import definition
from grader.execution.sandbox.isolation import Isolation, available
from grader.verdict.results import Verdict
from linux_processes import command_line, descendants, still_running
from pytest_runs import environment, grade, solution

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")

CONTENTS = 7


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return make_class(tmp_path_factory.mktemp("class") / "submissions")


@pytest.fixture(scope="module")
def once(people):
    """The class, graded two at a time without interruption."""
    out = people.parent / "grades"
    return out, headway_process("grade", people, "--out", out, *EXERCISES_ASKED, "-j", 2)


def test_a_class_gets_its_marks(once):
    out, ran = once
    assert ran.status == 1, ran.out  # two submissions contain nothing that can be graded
    assert {name: (row["softmax"], row["causal_mask"]) for name, row in marks(out).items()} == {
        "Broken": ("0", "0"), "Endless": ("10", "0"), "Nothing": ("0", "0"), "Right": ("10", "7"), "Segfault": ("10", "0"), "Shortcut": ("0", "7"),
        "Stub": ("0", "0"), "Twin": ("10", "7"), "Unreadable": ("0", "0"), "Wrong": ("10", "0"),
    }  # fmt: skip
    assert f"10 people, {CONTENTS} submissions graded now, 17 points possible." in ran.out
    assert "\nNot graded: Unreadable: the archive is damaged or incomplete; submit it again.\n" in ran.out and "Not graded: Nothing: nothing was" in ran.out
    assert ran.out.startswith("graded 0 of 7\n") and "graded 7 of 7" in ran.out and "\x1b" not in ran.out


def test_feedback_says_what_happened(once):
    out, _ = once
    feedback = {path.stem: path.read_text(encoding="utf-8") for path in (out / "feedback").glob("*.md")}
    assert "nothing_like_it" in feedback["Broken"]
    assert "did not end within 5 s" in feedback["Endless"] and "segmentation fault" in feedback["Segfault"]
    assert "torch.softmax" in feedback["Shortcut"]
    (known,) = misconceptions(MODULE, "causal_mask")[:1]
    assert " ".join(known.says.split()) in " ".join(feedback["Wrong"].split())
    assert " ".join(known.says.split()) in " ".join((out / "gradescope" / "Wrong.json").read_text(encoding="utf-8").split())
    assert feedback["Twin"].replace("Twin", "Right") == feedback["Right"]
    assert (out / "report.html").stat().st_size > 10_000


def test_graded_submissions_are_not_graded_again(people, once):
    out, _ = once
    before = exports(out)
    ran = headway("grade", people, "--out", out, *EXERCISES_ASKED)
    assert ran.status == 1 and "10 people, 0 submissions graded now" in ran.out and "graded 0 of" not in ran.out
    assert exports(out) == before


@pytest.mark.thorough
def test_a_stopped_or_killed_run_continues(people, once, tmp_path):
    """Control-C while Endless is graded, SIGKILL near the end; one at a time, although the uninterrupted run graded two."""
    out = tmp_path / "grades"
    stored = 0
    for signum, wanted, status in ((signal.SIGINT, 1, 130), (signal.SIGKILL, 3, -signal.SIGKILL)):
        grader = subprocess.Popen(
            command("grade", people, "--out", out, *EXERCISES_ASKED, "-j", 1),
            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=_interruptible,
        )  # fmt: skip
        until(lambda wanted=wanted: count_graded(out) >= wanted, f"{wanted} graded")
        members = descendants(grader.pid)
        grader.send_signal(signum)
        said = grader.communicate(timeout=120)[0]
        assert grader.returncode == status, said
        assert members and "Traceback" not in said
        until(lambda members=members: not still_running(members), "the server, its zygotes and workers to go")
        stored = count_graded(out)
        assert wanted <= stored < CONTENTS
    assert not (out / "grades.csv").exists()
    ran = headway("grade", people, "--out", out, *EXERCISES_ASKED, "-j", 1)
    left = CONTENTS - stored
    assert ran.status == 1 and f"10 people, {left} submission{'s' * (left > 1)} graded now" in ran.out, ran.out
    assert exports(out) == exports(once[0])


def _interruptible() -> None:
    """Restore Control-C: tests that are started in the background begin with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.thorough
def test_only_changed_and_named_submissions_are_graded(once, people, tmp_path):
    shutil.copytree(people, tmp_path / "submissions")
    shutil.copytree(once[0], tmp_path / "grades")
    people, out = tmp_path / "submissions", tmp_path / "grades"
    hand_in(people, "Wrong", solution("ch03") + "\n# better now\n")
    ran = headway("grade", people, "--out", out, *EXERCISES_ASKED)
    assert "10 people, 1 submission graded now" in ran.out and marks(out)["Wrong"]["total"] == "17", ran.out
    before = exports(out)
    ran = headway("regrade", "Twin", "--out", out)
    assert "Right, Twin submitted the same content" in ran.out and "10 people, 1 submission graded now" in ran.out, ran.out
    assert exports(out) == before


@pytest.mark.thorough
def test_marks_equal_those_of_pytest(tmp_path):
    """One chapter with four mistakes in it, one with a loop and a crash: through `headway grade`, and through pytest's workers."""
    right = solution("ch03")
    several = right
    for exercise in ("softmax", "split_heads", "padding_mask", "scaled_dot_product_attention"):
        several += f"\n\n{definition(mistake(exercise), exercise).text}\n"
    hand_in(tmp_path / "class", "Several", several)
    hand_in(tmp_path / "class", "Loops", right + ENDLESS.format("merge_heads") + "\n\ndef split_heads(*_):\n    import os\n    os._exit(3)\n")
    ran = headway("grade", tmp_path / "class", "--out", tmp_path / "grades", "--chapters", "ch03")
    assert ran.status == 0, ran.out
    for name in ("Several", "Loops"):
        run = grade("--target", str(tmp_path / "class" / name), "--chapter", "ch03", "--worker", results=tmp_path / f"{name}.json")
        expected = {exercise["name"]: exercise["earned"] for exercise in run.results["exercises"]}
        row = marks(tmp_path / "grades")[name]
        assert {exercise: float(row[exercise]) for exercise in expected} == pytest.approx(expected, abs=0.011)
        assert 0 < float(row["total"]) < 100


# ---- a server that is lost


def named(people: Path, *names: str):
    found = {submission.name: submission for submission in read_submissions(people)}
    return [found[name] for name in names]


@pytest.mark.thorough
def test_a_server_that_is_lost_costs_no_points(people):
    """Two endless submissions are graded at once and their server is killed; each is graded again by itself."""
    dispatcher = Dispatcher(available())
    [endless] = named(people, "Endless")
    other = replace(endless, sources={MODULE: solution("ch03") + ENDLESS.format("softmax")})
    with ThreadPoolExecutor(2) as pool:
        try:
            running = [pool.submit(dispatcher.grade, submission, {"softmax": 1, "causal_mask": 1}) for submission in (endless, other)]
            until(lambda: len(_runs(dispatcher)) == 2, "a server with two runs")
            dispatcher.servers[-1].process.kill()
            answers = [future.result(240) for future in running]
            assert [sorted(verdict.outcomes.values()) for verdict in answers] == [["passed", "timeout"]] * 2
        finally:
            dispatcher.close()


def _runs(dispatcher: Dispatcher) -> list[int]:
    """The runs of the newest server: the processes with its own name."""
    server = dispatcher.servers[-1] if dispatcher.servers else None
    if not (server and server.ready and server.alive):
        return []
    own = command_line(server.process.pid)
    return [pid for pid in descendants(server.process.pid) if own and command_line(pid) == own]


@pytest.mark.thorough
def test_a_run_that_breaks_off_or_takes_too_long_and_the_way_without_forks(people):
    """One server forks, the others have prestarted processes, without a sandbox (as on macOS and Windows) or with it; the results are the same.

    A run that is killed is started once more by its own server; only then it gets a verdict without points.
    One of the exercises belongs to a chapter that no person handed in.
    """
    seeds = {"softmax": 1, "causal_mask": 1, "gelu": 1}
    forks, *prestarted = Dispatcher(available()), *(Dispatcher(isolation, 600, "--prestarted") for isolation in (Isolation(), available()))
    right, wrong, endless = named(people, "Right", "Wrong", "Endless")
    with ThreadPoolExecutor(2) as pool:
        try:
            lost = pool.submit(forks.grade, endless, seeds)
            _kill_its_run(forks, servers=1)
            _kill_its_run(forks, servers=2)
            broken_off = lost.result(60)
            assert sorted(broken_off.outcomes.items()) == [("causal_mask", "error"), ("softmax", "error")]
            assert [test.message for found in broken_off.results for test in found.tests] == [
                "Grading was interrupted twice: it was killed (SIGKILL), perhaps because memory ran out."
            ] * 2
            forks.seconds = 1.0
            asked_again = pool.submit(forks.grade, endless, seeds)
            _kill_its_run(forks, servers=1)
            late = asked_again.result(240)
            assert {found.tests[-1].message for found in late.results[1:]} == {"Not run: the time for one submission was over."}
            forks.seconds = 600.0
            for dispatcher, submission in zip(prestarted, (right, wrong)):
                assert _timeless(dispatcher.grade(submission, seeds)) == _timeless(forks.grade(submission, seeds))
            found = forks.grade(wrong, seeds)
            assert found.result("causal_mask").diagnosis and found.outcomes["gelu"] == "todo"
        finally:
            for dispatcher in (forks, *prestarted):
                dispatcher.close()


def _kill_its_run(dispatcher: Dispatcher, servers: int) -> None:
    """Kill the only run of the newest server, once there are that many servers."""
    until(lambda: len(dispatcher.servers) == servers and _runs(dispatcher), f"a run of server number {servers}")
    os.kill(_runs(dispatcher)[0], signal.SIGKILL)


def _timeless(verdict: Verdict) -> dict:
    return Verdict([replace(found, tests=[replace(test, seconds=0) for test in found.tests]) for found in verdict.results], verdict.broken).as_data()


SURROUNDED = """
import sys
from grader.execution.sandbox import landlock
from grader.system import kernel
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
for _ in range(16):  # as many as the kernel allows to nest; these forbid only making devices
    made = kernel.system_call(444, landlock._Ruleset(1 << 11), 8, 0)
    kernel.system_call(446, made, 0)
sys.argv[0] = "headway"
from grader.cli.main import main
main()
"""


@pytest.mark.skipif(not available(bubblewrap=False).landlock, reason="there is no Landlock here")
@pytest.mark.thorough
def test_a_sandbox_failure_gives_no_one_zero_points(tmp_path):
    """The kernel refuses the workers' own Landlock; once the kernel accepts it again, the same command grades."""
    hand_in(tmp_path / "class", "Right", solution("ch03"))
    arguments = ("grade", tmp_path / "class", "--out", tmp_path / "grades", "--exercises", "causal_mask")
    ran = subprocess.run([sys.executable, "-c", SURROUNDED, *map(str, arguments)], env=environment(), capture_output=True, text=True, timeout=240)
    feedback = " ".join(ran.stdout.split())
    assert ran.returncode == 1 and "Not graded: Right: the process for your code did not start: the sandbox could not be set up" in feedback, ran
    assert "the next run tries again" in feedback
    ran = headway(*arguments)
    assert ran.status == 0 and marks(tmp_path / "grades")["Right"]["total"] == "7", ran.out


# ---- wrong use


def test_require_isolation_refuses_if_a_layer_is_missing(people, tmp_path):
    ran = headway_process("grade", people, "--out", tmp_path / "grades", "--require-isolation", PATH=str(tmp_path))
    assert ran.status == 2 and "--require-isolation: bubblewrap is off" in ran.out and not (tmp_path / "grades").exists()


def test_wrong_use_gives_one_sentence(people, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").write_text("no folder", encoding="utf-8")
    wrong = {
        ("grade", tmp_path / "nowhere"): "does not exist",
        ("grade", tmp_path / "empty"): "contains no submissions",
        ("grade", people, "--exercises", "sofmax"): "did you mean softmax",
        ("grade", people, "--out", tmp_path / "a file"): "a file",
        ("grade", people, "--out", people / "grades"): "is inside the folder with the submissions",
        ("regrade", "Alpha", "--out", tmp_path / "empty"): "is not a folder that `headway grade` has written to; choose the right one with --out, or with --assignment",
    }
    for arguments, sentence in wrong.items():
        ran = headway(*arguments, *(() if "--out" in arguments else ("--out", tmp_path / "grades")))
        assert ran.status == 2 and sentence in " ".join(ran.out.split()) and len(ran.out.strip().splitlines()) <= 4, (arguments, ran)
