"""What `soak` and `same` grade and observe: a class of every kind, and what Linux reports about processes."""

import os
import socket
import subprocess
import sys
from collections import Counter

import pytest
from example_class import EXERCISES, VERSIONS, a_class, verdict_of
from grade_command import until
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import read_submissions
from grader.course.known_mistakes import misconceptions
from grader.course.source import parse
from grader.quality.benchmarks.processes import descendants, find_process, memory, open_sockets, sockets, start_time, still_running
from grader.quality.proof import made_class, same
from grader.quality.proof.soak import contents, gradebook
from kit_copy import posix

pytestmark = pytest.mark.thorough


def test_a_class_has_every_kind_and_is_the_same_for_the_same_seed(tmp_path):
    kinds = made_class.make(tmp_path / "one", 160, 3)
    assert set(kinds) == {"right", "partial", "wrong", "hostile", "empty", "broken"} and sum(kinds.values()) == 160 and kinds["hostile"] == 20
    made_class.make(tmp_path / "two", 160, 3)
    made_class.make(tmp_path / "other", 160, 4)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != contents(tmp_path / "other")
    found = read_submissions(tmp_path / "one")
    assert len(found) == 160 and 5 < len([one for one in found if one.problem or one.broken]) < 60
    assert Counter(one.digest for one in found).most_common(1)[0][1] > 1, "no two people hand in the same content"
    for one in found:
        if one.name.endswith(("right", "partial", "wrong")):
            assert one.sources and not one.problem and all(parse(text) for text in one.sources.values())


def test_the_class_for_same_has_mistakes_that_are_known(tmp_path):
    same.make_class(tmp_path)
    found = {one.name: one for one in read_submissions(tmp_path)}
    assert found["twin"].digest == found["right"].digest and found["cut short"].problem and found["nothing"].problem
    right = found["right"].sources
    for name in ("mistake one", "mistake two", "mistake three", "two mistakes"):
        changed = [module for module, text in found[name].sources.items() if text != right[module]]
        assert len(changed) == (2 if name == "two mistakes" else 1) and all(misconceptions(module) for module in changed)


def test_a_gradebook_that_is_being_written_shows_what_is_whole(tmp_path):
    with Gradebook(tmp_path) as book:
        book.start_run(0, EXERCISES, VERSIONS)
        first, second, *_ = book.submissions_to_do(a_class(4))
        book.store_verdict(first.digest, verdict_of(first.digest))
        stored = gradebook(tmp_path)
        assert list(stored) == [first.digest] and len(stored[first.digest]) == 1 + len(EXERCISES)
        book.store_verdict(second.digest, verdict_of(second.digest))
    assert gradebook(tmp_path)[first.digest] == stored[first.digest] and second.digest in gradebook(tmp_path)
    assert gradebook(tmp_path / "nowhere") == {}


@posix
def test_processes_and_their_descriptors_are_observed_from_start_to_end():
    ours, theirs = socket.socketpair()
    program = "import sys; print('there', flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", program, "a-marked-process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()])
    assert child.stdout.readline() == b"there\n"
    members = descendants(os.getpid())
    assert child.pid in members and still_running({child.pid: members[child.pid]}) == [child.pid]
    assert find_process([os.getpid(), child.pid], "a-marked-process") == child.pid
    resident, share = memory(child.pid)
    assert 1 < share <= resident
    sockets_of_child = sockets([child.pid])
    theirs.close()
    assert sockets_of_child and sockets_of_child <= open_sockets()
    child.stdin.close()
    until(lambda: not start_time(child.pid), "the child to end")
    assert not still_running(members | {0: ""}) or child.pid not in still_running(members)
    assert not sockets_of_child & open_sockets()
    child.wait()
    child.stdout.close()
    ours.close()
