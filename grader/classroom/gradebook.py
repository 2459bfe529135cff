"""The gradebook of a class, grades/gradebook.sqlite: the submissions and their results.

A result belongs to the content of a submission, so equal submissions are graded once. It depends on the seed and on the
versions of the kit, torch and Python: a run with other ones deletes all results. Each submission is one transaction: a
grader that is killed loses at most what it was grading, and the next run continues from there.

A process forked from this one must not use the gradebook and must end with `os._exit`: SQLite's connections and locks
do not survive a fork.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.gradebook_file import GradebookFile, GradebookProblem
from grader.classroom.intake.submissions import Submission, make_safe_name
from grader.classroom.judging.marks import GivenPoints, GradedClass, Mark, Person, compute_marks, compute_total
from grader.classroom.judging.rules import Lateness, Rules, suggest
from grader.classroom.term.roster import NO_ROSTER, NamedPerson, Roster, describe_several, find_people
from grader.course.syllabus import Exercise, load_syllabus
from grader.verdict.results import OUTCOMES, Verdict, join_names

UNFINISHED = "it has not been graded yet; run the same command again to continue"
NOTHING_SUBMITTED = "nothing was submitted"


def to_storable(text: str) -> str:
    """Text that SQLite can store: a file name may contain bytes that are not valid text."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


@dataclass(frozen=True)
class Owner:
    """The person that a correction is for: by name, and by file name where two people have the same name."""

    name: str
    slug: str = ""

    def is_for(self, name: str, slug: str) -> bool:
        return self.name == name and self.slug in ("", slug)


@dataclass(frozen=True)
class Override:
    owner: Owner
    exercise: str
    points: Decimal
    because: str
    given: str  # ISO
    revoked: str = ""  # ISO; "" while it counts


class Gradebook:
    """Use it in this order: `start_run`, `submissions_to_do`, `store_verdict` for each of them, `graded_class`.

    Every method raises GradebookProblem, one sentence for the instructor, if the file cannot be used.
    """

    def __init__(self, folder: Path, secret: str = "", read_only: bool = False) -> None:
        """Open the gradebook in `folder`, or create it: with this secret, or with a random one."""
        self._file = GradebookFile(folder, read_only)
        self.secret = ""  # decides which examples are drawn besides the common ones
        self.seed = 0
        self._versions: dict[str, str] = {}
        self.exercises: tuple[Exercise, ...] = ()
        with self._file.closed_on_error():
            if read_only:
                self.continue_last_run()
                return
            with self._file.transaction():
                self._execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", secret or secrets.token_hex(16))
            [(self.secret,)] = self._file.texts("SELECT value FROM secret")

    @classmethod
    def read(cls, folder: Path) -> Gradebook:
        """The gradebook as the last run left it, or as a run that goes on has filled it so far; to read."""
        return cls(folder, read_only=True)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def versions(self) -> dict[str, str]:
        """What the results depend on, besides the seed."""
        return self._versions

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def _execute(self, statement: str, *values: object) -> None:
        self._file.database.execute(statement, values)

    def _read_last_run(self) -> tuple[int, dict[str, str], list[str]] | None:
        """The seed, the versions and the names of the exercises."""
        with self._file.checked():
            for seed, versions, exercises in self._file.query("SELECT seed, versions, exercises FROM run"):
                return int(seed), dict(json.loads(versions)), parse_names(exercises)
        return None

    def continue_last_run(self) -> None:
        """Use the settings of the last run, to write its files again."""
        if last := self._read_last_run():
            self.seed, self._versions, names = last
            self.exercises = tuple(one for one in load_syllabus().exercises if one.name in names)

    def exercises_of_last_run(self) -> list[str]:
        """The names of the exercises that the exports of the last run have; empty before the first run."""
        last = self._read_last_run()
        return last[2] if last else []

    def start_run(self, seed: int, exercises: Sequence[Exercise], versions: dict[str, str]) -> str:
        """Set what is graded from here on. Return a sentence if that differs from the last run, else ""."""
        self.seed, self._versions, self.exercises = seed, dict(versions), tuple(exercises)
        names = [exercise.name for exercise in exercises]
        with self._file.transaction():
            last = self._read_last_run()
            if last and last[:2] != (seed, self._versions):
                self._execute("DELETE FROM verdicts")
            row = (str(seed), to_json(self._versions), to_json(names))
            self._execute("INSERT OR REPLACE INTO run VALUES (1, ?, ?, ?)", *row)
        return describe_changes(seed, self._versions, names, *last) if last else ""

    def submissions_to_do(self, submissions: Iterable[Submission]) -> list[Submission]:
        """Store the submissions, and return those that must still be graded: one for each content, sorted by name."""
        submissions = sorted(submissions, key=sort_key)
        rows = [make_submission_row(one) for one in submissions]
        asked = {exercise.name for exercise in self.exercises}
        with self._file.transaction():
            self._execute("DELETE FROM people")
            self._file.database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            graded = self._file.query("SELECT digest, exercises FROM verdicts")
            done = {digest for digest, exercises in graded if asked <= set(parse_names(exercises))}
        todo: dict[str, Submission] = {}
        for one in submissions:
            if not one.problem and one.digest not in done:
                todo.setdefault(one.digest, one)
        return list(todo.values())

    def list_people(self) -> dict[str, tuple[str, str]]:
        """Each person's name and the digest of their submission, by file name."""
        people = self._file.texts("SELECT slug, name, digest FROM people ORDER BY rowid")
        return {slug: (name, digest) for slug, name, digest in people}

    def list_graded(self) -> dict[str, tuple[str, str]]:
        """Those of `list_people` whose submission was graded, or who have points of the instructor."""
        graded = self._file.texts(
            "SELECT slug FROM people WHERE problem = '' AND digest IN (SELECT digest FROM verdicts WHERE problem = '')"
        )
        slugs = {slug for (slug,) in graded}
        owners = [one.owner for one in self.overrides()]
        return {
            slug: (name, digest)
            for slug, (name, digest) in self.list_people().items()
            if slug in slugs or any(owner.is_for(name, slug) for owner in owners)
        }

    def list_ids(self) -> dict[str, dict[str, str]]:
        """What learning platforms call each person, by file name."""
        rows = self._file.texts("SELECT slug, ids FROM people WHERE ids != '{}' ORDER BY rowid")
        with self._file.checked():
            return {slug: {str(field): str(value) for field, value in json.loads(ids).items()} for slug, ids in rows}

    def find_person(self, text: str, roster: Roster = NO_ROSTER) -> NamedPerson:
        """The person whom an instructor means, also one of the roster without a submission.

        GradebookProblem, with what to write, if that is no person or several.
        """
        names, ids = {slug: name for slug, (name, _) in self.list_people().items()}, self.list_ids()
        known = []
        for slug, name in names.items():
            person = roster.find(name)
            own = {*ids.get(slug, {}).values(), *(person.ids.values() if person else ())}
            known.append(NamedPerson(name, slug, tuple(own)))
        missing = set(roster.find_missing(names.values()))
        known += [person for person in roster.named_people if person.name in missing]
        found = find_people(to_storable(text), known)
        if len(found) == 1:
            return found[0]
        if found:
            raise GradebookProblem(describe_several(text, found))
        if not known:
            raise GradebookProblem("this gradebook has no submissions yet; run `headway grade` first")
        offer = suggest(text, [one.name for one in known]) or "; grades.csv lists all names"
        unknown = f"no person in this gradebook is called {sanitize.shorten(text)}{offer}"
        raise GradebookProblem(sanitize.line(unknown, 2000))

    def find_owner(self, text: str, roster: Roster = NO_ROSTER) -> Owner:
        """The person that an override is for, found in the same way."""
        person = self.find_person(text, roster)
        is_shared = [name for name, _ in self.list_people().values()].count(person.name) > 1
        return Owner(person.name, person.slug if is_shared else "")

    def store_verdict(self, digest: str, verdict: Verdict | str) -> None:
        """Store the verdict on this content, or the sentence that says why it is missing. It is on disk afterwards.

        A sentence describes a fault of the grader, not of the content. So it covers no exercise, and the next run tries
        again.
        """
        if isinstance(verdict, Verdict):
            names = [exercise.name for exercise in self.exercises]
            row = (to_json(names), "", format_verdict(verdict))
        else:
            row = (to_json([]), to_storable(verdict), "")
        with self._file.transaction():
            self._execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", digest, *row)

    def delete_verdicts(self, slug: str, more: Iterable[str] = ()) -> list[str]:
        """Delete the results of this person's submission, and of `more` contents, so that they are graded again.

        Returns the names of all who handed in the same content.
        """
        with self._file.transaction():
            people = self.list_people()
            digest = people[slug][1]
            for content in {digest, *more}:
                self._execute("DELETE FROM verdicts WHERE digest = ?", content)
        return sorted(name for name, other in people.values() if other == digest)

    def graded_class(self, rules: Rules) -> GradedClass:
        """The class with its marks, all texts sanitized. The order of grading makes no difference."""
        rows = self._file.texts("SELECT * FROM people ORDER BY rowid")  # by name
        overrides = self.overrides()
        with self._file.checked():
            people = [parse_submission(*row) for row in rows]
            people = add_missing(people, rules.find_missing([person.name for person in people]))
            digests = dict.fromkeys(person.digest for person in people if not person.problem)
            found = {digest: self._find_verdict(digest) for digest in digests}
            everybody = [
                make_person(one, found.get(one.digest, ""), self.exercises, rules, overrides) for one in people
            ]
        shown = tuple(one for one in everybody if not one.missing or one.given)
        absent = tuple(one for one in everybody if one.missing and not one.given)
        return GradedClass(shown, self.exercises, self.seed, self._versions, absent, rules.hidden, rules.own_tests)

    def _find_verdict(self, digest: str) -> Verdict | str:
        """The results of this content for this run's exercises, or why there are none."""
        query = "SELECT exercises, problem, verdict FROM verdicts WHERE digest = ?"
        for exercises, problem, verdict in self._file.texts(query, digest):
            if problem:
                return problem
            if {exercise.name for exercise in self.exercises} <= set(parse_names(exercises)):
                return parse_verdict(verdict, self.exercises)
        return UNFINISHED

    # ---- what the instructor adds to the verdicts: it belongs to a person, so grading again never changes it

    def override(self, owner: Owner, exercise: str, points: Decimal, because: str, now: datetime) -> None:
        """Give these points; an earlier override of the exercise is revoked."""
        given = now.isoformat(timespec="seconds")
        row = (to_storable(owner.name), owner.slug, exercise, str(points), to_storable(because), given, "")
        with self._file.transaction():
            self._revoke_override(owner, exercise, now)
            self._execute("INSERT INTO overrides VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", *row)

    def revoke_override(self, owner: Owner, exercise: str, now: datetime) -> bool:
        """Let the verdict count again. False if there is no such override. A revoked one stays in the file."""
        with self._file.transaction():
            return self._revoke_override(owner, exercise, now)

    def _revoke_override(self, owner: Owner, exercise: str, now: datetime) -> bool:
        statement = "UPDATE overrides SET revoked = ? WHERE name = ? AND slug = ? AND exercise = ? AND revoked = ''"
        values = (now.isoformat(timespec="seconds"), to_storable(owner.name), owner.slug, exercise)
        return self._file.database.execute(statement, values).rowcount > 0

    def overrides(self, revoked: bool = False) -> list[Override]:
        """Those that count, or all, in the order in which they were given."""
        columns = "name, slug, exercise, points, because, given, revoked"
        rows = self._file.texts(f"SELECT {columns} FROM overrides ORDER BY id")
        with self._file.checked():
            found = [
                Override(Owner(name, slug), exercise, _to_points(points), *rest)
                for name, slug, exercise, points, *rest in rows
            ]
        return [one for one in found if revoked or not one.revoked]


# ---- what its rows mean: results, submissions, and the people with their marks that are made of both


def _to_points(text: str) -> Decimal:
    points = Decimal(text)
    if not points.is_finite() or points < 0:
        raise ValueError("these are no points")
    return points


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def parse_names(column: str) -> list[str]:
    found = json.loads(column)
    if type(found) is not list or not all(type(name) is str for name in found):
        raise TypeError("a column of names does not contain a list of texts")
    return found


def format_verdict(verdict: Verdict) -> str:
    """The verdict as JSON, without seconds and what is only about one run: equal contents give equal texts."""
    results = [sanitize.result(result) for result in verdict.results]
    for result in results:
        tests = [replace(test, seconds=0.0) for test in result.tests]
        result.tests, result.written, result.script = tests, "", ""
    return to_json(replace(verdict, results=results, newly_passed=[]).as_data())


def parse_verdict(text: str, exercises: Sequence[Exercise]) -> Verdict:
    """The verdict on these exercises."""
    data, names = json.loads(text), [exercise.name for exercise in exercises]
    found = [entry for entry in data["results"] if entry["exercise"] in names]
    modules = {exercise.module for exercise in exercises}
    broken = {module: words for module, words in data["broken"].items() if module in modules}
    verdict = Verdict.from_data({**data, "results": found, "broken": broken})
    results = sorted(map(sanitize.result, verdict.results), key=lambda one: names.index(one.exercise.name))
    if not all(test.outcome in OUTCOMES for result in results for test in result.tests):
        raise ValueError("unknown outcome")
    texts = {module: sanitize.failure(words) for module, words in verdict.broken.items()}
    return replace(verdict, results=results, broken=texts)


def make_submission_row(one: Submission) -> tuple:
    texts = map(to_storable, (one.slug, one.name, one.digest, one.problem))
    return (*texts, to_json(one.notes), _to_iso(one.submitted), to_json(one.ids))


def parse_submission(
    slug: str, name: str, digest: str, problem: str, notes: str, submitted: str, _ids: str
) -> Submission:
    """A submission as the gradebook stores it: without its content."""
    when = datetime.fromisoformat(submitted) if submitted else None
    if when and when.tzinfo is None:
        raise ValueError("a time has no time zone")
    return Submission(name, {}, problem, tuple(parse_names(notes)), when, digest, slug=slug)


def add_missing(people: Sequence[Submission], missing: Iterable[str]) -> list[Submission]:
    """These people and the missing ones of the roster, who have no digest, by name."""
    taken: set[str] = set()
    for person in people:
        make_safe_name(person.slug, taken)  # it is one already; this only reserves it
    new = [Submission(name, {}, NOTHING_SUBMITTED, slug=make_safe_name(name, taken)) for name in missing]
    return sorted([*people, *new], key=sort_key)


def sort_key(person: Submission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def _to_iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def make_person(
    person: Submission, found: Verdict | str, exercises: Sequence[Exercise], rules: Rules,
    overrides: Sequence[Override],
) -> Person:  # fmt: skip
    """The person with marks: the verdict's, or those that the instructor gave."""
    problem = person.problem or (found if isinstance(found, str) else "")
    verdict = found if isinstance(found, Verdict) and not problem else Verdict([])
    marks = compute_marks(verdict.results, exercises, rules.points_of)
    own = [one for one in overrides if one.exercise in marks and one.owner.is_for(person.name, person.slug)]
    given = {
        one.exercise: GivenPoints(one.points, marks[one.exercise].earned, sanitize.line(one.because), one.given[:10])
        for one in own
    }
    marks |= {exercise: Mark(one.points, marks[exercise].points) for exercise, one in given.items()}
    late = Lateness() if problem else rules.compute_lateness(person)
    return Person(
        name=sanitize.line(person.name),
        slug=person.slug,
        digest=person.digest,
        problem=sanitize.line(problem),
        notes=tuple(map(sanitize.line, [*person.notes, *verdict.notes])),
        submitted=_to_iso(rules.find_time(person)),
        is_untimed=late.is_unknown,
        results=tuple(verdict.results),
        broken=dict(verdict.broken),
        marks=marks,
        given=given,
        late=sanitize.line(late.sentence),
        total=compute_total(marks.values(), late.factor),
        missing=not person.digest,
        waiting=isinstance(found, str) and bool(found) and not person.problem,
    )


def describe_changes(
    seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old: list[str]
) -> str:
    """What differs from the last run, and the consequence, as a sentence; "" if nothing differs."""
    now, before = {"seed": str(seed)} | versions, {"seed": str(old_seed)} | old_versions
    differing = [name for name in now | before if now.get(name) != before.get(name)]
    if differing:
        changed = [f"{name} ({before.get(name, 'unknown')}, now {now.get(name, 'unknown')})" for name in differing]
        consequence = "Earlier results do not count any more, so everything is graded now"
        return f"Changed since the last run: {join_names(changed)}. {consequence}."
    if more := [name for name in names if name not in old]:
        shown = join_names(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions without results for these exercises are graded now."
    return ""
