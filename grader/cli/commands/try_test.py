"""`headway try-test`: tries the learner's own tests of an exercise on correct and on wrong versions of it."""

from __future__ import annotations

from contextlib import closing

from grader.cli.arguments import AnyExercise, named_exercise
from grader.cli.commands.check import print_file_problem
from grader.console.output import command_line, make_console, print_error, print_wrapped, show_progress
from grader.counts import format_count
from grader.course.source import find_problem
from grader.course.status import short_path
from grader.course.syllabus import Exercise
from grader.execution.errors import NoWorker
from grader.own_tests.own_file import asserts_something, path_of, read_tests, write_start
from grader.own_tests.trying import Outcome, OwnTestsPool, try_versions
from grader.own_tests.versions import REFERENCE, Version, load_tasks, versions_of
from rich.text import Text

DONE, NOT_YET, UNUSABLE = 0, 1, 2
Tried = list[tuple[Version, Outcome]]


def try_test(name: AnyExercise = None) -> int:
    """Try your own tests of an exercise.

    The first call writes exercises/my_tests/test_NAME.py, where you write your tests. The next ones run them on correct
    versions of the exercise, which they must accept, and on known mistakes, which they should find. Without NAME the
    command lists the exercises that have a task for it.

    Exit status: 0 if they accept all correct versions and find enough mistakes, 1 if not, 2 if they cannot be tried."""
    if not name:
        return _list_tasks()
    exercise = named_exercise(name)
    versions, path = versions_of(exercise), path_of(exercise)
    if not path.exists():
        write_start(exercise)
        _print_beginning(exercise)
        return NOT_YET
    if problem := find_problem(path):
        print_file_problem(path, problem, f"headway try-test {exercise.name}")
        return NOT_YET
    tests = read_tests(path)
    try:
        tried = _try(exercise, tests, versions)
    except NoWorker as error:
        print_error(str(error))
        return UNUSABLE
    return _print_result(exercise, tests, tried)


def _try(exercise: Exercise, tests: str, versions: list[Version]) -> Tried:
    """The outcome of each version, in their order. Without those with a mistake, if a correct one is refused; without
    the others, if the tests cannot run on the reference."""
    tried: dict[Version, Outcome] = {}
    with closing(OwnTestsPool()) as pool, show_progress(f"Trying your tests of {exercise.name}", len(versions)) as step:
        for part in (versions[:1], [one for one in versions[1:] if one.is_correct], versions):
            left = [one for one in part if one not in tried]
            with closing(try_versions(pool, exercise, tests, path_of(exercise).name, left)) as outcomes:
                for version, outcome in outcomes:
                    tried[version] = outcome
                    step()
            if any(not outcome.accepts or not outcome.ran for outcome in tried.values()):
                break
    return [(version, tried[version]) for version in versions if version in tried]


def _print_result(exercise: Exercise, tests: str, tried: Tried) -> int:
    file = short_path(path_of(exercise))
    correct = [(version, outcome) for version, outcome in tried if version.is_correct]
    accepted = sum(outcome.accepts for _, outcome in correct)
    accepts = f"accepts {accepted} of {format_count(len(correct), 'correct version')}"
    if accepted < len(correct):
        _print_refused(tests, *next((version, outcome) for version, outcome in correct if not outcome.accepts))
        if len(correct) > 1:
            _paragraph(f"{file}: {accepts}. The known mistakes are tried when it accepts all.")
        return NOT_YET
    if not correct[0][1].ran:
        print_wrapped(make_console(), f"{file}: no test ran. pytest runs functions whose names begin with test_.")
        return NOT_YET
    mistakes = [(version, outcome) for version, outcome in tried if not version.is_correct]
    missed = [version for version, outcome in mistakes if outcome.accepts]
    found, task = len(mistakes) - len(missed), load_tasks().get(exercise.name)
    finds = f"finds {found} of {format_count(len(mistakes), 'mistake')}"
    print_wrapped(make_console(), f"{file}: {accepts}, {finds}.")
    if not asserts_something(tests):
        advice = "Write `assert`, and what must hold for the result."
        _paragraph(f"Your tests assert nothing, so they find only code that raises an error. {advice}")
    elif missed:
        _paragraph(f"The first mistake that gets through: {missed[0].says}")
    least = task.least(len(mistakes)) if task else 1
    if task:
        _paragraph(f"The task asks for {least}{', so you have done it' if found >= least else ''}.")
    return DONE if found >= least else NOT_YET


def _paragraph(sentences: str) -> None:
    print()
    print_wrapped(make_console(), sentences)


def _print_refused(tests: str, version: Version, outcome: Outcome) -> None:
    """What the tests wrongly say about a correct version."""
    console, lines = make_console(), tests.splitlines()
    is_reference = version.says == REFERENCE
    what = "correct code, the reference solution" if is_reference else f"correct code ({version.says})"
    place = f", in line {outcome.line}" if outcome.line else ""
    if outcome.ended:
        print_wrapped(console, f"Your tests do not come to an end on {what}: {outcome.ended}.")
        return
    if outcome.failed:
        print_wrapped(console, f"{outcome.failed} fails on {what}{place}:")
    else:
        print_wrapped(console, f"Your file cannot be imported, so no test ran{place}:")
    console.print()
    said = outcome.said.removeprefix("AssertionError: ").partition("\n")[0]
    for line in (*lines[outcome.line - 1 : outcome.line], said if said != "assert False" else ""):
        if line.strip():
            console.print(Text(f"    {line.strip()}"), soft_wrap=True)
    if outcome.example:
        console.print(Text(f"    for {outcome.example}"), soft_wrap=True)
    if not outcome.said.startswith(("assert", "AssertionError", "Failed")):
        _paragraph("It is an error in your file, or in how it calls the exercise. Repair that first.")
    elif outcome.failed and is_reference:
        advice = "So it is no mistake: assert what the exercise promises, and compare floats with a tolerance."
        _paragraph(f"The reference solution does this, too. {advice}")
    elif outcome.failed:
        advice = "so your test forbids something that is allowed. Assert only what the exercise promises."
        _paragraph(f"This version keeps every promise of the exercise, as the reference does, {advice}")


def _print_beginning(exercise: Exercise) -> None:
    console, task = make_console(), load_tasks().get(exercise.name)
    print_wrapped(console, f"{short_path(path_of(exercise))} is new: one test, which finds little. Add yours.")
    if task:
        percent = f"{task.share:.0%}".replace("%", " %")
        print_wrapped(console, f"{task.about} A good test finds {percent} of the known mistakes.")
    console.print(Text("\nThen try it:\n"))
    console.print(command_line(f"headway try-test {exercise.name}"))


def _list_tasks() -> int:
    console = make_console()
    print_wrapped(console, "Exercises with a task: write tests that accept all correct versions and find the mistakes.")
    console.print()
    for name, task in load_tasks().items():
        mark = ", begun" if path_of(named_exercise([name])).exists() else ""
        console.print(Text.assemble((name, "bold"), f"  {task.share:.0%} of the mistakes{mark}".replace("%", " %")))
        print_wrapped(console, task.about)
    console.print(Text("\nTo begin one, or any other exercise: headway try-test NAME", style="dim"))
    return DONE
