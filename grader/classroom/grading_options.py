"""What `headway grade` grades, and how.

The options of the last run are stored beside the gradebook, for the commands that read it later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grader.classroom.anonymous import KEY_NAME, Pseudonyms, read_key
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import has_gradebook
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course import (
    Assignment,
    Course,
    TermMarks,
    compute_term_marks,
    find_course,
    find_testable,
    read_course_file,
)
from grader.classroom.term.roster import NO_ROSTER, Roster
from grader.counts import format_count
from grader.course.status import read_course
from grader.course.syllabus import Exercise, load_syllabus
from grader.files import problem, write_whole

OPTIONS_FILE = "asked.json"  # next to the gradebook


@dataclass(frozen=True)
class GradingOptions:
    """The options as texts and numbers; paths are absolute, and an empty text means that the option was not given."""

    submissions: tuple[str, ...] = ()  # the folders, the first one graded first
    chapters: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    own_tests: tuple[str, ...] = ()  # exercises: the learners' own tests of them are graded
    seed: int = 0
    course: str = ""
    assignment: str = ""  # of the course: it says which exercises, and the rules
    require_isolation: bool = False
    anonymous: bool = False
    key: str = ""  # of the pseudonyms; empty for the usual place
    pushes: str = ""  # the file with the dates at which clones were pushed
    command: str = ""  # `headway grade ...` as it was typed; never `headway regrade NAME`, which names a person

    def key_path(self, out: Path) -> Path:
        """Usually next to the course file, for all its assignments; else next to the folder of the grades."""
        beside = Path(self.course) if self.course else out.resolve()
        return Path(self.key) if self.key else beside.parent / KEY_NAME

    def resolve(self) -> tuple[list[Exercise], Rules, Course | None]:
        """The exercises in the course's order (all if none is named), the rules, and the course.

        GradingProblem or UnknownName if they do not fit.
        """
        if self.own_tests:
            if self.chapters or self.exercises:
                advice = "leave out --chapters and --exercises, or --own-tests"
                raise GradingProblem(f"--own-tests alone says which exercises are graded; {advice}")
            return find_testable(self.own_tests), Rules(own_tests=True), None
        if not self.course:
            return read_course().chosen([*self.chapters, *self.exercises]), Rules(), None
        term = read_course_file(Path(self.course))
        assignment = term.assignment(self.assignment)
        if requested := term.hidden_in(assignment):
            from grader.classroom.handout.handout_folder import find_all_hidden

            handed_out = [one for one in load_syllabus().exercises if one.chapter in assignment.chapters]
            rules = replace(assignment.rules, hidden=frozenset(find_all_hidden(requested, handed_out)))
            term = term.with_rules({assignment.name: rules})
        return list(assignment.exercises), term.assignment(self.assignment).rules, term

    def changed_by(self, given: GradingOptions, seed: int | None) -> GradingOptions:
        """These options, except those that are given. GradingProblem if they do not go together."""
        if self.course:
            named = {"--chapters": given.chapters, "--exercises": given.exercises, "--own-tests": given.own_tests}
            refuse_with_assignment(named)
        changes = {name: value for name, value in vars(given).items() if value}
        if given.chapters or given.exercises:
            changes |= {"chapters": given.chapters, "exercises": given.exercises}
        return replace(self, **changes | {"seed": self.seed if seed is None else seed})

    def differences(self, other: GradingOptions) -> list[str]:
        """The options about what is graded that differ, as typed."""
        names = ("chapters", "exercises", "own_tests", "seed")
        return [f"--{name}".replace("_", "-") for name in names if getattr(self, name) != getattr(other, name)]


def absolute(path: Path | None) -> str:
    return str(path.resolve()) if path else ""


# ---- stored options


def store_options(options: GradingOptions, out: Path) -> None:
    """GradingProblem if the file cannot be written."""
    try:
        write_whole(out / OPTIONS_FILE, json.dumps(asdict(options), indent=1) + "\n", private=True)
    except OSError as trouble:
        raise GradingProblem(problem(trouble, f"write {OPTIONS_FILE} in {out}")) from trouble


def read_options(out: Path) -> GradingOptions | None:
    """The options of the last run into this folder; None if there was none.

    GradingProblem if the file is damaged, or has options that this version does not have.
    """
    where = line(str(out / OPTIONS_FILE))
    try:
        stored: dict[str, Any] = json.loads((out / OPTIONS_FILE).read_text(encoding="utf-8"))
        values: dict[str, Any] = {
            name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in stored.items()
        }
        defaults = vars(GradingOptions())
        unknown = {name for name in values.keys() - defaults.keys() if values[name]}  # and was used
        values = {name: value for name, value in values.items() if name in defaults}
        if any(type(value) is not type(defaults[name]) for name, value in values.items()):
            raise TypeError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        advice = "delete it, and run the `headway grade` command for this folder again"
        raise GradingProblem(f"{where} is damaged; {advice}") from None
    if unknown:
        advice = "to grade everything again, choose another folder with --out"
        raise GradingProblem(f"{where} was written by another version of Headway; {advice}")
    return GradingOptions(**values)


def last_options(out: Path) -> GradingOptions:
    """Like `read_options`; GradingProblem too if there was no run."""
    stored = read_options(out)
    if stored is None:
        advice = "choose the right one with --out, or with --assignment"
        raise GradingProblem(f"{line(str(out))} is not a folder that `headway grade` has written to; {advice}")
    return stored


# ---- options that name an assignment


def choose_assignment(
    course: Path | None, assignment: str, others: Mapping[str, object]
) -> tuple[Course, Assignment] | None:
    """The course and the assignment that these options name; None if they name none.

    GradingProblem if one of the other options, by name, is given too.
    """
    if course is None and not assignment:
        return None
    refuse_with_assignment(others)
    path = find_course(course)
    term = read_course_file(path)
    names = [one.name for one in term.assignments]
    if not assignment and len(names) > 1:
        raise GradingProblem(f"{path.name} has several assignments; name one with --assignment: {', '.join(names)}")
    return term, term.assignment(assignment or names[0])


def refuse_with_assignment(others: Mapping[str, object]) -> None:
    for option, value in others.items():
        if value:
            reason = f"course.toml says what is graded; leave out {option}, or --assignment and --course"
            raise GradingProblem(f"{option} does not go with an assignment: {reason}")


def default_folder(chosen: tuple[Course, Assignment] | None) -> Path:
    return chosen[0].folder(chosen[1].name) if chosen else Path("grades")


def folder_of(out: Path | None, course: Path | None, assignment: str) -> Path:
    """The folder of a gradebook, for a command that reads or changes one."""
    return out or default_folder(choose_assignment(course, assignment, {}))


# ---- the class of the last run


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
        return self.course.roster if self.course else NO_ROSTER

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


# ---- the classes of a term


def read_term_marks(course: Course, key: Path | None) -> TermMarks:
    """The marks of all assignments that are graded so far. GradingProblem if there are none, or without the key."""
    course, classes = _read_classes(course, key)
    if not classes:
        command = f"`headway grade SUBMISSIONS --assignment {course.assignments[0].name}`"
        raise GradingProblem(f"no assignment has been graded yet; run {command}")
    return compute_term_marks(course, classes, _describe_unfinished(course, classes))


def _read_classes(course: Course, key: Path | None) -> tuple[Course, dict[str, GradedClass]]:
    """The course, and the graded classes by assignment: all with names, or all with pseudonyms.

    GradingProblem if a gradebook cannot be read, if some are anonymous and others not, or if the key is missing.
    """
    folders = {one.name: course.folder(one.name) for one in course.assignments}
    graded = [name for name, folder in folders.items() if has_gradebook(folder)]
    stored = {name: options for name in graded if (options := read_options(folders[name])) and options.anonymous}
    if stored:
        if named := [name for name in graded if name not in stored]:
            both = f"{', '.join(named)} is graded with names, and {', '.join(stored)} with pseudonyms"
            raise GradingProblem(f"{both}; grade all assignments in the same way to add them up")
        name, options = next(iter(stored.items()))
        course = Pseudonyms.read(key or options.key_path(folders[name])).hide_course(course)
    classes = {}
    for name in graded:
        with Gradebook.read(folders[name]) as book:
            found = book.graded_class(course.assignment(name).rules)
        # not those of a run that was killed before it had read the submissions: not everybody is missing there
        if found.people:
            classes[name] = found
    return course, classes


def _describe_unfinished(course: Course, classes: Mapping[str, GradedClass]) -> list[str]:
    """A sentence for each assignment whose run was stopped or killed, with the command that continues it."""
    notes = []
    for name, graded in classes.items():
        if waiting := sum(person.waiting for person in graded.people):
            options = read_options(course.folder(name))
            known = options.command if options else ""
            command = f"continue with: {known}" if known else "run the same `headway grade` command again"
            many = format_count(waiting, "submission is", "submissions are")
            notes.append(f"{name}: {many} not graded yet and {'does' if waiting == 1 else 'do'} not count; {command}")
    return notes
