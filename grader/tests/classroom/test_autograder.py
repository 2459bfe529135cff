"""The archive for Gradescope and the workflow for GitHub, run in clean folders as those systems run them.

Nothing is downloaded: packages are found in this environment, and pip's own settings turn off its index.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from grader.classroom.handout.gradescope import hide_results, write_archive
from grader.classroom.judging.rules import Rules
from grader.course.source import definition, replace_definition
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.sandbox.isolation import available
from kit_copy import Kit, posix
from pytest_runs import solution

pytestmark = posix
MODULE = "ch05_layers"
METADATA = {
    "id": 123456, "created_at": "2026-11-02T14:22:32.365935-07:00", "submission_method": "upload", "previous_submissions": [],
    "assignment": {"due_date": "2026-11-01T23:00:00.000000-07:00", "title": "Layers", "total_points": "100.0", "group_submission": False},
    "users": [{"email": "alpha@example.com", "id": 1234, "name": "Alpha Example"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """The environment of a machine that has all packages but Headway already and uses no index."""
    packages = tmp_path_factory.mktemp("packages")
    for path in installed():
        (packages / path.name).symlink_to(path)
    variables = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    python = tmp_path_factory.mktemp("bin")
    for name in ("python", "python3"):
        (python / name).symlink_to(os.path.realpath(sys.executable))
    settings = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # "0": pip reads a no- setting backwards
    return variables | settings | {"PYTHONPATH": str(packages), "PATH": f"{python}{os.pathsep}{os.defpath}", "TERM": "dumb"}


def installed() -> list[Path]:
    """The packages of this environment, without Headway, which a test installs itself, and pip, which an environment brings."""
    found = {path.name: path for entry in sys.path if entry.endswith("site-packages") and Path(entry).is_dir() for path in Path(entry).iterdir()}
    return [path for name, path in found.items() if not re.match(r"headway|__editable__|pip\b|pip-", name)]


def put_into(python: Path, paths: list[Path]) -> None:
    """What pip would have downloaded, in the environment's own folder: the sandbox allows reading nothing else."""
    [place] = python.glob("lib/python*/site-packages")
    for path in paths:
        if path.is_dir():
            shutil.copytree(path, place / path.name, copy_function=linked, symlinks=True, dirs_exist_ok=True)
        else:
            linked(path, place / path.name)


def linked(path: str | Path, there: str | Path) -> None:
    try:
        os.link(path, there)
    except FileExistsError:
        pass
    except OSError:  # on another disk there are no hard links
        shutil.copy2(path, there)


def run(command: list[str], cwd: Path, env: dict[str, str], status: int = 0) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert done.returncode == status, done.stdout
    return done.stdout


def mistaken() -> str:
    """Chapter 5 with a known mistake in the norm, a stub, and all else right."""
    text = solution("ch05")
    norm = definition(text, "RMSNorm").text
    assert "exact.square().mean" in norm
    text = replace_definition(text, "RMSNorm", norm.replace("exact.square().mean", "exact.square().sum"))
    return replace_definition(text, "SwiGLU", "class SwiGLU(nn.Module):\n    def __init__(self, *args, **options):\n        raise NotImplementedError\n")


# ---- Gradescope


@pytest.fixture(scope="module")
def autograder(tmp_path_factory, offline):
    """/autograder as Gradescope builds it, at another path: the archive is unpacked, setup.sh run, run_autograder copied."""
    base = tmp_path_factory.mktemp("gradescope") / "autograder"
    rules = '[points]\ngelu = 30\n[assignments.week5]\nchapters = ["ch05"]\nhidden = ["gelu"]\ndue = 2026-11-01T23:00:00-07:00\nper_day = 10\n'
    (base.parent / "course.toml").write_text(rules, encoding="utf-8")
    Kit(ROOT).run("gradescope", str(base.parent / "autograder"), "--course", str(base.parent / "course.toml"))
    shutil.unpack_archive(base.parent / "autograder.zip", base / "source")
    run(["bash", str(base / "source" / "setup.sh")], Path("/"), offline)
    put_into(base / "source" / "venv", installed())
    shutil.copy(base / "source" / "run_autograder", base)
    (base / "run_autograder").chmod(0o755)
    yield base
    shutil.rmtree(base / "source" / "venv")


def graded(base: Path, env: dict[str, str], files: dict[str, str], metadata: dict | None = METADATA) -> dict:
    """results.json of one submission."""
    for name in ("submission", "results"):
        shutil.rmtree(base / name, ignore_errors=True)
        (base / name).mkdir()
    for name, text in files.items():
        (base / "submission" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "submission" / name).write_text(text, encoding="utf-8")
    (base / "submission_metadata.json").write_text(json.dumps(metadata))
    run([str(base / "run_autograder")], base, {name: value for name, value in env.items() if name != "PYTHONPATH"})
    return json.loads((base / "results" / "results.json").read_text(encoding="utf-8"))


@pytest.mark.thorough
def test_a_submission_gets_its_points_and_its_diagnosis(autograder, offline):
    found = graded(autograder, offline, {"work/anywhere/ch05_layers.py": mistaken()})
    tally_exercises: dict[str, list] = {}
    for test in found["tests"]:
        tally_exercises.setdefault(test["name"].partition(":")[0], []).append(test)
    points = {exercise.name: exercise.points for exercise in load_syllabus().chapter("5").exercises} | {"gelu": 30}
    earned = {name: round(sum(test["score"] for test in tests), 2) for name, tests in tally_exercises.items()}
    assert {name: round(sum(test["max_score"] for test in tests), 2) for name, tests in tally_exercises.items()} == points
    assert [name for name in points if earned[name] == points[name]] == ["gelu", "dropout", "LayerNorm", "FeedForward"]
    assert earned["SwiGLU"] == 0 and earned["RMSNorm"] < points["RMSNorm"]
    assert found["score"] == pytest.approx(0.9 * sum(earned.values()), abs=0.006), "a day late"
    assert all(test["status"] in ("passed", "failed") and isinstance(test["number"], str) for test in found["tests"])
    assert {test["visibility"] for test in tally_exercises.pop("gelu")} == {"after_published"} and "gelu" in found["output"] and "points." not in found["output"]
    assert {test["visibility"] for tests in tally_exercises.values() for test in tests} == {"visible"} and "day late" in found["output"]
    assert found["extra_data"]["headway"]["name"] == "Alpha Example"
    assert found["extra_data"]["headway"]["diagnoses"]["RMSNorm"]


@pytest.mark.parametrize(
    "files, metadata, says",
    [({"notes.txt": "nothing"}, METADATA, "only notes.txt"), ({"ch05_layers.py": "import nothing_at_all\n\nx = 1\n"}, None, "nothing_at_all")],
)
@pytest.mark.thorough
def test_results_say_why_a_submission_cannot_be_graded(autograder, offline, files, metadata, says):
    found = graded(autograder, offline, files, metadata)
    assert found["score"] == 0 and says in json.dumps(found)


@pytest.mark.skipif(not re.search("landlock|bubble", str(available())), reason="no sandbox layer of this machine protects files")
@pytest.mark.thorough
def test_a_submission_cannot_read_the_reference_next_to_it(autograder, offline):
    reference = autograder / "source" / "kit" / "solutions" / f"{MODULE}.py"
    found = graded(autograder, offline, {f"{MODULE}.py": f"exec(open({str(reference)!r}).read())\n"})
    assert reference.exists() and found["score"] == 0
    assert re.search("No such file|Permission denied", json.dumps(found))


@pytest.mark.thorough
def test_results_exist_even_if_the_autograder_is_broken(autograder, offline):
    settings = autograder / "source" / "headway.json"
    original = settings.read_text()
    settings.write_text("{")
    (autograder / "results" / "results.json").unlink(missing_ok=True)
    try:
        subprocess.run([str(autograder / "run_autograder")], cwd=autograder, env=offline, capture_output=True)
    finally:
        settings.write_text(original)
    found = json.loads((autograder / "results" / "results.json").read_text())
    assert found["score"] == 0 and "ask your instructor" in found["output"]


def test_the_archive_has_the_chosen_exercises_and_nothing_of_the_instructors_own_work(kit, tmp_path):
    kit.edit(MODULE, "raise NotImplementedError", "pass  # what the instructor tries out is no part of it")
    names = ("--chapters", "ch05", "--exercises", "softmax", "--hidden", "RMSNorm")
    said = kit.run("gradescope", str(tmp_path / "week 5"), *names, "--torch-index", "https://example.org/cpu?a=1&b='2'")
    assert "week 5.zip" in said and "RMSNorm" in said and [path.name for path in tmp_path.glob("week*")] == ["week 5.zip"]  # Gradescope accepts no other name
    with zipfile.ZipFile(tmp_path / "week 5.zip") as archive:
        settings, script = json.loads(archive.read("headway.json")), archive.read("setup.sh").decode()
        [asked] = tomllib.loads(archive.read("course.toml").decode())["assignments"].values()
        assert "tries out" not in archive.read(f"kit/exercises/{MODULE}.py").decode()
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert f"kit/solutions/{MODULE}.py" in modes and not any("grader/tests" in name or "variants" in name for name in modes)
    assert asked["exercises"] == ["softmax", *(exercise.name for exercise in load_syllabus().chapter("5").exercises)] and settings["hidden"] == ["RMSNorm"]
    lines = [line for line in script.splitlines() if line.startswith("index=") or "pip install" in line]
    for index, wanted in (("index=''", "install -c constraints.txt torch"), (lines[0], "install -c constraints.txt --index-url https://example.org/cpu?a=1&b='2' torch")):
        text = f"here=here\n{index}\n{lines[1]} exit 1; }}"
        assert wanted in run(["bash", "-c", text.replace('"$here/venv/bin/python"', "echo")], tmp_path, dict(os.environ))


def test_a_path_or_an_exercise_that_does_not_fit_is_refused_before_any_work(tmp_path):
    (tmp_path / "notes.zip").write_text("my notes")
    for (path, hidden), sentence in (
        ((tmp_path, ()), "is a folder; name the archive's file"),
        ((tmp_path / "none" / "a.zip", ()), "does not exist; make it first"),
        ((tmp_path / "notes", ()), "notes.zip exists already; move it away, or choose another name"),
        ((tmp_path / "a.zip", ("gelu",)), "--hidden gelu: this exercise is not graded here"),
        ((tmp_path / "a.zip", ("sofmax",)), "did you mean softmax"),
    ):
        with pytest.raises(ValueError, match=sentence):
            write_archive(path, ("ch03",), (), Rules(), hidden)
    assert (tmp_path / "notes.zip").read_text() == "my notes" and not (tmp_path / "a.zip").exists()


def test_hidden_results_reveal_neither_the_points_nor_the_tests():
    seen = {"tags": ["ch05", "RMSNorm"], "visibility": "visible", "score": 1.0}
    results = {"output": "31 of 40 points.\n\n1 day late.", "score": 31.0, "tests": [seen, seen | {"tags": ["ch05", "gelu"]}]}
    hidden = hide_results(results, ["gelu"])
    assert [test["visibility"] for test in hidden["tests"]] == ["visible", "after_published"] and hidden["score"] == 31.0
    assert hidden["output"] == "Your instructor shows the results of gelu and your points later.\n\n1 day late."
    assert hide_results(results, ["softmax"]) == hide_results(results, []) == results


# ---- GitHub


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.thorough
def test_the_workflow_of_a_handout_grades_a_push_without_rights_and_shows_the_results(tmp_path, offline):
    yaml = pytest.importorskip("yaml")
    repository = tmp_path / "repository"
    assert "a git repository with one commit" in Kit(ROOT).run("handout", str(repository), "--chapters", "ch05", "--github")
    listed = subprocess.run(["git", "-C", str(repository), "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    assert {".github/workflows/classroom.yml", f"exercises/{MODULE}.py", "constraints.txt"} <= set(listed) and any(name.startswith("reference/") for name in listed)
    assert not any(name.startswith("solutions/") or "definition" in name and "misconceptions" in name for name in listed)
    assert not subprocess.run(["git", "-C", str(repository), "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    (repository / "exercises" / f"{MODULE}.py").write_text(mistaken(), encoding="utf-8")
    run([sys.executable, "-m", "venv", str(tmp_path / "python")], tmp_path, offline)  # as actions/setup-python: a Python first on the path
    runner = offline | {"PATH": f"{tmp_path / 'python' / 'bin'}{os.pathsep}{offline['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_OUTPUT": str(tmp_path / "output"), "CI": "true", "HOME": str(tmp_path)}
    workflow = yaml.safe_load((repository / ".github" / "workflows" / "classroom.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"} and workflow["name"] == "Autograding Tests"
    [(name, job)] = workflow["jobs"].items()
    assert name == "run-autograding-tests" and "permissions" not in job
    assert {step["uses"].partition("/")[0] for step in job["steps"] if "uses" in step} == {"actions"}, "nobody else's code"
    [kept] = [step["with"]["path"] for step in job["steps"] if step.get("id") == "cache"]
    scripts = {step["name"]: step["run"] for step in job["steps"] if "name" in step}
    said = {}
    for name, status in (("Install", 0), ("Grade", 1)):
        said[name] = run(["bash", "-e", "-o", "pipefail", "-c", scripts[name]], repository, runner, status=status)
        assert "Traceback" not in said[name]
    assert (tmp_path / kept.removeprefix("~/") / "bin" / "python").exists()
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert page.startswith("```text\n") and page.endswith("\n```\n") and "FAILED" in page and "mean" in page and "\n  expected  " in page
    result = json.loads(base64.b64decode((tmp_path / "output").read_text(encoding="utf-8").removeprefix("result=")))
    scores = {test["name"]: (test["status"], test["score"]) for test in result["tests"]}
    assert result["version"] == 1 and result["status"] == "fail" and result["max_score"] == 100
    assert scores["gelu"][0] == "pass" and scores["SwiGLU"] == ("fail", 0) and scores["RMSNorm"][0] == "fail"
    points = sum(score for _, score in scores.values())
    assert f"::notice title=Autograding complete::Points {points:g}/100\n" in said["Grade"] and f'{{"totalPoints": {points}, "maxPoints": 100.0}}' in said["Grade"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.thorough
def test_both_make_commands_of_a_handout_work(tmp_path, offline):
    folder = tmp_path / "handout"
    Kit(ROOT).run("handout", str(folder), "--chapters", "ch05", "--hidden", "SwiGLU")
    env = offline | {"PATH": f"{offline['PATH']}{os.pathsep}{Path(shutil.which('make')).parent}"}
    assert "Next: gelu" in run(["make", "learn"], folder, env)
    (folder / "exercises" / f"{MODULE}.py").write_text(solution("ch05"), encoding="utf-8")
    worth = f"{100 - load_syllabus().exercise('SwiGLU').points:g}"
    assert re.search(rf"ch05 Layers +{worth}/{worth}\n", run(["make", "test"], folder, env))
    assert "You have passed every exercise." in run(["make", "learn"], folder, env)
