"""Refuses a run that would make grades disappear: those of exercises or people that the run leaves out. Somebody may have read them already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.classroom.anonymous.key_file import to_cell
from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.columns import to_storable
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.report.numbers import format_count
from grader.classroom.sanitize import line, list_names, shorten
from grader.classroom.term.matching import find_owner
from grader.classroom.term.roster import Roster
from grader.cli.commands.grading_request import Request

SHOWN = 5  # names in a sentence
LEAVE_OUT = "add --fewer to leave them out (their results stay in the gradebook)"


def refuse_losing(request: Request, before: Request | None, chosen: Sequence[str], submissions: Sequence[Submission], roster: Roster, gone: Sequence[str]) -> None:
    """GradingProblem, with the ways out, if this run leaves out something that the last run into the same folder graded.

    `before` is what was asked then, and `gone` are its submissions that do not exist any more.
    """
    if not (request.out / sqlite_file.NAME).is_file():
        return
    with Gradebook.read(request.out) as book:
        exercises, people, ids = book.exercises_of_last_run(), book.list_graded(), book.list_ids()
    if missing := [name for name in exercises if name not in chosen]:
        raise GradingProblem(_describe_exercises(request, exercises, missing, chosen))
    found = _find_again(request, {slug: (name, ids.get(slug, {})) for slug, (name, _) in people.items()}, submissions, roster)
    left_out = sorted(name for slug, (name, _) in people.items() if slug not in found)
    if left_out:
        raise GradingProblem(_describe_people(request, len(people), left_out, gone))
    now = {one.submissions.resolve() for one in request.deliveries}
    added = [one.submissions for one in before.deliveries if one.submissions.resolve() not in now] if before and before.earlier else []
    changed = sorted(name for slug, (name, digest) in people.items() if found[slug].digest != digest)
    if added and changed:
        places = " and ".join(shorten(path.name) for path in added)
        raise GradingProblem(
            f"{line(str(request.out))} also has the grades of {places}, and this run would replace some of them, of {list_names(changed, SHOWN)}; "
            f"add --add to keep them, or --fewer to leave {places} out"
        )


def _find_again(
    request: Request, people: dict[str, tuple[str, dict[str, str]]], submissions: Sequence[Submission], roster: Roster
) -> dict[str, Submission]:  # fmt: skip
    """The new submission of each of these people, by file name: with the same name, of the same person of the roster, or with the same id."""
    key = Pseudonyms.read(request.key_path) if request.anonymous else None
    by_name = {to_storable(to_cell(one.name) if key else one.name): one for one in submissions}
    by_id = {(field, value): one for one in submissions for field, value in one.ids.items()}
    found = {}
    for slug, (name, ids) in people.items():
        if key and (entry := key.entry(name)):
            name, ids = entry.name, entry.ids
        owner = find_owner(Submission(name, {}, ids=ids), roster)
        new = by_name.get(name) or (by_name.get(owner.name) if owner else None) or next((by_id[one] for one in ids.items() if one in by_id), None)
        if new:
            found[slug] = new
    return found


def _describe_exercises(request: Request, exercises: Sequence[str], missing: Sequence[str], chosen: Sequence[str]) -> str:
    out = line(str(request.out))
    everything = ",".join([*exercises, *(name for name in chosen if name not in exercises)])
    if request.assignment:
        ways = f"put them back into course.toml, or {LEAVE_OUT}"
    else:
        ways = f"choose another folder (--out {out}-2), grade all of them (--exercises {everything}), or {LEAVE_OUT}"
    return (
        f"{out} contains the grades of {format_count(len(exercises), 'exercise')}, and this run leaves out {list_names(missing, SHOWN)}, "
        f"whose columns and feedback would disappear; {ways}"
    )


def _describe_people(request: Request, many: int, left_out: Sequence[str], gone: Sequence[str]) -> str:
    out, place = line(str(request.out)), shorten(Path(request.submissions).resolve().name)
    known = f"{out} has the grades of {format_count(many, 'person', 'people')}"
    if gone:
        return f"{' and '.join(gone)} does not exist any more, so this run would leave out {list_names(left_out, SHOWN)}; put it back, or {LEAVE_OUT}"
    if request.earlier:
        return f"{known}, and this run would leave out {list_names(left_out, SHOWN)}, who are in none of the folders now; put their submissions back, or {LEAVE_OUT}"
    elsewhere = "" if request.assignment else f" choose another folder (--out {out}-2),"
    return (
        f"{known}, and this run would leave out {len(left_out)} of them, who are not in {place}: {list_names(left_out, SHOWN)}; "
        f"add --add to grade {place} in addition,{elsewhere} or {LEAVE_OUT}"
    )
