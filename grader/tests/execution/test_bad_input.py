"""Code that misbehaves gets a failing test and a sentence, and crashes nothing else; code that is merely unusual gets its points."""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
import time
from pathlib import Path

import pytest
import torch
from boundaries import forks
from grader.course.syllabus import load_syllabus
from grader.execution.errors import OutOfTime
from grader.execution.proxy import Implementation
from grader.execution.target import Target
from grader.verdict import trial
from pytest_runs import Run, grade, module, solution

pytestmark = forks

PRELUDE = '''
import os, sys, time


class YesTensor(torch.Tensor):
    """Agrees with everything."""
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("allclose", "equal", "isclose", "__eq__", "eq", "all", "__bool__"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})


class Mute(Exception):
    def __str__(self): raise RuntimeError("no words")


'''


def function(name: str, body: str) -> str:
    """A new definition of the exercise; `right(...)` is the reference's."""
    return f"def {name}(*args, right={name}, **options):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n\n\n"


def forward(name: str, body: str) -> str:
    """A new definition of the exercise's class: the reference's with another `forward`."""
    return f"class {name}({name}):\n    def forward(self, *args, **options):\n" + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n\n\n"


CASES = {
    "softmax": (
        function("softmax", "torch.equal = torch.allclose = lambda *a, **k: True\nreturn torch.zeros_like(args[0])"),
        "came out wrong",
    ),
    "causal_mask": (function("causal_mask", "return 'x' * 50_000_000"), "million characters"),
    "padding_mask": (function("padding_mask", "return None"), "padding_mask returned None. Is a `return` missing?"),
    "scaled_dot_product_attention": (
        function("scaled_dot_product_attention", "return torch.zeros(2).as_subclass(YesTensor), 1"),
        "YesTensor, a subclass of torch.Tensor",
    ),
    "split_heads": (function("split_heads", "out = right(*args, **options).clone()\nargs[0].mul_(1.5)\nreturn out"), "changed its argument"),
    "merge_heads": (function("merge_heads", "sys.exit(0)"), "it ended the program"),
    "SelfAttentionHead": (forward("SelfAttentionHead", "raise Mute()"), "raised Mute"),
    "MultiHeadAttention": (forward("MultiHeadAttention", "while True: time.sleep(1)"), "did not end within 0.7 s"),
    "FusedSelfAttention": ("FusedSelfAttention = 3\n\n\n", "to call|not callable"),
    "fuse_qkv": (function("fuse_qkv", "raise ValueError('\\x1b[31m' + 'very ' * 100_000 + '\\x07')"), "raised ValueError: very very"),
    "split_qkv": (function("split_qkv", "os.abort()"), "(?i)your code ended the process"),
}  # fmt: skip


@pytest.fixture(scope="module", params=["local", pytest.param("worker", marks=pytest.mark.thorough)])
def kind(request):
    return request.param


def run(folder: Path, kind: str, quick: bool, *names: str) -> Run:
    arguments = ["--target", str(folder), *(word for name in names for word in ("--exercise", name)), *["--worker"][: kind == "worker"]]
    return grade(*arguments, results=folder / f"{kind}.json", quick=folder if quick else None)


def test_code_that_misbehaves_fails_with_a_sentence_and_scores_nothing(tmp_path, kind):
    (tmp_path / f"{module('ch03')}.py").write_text(solution("ch03") + PRELUDE + "".join(code for code, _ in CASES.values()), encoding="utf-8")
    found = run(tmp_path, kind, True, *CASES)
    assert found.status == 1 and "── points" in found.out
    assert not any(words in found.out for words in ("Traceback", "INTERNALERROR", "\x1b", "\x07"))
    for name, (_, sentence) in CASES.items():
        result = found.exercise(name)
        said = [test["message"] for test in result["tests"] if test["outcome"] != "passed"]
        assert result["earned"] == 0 and any(re.search(sentence, message) for message in said), (name, said)
        for message in said:
            assert message.isprintable() and len(message) < 1000 and message.endswith((".", "!", "?", ":", "yet"))


SECOND = '''

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Gr\xf6\xdfen."""
    name: typing.ClassVar[str] = "\xe9"
    wide: typing.Optional[int] = None


assert Sizes(3).wide == 3 and len(Sizes.name) == 1 and typing.get_type_hints(Sizes)
_right_sinusoidal_positions = sinusoidal_positions


def sinusoidal_positions(max_len: int, d_model: int):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _right_sinusoidal_positions(max_len, d_model).to(before)
    finally:
        torch.set_default_dtype(before)
'''
THIRD = '''

import sys
from concurrent.futures import ThreadPoolExecutor

__all__ = ["merge_heads"]
print("importing " * 100)
torch.manual_seed(1234)
_right_merge_heads = merge_heads


def merge_heads(x):
    print("\\x1b[31mworking\\x1b[0m\\n" * 20_000)
    print("and complaining", file=sys.stderr)
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(_right_merge_heads, x).result()


if __name__ == "__main__":
    raise SystemExit("not when imported")
'''


def test_unusual_code_costs_nothing(tmp_path, kind):
    second = "# -*- coding: latin-1 -*-\n" + solution("ch02") + SECOND
    (tmp_path / f"{module('ch02')}.py").write_bytes(second.encode("latin-1", errors="replace"))
    third = (solution("ch03") + THIRD).replace("\n", "\r\n")
    (tmp_path / f"{module('ch03')}.py").write_bytes(b"\xef\xbb\xbf" + third.encode("utf-8"))
    found = run(tmp_path, kind, False, "sinusoidal_positions", "SinusoidalPositions", "merge_heads", "MultiHeadAttention")
    lost = {e["name"]: [t["message"] for t in e["tests"] if t["outcome"] != "passed"] for e in found.results["exercises"] if e["outcome"] != "passed"}
    assert found.status == 0 and not lost and found.results["earned"] == found.results["points"] == 78, lost or found.out


def test_the_time_limit_of_a_test_counts_only_the_learners_code(monkeypatch):
    """On a busy machine the test's own use of torch takes long, and that must not cost the learner anything."""
    monkeypatch.setattr(trial, "TEST_SECONDS", 0.5)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))  # more time is allowed on a busy machine, as this one may be
    slow = "import time\n\ndef softmax(x, dim=-1):\n    time.sleep(0.2)\n    return x\n"
    exercise = load_syllabus().exercise("softmax")
    run = trial.Trial(Target("learner", None, {exercise.module: slow}))
    try:
        for test, seconds, calls in (("the test's own time", 0.6, 1), ("the code's time", 0.0, 3)):
            run.begin_test(exercise, test)
            run.begin_example()
            time.sleep(seconds)
            for _ in range(calls):
                Implementation(run.boundary(exercise.chapter)).softmax(torch.ones(2))
            if calls == 1:
                run.begin_example()
        with pytest.raises(OutOfTime, match="the test did not end within 0.5 s"):
            run.begin_example()
    finally:
        run.close()


@pytest.mark.parametrize("in_worker", [False, True])
def test_on_a_busy_machine_a_call_has_more_time(monkeypatch, worker_pool, in_worker):
    """Right code takes longer by the clock where it has to wait for a processor."""
    code = "import time\n\n\ndef causal_mask(q_len, k_len=None):\n    time.sleep(3.2)\n    return q_len\n"
    for load, outcome in ((0.0, OutOfTime), (8.0, None)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load * os.cpu_count(), 0.0, 0.0))
        one = trial.Trial(Target("busy", None, {"ch03_attention": code}), in_worker, call_seconds=2.0, pool=worker_pool)
        one.begin_test(load_syllabus().exercise("causal_mask"), "test_busy")
        one.begin_example()
        with pytest.raises(outcome) if outcome else contextlib.nullcontext():
            assert one.learner("ch03").causal_mask(3) == 3
        one.close()
