"""The gradebook of a class, grades/gradebook.sqlite: the submissions and their results.

A result belongs to the content of a submission and to the conditions it was found under (seed, kit, torch, Python). Equal submissions are
therefore graded once, and so are equal exercises of different submissions (judging/sharing.py). Results found under other conditions stay in
the file and are never mixed with the current ones. Each submission is one transaction: a grader that is killed loses at most the submissions
it was grading, and the next run continues from there.

SQLite uses a rollback journal instead of a write-ahead log: people copy a gradebook, mail it and put it on network drives, so it should be
one file that is complete after every submission. With one small commit per submission a log would save nothing. `synchronous = FULL`
makes a commit survive a power cut. The lock lasts until `close`; if the process dies, the system releases it. A process forked from this
one must not use the gradebook and must end with `os._exit`: SQLite's connections and locks do not survive a fork.
"""

from __future__ import annotations

import difflib
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from grader.classroom import sanitize
from grader.classroom.gradebook import columns, sqlite_file
from grader.classroom.gradebook.sqlite_file import GradebookProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.rules import Lateness, Rules
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict

CONDITIONS_LIMIT = 5  # number of conditions whose results stay in the file: returning to one of them costs nothing, and updates do not fill the disk
UNFINISHED = "it has not been graded yet; run the same command again to continue"


@dataclass(frozen=True)
class StoredSubmission:
    """One person's submission as the gradebook stores it: without its content, with the time that decides whether it was late."""

    slug: str
    name: str
    digest: str
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool


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
            return _describe_changes(seed, self._versions, names, *self._parse_last_run(*last[0])) if last else ""

    def submissions_to_do(self, submissions: Iterable[Submission]) -> list[Submission]:
        """Store the submissions, and return those that must still be graded: one for each content, sorted by name."""
        submissions = sorted(submissions, key=_sort_key)
        rows = [
            (_to_storable(s.slug), _to_storable(s.name), s.digest, _to_storable(s.problem), columns.to_json(s.notes), _to_iso(s.submitted), s.zone_known)
            for s in submissions
        ]
        asked = {exercise.name for exercise in self._exercises}
        with self._transaction():
            self._database.execute("DELETE FROM people")
            self._database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            graded = self._query("SELECT digest, exercises FROM verdicts WHERE conditions = ?", self._conditions)
        with self._damage_check():
            done = {digest for digest, exercises in graded if asked <= set(columns.parse_names(exercises))}
        return list({s.digest: s for s in reversed(submissions) if not s.problem and s.digest not in done}.values())[::-1]

    def list_people(self) -> dict[str, tuple[str, str]]:
        """Each person's name and the digest of their submission, by file name."""
        people = self._query("SELECT slug, name, digest FROM people")
        with self._damage_check():
            return {slug: (sanitize.line(name), digest) for slug, name, digest in map(columns.require_texts, people)}

    def equal_results(self, fingerprints: Mapping[str, str]) -> dict[str, ExerciseResult]:
        """Results of the exercises with these fingerprints, found under the current conditions in other submissions."""
        found: dict[str, ExerciseResult] = {}
        for exercise in self._exercises:
            if fingerprint := fingerprints.get(exercise.name):
                rows = self._query(
                    "SELECT tests, diagnosis, forbidden, partial, missing_weight FROM equal_exercises JOIN results USING (conditions, digest, exercise) "
                    "WHERE conditions = ? AND fingerprint = ? AND exercise = ?",
                    self._conditions, fingerprint, exercise.name,
                )  # fmt: skip
                with self._damage_check():
                    for row in rows:
                        found[exercise.name] = columns.parse_result(exercise, *row)
        return found

    def store_verdict(self, digest: str, verdict: Verdict | str, fingerprints: Mapping[str, Iterable[str]] = MappingProxyType({})) -> None:
        """Store the verdict on this content, or the sentence that says why it is missing. It is on disk when this returns.

        `fingerprints` are, by exercise, those under which its result counts for other submissions too.
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
                (*key, columns.to_json(sorted(covers)), "" if whole else _to_storable(str(verdict)), columns.to_json(broken), columns.to_json(found.notes)),
            )
            if whole:
                self._database.execute("DELETE FROM judged_alone WHERE digest = ?", (digest,))
            for result in found.results:
                self._database.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *columns.make_row(sanitize.result(result))))
                self._database.execute("DELETE FROM equal_exercises WHERE conditions = ? AND digest = ? AND exercise = ?", (*key, result.exercise.name))
                for fingerprint in fingerprints.get(result.exercise.name, ()):
                    row = (self._conditions, fingerprint, result.exercise.name, digest)
                    self._database.execute("INSERT OR IGNORE INTO equal_exercises VALUES (?, ?, ?, ?)", row)

    def delete_verdicts(self, name: str) -> list[str]:
        """Delete all results of this person's submission, so that it is graded again; return the names of all who handed in the same content."""
        with self._transaction():
            rows = self._query("SELECT name, slug, digest FROM people ORDER BY name")
            with self._damage_check():
                people = [columns.require_texts(row) for row in rows]
            digests = {digest for known, slug, digest in people if _to_storable(name) in (known, slug, f"{sanitize.line(known)} ({slug})")}
            if not digests:
                raise GradebookProblem(_describe_unknown_name(name, [row[0] for row in people]))
            for digest in digests - {""}:
                self._database.execute("DELETE FROM verdicts WHERE digest = ?", (digest,))
                self._database.execute("INSERT OR IGNORE INTO judged_alone VALUES (?)", (digest,))
        return [known for known, slug, digest in people if digest in digests and (digest or _to_storable(name) in (known, slug, f"{sanitize.line(known)} ({slug})"))]

    def is_judged_alone(self, digest: str) -> bool:
        """Whether somebody asked to grade this content again: then no result of an equal exercise is used for it, until it has a verdict."""
        return bool(self._query("SELECT 1 FROM judged_alone WHERE digest = ?", digest))

    def graded_class(self, rules: Rules) -> GradedClass:
        """The class with its marks, all texts sanitized. The order in which submissions were graded makes no difference."""
        rows = self._query("SELECT * FROM people ORDER BY rowid")  # by name
        with self._damage_check():
            people = [_parse_submission(columns.require_texts(row[:-1]), bool(row[-1])) for row in rows]
        found: dict[str, Verdict | str] = {}
        for person in people:
            if not person.problem and person.digest not in found:
                found[person.digest] = self._stored_verdict(person.digest)
        names = _distinct_names(people)
        return GradedClass(
            tuple(self._person(person, names[person.slug], found.get(person.digest, ""), rules) for person in people),
            self._exercises, self._seed, self._versions,
        )  # fmt: skip

    def _person(self, person: StoredSubmission, name: str, found: Verdict | str, rules: Rules) -> Person:
        problem = person.problem or (found if isinstance(found, str) else "")
        verdict = found if isinstance(found, Verdict) and not problem else Verdict([])
        marks = scoring.compute_marks(verdict.results, self._exercises, rules.points_of)
        late = Lateness() if problem else rules.compute_lateness(person)
        return Person(
            name=name,
            slug=person.slug,
            digest=person.digest,
            problem=sanitize.line(problem),
            notes=tuple(sanitize.line(note) for note in (*person.notes, *verdict.notes, *([] if late.days else filter(None, [late.sentence])))),
            submitted=_to_iso(person.submitted),
            results=tuple(verdict.results),
            broken=dict(verdict.broken),
            marks=marks,
            late=sanitize.line(late.sentence) if late.days else "",
            total=scoring.compute_total(marks.values(), late.factor),
        )

    def _stored_verdict(self, digest: str) -> Verdict | str:
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


def _parse_submission(texts: Sequence[str], zone_known: bool) -> StoredSubmission:
    slug, name, digest, problem, notes, submitted = texts
    when = datetime.fromisoformat(submitted) if submitted else None
    if when and when.tzinfo is None:
        raise ValueError("a time has no time zone")
    return StoredSubmission(slug, name, digest, problem, tuple(columns.parse_names(notes)), when, zone_known)


def _distinct_names(people: Sequence[StoredSubmission]) -> dict[str, str]:
    """Each person's displayed name, by file name. Different names that look alike when displayed get their file name appended."""
    shown = {person.slug: sanitize.line(person.name) for person in people}
    alike: dict[str, set[str]] = {}
    for person in people:
        alike.setdefault(_visible_form(shown[person.slug]), set()).add(person.name)
    return {slug: f"{name} ({slug})" if len(alike[_visible_form(name)]) > 1 else name for slug, name in shown.items()}


def _visible_form(name: str) -> str:
    """A form that is equal for names that look alike: composed or decomposed letters, with or without invisible characters."""
    return "".join(character for character in unicodedata.normalize("NFKC", name) if unicodedata.category(character) != "Cf")


def _describe_changes(seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old_names: list[str]) -> str:
    """What differs from the last run, and the consequence, as a sentence; "" if nothing differs."""
    changed = [f"the seed ({old_seed}, now {seed})"] if seed != old_seed else []
    for name in sorted(versions.keys() | old_versions.keys()):
        old, new = old_versions.get(name, "unknown"), versions.get(name, "unknown")
        if old != new:
            changed.append("the kit (its grader, tests, solutions or syllabus)" if name == "kit" else f"{name} ({old}, now {new})")
    if changed:
        consequence = "Earlier results stay in the gradebook but do not count; submissions without results for the new settings are graded now."
        return f"Changed since the last run: {_join(changed)}. {consequence}"
    if more := [name for name in names if name not in old_names]:
        shown = _join(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions without results for these exercises are graded now."
    return ""


def _join(things: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(things[:-1]), things[-1]]))


def _describe_unknown_name(name: str, known: list[str]) -> str:
    if not known:
        return "this gradebook has no submissions yet; run `headway grade` first"
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    offer = f"; did you mean {' or '.join(near)}?" if near else "; grades.csv lists all names"
    return sanitize.line(f"no person in this gradebook is called {name}{offer}")


def _sort_key(person: Submission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def _to_iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def _to_storable(words: str) -> str:
    """Text that SQLite can store: a file name may contain bytes that are not valid text."""
    return words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
