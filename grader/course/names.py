"""What a typed name means: letter case and separators do not matter, and a few words of a chapter's title are enough."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

SHORTEST = 3  # letters of a word that is not complete
SIMILAR, MUCH_LESS = 0.5, 0.2  # difflib's ratio: of a name that is offered, and by how much less similar the second one may be


def normalise(text: str) -> str:
    """Lower case, with one space for each run of spaces, hyphens and underscores."""
    return " ".join(re.split(r"[\s_-]+", text.strip().lower()))


def match_name(typed: str, names: Iterable[str]) -> str | None:
    """The name that equals the typed one apart from letter case and separators; an exactly equal one first."""
    known = list(names)
    if typed in known:
        return typed
    return next((name for name in known if normalise(name) == normalise(typed)), None)


def match_titles(typed: str, titles: Mapping[str, str]) -> list[str]:
    """The keys of the titles that fit: those equal to `typed`; else those that begin with it; else those that contain all its words."""
    wanted = normalise(typed)
    words = wanted.split(" ")
    known = {key: normalise(title) for key, title in titles.items()}
    for fits in (
        lambda title: title == wanted,
        lambda title: f"{title} ".startswith(f"{wanted} ") or (len(wanted) >= SHORTEST and title.startswith(wanted)),
        lambda title: all(any(word == part or (len(word) >= SHORTEST and part.startswith(word)) for part in title.split(" ")) for word in words),
    ):
        found = [key for key, title in known.items() if fits(title)]
        if found:
            return found
    return []


def unknown_name(kind: str, name: str, known: Iterable[str], titles: Iterable[str] = ()) -> str:
    """The sentence that there is no such name, with the names that are similar."""
    folded = {candidate.lower(): candidate for candidate in [*known, *titles]}
    near = [folded[word] for word in similar(name.lower(), list(folded))]
    return f"there is no {kind} called {name!r}" + (f"; did you mean {join_or(near)}?" if near else "; `headway list` lists them all")


def similar(word: str, known: list[str]) -> list[str]:
    """The most similar word, and a second one unless it is much less similar."""
    near = difflib.get_close_matches(word, known, n=2, cutoff=SIMILAR)
    ratios = [difflib.SequenceMatcher(None, other, word).ratio() for other in near]
    return [other for other, ratio in zip(near, ratios, strict=True) if ratio >= ratios[0] - MUCH_LESS]


def join_or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
