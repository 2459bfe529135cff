"""Refuses a run in which grades of the last run would disappear: somebody may have read them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.classroom.gradebook.corrections import to_storable
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.sqlite_file import has_gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.report.templates import format_count
from grader.classroom.sanitize import line, list_names, shorten
from grader.classroom.term.deliveries import Note, find_owner
from grader.classroom.term.roster import Roster
from grader.cli.commands.grading_options import GradingOptions

MAX_NAMES = 5  # in one sentence
LEAVE_OUT = "run `headway grade` with --fewer to leave them out (their results stay in the gradebook)"


def leave_out_missing_folders(
    options: GradingOptions, out: Path, before: GradingOptions | None, fewer: bool, notes: list[Note]
) -> GradingOptions:
    """The options without folders that do not exist any more.

    GradingProblem, unless `fewer`, for any folder that is left out.
    """
    *earlier, last = options.submissions
    gone = [path for path in earlier if not Path(path).exists()]
    if gone and not fewer:
        verb = "does" if len(gone) == 1 else "do"
        where = " and ".join(map(line, gone))
        lost = f"{where} {verb} not exist any more, so this run would leave out what is in there"
        raise GradingProblem(f"{lost}; put it back, or {LEAVE_OUT}")
    notes += [f"{line(path)}, which an earlier run graded, does not exist any more and is not read" for path in gone]
    left_out = [path for path in before.submissions if path not in options.submissions] if before else []
    if before and len(before.submissions) > 1 and left_out and not fewer:
        places = " and ".join(shorten(Path(path).name) for path in left_out)
        ways = f"add --add to keep them, or --fewer to leave {places} out"
        lost = f"also has the grades of {places}, and this run would replace them"
        raise GradingProblem(f"{line(str(out))} {lost}; {ways}")
    return replace(options, submissions=(*(path for path in earlier if path not in gone), last))


def refuse_losing(
    out: Path, options: GradingOptions, chosen: Sequence[str], submissions: Sequence[Submission], roster: Roster
) -> None:
    """GradingProblem, with the ways out, if this run leaves out exercises or people of the last run."""
    if not has_gradebook(out):
        return
    with Gradebook.read(out) as book:
        exercises, people, ids = book.exercises_of_last_run(), book.list_graded(), book.list_ids()
    shown = line(str(out))
    elsewhere = "" if options.assignment else f"choose another folder (--out {shown}-2), "
    if missing := [name for name in exercises if name not in chosen]:
        everything = ",".join(dict.fromkeys([*exercises, *chosen]))
        all_of_them = f"{elsewhere}grade all of them (--exercises {everything})"
        way = "put them back into course.toml" if options.assignment else all_of_them
        lost = f"this run leaves out {list_names(missing, MAX_NAMES)}, whose columns and feedback would disappear"
        graded = f"{shown} contains the grades of {format_count(len(exercises), 'exercise')}"
        raise GradingProblem(f"{graded}, and {lost}; {way}, or {LEAVE_OUT}")
    names = {to_storable(one.name) for one in submissions}
    known_ids = {item for one in submissions for item in one.ids.items()}

    def is_there(name: str, own_ids: dict[str, str]) -> bool:
        owner = find_owner(Submission(name, {}, ids=own_ids), roster)
        return (
            name in names
            or (owner is not None and to_storable(owner.name) in names)
            or not known_ids.isdisjoint(own_ids.items())
        )

    if left_out := sorted(name for slug, (name, _) in people.items() if not is_there(name, ids.get(slug, {}))):
        place = shorten(Path(options.submissions[-1]).name)
        who = f"{len(left_out)} of them, who are not in {place}: {list_names(left_out, MAX_NAMES)}"
        lost = f"this run would leave out {who}"
        ways = f"add --add to grade {place} in addition, {elsewhere}or {LEAVE_OUT}"
        count = format_count(len(people), "person", "people")
        raise GradingProblem(f"{shown} has the grades of {count}, and {lost}; {ways}")
