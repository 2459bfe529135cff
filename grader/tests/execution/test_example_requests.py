"""Requests that are sent ahead get the replies that they would get one by one, and none shows the right reply to another."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from boundaries import QUICK_KINDS, alike, opened
from grader.course.source import replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.errors import HostDied, OutOfTime
from grader.execution.example_requests import MAX_AHEAD_BYTES, RecordedExample
from grader.execution.proxy import Boundary, Implementation, parameters
from grader.execution.target import Target
from grader.runner.judging import judge_of
from grader.verdict.recordings import Recordings
from grader.verdict.trial import Trial
from pytest_runs import module, solution

CODE = """
import os, time, torch
from torch import nn

def draw(): return torch.rand(3)
def double(x): return x * {factor}
def make(): return nn.Linear(2, 2)
def count(items): return len(items)
def end(): {end}
"""


@pytest.fixture(params=QUICK_KINDS)
def open_code(request, worker_pool):
    """Opens a boundary to this code, with a double function of this factor and an end of this kind."""

    def open_it(factor: int = 2, end: str = "pass", seconds: float = 20.0):
        return opened(request.param, worker_pool, CODE.format(factor=factor, end=end), seconds)

    return open_it


def use(toy: Implementation, other: bool = False) -> list:
    """What a test does: numbers that the code draws, an object of it, a value that is passed on."""
    found = [toy.draw(), toy.double(torch.ones(2)), toy.draw()]
    model = toy.make()
    found += [toy.count([1]) if other else toy.count([1, 2]), toy.draw(), parameters(model)["bias"]]
    return [*found, toy.double(found[1]), model(torch.ones(1, 2))]


def recorded_by(boundary: Boundary, *arguments) -> tuple[list, RecordedExample]:
    boundary.begin(7)
    found = use(Implementation(boundary), *arguments)
    return found, RecordedExample.of(boundary.log, [])


def count_frames(boundary: Boundary) -> list[int]:
    """The number of requests in each frame from now on."""
    sent, send = [], boundary.connection.exchange_all
    boundary.connection.exchange_all = lambda requests, replies: (sent.append(len(requests)), send(requests, replies))[1]
    return sent


def test_a_test_whose_replies_are_the_recorded_ones_need_not_run(open_code):
    with open_code() as boundary:
        recorded = recorded_by(boundary)[1]
        boundary.begin(7)
        assert boundary.send_ahead(recorded) and boundary.log == recorded.learner
        boundary.begin(8)
        assert not boundary.send_ahead(recorded), "other random numbers"


def test_an_example_begins_together_with_its_first_request(open_code):
    with open_code() as boundary:
        recorded = recorded_by(boundary)[1]
        sent = count_frames(boundary)
        boundary.begin(7)
        assert not sent and boundary.send_ahead(recorded)
        assert len(sent) == len(recorded.parts) and sum(sent) == 1 + len(recorded.learner)


@pytest.mark.parametrize("other", [False, True])
def test_other_code_gives_the_same_whether_its_requests_are_sent_ahead_or_not(open_code, other):
    with open_code() as boundary:
        recorded = recorded_by(boundary)[1]
    with open_code(factor=3) as boundary:
        expected, log = recorded_by(boundary, other)
        boundary.begin(7)
        sent = count_frames(boundary)
        assert not boundary.send_ahead(recorded)
        found = use(Implementation(boundary), other)
        assert all(map(alike, found, expected)) and boundary.log == log.learner
        assert max(sent) > 5, "no requests were sent ahead"


def test_the_replies_to_a_reference_are_recorded_until_it_is_asked_something_else(open_code):
    with open_code() as boundary:
        recorded = recorded_by(boundary)[1].learner
        expected = recorded_by(boundary, True)[0]
        boundary.begin(7)
        boundary.example.reply_from(recorded)
        found = use(Implementation(boundary), True)
        assert all(map(alike, found, expected))


@pytest.mark.parametrize("end, problem", [("time.sleep(60)", OutOfTime), ("os._exit(3)", HostDied)])
def test_code_that_does_not_return_ends_the_test_where_it_would_without_recording_and_once(open_code, end, problem):
    def ends(boundary: Boundary) -> None:
        toy = Implementation(boundary)
        toy.draw()
        toy.end()
        toy.count([1])

    with open_code() as boundary:
        boundary.begin(7)
        ends(boundary)
        recorded = RecordedExample.of(boundary.log, [])
    with open_code(end=end, seconds=1.0) as boundary:
        boundary.begin(7)
        assert not boundary.send_ahead(recorded)
        spent = boundary.spent
        with pytest.raises(problem):
            ends(boundary)
        assert len(boundary.log) == 3 and boundary.unanswered and boundary.unanswered[0] == "call"
        assert problem is HostDied or boundary.spent - spent < 1.0, "the call ran a second time"
        boundary.begin(8)
        assert Implementation(boundary).count([1, 2, 3]) == 3


def test_each_request_has_a_time_limit_of_its_own(open_code):
    with open_code() as boundary:
        boundary.begin(7)
        for _ in range(7):
            Implementation(boundary).end()
        recorded = RecordedExample.of(boundary.log, [])
    with open_code(end="time.sleep(0.5)", seconds=2.5) as boundary:
        boundary.begin(7)
        assert boundary.send_ahead(recorded)


def test_no_request_is_sent_together_with_one_whose_right_reply_it_contains(open_code):
    with open_code() as boundary:
        recorded = recorded_by(boundary)[1]
        boundary.begin(0)
        Implementation(boundary).double(torch.zeros(MAX_AHEAD_BYTES))
        large = RecordedExample.of(boundary.log, [])
    assert [request for part in recorded.parts for request in part] == [each.request for each in recorded.learner]
    doubled = next(each.out[0] for each in recorded.learner if each.op == "call" and each.buffers)
    first, second = ([data for request in part for data in request[2]] for part in recorded.parts)
    assert torch.ones(2).numpy().tobytes() in first and doubled not in first and doubled in second
    assert large.learner == large.parts == []


# ---- in a run of tests


def judged(text: str, recordings: Recordings, ahead: bool):
    with closing(judge_of(Trial(Target("mine", None, {module("ch03"): text}), sends_ahead=ahead), recordings)) as judge:
        judge.run_tests(judge.tests_of(load_syllabus().exercise("softmax")))
        return judge.run.results["softmax"]


def test_only_a_run_that_no_debugger_can_stop_sends_ahead(tmp_path):
    """In plain pytest a breakpoint in the tested code shows the test that called it."""
    recordings, seen = Recordings(tmp_path), tmp_path / "seen"
    text = solution("ch03")
    assert not judged(text, recordings, ahead=False).failures
    looking = replace_definition(text, "softmax", f'''def softmax(x, dim=-1):
    import sys
    frame, files = sys._getframe(), set()
    while frame:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    with open({str(seen)!r}, "a") as file:
        print(any(name.endswith("test_ch03_attention.py") for name in files), file=file)
    return torch.softmax(x, dim)
''')
    for ahead in (False, True):
        seen.write_text("")
        judged(looking, recordings, ahead)
        assert ("False" in seen.read_text()) is ahead
