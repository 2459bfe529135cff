"""`headway again`: writes a passed exercise once more, in a scratch file."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import AnyExercise, named_exercise, option
from grader.cli.commands.check import NOT_YET, PASSED, UNUSABLE, print_file_problem, run_tests
from grader.console.output import command_line, make_console, print_wrapped
from grader.counts import format_count
from grader.course.practice import Practices, is_unwritten, scratch_file, scratch_line
from grader.course.source import find_problem
from grader.course.status import current_scores, short_path
from grader.course.syllabus import Exercise
from grader.teaching.measurements import result_table
from rich.text import Text


def again(
    name: AnyExercise = None,
    timed: Annotated[bool, option("Keep the time and the number of tests, as for an interview.", "--timed")] = False,
) -> int:
    """Write a passed exercise once more, from its stub.

    The first call makes a scratch file with the stub, the next ones test what you have written there. Your own chapters
    stay as they are. A passed exercise is due after 3, 10, 30 and 90 days, at most two a day; without NAME the command
    takes what is due.

    Exit status: 0 if it passed or there is nothing to test, 1 if not, 2 if it cannot be tested."""
    practices, console = Practices(current_scores()), make_console()
    exercise = named_exercise(name) if name else next(iter([*practices.begun(), *practices.due()]), None)
    if exercise is None:
        _print_nothing_due(practices)
        return PASSED
    if exercise not in practices.passed:
        advice = f"`headway check {exercise.name}` tests it"
        print_wrapped(console, f"You have not passed {exercise.name} yet, so there is nothing to repeat; {advice}.")
        return NOT_YET
    if exercise not in practices.begun():
        practices.begin(exercise, timed)
        clock = " The clock runs." if timed else ""
        print_wrapped(console, f"Write {exercise.name} once more, in this scratch file.{clock} {exercise.promise}")
        _print_place(exercise)
        return PASSED
    if problem := find_problem(scratch_file(exercise)):
        print_file_problem(scratch_file(exercise), problem, f"headway again {exercise.name}")
        return NOT_YET
    if is_unwritten(exercise):
        print_wrapped(console, f"{exercise.name} is still the stub.")
        _print_place(exercise)
        return NOT_YET
    verdict = run_tests([exercise.name], target=str(scratch_file(exercise).parent))
    if verdict is None:
        return UNUSABLE
    result = verdict.result(exercise.name)
    passed = result is not None and result.outcome == "passed"
    practices.tested(exercise, passed)
    if not passed:
        _print_place(exercise)
        return NOT_YET
    practice = practices.by_name[exercise.name]
    count = format_count(practice.tests, "test run")
    print_wrapped(console, f"{exercise.name} works again, after {count}. It is due next on {practice.due}.")
    if practice.timed:
        _print_table(practices)
    return PASSED


def _print_place(exercise: Exercise) -> None:
    console, file = make_console(), scratch_file(exercise)
    console.print(f"\n{short_path(file)}:{scratch_line(exercise)}", soft_wrap=True)
    console.print(Text("\nThen test it:\n"))
    console.print(command_line(f"headway again {exercise.name}"))


def _print_nothing_due(practices: Practices) -> None:
    console = make_console()
    if not practices.passed:
        print_wrapped(console, "You have not passed an exercise yet, so there is nothing to repeat.")
        return
    next_one = min(practices.passed, key=lambda each: practices.by_name[each.name].due)
    due = practices.by_name[next_one.name].due
    print_wrapped(console, f"Nothing is due today. {next_one.name} is next, on {due}.")
    print_wrapped(console, "To write a passed exercise again anyway: headway again NAME")
    _print_table(practices)


def _print_table(practices: Practices) -> None:
    rows = [(day, name, *rest) for name, practice in practices.by_name.items() for day, *rest in practice.rows]
    if rows:
        shown = [(name, day, seconds / 60, tests) for day, name, seconds, tests in sorted(rows)]
        make_console().print(result_table("", ("exercise", "date", "minutes", "test runs"), shown, ".1f"))
