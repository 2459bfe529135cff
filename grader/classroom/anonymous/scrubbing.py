"""Replaces names in sentences: notes about submissions contain names of people and of their files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from grader.classroom.anonymous.key_file import KeyEntry

_WORD = re.compile(r"[^\W_]+")
_IN_FILE_NAME = frozenset("._-/\\@'\"")  # next to a word, these show that it is part of a file name or an address
_NAME_FOLLOWS = re.compile(r"(?:^|[:,] |\b(?:from|of|and|or|is|group|both|called) )$")
SHORTEST = 3  # characters of a part of a name, or of an id


class Scrubber:
    """Knows the names, e-mail addresses, logins and numbers of the people in a key, in the ways in which file names spell them."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        self._pseudonyms: dict[str, str] = {}  # by the words of a name or an id, in lower case and joined
        self._single: set[str] = set()  # those that may also be an ordinary word
        self._longest = 1
        for entry in entries:
            words = _WORD.findall(entry.name)
            self._add(words, entry.pseudonym)
            self._add([*words[-1:], *words[:-1]], entry.pseudonym)
            for name in ("email", "login", "number", "canvas_id", "moodle_id"):
                text = entry.ids.get(name, "")
                if len(text) >= SHORTEST:
                    self._add(_WORD.findall(text), entry.pseudonym)
                if name == "email" and len(account := text.partition("@")[0]) >= SHORTEST:
                    self._add(_WORD.findall(account), entry.pseudonym)

    def _add(self, words: list[str], pseudonym: str) -> None:
        joined = "".join(words).casefold()
        if joined:
            self._pseudonyms.setdefault(joined, pseudonym)
            self._longest = max(self._longest, len(words))
            if len(words) == 1 and joined.isalpha():
                self._single.add(joined)

    def scrub(self, text: str, owner: KeyEntry | None = None) -> str:
        """The text with pseudonyms. In sentences about `owner`, file names lose also single parts of the name."""
        parts = {word.casefold(): owner.pseudonym for word in _WORD.findall(owner.name) if len(word) >= SHORTEST} if owner else {}
        words = list(_WORD.finditer(text))
        pieces, end, place = [], 0, 0
        while place < len(words):
            for many in range(min(self._longest, len(words) - place), 0, -1):
                first, last = words[place], words[place + many - 1]
                found = self._find(text, first, last, parts)
                if found:
                    pieces += [text[end : first.start()], found]
                    end, place = last.end(), place + many
                    break
            else:
                place += 1
        return "".join([*pieces, text[end:]])

    def _find(self, text: str, first: re.Match[str], last: re.Match[str], parts: dict[str, str]) -> str:
        """The pseudonym that replaces these neighbouring words; "" if they are nobody's name."""
        between = text[first.start() : last.end()]
        if len(between) > 200 or re.search(r"[^\w@.,'-] |\s\s|;", between):
            return ""
        joined = "".join(_WORD.findall(between)).casefold()
        around = text[max(0, first.start() - 1) : first.start()] + text[last.end() : last.end() + 2]
        in_file_name = bool(_IN_FILE_NAME & set(around[:1])) or bool(re.match(r"[_\-/\\@'\"]|\.\w", text[last.end() :]))
        if joined in self._pseudonyms:
            in_list = bool(_NAME_FOLLOWS.search(text[max(0, first.start() - 12) : first.start()]))
            is_name = joined not in self._single or between[:1].isupper() or in_file_name or in_list
            return self._pseudonyms[joined] if is_name else ""
        return parts.get(joined, "") if in_file_name and first is last else ""
