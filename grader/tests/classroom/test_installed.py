"""The wheel, installed without a clone: an instructor makes handouts and grades with it."""

import shutil
import subprocess
import sys
import zipfile

import pytest
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS
from grader.tests.quality.benchmarks.workplace import environment

BUILD = "import sys; sys.path.insert(0, 'grader/packaging'); import wheel_of_kit; wheel_of_kit.build_wheel(sys.argv[1])"
RUN = "import site, sys; site.addsitedir({!r}); sys.path.insert(0, sys.path.pop()); from grader.cli.main import main; main()"
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder into which pip would unpack the wheel of a kit in which a learner has worked."""
    pytest.importorskip("setuptools", minversion="77")
    clone, made = tmp_path_factory.mktemp("clone") / "kit", tmp_path_factory.mktemp("made")
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".venv", ".git", ".*_cache", "build", "checkpoints", "*.egg-info"))
    (clone / "exercises" / "progress.txt").write_text("softmax 10/10\n")
    (clone / "exercises" / "hunts").mkdir(exist_ok=True)
    (clone / "exercises" / "hunts" / "ch03_attention.py").write_text("x = 1\n")
    subprocess.run([sys.executable, "-c", BUILD, str(made)], cwd=clone, check=True, capture_output=True)
    [wheel] = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert file.testzip() is None
        record = next(name for name in file.namelist() if name.endswith("RECORD"))
        assert {line.split(",")[0] for line in file.read(record).decode().splitlines()} == set(file.namelist())
        file.extractall(made / "site")
    return made / "site"


def run(site, *words, cwd, status=0):
    variables = environment(site / "headway_kit")
    done = subprocess.run([sys.executable, "-c", RUN.format(str(site)), *words], cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == status and "Traceback" not in done.stderr, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_it_has_the_kit_and_nothing_of_a_learner(installed):
    names = {path.relative_to(installed / "headway_kit").as_posix() for path in installed.rglob("*") if path.is_file() and "headway_kit" in path.parts}
    assert {"exercises/.stubs.toml", "solutions/ch03_attention.py", "tests/misconceptions/ch03_attention.toml", "grader/cli/main.py", "constraints.txt"} <= names
    assert not {name for name in names if "hunts" in name and not name.startswith("grader/") or "progress.txt" in name or name.startswith("grader/tests/") or ".headway" in name}


def test_it_makes_a_handout_and_grades(installed, tmp_path):
    for name, folder in {"ada": SOLUTIONS, "bob": EXERCISES}.items():
        (tmp_path / "class" / name).mkdir(parents=True)
        text = (folder / "ch00_first_model.py").read_text() if folder == SOLUTIONS else "raise NotImplementedError\n"
        (tmp_path / "class" / name / "ch00_first_model.py").write_text(text)
    assert "graded 2 of 2" in run(installed, "grade", "class", "--out", "out", "--chapters", "ch00", cwd=tmp_path)
    assert "ada" in (tmp_path / "out" / "grades.csv").read_text()
    assert "The handout is in week1." in run(installed, "handout", "week1", "--chapters", "ch00", cwd=tmp_path)
    assert (tmp_path / "week1" / "grader" / "packaging" / "wheel_of_kit.py").is_file(), "its pyproject.toml names it"


def test_a_learners_command_says_what_to_use(installed, tmp_path):
    for words in ((), ("check", "softmax"), ("train",), ("dev-check",)):
        assert "this Headway is installed without a clone" in run(installed, *words, cwd=tmp_path, status=2)
    assert "Teach a class" in run(installed, "--help", cwd=tmp_path) and "headway 0." in run(installed, "--version", cwd=tmp_path)
