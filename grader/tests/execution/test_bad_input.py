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
from pytest_runs import Run, grade, graded_exercises, module, solution

pytestmark = forks

PRELUDE = '''
import os, signal, sys, threading, time
import torch
from torch import nn


class Yes:
    """Agrees with everything."""
    def _yes(self, *args, **options): return True
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = _yes
    __hash__ = None

class YesList(Yes, list): pass
class YesDict(Yes, dict): pass
class YesTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("allclose", "equal", "isclose", "__eq__", "eq", "all", "__bool__"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})
class Mute(Exception):
    def __str__(self): raise RuntimeError("no words")
def left_running():
    threading.Thread(target=time.sleep, args=[3.0], name="idler", daemon=True).start()
def kept(name): return globals()[name]


'''


def function(name: str, body: str) -> str:
    """A new definition of the exercise; `right(...)` is the reference's."""
    return f"def {name}(*args, right={name}, **options):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n\n\n"


def klass(name: str, init: str = "super().__init__(*args, **options)", forward: str = "", **methods: str) -> str:
    """A new definition of the exercise's class, a subclass of the reference's."""
    if forward:
        methods["forward"] = forward
    text = f"class {name}({name}):\n    def __init__(self, *args, **options):\n" + textwrap.indent(textwrap.dedent(init).strip(), " " * 8) + "\n"
    for method, body in methods.items():
        text += f"    def {method}(self, *args, **options):\n" + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n"
    return text + "\n\n"


LATE = "did not end within 0.7 s"
ENDED = "(?i)it ended the program|(your code|importing it) ended the process"

CASES = {
    "build_vocab": (function("build_vocab", "while True: pass"), LATE),
    "WordTokenizer": (klass("WordTokenizer", "time.sleep(60)"), LATE),
    "count_pairs": (function("count_pairs", "sys.exit(0)"), ENDED),
    "merge_pair": (function("merge_pair", "os.abort()"), ENDED),
    "train_bpe": (function("train_bpe", "return train_bpe(*args, **options)"), "RecursionError"),
    "BPETokenizer": (klass("BPETokenizer", encode="raise NotImplementedError('later')"), "not implemented yet"),
    "TokenEmbedding": ("del TokenEmbedding\n\n\n", "does not define `TokenEmbedding`"),
    "LearnedPositions": (klass("LearnedPositions", forward="return args[0] * float('nan')"), "wrong|NaN|nan"),
    "sinusoidal_positions": ("class sinusoidal_positions:\n    def __init__(self, *args): pass\n\n\n", "should be a tensor|of type sinusoidal_positions"),
    "SinusoidalPositions": (klass("SinusoidalPositions", "quit()"), ENDED),
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
    "merge_heads": (function("merge_heads", "return right(*args, **options).long()"), "dtype int64"),
    "SelfAttentionHead": (klass("SelfAttentionHead", forward="raise Mute()"), "raised Mute"),
    "MultiHeadAttention": (
        klass("MultiHeadAttention", forward="while True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass"),
        LATE,
    ),
    "FusedSelfAttention": ("FusedSelfAttention = 3\n\n\n", "to call|not callable"),
    "fuse_qkv": (function("fuse_qkv", "raise ValueError('\\x1b[31m' + 'very ' * 100_000 + '\\x07')"), "raised ValueError: very very"),
    "split_qkv": (function("split_qkv", "raise GeneratorExit('\\ud800')"), "."),
}  # fmt: skip

CHAPTERS = ("ch01", "ch02", "ch03")
PARTLY = {"BPETokenizer"}  # right except when it encodes
AT_IMPORT = {"ch01": ("while True: pass", "did not end within 4 s"), "ch02": ("os._exit(0)", ENDED), "ch03": ("quit()", "it ended the program")}


def wrong_chapter(chapter: str) -> str:
    wrong = [code for name, (code, _) in CASES.items() if load_syllabus().exercise(name).chapter == chapter]
    return solution(chapter) + PRELUDE + "".join(wrong)


class Runs:
    """A run of each target in each kind, started when a test first asks for it."""

    def __init__(self, root: Path) -> None:
        self.root, self.found = root, {}
        for name in ("wrong", "import", "good"):
            (root / name).mkdir()
        for chapter in CHAPTERS:
            file = f"{module(chapter)}.py"
            (root / "wrong" / file).write_text(wrong_chapter(chapter), encoding="utf-8")
            text = f"{solution(chapter)}\nimport os\n{AT_IMPORT[chapter][0]}\n"
            (root / "import" / file).write_text(text, encoding="utf-8")
        write_good(root / "good")

    def __getitem__(self, key: tuple[str, str]) -> Run:
        if key not in self.found:
            name, kind = key
            place = self.root / f"{name}.{kind}"
            place.mkdir()
            arguments = ["--target", str(self.root / name), *["--worker"][: kind == "worker"]]
            if name != "import":  # which shows that a run with all chapters ends
                arguments += [word for chapter in CHAPTERS for word in ("--chapter", chapter)]
            self.found[key] = grade(*arguments, results=place / "r.json", quick=None if name == "good" else place)
        return self.found[key]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("bad"))


IN_KIND = pytest.mark.parametrize("kind", ["local", pytest.param("worker", marks=pytest.mark.thorough)])


@IN_KIND
@pytest.mark.parametrize("name", CASES)
def test_it_fails_with_a_sentence_and_scores_nothing(runs, name, kind):
    result = runs["wrong", kind].exercise(name)
    said = [test["message"] for test in result["tests"] if test["outcome"] != "passed"]
    assert any(re.search(CASES[name][1], message) for message in said), said
    for message in said:
        assert message.isprintable() and len(message) < 1000 and message.endswith((".", "!", "?", ":", "yet"))
    assert result["earned"] == 0 or name in PARTLY and result["earned"] < result["points"]


@pytest.mark.parametrize(
    "key", [("wrong", "local"), *(pytest.param((name, "worker"), marks=pytest.mark.thorough) for name in ("wrong", "import"))]
)
def test_the_run_ends(runs, key):
    run = runs[key]
    expected = [exercise for exercise in graded_exercises() if key[0] == "import" or exercise.chapter in CHAPTERS]
    assert run.status == 1 and "── points" in run.out and len(run.results["exercises"]) == len(expected)
    assert not any(words in run.out for words in ("Traceback", "INTERNALERROR", "\x1b", "\x07"))


@pytest.mark.thorough
@pytest.mark.parametrize("chapter", AT_IMPORT)
def test_an_import_that_misbehaves_is_one_message_for_its_chapter(runs, chapter):
    """grader/tests/execution/test_boundary_errors.py tries the same in process."""
    run = runs["import", "worker"]
    assert run.out.count(f"── {module(chapter)}.py does not import") == 1
    messages = {test["message"] for exercise in run.results["exercises"] if exercise["chapter"] == chapter for test in exercise["tests"]}
    assert len(messages) == 1 and re.search(AT_IMPORT[chapter][1], messages.pop())


def write_good(folder) -> None:
    """Correct answers in unusual ways."""
    first = solution("ch01") + textwrap.dedent('''

        __all__ = ["build_vocab"]
        print("importing " * 100)
        _right_build_vocab = build_vocab


        def build_vocab(corpus):
            print("\\x1b[31mworking\\x1b[0m\\n" * 20_000)
            print("and complaining", file=sys.stderr)
            return _right_build_vocab(corpus)


        if __name__ == "__main__":
            raise SystemExit("not when imported")
    ''')  # fmt: skip
    first = first.replace("from __future__ import annotations\n", "from __future__ import annotations\nimport sys\n")
    (folder / f"{module('ch01')}.py").write_bytes(b"\xef\xbb\xbf" + first.replace("\n", "\r\n").encode("utf-8"))

    second = "# -*- coding: latin-1 -*-\n" + solution("ch02") + textwrap.dedent('''

        import dataclasses
        import time
        import typing

        time.sleep(2)


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
    ''')  # fmt: skip
    (folder / f"{module('ch02')}.py").write_bytes(second.encode("latin-1", errors="replace"))

    third = solution("ch03") + textwrap.dedent('''

        from concurrent.futures import ThreadPoolExecutor

        torch.manual_seed(1234)
        _right_merge_heads = merge_heads


        def merge_heads(x):
            with ThreadPoolExecutor(2) as pool:
                return pool.submit(_right_merge_heads, x).result()
    ''')  # fmt: skip
    (folder / f"{module('ch03')}.py").write_text(third, encoding="utf-8")


@IN_KIND
def test_unusual_code_costs_nothing(runs, kind):
    run = runs["good", kind]
    there = [e for e in run.results["exercises"] if e["chapter"] in CHAPTERS]
    lost = {e["name"]: [t["message"] for t in e["tests"] if t["outcome"] != "passed"] for e in there if e["outcome"] != "passed"}
    assert run.status == 0 and not lost and run.results["earned"] == sum(e["points"] for e in there) > 300, lost or run.out


@pytest.mark.thorough
def test_both_kinds_of_run_give_equal_points(runs):
    for target in ("wrong", "good"):
        one, other = ({e["name"]: e["earned"] for e in runs[target, kind].results["exercises"]} for kind in ("local", "worker"))
        assert one == other


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
def test_on_a_busy_machine_a_call_has_more_time(monkeypatch, in_worker):
    """Right code takes longer by the clock where it has to wait for a processor."""
    code = "import time\n\n\ndef causal_mask(q_len, k_len=None):\n    time.sleep(0.8)\n    return q_len\n"
    for load, outcome in ((0.0, OutOfTime), (8.0, None)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load * os.cpu_count(), 0.0, 0.0))
        one = trial.Trial(Target("busy", None, {"ch03_attention": code}), in_worker, call_seconds=0.5)
        one.begin_test(load_syllabus().exercise("causal_mask"), "test_busy")
        one.begin_example()
        with pytest.raises(outcome) if outcome else contextlib.nullcontext():
            assert one.learner("ch03").causal_mask(3) == 3
        one.close()
