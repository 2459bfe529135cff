"""The record of a class, grades/gradebook.sqlite: who handed in what, and what was found out about it.

What was found belongs to the content that was handed in and to the conditions it was found under (seed, kit, torch, Python), so equal
submissions are graded once, and results found under other conditions are kept without ever being mixed in. One transaction for each
submission: a grader that is killed has lost at most those it was at, and the next start goes on from there.

A rollback journal, not a write-ahead log: a gradebook is copied, mailed and kept on network drives, so it should be one file that is
whole after every submission, and at one small commit a submission a log would save nothing. FULL makes a commit outlast a power cut.
The lock is held until `close`, and the system takes it from a process that dies. A process that was forked from this one must leave by
`os._exit` and not touch the gradebook: SQLite's connections and locks do not outlast a fork.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.gradebook import columns as columns
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.sqlite_file import GradebookProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.rules import Late, Rules
from grader.course.syllabus import Exercise
from grader.verdict.results import Failure
from grader.verdict.summary import Verdict

REMEMBERED = 5  # conditions whose results are kept: going back to one costs nothing, and a term of updates does not fill the disk
UNFINISHED = "the grader has not come to it yet; run the same command again to go on"


@dataclass(frozen=True)
class HandedIn:
    """One person's submission as the gradebook remembers it: a Submission without what it holds, and enough to say whether it was late."""

    slug: str
    name: str
    digest: str
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool


class Gradebook:
    """Open it, `begin` a run, ask for the `submissions_to_do`, `keep` each verdict, and take out the class as `graded`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / sqlite_file.NAME
        self._database = sqlite_file.connect(folder)
        self._conditions = 0
        self._seed = 0
        self._versions: dict[str, str] = {}
        self._exercises: tuple[Exercise, ...] = ()

    @classmethod
    def open(cls, folder: Path) -> Gradebook:
        """The gradebook in `folder`, made where there is none. GradebookProblem, in a sentence, where it cannot be used."""
        return cls(folder)

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        sqlite_file.close(self._database)

    def begin(self, seed: int, exercises: Sequence[Exercise], versions: dict[str, str]) -> str:
        """From here on, this is what counts. Returns a sentence for the instructor where the last run asked for something else."""
        self._seed, self._versions, self._exercises = seed, dict(versions), tuple(exercises)
        names = [exercise.name for exercise in exercises]
        with self._transaction():
            last = self._all("SELECT seed, versions, exercises FROM run JOIN conditions ON id = conditions")
            words = (str(seed), columns.written(self._versions))
            self._database.execute(
                "INSERT INTO conditions (seed, versions, turn) VALUES (?, ?, (SELECT ifnull(max(turn), 0) + 1 FROM conditions)) "
                "ON CONFLICT (seed, versions) DO UPDATE SET turn = excluded.turn",
                words,
            )
            [(self._conditions,)] = self._all("SELECT id FROM conditions WHERE seed = ? AND versions = ?", *words)
            self._database.execute("DELETE FROM verdicts WHERE conditions NOT IN (SELECT id FROM conditions ORDER BY turn DESC LIMIT ?)", (REMEMBERED,))
            self._database.execute("INSERT OR REPLACE INTO run VALUES (1, ?, ?)", (self._conditions, columns.written(names)))
            return _since(seed, self._versions, names, *self._last(*last[0])) if last else ""

    def submissions_to_do(self, submissions: Iterable[Submission]) -> list[Submission]:
        """Writes down who handed in what, and returns what is still to be graded: one submission for each content, in the order of names."""
        submissions = sorted(submissions, key=_by_name)
        rows = [(_text(s.slug), _text(s.name), s.digest, _text(s.problem), columns.written(s.notes), _when(s.submitted), s.zone_known) for s in submissions]
        asked = {exercise.name for exercise in self._exercises}
        with self._transaction():
            self._database.execute("DELETE FROM people")
            self._database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            kept = self._all("SELECT digest, exercises FROM verdicts WHERE conditions = ?", self._conditions)
        with self._whole():
            done = {digest for digest, exercises in kept if asked <= set(columns.names(exercises))}
        return list({s.digest: s for s in reversed(submissions) if not s.problem and s.digest not in done}.values())[::-1]

    def contents(self) -> dict[str, tuple[str, str]]:
        """Who is in the class, by file name: their name, and which content they handed in."""
        people = self._all("SELECT slug, name, digest FROM people")
        with self._whole():
            return {slug: (sanitize.line(name), digest) for slug, name, digest in map(columns.texts, people)}

    def keep(self, digest: str, verdict: Verdict | str) -> None:
        """What was found out about this content, or the sentence that says why nothing could be: on disk when this returns.

        Such a sentence is about the grader and not about the content, so it covers no exercise, and the next run tries again.
        """
        whole = isinstance(verdict, Verdict)
        found = verdict if isinstance(verdict, Verdict) else Verdict([])
        covers = {exercise.name for exercise in self._exercises} if whole else set()
        broken = {module: vars(words) for module, words in found.broken.items()}
        key = (self._conditions, digest)
        with self._transaction():
            for exercises, problem, others in self._all("SELECT exercises, problem, broken FROM verdicts WHERE conditions = ? AND digest = ?", *key):
                if whole and not problem:  # results for other exercises stay: under equal conditions they are as good as new
                    now = {exercise.module for exercise in self._exercises}
                    with self._whole():
                        covers |= set(columns.names(exercises))
                        broken |= {module: words for module, words in columns.failures(others).items() if module not in now}
                else:
                    self._database.execute("DELETE FROM verdicts WHERE conditions = ? AND digest = ?", key)
            self._database.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (conditions, digest) DO UPDATE SET exercises = excluded.exercises, broken = excluded.broken, notes = excluded.notes",
                (*key, columns.written(sorted(covers)), "" if whole else _text(str(verdict)), columns.written(broken), columns.written(found.notes)),
            )
            for result in found.results:
                self._database.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *columns.row(result)))

    def forget(self, name: str) -> list[str]:
        """Everything found out about this person's submission, so that it is graded anew; returns the names of all who handed in the same."""
        with self._transaction():
            rows = self._all("SELECT name, slug, digest FROM people ORDER BY name")
            with self._whole():
                people = [columns.texts(row) for row in rows]
            digests = {digest for known, slug, digest in people if _text(name) in (known, slug, f"{sanitize.line(known)} ({slug})")}
            if not digests:
                raise GradebookProblem(_unknown(name, [row[0] for row in people]))
            for digest in digests - {""}:
                self._database.execute("DELETE FROM verdicts WHERE digest = ?", (digest,))
        return [known for known, slug, digest in people if digest in digests and (digest or _text(name) in (known, slug, f"{sanitize.line(known)} ({slug})"))]

    def graded(self, rules: Rules) -> GradedClass:
        """The class as of now, every word of it harmless to show: the same for the same submissions, in whatever order they were graded."""
        rows = self._all("SELECT * FROM people ORDER BY rowid")  # by name
        with self._whole():
            people = [_handed_in(columns.texts(row[:-1]), bool(row[-1])) for row in rows]
        found: dict[str, Verdict | str] = {}
        for person in people:
            if not person.problem and person.digest not in found:
                found[person.digest] = self._found(person.digest)
        names = _names_apart(people)
        return GradedClass(
            tuple(self._person(person, names[person.slug], found.get(person.digest, ""), rules) for person in people),
            self._exercises, self._seed, self._versions,
        )  # fmt: skip

    def _person(self, person: HandedIn, name: str, found: Verdict | str, rules: Rules) -> Person:
        problem = person.problem or (found if isinstance(found, str) else "")
        verdict = found if isinstance(found, Verdict) and not problem else Verdict([])
        marks = scoring.marks_of(verdict.results, self._exercises, rules.points_of)
        late = Late() if problem else rules.late(person)
        return Person(
            name=name,
            slug=person.slug,
            digest=person.digest,
            problem=sanitize.line(problem),
            notes=tuple(sanitize.line(note) for note in (*person.notes, *verdict.notes, *([] if late.days else filter(None, [late.sentence])))),
            submitted=_when(person.submitted),
            results=tuple(verdict.results),
            broken=dict(verdict.broken),
            marks=marks,
            late=sanitize.line(late.sentence) if late.days else "",
            total=scoring.total(marks.values(), late.factor),
        )

    def _found(self, digest: str) -> Verdict | str:
        """What is kept of this content under the conditions that count, for the exercises asked for; or why there is nothing."""
        key = (self._conditions, digest)
        verdicts = self._all("SELECT exercises, problem, broken, notes FROM verdicts WHERE conditions = ? AND digest = ?", *key)
        if not verdicts:
            return UNFINISHED
        exercises, problem, broken, notes = verdicts[0]
        rows = {row[0]: row for row in self._all(
            "SELECT exercise, tests, diagnosis, forbidden, partial, missing_weight FROM results WHERE conditions = ? AND digest = ?", *key
        )}  # fmt: skip
        modules = {exercise.module for exercise in self._exercises}
        with self._whole():
            [problem] = columns.texts([problem])
            if problem:
                return problem
            if not {exercise.name for exercise in self._exercises} <= set(columns.names(exercises)):
                return UNFINISHED
            results = [columns.result(exercise, *rows[exercise.name][1:]) for exercise in self._exercises if exercise.name in rows]
            failures = {module: Failure(**words) for module, words in sorted(columns.failures(broken).items()) if module in modules}
            words = {module: sanitize.failure(failure) for module, failure in failures.items()}
            return Verdict(results, words, notes=columns.names(notes))

    def _transaction(self):
        return sqlite_file.transaction(self._database, self.path)

    def _all(self, query: str, *values: object) -> list[tuple]:
        with sqlite_file.told(self.path):
            return self._database.execute(query, values).fetchall()

    def _last(self, seed: str, versions: str, exercises: str) -> tuple[int, dict[str, str], list[str]]:
        """What the last run asked for."""
        with self._whole():
            return int(seed), columns.words(versions), columns.names(exercises)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What is in there and is not what is written there was damaged, in a way that SQLite cannot see."""
        try:
            yield
        except columns.DAMAGE as error:
            raise GradebookProblem(sqlite_file.damaged(self.path)) from error


def _handed_in(texts: Sequence[str], zone_known: bool) -> HandedIn:
    slug, name, digest, problem, notes, submitted = texts
    when = datetime.fromisoformat(submitted) if submitted else None
    if when and when.tzinfo is None:
        raise ValueError("a time without a zone")
    return HandedIn(slug, name, digest, problem, tuple(columns.names(notes)), when, zone_known)


def _names_apart(people: Sequence[HandedIn]) -> dict[str, str]:
    """By file name, each person's name as it is shown. Names that differ, and look alike when they are shown, have the file name behind them."""
    shown = {person.slug: sanitize.line(person.name) for person in people}
    alike: dict[str, set[str]] = {}
    for person in people:
        alike.setdefault(_looks(shown[person.slug]), set()).add(person.name)
    return {slug: f"{name} ({slug})" if len(alike[_looks(name)]) > 1 else name for slug, name in shown.items()}


def _looks(name: str) -> str:
    """The same for two names that a reader cannot tell apart: composed or not, with or without characters that are not seen."""
    return "".join(character for character in unicodedata.normalize("NFKC", name) if unicodedata.category(character) != "Cf")


def _since(seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old_names: list[str]) -> str:
    """What is different from the last run, and what follows from that."""
    changed = [f"the seed ({old_seed}, now {seed})"] if seed != old_seed else []
    for name in sorted(versions.keys() | old_versions.keys()):
        old, new = old_versions.get(name, "unknown"), versions.get(name, "unknown")
        if old != new:
            changed.append("the kit (its grader, tests, solutions or syllabus)" if name == "kit" else f"{name} ({old}, now {new})")
    if changed:
        kept = "Earlier results stay in the gradebook and do not count; what was not graded this way yet is graded now."
        return f"Changed since the last run: {_listed(changed)}. {kept}"
    if more := [name for name in names if name not in old_names]:
        shown = _listed(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions that were not graded in that yet are graded now."
    return ""


def _listed(things: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(things[:-1]), things[-1]]))


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return "nobody has been graded in this gradebook yet"
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    offer = f"; did you mean {' or '.join(near)}?" if near else "; grades.csv names all who are in it"
    return sanitize.line(f"nobody in this gradebook is called {name}{offer}")


def _by_name(person: Submission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def _when(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def _text(words: str) -> str:
    """Text that SQLite can keep: a file name may hold bytes that are no letters."""
    return words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
