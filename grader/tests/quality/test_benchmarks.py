"""`make bench` for real, on a small scale: it measures what it claims to measure. What it and `make proof` print."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from grader.tests.quality import benchmarks, proof
from grader.tests.quality.benchmarks import feedback, grading
from grader.tests.quality.benchmarks.figures import format_seconds, run_by_name, table
from grader.tests.quality.benchmarks.workplace import copied_kit
from grader.tests.quality.proof import running
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


def package(folder, monkeypatch, **modules) -> ModuleType:
    """A package with these modules."""
    (folder / "measured").mkdir()
    for name, text in modules.items():
        (folder / "measured" / f"{name}.py").write_text(text)
    (folder / "measured" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("measured")


def test_the_first_line_says_how_long_the_chosen_ones_take(tmp_path, monkeypatch, capsys):
    text = "MINUTES = {}\ndef run(arguments):\n    print('row', arguments)\n    return 0\n"
    made = package(tmp_path, monkeypatch, slow=text.format(200), quick=text.format(1), shared="x = 1\n")
    try:
        for arguments, says in (
            ([], "about 3.4 hours on two idle processors, by MINUTES in each module (in minutes: quick 1, slow 200)."),
            (["quick"], "about 1 minute on two idle processors, by MINUTES in each module."),
            (["slow", "--few"], "about 3.3 hours without these options on two"),
        ):  # fmt: skip
            assert run_by_name(made, "benchmark", arguments) == 0
            first, *rows = capsys.readouterr().out.split("\n")
            assert says in first and rows[0] == f"row {arguments[1:]}", first
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "measured"]:
            del sys.modules[name]


@pytest.mark.parametrize("kind", [benchmarks, proof])
def test_each_benchmark_and_proof_has_its_minutes(kind):
    modules = [importlib.import_module(f"{kind.__name__}.{one.name}") for one in pkgutil.iter_modules(kind.__path__) if one.name[0] != "_"]
    assert all(isinstance(module.MINUTES, int) and module.MINUTES > 0 for module in modules if hasattr(module, "run"))


def test_a_row_is_written_when_it_is_measured_also_into_a_pipe(tmp_path):
    """The benchmark goes on only after its first row was read."""
    (tmp_path / "measured").mkdir()
    waits = "import sys\nMINUTES = 1\ndef run(arguments):\n    print('first')\n    return int(sys.stdin.readline() != 'read\\n')\n"
    for name, text in (("__init__", ""), ("waits", waits)):
        (tmp_path / "measured" / f"{name}.py").write_text(text)
    program = "import measured, sys; from grader.tests.quality.benchmarks.figures import run_by_name; sys.exit(run_by_name(measured, 'benchmark', []))"
    command, paths = [sys.executable, "-c", program], os.pathsep.join([str(tmp_path), str(ROOT)])
    with subprocess.Popen(command, cwd=tmp_path, env=environment(PYTHONPATH=paths), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bench:
        end = threading.Timer(300, bench.kill)  # if no row came, this test would wait for ever
        end.start()
        rows = bench.stdout.readline(), bench.stdout.readline()
        end.cancel()
        assert "about 1 minute on" in rows[0] and rows[1] == "first\n"
        bench.communicate("read\n")
    assert bench.returncode == 0


def test_figures():
    assert [format_seconds(seconds) for seconds in (0.1804, 4.1234)] == ["180 ms", "4.12 s"]
    rows = [["a", "10"], ["long name", "2"]]
    assert table(["name", "n"], rows, words=1) == "| name      |    n |\n| ---       | ---: |\n| a         |   10 |\n| long name |    2 |"


# ---- what a proof prints while it runs


@dataclass
class Job:
    exercise: str
    seed: int = 0


def shown_before(monkeypatch, capsys, jobs, seeds=range(1)) -> list[str]:
    """What is printed before each result: the rows of what is done."""
    fails = SimpleNamespace(failed_tests={"test": "message"}), SimpleNamespace(failed_tests={})
    monkeypatch.setattr(running, "try_all", lambda jobs, at_once: ((job, fails) for job in jobs))
    options = SimpleNamespace(jobs=1, seeds=seeds, began=time.monotonic())
    return [capsys.readouterr().out for _ in running.results_of(jobs, options)] + [capsys.readouterr().out]


def test_an_exercise_is_printed_as_soon_as_all_its_jobs_are_done(monkeypatch, capsys):
    shown = shown_before(monkeypatch, capsys, [Job("gelu"), Job("softmax"), Job("gelu")])
    assert [re.sub(r"\(.*", "", one).strip() for one in shown] == [
        "", "", "1 of 2: softmax: 2 tried, 1 with failed tests", "2 of 2: gelu: 4 tried, 2 with failed tests",
    ]  # fmt: skip


def test_with_several_seeds_each_seed_is_printed(monkeypatch, capsys):
    shown = shown_before(monkeypatch, capsys, [Job("gelu", 0), Job("softmax", 0), Job("gelu", 1)], range(2))
    assert "1 of 2: seed 0: 4 tried, 2 with failed tests" in shown[2] and "2 of 2: seed 1: 2 tried" in shown[3]
