"""`headway hunt`: finds and repairs one mistake in code that works otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated

from grader.cli.arguments import AnyName, named, option
from grader.cli.commands.check import NOT_YET, PASSED, UNUSABLE, print_file_problem, run_tests
from grader.console.output import command_line, make_console, print_wrapped
from grader.counts import format_count
from grader.course.hunts import BLIND, CALL, PROMISE, TRAINING, Hunt, Hunts, choose
from grader.course.known_mistakes import Misconception
from grader.course.source import find_definition, find_problem, read_source, write_source
from grader.course.status import current_scores, is_passed, short_path
from grader.course.syllabus import Chapter, Exercise, is_handout, load_syllabus
from grader.files import UserProblem
from grader.teaching.measurements import result_table
from grader.verdict.last_verdicts import load_verdicts
from grader.verdict.results import ExerciseResult
from rich.table import Table
from rich.text import Text

SHOWN = ("promised", "sizes", "called", "problem", "got", "expected")  # of a failure: what a user could report
MOST_TRIES = 5  # to find a mistake that shows in the learner's own code


def hunt(
    name: AnyName = None,
    promise: Annotated[bool, option("Say only which promise is broken.", "--promise")] = False,
    blind: Annotated[bool, option("Say only that something in the chapter is wrong.", "--blind")] = False,
    mine: Annotated[bool, option("Hide the mistake in your own code.", "--mine")] = False,
    give_up: Annotated[bool, option("End this hunt, and read what the mistake was.", "--give-up")] = False,
    show_list: Annotated[bool, option("List the hunts so far.", "--list")] = False,
    training: Annotated[bool, option("Find out what is wrong with a training run.", "--training")] = False,
    look: Annotated[str | None, option("With --training: show one of five further looks.", metavar="LOOK")] = None,
    answer: Annotated[
        str | None, option("With --training: the exercise that is wrong.", "--name", metavar="EXERCISE")
    ] = None,
    live: Annotated[bool, option("With --training: train now, and show that run.", "--live")] = False,
) -> int:
    """Find a mistake in code that works otherwise, and repair it.

    The first call writes a chapter with one mistake, in an exercise that you have passed, and shows a call that goes
    wrong. The next ones test the chapter. With NAME it is in that exercise or chapter. Your own chapters stay as they
    are, and hunts give no points. With --training, you see a training run and name the exercise that is wrong.

    Exit status: 0 if it is repaired or has begun, 1 if not, 2 if it cannot be tested."""
    hunts = Hunts()
    if training:
        from grader.cli.commands.hunt_training import training_hunt  # here: the other hunts need no recordings

        return training_hunt(look, answer, live, lambda mistake: _begin_repair(hunts, mistake))
    if look or answer or live:
        raise UserProblem("--look, --name and --live belong to `headway hunt --training`")
    if show_list:
        return _print_list(hunts)
    going_on = hunts.current
    if give_up:
        return _give_up(hunts, going_on)
    if going_on is None:
        return _begin(hunts, named(name) if name else None, BLIND if blind else PROMISE if promise else CALL, mine)
    if name or promise or blind or mine:
        raise UserProblem(
            f"a hunt goes on in {short_path(going_on.file)}; `headway hunt` tests it, `headway hunt --give-up` ends it"
        )
    return _test(hunts, going_on)


def _begin_repair(hunts: Hunts, mistake: Misconception) -> None:
    """Let the learner repair a mistake that was found in a training run, if they have passed its exercise."""
    exercise, passed, console = load_syllabus().exercise(mistake.exercise), _passed(), make_console()
    if exercise not in passed:
        print_wrapped(console, f"When you have passed {exercise.name}, you can also repair what you have found.")
    elif hunts.current:
        print_wrapped(console, f"Another hunt goes on in {short_path(hunts.current.file)}, so this one ends here.")
    else:
        mine = is_handout()
        for _, text in choose([exercise], mine, _names(passed), lambda other: other.id != mistake.id):
            hunts.begin(Hunt(exercise.name, mistake.id, TRAINING, mine, time.time()), text)
            print_wrapped(console, "Now repair it.")
            _print_place(hunts.all[-1])


# ---- the beginning


def _begin(hunts: Hunts, where: Exercise | Chapter | None, told: str, mine: bool) -> int:
    passed, console = _passed(), make_console()
    chosen = [exercise for exercise in passed if where is None or where in (exercise, _chapter(exercise))]
    if not chosen:
        what = where.name if isinstance(where, Exercise) else f"an exercise{f' of {where.id}' if where else ''}"
        print_wrapped(console, f"Mistakes hide in exercises that you have passed. Pass {what} first.")
        return NOT_YET
    mine = mine or is_handout()  # a handout does not show the reference
    seen = {hunt.mistake for hunt in hunts.all}
    verdicts = load_verdicts()

    def known(mistake: Misconception) -> bool:
        said = [verdict.says.removesuffix(" …") for verdict in verdicts.get(mistake.exercise, ())]
        return mistake.id in seen or any(each and (each in mistake.says or mistake.says in each) for each in said)

    for _, (mistake, text) in zip(range(MOST_TRIES), choose(chosen, mine, _names(passed), known)):
        hunt = Hunt(mistake.exercise, mistake.id, told, mine, time.time())
        result = _shows(hunt, text)
        if result is None:
            return UNUSABLE
        if result.failures:
            hunts.begin(hunt, text)
            whose = "your code" if mine else "this code"
            print_wrapped(console, f"Someone has found a mistake in {whose}. Find and repair it.")
            _print_symptom(hunt, result)
            _print_place(hunt)
            return PASSED
    print_wrapped(console, f"There is no mistake left to hunt in {'your' if mine else 'this'} code.")
    return NOT_YET


def _passed() -> list[Exercise]:
    scores = current_scores()
    return [exercise for exercise in load_syllabus().exercises if is_passed(exercise, scores)]


def _chapter(exercise: Exercise) -> Chapter:
    return load_syllabus().chapter(exercise.chapter)


def _names(exercises: Iterable[Exercise]) -> set[str]:
    return {exercise.name for exercise in exercises}


# ---- a test


def _test(hunts: Hunts, hunt: Hunt) -> int:
    console, file = make_console(), hunt.file
    if not file.is_file():
        write_source(file, hunt.written)
        print_wrapped(console, f"{short_path(file)} was gone, so it has been written again, with its mistake.")
        _print_place(hunt)
        return NOT_YET
    if problem := find_problem(file):
        print_file_problem(file, problem, "headway hunt")
        return NOT_YET
    text = read_source(file)
    of_chapter = [exercise for exercise in _passed() if exercise.module == file.stem]
    names = dict.fromkeys([hunt.exercise, *(exercise.name for exercise in of_chapter)])
    verdict = run_tests([*names], target=str(file.parent), show=False)
    if verdict is None:
        return UNUSABLE
    if text != hunt.written:
        hunt.tests += 1
        hunts.save()
    failing = [result for result in verdict.results if result.outcome != "passed"]
    failing.sort(key=lambda result: result.exercise.name != hunt.exercise)  # stable
    if not failing:
        return _print_repaired(hunts, hunt)
    first = failing[0]
    if first.exercise.name != hunt.exercise:
        print_wrapped(console, f"The mistake is gone, but {first.exercise.name}, which worked, fails now.", style="red")
        _print_rows(first)
    else:
        said = f"{'The chapter' if hunt.told == BLIND else hunt.exercise} does not work yet."
        if text == hunt.written:
            said = f"The mistake is still there: {short_path(file)} has not changed."
        print_wrapped(console, said, style="red")
        _print_symptom(hunt, first)
    _print_place(hunt)
    return NOT_YET


def _shows(hunt: Hunt, text: str) -> ExerciseResult | None:
    """What the tests say of this chapter; it is where the learner's will be, so that `headway repro` finds it. None,
    after a sentence, if they cannot run."""
    write_source(hunt.file, text)
    result = None
    try:
        verdict = run_tests([hunt.exercise], target=str(hunt.file.parent), show=False)
        result = verdict.result(hunt.exercise) if verdict else None
    finally:
        if result is None or not result.failures:
            hunt.file.unlink(missing_ok=True)
    return result


def _print_symptom(hunt: Hunt, result: ExerciseResult) -> None:
    """What the learner sees, by the level of the hunt."""
    console, chapter = make_console(), _chapter(result.exercise)
    if hunt.told == BLIND:
        print_wrapped(console, f"All that is known: something in chapter {chapter.number}, {chapter.title}, is wrong.")
    elif hunt.told == PROMISE:
        console.print("\nThis promise is broken:\n")
        print_wrapped(console, result.failures[0].promise)
    else:
        _print_rows(result)


def _print_rows(result: ExerciseResult) -> None:
    console, rows = make_console(), Table.grid(padding=(0, 2))
    failure = result.failures[0].details if result.failures else None
    if failure is None:
        return
    rows.add_column(style="dim")
    rows.add_column(overflow="fold")
    for row in failure.rows():
        if row.label in SHOWN:
            rows.add_row(row.label, Text(row.text))
    console.print()
    console.print(rows)
    if result.script:
        console.print("\nTo make this call yourself:\n")
        console.print(command_line(result.script), soft_wrap=True)


def _print_place(hunt: Hunt) -> None:
    console = make_console()
    console.print(Text(f"\n{short_path(hunt.file)}{_line_of(hunt)}"), soft_wrap=True)
    console.print("\nRepair it there, then test it:\n")
    console.print(command_line("headway hunt"))


def _line_of(hunt: Hunt) -> str:
    """`:37`, where the learner knows the exercise."""
    found = find_definition(read_source(hunt.file), hunt.exercise)
    return f":{found.line}" if found and hunt.told != BLIND else ""


# ---- the end


def _print_repaired(hunts: Hunts, hunt: Hunt) -> int:
    console, mistake = make_console(), hunt.known
    hunts.end(hunt, repaired=True)
    print_wrapped(console, f"Repaired: {hunt.exercise}.", style="green")
    if mistake:
        print_wrapped(console, f"The mistake was: {mistake.says}")
    how = f"You changed {format_count(hunt.lines, 'line')}"
    if hunt.rewritten:
        how = f"You have rewritten the exercise ({format_count(hunt.lines, 'changed line')})"
    cost = f"{format_count(hunt.tests, 'test run')} and {_duration(hunt.seconds)}"
    print_wrapped(console, f"{how}, with {cost}.")
    console.print("\nTo hunt for the next one:\n")
    console.print(command_line("headway hunt"))
    return PASSED


def _give_up(hunts: Hunts, hunt: Hunt | None) -> int:
    if hunt is None:
        raise UserProblem("no hunt goes on; `headway hunt` begins one")
    mistake = hunt.known
    hunts.end(hunt, repaired=False)
    said = f" {mistake.says}" if mistake else ""
    print_wrapped(make_console(), f"The mistake was in {hunt.exercise}.{said}")
    return PASSED


def _duration(seconds: int) -> str:
    if seconds < 60:
        return format_count(seconds, "second")
    if seconds < 2 * 60 * 60:
        return format_count(round(seconds / 60), "minute")
    return format_count(round(seconds / 3600), "hour")


def _print_list(hunts: Hunts) -> int:
    console, done = make_console(), [hunt for hunt in hunts.all if hunt.ended]
    if not done:
        print_wrapped(console, "You have not hunted yet: `headway hunt` begins.")
        return PASSED
    rows = []
    for hunt in done:
        lines = ("most" if hunt.rewritten else str(hunt.lines)) if hunt.repaired else "given up"
        rows.append((hunt.exercise, hunt.ended, hunt.told, lines, hunt.tests, hunt.seconds / 60))
    heads = ("exercise", "date", "symptom", "lines changed", "test runs", "minutes")
    console.print(result_table("", heads, rows, ".1f"))
    return PASSED
