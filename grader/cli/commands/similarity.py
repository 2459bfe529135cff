"""`headway similarity` lists pairs with similar code and groups with the same: similarity.html and two tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from grader.classroom.anonymous import Pseudonyms
from grader.classroom.class_report import ReportProblem
from grader.classroom.grading import ClassToGrade
from grader.classroom.grading_options import (
    GradingOptions,
    absolute,
    choose_assignment,
    default_folder,
    read_options,
)
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line, list_names, shorten
from grader.classroom.similarity.comparison import Comparison, compare
from grader.classroom.similarity.page import count_same_lines, write_page, write_tables
from grader.cli.arguments import (
    AssignmentName,
    Chapters,
    CourseFile,
    Exercises,
    Key,
    Out,
    argument,
    option,
    split_option,
)
from grader.cli.commands.grading_output import TerminalScreen
from grader.console.output import make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.course.status import short_path
from grader.verdict.results import join_names

DONE = 0
MAX_PAIRS = 10  # on the terminal
MAX_LINE_CHARACTERS = 2000
WARNING = (
    "A percentage proves nothing: people may have learned together or used the same source. "
    "Read both sides before you speak with anyone."
)


def similarity(
    submissions: Annotated[
        Path | None,
        argument("SUBMISSIONS", "As for `headway grade` (default: those that the last run into --out graded)."),
    ] = None,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    chapters: Chapters = "",
    exercises: Exercises = "",
    key: Key = None,
    common: Annotated[
        int,
        option(
            "How much less code counts that many people wrote, in percent (0: it counts in full).",
            "--common", metavar="PERCENT", min=0, max=100,
        ),
    ] = 100,
) -> int:
    """List pairs with similar code, and groups with the same code.

    It writes similarity.html, with the code of each pair side by side, and two tables. What the code does is compared,
    not how it is written: other names, another order, helpers and dead code make little difference. Code that the
    course explains is left out. A percentage proves nothing.

    Exit status: 0 if they are written, 2 if not."""
    chosen = choose_assignment(course, assignment, {"--chapters": chapters, "--exercises": exercises})
    folder = out or default_folder(chosen)
    stored = read_options(folder)
    options = GradingOptions(
        (absolute(submissions),), tuple(split_option(chapters)), tuple(split_option(exercises)),
        course=absolute(chosen[0].path) if chosen else "", assignment=chosen[1].name if chosen else "",
        key=absolute(key),
    )  # fmt: skip
    notes: list = []
    if submissions is None:
        if stored is None:
            advice = "name the submissions, or that folder with --out"
            raise GradingProblem(f"{line(str(folder))} is not a folder that `headway grade` has written to; {advice}")
        gone = [path for path in stored.submissions[:-1] if not Path(path).exists()]
        lost = "which an earlier run graded, does not exist any more and is not compared"
        notes = [f"{line(path)}, {lost}" for path in gone]
        chosen_now = {"chapters": options.chapters, "exercises": options.exercises}
        given: dict[str, Any] = {name: value for name, value in chosen_now.items() if value}
        options = replace(stored, submissions=tuple(path for path in stored.submissions if path not in gone), **given)
    key_path = (key or stored.key_path(folder)) if stored and stored.anonymous else None
    comparison, said = _compare(options, folder, key_path, notes, common)
    written = write_tables(comparison, folder)
    try:
        title = options.assignment or line(Path(options.submissions[-1]).name)
        written.append(write_page(comparison, folder, title))
    except ReportProblem as trouble:
        print_error(str(trouble))
    _print(comparison, said, written)
    return DONE


def _compare(
    options: GradingOptions, folder: Path, key_path: Path | None, notes: list, common: int
) -> tuple[Comparison, list[str]]:
    """The comparison, with pseudonyms if there is a key, and notes for the instructor.

    GradingProblem if the key is missing, or if there are own tests and no chapters.
    """
    found = ClassToGrade(*options.resolve(), notes=notes)
    found = found.read(replace(options, anonymous=key_path is not None), folder, TerminalScreen())
    has_tests = any(one.own_tests and one.own_tests.sources for one in found.submissions)
    if found.rules.own_tests or has_tests and not any(one.sources for one in found.submissions):
        where, advice = line(str(options.submissions[-1])), "name submissions with chapters"
        raise GradingProblem(f"{where} has own tests, and `headway similarity` compares only chapters; {advice}")
    if key_path is not None:
        Pseudonyms.read(key_path)
        found = replace(found, rules=Rules()).hide_names(key_path)  # who is only in the rules gets no pseudonym
    course = found.course
    in_groups = course is not None and course.assignment(options.assignment).groups
    people = course.roster.people if course and in_groups else ()
    groups = {person.name: person.group for person in people if person.group}
    return compare(found.submissions, found.exercises, groups, common), list(map(str, found.notes))


def _print(comparison: Comparison, notes: list[str], written: list[Path]) -> None:
    console = make_console()
    console.print(f"{format_count(comparison.compared, 'person', 'people')} compared, {comparison.summary}.")
    for group in comparison.groups[:MAX_PAIRS]:
        members = comparison.members(group)
        amount = f"{format_count(group.named, 'exercise')}, {count_same_lines(comparison, group)} lines"
        common = f"{len(members)} of {comparison.compared} people have it"
        counted = f"in pairs, it counts {group.counted_percent} % of what rare code counts"
        same = f"Same code: {list_names(members, MAX_PAIRS)} ({amount}); {common}; {counted}."
        console.print(line(same, MAX_LINE_CHARACTERS), soft_wrap=True)
    if len(comparison.groups) > MAX_PAIRS:
        console.print(f"and {format_count(len(comparison.groups) - MAX_PAIRS, 'more group')}")
    for names in comparison.identical:
        many = f" and {len(names) - MAX_PAIRS} more" if len(names) > MAX_PAIRS else ""
        identical = f"Identical files: {', '.join(map(shorten, names[:MAX_PAIRS]))}{many}."
        console.print(line(identical, MAX_LINE_CHARACTERS), soft_wrap=True)
    for pair in comparison.pairs[:MAX_PAIRS]:
        first, second = map(shorten, comparison.names(pair))
        alike = f"{pair.alike_exercises} of {format_count(pair.compared, 'exercise')} similar"
        console.print(f"{pair.percent:>4} %  {first} and {second}: {alike}", soft_wrap=True)
    if comparison.found > MAX_PAIRS:
        console.print(f"        and {format_count(comparison.found - MAX_PAIRS, 'more pair')}")
    for names, reason in [
        (comparison.common, "so many people have the same code that it does not count; --common 0 counts it in full"),
        (comparison.short, "the course explains their code, or it is short"),
    ]:
        if names:
            people = f"{format_count(len(names), 'person', 'people')} cannot be in a pair"
            sentence = f"{people} ({list_names(names, MAX_PAIRS)}): {reason}."
            console.print(line(sentence, MAX_LINE_CHARACTERS), soft_wrap=True)
    if comparison.found or comparison.groups:
        print_wrapped(console, WARNING)
    for note in [*notes, *comparison.notes]:
        console.print(line(f"Note: {note}", MAX_LINE_CHARACTERS), soft_wrap=True)
    console.print(f"Written: {join_names(map(short_path, written))}.", soft_wrap=True)
