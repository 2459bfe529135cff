"""Recorded examples and answers change no verdict; a run that passes with them neither draws an example nor asks the reference; stubs are not run again."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.reference_connection import Answer, ReferenceConnection, connect_reference, fingerprint
from grader.verdict import conditions as conditions_module
from grader.verdict import recordings as recordings_module
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from pytest_runs import Run, grade, module, solution

COUNTING = """
import json, os
from pathlib import Path
import pytest
from hypothesis.internal.conjecture.engine import ConjectureRunner

drawn, asked = [], []
run = ConjectureRunner.run
ConjectureRunner.run = lambda self: (drawn.append(1), run(self))[1]

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    from grader.execution.in_process import InProcessHost
    from grader.plugin.hooks import JUDGE
    from grader.verdict.recordings import Recordings
    exchange = InProcessHost.exchange
    InProcessHost.exchange = lambda self, *request: (asked.append(1) if self.trusted else None, exchange(self, *request))[1]
    examples = config.stash[JUDGE].runner.examples
    examples.recordings = examples.recordings and Recordings(Path(os.environ["RECORDINGS"]))

def pytest_unconfigure(config):
    Path(os.environ["RECORDINGS"]).with_suffix(".counts").write_text(json.dumps([len(drawn), len(asked)]))
"""
EXERCISES = ("causal_mask", "softmax", "padding_mask", "split_heads", "merge_heads", "split_qkv")  # of chapter 3
WRONG = {  # each in a way of its own
    "softmax": "def softmax(x, dim=-1):\n    print('softmax of', tuple(x.shape))\n    return torch.exp(x)\n",
    "causal_mask": "def causal_mask(T):\n    mask = torch.ones(T, T, dtype=torch.bool).tril()\n    return mask if T < 5 else ~mask\n",
    "padding_mask": "def padding_mask(ids, pad_id):\n    mask = ids != pad_id\n    return mask[:, None, None, :] if len(ids) < 4 else mask\n",
    "split_heads": "def split_heads(x, n_heads):\n    raise NotImplementedError\n",
    "merge_heads": "def merge_heads(x):\n    return x.transpose(1, 2).flatten(2) if x.shape[0] < 6 else x.flatten(2)\n",
}


class Runner:
    """Runs some exercises of chapter 3 with recordings in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place, self.recordings = place, place / "recordings"
        (place / "counting.py").write_text(COUNTING)
        text = solution("ch03")
        for name, code in WRONG.items():
            text = replace_definition(text, name, code)
        (place / "wrong").mkdir()
        (place / "wrong" / f"{module('ch03')}.py").write_text(text)

    def __call__(self, target: str, *arguments: str) -> Run:
        path = os.pathsep.join([str(self.place), str(ROOT)])
        chosen = [] if "--exercise" in arguments else [word for name in EXERCISES for word in ("--exercise", name)]
        options = ["--target", target, *chosen, "-p", "counting", *arguments]
        return grade(*options, results=self.place / f"{abs(hash((target, arguments)))}.json", PYTHONPATH=path, RECORDINGS=str(self.recordings))

    @property
    def counts(self) -> tuple[int, int]:
        """How often hypothesis drew the examples of a test, and how many requests the reference has answered, in the last run."""
        drawn, asked = json.loads(self.recordings.with_suffix(".counts").read_text())
        return drawn, asked


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Runner:
    """A folder with the recordings of these exercises at seed 0, made by a run of the right code."""
    runner = Runner(tmp_path_factory.mktemp("recorded"))
    first = runner("solutions")
    assert first.status == 0 and min(runner.counts) > 0, first.out
    return runner


def test_a_run_that_passes_draws_nothing_and_asks_the_reference_nothing(recorded):
    again = recorded("solutions")
    assert again.status == 0 and recorded.counts == (0, 0)
    passed = re.search(r"(\d+) passed", again.out)
    assert passed and len([path for path in recorded.recordings.rglob("*") if path.is_file()]) == int(passed[1]), "a test cannot be recorded"


@pytest.mark.parametrize("arguments", [(), pytest.param(("--worker",), marks=pytest.mark.thorough), pytest.param(("--seed", "5"), marks=pytest.mark.thorough)])
def test_recordings_change_nothing_that_is_printed_or_reported(recorded, arguments):
    wrong = str(recorded.place / "wrong")
    if "--seed" in arguments:
        recorded("solutions", *arguments)
    without, with_them = recorded(wrong, *arguments, "--no-recordings"), recorded(wrong, *arguments)
    assert without.timeless() == with_them.timeless() and timeless(without.out) == timeless(with_them.out)
    outcomes = {exercise["name"]: exercise["outcome"] for exercise in with_them.results["exercises"]}
    assert outcomes == {e.name: "todo" if e.name == "split_heads" else "failed" if e.name in WRONG else "passed" for e in map(load_syllabus().exercise, EXERCISES)}


def timeless(out: str) -> str:
    return re.sub(r"\d+\.\d+s( \(\d+:\d+:\d+\))?|=+", "", out)


def test_what_the_failing_example_printed_is_shown_and_nothing_else(recorded):
    """Not what the examples before it printed, and not what hypothesis tried in order to find a smaller one."""
    out = recorded(str(recorded.place / "wrong"), "--exercise", "softmax").out
    assert re.search(r"  printed   softmax of \(2, 3\)\n  run again", out), out


@pytest.mark.thorough
def test_a_damaged_recording_is_made_again(recorded, tmp_path):
    copy = Runner(tmp_path)
    shutil.copytree(recorded.recordings, copy.recordings)
    for number, path in enumerate(path for path in copy.recordings.rglob("*") if path.is_file()):
        path.write_bytes((b"", path.read_bytes()[:-1], b"x" * 100)[number % 3])
    assert copy("solutions", "--exercise", "softmax").status == 0 and min(copy.counts) > 0
    assert copy("solutions", "--exercise", "softmax").status == 0 and copy.counts == (0, 0)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_without_a_place_to_write_the_verdict_is_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    recordings = Recordings(tmp_path / "file")
    recordings.store("test", 0, Recording())
    assert Recordings(tmp_path / "file").find("test", 0) is None


# ---- when a recording holds


def test_a_recording_holds_for_the_same_suites_reference_and_versions_only(tmp_path, monkeypatch):
    for name in ("TESTS", "SOLUTIONS", "EXERCISES"):
        shutil.copytree(getattr(conditions_module, name), tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "variants", ".headway"))
        monkeypatch.setattr(conditions_module, name, tmp_path / name)
    read = conditions_module.read_conditions
    before = read()
    assert read() == before
    for path in (tmp_path / "TESTS" / "strategies.py", tmp_path / "SOLUTIONS" / f"{module('ch03')}.py", tmp_path / "EXERCISES" / "syllabus.toml"):
        text = path.read_text()
        path.write_text(text.replace("a", "b", 1))
        assert read() != before
        path.write_text(text)
    monkeypatch.setattr(conditions_module, "version", lambda library: "0")
    assert read() != before


def test_recordings_of_other_conditions_are_not_found_and_old_ones_are_removed(tmp_path, monkeypatch):
    def at(state: str) -> Recordings:
        monkeypatch.setattr(recordings_module, "conditions", lambda: state)
        monkeypatch.setattr(recordings_module, "read_conditions", lambda: state)
        return Recordings(tmp_path)

    at("one").store("test", 0, Recording())
    assert at("one").find("test", 0) and not at("two").find("test", 0) and not at("one").find("test", 1) and not at("one").find("other", 0)
    for state in ("two", "three", "four", "five"):
        at(state).store("test", 0, Recording())
    assert len(list(tmp_path.iterdir())) == recordings_module.CONDITIONS_KEPT and at("five").find("test", 0)


def test_a_test_has_recordings_of_few_seeds(tmp_path):
    recordings = Recordings(tmp_path)
    for seed in range(recordings_module.SEEDS_KEPT + 9):
        recordings.store("test", seed, Recording())
    found = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert "0" in found and str(seed) in found and len(found) <= recordings_module.SEEDS_KEPT + 2


def test_nothing_is_stored_if_a_suite_changed_while_the_run_went_on(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings_module, "read_conditions", lambda: "changed")
    Recordings(tmp_path).store("test", 0, Recording())
    assert not list(tmp_path.iterdir())


# ---- what is recorded


def test_recorded_arguments_keep_their_types_and_are_new_each_time():
    drawn = {"n": SimpleNamespace(B=2, T=3), "ids": [1, True, 1.0, "1", None], "pair": (1, [2]), "table": {(1, 2): -0.0, "a": float("inf")}}
    example = Example.of(drawn, {"B": 2})
    assert repr(example.values()) == repr(drawn)
    example.values()["ids"].append(9)
    assert len(example.values()["ids"]) == 5


def test_an_argument_of_another_kind_is_not_recordable():
    with pytest.raises(NotRecordable):
        Example.of({"value": lambda: 1}, {})


# ---- the reference


def requests(connection: ReferenceConnection, *asked: tuple) -> list:
    connection.exchange("begin", [7, []], [])
    return [connection.exchange(op, tree, []) for op, tree in asked]


def test_a_request_that_was_not_recorded_is_answered_as_if_none_were():
    """Handles and random numbers too: the reference first gets the requests before it."""
    chapter = load_syllabus().chapter("ch03")
    ask = [("get", ["MultiHeadAttention"]), ("call", [{"handle": [0, "MultiHeadAttention"]}, {"tuple": [6, 2]}, {"dict": []}])]
    other = [*ask, ("state", [{"handle": [1, "MultiHeadAttention"]}]), ("call", [{"handle": [0, "MultiHeadAttention"]}, {"tuple": [4, 2]}, {"dict": []}])]
    plain = connect_reference(chapter)
    notes: list[Answer] = []
    plain.begin_example([], notes)
    requests(plain, *ask)
    plain.begin_example([], None)
    expected = requests(plain, *other)
    replaying = connect_reference(chapter)
    replaying.begin_example(notes, None)
    assert requests(replaying, *other) == expected and len(expected[2][1]) > 3
    untouched = ReferenceConnection(lambda: pytest.fail("the reference is not needed"))
    untouched.begin_example(notes, None)
    assert requests(untouched, *ask) == expected[:2]


def test_requests_are_equal_only_if_all_types_and_bytes_are():
    trees = [[1], [1.0], [True], ["1"], [[1]], [None], [{"tuple": [1]}]]
    assert len({fingerprint("call", tree, []) for tree in trees} | {fingerprint("get", [1], [])}) == len(trees) + 1
    assert fingerprint("call", [1], [b"ab", b"c"]) != fingerprint("call", [1], [b"a", b"bc"])


def test_an_implementation_that_fails_once_does_not_pass_because_it_is_tried_again(recorded, tmp_path):
    once = "def merge_heads(x, calls=[]):\n    calls.append(1)\n    return x if len(calls) == 9 else x.transpose(1, 2).flatten(2)\n"
    (tmp_path / f"{module('ch03')}.py").write_text(replace_definition(solution("ch03"), "merge_heads", once))
    assert recorded(str(tmp_path)).exercise("merge_heads")["outcome"] == "failed"



def test_a_stub_that_later_code_replaces_is_no_stub(recorded, tmp_path):
    """The other tests of a stub end without running only after one has shown that the stub is what runs."""
    stub = "def merge_heads(x):\n    raise NotImplementedError\n"
    text = replace_definition(solution("ch03"), "merge_heads", stub) + "\n\ndef _merge(x):\n    return x.transpose(1, 2).flatten(2)\n\n\nmerge_heads = _merge\n"
    (tmp_path / f"{module('ch03')}.py").write_text(text)
    assert recorded(str(tmp_path), "--exercise", "merge_heads").exercise("merge_heads")["outcome"] == "passed"
