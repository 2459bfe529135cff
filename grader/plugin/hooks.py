"""pytest's hooks: which tests run, whose code they test, how failures are reported, and the points.

Only tests with the mark `@exercise` are affected; the kit's own tests run like any other tests.
"""

from __future__ import annotations

import contextlib
import gc
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grader.runner.loading  # noqa: F401  # first: before torch
import pytest
from grader.course.syllabus import TESTS, Exercise, UnknownName, load_syllabus, similar, suites_of
from grader.execution.target import NoTarget, resolve
from grader.plugin.pytest_internals import PrintedToPytest, height_of, width_of
from grader.reproduction.files import FOLDER
from grader.runner import run_page
from grader.runner.graded_run import PAGE_SECONDS, GradedRun
from grader.runner.graded_tests import GradedTest, NotATest, graded_test
from grader.runner.judging import Attempt, Judge, judge_of
from grader.runner.marks import mark_of
from grader.runner.run_page import Page
from grader.verdict.examples import use_headway_profile
from grader.verdict.recordings import course_recordings
from grader.verdict.results import TestResult, write_results
from grader.verdict.trial import Trial


@dataclass(frozen=True)
class Selection:
    """Which tests a session is about."""

    chapters: frozenset[str]
    exercises: frozenset[str]

    @classmethod
    def of_options(cls, option) -> Selection:
        """UnknownName if there is no such chapter or exercise."""
        course = load_syllabus()
        chapters = frozenset(course.chapter(name).id for name in option.chapter or ())
        return cls(chapters, frozenset(course.exercise(name).name for name in option.exercise or ()))

    def __bool__(self) -> bool:
        """Whether some tests are chosen; otherwise all are wanted."""
        return bool(self.chapters or self.exercises)

    def wants(self, exercise: Exercise) -> bool:
        return (not self.chapters or exercise.chapter in self.chapters) and (
            not self.exercises or exercise.name in self.exercises
        )

    def leaves_out(self, file: Path) -> bool:
        """Whether this suite has none of the selected tests, so that it need not be imported."""
        if not self or file.suffix != ".py" or file.resolve().parent != TESTS:
            return False
        wanted = {exercise.name for exercise in load_syllabus().exercises if self.wants(exercise)}
        return wanted.isdisjoint(re.findall(r"""exercise\(\s*["'](\w+)["']""", file.read_text(encoding="utf-8")))


pytest_plugins = ["grader.plugin.early"]
RUN = pytest.StashKey[GradedRun]()
JUDGE = pytest.StashKey[Judge]()
SELECTED = pytest.StashKey[Selection]()


def pytest_configure(config: pytest.Config) -> None:
    use_headway_profile()
    option = config.option
    try:
        target, selection = resolve(option.target), Selection.of_options(option)
    except (NoTarget, UnknownName) as problem:
        raise pytest.UsageError(str(problem)) from None
    if option.results and not Path(option.results).resolve().parent.is_dir():
        raise pytest.UsageError(f"--results: there is no folder {Path(option.results).resolve().parent} to write in")
    trial = Trial(target, option.worker, option.whole, option.seed)
    scripts = None if option.results else FOLDER  # a program that reads results runs no script
    seconds = math.inf if option.results else PAGE_SECONDS
    printed, chosen = PrintedToPytest(config), bool(selection)
    judge = judge_of(trial, course_recordings(), printed, chosen=chosen, scripts=scripts, page_seconds=seconds)
    config.stash[RUN], config.stash[JUDGE], config.stash[SELECTED] = judge.run, judge, selection
    if getattr(config.option, "tx", None) and not _is_xdist_worker(config):
        config.pluginmanager.register(XdistVerdicts(config))


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    return run_page.header(config.stash[RUN]) if _concerns_graded(config) else None


def _concerns_graded(config: pytest.Config) -> bool:
    kit = Path(__file__).parents[1]
    return any(
        kit not in (Path(config.invocation_params.dir) / arg.partition("::")[0]).resolve().parents
        for arg in config.args
    )


# ---- which tests


_TEST = pytest.StashKey[GradedTest | None]()


def graded_test_of(item: pytest.Item) -> GradedTest | None:
    """The graded test that pytest has collected as this item; None for any other item."""
    if _TEST not in item.stash:
        item.stash[_TEST] = _graded_test(item)
    return item.stash[_TEST]


def _graded_test(item: pytest.Item) -> GradedTest | None:
    function = getattr(item, "obj", None)
    if mark_of(function) is None:
        return None
    try:
        if hasattr(item, "callspec"):
            raise NotATest(f"{item.name} is parametrized; have hypothesis draw its arguments instead")
        return graded_test(function, item.path.resolve())
    except (NotATest, UnknownName) as problem:
        raise pytest.UsageError(f"{item.path.name}: {problem}") from None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.stash[SELECTED].leaves_out(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the selected tests, in the order of the course, so that what an exercise uses is judged before it."""
    judge, selection = config.stash[JUDGE], config.stash[SELECTED]
    tests = {item: graded_test_of(item) for item in items}
    left = [item for item, test in tests.items() if (not selection.wants(test.exercise) if test else bool(selection))]
    kept = [item for item in items if item not in set(left)]
    graded = [(item, test) for item in kept if (test := tests[item])]
    for item, test in graded:
        if test.is_of_course and test.exercise.name not in judge.run.weights:
            # also those that are not selected (`pytest FILE::TEST`, `--lf`): one test is not the whole exercise
            judge.tests_of(test.exercise)
        judge.run.register(test)
        item.extra_keyword_matches.update((test.exercise.name, test.exercise.module))  # for -k
    if not selection:
        collected = {test.suite for _, test in graded}
        for chapter in {test.exercise.chapter for _, test in graded if test.is_of_course}:
            judge.run.left_out[chapter] = [suite for suite in suites_of(chapter) if suite not in collected]
    if len(graded) == len(kept):
        places = {exercise.name: place for place, exercise in enumerate(load_syllabus().exercises)}
        order = {item: places[test.exercise.name] for item, test in graded}
        kept.sort(key=lambda item: order[item])
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Print Headway's report for a session of graded tests only; a session with the kit's own tests has pytest's
    tracebacks."""
    # torch and the suites stay until the end: no garbage collection needs to look through them, pytest's closing ones
    # least of all
    gc.freeze()
    if session.items and all(map(graded_test_of, session.items)):
        session.config.option.tbstyle = "no"
    keyword, reporter = session.config.option.keyword, session.config.pluginmanager.get_plugin("terminalreporter")
    if keyword and not session.items and session.config.stash[RUN].weights and reporter is not None:
        near = similar(keyword, [exercise.name for exercise in load_syllabus().exercises])
        advice = f"did you mean -k {' or '.join(near)}?" if near else "`headway list` lists the exercises."
        looked = "parts of the names of tests, of their exercises and of their files"
        Page(reporter.write_line, width_of(reporter)).wrapped(
            f"headway: -k selects by {looked}, and no test has {keyword!r} there; {advice}", yellow=True
        )


@pytest.fixture
def learner(request: pytest.FixtureRequest):
    """The graded implementation, behind the boundary."""
    return request.config.stash[RUN].trial.learner(_chapter_of(request.node))


@pytest.fixture
def reference(request: pytest.FixtureRequest):
    """The reference implementation of the same chapter, behind another boundary."""
    return request.config.stash[RUN].trial.reference(_chapter_of(request.node))


def _chapter_of(item: pytest.Item) -> str:
    test = graded_test_of(item)
    if test is None:
        raise pytest.UsageError(
            f"{item.nodeid} uses an implementation but belongs to no exercise; mark it with @exercise(NAME)"
        )
    return test.exercise.chapter


# ---- running one


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Replaces pytest's own function for graded tests: the runner judges the test, and pytest gets reports of the
    verdict."""
    test, config = graded_test_of(item), item.config
    if test is None or config.option.setuponly:
        return None
    judge = config.stash[JUDGE]
    judge.runner.on_problem = _debugger(item) if config.option.usepdb else lambda *_: None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    found = judge.judge(test)
    for result in judge.accept(found):
        for report in _reports(item, result, found):
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    judge.end_chapter(test, graded_test_of(nextitem) if nextitem is not None else None)
    return True


def _reports(item: pytest.Item, result: TestResult, found: Attempt) -> list[pytest.TestReport]:
    """The three reports that pytest's plugins expect of a test; the second has the verdict, for xdist with all that was
    found."""
    keywords, outcome = dict.fromkeys(item.keywords, 1), result.outcome
    word = {"passed": "passed", "todo": "skipped"}.get(outcome, "failed")
    text: tuple | str | None = None if outcome == "passed" else result.message
    if outcome == "todo":
        text = (str(item.path), item.location[1] or 0, "todo")
    verdict = pytest.TestReport(
        item.nodeid, item.location, keywords, word, text, "call",  # type: ignore[arg-type]
        duration=result.seconds, headway=outcome,
    )  # fmt: skip
    if _is_xdist_worker(item.config):
        verdict.headway_found = pickle.dumps(found)  # type: ignore[attr-defined]
    before, after = (
        pytest.TestReport(item.nodeid, item.location, keywords, "passed", None, when)  # type: ignore[arg-type]
        for when in ("setup", "teardown")
    )
    return [before, verdict, after]


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class XdistVerdicts:
    """With `-n`: collects the verdicts of xdist's workers in the process that prints the page."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = getattr(report, "headway_found", None)
        if data is None:
            return
        self.config.option.tbstyle = "no"
        judge, found = self.config.stash[JUDGE], pickle.loads(data)
        for name in found.tests:
            judge.tests_of(load_syllabus().exercise(name))
        judge.accept(found)


def _debugger(item: pytest.Item) -> Callable[[GradedTest, BaseException], None]:
    """With --pdb: pytest's debugger, at the exception that ended a test."""

    def stop(test: GradedTest, problem: BaseException) -> None:
        def end_again() -> None:
            raise problem

        call = pytest.CallInfo.from_call(end_again, "call")
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", str(problem), "call")
        item.ihook.pytest_exception_interact(node=item, call=call, report=report)

    return stop


def pytest_report_teststatus(report: pytest.TestReport) -> tuple | None:
    outcome = getattr(report, "headway", "")
    words = {
        "todo": ("todo", "t", ("TODO", {"yellow": True})),
        "timeout": ("failed", "T", ("TIMEOUT", {"red": True})),
        "error": ("error", "E", ("ERROR", {"red": True})),
    }
    return words.get(outcome)


# ---- the end


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    run = session.config.stash[RUN]
    if _is_xdist_worker(session.config):
        return
    run.conclude()
    if session.exitstatus == pytest.ExitCode.OK and any(result.forbidden for result in run.results.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED  # the tests passed, but the points are withheld
    option = session.config.option
    if option.results and not option.collectonly:
        try:
            write_results(Path(option.results), run.result())
        except OSError as problem:
            run.notes.append(f"--results: {option.results} was not written: {problem.strerror or problem}")
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run = config.stash[RUN]
    if run.results and not config.option.collectonly:
        page = Page(terminalreporter.write_line, width_of(terminalreporter), height_of(terminalreporter))
        shown = run_page.print_run(page, run, verbose=config.get_verbosity() > 0)
        with contextlib.suppress(KeyboardInterrupt):
            run_page.print_search(page, run, shown)


def pytest_unconfigure(config: pytest.Config) -> None:
    judge = config.stash.get(JUDGE, None)
    if judge is not None:
        if not _is_xdist_worker(config):
            judge.record_states()  # after the verdict is shown
        judge.close()
