"""feedback: from a save to the verdict, with the watch's own parts, against a cold `python -m pytest` of the same tests.

The clock runs from before a chapter's file is written until the verdict is there; then it is looked at, whether it is the true one. First
the main exercise of each chapter, warm and cold by turns; then every exercise, right and with a known mistake, whose name has to be found.
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import EXERCISES, ROOT, Exercise, UnknownName, load_syllabus
from grader.quality.benchmarks.figures import machine, middle, ratio, shown, table
from grader.quality.benchmarks.workplace import copied_kit, environment, inside, is_a_copy, solved, without_marks
from grader.verdict.diagnosis import text_with_mistake
from grader.verdict.summary import Verdict
from grader.watch.runs import Runs
from grader.watch.saves import SaveWatcher

TRAINING = {"train_step", "accumulated_step", "AdamW", "fit"}  # their tests train a model: steps of an optimizer, one after another
GOAL_RATIO, GOAL_SECONDS = 15, 0.3
PATIENCE = 120.0


class Untrue(Exception):
    """What was timed is not the verdict it should have been."""


@dataclass
class Times:
    """Of one exercise in one state of its file. The processor's time is that of the whole run, to its end."""

    exercise: Exercise
    tests: int = 0
    warm: list[float] = field(default_factory=list)
    warm_processor: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    cold_processor: list[float] = field(default_factory=list)
    named: bool = False  # was a mistake called by its name?

    @property
    def ratio(self) -> float:
        return middle(self.cold) / middle(self.warm)


class Watched:
    """Saves a chapter and waits for the verdict, as somebody does who has the watch open beside the editor."""

    def __init__(self) -> None:
        self.heard: queue.Queue = queue.Queue()
        self.name = ""
        self.runs = Runs(lambda number, message: self.heard.put((number, message)))
        self.saves = SaveWatcher(EXERCISES, self._saved, lambda word: print(word, file=sys.stderr))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.saves.close()
        self.runs.close()

    def _saved(self, names: set[str]) -> None:
        self.runs.start(self.name)

    def save(self, exercise: Exercise, text: str) -> tuple[Verdict, float, float]:
        """The verdict, the seconds until it came, and the processor's."""
        self.name = exercise.name
        before = self._processor()
        began = time.perf_counter()
        (EXERCISES / f"{exercise.module}.py").write_text(text, encoding="utf-8")
        verdict = Verdict.from_data(self._hear("verdict"))
        seconds = time.perf_counter() - began
        self._hear("done")
        time.sleep(0.05)  # until its process is put away, and its time is on the server's account
        return verdict, seconds, self._processor() - before

    def _hear(self, wanted: str):
        while True:
            try:
                number, message = self.heard.get(timeout=PATIENCE)
            except queue.Empty:
                raise Untrue(f"{self.name}: no {wanted} within {PATIENCE:g} s") from None
            if number == self.runs.number and ("trouble" in message or "again" in message):
                raise Untrue(f"{self.name}: {message}")
            if number == self.runs.number and wanted in message:
                return message[wanted]

    def _processor(self) -> float:
        """Seconds that the server's runs have used; Linux tells."""
        if self.runs.server is None:
            return float("nan")
        try:
            fields = Path(f"/proc/{self.runs.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def cold(exercise: Exercise) -> tuple[float, float]:
    """Seconds of `python -m pytest --exercise NAME` from its start to its end, and the processor's."""
    before = os.times()
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "--exercise", exercise.name]
    done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    seconds = time.perf_counter() - began
    after = os.times()
    if done.returncode:
        raise Untrue(f"{exercise.name}: pytest ends with status {done.returncode}:\n{done.stdout.decode(errors='replace')}")
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def right(watched: Watched, times: Times) -> None:
    """One save of the right code."""
    text = solved(times.exercise.module)
    result, seconds, processor = _true(watched, times.exercise, text, "passed")
    times.tests = len(result.tests)
    times.warm.append(seconds)
    times.warm_processor.append(processor)


def wrong(watched: Watched, times: Times) -> None:
    """One save of the first mistake in the exercise's catalogue."""
    exercise = times.exercise
    mistake = misconceptions(exercise.module, exercise.name)[0]
    result, seconds, processor = _true(watched, exercise, without_marks(text_with_mistake(exercise.module, mistake)), "failed")
    times.named = result.diagnosis is not None and result.diagnosis.id == mistake.id
    times.warm.append(seconds)
    times.warm_processor.append(processor)


def _true(watched: Watched, exercise: Exercise, text: str, outcome: str):
    verdict, seconds, processor = watched.save(exercise, text)
    result = verdict.result(exercise.name)
    if result is None or result.outcome != outcome or result.partial:
        raise Untrue(f"{exercise.name}: the verdict should be {outcome!r}, and is {result.outcome if result else 'not there'!r}")
    return result, seconds, processor


def main_exercises(chosen: list[Exercise]) -> list[Exercise]:
    """In each chapter the one with most points, of those chosen."""
    chapters = dict.fromkeys(exercise.chapter for exercise in chosen)
    return [max((e for e in chosen if e.chapter == chapter), key=lambda e: e.points) for chapter in chapters]


def measure(chosen: list[Exercise], runs: int) -> None:
    """Everything, printed as it comes."""
    print(f"feedback: {machine()}\nmedians of {runs}; \"processor\" is user and system time of the whole run, which a load beside it changes less\n")
    with Watched() as watched:
        right(watched, Times(chosen[0]))  # the server starts
        chapters = [Times(exercise) for exercise in main_exercises(chosen)]
        for _ in range(runs):
            for times in chapters:
                right(watched, times)
                seconds, processor = cold(times.exercise)
                times.cold.append(seconds)
                times.cold_processor.append(processor)
        tell(by_chapter(chapters))
        good, bad = [Times(exercise) for exercise in chosen], [Times(exercise) for exercise in chosen]
        for _ in range(runs):
            for passing, failing in zip(good, bad):
                right(watched, passing)
                wrong(watched, failing)
        print()
        tell(by_exercise(good, bad))


def tell(told: tuple[str, list[str]]) -> None:
    """Print a table, and under it the sentences that say what is in it."""
    rows, sentences = told
    print(f"{rows}\n")
    for sentence in sentences:
        ratio(sentence)


def by_chapter(chapters: list[Times]) -> tuple[str, list[str]]:
    rows = [
        [
            t.exercise.chapter, t.exercise.name, str(t.tests), shown(middle(t.cold)), shown(middle(t.warm)), f"{t.ratio:.1f}",
            shown(middle(t.cold_processor)), shown(middle(t.warm_processor)),
        ]
        for t in chapters
    ]  # fmt: skip
    heads = ["chapter", "exercise", "tests", "cold", "save to verdict", "ratio", "processor cold", "processor warm"]
    reached = middle([times.ratio for times in chapters])
    found = f"From a save to the verdict, in the median chapter: {reached:.1f} times as quick as a cold pytest; the goal is {GOAL_RATIO}: {_met(reached >= GOAL_RATIO)}."
    return table(heads, rows, words=2), [found]


def by_exercise(good: list[Times], bad: list[Times]) -> tuple[str, list[str]]:
    rows = [
        [
            passing.exercise.chapter, passing.exercise.name, "trains" if passing.exercise.name in TRAINING else "", str(passing.tests),
            shown(middle(passing.warm)), shown(middle(passing.warm_processor)),
            shown(middle(failing.warm)), shown(middle(failing.warm_processor)), "yes" if failing.named else "no",
        ]
        for passing, failing in zip(good, bad)
    ]  # fmt: skip
    heads = ["chapter", "exercise", "", "tests", "right", "processor", "mistaken", "processor", "named"]
    late = sorted((t for t in good if middle(t.warm) > GOAL_SECONDS and t.exercise.name not in TRAINING), key=lambda t: -middle(t.warm))
    named = sum(times.named for times in bad)
    under = f"Under {shown(GOAL_SECONDS)} for every exercise that does not train: {_met(not late)}"
    return table(heads, rows, words=3), [
        f"Right code: {shown(middle([middle(t.warm) for t in good]))} in the median exercise, {shown(max(middle(t.warm) for t in good))} in the slowest.",
        under + (f"; not for {', '.join(t.exercise.name for t in late)}." if late else "."),
        f"With a known mistake: {shown(middle([middle(t.warm) for t in bad]))} in the median exercise, {shown(max(middle(t.warm) for t in bad))} in the slowest; "
        f"{named} of {len(bad)} mistakes called by their names.",
    ]


def _met(goal: bool) -> str:
    return "met" if goal else "not met"


def parsed(arguments: list[str]) -> tuple[list[Exercise], int]:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks feedback", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="times that each is measured (5)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this one; may be given again")
    options = parser.parse_args(arguments)
    syllabus = load_syllabus()
    try:
        chosen = {syllabus.exercise(name).name for name in options.exercise or ()}
    except UnknownName as problem:
        parser.error(str(problem))
    return [exercise for exercise in syllabus.exercises if not chosen or exercise.name in chosen], max(1, options.runs)


def run(arguments: list[str]) -> int:
    parsed(arguments)  # what is wrong with them is said before anything is copied
    with copied_kit() as root:
        return inside(root, "grader.quality.benchmarks.feedback", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        sys.exit("this saves over the exercises of the kit it stands in; `python -m grader.quality.benchmarks feedback` makes a copy first")
    try:
        measure(*parsed(sys.argv[1:]))
    except Untrue as problem:
        sys.exit(f"feedback: {problem}")
