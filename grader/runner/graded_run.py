"""A graded run: collects the result of each test, and finds shortcuts, diagnoses and progress at the end."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.course import progress
from grader.course.code_shape import describe_changed_def, describe_written
from grader.course.source import SourceProblem, is_written
from grader.course.source_check import forbidden_calls, reference_imports
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise, load_syllabus
from grader.course.torch_operators import describe_shortcuts
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime, Todo, printable
from grader.execution.target import uses
from grader.reproduction.example import FailedExample, keep_example
from grader.reproduction.files import write_repro_script
from grader.runner.graded_tests import GradedTest
from grader.verdict import comparing, results
from grader.verdict.diagnosis import Map, Search, SearchStopped
from grader.verdict.explanation import explain_failure
from grader.verdict.results import NOT_IMPLEMENTED, NOT_RUN, ExerciseResult, Failure, RunResult, TestResult, Verdict
from grader.verdict.trial import Trial

# for one exercise; on a busy machine, all exercises of a course full of mistakes together take that long
DIAGNOSIS_SECONDS = 60.0
# for a known mistake, where a learner waits and where a class is graded; most searches take less than one
SEARCH_SECONDS, CLASS_SEARCH_SECONDS = 20.0, 50.0
PAGE_SECONDS = 1.0  # so long a page waits for the searches, unless a mistake in the solution explains everything


def outcome_of(problem: BaseException | None) -> str:
    """The outcome of a test, from the exception that ended it."""
    match problem:
        case None:
            return "passed"
        case Todo():
            return "todo"
        case OutOfTime():
            return "timeout"
        case ChapterBroken():
            return "timeout" if problem.timed_out else "error"
        case HostDied():
            return "error"
    return "failed"


@dataclass
class GradedRun:
    trial: Trial
    chosen: bool = False  # whether the learner has asked for some exercises, not for all
    map_mistakes: Map = map  # calls a function for each known mistake, perhaps in parallel
    # for the known mistake of an exercise, where neither a learner nor a class waits for it
    search_seconds: float | None = None
    # after which `conclude` leaves the searches of all exercises to `search_on`
    page_seconds: float = math.inf
    weights: dict[str, dict[str, float]] = field(default_factory=dict)
    results: dict[str, ExerciseResult] = field(default_factory=dict)
    shortcuts: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    left_out: dict[str, list[Path]] = field(default_factory=dict)  # of a chapter, suites that pytest was not given
    scripts: Path | None = None  # where each failure leaves a script for `headway repro`
    # of the failed tests, by exercise and test
    examples: dict[tuple[str, str], FailedExample] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # sentences for the end of the run
    newly_passed: list[Exercise] = field(default_factory=list)  # passed in this run for the first time
    searches: dict[str, Search] = field(default_factory=dict)  # by exercise, those that have not ended

    def register(self, test: GradedTest) -> None:
        """Count a test among those of its exercise, whether or not it runs."""
        self.weights.setdefault(test.exercise.name, {})[test.name] = test.weight

    def record_test(self, test: GradedTest, seconds: float, problem: BaseException | None, printed: str) -> TestResult:
        """Record the result of one test that has ended, with the explanation of its failure."""
        exercise, outcome = test.exercise, outcome_of(problem)
        found = self.trial.end_test(outcome)
        self.shortcuts.setdefault(exercise.name, set()).update(found)
        result = TestResult(test.name, outcome, seconds, test.weight, test.promise)
        if outcome == "todo":
            result.message = self._todo_message(exercise, str(problem))
        elif outcome != "passed":
            details = self._failure_of(problem, test, printable(printed[-4000:], 4000))
            result.message, result.explanation, result.details = details.message, details.explanation, details
            result.seed = self.trial.run_seed
            if isinstance(problem, ChapterBroken):
                self.broken[exercise.module] = details
            if self.scripts:
                self._keep_example(problem, exercise, test.name, details)
        self.results.setdefault(exercise.name, ExerciseResult(exercise)).tests.append(result)
        return result

    def _failure_of(self, problem: BaseException | None, test: GradedTest, printed: str) -> Failure:
        boundary = self.trial.current_boundary
        try:
            return explain_failure(problem, test.promise, boundary, comparing.current, printed, test.is_about_error)
        # of the kit, or of torch that code in process has changed: the outcome stands, and the run goes on
        except Exception as error:
            self._note_unexplained(test.name, error)
            return Failure(
                promise=test.promise, message=printable(" ".join(f"{type(problem).__name__}: {problem}".split()), 300)
            )

    def _note_unexplained(self, name: str, error: Exception) -> None:
        text = printable(f"{type(error).__name__}: {error}", 200)
        self.notes.append(
            f"The failures of {name} could not be explained further ({text}). Does the code change torch itself?"
        )

    def _keep_example(self, problem: BaseException | None, exercise: Exercise, test: str, details: Failure) -> None:
        trial = self.trial
        try:
            example = keep_example(
                problem, trial.current_boundary, comparing.current, exercise, test, details.message,
                trial.example_seed, trial.in_worker
            )  # fmt: skip
        except Exception as error:
            self._note_unexplained(test, error)
            return
        if example is not None:
            self.examples[exercise.name, test] = example

    def _todo_message(self, exercise: Exercise, missing: str) -> str:
        """The message of a test with outcome "todo": the exercise is not implemented, or it needs another one that is
        not."""
        if not missing or missing.startswith(f"{exercise.name} in {exercise.module}.py"):
            return NOT_IMPLEMENTED
        try:
            written = is_written(self.trial.target.source(exercise.module).text, exercise.name)
        except (SourceProblem, ChapterBroken):
            return NOT_IMPLEMENTED
        return missing if written else NOT_IMPLEMENTED

    def conclude(self) -> None:
        """After the last test: look for shortcuts, name known mistakes, record progress."""
        self._page_time, self._searched = time.monotonic() + self.page_seconds, 0
        order = [exercise.name for exercise in load_syllabus().exercises]
        self.results = dict(sorted(self.results.items(), key=lambda item: order.index(item[0])))
        for result in self.results.values():
            self.trial.extend_deadline(DIAGNOSIS_SECONDS)
            self._restore_order(result)
            tested = {test.name for test in result.tests}
            for name, weight in self.weights[result.exercise.name].items():
                if name not in tested:
                    result.partial = True
                    result.missing_weight += weight
            self._find_shortcuts(result)
            self._mark_consequences(result)
            try:
                self._add_explanations(result)
            except Exception as problem:  # code in process may have changed torch itself; the outcomes stand
                self._note_unexplained(result.exercise.name, problem)
        self._record_progress()

    def _restore_order(self, result: ExerciseResult) -> None:
        """Order the tests as in their suite, whichever ran first."""
        places = {test: place for place, test in enumerate(self.weights[result.exercise.name])}
        result.tests.sort(key=lambda test: places[test.name])
        self.trial.records.get(result.exercise.name, []).sort(key=lambda record: places[record.test])

    def _add_explanations(self, result: ExerciseResult) -> None:
        """Add what helps a learner to the outcomes: the diagnosis, the test to show first, what is written, the
        script."""
        if any(test.outcome == "failed" for test in result.tests) and not result.follows:
            search = Search(result.exercise, self.trial.records.get(result.exercise.name, []), self.map_mistakes)
            self._searched += 1
            if self._searched <= results.SHOWN_WHOLE or time.monotonic() < self._page_time:
                self._run_search(result, search, self._page_time - time.monotonic())
            else:
                self.searches[result.exercise.name] = search
        mark_leading_test(result)
        self._note_changed_def(result)
        if any(test.message == NOT_IMPLEMENTED for test in result.tests):
            result.written = describe_written(self._text_of(result.exercise), result.exercise.name)
        if self.scripts:
            write_repro_script(result, self.examples, self.trial, self.scripts)

    def _run_search(self, result: ExerciseResult, search: Search, pause: float = math.inf) -> None:
        """Name the known mistake. A search that has not ended is kept, or a note says that it was stopped."""
        name = result.exercise.name
        seconds = self.search_seconds or (SEARCH_SECONDS if self.trial.learner_waits else CLASS_SEARCH_SECONDS)
        try:
            result.diagnosis = search.run(seconds, pause)
        except SearchStopped:
            if pause < seconds:
                self.searches[name] = search
                return
            self.notes.append(
                f"The search for a known mistake in {name} was stopped after {seconds:g} s. "
                f"The failures are shown as they are; `headway check {name}` searches again."
            )

    def search_on(self, name: str) -> None:
        """Continue the search of this exercise, whose failures are shown already: the test that leads remains."""
        result = self.results[name]
        self.trial.extend_deadline(DIAGNOSIS_SECONDS)
        try:
            self._run_search(result, self.searches.pop(name))
        except Exception as problem:
            self._note_unexplained(name, problem)
        result.diagnosis = result.diagnosis and result.diagnosis.shown_by(result.failures[0].name)

    def _note_changed_def(self, result: ExerciseResult) -> None:
        """Where no known mistake is found, say that the learner's `def` is not the stub's."""
        leading = next(iter(result.failures), None)
        if leading is None or leading.details is None or result.diagnosis:
            return
        with suppress(SourceProblem):  # a handout may lack the stub
            stub = reference_stub(result.exercise.module)
            if changed := describe_changed_def(self._text_of(result.exercise), stub, result.exercise.name):
                leading.details = replace(leading.details, message=f"{leading.details.message} {changed}".strip())

    def _mark_consequences(self, result: ExerciseResult) -> None:
        """With --whole: mark the failures of an exercise that uses, directly or through others, one that fails earlier
        in the course."""
        if not self.trial.whole or not result.failures:
            return
        used = uses(self.trial.target, result.exercise.module, result.exercise.name)
        order = load_syllabus().exercises
        earlier = [
            r.exercise
            for r in self.results.values()
            if r.failures and order.index(r.exercise) < order.index(result.exercise)
        ]
        cause = next((exercise for exercise in earlier if (exercise.module, exercise.name) in used), None)
        for test in result.failures:
            test.follows = cause.name if cause else ""

    def _text_of(self, exercise: Exercise) -> str:
        with suppress(ChapterBroken):
            return self.trial.target.source(exercise.module).text
        return ""

    def _find_shortcuts(self, result: ExerciseResult) -> None:
        exercise = result.exercise
        if exercise.module in self.broken or all(test.outcome == "todo" for test in result.tests):
            return
        try:
            text = self.trial.target.source(exercise.module).text
        except ChapterBroken:  # no test ran far enough to find that the chapter is broken
            return
        result.forbidden = [*reference_imports(text), *self.forbidden_in_source(text, result)]
        if not result.forbidden:
            result.forbidden = describe_shortcuts(exercise.name, self.shortcuts[exercise.name])

    def forbidden_in_source(self, text: str, result: ExerciseResult) -> list[str]:
        """A sentence for each forbidden call in the source of an exercise; what was replaced by the reference's does
        not count."""
        return forbidden_calls(text, result.exercise.name, result.exercise.forbids, without=result.replaced)

    def _record_progress(self) -> None:
        if not self.trial.target.is_own_folder or self.trial.whole:
            return
        # a syntax error removes no points
        whole = [r for r in self.results.values() if not r.partial and r.exercise.module not in self.broken]
        before = progress.load_scores()
        self.newly_passed = [
            r.exercise
            for r in whole
            if r.outcome == "passed" and not (r.exercise.name in before and before[r.exercise.name].passed)
        ]
        problem = progress.record_scores({r.exercise.name: r.earned for r in whole})
        if problem:
            self.notes.append(problem)

    def verdict(self) -> Verdict:
        return Verdict(
            list(self.results.values()), self.broken, [exercise.name for exercise in self.newly_passed], self.notes
        )

    def result(self) -> RunResult:
        target = self.trial.target
        label = str(target.folder.resolve()) if target.folder else target.label
        return RunResult(label, self.trial.seed, self.trial.in_worker, list(self.results.values()), self.broken)


# ---- the test to show in full

# what a test is about, in the words of its name, if it is about something else than values
_BESIDES_VALUES = (
    "dtype", "dtypes", "float", "floating", "float32", "float64", "precision", "device", "devices",
    "gradient", "gradients", "error", "raise", "raises", "refused", "dropout", "training",
    "default", "defaults", "empty", "sizes_and_names", "parts_and_names", "have_their_names",
)  # fmt: skip


def mark_leading_test(result: ExerciseResult) -> None:
    """Mark one failed test of the exercise as the one to show in full: of those that the diagnosis explains, the most
    basic one. Of two mistakes the one that it shows comes first.

    The suites go from the basic to the special, so it is the first one that failed, unless that is about something
    besides the values: a dtype, a gradient, an error that should be raised. Leading with the test that the fewest known
    mistakes fail was tried on 143 attempts without a name: it chose another one for nine of them, and the better one
    for three.
    """
    failures = [test for test in result.tests if test.outcome not in ("passed", "todo")]
    if not failures:
        return
    diagnosis = result.diagnosis
    tests = [name for mistake in (diagnosis.mistakes if diagnosis else ()) for name in mistake.explains]
    explained = [test for test in failures if test.name in tests]
    first = result.tests[0]

    def specialty(test: TestResult) -> tuple[bool, ...]:
        special = test is not first and _is_besides_values(test)
        return test.outcome == "timeout", test.message.startswith(NOT_RUN), special

    leading = min(explained or failures, key=specialty)
    for test in result.tests:
        test.leads = test is leading
    result.diagnosis = diagnosis and diagnosis.shown_by(leading.name)
    if diagnosis and leading.details:
        leading.details = leading.details.without_places()
    passed = sum(test.outcome == "passed" for test in result.tests)
    is_all_else = len(failures) == 1 or all(map(_is_besides_values, failures))
    if is_all_else and 1 < passed == len(result.tests) - len(failures) and leading.details and not result.partial:
        right = f"{leading.details.message} Everything else is right: the other {passed} tests pass."
        leading.details = replace(leading.details, message=right)


def _is_besides_values(test: TestResult) -> bool:
    return any(f"_{topic}_" in f"_{test.name}_" for topic in _BESIDES_VALUES)
