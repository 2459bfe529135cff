"""A forked command does what a process of its own does."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import forked_python
import pytest


def alone(module, arguments, cwd, environment):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        pytest.param("grader.cli.main", ["check", "softmax"], marks=pytest.mark.thorough),
        ("grader.cli.main", ["check", "nothing_like_it"]),
        ("grader.cli.main", ["list"]),
        ("pytest", ["--exercise", "softmax", "--target", "solutions", "-q", "-p", "no:cacheprovider"]),
    ],
)
def test_status_and_output_are_those_of_a_process_of_its_own(kit, module, arguments):
    kit.record(causal_mask=0)
    environment = kit.environment(COLUMNS="90")
    found, expected = (run(module, arguments, kit.root, environment) for run in (forked_python.run, alone))
    timeless = [re.sub(rb"\d+\.\d+s", b"", output) for done in (found, expected) for output in (done.stdout, done.stderr)]
    assert found.returncode == expected.returncode and timeless[:2] == timeless[2:]
    assert any(timeless[:2])


SHOW = "import os, sys, grader; print(os.getcwd(), sys.argv[1:], os.environ.get('WORD'), grader.__file__)"


def test_each_has_its_own_folder_environment_and_state(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name / "grader").mkdir(parents=True)
        (tmp_path / name / "grader" / "__init__.py").write_text("")
        (tmp_path / name / "shown.py").write_text(SHOW + "\nos.environ['WORD'] = 'left behind'\nprint('to stderr', file=sys.stderr)\nsys.exit(3)\n")
        environment = dict(os.environ) | {"PYTHONPATH": str(tmp_path / name)} | ({"WORD": "é"} if name == "first" else {})
        for merged in (False, True):
            done = forked_python.run("shown", ["a b", "é"], tmp_path / name, environment, merged)
            out = done.stdout.decode()
            place = os.path.realpath(tmp_path / name)
            assert done.returncode == 3 and f"{place} ['a b', 'é'] {'é' if name == 'first' else None} {place}/grader/" in out, out
            assert (done.stderr is None and "to stderr" in out if merged else done.stderr == b"to stderr\n")


def test_a_variable_that_acts_when_python_starts_gets_a_process_of_its_own(tmp_path):
    (tmp_path / "shown.py").write_text("print(hash('a'))")
    hashes = {forked_python.run("shown", [], tmp_path, dict(os.environ) | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(tmp_path)}).stdout for _ in range(2)}
    assert len(hashes) == 1


def test_a_sitecustomize_acts_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['colorsys'] = None\n")
    (tmp_path / "shown.py").write_text("import colorsys")
    assert forked_python.run("shown", [], tmp_path, dict(os.environ) | {"PYTHONPATH": str(tmp_path)}).returncode == 1


def test_a_command_that_does_not_end_is_killed(tmp_path):
    (tmp_path / "endless.py").write_text("import os, signal\nprint('begun', flush=True)\nsignal.pause()")
    done = forked_python.run("endless", [], tmp_path, dict(os.environ) | {"PYTHONPATH": str(tmp_path)}, timeout=1)
    assert done.returncode == -9 and done.stdout in (b"begun\n", b"")


def test_commands_of_several_threads_run_at_the_same_time(tmp_path):
    (tmp_path / "meeting.py").write_text(
        "import os, sys, time\nmine, other = sys.argv[1:]\nopen(mine, 'w').close()\nwhile not os.path.exists(other): time.sleep(0.01)\nprint(mine)"
    )
    environment = dict(os.environ) | {"PYTHONPATH": str(tmp_path)}
    pairs = [(f"{i}{side}", f"{i}{other}") for i in range(4) for side, other in ("ab", "ba")]
    with ThreadPoolExecutor(len(pairs)) as pool:
        done = list(pool.map(lambda pair: forked_python.run("meeting", list(pair), tmp_path, environment), pairs))
    assert [(each.returncode, each.stdout.decode().strip()) for each in done] == [(0, mine) for mine, _ in pairs]
