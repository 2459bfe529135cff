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
from grader.own_tests.refusals import Refusal, describe_refusal
from grader.own_tests.trying import Outcome, OwnTestsPool, try_versions
from grader.own_tests.versions import Version, load_tasks, versions_of
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
    refusals = list(filter(None, (describe_refusal(version, outcome, tests) for version, outcome in correct)))
    accepts = f"accepts {len(correct) - len(refusals)} of {format_count(len(correct), 'correct version')}"
    if refusals:
        _print_refusal(refusals[0])
        if len(correct) > 1:
            _paragraph(f"{file}: {accepts}. The known mistakes are tried when it accepts all.")
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


def _print_refusal(refusal: Refusal) -> None:
    """What the tests wrongly say about a correct version."""
    console = make_console()
    shown = [refusal.code, refusal.said, f"for {refusal.example}" if refusal.example else ""]
    if not any(shown):
        print_wrapped(console, f"{refusal.happened}. {refusal.advice}".strip())
        return
    place = f", in line {refusal.line}" if refusal.line else ""
    print_wrapped(console, f"{refusal.happened}{place}:")
    console.print()
    for line in filter(None, shown):
        console.print(Text(f"    {line}"), soft_wrap=True)
    if refusal.advice:
        _paragraph(refusal.advice)


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
