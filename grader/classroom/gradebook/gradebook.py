"""The gradebook of a class, grades/gradebook.sqlite: the submissions and their results.

A result belongs to the content of a submission and to the conditions it was found under (seed, kit, torch, Python). Equal submissions are
therefore graded once, and so are equal chapters of different submissions (judging/sharing.py). Results found under other conditions stay in
the file and are never mixed with the current ones. Each submission is one transaction: a grader that is killed loses at most the submissions
it was grading, and the next run continues from there.

SQLite uses a rollback journal instead of a write-ahead log: people copy a gradebook, mail it and put it on network drives, so it should be
one file that is complete after every submission. With one small commit per submission a log would save nothing. `synchronous = FULL`
makes a commit survive a power cut. The lock lasts until `close`; if the process dies, the system releases it. It keeps other writers out;
`Gradebook.read` works meanwhile. A process forked from this one must not use the gradebook and must end with `os._exit`: SQLite's
connections and locks do not survive a fork.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.gradebook import columns, sqlite_file
from grader.classroom.gradebook.columns import to_storable
from grader.classroom.gradebook.corrections import Corrections
from grader.classroom.gradebook.messages import describe_changes
from grader.classroom.gradebook.people import add_missing, distinct_names, make_person, parse_submission, sort_key, store_time
from grader.classroom.gradebook.sqlite_file import GradebookProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.course.syllabus import Exercise, load_syllabus
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict

CONDITIONS_LIMIT = 5  # number of conditions whose results stay in the file: returning to one of them costs nothing, and updates do not fill the disk
UNFINISHED = "it has not been graded yet; run the same command again to continue"


class Gradebook:
    """Use it in this order: `start_run`, `submissions_to_do`, `store_verdict` for each of them, `graded_class`.

    Every method raises GradebookProblem, one sentence for the instructor, if the file cannot be used.
    """

    def __init__(self, folder: Path, secret: str = "") -> None:
        """Open the gradebook in `folder`, or create it: with this secret, or with a random one."""
        self.path = folder / sqlite_file.NAME
        self._database = sqlite_file.connect(folder)
        self.secret = self._stored_secret(secret or secrets.token_hex(16))  # decides which examples are drawn besides the common ones
        self._conditions = 0
        self._seed = 0
        self._versions: dict[str, str] = {}
        self._exercises: tuple[Exercise, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Gradebook:
        """The gradebook as the last run left it, or as a run that goes on has filled it so far: only for `graded_class` and lists."""
        book = cls.__new__(cls)
        book.path, book.secret = folder / sqlite_file.NAME, ""
        book._database = sqlite_file.connect_to_read(folder)
        book._conditions, book._seed, book._versions, book._exercises = 0, 0, {}, ()
        try:
            book._open_last_run()
        except BaseException:
            book.close()
            raise
        return book

    def _open_last_run(self) -> None:
        """Use the settings of the last run."""
        for number, seed, versions, exercises in self._query("SELECT id, seed, versions, exercises FROM run JOIN conditions ON id = conditions"):
            self._conditions = number
            self._seed, self._versions, names = self._parse_last_run(seed, versions, exercises)
            self._exercises = tuple(exercise for exercise in load_syllabus().exercises if exercise.name in names)

    def exercises_of_last_run(self) -> list[str]:
        """The names of the exercises that the exports of the last run have, in the course's order; empty before the first run."""
        with self._damage_check():
            return [name for (exercises,) in self._query("SELECT exercises FROM run") for name in columns.parse_names(exercises)]

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        sqlite_file.close(self._database)

    def _stored_secret(self, new: str) -> str:
        try:
            with self._transaction():
                self._database.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (new,))
                [row] = self._query("SELECT value FROM secret")
            with self._damage_check():
                return columns.require_texts(row)[0]
        except BaseException:
            self.close()
            raise

    def start_run(self, seed: int, exercises: Sequence[Exercise], versions: dict[str, str]) -> str:
        """Set what is graded from here on. Returns a sentence for the instructor if that differs from the last run, else ""."""
        self._seed, self._versions, self._exercises = seed, dict(versions), tuple(exercises)
        names = [exercise.name for exercise in exercises]
        with self._transaction():
            last = self._query("SELECT seed, versions, exercises FROM run JOIN conditions ON id = conditions")
            words = (str(seed), columns.to_json(self._versions))
            self._database.execute(
                "INSERT INTO conditions (seed, versions, turn) VALUES (?, ?, (SELECT ifnull(max(turn), 0) + 1 FROM conditions)) "
                "ON CONFLICT (seed, versions) DO UPDATE SET turn = excluded.turn",
                words,
            )
            [(self._conditions,)] = self._query("SELECT id FROM conditions WHERE seed = ? AND versions = ?", *words)
            self._database.execute("DELETE FROM verdicts WHERE conditions NOT IN (SELECT id FROM conditions ORDER BY turn DESC LIMIT ?)", (CONDITIONS_LIMIT,))
            self._database.execute("INSERT OR REPLACE INTO run VALUES (1, ?, ?)", (self._conditions, columns.to_json(names)))
            return describe_changes(seed, self._versions, names, *self._parse_last_run(*last[0])) if last else ""

    def submissions_to_do(self, submissions: Iterable[Submission], variants: Sequence[Submission] = ()) -> list[Submission]:
        """Store the submissions, and return those of them and of `variants` that must still be graded: one for each content, sorted by name."""
        submissions = sorted(submissions, key=sort_key)
        rows = [
            (to_storable(s.slug), to_storable(s.name), s.digest, to_storable(s.problem), columns.to_json(s.notes), store_time(s), s.zone_known)
            for s in submissions
        ]
        asked = {exercise.name for exercise in self._exercises}
        with self._transaction():
            self._database.execute("DELETE FROM people")
            self._database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._database.execute("DELETE FROM ids")
            ids = [(to_storable(s.slug), field, to_storable(value)) for s in submissions for field, value in s.ids.items()]
            self._database.executemany("INSERT INTO ids VALUES (?, ?, ?)", ids)
            graded = self._query("SELECT digest, exercises FROM verdicts WHERE conditions = ?", self._conditions)
        with self._damage_check():
            done = {digest for digest, exercises in graded if asked <= set(columns.parse_names(exercises))}
        return list({s.digest: s for s in reversed(sorted([*submissions, *variants], key=sort_key)) if not s.problem and s.digest not in done}.values())[::-1]

    def list_people(self) -> dict[str, tuple[str, str]]:
        """Each person's name and the digest of their submission, by file name."""
        people = self._query("SELECT slug, name, digest FROM people ORDER BY rowid")
        with self._damage_check():
            return {slug: (name, digest) for slug, name, digest in map(columns.require_texts, people)}

    def list_graded(self) -> dict[str, tuple[str, str]]:
        """Those of `list_people` whose submission was graded, or who have points or a note of the instructor."""
        graded = {slug for (slug,) in self._query("SELECT slug FROM people WHERE problem = '' AND digest IN (SELECT digest FROM verdicts WHERE problem = '')")}
        owners = [one.owner for one in self.corrections.overrides()] + [one.owner for one in self.corrections.remarks()]
        people = self.list_people()
        return {slug: people[slug] for slug in people if slug in graded or any(owner.is_for(people[slug][0], slug) for owner in owners)}

    def list_ids(self) -> dict[str, dict[str, str]]:
        """What learning platforms call each person, by file name."""
        found: dict[str, dict[str, str]] = {}
        rows = self._query("SELECT slug, field, value FROM ids")
        with self._damage_check():
            for slug, field, value in map(columns.require_texts, rows):
                found.setdefault(slug, {})[field] = value
        return found

    def equal_results(self, chapter: str, exercises: Sequence[Exercise]) -> list[ExerciseResult]:
        """The results of these exercises in a content that has the chapter with this hash; empty if one of them has none under the current conditions."""
        rows = {row[0]: row[1:] for row in self._query(
            "SELECT exercise, tests, diagnosis, forbidden, partial, missing_weight FROM judged_chapters JOIN results USING (conditions, digest) "
            "WHERE conditions = ? AND chapter = ?",
            self._conditions, chapter,
        )}  # fmt: skip
        if not all(exercise.name in rows for exercise in exercises):
            return []
        with self._damage_check():
            return [columns.parse_result(exercise, *rows[exercise.name]) for exercise in exercises]

    def store_verdict(self, digest: str, verdict: Verdict | str, chapters: Iterable[str] = ()) -> None:
        """Store the verdict on this content, or the sentence that says why it is missing. It is on disk when this returns.

        `chapters` are the hashes of those chapters whose results count for other contents too.
        Such a sentence describes a fault of the grader, not of the content. So it covers no exercise, and the next run tries again.
        """
        whole = isinstance(verdict, Verdict)
        found = verdict if isinstance(verdict, Verdict) else Verdict([])
        covers = {exercise.name for exercise in self._exercises} if whole else set()
        broken = {module: vars(words) for module, words in found.broken.items()}
        key = (self._conditions, digest)
        with self._transaction():
            for exercises, problem, others in self._query("SELECT exercises, problem, broken FROM verdicts WHERE conditions = ? AND digest = ?", *key):
                if whole and not problem:  # results for other exercises stay: the conditions are the same
                    now = {exercise.module for exercise in self._exercises}
                    with self._damage_check():
                        covers |= set(columns.parse_names(exercises))
                        broken |= {module: words for module, words in columns.parse_failures(others).items() if module not in now}
                else:
                    self._database.execute("DELETE FROM verdicts WHERE conditions = ? AND digest = ?", key)
            self._database.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (conditions, digest) DO UPDATE SET exercises = excluded.exercises, broken = excluded.broken, notes = excluded.notes",
                (*key, columns.to_json(sorted(covers)), "" if whole else to_storable(str(verdict)), columns.to_json(broken), columns.to_json(found.notes)),
            )
            for result in found.results:
                self._database.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *columns.make_row(sanitize.result(result))))
            self._database.execute("DELETE FROM judged_chapters WHERE conditions = ? AND digest = ?", key)
            self._database.executemany("INSERT OR IGNORE INTO judged_chapters VALUES (?, ?, ?)", [(self._conditions, chapter, digest) for chapter in chapters])

    def delete_verdicts(self, slug: str, more: Iterable[str] = ()) -> list[str]:
        """Delete all results of this person's submission, and of `more` contents, so that they are graded again.

        No chapter judged so far is shared any more, because its results would be the old ones. Returns the names of all who handed in the same content.
        """
        with self._transaction():
            people = self._query("SELECT name, slug, digest FROM people ORDER BY name")
            with self._damage_check():
                [digest] = [digest for _, known, digest in map(columns.require_texts, people) if known == slug]
            for content in {digest, *more}:
                self._database.execute("DELETE FROM verdicts WHERE digest = ?", (content,))
            self._database.execute("DELETE FROM judged_chapters")
        return [name for name, _, other in people if other == digest]

    @property
    def corrections(self) -> Corrections:
        return Corrections(self._database, self.path)

    def continue_last_run(self) -> None:
        """Use the settings of the last run, to write its files again."""
        self._open_last_run()

    def graded_class(self, rules: Rules) -> GradedClass:
        """The class with its marks, all texts sanitized. The order in which submissions were graded makes no difference."""
        rows = self._query("SELECT * FROM people ORDER BY rowid")  # by name
        with self._damage_check():
            people = [parse_submission(columns.require_texts(row[:-1]), bool(row[-1])) for row in rows]
        people = add_missing(people, rules.find_missing([person.name for person in people]))
        found: dict[str, Verdict | str] = {}
        for person in people:
            if not person.problem and person.digest not in found:
                found[person.digest] = self.find_verdict(person.digest)
        names = distinct_names(people)
        overrides, remarks = self.corrections.overrides(), self.corrections.remarks()
        everybody = [make_person(one, names[one.slug], found.get(one.digest, ""), self._exercises, rules, overrides, remarks) for one in people]
        shown = tuple(person for person in everybody if not person.missing or person.given or person.remarks)
        rest = tuple(person for person in everybody if person.missing and not person.given and not person.remarks)
        return GradedClass(shown, self._exercises, self._seed, self._versions, rest)

    def find_verdict(self, digest: str) -> Verdict | str:
        """The results of this content under the current conditions and for this run's exercises, or the sentence that says why there are none."""
        key = (self._conditions, digest)
        verdicts = self._query("SELECT exercises, problem, broken, notes FROM verdicts WHERE conditions = ? AND digest = ?", *key)
        if not verdicts:
            return UNFINISHED
        exercises, problem, broken, notes = verdicts[0]
        rows = {row[0]: row for row in self._query(
            "SELECT exercise, tests, diagnosis, forbidden, partial, missing_weight FROM results WHERE conditions = ? AND digest = ?", *key
        )}  # fmt: skip
        modules = {exercise.module for exercise in self._exercises}
        with self._damage_check():
            [problem] = columns.require_texts([problem])
            if problem:
                return problem
            if not {exercise.name for exercise in self._exercises} <= set(columns.parse_names(exercises)):
                return UNFINISHED
            results = [columns.parse_result(exercise, *rows[exercise.name][1:]) for exercise in self._exercises if exercise.name in rows]
            failures = {module: Failure(**words) for module, words in sorted(columns.parse_failures(broken).items()) if module in modules}
            words = {module: sanitize.failure(failure) for module, failure in failures.items()}
            return Verdict(results, words, notes=columns.parse_names(notes))

    def _transaction(self):
        return sqlite_file.transaction(self._database, self.path)

    def _query(self, query: str, *values: object) -> list[tuple]:
        with sqlite_file.translate_sqlite_errors(self.path):
            return self._database.execute(query, values).fetchall()

    def _parse_last_run(self, seed: str, versions: str, exercises: str) -> tuple[int, dict[str, str], list[str]]:
        """The seed, versions and exercises of the last run."""
        with self._damage_check():
            return int(seed), columns.parse_versions(versions), columns.parse_names(exercises)

    @contextmanager
    def _damage_check(self) -> Iterator[None]:
        """Turn a column that does not contain what was written into a GradebookProblem: SQLite cannot detect such damage."""
        try:
            yield
        except columns.DAMAGE as error:
            raise GradebookProblem(sqlite_file.damage_message(self.path)) from error
