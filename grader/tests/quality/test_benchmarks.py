"""`make bench` for real, on a small scale: it measures what it claims to measure."""

import re
import subprocess
import sys

import pytest
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from grader.tests.quality import benchmarks
from grader.tests.quality.benchmarks import feedback, grading
from grader.tests.quality.benchmarks.figures import format_seconds, run_by_name, table
from grader.tests.quality.benchmarks.workplace import copied_kit
from pytest_runs import environment

TIME = r"[\d.]+ m?s"
SOME = ("--runs", "1", "--exercise", "causal_mask")


def bench(*arguments, cwd=ROOT, module="grader.tests.quality.benchmarks", **more):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip


@pytest.mark.thorough
def test_feedback_measures_a_save(capfd):
    before = {path: path.stat().st_mtime_ns for path in EXERCISES.glob("ch*.py")}
    assert run_by_name(benchmarks, "benchmark", ["feedback", *SOME]) == 0
    out = capfd.readouterr().out
    assert re.search(rf"^\| ch03 +\| causal_mask \| +{TIME} \| +{TIME} \| +{TIME} \| +yes \|$", out, re.M), out
    assert len(re.findall(r"^→ .*\.$", out, re.M)) == 3 and "1 of 1 mistakes named." in out
    first_line = rf"^→ The first failing line: {TIME} in the median exercise; the goal is {round(feedback.GOAL_FIRST_LINE_SECONDS * 1000)} ms: (not )?met\.$"
    assert re.search(first_line, out, re.M)
    assert {path: path.stat().st_mtime_ns for path in EXERCISES.glob("ch*.py")} == before


@pytest.mark.thorough
def test_feedback_by_chapter_compares_with_a_cold_pytest(capfd):
    assert run_by_name(benchmarks, "benchmark", ["feedback", "--by-chapter", "--exercise", "build_vocab", "--runs", "1"]) == 0
    out = capfd.readouterr().out
    row = re.search(rf"^\| ch01 +\| +({TIME}) \| +({TIME}) \| +([\d.]+) \|$", out, re.M)
    assert row and float(row[3]) > 1, out
    assert re.search(rf"^→ After a save: {re.escape(row[3])} times a cold pytest in the median chapter, .*: (not )?met\.$", out, re.M), out


@pytest.mark.thorough
def test_grading_measures_the_command():
    done = bench("grading", "--one", "3", "--whole", "0", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rate = rf"^→ One exercise: [\d.]+ submissions a second; the goal is {grading.GOAL_RATE} on two processors: (not )?met\.$"
    assert re.search(rate, done.stdout, re.M)
    start = rf"^→ The start before it takes {TIME}; the goal is {grading.GOAL_START_SECONDS} s: (not )?met\.$"
    assert re.search(start, done.stdout, re.M)


@pytest.mark.thorough
def test_a_timed_verdict_must_be_correct():
    with copied_kit() as root:
        solution = root / "solutions" / "ch03_attention.py"
        text = solution.read_text(encoding="utf-8")
        body = text.index("### BEGIN SOLUTION", text.index("def causal_mask("))
        solution.write_text(text[:body] + "return None\n    " + text[body:], encoding="utf-8")
        done = bench(*SOME, cwd=root, module="grader.tests.quality.benchmarks.feedback", PYTHONPATH=str(root))
    assert done.returncode == 1
    sentence = "feedback: causal_mask: the verdict should be 'passed', but is 'failed'"
    assert sentence in done.stderr, done.stdout + done.stderr


@pytest.mark.thorough
def test_commands_are_measured():
    done = bench("commands", "--runs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    took = re.findall(rf"^→ `headway([^`]*)` takes {TIME}.*; the goal is [\d.]+ s: (?:not )?met\.$", done.stdout, re.M)
    assert len(took) == 9 and " hunt softmax" in took and " try-test softmax" in took


@pytest.mark.thorough
def test_chat_is_compared_with_transformers_where_the_weights_are():
    done = bench("chat", "--tokens", "8", "--rounds", "1")
    measured = "of transformers' speed" in done.stdout and "Reading the file and building the model take" in done.stdout
    measured = measured and "of the speed of free writing; the goal is 0.9" in done.stdout and "a form of 10 fields (" in done.stdout
    assert done.returncode == 0 and (measured or "chat: not measured, the weights of SmolLM2 are not installed" in done.stdout), done.stdout + done.stderr


@pytest.mark.thorough
def test_wrong_use_changes_no_file_of_the_kit(capsys):
    assert run_by_name(benchmarks, "benchmark", ["feedbak"]) == 2
    assert "there are chat, commands, feedback, grading" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run_by_name(benchmarks, "benchmark", ["feedback", "--exercise", "causal_mas"])
    assert "did you mean causal_mask" in capsys.readouterr().err
    done = bench(*SOME, module="grader.tests.quality.benchmarks.feedback")
    assert done.returncode == 1 and "makes a copy first" in done.stderr, done.stdout + done.stderr


def test_the_copy_has_every_exercise_done():
    with copied_kit() as root:
        files = [root / "exercises" / f"{chapter.name}.py" for chapter in load_syllabus().chapters]
        texts = [path.read_text(encoding="utf-8") for path in files]
    assert not any("NotImplementedError" in text or "SOLUTION" in text for text in texts)
    assert not root.exists()


def test_figures():
    assert [format_seconds(seconds) for seconds in (0.1804, 4.1234)] == ["180 ms", "4.12 s"]
    rows = [["a", "10"], ["long name", "2"]]
    assert table(["name", "n"], rows, words=1) == "| name      |    n |\n| ---       | ---: |\n| a         |   10 |\n| long name |    2 |"
