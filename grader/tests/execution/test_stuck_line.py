"""When a call does not end in time, the failure says at which line of the learner's file it was, in process and in a worker."""

import threading

import pytest
import torch
from boundaries import forks
from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import load_syllabus
from grader.execution.errors import ChapterBroken, OutOfTime
from grader.execution.example_requests import RecordedExample
from grader.execution.in_process import InProcessHost
from grader.execution.late_calls import BEGINNING, find_line
from grader.execution.proxy import Boundary, Implementation
from grader.execution.target import Target
from grader.execution.worker import Worker
from grader.verdict.trial import CALL_SECONDS, LATER_CALL_SECONDS, Trial

FILE = "/somewhere/of/the/learner/ch03_tóy.py"
LOOPS = '''
import itertools, threading, time
import torch

def busy():
    i = 0
    while i < 5:  # busy
        pass

def in_torch(x):
    while True:  # in_torch
        x = torch.relu(x @ x)
        x = x + 1

def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # deadlock

def asleep():
    time.sleep(100)  # asleep

def helper():
    while True:
        try:
            while True: sum(range(100))  # stubborn
        except BaseException:
            pass

def stubborn():
    helper()

def step(pairs):
    for pair in pairs:
        for part in pair:
            part * 2

def in_a_helper():
    done = False
    while not done:  # in_a_helper
        step([(1, 2)] * 10)
        try:
            int("x")
        except ValueError:
            step([(1, 2)])

def in_nested_for():
    for i in range(10**6):  # in_nested_for
        for j in range(10**6):
            k = i * j
            k = k + 1

def after_a_loop():
    while False:
        pass
    else:
        time.sleep(100)  # after_a_loop

def in_c():
    return sum(itertools.repeat(1))  # in_c

def quick():
    return 1

def nap():
    time.sleep(0.06)
'''
WAYS = {"local": ["in_torch", "in_a_helper", "asleep"], "fork": ["busy", "deadlock", "in_c", "stubborn"]}


def boundary_of(pool, kind, text=LOOPS, seconds=0.4):
    sources = [ChapterSource("ch03_toy", text, FILE)]
    host = InProcessHost(sources, "ch03_toy", seconds, seconds) if kind == "local" else Worker(pool, sources, "ch03_toy", seconds, 20.0)
    return Boundary(host)


@pytest.mark.parametrize("kind", ["local", pytest.param("fork", marks=forks)])
def test_the_head_of_the_loop_or_the_line_where_time_ran_out(worker_pool, kind):
    boundary = boundary_of(worker_pool, kind)
    for way in WAYS[kind]:
        boundary.begin(1)
        toy = Implementation(boundary)
        with pytest.raises(OutOfTime) as caught:
            toy.in_torch(torch.eye(3)) if way == "in_torch" else getattr(toy, way)()
        where = caught.value.where
        assert where.file == "ch03_tóy.py" and where.code.endswith(f"# {way}") and LOOPS.splitlines()[where.line - 1].strip() == where.code, (way, where)
        if way != "in_c":
            boundary.begin(1)
            assert Implementation(boundary).quick() == 1  # nothing of the stack is left in the connection
    boundary.connection.close()


@pytest.mark.parametrize("kind", ["local", pytest.param("fork", marks=forks)])
def test_of_requests_that_are_sent_together_the_one_that_does_not_end_has_its_line(worker_pool, kind):
    def use(toy):
        for _ in range(10):
            toy.nap()  # together they take longer than the limit of one
        toy.busy()

    ending, looping = (boundary_of(worker_pool, kind, LOOPS.replace("while i < 5", f"while i {sign} 5")) for sign in "><")
    ending.begin(1)
    use(Implementation(ending))
    recorded = RecordedExample.of(ending.log, [])
    looping.begin(1)
    assert not looping.send_ahead(recorded)
    with pytest.raises(OutOfTime) as caught:
        use(Implementation(looping))
    assert caught.value.where and caught.value.where.code.endswith("# busy")
    ending.connection.close()
    looping.connection.close()


@pytest.mark.parametrize("kind", ["local", pytest.param("fork", marks=forks)])
def test_the_line_of_an_import_that_does_not_end(worker_pool, kind):
    boundary = boundary_of(worker_pool, kind, "x = 1\nwhile x:\n    x += 1\n")
    if kind == "fork":
        boundary.connection.import_seconds = 4.0  # on a busy machine too, the loop has begun by then
    with pytest.raises(ChapterBroken) as caught:
        boundary.begin(1)
    assert caught.value.timed_out and caught.value.where.line == 2
    boundary.connection.close()


def test_the_limit_by_another_thread_has_a_line_too():
    found = []

    def call():
        boundary = boundary_of(None, "local")
        boundary.begin(1)
        try:
            Implementation(boundary).busy()
        except OutOfTime as problem:
            found.append(problem.where)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found[0].code == "while i < 5:  # busy"


def test_only_a_line_of_the_learners_file_is_taken_from_a_stack():
    source = ChapterSource("ch03_toy", LOOPS, FILE)
    frame = '  File "{}", line {} in f\n'.format
    head = BEGINNING.decode() + "00:05)!\nThread 0x1 (most recent call first):\n"
    name = FILE.encode("ascii", "backslashreplace").decode()
    places = {code.strip(): number for number, code in enumerate(LOOPS.splitlines(), start=1)}
    for at, shown in (
        ("pass", "while i < 5:  # busy"), ("k = k + 1", "for i in range(10**6):  # in_nested_for"), ("time.sleep(100)  # after_a_loop", "time.sleep(100)  # after_a_loop"),
    ):  # fmt: skip
        line = 8 if at == "pass" else places[at]
        assert find_line((head + frame("/torch/a.py", 3) + frame(name, line) + frame(name, 2)).encode(), [source]).code == shown
    for forged in (frame("/etc/passwd", 1), frame(name, 10**6), frame(name, 0), '  File "', "\x00" * 99, frame(name + "x", 3)):
        assert find_line((head + forged).encode(), [source]) is None
    assert find_line((frame(name, 8)).encode(), [source]) is None


def test_one_time_limit_is_paid_in_full():
    """After the first call that does not end, a second one gets less time, and then no more tests of the exercise run."""
    exercise = load_syllabus().exercise("softmax")
    run = Trial(Target("learner", None, {exercise.module: "def softmax(x, dim=-1):\n    while True: pass\n"}), call_seconds=1.0)
    said = []
    for test in ("first", "second", "third"):
        run.begin_test(exercise, test)
        with pytest.raises(OutOfTime) as caught:
            run.begin_example()
            Implementation(run.boundary(exercise.chapter)).softmax(torch.ones(2))
        said.append(str(caught.value))
        run.end_test("timeout")
    run.close()
    assert said == ["the call did not end within 1 s", f"the call did not end within {LATER_CALL_SECONDS} s", said[2]] and said[2].startswith("not run")
    assert CALL_SECONDS + LATER_CALL_SECONDS < 6
