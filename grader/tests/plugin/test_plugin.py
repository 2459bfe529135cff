"""pytest as learners and instructors run it: real runs on small targets."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from boundaries import forks
from grader.course.progress import format_points
from grader.course.source import replace_definition
from grader.course.syllabus import ROOT, UnknownName, load_syllabus
from grader.execution.target import NoTarget, resolve
from kit_copy import posix
from pytest_runs import Run, environment, grade, graded_exercises, module, solution

SCHEMA = json.loads((ROOT / "grader" / "verdict" / "results.schema.json").read_text(encoding="utf-8"))
WRONG_SOFTMAX = '''def softmax(x, dim=-1):
    print("\\x1b[31mlooking at", x.shape)
    return torch.exp(x - x.amax(dim, keepdim=True))
'''
CRASHING_SPLIT = '''def split_heads(x, n_heads):
    return x.reshape(-1, "heads")  # here
'''
WATCHED_MERGE = '''def merge_heads(x):
    if "SEEN" in os.environ:
        with open(os.environ["SEEN"], "a") as file:
            print(float(x.sum()), file=file)
    return x.transpose(1, 2).flatten(2)
'''
OTHER_PROJECT = {"conftest.py": "raise RuntimeError('not yours')\n", "pytest.ini": "[pytest]\naddopts = --no-such-option\npython_files = *.py\n"}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Outside the kit: chapter 1 is not Python, chapter 3 is wrong in two places. Another project surrounds it."""
    folder = tmp_path_factory.mktemp("elsewhere") / "my work"
    folder.mkdir()
    third = replace_definition(replace_definition(solution("ch03"), "softmax", WRONG_SOFTMAX), "split_heads", CRASHING_SPLIT)
    third = replace_definition(third, "merge_heads", WATCHED_MERGE).replace("import math\n", "import math\nimport os\n", 1)
    texts = {"ch01": solution("ch01") + "\n\ndef f(:\n    pass\n", "ch03": third}
    for chapter, text in texts.items():
        (folder / f"{module(chapter)}.py").write_text(text, encoding="utf-8")
    for name, text in OTHER_PROJECT.items():
        (folder / name).write_text(text)
    return folder


class OnDemand(dict):
    """Creates each value at its first use."""

    def __missing__(self, name: str):
        self[name] = self.create(name)
        return self[name]


@pytest.fixture(scope="module")
def runs(target, template, tmp_path_factory):
    """The runs of this file, by name; each is started when a test first asks for it."""
    place = tmp_path_factory.mktemp("results")
    elsewhere = tmp_path_factory.mktemp("cwd")
    here, some = f"--target={target}", ["--exercise", "softmax", "--exercise", "causal_mask", "--exercise", "merge_heads"]
    two = [word for chapter in ("ch01", "ch03") for word in ("--chapter", chapter)]
    arguments = {
        "fresh": ([], {"cwd": template, "PYTHONPATH": str(template)}),
        "all": (["--target", str(target), *two], {"cwd": elsewhere}),
        "again": (["--target", ".", "--exercise", "softmax", "--exercise", "split_heads"], {"cwd": target}),
        "worker": ([here, *two, "--worker"], {}),
        "some": ([here, *some], {"SEEN": str(place / "seen 0")}),
        "other seed": ([here, *some, "--seed", "5"], {"FORCE_COLOR": "1", "SEEN": str(place / "seen 5")}),
        "two processes": ([here, *some, "-n", "2"], {}),
        "no exercise": (["--exercise", "sofmax"], {}),
        "no target": (["--target", str(elsewhere / "nowhere")], {}),
    }

    def run(name: str) -> Run:
        options, more = arguments[name]
        return grade(*options, results=place / f"{name}.json", **more)

    found = OnDemand()
    found.create = run
    return found


# ---- nothing written yet


def test_fresh_stubs_do_not_fail(runs, template):
    run = runs["fresh"]
    assert run.status == 0 and run.results["earned"] == 0
    assert {test["outcome"] for exercise in run.results["exercises"] for test in exercise["tests"]} == {"todo"}
    assert [exercise["name"] for exercise in run.results["exercises"]] == [exercise.name for exercise in graded_exercises()]
    assert re.search(r"= \d+ todo in ", run.out) and "Traceback" not in run.out and "FAILED" not in run.out
    assert "Nothing is wrong: these exercises are not implemented yet." in run.out
    assert f"testing your exercises in {template / 'exercises'}" in run.out.replace("\n", "")
    first = load_syllabus().exercises[0].name
    assert re.search(rf"Next: write `{first}` in exercises/\w+\.py(, line |:)\d+\n +headway check {first}", run.out)
    assert not (template / "exercises" / "progress.txt").exists()


# ---- whose code, and which of it


def test_the_header_says_whose_code_is_tested_and_a_project_around_it_is_not_used(runs, target):
    text = "".join(line.strip() for line in runs["all"].out.splitlines())
    assert "headway: testing the code in" in text and str(target).replace(" ", "") in text.replace(" ", "")
    for name in ("all", "again"):
        run = runs[name]
        assert run.results["target"] == str(target.resolve()) and run.status == 1
        assert "not yours" not in run.out and "no-such-option" not in run.out and f"rootdir: {ROOT}" in run.out and "warning" not in run.out
    assert [e["name"] for e in runs["some"].results["exercises"]] == ["softmax", "causal_mask", "merge_heads"]


def test_results_are_written_over_a_file_outside_the_kit(tmp_path):
    """pytest takes a word that is an existing file for a place to look for tests."""
    file = tmp_path / "results.json"
    file.write_text("{}")
    command = [sys.executable, "-m", "pytest", "--target", "solutions", "--exercise", "causal_mask", "--results", str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"\b\d+ passed\b", done.stdout), done.stdout + done.stderr
    assert [exercise["name"] for exercise in json.loads(file.read_text())["exercises"]] == ["causal_mask"]


def test_code_in_another_folder_leaves_the_learners_script_alone(kit, tmp_path):
    (tmp_path / "ch03_attention.py").write_text(solution("ch03").replace("exps.sum(dim, keepdim=True)", "exps.sum()"))
    own = kit.exercises / ".headway" / "repro" / "softmax.py"
    own.parent.mkdir(parents=True)
    own.write_text("own")
    run = grade("--target", str(tmp_path), "--exercise", "softmax", cwd=kit.root, PYTHONPATH=str(kit.root))
    assert own.read_text() == "own" and "headway repro" not in run.out
    script = re.search(r"run again +python (\S+)", run.out)[1]
    assert "expected" in subprocess.run([sys.executable, script], cwd=kit.root, env=kit.environment(), capture_output=True, text=True).stdout


def test_one_broken_chapter_is_one_message(runs, target):
    run = runs["all"]
    line = (target / f"{module('ch01')}.py").read_text().split("def f(:")[0].count("\n") + 1
    assert run.out.count(f"── {module('ch01')}.py does not import") == 1 and f"{module('ch01')}.py, line {line}" in run.out
    first = [e for e in run.results["exercises"] if e["chapter"] == "ch01"]
    assert {e["outcome"] for e in first} == {"error"} and all(e["earned"] == 0 for e in first)
    assert len({test["message"] for e in first for test in e["tests"]}) == 1
    assert run.exercise("causal_mask")["outcome"] == "passed"


def test_points_are_reported_by_exercise(runs):
    run = runs["all"]
    for exercise in run.results["exercises"]:
        if exercise["chapter"] == "ch03":
            shown = re.escape(format_points(exercise["earned"]))
            assert re.search(rf"^  {exercise['name']} +{shown}/{exercise['points']:g} ", run.out, re.M)
    assert abs(sum(e["earned"] for e in run.results["exercises"]) - run.results["earned"]) < 0.01
    assert re.search(rf"^total +{format_points(run.results['earned'])}/{run.results['points']:g}$", run.out, re.M)
    assert 0 < run.exercise("causal_mask")["earned"] and run.exercise("split_heads")["earned"] == 0


@pytest.mark.thorough
def test_xdist_changes_no_verdict_and_the_page_is_printed(runs):
    alone, shared = runs["some"], runs["two processes"]
    assert shared.status == alone.status == 1 and shared.timeless() == alone.timeless()
    page, same_page = (run.out[run.out.index("── softmax ──") :].rpartition("\n=")[0] for run in (alone, shared))
    assert page == same_page and "Next: fix `softmax`" in page


@pytest.mark.parametrize(("name", "words"), [("no exercise", "did you mean softmax"), ("no target", "--target: there is no folder")])
def test_a_wrong_option_is_one_sentence(runs, name, words):
    run = runs[name]
    lines = [line for line in run.out.splitlines() if line.strip()]
    assert run.status == 4 and len(lines) == 1 and lines[0].startswith("ERROR: ") and words in lines[0]
    assert not run.results_file.exists()


def test_other_wrong_options(target, tmp_path):
    with pytest.raises(NoTarget, match="contains none of the chapters"):
        resolve(str(tmp_path))
    with pytest.raises(NoTarget, match="give the folder it is in"):
        resolve(str(target / f"{module('ch01')}.py"))
    with pytest.raises(UnknownName, match="there is no chapter 33; the chapters are ch00 to ch26"):
        load_syllabus().chapter("ch33")


# ---- what a failure says


def test_a_failure_has_no_frames_and_fits(runs):
    for name in ("all", "some"):
        out = runs[name].out
        body = out.partition("collected ")[2]
        assert not re.search(r"Traceback|site-packages|hypothesis|grader/|\bdef test_|>>>|^E  (?! *\[)", body, re.M), body
        ours = [line for line in body.splitlines() if not re.search("pytest --target|/tests/test_ch|/repro/others/", line)]  # a path stays whole, however long it is
        assert max(map(len, ours)) <= 80


def test_a_failure_shows_promise_example_and_place(runs):
    text = runs["all"].out
    block = text.split("── softmax ")[1].split("\n──")[0]
    for label in ("promised", "called", "problem", "got", "expected", "that is", "printed"):
        assert re.search(rf"^  {label} ", block, re.M), block
    assert "headway hint softmax" in block and "looking at" in block
    place = text.split("── split_heads ")[1].split("\n──")[0]
    assert re.search(r'at +ch03_attention.py, line \d+:\s+return x.reshape\(-1, "heads"\)', place), place
    assert "TypeError" in place


def test_no_colour_but_on_a_terminal(runs):
    assert all("\x1b" not in runs[name].out for name in ("fresh", "all", "some", "no exercise"))
    assert "\x1b[31m" in runs["other seed"].out and "\x1b[31mlooking" not in runs["other seed"].out


@posix
def test_a_terminal_has_colours(target):
    pexpect = pytest.importorskip("pexpect")
    command = ["-m", "pytest", f"--target={target}", "--exercise", "causal_mask"]
    out, status = pexpect.run(shlex.join([sys.executable, *command]), env=environment(), cwd=str(ROOT), withexitstatus=True, timeout=120)
    assert status == 0 and "\x1b[" in out.decode()


# ---- results


def test_results_fit_the_schema_which_describes_every_field(runs):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator
    validator.check_schema(SCHEMA)
    for name in ("fresh", "all", "other seed"):
        validator(SCHEMA).validate(runs[name].results)

    def fields(node):
        for name, value in node.get("properties", {}).items():
            yield name, value
        for value in [*node.get("$defs", {}).values()]:
            yield from fields(value)

    assert not [name for name, value in fields(SCHEMA) if len(value.get("description", "")) < 10]


def test_the_same_seed_gives_the_same_results(runs):
    whole, again = runs["all"].timeless(), runs["again"].timeless()
    by_name = {e["name"]: e for e in whole["exercises"]}
    assert all(exercise == by_name[exercise["name"]] for exercise in runs["some"].timeless()["exercises"]), "alone, too"
    assert [by_name["softmax"], by_name["split_heads"]] == again["exercises"]
    assert [whole[key] for key in ("version", "target", "seed", "door")] == [again[key] for key in ("version", "target", "seed", "door")]


def test_another_seed_adds_other_examples(runs):
    one, other = runs["some"], runs["other seed"]
    assert (one.results["seed"], other.results["seed"]) == (0, 5)
    seen = [set((one.results_file.parent / f"seen {seed}").read_text().split()) for seed in (0, 5)]
    assert len(seen[0]) > 5 and seen[0] < seen[1]
    assert [e["outcome"] for e in one.results["exercises"]] == [e["outcome"] for e in other.results["exercises"]]


@forks
@pytest.mark.thorough
def test_a_run_in_process_and_one_in_workers_give_equal_results(runs):
    one, other = runs["all"].timeless(), runs["worker"].timeless()
    assert (one.pop("door"), other.pop("door")) == ("local", "worker")
    assert one == other


@posix
def test_results_are_written_whole_or_not_at_all(target, tmp_path):
    """A disk that becomes full while writing: the old file stays unchanged, no partial file is left, and the run reports it."""
    old = tmp_path / "r.json"
    old.write_text("old")
    code = "import resource, signal, sys, pytest; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))"
    command = [sys.executable, "-B", "-c", f"{code}; sys.exit(pytest.main(sys.argv[1:]))", f"--target={target}", "--exercise", "merge_heads"]
    command += ["-p", "no:cacheprovider", f"--results={old}"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, encoding="utf-8")
    assert old.read_text() == "old" and os.listdir(tmp_path) == ["r.json"]
    assert done.returncode == 4 and "was not written" in " ".join(done.stdout.split()) and "Traceback" not in done.stdout + done.stderr
    assert "5/5" in done.stdout, "the points are reported anyway"


def test_a_missing_folder_is_reported_before_anything_runs(tmp_path):
    run = grade("--exercise", "softmax", results=tmp_path / "no" / "such" / "r.json")
    assert run.status == 4 and "--results: there is no folder" in run.out and "collected" not in run.out
    assert len([line for line in run.out.splitlines() if line.strip()]) == 1
    assert not (tmp_path / "no").exists()
