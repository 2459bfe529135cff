"""Runs a learner's tests with pytest, in a worker, on one version of an exercise."""

from __future__ import annotations

import base64
import contextlib
import importlib.abc
import importlib.util
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest
import torch
from grader.course.chapter_source import ChapterSource
from grader.course.torch_internals import compare_without_distribution, compile_without_folder
from grader.execution.chapter_package import LEARNER, ChapterPackage
from grader.plugin.pytest_internals import ModuleOfTests, compile_tests
from grader.processes.job import encode, read
from grader.system.process_tree import CONNECTION_CLOSED
from grader.verdict.examples import ignore_local_constants, set_phases
from hypothesis import Phase

EXAMPLES = 30  # of a law, unless it says how many
LONGEST = 600  # characters of a text in an answer
_EXAMPLE = re.compile("Falsifying example: |Failing test case: ")  # hypothesis says one or the other
_UNUSED = (  # plugins of pytest that take time, write files or print
    "cacheprovider", "faulthandler", "logging", "threadexception", "junitxml", "unraisableexception", "doctest",
    "stepwise", "pastebin", "debugging", "setuponly", "setupplan",
)  # fmt: skip
_OPTIONS = (
    "-x", "-q", "-s", "--tb=short", "--no-header", "--no-summary", "--noconftest", "--rootdir=/",
    "--import-mode=importlib", f"--config-file={os.devnull}", *(f"-pno:{name}" for name in _UNUSED),
)  # fmt: skip


def serve(sock: socket.socket) -> None:
    """Run the tests that the first line has, and answer with a line."""
    torch.set_num_threads(1)
    if not os.environ:  # in the sandbox
        compile_without_folder()
    job = next(read(sock))
    sources = [ChapterSource(name, "", f"<{name}>", code=base64.b64decode(code)) for name, code in job["chapters"]]
    package = ChapterPackage(sources, LEARNER)
    sys.meta_path.insert(0, _Redirection(package))
    answer = try_tests(package.module(job["chapter"]), job["tests"], job["file"], job["shrink"])
    try:
        sock.sendall(encode(answer))
    except OSError:  # a test closed the socket
        os._exit(CONNECTION_CLOSED)


def prepare() -> None:
    """Have hypothesis draw the same examples in each process and write nothing, and turn off what takes torch long."""
    compare_without_distribution()
    for device in (torch.cuda, torch.xpu):  # no version is on one, and `torch.manual_seed` takes milliseconds for them
        device.manual_seed_all = lambda seed: None  # type: ignore[assignment]
    hypothesis.settings.register_profile(
        "own tests", derandomize=True, database=None, deadline=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), max_examples=EXAMPLES,
    )  # fmt: skip
    hypothesis.settings.load_profile("own tests")
    hypothesis.register_random(_TORCH)
    ignore_local_constants()


class _TorchRandom:
    """torch's random numbers, for hypothesis, which begins each example with the same seed."""

    _of_cpu = torch.default_generator  # torch.manual_seed also makes a note for each GPU, which takes milliseconds
    seed, getstate, setstate = _of_cpu.manual_seed, _of_cpu.get_state, _of_cpu.set_state


_TORCH = _TorchRandom()  # hypothesis keeps no reference to it


def try_tests(learner: ModuleType, text: str, file: str, shrink: bool) -> dict[str, Any]:
    """How many tests ran on this chapter, and what is to say about the first that failed. With `shrink`, hypothesis
    looks for the smallest example that fails."""
    session = _Session(learner, text, file, shrink)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # graded runs have plugins of the kit's, which are not for these
    with contextlib.suppress(SystemExit, OSError):  # at its end pytest changes the folder, which a sandbox refuses
        pytest.main(list(_OPTIONS), plugins=[session])
    return session.answer


class _Session:
    """A plugin of pytest: collects the tests of a text, gives them the fixture `learner`, and keeps what failed."""

    def __init__(self, learner: ModuleType, text: str, file: str, shrink: bool) -> None:
        self.module, self.text, self.file, self.shrink = learner, text, file, shrink
        self.answer: dict[str, Any] = {"ran": 0}

    @pytest.fixture
    def learner(self) -> ModuleType:
        return self.module

    def pytest_collection(self, session: pytest.Session) -> bool:
        tests = ModuleType(Path(self.file).stem)
        sys.modules[tests.__name__] = tests
        try:
            exec(compile_tests(self.text, self.file), tests.__dict__)
        except BaseException as problem:
            self._record("", problem, f"{type(problem).__name__}: {problem}")
            return True
        collector = ModuleOfTests.from_parent(session, path=Path("/", self.file))
        collector.imported = tests
        session.items = list(session.genitems(collector))
        for item in session.items:
            set_phases(getattr(item, "obj", None), (Phase.explicit, Phase.generate) + (Phase.shrink,) * self.shrink)
        session.testscollected = len(session.items)
        return True

    def pytest_runtest_setup(self) -> None:
        _TORCH.seed(0)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._record("", None, report.longreprtext)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        report: Any = yield
        self.answer["ran"] += report.when == "call" and not report.skipped
        if report.failed:
            said = re.findall(r"^E +(.*)$", report.longreprtext, re.MULTILINE) or [str(call.excinfo)]
            self._record(item.name, call.excinfo and call.excinfo.value, "\n".join(said))
        return report

    def _record(self, test: str, problem: BaseException | None, said: str) -> None:
        """Keep this failure, if it is the first."""
        if "failed" in self.answer:
            return
        line, trace = 0, problem and problem.__traceback__
        while trace:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == self.file else line
            trace = trace.tb_next
        said, *example = re.split(_EXAMPLE, said, maxsplit=1)
        drawn = [word.strip() for word in "".join(example).splitlines()[1:]]
        drawn = [word for word in drawn if not word.startswith(("learner=", ")", "#"))]
        self.answer |= {
            "failed": test, "line": line, "said": said.strip()[:LONGEST],
            "example": " ".join(drawn)[:LONGEST].rstrip(","),
        }  # fmt: skip


class _Redirection(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`exercises.ch03_attention` and `ch03_attention` are the chapter that is tried, or an earlier one."""

    def __init__(self, package: ChapterPackage) -> None:
        self.package = package

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "exercises" or fullname.removeprefix("exercises.") in self.package.sources:
            return importlib.util.spec_from_loader(fullname, self, is_package=fullname == "exercises")
        return None

    def create_module(self, spec):
        return None if spec.name == "exercises" else self.package.module(spec.name.removeprefix("exercises."))

    def exec_module(self, module: ModuleType) -> None:
        """It is imported already."""
