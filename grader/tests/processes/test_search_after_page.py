"""A page does not wait for the search for a known mistake, unless one alone explains everything; its name comes later.

In these copies of the kit a page waits 0 s, so that this happens on every machine.
"""

import json
import signal
import subprocess
import sys

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target, reference_of
from grader.runner.graded_run import PAGE_SECONDS
from grader.runner.judging import judge_of
from grader.verdict.diagnosis import Search, SearchStopped
from grader.verdict.trial import Trial
from kit_copy import posix
from unlisted_mistakes import TOP_K_ALL_WRONG, TOP_K_WITH_A_WAY_OF_ITS_OWN
from warm_runs import WarmKit
from watching import STUB, WHOLE, nothing_remains, watching

NAME = "The k-th token is removed as well"
STILL = "Still looking for a known mistake that explains this"
NONE = "No known mistake explains the failures of top_k_filter."
CHAPTER = "ch09_sampling"


@pytest.fixture(scope="module")
def impatient(module_kit):
    return made_impatient(module_kit)


def made_impatient(kit):
    edit(kit, "grader/runner/graded_run.py", f"PAGE_SECONDS = {PAGE_SECONDS}", "PAGE_SECONDS = 0.0")
    return kit


def made_endless(kit):
    """After the page, the search takes until it is stopped."""
    step = "        solution, *others = self.bases\n"
    wait = "        while True:\n            time.sleep(0.1)\n            self._check_time()\n"
    edit(kit, "grader/verdict/diagnosis.py", step, step + wait)
    return made_impatient(kit)


def edit(kit, name, old, new):
    text = (kit.root / name).read_text()
    assert text.count(old) == 1
    (kit.root / name).write_text(text.replace(old, new))


def write(kit, code):
    kit.solve(CHAPTER)
    path = kit.file(CHAPTER)
    path.write_text(replace_definition(path.read_text(), "top_k_filter", code.strip() + "\n"))


def run_pytest(kit, *more):
    command = [sys.executable, "-m", "pytest", "--exercise", "top_k_filter", *more]
    done = subprocess.run(command, cwd=kit.root, env=kit.environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", ["headway", "pytest"])
@pytest.mark.parametrize(("code", "then"), [(TOP_K_WITH_A_WAY_OF_ITS_OWN, NAME), (TOP_K_ALL_WRONG, NONE)])
def test_the_name_is_printed_below_the_page(impatient, command, code, then):
    write(impatient, code)
    text = impatient.run("check", "top_k_filter", status=1) if command == "headway" else run_pytest(impatient)
    page, still, below = text.partition(STILL)
    assert "FAILED  test_the_k_greatest_keep_their_values" in page and "Next: fix `top_k_filter`" in page
    assert still and NAME not in page and then in below
    assert ("── top_k_filter: a known mistake ──" in below) == (then is NAME)


def test_a_known_mistake_that_explains_everything_is_on_the_page(impatient):
    impatient.edit("ch03_attention", STUB, WHOLE)
    text = impatient.run("check", "softmax", status=1)
    assert text.index("The whole tensor sums to 1") < text.index("FAILED") and STILL not in text


def test_a_results_file_waits_for_the_name(impatient, tmp_path):
    write(impatient, TOP_K_WITH_A_WAY_OF_ITS_OWN)
    text = run_pytest(impatient, f"--results={tmp_path / 'results.json'}")
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["exercises"][0]["diagnosis"]["says"].startswith(NAME) and STILL not in text


def test_the_last_verdict_of_a_run_has_the_name(impatient):
    write(impatient, TOP_K_WITH_A_WAY_OF_ITS_OWN)
    server = WarmKit(impatient)
    try:
        assert server.ask("top_k_filter").result("top_k_filter").diagnosis.says.startswith(NAME)
    finally:
        server.close()


def test_a_search_that_was_stopped_goes_on_without_trying_anything_twice():
    exercise = load_syllabus().exercise("top_k_filter")
    text = replace_definition(reference_of(CHAPTER).text, "top_k_filter", TOP_K_WITH_A_WAY_OF_ITS_OWN.strip() + "\n")
    judge = judge_of(Trial(Target("mistaken", None, {CHAPTER: text})))
    judge.run_tests(judge.tests_of(exercise))
    tried = []

    def at_most_seven(work, versions):
        for number, version in enumerate(versions):
            if number == 7:
                raise SearchStopped
            tried.append((work, version))
            yield work(version)

    at_once = Search(exercise, judge.run.trial.records["top_k_filter"]).run()
    search, stops, found = Search(exercise, judge.run.trial.records["top_k_filter"], at_most_seven), 0, None
    while found is None:
        try:
            found = search.run()
        except SearchStopped:
            stops += 1
    assert found == at_once and found.id == "k_threshold_goes_too" and stops > 2
    steps = [(work.__name__, version) for work, version in tried]
    assert len(set(steps)) == len(steps)
    judge.close()


@posix
@pytest.mark.alone
def test_control_c_during_the_search_keeps_the_verdict(kit):
    write(made_endless(kit), TOP_K_WITH_A_WAY_OF_ITS_OWN)
    command = [sys.executable, "-u", "-m", "grader.cli", "check", "top_k_filter"]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(command, cwd=kit.root, env=kit.environment(), start_new_session=True, **pipes) as process:
        said = ""
        while STILL not in said:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert process.returncode == 1 and "0/16" in said and not rest.strip() and not errors


@posix
@pytest.mark.alone
def test_the_watch_shows_the_page_then_the_name(kit):
    write(made_impatient(kit), TOP_K_WITH_A_WAY_OF_ITS_OWN)
    with watching(kit, "top_k_filter") as terminal:
        terminal.wait("FAILED test_the_k_greatest_keep_their_values")
        shown = terminal.wait(NAME)
        assert shown.index(NAME) < shown.index("FAILED")
        assert "looking for" not in terminal.wait(lambda frame: "looking for" not in frame)


@posix
@pytest.mark.alone
def test_a_new_save_ends_the_search(kit):
    write(made_endless(kit), TOP_K_WITH_A_WAY_OF_ITS_OWN)
    with watching(kit, "top_k_filter") as terminal:
        terminal.wait("looking for a known mistake")
        kit.edit(CHAPTER, "logits > logits", "logits >= logits")
        passed = terminal.wait("top_k_filter works")
        assert "looking for" not in passed
    assert nothing_remains(kit)
