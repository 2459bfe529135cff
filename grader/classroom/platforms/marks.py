"""The marks of one gradebook, each with everything that is known about whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.term.roster import FIELDS, Roster, RosterPerson

IDS = tuple(name for name in FIELDS if name not in ("name", "section", "group"))


@dataclass(frozen=True)
class PersonMark:
    person: Person
    ids: dict[str, str] = field(default_factory=dict)  # fields of a RosterPerson that are known
    who: RosterPerson | None = None  # None if the person is not in the roster

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def is_graded(self) -> bool:
        """False if the submission is not graded yet; or if it could not be graded, and the instructor gave no points."""
        return not self.person.waiting and (not self.person.problem or bool(self.person.given))

    @property
    def earned(self) -> Decimal:
        return self.person.total.earned

    @property
    def points(self) -> Decimal:
        return self.person.total.points


def collect_marks(graded: GradedClass, ids: Mapping[str, Mapping[str, str]], roster: Roster) -> list[PersonMark]:
    """A mark for each person, with the ids from the names of submitted files, and the other ones from the roster."""
    found = []
    for person in (one for one in graded.people if not one.missing or one.given):
        who = roster.find(person.name)
        known = {name: value for name in IDS if who and (value := getattr(who, name))}
        found.append(PersonMark(person, {**known, **ids.get(person.slug, {})}, who))
    return found
