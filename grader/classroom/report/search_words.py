"""The words by which the search of a page finds a person, besides the name."""

from __future__ import annotations

from grader.classroom.term.roster import RosterPerson


def search_words(who: RosterPerson | None) -> str:
    """What the roster says about this person; nothing about a person who is not in it."""
    return " ".join(filter(None, (who.login, who.number, who.email, who.section, who.group))) if who else ""
