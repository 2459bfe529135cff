"""`make bench` for real, on a small scale: it measures what it claims to measure. The times themselves are not checked."""

import re
import subprocess
import sys

import pytest
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from grader.quality.benchmarks import boundary, feedback
from grader.quality.benchmarks.by_name import one_after_another
from grader.quality.benchmarks.figures import format_seconds, table
from grader.quality.benchmarks.workplace import copied_kit
from pytest_runs import environment

pytestmark = pytest.mark.thorough

SOME = ("--runs", "1", "--exercise", "causal_mask")


def bench(*arguments, cwd=ROOT, module="grader.quality.benchmarks", **more):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(**more), capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=300)


def untouched():
    return {path: path.stat().st_mtime_ns for path in EXERCISES.glob("ch*.py")}


def test_feedback_measures_a_save_against_a_cold_run(capsys):
    before = untouched()
    assert one_after_another({"feedback": lambda _: feedback.run([*SOME])}) == 0
    out = capsys.readouterr().out
    time = r"[\d.]+ m?s"
    assert re.search(r"^chapter +exercise +tests +cold +save to verdict +ratio", out, re.M), out
    first = re.search(rf"^ch03 +causal_mask +\d+ +({time}) +({time}) +([\d.]+) ", out, re.M)
    assert first, out
    cold, warm = (float(number) * (1 if unit == "s" else 1e-3) for number, unit in map(str.split, first.groups()[:2]))
    assert abs(float(first[3]) - cold / warm) <= 0.06 * cold / warm
    assert re.search(rf"^ch03 +causal_mask +\d+ +{time} .*{time}.* yes$", out, re.M), out
    assert re.search(r"^→ From a save to the verdict, in the median chapter: [\d.]+ times as fast as a cold pytest; the goal is 15: (not )?met\.$", out, re.M)
    assert re.search(rf"^→ Right code: {time} in the median exercise, {time} in the slowest; the goal for the median is 100 ms: (not )?met\.$", out, re.M)
    assert re.search(rf"^→ The first failing line: {time} in the median exercise; the goal is 80 ms: (not )?met\.$", out, re.M)
    assert re.search(rf"^→ The watch's start takes {time}, with a first verdict; the first save after it {time}, a later one {time} \(causal_mask\)\.$", out, re.M)
    assert "1 of 1 mistakes named." in out
    assert untouched() == before
    found = re.findall(r"^→ (.*)$", out, re.M)
    assert len(found) == 8
    assert out.endswith("\n".join(["Summary:", *[f"- {line}" for line in found], ""]))


def test_grading_measures_the_server_against_a_process_each():
    done = bench("grading", "--one", "2", "--whole", "0", "--cold", "1", "--submissions", "4", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    time = r"([\d.]+) (m?s)"
    row = re.search(rf"^one exercise +\d+ +{time} +{time} +{time} +{time} +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
    assert row, done.stdout
    cold, _, per_submission, _ = (float(row[place]) * (1 if row[place + 1] == "s" else 1e-3) for place in (1, 3, 5, 7))
    assert abs(float(row[10]) - cold / per_submission) <= 0.06 * cold / per_submission and abs(float(row[9]) - 60 / per_submission) <= 0.06 * 60 / per_submission
    assert re.search(r"^→ Grading, one exercise: \d+ times as fast as a pytest process each\.$", done.stdout, re.M)
    assert re.search(r"^→ That is [\d.]+ submissions a second; the goal, on two processors, is 25: (not )?met\.$", done.stdout, re.M)
    assert re.search(rf"^→ The dispatcher was ready after {time}; the goal is 2 s: (not )?met\.$", done.stdout, re.M)
    assert re.search(r"^→ From the first 2 of them to the last, memory grew by -?\d+ MB in the grader, -?\d+ MB in the dispatcher, ", done.stdout, re.M)
    assert "A class of 4 with softmax only" in done.stdout and re.search(r"^ +4 +[\d.]+ m?s( +\d+ MB){3}$", done.stdout, re.M), done.stdout


def test_the_boundary_is_measured_against_a_direct_call(capsys):
    assert boundary.run(["--calls", "3"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^→ A call through the boundary takes \d+ us in process and \d+ us in a worker; \d+ us of them are packing, \d+ us the call\.$", out, re.M), out


def test_a_timed_verdict_must_be_correct():
    with copied_kit() as root:
        solution = root / "solutions" / "ch03_attention.py"
        text = solution.read_text(encoding="utf-8")
        body = text.index("### BEGIN SOLUTION", text.index("def causal_mask("))
        solution.write_text(text[:body] + "return None\n    " + text[body:], encoding="utf-8")
        done = bench(*SOME, cwd=root, module="grader.quality.benchmarks.feedback", PYTHONPATH=str(root))
    assert done.returncode == 1
    assert "feedback: causal_mask: the verdict should be 'passed', but is 'failed'" in done.stderr, done.stdout + done.stderr


def test_a_kit_with_a_learners_work_is_not_measured():
    before = untouched()
    done = bench(*SOME, module="grader.quality.benchmarks.feedback")
    assert done.returncode == 1 and "makes a copy first" in done.stderr, done.stdout + done.stderr
    done = bench(module="grader.quality.benchmarks.grading")
    assert done.returncode == 1 and "makes a copy first" in done.stderr, done.stdout + done.stderr
    assert untouched() == before


def test_unknown_names():
    done = bench("feedbak")
    assert done.returncode == 2 and "there are boundary, feedback, grading" in done.stderr
    done = bench("feedback", "--exercise", "causal_mas")
    assert done.returncode == 2 and "did you mean causal_mask" in done.stderr


def test_the_copy_has_every_exercise_done():
    with copied_kit() as root:
        texts = [(root / "exercises" / f"{chapter.name}.py").read_text(encoding="utf-8") for chapter in load_syllabus().chapters]
    assert not any("NotImplementedError" in text or "SOLUTION" in text for text in texts)
    assert not root.exists()


def test_figures():
    assert [format_seconds(seconds) for seconds in (0.1804, 4.1234, float("nan"))] == ["180 ms", "4.12 s", ""]
    assert table(["name", "n"], [["a", "10"], ["long name", "2"]], words=1) == "name        n\na          10\nlong name   2"
