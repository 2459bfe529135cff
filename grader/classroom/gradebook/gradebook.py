"""The gradebook of a class, grades/gradebook.sqlite: the submissions and their results.

A result belongs to the content of a submission and to the conditions it was found under (seed, kit, torch, Python).
Equal submissions are therefore graded once, and so are equal chapters of different submissions (judging/sharing.py).
Results found under other conditions stay in the file and are never mixed with the current ones. Each submission is one
transaction: a grader that is killed loses at most what it was grading, and the next run continues from there.

A process forked from this one must not use the gradebook and must end with `os._exit`: SQLite's connections and locks
do not survive a fork.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import not_
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
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict

KEPT_CONDITIONS = 5  # whose results stay in the file: returning to one of them costs nothing
UNFINISHED = "it has not been graded yet; run the same command again to continue"
RESULT_COLUMNS = "exercise, tests, diagnosis, forbidden, partial, missing_weight"


class Gradebook:
    """Use it in this order: `start_run`, `submissions_to_do`, `store_verdict` for each of them, `graded_class`.

    Every method raises GradebookProblem, one sentence for the instructor, if the file cannot be used.
    """

    def __init__(self, folder: Path, secret: str = "", read_only: bool = False) -> None:
        """Open the gradebook in `folder`, or create it: with this secret, or with a random one."""
        self._file = GradebookFile(folder, read_only)
        self.corrections = Corrections(self._file)
        self.secret = ""  # decides which examples are drawn besides the common ones
        self._conditions, self._seed = 0, 0
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

    def _read_last_run(self) -> tuple[int, int, dict[str, str], list[str]] | None:
        """The conditions, the seed, the versions and the names of the exercises."""
        query = "SELECT id, seed, versions, exercises FROM run JOIN conditions ON id = conditions"
        with self._file.checked():
            for number, seed, versions, exercises in self._file.query(query):
                return number, int(seed), dict(json.loads(versions)), records.parse_names(exercises)
        return None

    def continue_last_run(self) -> None:
        """Use the settings of the last run, to write its files again."""
        if last := self._read_last_run():
            self._conditions, self._seed, self._versions, names = last
            self._exercises = tuple(one for one in load_syllabus().exercises if one.name in names)

    def exercises_of_last_run(self) -> list[str]:
        """The names of the exercises that the exports of the last run have; empty before the first run."""
        last = self._read_last_run()
        return last[3] if last else []

    def start_run(self, seed: int, exercises: Sequence[Exercise], versions: dict[str, str]) -> str:
        """Set what is graded from here on. Return a sentence if that differs from the last run, else ""."""
        self._seed, self._versions, self._exercises = seed, dict(versions), tuple(exercises)
        names = [exercise.name for exercise in exercises]
        words = (str(seed), records.to_json(self._versions))
        with self._file.transaction():
            last = self._read_last_run()
            self._execute(
                "INSERT INTO conditions (seed, versions, turn) "
                "VALUES (?, ?, (SELECT ifnull(max(turn), 0) + 1 FROM conditions)) "
                "ON CONFLICT (seed, versions) DO UPDATE SET turn = excluded.turn",
                *words,
            )
            query = "SELECT id FROM conditions WHERE seed = ? AND versions = ?"
            [(self._conditions,)] = self._file.query(query, *words)
            self._execute(
                "DELETE FROM verdicts WHERE conditions NOT IN (SELECT id FROM conditions ORDER BY turn DESC LIMIT ?)",
                KEPT_CONDITIONS,
            )
            self._execute("INSERT OR REPLACE INTO run VALUES (1, ?, ?)", self._conditions, records.to_json(names))
        return records.describe_changes(seed, self._versions, names, *last[1:]) if last else ""

    def submissions_to_do(
        self, submissions: Iterable[Submission], variants: Sequence[Submission] = ()
    ) -> list[Submission]:
        """Store the submissions, and return those of them and of `variants` that must still be graded.

        They are one for each content, sorted by name.
        """
        submissions = sorted(submissions, key=records.sort_key)
        named = [(to_storable(one.slug), one.ids) for one in submissions]
        ids = [(slug, field, to_storable(value)) for slug, fields in named for field, value in fields.items()]
        rows = [records.make_submission_row(one) for one in submissions]
        asked = {exercise.name for exercise in self._exercises}
        with self._file.transaction():
            self._execute("DELETE FROM people")
            self._file.database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._execute("DELETE FROM ids")
            self._file.database.executemany("INSERT INTO ids VALUES (?, ?, ?)", ids)
            graded = self._file.query("SELECT digest, exercises FROM verdicts WHERE conditions = ?", self._conditions)
            done = {digest for digest, exercises in graded if asked <= set(records.parse_names(exercises))}
        todo: dict[str, Submission] = {}
        for one in sorted([*submissions, *variants], key=records.sort_key):
            if not one.problem and one.digest not in done:
                todo.setdefault(one.digest, one)
        return list(todo.values())

    def list_people(self) -> dict[str, tuple[str, str]]:
        """Each person's name and the digest of their submission, by file name."""
        people = self._file.texts("SELECT slug, name, digest FROM people ORDER BY rowid")
        return {slug: (name, digest) for slug, name, digest in people}

    def list_graded(self) -> dict[str, tuple[str, str]]:
        """Those of `list_people` whose submission was graded, or who have points or a note of the instructor."""
        graded = self._file.texts(
            "SELECT slug FROM people WHERE problem = '' AND digest IN (SELECT digest FROM verdicts WHERE problem = '')"
        )
        slugs = {slug for (slug,) in graded}
        owners = [one.owner for one in self.corrections.overrides()] + [one.owner for one in self.corrections.remarks()]
        return {
            slug: (name, digest)
            for slug, (name, digest) in self.list_people().items()
            if slug in slugs or any(owner.is_for(name, slug) for owner in owners)
        }

    def list_ids(self) -> dict[str, dict[str, str]]:
        """What learning platforms call each person, by file name."""
        found: dict[str, dict[str, str]] = {}
        for slug, field, value in self._file.texts("SELECT slug, field, value FROM ids"):
            found.setdefault(slug, {})[field] = value
        return found

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
        """The person that an override or a remark is for, found in the same way."""
        person = self.find_person(text, roster)
        is_shared = [name for name, _ in self.list_people().values()].count(person.name) > 1
        return Owner(person.name, person.slug if is_shared else "")

    def equal_results(self, chapter: str, exercises: Sequence[Exercise]) -> list[ExerciseResult]:
        """The results of these exercises in a content that has the chapter with this hash.

        Empty if one of them has none under the current conditions.
        """
        results = self._read_results(
            "judged_chapters JOIN results USING (conditions, digest) WHERE conditions = ? AND chapter = ?",
            exercises, self._conditions, chapter,
        )  # fmt: skip
        return results if len(results) == len(exercises) else []

    def _read_results(self, source: str, exercises: Sequence[Exercise], *values: object) -> list[ExerciseResult]:
        rows = {name: row for name, *row in self._file.query(f"SELECT {RESULT_COLUMNS} FROM {source}", *values)}
        with self._file.checked():
            return [records.parse_result(one, *rows[one.name]) for one in exercises if one.name in rows]

    def store_verdict(self, digest: str, verdict: Verdict | str, chapters: Iterable[str] = ()) -> None:
        """Store the verdict on this content, or the sentence that says why it is missing. It is on disk afterwards.

        `chapters` are the hashes of those chapters whose results count for other contents too. A sentence describes a
        fault of the grader, not of the content. So it covers no exercise, and the next run tries again.
        """
        is_whole = isinstance(verdict, Verdict)
        found = verdict if isinstance(verdict, Verdict) else Verdict([])
        covers = {exercise.name for exercise in self._exercises} if is_whole else set()
        broken = {module: vars(failure) for module, failure in found.broken.items()}
        key = (self._conditions, digest)
        of_content = "conditions = ? AND digest = ?"
        with self._file.transaction():
            before = self._file.query(f"SELECT exercises, problem, broken FROM verdicts WHERE {of_content}", *key)
            for exercises, problem, others in before:
                if is_whole and not problem:  # results for other exercises stay: the conditions are the same
                    modules = {exercise.module for exercise in self._exercises}
                    covers |= set(records.parse_names(exercises))
                    broken |= {name: words for name, words in json.loads(others).items() if name not in modules}
                else:
                    self._execute(f"DELETE FROM verdicts WHERE {of_content}", *key)
            self._execute(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (conditions, digest) DO UPDATE "
                "SET exercises = excluded.exercises, broken = excluded.broken, notes = excluded.notes",
                *key, records.to_json(sorted(covers)), "" if is_whole else to_storable(str(verdict)),
                records.to_json(broken), records.to_json(found.notes),
            )  # fmt: skip
            for result in found.results:
                row = records.make_result_row(sanitize.result(result))
                self._execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *key, *row)
            self._execute(f"DELETE FROM judged_chapters WHERE {of_content}", *key)
            for chapter in chapters:
                row = (self._conditions, chapter, digest)
                self._execute("INSERT OR IGNORE INTO judged_chapters VALUES (?, ?, ?)", *row)

    def delete_verdicts(self, slug: str, more: Iterable[str] = ()) -> list[str]:
        """Delete all results of this person's submission, and of `more` contents, so that they are graded again.

        No chapter judged so far is shared any more, because its results would be the old ones. Returns the names of all
        who handed in the same content.
        """
        with self._file.transaction():
            people = self.list_people()
            digest = people[slug][1]
            for content in {digest, *more}:
                self._execute("DELETE FROM verdicts WHERE digest = ?", content)
            self._execute("DELETE FROM judged_chapters")
        return sorted(name for name, other in people.values() if other == digest)

    def graded_class(self, rules: Rules) -> GradedClass:
        """The class with its marks, all texts sanitized. The order of grading makes no difference."""
        rows = self._file.query("SELECT * FROM people ORDER BY rowid")  # by name
        overrides, remarks = self.corrections.overrides(), self.corrections.remarks()
        with self._file.checked():
            people = [records.parse_submission(*row) for row in rows]
            people = records.add_missing(people, rules.find_missing([person.name for person in people]))
            digests = dict.fromkeys(person.digest for person in people if not person.problem)
            found = {digest: self.find_verdict(digest) for digest in digests}
            names = records.distinct_names(people)
            everybody = [
                records.make_person(
                    one, names[one.slug], found.get(one.digest, ""), self._exercises, rules, overrides, remarks
                )
                for one in people
            ]
        is_shown = [not one.missing or bool(one.given or one.remarks) for one in everybody]
        shown, absent = (tuple(compress(everybody, chosen)) for chosen in (is_shown, map(not_, is_shown)))
        return GradedClass(shown, self._exercises, self._seed, self._versions, absent)

    def find_verdict(self, digest: str) -> Verdict | str:
        """The results of this content under the current conditions for this run's exercises, or why there are none."""
        key = (self._conditions, digest)
        query = "SELECT exercises, problem, broken, notes FROM verdicts WHERE conditions = ? AND digest = ?"
        for exercises, problem, broken, notes in self._file.texts(query, *key):
            if problem:
                return problem
            with self._file.checked():
                if not {exercise.name for exercise in self._exercises} <= set(records.parse_names(exercises)):
                    return UNFINISHED
                source = "results WHERE conditions = ? AND digest = ?"
                results = self._read_results(source, self._exercises, *key)
                modules = {exercise.module for exercise in self._exercises}
                failures = {name: words for name, words in sorted(json.loads(broken).items()) if name in modules}
                texts = {name: sanitize.failure(Failure(**words)) for name, words in failures.items()}
                return Verdict(results, texts, notes=records.parse_names(notes))
        return UNFINISHED
