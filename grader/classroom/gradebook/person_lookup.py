"""Finds a person of a gradebook, or of the roster, whom the instructor names."""

from __future__ import annotations

from grader.classroom.gradebook.columns import to_storable
from grader.classroom.gradebook.corrections import Owner
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.sqlite_file import GradebookProblem
from grader.classroom.sanitize import line, shorten
from grader.classroom.term.person_finder import Known, describe_several, find_people, from_ids, from_roster, suggest_person
from grader.classroom.term.roster import NO_ROSTER, Roster


def find_person(book: Gradebook, text: str, roster: Roster = NO_ROSTER) -> Known:
    """The person whom this text means, also one of the roster without a submission. GradebookProblem, with what to write, if that is no person or several."""
    known = list_known(book, roster)
    found = find_people(to_storable(text), known)
    if len(found) == 1:
        return found[0]
    if found:
        raise GradebookProblem(describe_several(text, found))
    if not known:
        raise GradebookProblem("this gradebook has no submissions yet; run `headway grade` first")
    offer = suggest_person(text, known) or "; grades.csv lists all names"
    raise GradebookProblem(line(f"no person in this gradebook is called {shorten(text)}{offer}", 2000))


def find_owner(book: Gradebook, text: str, roster: Roster = NO_ROSTER) -> Owner:
    """The person that an override or a remark is for, found in the same way."""
    person = find_person(book, text, roster)
    is_shared = [name for name, _ in book.list_people().values()].count(person.name) > 1
    return Owner(person.name, person.slug if is_shared else "")


def list_known(book: Gradebook, roster: Roster) -> list[Known]:
    """Everybody in the gradebook, and the people of the roster without a submission."""
    names, ids = {slug: name for slug, (name, _) in book.list_people().items()}, book.list_ids()
    known = [from_ids(name, slug, ids.get(slug, {}), roster.find(name)) for slug, name in names.items()]
    missing = set(roster.find_missing(names.values()))
    return known + [from_roster(person) for person in roster.people if person.name in missing]
