"""Anonymous grades: the names in which a gradebook knows people, and what refuses to mix them with real names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.anonymous.key_file import read_key
from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.sqlite_file import has_gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course import Course, read_course_file
from grader.classroom.term.roster import Roster
from grader.cli.commands.grading_options import GradingOptions, absolute, last_options, read_options


@dataclass(frozen=True)
class StoredClass:
    """What is needed to write the files of a gradebook again; with pseudonyms if it is anonymous."""

    out: Path
    options: GradingOptions
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


def stored_class(out: Path, key: Path | None = None) -> StoredClass:
    """The class that was graded into this folder. `key` is the place of the key, if it has moved.

    GradingProblem if there was no run, or if the key is needed and missing.
    """
    options = last_options(out)
    options = replace(options, key=absolute(key) or options.key)
    _, rules, course = options.resolve()
    path = options.key_path(out)
    if not options.anonymous or (course is None and not path.is_file()):  # with a course, the key says whom it means
        return StoredClass(out, options, rules, course, None)
    pseudonyms = Pseudonyms.read(path)
    if course is None:
        return StoredClass(out, options, rules, None, pseudonyms)
    hidden = pseudonyms.hide_course(course)
    return StoredClass(out, options, hidden.assignment(options.assignment).rules, hidden, pseudonyms)


def refuse_mixing(options: GradingOptions, out: Path) -> None:
    """GradingProblem if this run would mix names and pseudonyms in one folder, or give people new pseudonyms."""
    shown, path = line(str(out)), options.key_path(out)
    if has_gradebook(out):
        before = read_options(out)
        if before and before.anonymous and not options.anonymous:
            advice = "add --anonymous, or choose another folder with --out"
            raise GradingProblem(f"the grades in {shown} are anonymous, and this run would write names; {advice}")
        if options.anonymous and not (before and before.anonymous):
            advice = "move this folder away, or choose another one with --out, to grade anonymously"
            raise GradingProblem(f"the grades in {shown} have names; {advice}")
    if not options.anonymous:
        return
    if path.resolve().is_relative_to(out.resolve()):
        advice = "name a file in another folder with --key"
        raise GradingProblem(f"the key {line(str(path))} would be in the folder of the grades; {advice}")
    course = read_course_file(Path(options.course)) if options.course else None
    for folder in {out, *(course.folder(one.name) for one in course.assignments if course)} if course else {out}:
        stored = read_options(folder) if has_gradebook(folder) else None
        if stored is None or not stored.anonymous:
            continue
        known = {entry.pseudonym for entry in read_key(path)}
        with Gradebook.read(folder) as book:
            strange = sorted({name for name, _ in book.list_people().values()} - known)
        if strange:
            place = f"{strange[0]} of {line(str(folder))}"
            wrong = f"{line(str(path))} does not have {place}, so it is another key"
            raise GradingProblem(f"{wrong}; name the right one with --key FILE")
