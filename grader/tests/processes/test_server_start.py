"""What a server loads at its start, what it leaves for the first run of an exercise, and when it looks at the kit's files."""

import subprocess
import sys

import pytest
from grader.course.syllabus import ROOT
from grader.processes.prestarted import PrestartingStarter
from grader.processes.server import Server
from grader.processes.service import Service


def run_python(script: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_server_of_a_class_starts_its_zygote_before_it_imports_torch():
    run_python("import sys, grader.classroom.judging.start_server; assert 'torch' not in sys.modules")


def test_the_compiler_and_the_chapters_are_left_for_the_run_that_needs_them():
    run_python("""
import sys
from grader.processes.preloaded import load_kit, preload
errors = sys.stderr
load_kit()
sys.stderr = errors
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import without_text
from grader.execution.target import reference_names
loaded = lambda: (reference_names.cache_info().currsize, without_text.cache_info().currsize)
assert loaded() == (0, 0) and "torch._dynamo.eval_frame" not in sys.modules
preload(load_syllabus().exercise("softmax"), without_text)
assert loaded() == (1, 3), loaded()
""")


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_changed_kit_is_noticed_at_the_next_look_at_its_files(seconds):
    starter = PrestartingStarter.__new__(PrestartingStarter)  # nothing is started
    server = Server(Service({}, kit_seconds=seconds), starter, "token")
    server.kit_times = {}  # as if files had been added since
    assert server._kit_has_changed() == (seconds == 0)
    server.kit_read -= seconds
    assert server._kit_has_changed()
    server.listener.close()
    server.selector.close()
