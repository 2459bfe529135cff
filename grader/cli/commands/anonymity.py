"""What commands do about anonymous grades: they refuse to mix them with names, and translate what the instructor names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.anonymous.key_file import read_key
from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course_file import Course
from grader.classroom.term.roster import Roster
from grader.cli.commands.grading_request import Request
from grader.cli.commands.stored_request import read_request


@dataclass(frozen=True)
class HiddenNames:
    """The rules and the course in the way in which a gradebook names people: with pseudonyms if it is anonymous."""

    rules: Rules
    course: Course | None
    pseudonyms: Pseudonyms | None  # None for a gradebook with names, or without the key

    @property
    def roster(self) -> Roster:
        return self.course.roster if self.course else Roster()

    def find(self, name: str) -> str:
        """What the gradebook calls this person."""
        return self.pseudonyms.find(name) if self.pseudonyms else name

    def scrub(self, text: str) -> str:
        return self.pseudonyms.scrub(text) if self.pseudonyms else text


def names_of(request: Request, key: Path | None = None) -> HiddenNames:
    """The names of this gradebook's people, for a command that changes it. `key` is the place of the key, if it has moved."""
    _, rules, course = request.resolve()
    return hide_names_for(replace(request, key=key or request.key), rules, course)


def hide_names_for(request: Request, rules: Rules, course: Course | None) -> HiddenNames:
    """What is needed to write the files of this gradebook again. GradingProblem if that needs the key, and the key is missing."""
    if not request.anonymous:
        return HiddenNames(rules, course, None)
    if not request.key_path.is_file() and not rules.extensions and course is None:
        return HiddenNames(rules, None, None)  # with a roster or an extension, the key says whom they mean
    pseudonyms = Pseudonyms.read(request.key_path)
    if course is None:
        return HiddenNames(pseudonyms.hide_rules(rules, Roster()), None, pseudonyms)
    hidden = pseudonyms.hide_course(course)
    return HiddenNames(hidden.assignment(request.assignment).rules, hidden, pseudonyms)


def refuse_mixing(request: Request) -> None:
    """GradingProblem if this run would mix names and pseudonyms in one folder, or give people other pseudonyms than before."""
    out = line(str(request.out))
    if (request.out / sqlite_file.NAME).is_file():
        before = read_request(request.out)
        if before and before.anonymous and not request.anonymous:
            raise GradingProblem(f"the grades in {out} are anonymous, and this run would write names; add --anonymous, or choose another folder with --out")
        if request.anonymous and not (before and before.anonymous):
            raise GradingProblem(f"the grades in {out} have names; move this folder away, or choose another one with --out, to grade anonymously")
    if not request.anonymous:
        return
    refuse_inside(request)
    folders = [request.out, *(_folders_of_course(request.course) if request.course else [])]
    graded = [folder for folder in folders if (folder / sqlite_file.NAME).is_file() and (asked := read_request(folder)) and asked.anonymous]
    if graded:
        known = {entry.pseudonym for entry in read_key(request.key_path)}
        for folder in graded:
            with Gradebook.read(folder) as book:
                strange = sorted({name for name, _ in book.list_people().values()} - known)
            if strange:
                raise GradingProblem(
                    f"{line(str(request.key_path))} does not have {strange[0]} of {line(str(folder))}, so it is another key; name the right one with --key FILE"
                )


def refuse_inside(request: Request) -> None:
    """GradingProblem if the key would be in the folder that the instructor hands on."""
    if request.key_path.resolve().is_relative_to(request.out.resolve()):
        raise GradingProblem(f"the key {line(str(request.key_path))} would be in the folder of the grades; name a file in another folder with --key")


def _folders_of_course(path: Path) -> list[Path]:
    from grader.classroom.term.course_file import read_course_file

    course = read_course_file(path)
    return [course.folder(one.name) for one in course.assignments]
