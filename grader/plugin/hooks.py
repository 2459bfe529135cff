"""pytest's hooks: which tests run, whose code they test, how failures are reported, and the points.

Only tests with the mark `@exercise` are affected; the kit's own tests run like any other tests.
"""

from __future__ import annotations

import functools
import gc
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: forking after a parallel operation hangs the child
_collecting = gc.isenabled()
gc.disable()  # while torch and the kit are loaded, no object becomes garbage

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)

from grader.course.syllabus import TESTS, UnknownName, load_syllabus  # noqa: E402
from grader.execution.target import NoTarget, resolve  # noqa: E402
from grader.plugin.forked_runner import ForkedRunner  # noqa: E402
from grader.plugin.selection import is_wanted, register_unselected  # noqa: E402
from grader.reproduction.files import FOLDER  # noqa: E402
from grader.runner import graded_tests as exercise_items  # noqa: E402
from grader.runner import run_page as terminal  # noqa: E402
from grader.runner.example_runs import ExampleRuns  # noqa: E402
from grader.runner.graded_run import GradedRun, outcome_of  # noqa: E402
from grader.runner.judging import ItemRunner, exercise_of  # noqa: E402
from grader.verdict.examples import collect_pinned, seed_examples, use_headway_profile  # noqa: E402
from grader.verdict.hypothesis_internals import drop_patch, skip_database_key  # noqa: E402
from grader.verdict.recordings import Recordings  # noqa: E402
from grader.verdict.results import write_results  # noqa: E402
from grader.verdict.trial import Trial  # noqa: E402

if _collecting:
    gc.enable()

pytest_plugins = ["grader.plugin.early"]
RUN = pytest.StashKey[GradedRun]()
RUNNER = pytest.StashKey[ItemRunner]()
EXAMPLES = pytest.StashKey[ExampleRuns]()
FORKED = pytest.StashKey[ForkedRunner]()
SLOW = 2.0  # seconds that the failed tests took; from there on a terminal says that a known mistake is looked for


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "exercise(name, weight): the exercise a graded test belongs to, and its weight there")
    use_headway_profile()
    option = config.option
    try:
        target = resolve(option.target)
        names = {load_syllabus().exercise(name).name for name in option.exercise or ()}
        chapters = [load_syllabus().chapter(name).id for name in option.chapter or ()]
    except (NoTarget, UnknownName) as problem:
        raise pytest.UsageError(str(problem)) from None
    if option.results and not Path(option.results).resolve().parent.is_dir():
        raise pytest.UsageError(f"--results: there is no folder {Path(option.results).resolve().parent} to write in")
    trial = Trial(target, option.worker, option.whole, option.seed)
    run = config.stash[RUN] = GradedRun(trial, set(chapters), names, scripts=FOLDER)
    config.stash[EXAMPLES] = ExampleRuns(None if option.no_recordings else Recordings())
    run.wrap_test = functools.partial(_add_test, run)
    runner = config.stash[RUNNER] = ItemRunner(run)
    config.stash[FORKED] = ForkedRunner(runner)


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    return terminal.header(config.stash[RUN]) if _concerns_graded(config) else None


def _concerns_graded(config: pytest.Config) -> bool:
    kit = Path(__file__).parents[1]
    return any(kit not in (Path(config.invocation_params.dir) / arg.partition("::")[0]).resolve().parents for arg in config.args)


# ---- which tests


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --chapter or --exercise, do not import a suite that has none of their tests."""
    run = config.stash[RUN]
    if not (run.chapters or run.names) or collection_path.suffix != ".py" or collection_path.resolve().parent != TESTS:
        return None
    wanted = {exercise.name for exercise in load_syllabus().exercises if is_wanted(exercise, run)}
    marked = set(re.findall(r"""exercise\(\s*["'](\w+)["']""", collection_path.read_text(encoding="utf-8")))
    return True if marked.isdisjoint(wanted) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.stash[RUN]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    exercise_items.note_collected(run, items)
    for item in items:
        mark = item.get_closest_marker("exercise")
        if mark is None:
            (left if run.chapters or run.names else kept).append(item)
            continue
        exercise = load_syllabus().exercise(mark.args[0])
        if not is_wanted(exercise, run):
            left.append(item)
            continue
        run.wrap_test(item)
        kept.append(item)
    if all(item.get_closest_marker("exercise") for item in kept):
        kept.sort(key=lambda item: load_syllabus().exercises.index(_marked_exercise(item)))  # then what an exercise uses is judged before it
        items[:] = [*kept, *left]
    register_unselected(kept, run)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print Headway's report for a session of graded tests only; a session with the kit's own tests has pytest's tracebacks."""
    gc.freeze()  # torch and the suites stay until the end: no garbage collection needs to look through them, pytest's closing ones least of all
    if session.items and all(item.get_closest_marker("exercise") for item in session.items):
        session.config.option.tbstyle = "no"


def _function(item: pytest.Item) -> pytest.Function:
    assert isinstance(item, pytest.Function), "@exercise marks functions only"
    return item


def _add_test(run: GradedRun, item: pytest.Item) -> None:
    """Make a graded test ready to run, once."""
    if item.nodeid in run.wrapped:
        return
    run.wrapped.add(item.nodeid)
    mark = item.get_closest_marker("exercise")
    assert mark is not None
    run.register_test(load_syllabus().exercise(mark.args[0]), item.name, float(mark.kwargs.get("weight", 1.0)))
    _wrap_examples(_function(item), run)


def _wrap_examples(item: pytest.Function, run: GradedRun) -> None:
    """Begin every example at the boundary, and hide the warnings of libraries, which do not help a learner."""
    item.add_marker(pytest.mark.filterwarnings("ignore"))
    handle, wrap = getattr(item.obj, "hypothesis", None), item.config.stash[EXAMPLES].each_example
    if handle is None:
        item.obj = wrap(item.obj, item, lambda: run.trial.begin_example())
    elif not hasattr(handle.inner_test, "__wrapped__"):
        handle.inner_test = wrap(handle.inner_test, item, lambda: run.trial.begin_example())
        collect_pinned(item.obj)
        skip_database_key(item.obj)
    give_seed(item, run)


def give_seed(item: pytest.Item, run: GradedRun) -> None:
    """The run's seed decides which examples hypothesis draws for this test."""
    test = _function(item).obj
    if hasattr(test, "hypothesis"):
        seed_examples(test, item.name, run.trial.seed_of(_marked_exercise(item).name))


@pytest.fixture
def learner(request: pytest.FixtureRequest):
    """The graded implementation, behind the boundary."""
    run = request.config.stash[RUN]
    return run.trial.learner(_marked_exercise(request.node).chapter)


@pytest.fixture
def reference(request: pytest.FixtureRequest):
    """The reference implementation of the same chapter, behind another boundary."""
    run = request.config.stash[RUN]
    return run.trial.reference(_marked_exercise(request.node).chapter)


def _marked_exercise(item: pytest.Item):
    mark = item.get_closest_marker("exercise")
    if mark is None:
        raise pytest.UsageError(f"{item.nodeid} uses an implementation but belongs to no exercise; mark it with @exercise(NAME)")
    return load_syllabus().exercise(mark.args[0])


# ---- running one


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_protocol")
def pytest_end_chapter(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Run a test, and end the worker of a chapter after the last of its tests: a submission has one worker at a time."""
    result = yield
    run, exercise = item.config.stash[RUN], exercise_of(item)
    following = exercise_of(nextitem) if nextitem is not None else None
    if run.trial.in_worker and exercise and exercise.chapter != (following.chapter if following else ""):
        run.trial.end_chapter(exercise.chapter)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Replaces pytest's own function for graded tests of other code than the reference: it reports the verdict only, whatever was tried to find it."""
    runner, forked = item.config.stash[RUNNER], item.config.stash[FORKED]
    if not runner.may_replace(item) and not forked.needs_fork(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runner.accept(item, forked.run_test(item)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    if item.get_closest_marker("exercise"):
        item.config.stash[RUN].trial.begin_test(_marked_exercise(item), item.name)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Replaces pytest's own function for graded tests."""
    if not pyfuncitem.get_closest_marker("exercise"):
        return None
    pyfuncitem.config.stash[EXAMPLES].run(pyfuncitem, pyfuncitem.config.stash[RUN].trial)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator[None, Any, pytest.TestReport]:
    problem = call.excinfo.value if call.excinfo else None
    if item.get_closest_marker("exercise"):
        drop_patch(item)
    report = yield
    if not item.get_closest_marker("exercise") or (call.when != "call" and report.passed):
        return report
    run = item.config.stash[RUN]
    outcome = outcome_of(problem, failed=report.failed)
    printed = report.capstdout if outcome != "passed" else ""
    promise = " ".join((_function(item).obj.__doc__ or item.name).split())
    exercise = _marked_exercise(item)
    run.record_test(exercise, item.name, outcome, report.duration, problem, promise, printed)
    report.headway = outcome
    report.sections = []
    report.outcome = {"passed": "passed", "todo": "skipped"}.get(outcome, "failed")
    report.longrepr = (str(item.path), item.location[1] or 0, "todo") if outcome == "todo" else None if outcome == "passed" else run.message_of(exercise, item.name)
    return report


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
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.isatty and run.seconds_of_failed_exercises() > SLOW:
        reporter.write_line("")
        reporter.write_line("Looking for a known mistake, which runs these tests again …")
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
    note = terminal.keyword_note(config.option.keyword, run)
    if run.results and not config.option.collectonly:
        run.notes += [note] if note else []
        terminal.summary(terminalreporter, run)
    elif note:
        terminalreporter.write_line(note, yellow=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    run = config.stash.get(RUN, None)
    if run is not None:
        config.stash[FORKED].close()
        config.stash[RUNNER].conclude()  # after the verdict is shown
        run.trial.close()
        run.trial.pool.close()
