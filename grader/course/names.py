"""What a typed name means: letter case and separators do not matter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MIN_SIMILARITY = 0.5  # difflib's ratio, of a name that is offered
MAX_SIMILARITY_GAP = 0.2  # by how much less similar a second one may be


def normalise(text: str) -> str:
    """Lower case, with one space for each run of spaces, hyphens and underscores."""
    return " ".join(re.split(r"[\s_-]+", text.strip().lower()))


def match_name(typed: str, names: Iterable[str]) -> str | None:
    """The name that equals the typed one apart from letter case and separators; an exactly equal one first."""
    known = list(names)
    if typed in known:
        return typed
    return next((name for name in known if normalise(name) == normalise(typed)), None)


def unknown_name(kind: str, name: str, known: Iterable[str], listed_by: str = "headway list") -> str:
    """The sentence that there is no such name, with the names that are similar."""
    folded = {candidate.lower(): candidate for candidate in known}
    near = [folded[word] for word in similar(name.lower(), list(folded))]
    advice = f"did you mean {' or '.join(near)}?" if near else f"`{listed_by}` lists them all"
    return f"there is no {kind} called {name!r}; {advice}"


def similar(word: str, known: list[str]) -> list[str]:
    """The most similar word, and a second one unless it is much less similar."""
    near = difflib.get_close_matches(word, known, n=2, cutoff=MIN_SIMILARITY)
    ratios = [difflib.SequenceMatcher(None, other, word).ratio() for other in near]
    return [other for other, ratio in zip(near, ratios, strict=True) if ratio >= ratios[0] - MAX_SIMILARITY_GAP]
