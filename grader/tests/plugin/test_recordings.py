"""Recorded examples and answers change no verdict; a run that passes with them neither draws an example nor asks the reference; stubs are not run again."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.in_process import InProcessHost
from grader.execution.target import Target
from grader.runner.judging import judge_of
from grader.runner.run_page import Page, print_run
from grader.verdict import last_verdicts as conditions_module
from grader.verdict import recordings as recordings_module
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from grader.verdict.trial import Trial
from hypothesis.internal.conjecture.engine import ConjectureRunner
from pytest_runs import module, solution

EXERCISES = ("causal_mask", "softmax", "padding_mask", "split_heads", "merge_heads", "split_qkv")  # of chapter 3
WRONG = {  # each in a way of its own
    "softmax": "def softmax(x, dim=-1):\n    print('softmax of', tuple(x.shape))\n    return torch.exp(x)\n",
    "causal_mask": "def causal_mask(T):\n    mask = torch.ones(T, T, dtype=torch.bool).tril()\n    return mask if T < 5 else ~mask\n",
    "split_heads": "def split_heads(x, n_heads):\n    raise NotImplementedError\n",
    "merge_heads": "def merge_heads(x):\n    return x.transpose(1, 2).flatten(2) if x.shape[0] < 6 else x.flatten(2)\n",
}


@dataclass(frozen=True)
class Judged:
    """What a run of some exercises of chapter 3 found."""

    results: dict
    page: str
    drawn: int  # how often hypothesis drew the examples of a test
    asked: int  # how many frames of requests the reference has answered

    def outcome(self, name: str) -> str:
        return next(exercise["outcome"] for exercise in self.results["exercises"] if exercise["name"] == name)


@pytest.fixture
def judged(monkeypatch):
    """Judge a chapter 3 with these recordings."""
    drawn, asked = [], []
    run, exchange_all = ConjectureRunner.run, InProcessHost.exchange_all
    monkeypatch.setattr(ConjectureRunner, "run", lambda self: (drawn.append(1), run(self))[1])
    monkeypatch.setattr(InProcessHost, "exchange_all", lambda self, *frame: (self.trusted and asked.append(1), exchange_all(self, *frame))[1])

    def judge(text: str, recordings: Recordings | None, names=EXERCISES, **options) -> Judged:
        drawn.clear(), asked.clear()
        with closing(judge_of(Trial(Target("mine", None, {module("ch03"): text}), **options), recordings)) as judge:
            judge.run_tests([test for name in names for test in judge.tests_of(load_syllabus().exercise(name))])
            counts = len(drawn), len(asked)
            judge.run.conclude()
            lines: list[str] = []
            print_run(Page(lambda line, **_: lines.append(line), 80), judge.run)
            results = judge.run.result().as_json()
        for exercise in results["exercises"]:
            for test in exercise["tests"]:
                test["seconds"] = 0
        return Judged(results, "\n".join(lines), *counts)

    return judge


@pytest.fixture
def recorded(judged, tmp_path_factory) -> Recordings:
    """The recordings of these exercises at seed 0, made by a run of the right code."""
    if "recordings" not in _made:
        recordings = _made["recordings"] = Recordings(tmp_path_factory.mktemp("recorded"))
        first = judged(solution("ch03"), recordings)
        assert first.results["earned"] == first.results["points"] and min(first.drawn, first.asked) > 0, first.page
    return _made["recordings"]


_made: dict[str, Recordings] = {}


def wrong_chapter() -> str:
    text = solution("ch03")
    for name, code in WRONG.items():
        text = replace_definition(text, name, code)
    return text


def test_a_run_that_passes_draws_nothing_and_asks_the_reference_nothing(judged, recorded):
    again = judged(solution("ch03"), Recordings(recorded.folder))
    assert again.results["earned"] == again.results["points"] and (again.drawn, again.asked) == (0, 0)
    tests = sum(len(exercise["tests"]) for exercise in again.results["exercises"])
    assert len([path for path in recorded.folder.rglob("*") if path.is_file()]) == tests, "a test cannot be recorded"


@pytest.mark.parametrize("options", [{}, pytest.param({"in_worker": True}, marks=pytest.mark.thorough), pytest.param({"seed": 5}, marks=pytest.mark.thorough)])
def test_recordings_change_nothing_that_is_printed_or_reported(judged, recorded, options):
    if "seed" in options:
        judged(solution("ch03"), recorded, **options)
    without, with_them = judged(wrong_chapter(), None, **options), judged(wrong_chapter(), recorded, **options)
    assert without.results == with_them.results and without.page == with_them.page
    expected = {name: "todo" if name == "split_heads" else "failed" if name in WRONG else "passed" for name in EXERCISES}
    assert {name: with_them.outcome(name) for name in EXERCISES} == expected
    # not what the examples before it printed, and not what hypothesis tried in order to find a smaller one
    printed = re.search(r"^  printed   (.*)\n(.*)", with_them.page, re.M)
    assert "in_worker" in options or (printed and printed[1] == "softmax of (2, 3)" and not printed[2].startswith("    ")), with_them.page


@pytest.mark.thorough
def test_a_damaged_recording_is_made_again(judged, recorded, tmp_path):
    shutil.copytree(recorded.folder, tmp_path / "copy")
    for number, path in enumerate(path for path in (tmp_path / "copy").rglob("*") if path.is_file()):
        path.write_bytes((b"", path.read_bytes()[:-1], b"x" * 100)[number % 3])
    first, second = (judged(solution("ch03"), Recordings(tmp_path / "copy"), ["softmax"]) for _ in range(2))
    assert min(first.drawn, first.asked) > 0 and (second.drawn, second.asked) == (0, 0)


def test_what_fails_once_does_not_pass_by_a_second_try_and_a_stub_that_later_code_replaces_is_none(judged, recorded):
    """The other tests of a stub end without running only after one has shown that the stub is what runs."""
    once = "def split_heads(x, n_heads, calls=[]):\n    calls.append(1)\n    B, T, D = x.shape\n    heads = x.view(B, T, n_heads, D // n_heads)\n"
    text = replace_definition(solution("ch03"), "split_heads", once + "    return x if len(calls) == 9 else heads.transpose(1, 2)\n")
    text = replace_definition(text, "merge_heads", "def merge_heads(x):\n    raise NotImplementedError\n")
    text += "\n\ndef _merge(x):\n    return x.transpose(1, 2).flatten(2)\n\n\nmerge_heads = _merge\n"
    found = judged(text, recorded, ["split_heads", "merge_heads"])
    assert (found.outcome("split_heads"), found.outcome("merge_heads")) == ("failed", "passed")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_without_a_place_to_write_the_verdict_is_the_same(tmp_path):
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
    for path in (tmp_path / "TESTS" / "strategies.py", tmp_path / "TESTS" / "needed_examples.toml", tmp_path / "SOLUTIONS" / f"{module('ch03')}.py", tmp_path / "EXERCISES" / "syllabus.toml"):
        text = path.read_text()
        path.write_text(text.replace("a", "b", 1))
        assert read() != before
        path.write_text(text)
    monkeypatch.setattr("importlib.metadata.version", lambda library: "0")
    assert read() != before


def test_recordings_of_other_conditions_are_not_found_and_old_ones_are_removed(tmp_path, monkeypatch):
    def at(state: str, now: str = "") -> Recordings:
        monkeypatch.setattr(recordings_module, "conditions", lambda: state)
        monkeypatch.setattr(recordings_module, "read_conditions", lambda: now or state)
        return Recordings(tmp_path)

    at("one", now="a suite changed while the run went on").store("test", 0, Recording())
    assert not list(tmp_path.iterdir())
    at("one").store("test", 0, Recording())
    assert at("one").find("test", 0) and not at("two").find("test", 0) and not at("one").find("test", 1) and not at("one").find("other", 0)
    for state in ("two", "three", "four", "five"):
        at(state).store("test", 0, Recording())
    assert len(list(tmp_path.iterdir())) == recordings_module.CONDITIONS_KEPT and at("five").find("test", 0)
    recordings, before = at("six"), set(tmp_path.iterdir())
    for seed in range(recordings_module.SEEDS_KEPT + 9):
        recordings.store("test", seed, Recording())
    (newest,) = set(tmp_path.iterdir()) - before
    found = [path.name for path in newest.rglob("*") if path.is_file()]
    assert "0" in found and str(seed) in found and len(found) <= recordings_module.SEEDS_KEPT + 2


def test_a_change_while_a_run_goes_on_is_noticed_at_the_next_look(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(recordings_module, "conditions", lambda: "one")
    monkeypatch.setattr(recordings_module, "read_conditions", lambda: looks.append(1) or ("one" if len(looks) == 1 else "a suite changed"))
    recordings = Recordings(tmp_path)
    for seed in (0, 1):
        recordings.store("test", seed, Recording())
    assert len(looks) == 1 and Recordings(tmp_path).find("test", 1)
    monkeypatch.setattr(recordings_module, "LOOK_SECONDS", 0.0)
    recordings.store("test", 2, Recording())
    assert len(looks) == 2 and not Recordings(tmp_path).find("test", 2)


# ---- what is recorded


def test_recorded_arguments_keep_their_types_and_are_new_each_time():
    drawn = {"n": SimpleNamespace(B=2, T=3), "ids": [1, True, 1.0, "1", None], "pair": (1, [2]), "table": {(1, 2): -0.0, "a": float("inf")}}
    example = Example.of(drawn, {"B": 2})
    assert repr(example.values()) == repr(drawn)
    example.values()["ids"].append(9)
    assert len(example.values()["ids"]) == 5
    with pytest.raises(NotRecordable):
        Example.of({"value": lambda: 1}, {})
