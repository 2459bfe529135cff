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
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.gradebook import records
from grader.classroom.gradebook.corrections import Corrections, Owner, to_storable
from grader.classroom.gradebook.sqlite_file import GradebookFile, GradebookProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.toml_values import suggest
from grader.classroom.term.roster import NO_ROSTER, NamedPerson, Roster, describe_several, find_people
from grader.course.syllabus import Exercise, load_syllabus
from grader.verdict.summary import Verdict

UNFINISHED = "it has not been graded yet; run the same command again to continue"


class Gradebook:
    """Use it in this order: `start_run`, `submissions_to_do`, `store_verdict` for each of them, `graded_class`.

    Every method raises GradebookProblem, one sentence for the instructor, if the file cannot be used.
    """

    def __init__(self, folder: Path, secret: str = "", read_only: bool = False) -> None:
        """Open the gradebook in `folder`, or create it: with this secret, or with a random one."""
        self._file = GradebookFile(folder, read_only)
        self.corrections = Corrections(self._file)
        self.secret = ""  # decides which examples are drawn besides the common ones
        self._seed = 0
        self._versions: dict[str, str] = {}
        self._exercises: tuple[Exercise, ...] = ()
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
                return int(seed), dict(json.loads(versions)), records.parse_names(exercises)
        return None

    def continue_last_run(self) -> None:
        """Use the settings of the last run, to write its files again."""
        if last := self._read_last_run():
            self._seed, self._versions, names = last
            self._exercises = tuple(one for one in load_syllabus().exercises if one.name in names)

    def exercises_of_last_run(self) -> list[str]:
        """The names of the exercises that the exports of the last run have; empty before the first run."""
        last = self._read_last_run()
        return last[2] if last else []

    def start_run(self, seed: int, exercises: Sequence[Exercise], versions: dict[str, str]) -> str:
        """Set what is graded from here on. Return a sentence if that differs from the last run, else ""."""
        self._seed, self._versions, self._exercises = seed, dict(versions), tuple(exercises)
        names = [exercise.name for exercise in exercises]
        with self._file.transaction():
            last = self._read_last_run()
            if last and last[:2] != (seed, self._versions):
                self._execute("DELETE FROM verdicts")
            row = (str(seed), records.to_json(self._versions), records.to_json(names))
            self._execute("INSERT OR REPLACE INTO run VALUES (1, ?, ?, ?)", *row)
        return records.describe_changes(seed, self._versions, names, *last) if last else ""

    def submissions_to_do(self, submissions: Iterable[Submission]) -> list[Submission]:
        """Store the submissions, and return those that must still be graded: one for each content, sorted by name."""
        submissions = sorted(submissions, key=records.sort_key)
        rows = [records.make_submission_row(one) for one in submissions]
        asked = {exercise.name for exercise in self._exercises}
        with self._file.transaction():
            self._execute("DELETE FROM people")
            self._file.database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            graded = self._file.query("SELECT digest, exercises FROM verdicts")
            done = {digest for digest, exercises in graded if asked <= set(records.parse_names(exercises))}
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
        owners = [one.owner for one in self.corrections.overrides()]
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
            names = [exercise.name for exercise in self._exercises]
            row = (records.to_json(names), "", records.format_verdict(verdict))
        else:
            row = (records.to_json([]), to_storable(verdict), "")
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
        overrides = self.corrections.overrides()
        with self._file.checked():
            people = [records.parse_submission(*row) for row in rows]
            people = records.add_missing(people, rules.find_missing([person.name for person in people]))
            digests = dict.fromkeys(person.digest for person in people if not person.problem)
            found = {digest: self._find_verdict(digest) for digest in digests}
            everybody = [
                records.make_person(one, found.get(one.digest, ""), self._exercises, rules, overrides)
                for one in people
            ]
        shown = tuple(one for one in everybody if not one.missing or one.given)
        absent = tuple(one for one in everybody if one.missing and not one.given)
        return GradedClass(shown, self._exercises, self._seed, self._versions, absent)

    def _find_verdict(self, digest: str) -> Verdict | str:
        """The results of this content for this run's exercises, or why there are none."""
        query = "SELECT exercises, problem, verdict FROM verdicts WHERE digest = ?"
        for exercises, problem, verdict in self._file.texts(query, digest):
            if problem:
                return problem
            if {exercise.name for exercise in self._exercises} <= set(records.parse_names(exercises)):
                return records.parse_verdict(verdict, self._exercises)
        return UNFINISHED
